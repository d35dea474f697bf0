"""Frozen candidates: the same documents in another order, and the best that any order could do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embed_ab import metrics, resampling
from embed_ab.evalset import Evalset
from embed_ab.metrics import Gain, Metric, PerQuery
from embed_ab.paired import PairedDifference
from embed_ab.runs import Run


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """The best mean of a metric that any order of the candidates reaches.

    `way` is how much of the way from A to there B went, (B − A) / (ceiling − A); None where A is
    at the ceiling already, or does not order the same candidates.
    """

    metric: str
    ceiling: float
    way: float | None


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The frozen candidate sets that B reorders.

    `recall` is the mean share of a query's relevant documents that are among its candidates;
    `out_of_reach` holds the evaluated queries none of whose relevant documents are.
    `same_for_a`: whether A orders the same candidates of every query.
    """

    depth: int
    recall: float
    same_for_a: bool
    ceilings: tuple[Ceiling, ...]
    out_of_reach: tuple[str, ...]


def reorder(candidates: Run, scores: NDArray[np.float64], *, name: str) -> Run:
    """Return the same documents of every query by new scores, ties by ascending document index.

    scores: (n_queries, depth), finite, each at the place of its candidate; those at places without
        a candidate are not looked at.
    """
    is_nothing = candidates.documents < 0
    new = np.where(is_nothing, -np.inf, scores)
    order = np.lexsort((candidates.documents, -new, is_nothing))
    return Run(
        name=name,
        documents=np.take_along_axis(candidates.documents, order, axis=1),
        scores=np.take_along_axis(new, order, axis=1),
    )


def differing(before: Run, after: Run) -> NDArray[np.intp]:
    """Return the queries (row indices) whose documents differ in more than their order."""
    depth = max(before.documents.shape[1], after.documents.shape[1])
    a, b = (
        np.sort(
            np.pad(r.documents, ((0, 0), (0, depth - r.documents.shape[1])), constant_values=-1)
        )
        for r in (before, after)
    )
    return np.flatnonzero((a != b).any(axis=1))


def best_values(
    wanted: Iterable[Metric], candidates: Run, evalset: Evalset, *, gain: Gain, min_grade: int
) -> dict[Metric, PerQuery]:
    """Return what the best order of its candidates gives each query, (n_queries,) per metric.

    By grade descending, which no other order beats in any metric. The ideal order and all
    denominators are those of all qrels: a relevant document that is no candidate stays missing.
    """
    grades = -np.sort(-metrics.grade_matrix(candidates.documents, evalset.qrels), axis=1)
    return metrics.evaluate_grades(wanted, grades, evalset.qrels, gain=gain, min_grade=min_grade)


def examine(
    evalset: Evalset,
    candidates: Run,
    a: Run,
    differences: Iterable[PairedDifference],
    *,
    is_a_frozen: bool,
    gain: Gain,
    min_grade: int,
) -> Candidates:
    """Return what the candidate sets allow, and how far B came.

    a: the candidates of A if it only reorders some (`is_a_frozen`), else its ranking. A ranking
        that begins with the candidates has the same ones only as deep as they are: beyond, it has
        documents that B never had, and the way is not told.
    differences: between A and B, which orders the candidates; there is a query to evaluate.
    """
    measured = {Metric.parse(difference.metric): difference for difference in differences}
    depth = candidates.documents.shape[1]
    same_for_a = differing(candidates, a if is_a_frozen else a.cut(depth)).size == 0
    n_relevant = metrics.count_relevant(evalset.qrels, min_grade)
    best = best_values(measured, candidates, evalset, gain=gain, min_grade=min_grade)

    def ceiling(metric: Metric, d: PairedDifference) -> Ceiling:
        reached = resampling.mean(best[metric][n_relevant > 0])
        room = reached - d.mean_a
        is_alike = same_for_a and (is_a_frozen or metric.k <= depth)
        way = (d.mean_b - d.mean_a) / room if is_alike and room > resampling.TOLERANCE else None
        return Ceiling(metric=str(metric), ceiling=reached, way=way)

    is_relevant = metrics.grade_matrix(candidates.documents, evalset.qrels) >= min_grade
    recall = metrics.recall(is_relevant, n_relevant, depth)
    return Candidates(
        depth=depth,
        recall=resampling.mean(recall[n_relevant > 0]),
        same_for_a=same_for_a,
        ceilings=tuple(ceiling(metric, d) for metric, d in measured.items()),
        out_of_reach=tuple(evalset.query_ids[query] for query in np.flatnonzero(recall == 0)),
    )
