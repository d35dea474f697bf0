"""Exact search: the best documents of each query, with one rule for ties.

The rule is score descending, then document index ascending; documents are sorted by id, so that
is ascending id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

QUERIES_AT_ONCE = 1024  # with 2,048 documents a tile of float32 scores is 8 MB
GROUP = 8  # documents that one maximum stands for
PRODUCTS_AT_ONCE = 2**17  # float64 products held while pairs are scored again: 1 MB, in cache


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """Query and document pairs, (n_pairs,) each, with their float32 scores."""

    queries: NDArray[np.int32]
    documents: NDArray[np.int32]
    scores: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> _Pairs:
        return _Pairs(
            queries=self.queries[chosen],
            documents=self.documents[chosen],
            scores=self.scores[chosen],
        )


def top_k(
    queries: NDArray[np.float32],
    documents: NDArray[np.float32],
    depth: int,
    *,
    is_candidate: NDArray[np.bool_] | None = None,
    block: int = 2048,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return each query's `depth` documents of highest cosine, ties by ascending index.

    queries: (n_queries, dimension), finite, L2-normalised.
    documents: (n_documents, dimension), the same; may be a memory map.
    is_candidate: (n_documents,) documents that may be retrieved; None for all.
    block: documents read at once; bounds the memory and does not change the result.
    Returns: documents and scores, (n_queries, depth) each, best first; -1 and -inf where nothing.

    The matrix product in float32 only leaves documents out, for its last bits change with block
    size and threads. What could be among the best whatever those bits are is scored again pair by
    pair (`pair_scores`), and that score decides.
    """
    n_queries, dimension = queries.shape
    n_documents = len(documents)
    width = -(-min(block, max(n_documents, 1)) // GROUP)
    block = width * GROUP
    # A float32 sum of n products of unit vectors is within n * 2^-24 of the exact value in any
    # order of summation (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section
    # 3.1). Both of two compared scores can be off by that; 16 more terms allow for norms that are
    # not quite 1, for the float64 sum, and for rounding the floor itself.
    margin = np.float32(2 * (dimension + 16) * 2.0**-24)

    floor = np.full(n_queries, -np.inf, dtype=np.float32)  # no score at or below it can be kept
    found = [_no_pairs()]
    n_found = 0
    tile = np.empty((block, min(n_queries, QUERIES_AT_ONCE)), dtype=np.float32)
    for first in range(0, n_documents, block):
        some_documents = np.asarray(documents[first : first + block])
        n_some = len(some_documents)
        for start in range(0, n_queries, QUERIES_AT_ONCE):
            rows = slice(start, min(start + QUERIES_AT_ONCE, n_queries))
            scores = tile[:, : rows.stop - start]
            np.matmul(some_documents, queries[rows].T, out=scores[:n_some])
            scores[n_some:] = -np.inf
            if is_candidate is not None:
                scores[:n_some][~is_candidate[first : first + block]] = -np.inf
            groups = scores.reshape(GROUP, width, -1)
            best = groups.max(axis=0)
            if first == 0 and depth <= width:
                # The groups' maxima are scores of different documents: a floor before any search.
                floor[rows] = np.partition(best, width - depth, axis=0)[width - depth] - margin
            found.append(_above(groups, best, floor[rows], start, first))
            n_found += len(found[-1])
            if n_found > 4 * n_queries * depth:
                narrowed = _narrow(_joined(found), depth, margin, floor)
                if len(narrowed) > 2 * n_queries * depth:  # many scores within the margin
                    narrowed, _ = _settled(narrowed, queries, documents, depth)
                found, n_found = [narrowed], len(narrowed)

    narrowed = _narrow(_joined(found), depth, margin, floor)
    pairs, exact = _settled(narrowed, queries, documents, depth)
    ranks = _ranks(pairs.queries, n_queries)
    best_documents = np.full((n_queries, depth), -1, dtype=np.int32)
    best_scores = np.full((n_queries, depth), -np.inf)
    best_documents[pairs.queries, ranks] = pairs.documents
    best_scores[pairs.queries, ranks] = exact
    return best_documents, best_scores


def pair_scores(
    queries: NDArray[np.float32],
    documents: NDArray[np.float32],
    query: NDArray[np.int32],
    document: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Return the float64 inner products of rows `query` of queries and `document` of documents.

    query, document: (n_pairs,) row indices.

    Products of two float32 are exact in float64, and each row is summed on its own along
    contiguous memory: a score depends on its two vectors only, not on the pairs beside it.
    """
    scores = np.empty(len(query))
    n_rows = max(1, PRODUCTS_AT_ONCE // queries.shape[1])
    for start in range(0, len(query), n_rows):
        part = slice(start, start + n_rows)
        products = np.multiply(queries[query[part]], documents[document[part]], dtype=np.float64)
        scores[part] = products.sum(axis=1)
    return scores


def rank_scores(
    scores: NDArray[np.floating],
    depth: int,
    *,
    is_candidate: NDArray[np.bool_] | None = None,
    positive_only: bool = False,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return one query's `depth` documents of highest score, ties by ascending index.

    scores: (n_documents,), one of each document, without NaN.
    is_candidate: (n_documents,) documents that may be retrieved; None for all.
    positive_only: leaves out scores of 0 and below, as BM25 needs it.
    Returns: documents and scores, (depth,) each, best first; -1 and -inf where nothing.
    """
    is_kept = np.ones(len(scores), dtype=bool) if is_candidate is None else is_candidate
    if positive_only:
        is_kept = is_kept & (scores > 0)
    if np.count_nonzero(is_kept) > depth:
        is_kept = is_kept & (scores >= np.partition(scores[is_kept], -depth)[-depth])
    documents = np.flatnonzero(is_kept)
    documents = documents[np.argsort(-scores[documents], kind="stable")[:depth]]
    ranked = np.full(depth, -1, dtype=np.int32)
    ranked_scores = np.full(depth, -np.inf)
    ranked[: len(documents)] = documents
    ranked_scores[: len(documents)] = scores[documents]
    return ranked, ranked_scores


def _no_pairs() -> _Pairs:
    nothing = np.empty(0, dtype=np.int32)
    return _Pairs(queries=nothing, documents=nothing, scores=nothing.astype(np.float32))


def _joined(parts: Sequence[_Pairs]) -> _Pairs:
    return _Pairs(
        queries=np.concatenate([part.queries for part in parts]),
        documents=np.concatenate([part.documents for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
    )


def _above(
    groups: NDArray[np.float32],
    best: NDArray[np.float32],
    floor: NDArray[np.float32],
    first_query: int,
    first_document: int,
) -> _Pairs:
    """Return the pairs of a tile with scores above their query's floor.

    groups: (GROUP, width, n_rows) scores; group c holds documents c, c + width, c + 2 width ...
    best: (width, n_rows) the maximum of each group.
    floor: (n_rows,)
    """
    _, width, n_rows = groups.shape
    group, row = np.divmod(np.flatnonzero(best > floor), n_rows)
    scores = groups[:, group, row]
    member, which = np.divmod(np.flatnonzero(scores > floor[row]), max(1, len(row)))
    return _Pairs(
        queries=(first_query + row[which]).astype(np.int32),
        documents=(first_document + member * width + group[which]).astype(np.int32),
        scores=scores[member, which],
    )


def _narrow(pairs: _Pairs, depth: int, margin: np.float32, floor: NDArray[np.float32]) -> _Pairs:
    """Raise the floors (in place) to what `pairs` prove, and return the pairs above them."""
    pairs = pairs[np.argsort(-pairs.scores)]  # with the next line: half the time of lexsort
    pairs = pairs[np.argsort(pairs.queries, kind="stable")]
    last = _ranks(pairs.queries, len(floor)) == depth - 1
    full = pairs.queries[last]
    floor[full] = np.maximum(floor[full], pairs.scores[last] - margin)
    return pairs[pairs.scores > floor[pairs.queries]]


def _settled(
    pairs: _Pairs,
    queries: NDArray[np.float32],
    documents: NDArray[np.float32],
    depth: int,
) -> tuple[_Pairs, NDArray[np.float64]]:
    """Return each query's `depth` best pairs by the rule, in order, and their float64 scores."""
    exact = pair_scores(queries, documents, pairs.queries, pairs.documents)
    order = np.lexsort((pairs.documents, -exact, pairs.queries))
    pairs, exact = pairs[order], exact[order]
    kept = _ranks(pairs.queries, len(queries)) < depth
    return pairs[kept], exact[kept]


def _ranks(queries: NDArray[np.int32], n_queries: int) -> NDArray[np.intp]:
    """Return the place of each pair within its query, from 0; queries are sorted."""
    counts = np.bincount(queries, minlength=n_queries)
    return np.arange(len(queries)) - np.repeat(np.cumsum(counts) - counts, counts)
