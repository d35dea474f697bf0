"""Rankings: exact search with one rule for ties, and TREC run files."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError

QUERIES_AT_ONCE = 512  # with 2,048 documents a tile of float32 scores is 4 MB and stays in cache
GROUP = 16  # documents that one maximum stands for
PRODUCTS_AT_ONCE = 2**19  # float64 products held while pairs are scored again: 4 MB


@dataclass(frozen=True, kw_only=True)
class Run:
    """The documents one system ranks for every query, best first.

    documents: (n_queries, depth) document indices, -1 where nothing.
    scores: (n_queries, depth), -inf where nothing.
    """

    name: str
    documents: NDArray[np.int32]
    scores: NDArray[np.float64]


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
    tile = np.empty((min(n_queries, QUERIES_AT_ONCE), block), dtype=np.float32)
    for first in range(0, n_documents, block):
        some_documents = np.asarray(documents[first : first + block])
        n_some = len(some_documents)
        for start in range(0, n_queries, QUERIES_AT_ONCE):
            rows = slice(start, min(start + QUERIES_AT_ONCE, n_queries))
            scores = tile[: rows.stop - start]
            np.matmul(queries[rows], some_documents.T, out=scores[:, :n_some])
            scores[:, n_some:] = -np.inf
            if is_candidate is not None:
                scores[:, :n_some][:, ~is_candidate[first : first + block]] = -np.inf
            groups = scores.reshape(len(scores), GROUP, width)
            best = groups.max(axis=1)
            if first == 0 and depth <= width:
                # The groups' maxima are scores of different documents: a floor before any search.
                floor[rows] = np.partition(best, width - depth, axis=1)[:, width - depth] - margin
            found.append(_above(groups, best, floor[rows], start, first))
            if sum(map(len, found)) > 4 * n_queries * depth:
                found = [_narrow(_joined(found), depth, margin, floor)]
                if len(found[0]) > 2 * n_queries * depth:  # many scores within the margin
                    found = [_settled(found[0], queries, documents, depth)[0]]

    pairs, exact = _settled(_joined(found), queries, documents, depth)
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
    documents = np.flatnonzero(is_kept)
    if len(documents) > depth:
        kept = scores[documents]
        floor = np.partition(kept, len(kept) - depth)[len(kept) - depth]
        documents = documents[kept >= floor]
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

    groups: (n_rows, GROUP, width) scores; group c holds columns c, c + width, c + 2 width ...
    best: (n_rows, width) the maximum of each group.
    floor: (n_rows,)
    """
    row, group = np.nonzero(best > floor[:, None])
    scores = groups[row, :, group]
    which, member = np.nonzero(scores > floor[row][:, None])
    return _Pairs(
        queries=(first_query + row[which]).astype(np.int32),
        documents=(first_document + member * groups.shape[2] + group[which]).astype(np.int32),
        scores=scores[which, member],
    )


def _narrow(pairs: _Pairs, depth: int, margin: np.float32, floor: NDArray[np.float32]) -> _Pairs:
    """Raise the floors (in place) to what `pairs` prove, and return the pairs above them."""
    pairs = pairs[np.lexsort((-pairs.scores, pairs.queries))]
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


def write_trec(run: Run, query_ids: Sequence[str], document_ids: Sequence[str], path: Path) -> None:
    """Write a TREC run file; gzip by the suffix `.gz`, the same bytes for the same run.

    TREC tools ignore the rank, hold scores as float32 and order ties by descending id. So that all
    of them see our order, a score that is not below the one before it in float32 is written as the
    next lower float32; every other keeps its value.

    Raises: InputError for an id with white space, or a place that cannot be written.
    """
    for what, ids in (("query", query_ids), ("document", document_ids)):
        for each in ids:
            if each.split() != [each]:
                raise InputError(
                    f"{what} id {each!r} cannot be written to the run file {path}: "
                    "it is empty or has white space",
                    hint="A TREC run file separates its columns by blanks: rename the id, "
                    "or do without run files.",
                )
    tag = "_".join(run.name.split()) or "run"
    lines = []
    for query, ranked, scores in zip(
        query_ids, run.documents, _strictly_decreasing(run.scores), strict=True
    ):
        for rank, (document, score) in enumerate(zip(ranked, scores, strict=True), start=1):
            if document >= 0:
                lines.append(f"{query} Q0 {document_ids[document]} {rank} {score:.9g} {tag}\n")
    content = "".join(lines).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise InputError(
            f"the run file {path} cannot be written: {error.strerror}",
            hint="Name a folder that can be written to.",
        ) from error


def _strictly_decreasing(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    lowered = scores.astype(np.float32)
    for rank in range(1, lowered.shape[1]):
        below = np.nextafter(lowered[:, rank - 1], np.float32(-np.inf))
        lowered[:, rank] = np.minimum(lowered[:, rank], below)
    return lowered


def read_trec(path: Path, query_ids: Sequence[str], document_ids: Sequence[str]) -> Run:
    """Read a TREC run file (gzip by the suffix `.gz`); its name is the tag of its first line.

    As every TREC tool does, this goes by the scores and ignores the ranks; documents of one score
    are ordered by ascending index.

    Raises: InputError that names the line, for anything but six columns, a score that is not a
        number, an unknown id, or a document given twice for a query.
    """
    row_of = {query: row for row, query in enumerate(query_ids)}
    index_of = {document: index for index, document in enumerate(document_ids)}
    found: list[dict[int, float]] = [{} for _ in query_ids]
    name = ""
    for number, line in enumerate(io.StringIO(_text(path)), start=1):
        columns = line.split()
        if not columns:
            continue
        place = f"{path}:{number}"
        if len(columns) != 6:
            raise InputError(
                f"{place}: {len(columns)} columns instead of 6",
                hint="A line of a TREC run file is: query-id Q0 document-id rank score name.",
            )
        query, _, document, _, score_text, tag = columns
        name = name or tag
        if query not in row_of:
            raise InputError(
                f"{place}: the evaluation set has no query '{query}'",
                hint="Take a run made from this evaluation set, or remove the query's lines.",
            )
        if document not in index_of:
            raise InputError(
                f"{place}: the evaluation set has no document '{document}'",
                hint="Take a run made from this evaluation set.",
            )
        if index_of[document] in found[row_of[query]]:
            raise InputError(
                f"{place}: document '{document}' is there a second time for query '{query}'",
                hint="A run ranks each document once for a query: remove one of the lines.",
            )
        found[row_of[query]][index_of[document]] = _score(score_text, place)
    if not name:
        raise InputError(f"{path}: the run file has no lines", hint="Was the run written at all?")
    depth = max(map(len, found))
    documents = np.full((len(found), depth), -1, dtype=np.int32)
    scores = np.full((len(found), depth), -np.inf)
    for row, each in enumerate(found):
        ranked = sorted(each.items(), key=lambda pair: (-pair[1], pair[0]))
        for rank, (document_index, score) in enumerate(ranked):
            documents[row, rank], scores[row, rank] = document_index, score
    return Run(name=name, documents=documents, scores=scores)


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8", hint="Save the run file as UTF-8."
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path}: not a whole gzip file", hint="Make the file again, or drop the suffix .gz."
        ) from error
    except OSError as error:
        raise InputError(
            f"the run file {path} cannot be read: {error.strerror}", hint="Check the path."
        ) from error


def _score(text: str, place: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(
            f"{place}: score '{text}' is not a finite number",
            hint="The fifth column of a TREC run file is the score.",
        )
    return score
