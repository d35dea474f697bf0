"""Which unjudged documents A and B returned, and how much each could move the result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embed_ab import formats, metrics
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset, Qrels
from embed_ab.metrics import Gain, Metric, PerQuery
from embed_ab.result import Comparison
from embed_ab.runs import read_trec

Lists = NDArray[np.int32]
"""Document indices, (n_queries, depth), best first; -1 where nothing, or where it is not known."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A query and a document nobody judged; ranks from 1, None where a system lacks it.

    impact: by how much the mean difference of the primary metric would move, were it relevant.
    """

    query: int
    document: int
    rank_a: int | None
    rank_b: int | None
    impact: float


def ranked_lists(
    comparison: Comparison, evalset: Evalset, folder: Path | None
) -> tuple[Lists, Lists]:
    """Return the documents of A and B, from the run files in a folder or from the details.

    Details are there for some queries only, and hold at most 20 documents of each list.
    Raises: InputError if the result or the run files were made from other systems or another set.
    """
    if {row.query for row in comparison.queries} != set(evalset.query_ids):
        raise InputError(
            "the evaluation set has other queries than the result",
            hint="Give the set, and the split, that the result was made from; or compare again.",
        )
    if folder is None:
        return _details(comparison, evalset, "a"), _details(comparison, evalset, "b")
    a, b = (_run(comparison, evalset, folder, side) for side in (0, 1))
    return a, b


def _run(comparison: Comparison, evalset: Evalset, folder: Path, side: int) -> Lists:
    system = comparison.systems[side]
    path = folder / f"{system.label.lower()}.trec"
    run = read_trec(path, evalset.query_ids, evalset.document_ids)
    expected = "_".join(f"{system.label}-{system.system}".split())
    if run.name != expected:
        raise InputError(
            f"{path}: holds the run {formats.shorten(run.name, 200)}, not "
            f"{formats.shorten(expected, 200)}",
            hint="Give the folder that `compare --runs` wrote together with the result.",
        )
    return run.documents


def _details(comparison: Comparison, evalset: Evalset, side: str) -> Lists:
    query_of = {query: row for row, query in enumerate(evalset.query_ids)}
    index_of = {document: index for index, document in enumerate(evalset.document_ids)}
    hits = {query_of[detail.query]: getattr(detail, side) for detail in comparison.details}
    lists = np.full((len(query_of), max(map(len, hits.values()), default=0)), -1, dtype=np.int32)
    for query, ranked in hits.items():
        for rank, hit in enumerate(ranked):
            if hit.document not in index_of:
                raise InputError(
                    f"the evaluation set has no document {hit.document!r}, which the result names",
                    hint="Give the set that the result was made from; or compare again.",
                )
            lists[query, rank] = index_of[hit.document]
    return lists


def pool(
    evalset: Evalset,
    a: Lists,
    b: Lists,
    *,
    metric: Metric,
    gain: Gain,
    min_grade: int,
    depth: int,
) -> list[Pair]:
    """Return the unjudged documents among the first `depth` of A or B, most decisive first.

    Each is tried with grade `min_grade`: the impact is the change of the mean of B − A. A query
    without a relevant document would gain a value, and so enter the mean. Ties by id.
    """
    differences = partial(_differences, metric=metric, gain=gain, min_grade=min_grade)
    before = differences(a, b, evalset.qrels)
    total, n_evaluated = float(np.nansum(before)), int(np.count_nonzero(~np.isnan(before)))
    mean = total / max(n_evaluated, 1)
    pairs = []
    for query in range(len(evalset.query_ids)):
        judged, grades = evalset.qrels.of(query)
        lists = a[query], b[query]
        found = np.unique(np.concatenate([ranked[:depth] for ranked in lists]))
        unjudged = np.setdiff1d(found, np.append(judged, -1))
        if not unjudged.size:
            continue
        tried = _with_each(judged, grades, unjudged, min_grade)
        of_a, of_b = (np.repeat(ranked[None], unjudged.size, axis=0) for ranked in lists)
        for document, after in zip(unjudged, differences(of_a, of_b, tried), strict=True):
            if np.isnan(before[query]):
                moved = (total + after) / (n_evaluated + 1)
            else:
                moved = (total - before[query] + after) / n_evaluated
            rank_a, rank_b = (_rank(ranked, document) for ranked in lists)
            pairs.append(
                Pair(
                    query=query,
                    document=int(document),
                    rank_a=rank_a,
                    rank_b=rank_b,
                    impact=abs(float(moved) - mean),
                )
            )
    # Rounded, because impacts that are equal on paper differ in their last bits.
    return sorted(pairs, key=lambda pair: (-round(pair.impact, 12), pair.query, pair.document))


def _differences(
    a: Lists, b: Lists, qrels: Qrels, *, metric: Metric, gain: Gain, min_grade: int
) -> PerQuery:
    """B − A for every query, NaN without a relevant document; (n_queries,)."""
    value_a, value_b = (
        metrics.evaluate_grades(
            [metric],
            metrics.grade_matrix(lists[:, : metric.k], qrels),
            qrels,
            gain=gain,
            min_grade=min_grade,
        )[metric]
        for lists in (a, b)
    )
    is_evaluated = metrics.count_relevant(qrels, min_grade) > 0
    return np.where(is_evaluated, value_b - value_a, np.nan)


def _with_each(
    judged: NDArray[np.int32], grades: NDArray[np.int16], unjudged: NDArray[np.int32], grade: int
) -> Qrels:
    """Qrels with a row for each unjudged document: the judgements there are, and this one."""
    n = unjudged.size
    documents = np.column_stack([np.tile(judged, (n, 1)), unjudged])
    order = np.argsort(documents, axis=1)
    with_one = np.tile(np.append(grades, np.int16(grade)), (n, 1))
    return Qrels(
        offsets=np.arange(n + 1, dtype=np.int64) * documents.shape[1],
        documents=np.take_along_axis(documents, order, axis=1).ravel(),
        grades=np.take_along_axis(with_one, order, axis=1).ravel(),
    )


def _rank(ranked: NDArray[np.int32], document: int) -> int | None:
    found = np.flatnonzero(ranked == document)
    return int(found[0]) + 1 if found.size else None
