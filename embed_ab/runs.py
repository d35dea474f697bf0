"""A run: for every query the documents a system ranks, best first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Run:
    """documents: int32 (n_queries, depth), -1 where nothing; scores: float64, -inf where nothing."""

    name: str
    documents: NDArray[np.int32]
    scores: NDArray[np.float64]


def rank_scores(scores, depth, *, is_candidate=None, positive_only=False):
    keep = np.ones(scores.size, bool) if is_candidate is None else is_candidate
    if positive_only:
        keep = keep & (scores > 0)
    order = np.argsort(-scores, kind="stable")
    order = order[keep[order]][:depth]
    found, best = np.full(depth, -1, np.int32), np.full(depth, -np.inf)
    found[: order.size], best[: order.size] = order, scores[order]
    return found, best


def top_k(queries, documents, depth, *, is_candidate=None):
    found = np.full((len(queries), depth), -1, np.int32)
    scores = np.full((len(queries), depth), -np.inf)
    for i, q in enumerate(queries):
        s = (documents.astype(np.float64) * q).sum(axis=1)
        o = np.argsort(-s, kind="stable")[:depth]
        found[i, : o.size], scores[i, : o.size] = o, s[o]
    return found, scores


def write_trec(run, query_ids, document_ids, path):
    raise NotImplementedError
