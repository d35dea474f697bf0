"""Turn ranked lists and judgements into one value per query and metric."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError
from embed_ab.evalset import Qrels
from embed_ab.readers import LARGEST_GRADE
from embed_ab.runs import Run

Gain = Literal["exponential", "linear"]
Grades = NDArray[np.int16]
PerQuery = NDArray[np.float64]

UNJUDGED: Final = -1000
"""State of a retrieved document that the qrels say nothing about; not a grade."""
NOT_RETRIEVED: Final = -1001
"""State of a rank at which the run has no document; not a grade."""

MAX_K: Final = 10_000

_ALIASES: Final = {
    "recall": ("recall", "r"),
    "ndcg": ("ndcg", "ndcg_cut"),
    "mrr": ("mrr", "rr", "recip_rank", "reciprocal_rank"),
    "hit": ("hit", "hit_rate", "success", "accuracy"),
    "map": ("map", "map_cut", "ap"),
    "precision": ("precision", "p"),
    "judged": ("judged",),
    "rcap": ("rcap", "r_cap", "recall_cap"),
}
_NAMES: Final = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}
METRIC_NAMES: Final = tuple(_ALIASES)

_SPELLING: Final = re.compile(
    r"(?P<name>[a-z_]+?)(?:(?:@|_at_|[_.])(?P<k>[0-9]+))?", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True)
class Metric:
    """A metric at a rank cutoff; `str()` is its canonical spelling, such as `ndcg@10`."""

    name: str
    k: int

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"

    @classmethod
    def parse(cls, text: str, *, default_k: int | None = None) -> Self:
        """Return the metric that `text` names; spellings of other tools are understood.

        `nDCG@10`, `ndcg_cut_10` and `ndcg_at_10` are `ndcg@10`. Beware that "Hit" here is what
        trec_eval calls success; recall is always the share of the relevant documents found.

        Raises: InputError for an unknown name, and for a cutoff that is missing (without
            `default_k`), not a whole number, below 1 or above 10,000.
        """
        match = _SPELLING.fullmatch(text.strip())
        name = _NAMES.get(match["name"].lower()) if match else None
        if match is None or name is None:
            raise InputError(f"unknown metric {text!r}", hint=_known())
        if match["k"] is None:
            if default_k is None:
                raise InputError(f"metric {text!r} has no cutoff", hint=f"Write {name}@10, say.")
            return cls(name, default_k)
        # a cutoff of thousands of digits is not given to int(), which refuses it in its own words
        k = int(match["k"]) if len(match["k"].lstrip("0")) <= len(str(MAX_K)) else MAX_K + 1
        if not 1 <= k <= MAX_K:
            raise InputError(
                f"the cutoff of metric {text!r} is not a whole number from 1 to {MAX_K}",
                hint=f"Write {name}@10, say.",
            )
        return cls(name, k)


def _known() -> str:
    return "Known metrics: " + ", ".join(f"{name}@K" for name in METRIC_NAMES) + "; K from 1."


def grade_matrix(documents: NDArray[np.int32], qrels: Qrels) -> Grades:
    """Return the grade of every ranked document, UNJUDGED or NOT_RETRIEVED.

    documents: (n_queries, depth) document indices, best first, -1 where nothing.
    Returns: int16 (n_queries, depth). Extra memory is a table of at most 4 MB, or two bytes per
        document where there are more than 2,000,000.
    """
    n_queries = len(documents)
    n_documents = 1 + int(max(documents.max(initial=-1), qrels.documents.max(initial=-1)))
    # A table of (block of queries, all documents) that only the judged cells of a block touch is
    # three times faster than a binary search in the qrels. The last column answers for -1.
    width = n_documents + 1
    block = max(1, min(n_queries, 2_000_000 // width))
    table = np.full(block * width, UNJUDGED, dtype=np.int16)
    table[n_documents::width] = NOT_RETRIEVED
    rows = _row_of_each_judgement(qrels)
    grades = np.empty(documents.shape, dtype=np.int16)
    for start in range(0, n_queries, block):
        stop = min(start + block, n_queries)
        part = slice(qrels.offsets[start], qrels.offsets[stop])
        judged = (rows[part] - start) * width + qrels.documents[part]
        table[judged] = qrels.grades[part]
        cells = np.arange(stop - start)[:, None] * width + documents[start:stop]
        # -1 of the first row is -1 of the flat table: the last cell, a NOT_RETRIEVED one too;
        # -1 of any other row is the last column of the row before it.
        grades[start:stop] = table[cells]
        table[judged] = UNJUDGED
    return grades


def _row_of_each_judgement(qrels: Qrels) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(qrels.offsets) - 1), np.diff(qrels.offsets))


def ideal_grades(qrels: Qrels, width: int) -> Grades:
    """Return the best possible ranking of every query: all its grades, highest first.

    Returns: int16 (n_queries, width); NOT_RETRIEVED where a query has fewer judgements.
    """
    rows = _row_of_each_judgement(qrels)
    keys = np.sort(rows * 64 + (LARGEST_GRADE - qrels.grades))
    rank = np.arange(len(rows)) - qrels.offsets[rows]
    kept = rank < width
    ideal = np.full((len(qrels.offsets) - 1, width), NOT_RETRIEVED, dtype=np.int16)
    ideal[rows[kept], rank[kept]] = LARGEST_GRADE - keys[kept] % 64
    return ideal


def count_relevant(qrels: Qrels, min_grade: int = 1) -> NDArray[np.int64]:
    """Return how many documents of each query have a grade of at least `min_grade`.

    Returns: int64 (n_queries,).
    """
    running = np.concatenate([[0], np.cumsum(qrels.grades >= min_grade)])
    return np.diff(running[qrels.offsets])


def dcg(grades: Grades, k: int, gain: Gain = "exponential") -> PerQuery:
    """Return the discounted cumulative gain at k: the sum of gain / log2(rank + 1).

    grades: (n_queries, depth) in ranked order. The gain is 2^grade - 1 or, when linear, the grade;
    negative grades, UNJUDGED and NOT_RETRIEVED gain 0.
    """
    top = np.maximum(grades[:, :k], 0)
    steps = np.arange(LARGEST_GRADE + 1, dtype=np.float64)
    gains = 2**steps - 1 if gain == "exponential" else steps
    discounts = np.array([math.log2(rank + 1) for rank in range(1, top.shape[1] + 1)])
    return _running_total(gains[top] / discounts)


def _running_total(terms: NDArray[np.float64]) -> PerQuery:
    # Strictly from left to right, so that zeros at the end change no bit: a perfect ranking equals
    # its ideal exactly, however long either is. Pairwise sums and BLAS do not promise that.
    total: PerQuery = terms.cumsum(axis=1)[:, -1:].sum(axis=1)
    return total


def _ratio(part: Any, whole: Any) -> PerQuery:
    """Return part / whole, NaN where whole is 0."""
    value: PerQuery = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return value


def ndcg(grades: Grades, ideal: Grades, k: int, gain: Gain = "exponential") -> PerQuery:
    """Return nDCG at k; NaN for a query without a positive grade.

    grades: (n_queries, depth) grades in ranked order.
    ideal: (n_queries, >= k) all grades of the query in the qrels, highest first.
    Returns: (n_queries,) values from 0 to 1.
    Source: Järvelin and Kekäläinen, TOIS 2002 (linear gain, as trec_eval); Burges et al., ICML
        2005 (gain 2^grade - 1). The ideal is over all qrels, not only the retrieved.
    """
    return _ratio(dcg(grades, k, gain), dcg(ideal, k, gain))


def recall(is_relevant: NDArray[np.bool_], n_relevant: NDArray[np.int64], k: int) -> PerQuery:
    """Return the share of all relevant documents that are in the top k; NaN without any.

    is_relevant: (n_queries, depth) in ranked order. n_relevant: (n_queries,) of all qrels.
    """
    return _ratio(np.count_nonzero(is_relevant[:, :k], axis=1), n_relevant)


def capped_recall(
    is_relevant: NDArray[np.bool_], n_relevant: NDArray[np.int64], k: int
) -> PerQuery:
    """Return recall at k with min(k, relevant) as denominator, so that 1 can always be reached.

    Source: Thakur et al., BEIR, NeurIPS 2021, where it is R_cap@k.
    """
    return recall(is_relevant, np.minimum(n_relevant, k), k)


def precision(is_relevant: NDArray[np.bool_], n_relevant: NDArray[np.int64], k: int) -> PerQuery:
    """Return the relevant documents in the top k over k, however many were retrieved.

    NaN for a query without a relevant document.
    """
    return recall(is_relevant, np.where(n_relevant > 0, k, 0), k)


def hit(is_relevant: NDArray[np.bool_], n_relevant: NDArray[np.int64], k: int) -> PerQuery:
    """Return 1 where a relevant document is in the top k, else 0; NaN without any to find."""
    return _ratio(is_relevant[:, :k].any(axis=1), n_relevant > 0)


def reciprocal_rank(
    is_relevant: NDArray[np.bool_], n_relevant: NDArray[np.int64], k: int
) -> PerQuery:
    """Return 1 / rank of the first relevant document, 0 when it is not in the top k.

    Its mean is MRR at k. NaN for a query without a relevant document.
    """
    ranks = np.arange(1, is_relevant[:, :k].shape[1] + 1)
    return _ratio((is_relevant[:, :k] / ranks).max(axis=1, initial=0), n_relevant > 0)


def average_precision(
    is_relevant: NDArray[np.bool_], n_relevant: NDArray[np.int64], k: int
) -> PerQuery:
    """Return the sum of precision at each relevant rank up to k, over all relevant documents.

    Its mean is MAP at k. NaN for a query without a relevant document.
    Source: trec_eval's map_cut: the denominator is never cut to k.
    """
    found = is_relevant[:, :k]
    rows, columns = np.divmod(np.flatnonzero(found), max(found.shape[1], 1))
    n_found = np.arange(1, rows.size + 1) - np.searchsorted(rows, rows)
    # bincount adds in rank order, so equal rankings are equal to the last bit
    return _ratio(
        np.bincount(rows, weights=n_found / (columns + 1), minlength=n_relevant.size), n_relevant
    )


def judged(grades: Grades, k: int) -> PerQuery:
    """Return the share of the documents retrieved up to k that have a grade, even a negative one.

    0 where nothing was retrieved.
    """
    top = grades[:, :k]
    n_retrieved = np.count_nonzero(top != NOT_RETRIEVED, axis=1)
    share: PerQuery = np.count_nonzero(top > UNJUDGED, axis=1) / np.maximum(n_retrieved, 1)
    return share


_BINARY: Final[dict[str, Callable[[NDArray[np.bool_], NDArray[np.int64], int], PerQuery]]] = {
    "recall": recall,
    "rcap": capped_recall,
    "precision": precision,
    "hit": hit,
    "mrr": reciprocal_rank,
    "map": average_precision,
}


def evaluate(
    metrics: Iterable[Metric],
    run: Run,
    qrels: Qrels,
    *,
    gain: Gain = "exponential",
    min_grade: int = 1,
) -> dict[Metric, PerQuery]:
    """Return the value of every metric for every query, from 0 to 1.

    Ideal order and denominators come from all qrels. A query is NaN where a metric has nothing to
    find: no positive grade for ndcg, no grade of at least `min_grade` for all the others. A query
    that has something to find but no retrieved document is 0.

    The run must be as deep as the largest k, unless it holds all there was to retrieve: missing
    ranks count as misses.

    Returns: float64 (n_queries,) per metric, rows in the order of the qrels.
    """
    metrics = tuple(metrics)
    depth = max((metric.k for metric in metrics), default=0)
    grades = grade_matrix(run.documents[:, :depth], qrels)
    return evaluate_grades(metrics, grades, qrels, gain=gain, min_grade=min_grade)


def condensed(run: Run, qrels: Qrels) -> Run:
    """Return the run without its unjudged documents, the others moved up.

    Source: Sakai, SIGIR 2007 (condensed lists).
    """
    is_judged = grade_matrix(run.documents, qrels) > UNJUDGED
    order = np.argsort(~is_judged, axis=1, kind="stable")
    kept = np.take_along_axis(is_judged, order, axis=1)
    return replace(
        run,
        documents=np.where(kept, np.take_along_axis(run.documents, order, axis=1), np.int32(-1)),
        scores=np.where(kept, np.take_along_axis(run.scores, order, axis=1), -np.inf),
    )


def evaluate_grades(
    metrics: Iterable[Metric],
    grades: Grades,
    qrels: Qrels,
    *,
    gain: Gain = "exponential",
    min_grade: int = 1,
) -> dict[Metric, PerQuery]:
    """Return what `evaluate` returns, for a ranking given by its grades."""
    is_relevant = grades >= min_grade
    n_relevant = count_relevant(qrels, min_grade)

    def values(metric: Metric) -> PerQuery:
        if metric.name == "ndcg":
            return ndcg(grades, ideal_grades(qrels, metric.k), metric.k, gain)
        if metric.name == "judged":
            return np.where(n_relevant > 0, judged(grades, metric.k), np.nan)
        return _BINARY[metric.name](is_relevant, n_relevant, metric.k)

    return {metric: values(metric) for metric in metrics}


def ceiling(
    metric: Metric, qrels: Qrels, *, gain: Gain = "exponential", min_grade: int = 1
) -> float:
    """Return the best mean that any ranking could reach; NaN when no query has a value.

    Below 1 for recall where queries have more than k relevant documents, and for precision where
    they have fewer.
    """
    best = ideal_grades(qrels, metric.k)
    values = evaluate_grades([metric], best, qrels, gain=gain, min_grade=min_grade)[metric]
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else math.nan
