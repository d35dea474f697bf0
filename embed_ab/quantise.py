"""Vectors in fewer bytes, and exact search in them.

The float32 vectors of a model are stored and shared as ever; what is here happens after. Codes,
distances and the scores of rescoring are those of sentence_transformers.util.quantization, whose
index of documents holds codes only: no float vector of a document is kept for rescoring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from embed_ab.search import PRODUCTS_AT_ONCE, QUERIES_AT_ONCE

Precision = Literal["float32", "int8", "ubinary"]
PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
OVERSAMPLING: Final = 4
"""With rescoring, so many times the depth are candidates unless another number is asked for."""

_BLOCK = 2048  # documents at once
_EXACT_TERMS = 1024  # products of two int8 that float32 sums without rounding: 2^14 · 2^10 = 2^24
_INDEX_BITS: Final = 32
_NOTHING: Final = np.iinfo(np.int64).max


def bytes_per_vector(dimension: int, precision: Precision) -> int:
    """Return what one vector takes; for ubinary the last byte may be part empty."""
    return {"float32": 4 * dimension, "int8": dimension, "ubinary": -(-dimension // 8)}[precision]


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """Where the 256 steps of each dimension begin and how wide they are; float32 (dimension,)."""

    starts: NDArray[np.float32]
    steps: NDArray[np.float32]

    @classmethod
    def of(cls, documents: NDArray[np.float32]) -> Ranges:
        """Return the ranges from each dimension's least to its greatest value.

        documents: (n_documents, dimension), at least one; they calibrate queries as well.
        """
        starts = documents.min(axis=0)
        steps = (documents.max(axis=0) - starts) / np.float32(255)
        return cls(starts=starts, steps=np.where(steps == 0, np.float32(1), steps))

    def codes(self, vectors: NDArray[np.float32]) -> NDArray[np.int8]:
        """Return the steps that values fall into, from −128 to 127; (n, dimension).

        A value outside the ranges, as a query may have, falls into the nearest step.
        """
        codes = np.empty(vectors.shape, dtype=np.int8)
        for start in range(0, len(vectors), _BLOCK):
            part = slice(start, start + _BLOCK)
            steps = np.clip(np.floor((vectors[part] - self.starts) / self.steps), 0, 255)
            codes[part] = steps - 128
        return codes

    def values(self, codes: NDArray[np.int8]) -> NDArray[np.float64]:
        """Return the value at which each step begins; (n, dimension)."""
        return (codes.astype(np.float64) + 128) * self.steps + self.starts


def signs(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a bit for each dimension, 1 above 0, packed; (n, ceil(dimension / 8))."""
    return np.packbits(vectors > 0, axis=-1)


