"""Compare two systems query by query: interval, p-value, wins and losses, what could be detected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError
from embed_ab.metrics import Metric

Method = Literal["expanded", "percentile", "bca"]
Values = NDArray[np.float64]
Clusters = NDArray[np.int64]

TOLERANCE: Final = 1e-12
"""Values closer than this are a tie: the difference is rounding error, not ranking."""

_NORMAL: Final = NormalDist()
_POWER: Final = 0.80
_CELLS: Final = 100_000  # of a block of draws: small enough to stay in the processor's cache


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """What is known about B − A for one metric.

    `sd` is that of the per-query differences (ddof 1; 0 for fewer than two queries or clusters).
    With clusters it is the one for which sd / √n is the standard error that the clusters allow, so
    that `detectable` and `queries_needed` count dependent questions for what they are worth.
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

    values_a, values_b: (n_queries,) per metric; a query that is NaN in either is left out of that
        metric. Metrics with the same queries share their draws, and a metric's draws depend on
        nothing but the seed and its number of queries (or clusters).
    clusters: (n_queries,) group of each query; whole groups are then resampled and sign-flipped.

    The p-values are adjusted over all metrics given (`p_holm`).
    Raises: InputError for a metric without a query that has a value.
    """
    present = {m: ~(np.isnan(values_a[m]) | np.isnan(values_b[m])) for m in values_a}
    for metric, queries in present.items():
        if not queries.any():
            raise InputError(
                f"no query has a value for {metric}",
                hint="Relevant documents are missing; perhaps --min-grade is too high.",
            )
    same_queries: dict[bytes, list[Metric]] = {}
    for metric, queries in present.items():
        same_queries.setdefault(queries.tobytes(), []).append(metric)

    found: dict[Metric, PairedDifference] = {}
    p_values: dict[Metric, float] = {}
    for group in same_queries.values():
        queries = present[group[0]]
        a = np.stack([values_a[m][queries] for m in group], axis=1)
        b = np.stack([values_b[m][queries] for m in group], axis=1)
        differences = _without_rounding_error(b - a)
        groups = None if clusters is None else clusters[queries]
        units = _units(differences, groups)
        intervals = _intervals(units, seed, resamples, method, level)
        for column, metric in enumerate(group):
            own = differences[:, column]
            p_values[metric] = _sign_flip(units.sums[:, column], seed, resamples)
            sd = units.standard_error(column) * math.sqrt(own.size)
            found[metric] = PairedDifference(
                metric=str(metric),
                mean_a=_mean(a[:, column]),
                mean_b=_mean(b[:, column]),
                difference=_mean(own),
                low=intervals[column][0],
                high=intervals[column][1],
                level=level,
                p_value=p_values[metric],
                p_holm=math.nan,
                wins=int(np.count_nonzero(own > 0)),
                losses=int(np.count_nonzero(own < 0)),
                ties=int(np.count_nonzero(own == 0)),
                n_queries=own.size,
                sd=sd,
                detectable=_z_sum() * sd / math.sqrt(own.size) if sd > 0 else None,
            )
