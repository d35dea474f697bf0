"""How much two rankings agree, whatever is relevant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Documents = NDArray[np.int32]
PerQuery = NDArray[np.float64]


def jaccard(documents_a: Documents, documents_b: Documents, k: int) -> PerQuery:
    """Return the documents in both top-k lists over the documents in either.

    documents_a, documents_b: (n_queries, depth) document indices, best first, each at most once in
        a row, -1 where nothing; the depths may differ.
    Returns: (n_queries,) from 0 to 1; 1 for two empty lists, 0 for an empty and a non-empty one.
    """
    a, b = documents_a[:, :k], documents_b[:, :k]
    together = np.sort(np.concatenate([a, b], axis=1), axis=1)
    shared = np.count_nonzero(
        (together[:, 1:] == together[:, :-1]) & (together[:, 1:] >= 0), axis=1
    )
    either = np.count_nonzero(together >= 0, axis=1) - shared
    value: PerQuery = np.divide(shared, either, out=np.ones(len(a)), where=either > 0)
    return value


def rbo_ext(documents_a: Documents, documents_b: Documents, k: int, p: float = 0.9) -> PerQuery:
    """Return the extrapolated rank-biased overlap of the two top-k lists.

    documents_a, documents_b, edge cases: as for `jaccard`. The top rank weighs most; `p`, between 0
    and 1, is how likely a reader goes on to the next rank.
    Returns: (n_queries,) from 0 to 1.
    Source: Webber, Moffat and Zobel, TOIS 2010, equation 32, which covers lists of unequal length.
    """
    a, b = documents_a[:, :k], documents_b[:, :k]
    n_a, n_b = np.count_nonzero(a >= 0, axis=1), np.count_nonzero(b >= 0, axis=1)
    short, long = np.minimum(n_a, n_b)[:, None], np.maximum(n_a, n_b)[:, None]
    width = max(a.shape[1], b.shape[1], 1)
    depth = np.arange(1, width + 1)
    shared = _shared_at_each_depth(a, b, width)  # X_d of the paper

    def shared_at(at: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.take_along_axis(shared, np.maximum(at, 1) - 1, axis=1)

    # Below the end of the short list the paper assumes that it would go on agreeing as it did.
    assumed = shared_at(short) / np.maximum(short, 1) * np.maximum(depth - short, 0)
    agreement = np.where(depth <= long, (shared + assumed) / depth, 0)
    seen = (1 - p) / p * (agreement * p**depth).sum(axis=1)
    last = (shared_at(long) - shared_at(short)) / np.maximum(long, 1)
    last += shared_at(short) / np.maximum(short, 1)
    value: PerQuery = seen + (last * p**long)[:, 0]
    value[(n_a == 0) & (n_b == 0)] = 1
    return np.clip(value, 0, 1)  # a rounding error may lead just outside


def _shared_at_each_depth(a: Documents, b: Documents, width: int) -> NDArray[np.int64]:
    """Return how many documents the first 1, 2, ..., width ranks have in common."""
    documents = np.concatenate([a, b], axis=1)
    rank = np.concatenate([np.arange(a.shape[1]), np.arange(b.shape[1])])
    order = np.argsort(documents, axis=1, kind="stable")
    documents, rank = np.take_along_axis(documents, order, axis=1), rank[order]
    is_pair = (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] >= 0)
    # a document is shared from the depth at which the second list reaches it
    reached = np.maximum(rank[:, 1:], rank[:, :-1])[is_pair]
    cells = np.nonzero(is_pair)[0] * width + reached
    new = np.bincount(cells, minlength=len(a) * width).reshape(len(a), width)
    return new.cumsum(axis=1)
