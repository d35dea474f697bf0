"""Hybrids: several rankings of the same queries become one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from embed_ab.runs import Run, ranked
from embed_ab.system_spec import Normalisation

K = 60
DEPTH = 100
"""Documents of each constituent; not the depth of the result, so that a hybrid ranks the same
whatever is measured of it."""


def rrf(runs: Sequence[Run], *, k: int, depth: int, name: str) -> Run:
    """Return the reciprocal rank fusion of runs: the sum of 1 / (k + rank), ranks from 1.

    A document that a run lacks gets nothing from it. Ties go to the lower document index; documents
    with the same ranks, in whichever runs, tie exactly.
    Returns: up to `depth` documents of each query.
    Source: Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    shares = [
        np.broadcast_to(1 / (k + np.arange(1, run.documents.shape[1] + 1)), run.documents.shape)
        for run in runs
    ]
    nothing = [np.zeros(len(run.documents)) for run in runs]
    return _summed(runs, shares, nothing, depth=depth, name=name)


def blend(
    runs: Sequence[Run],
    weights: Sequence[float],
    normalise: Normalisation,
    *,
    depth: int,
    name: str,
) -> Run:
    """Return the weighted sum of normalised scores; ties go to the lower document index.

    minmax: a query's scores in one run from 0 to 1, 1 where all are equal; a document that the run
        lacks gets 0.
    z: their standard scores (population standard deviation), 0 where all are equal; a document that
        the run lacks gets the run's lowest.
    Returns: up to `depth` documents of each query.
    Source: Lee, SIGIR 1997 (minmax, CombSUM).
    """
    shares, missing = [], []
    for run, weight in zip(runs, weights, strict=True):
        scores, lowest = _normalised(run, normalise)
        shares.append(weight * scores)
        missing.append(weight * lowest)
    return _summed(runs, shares, missing, depth=depth, name=name)


def _normalised(
    run: Run, normalise: Normalisation
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normalised scores, (n_queries, depth), and what a missing document gets, (n_queries,)."""
    is_found = run.documents >= 0
    scores = np.where(is_found, run.scores, 0.0)
    # Halved, so that the distance of two scores is a number however large they are.
    low = np.min(scores / 2, axis=1, where=is_found, initial=np.inf, keepdims=True)
    high = np.max(scores / 2, axis=1, where=is_found, initial=-np.inf, keepdims=True)
    span = high - low
    is_spread = is_found & (span > 0)
    equal = np.where(is_found, 1.0, 0.0)
    of_one = np.divide(scores / 2 - low, span, out=equal, where=is_spread)
    if normalise == "minmax":
        return of_one, np.zeros(len(scores))
    # Standard scores do not change with scale and origin: those of numbers from 0 to 1 are safe.
    n = np.maximum(is_found.sum(axis=1, keepdims=True), 1)
    centred = np.where(is_found, of_one - of_one.sum(axis=1, keepdims=True) / n, 0.0)
    deviation = np.sqrt((centred**2).sum(axis=1, keepdims=True) / n)
    standard = np.divide(centred, deviation, out=np.zeros_like(centred), where=is_spread)
    return standard, np.min(standard, axis=1, where=is_found, initial=0.0)


def _summed(
    runs: Sequence[Run],
    shares: Sequence[NDArray[np.float64]],
    missing: Sequence[NDArray[np.float64]],
    *,
    depth: int,
    name: str,
) -> Run:
    """Rank by the sum of what each run gives a document.

    shares: (n_queries, depth) for each run; missing: (n_queries,), of documents that it lacks.
    """
    n_queries = len(runs[0].documents)
    n_documents = 1 + max(int(run.documents.max(initial=0)) for run in runs)
    cells = [np.nonzero(run.documents >= 0) for run in runs]
    pairs = [
        query.astype(np.int64) * n_documents + run.documents[query, rank]
        for run, (query, rank) in zip(runs, cells, strict=True)
    ]
    distinct, place = np.unique(np.concatenate(pairs), return_inverse=True)
    queries, documents = np.divmod(distinct, n_documents)
    table = np.stack([given[queries] for given in missing])  # (n_runs, n_pairs)
    start = 0
    for row, (cell, share) in enumerate(zip(cells, shares, strict=True)):
        n = cell[0].size
        table[row, place[start : start + n]] = share[cell]
        start += n
    # Added in the order of size: equal shares give equal sums, whichever run they came from.
    table.sort(axis=0)
    total = np.zeros(distinct.size)
    for given in table:
        total += given
    run, _ = ranked(queries, documents, total, n_queries=n_queries, depth=depth, name=name)
    return run
