"""Compare two systems query by query: mean difference, interval, p-value, wins and losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError
from embed_ab.metrics import Metric
from embed_ab.resampling import (
    TOLERANCE,
    Clusters,
    Method,
    Sample,
    Values,
    interval,
    intervals,
    mean,
    sign_flip_p_values,
)

__all__ = [
    "TOLERANCE",
    "Method",
    "PairedDifference",
    "holm",
    "interval",
    "paired_differences",
    "queries_needed",
    "wilson",
]

_NORMAL: Final = NormalDist()
_POWER: Final = 0.80


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """What is known about B − A for one metric.

    `sd` is that of the per-query differences (ddof 1; 0 for fewer than two queries or clusters).
    With clusters it is √n times the standard error that the clusters allow, so that `detectable`
    and `queries_needed` count dependent questions for what they are worth.
    `detectable` is the smallest true difference that a two-sided 5 % test would find in 80 % of
    such query sets; None where sd is 0.
    """

    metric: str
    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    level: float
    p_value: float
    p_holm: float
    wins: int
    losses: int
    ties: int
    n_queries: int
    n_units: int
    """Clusters, or queries where they are resampled one by one: what there is to go by."""
    sd: float
    detectable: float | None


def paired_differences(
    values_a: Mapping[Metric, Values],
    values_b: Mapping[Metric, Values],
    *,
    seed: int = 0,
    resamples: int = 10_000,
    method: Method = "expanded",
    level: float = 0.95,
    clusters: Clusters | None = None,
) -> tuple[PairedDifference, ...]:
    """Return B − A for every metric, in the order of `values_a`.

    values_a, values_b: (n_queries,) per metric, from 0 to 1; a query that is NaN in either is left
        out of that metric. Metrics with the same queries share their draws, and what is drawn for
        a metric depends on nothing but the seed and its number of queries (or clusters).
    clusters: (n_queries,) group of each query; whole groups are then resampled and sign-flipped.
    `resamples` is the number of bootstrap resamples and of sign flips.

    `p_holm` is adjusted over all metrics given.
    Raises: InputError for a metric without a query that has a value.
    """
    groups: dict[bytes, list[Metric]] = {}
    for metric in values_a:
        queries = _common_queries(values_a[metric], values_b[metric])
        if not queries.any():
            raise InputError(
                f"no query has a value for {metric}",
                hint="No query has a relevant document; perhaps --min-grade is too high.",
            )
        groups.setdefault(queries.tobytes(), []).append(metric)

    found: dict[Metric, PairedDifference] = {}
    for group in groups.values():
        queries = _common_queries(values_a[group[0]], values_b[group[0]])
        a = np.stack([values_a[metric][queries] for metric in group], axis=1)
        b = np.stack([values_b[metric][queries] for metric in group], axis=1)
        sample = Sample.of(b - a, None if clusters is None else clusters[queries])
        ends = intervals(sample, seed, resamples, method, level)
        p_values = sign_flip_p_values(sample, seed, resamples)
        for column, metric in enumerate(group):
            differences = sample.differences[:, column]
            error = sample.standard_error(column)
            found[metric] = PairedDifference(
                metric=str(metric),
                mean_a=mean(a[:, column]),
                mean_b=mean(b[:, column]),
                difference=sample.mean(column),
                low=ends[column][0],
                high=ends[column][1],
                level=level,
                p_value=p_values[column],
                p_holm=p_values[column],
                wins=int(np.count_nonzero(differences > 0)),
                losses=int(np.count_nonzero(differences < 0)),
                ties=int(np.count_nonzero(differences == 0)),
                n_queries=differences.size,
                n_units=len(sample.sizes),
                sd=error * math.sqrt(differences.size),
                detectable=_detectable_in_errors() * error if error > 0 else None,
            )
    adjusted = holm([found[metric].p_value for metric in values_a])
    return tuple(
        replace(found[metric], p_holm=p_holm)
        for metric, p_holm in zip(values_a, adjusted, strict=True)
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values adjusted for being shown together.

    Source: Holm, Scandinavian Journal of Statistics 1979.
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def queries_needed(sd: float, margin: float, level: float = 0.95) -> int | None:
    """Return how many queries would show "not worse than the margin" in 80 % of cases.

    That is, when the true difference is 0 and the two-sided interval has that level. None where
    the differences do not vary or the margin is 0.
    """
    if sd <= 0 or margin <= 0:
        return None
    needed = (_detectable_in_errors(level) * (sd / margin)) ** 2 if sd / margin < 1e9 else math.inf
    return math.ceil(needed) if needed < 1e12 else None


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a share: `successes` of `n`, which must not be 0.

    It does not shrink to a point when all or none succeed.
    Source: Wilson, JASA 1927.
    """
    z2 = _NORMAL.inv_cdf(0.5 + level / 2) ** 2
    middle = (successes + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    return middle - half, 1.0 if successes == n else middle + half


def _common_queries(a: Values, b: Values) -> NDArray[np.bool_]:
    return ~(np.isnan(a) | np.isnan(b))


def _detectable_in_errors(level: float = 0.95) -> float:
    return _NORMAL.inv_cdf(0.5 + level / 2) + _NORMAL.inv_cdf(_POWER)