def top_k(
    queries: NDArray[np.float32],
    documents: NDArray[np.float32],
    depth: int,
    precision: Precision,
    *,
    n_rescored: int,
    block: int = _BLOCK,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return each query's `depth` best documents by their codes, ties by ascending index.

    queries: (n_queries, dimension), finite, L2-normalised.
    documents: (n_documents, dimension), the same; with int8 they calibrate.
    precision: "int8": inner product of the codes of query and document.
        "ubinary": Hamming distance of their bits, the score is its negative.
    n_rescored: so many of the best by that are ordered anew by the inner product of the float
        query with the document's values, where a bit counts as 0 or 1, and no others are returned;
        0 takes the order of the codes.
    block: documents at once; bounds the memory and does not change the result.
    Returns: documents and scores, (n_queries, depth) each, best first; -1 and -inf where nothing.
    Source: sentence_transformers.util.quantization (`semantic_search_usearch`), whose
        rescore_multiplier times top_k is n_rescored.
    """
    if not len(documents):
        shape = len(queries), depth
        return np.full(shape, -1, dtype=np.int32), np.full(shape, -np.inf)
    if precision == "int8":
        ranges = Ranges.of(documents)
        codes, asked = ranges.codes(documents), ranges.codes(queries)

        def distances(rows: slice, columns: slice) -> NDArray[np.int64]:
            return -_products(asked[rows], codes[columns])

        def values(rows: NDArray[np.int32]) -> NDArray[np.float64]:
            return ranges.values(codes[rows])

    else:
        bits, words = signs(documents), _words(signs(documents))
        asked_words = _words(signs(queries))

        def distances(rows: slice, columns: slice) -> NDArray[np.int64]:
            return _hamming(asked_words[rows], words[columns])

        def values(rows: NDArray[np.int32]) -> NDArray[np.float64]:
            return np.unpackbits(bits[rows], axis=-1, count=queries.shape[1]).astype(np.float64)

    n_found = min(n_rescored, len(documents)) or depth
    found, scores = _nearest(distances, len(queries), len(documents), n_found, block)
    return _rescored(queries, values, found, depth) if n_rescored else (found, scores)


def _products(queries: NDArray[np.int8], documents: NDArray[np.int8]) -> NDArray[np.int64]:
    """The exact inner product of each query's codes with each document's; whole numbers."""
    if queries.shape[1] <= _EXACT_TERMS:
        return (queries.astype(np.float32) @ documents.astype(np.float32).T).astype(np.int64)
    return (queries.astype(np.float64) @ documents.astype(np.float64).T).astype(np.int64)


def _words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Bytes as rows of 64-bit words, filled up with zeros."""
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return padded.view(np.uint64)


def _hamming(queries: NDArray[np.uint64], documents: NDArray[np.uint64]) -> NDArray[np.int64]:
    """In how many bits each query and document differ; (n_queries, n_documents)."""
    distances = np.zeros((len(queries), len(documents)), dtype=np.int64)
    for word in range(queries.shape[1]):
        distances += np.bitwise_count(queries[:, word, None] ^ documents[None, :, word])
    return distances


def _nearest(
    distances: Callable[[slice, slice], NDArray[np.int64]],
    n_queries: int,
    n_documents: int,
    depth: int,
    block: int,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Each query's `depth` documents of least distance, ties by ascending index.

    Distance and index are one number, so that no two are equal and any order of search ends alike.
    """
    best = np.full((n_queries, depth), _NOTHING, dtype=np.int64)
    for start in range(0, n_queries, QUERIES_AT_ONCE):
        rows = slice(start, min(start + QUERIES_AT_ONCE, n_queries))
        for first in range(0, n_documents, block):
            columns = slice(first, min(first + block, n_documents))
            keys = distances(rows, columns) << _INDEX_BITS
            keys += np.arange(columns.start, columns.stop)
            both = np.concatenate([best[rows], keys], axis=1)
            best[rows] = np.partition(both, depth - 1, axis=1)[:, :depth]
    best.sort(axis=1)
    is_found = best != _NOTHING
    documents = np.where(is_found, best & (2**_INDEX_BITS - 1), -1).astype(np.int32)
    return documents, np.where(is_found, -(best >> _INDEX_BITS), -np.inf)


def _rescored(
    queries: NDArray[np.float32],
    values: Callable[[NDArray[np.int32]], NDArray[np.float64]],
    candidates: NDArray[np.int32],
    depth: int,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Order each query's candidates by the float query; (n_queries, depth).

    Each pair is summed on its own, as `search.pair_scores` does: equal codes score equal.
    """
    n_queries, n_given = candidates.shape
    scores = np.full((n_queries, n_given), -np.inf)
    n_rows = max(1, PRODUCTS_AT_ONCE // queries.shape[1])
    query, rank = np.nonzero(candidates >= 0)
    for start in range(0, len(query), n_rows):
        part = slice(start, start + n_rows)
        some = query[part], rank[part]
        products = queries[query[part]] * values(candidates[some])
        scores[some] = products.sum(axis=1)
    documents = np.full((n_queries, depth), -1, dtype=np.int32)
    kept = np.full((n_queries, depth), -np.inf)
    # Nothing (−1) scores −inf and so comes last.
    order = np.lexsort((candidates, -scores), axis=1)[:, :depth]
    documents[:, : order.shape[1]] = np.take_along_axis(candidates, order, axis=1)
    kept[:, : order.shape[1]] = np.take_along_axis(scores, order, axis=1)
    return documents, kept
