"""What chance alone does to a mean of per-query differences: bootstrap and sign flips."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

Method = Literal["expanded", "percentile", "bca"]
Values = NDArray[np.float64]
Clusters = NDArray[np.int64]

TOLERANCE: Final = 1e-12
"""Values closer than this are a tie: the difference is rounding error, not ranking."""

_NORMAL: Final = NormalDist()
_CELLS: Final = 100_000  # in a block of draws: small enough to stay in the processor's cache


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Per-query differences of several metrics, and their sums over what is resampled.

    differences: (n_queries, n_metrics), exactly 0 for a tie.
    sums: (n_units, n_metrics) over each unit, a query or a cluster, as multiples of `step`.
    sizes: (n_units,) queries in each unit.
    """

    differences: Values
    sums: Values
    sizes: Values
    step: float

    @classmethod
    def of(cls, differences: Values, clusters: Clusters | None) -> Self:
        """Return the sample of (n_queries, n_metrics) differences from -1 to 1."""
        differences = np.where(np.abs(differences) <= TOLERANCE, 0.0, differences)
        if clusters is None:
            members = np.arange(len(differences))
        else:
            members = np.unique(clusters, return_inverse=True)[1].ravel()
        sizes = np.bincount(members)
        # Differences are at most 1, so a resample adds up to at most n_units * largest size. On a
        # grid that leaves 52 bits for such a sum every addition is exact: no order of summing,
        # number of threads or processor can change a byte of the result.
        step = 2.0 ** (math.ceil(math.log2(len(sizes) * sizes.max())) - 52)
        sums = np.zeros((len(sizes), differences.shape[1]))
        np.add.at(sums, members, np.rint(differences / step) * step)
        return cls(differences=differences, sums=sums, sizes=sizes.astype(np.float64), step=step)

    def mean(self, column: int) -> float:
        """Return the mean difference of one metric."""
        return mean(self.differences[:, column])

    def standard_error(self, column: int) -> float:
        """Return that of the mean, allowing for clusters; 0 where the units do not differ.

        A single unit never does.
        """
        n_units = len(self.sizes)
        residuals = self.sums[:, column] - self.sizes * self.mean(column)
        if np.all(np.abs(residuals) <= (TOLERANCE + self.step) * self.sizes):
            return 0.0
        squares = math.fsum(residuals**2) * n_units / (n_units - 1)
        return math.sqrt(squares) / len(self.differences)


def interval(
    differences: Values,
    *,
    seed: int = 0,
    resamples: int = 10_000,
    method: Method = "expanded",
    level: float = 0.95,
    clusters: Clusters | None = None,
) -> tuple[float, float]:
    """Return the bootstrap interval of the mean difference, as `paired_differences` has it.

    differences: (n_queries,) from -1 to 1, without NaN.
    expanded: percentile interval whose levels are widened by the t quantile and √(n/(n−1)), because
        the plain one is too short for few queries. Source: Hesterberg, The American Statistician
        2015, "What Teachers Should Know about the Bootstrap".
    percentile: plain quantiles of the resampled means.
    bca: bias-corrected and accelerated (Efron, JASA 1987); expanded where that is undefined,
        because all resamples lie on one side or the correction diverges.

    When all differences are equal, or there is only one query or cluster, both ends are the mean.
    """
    sample = Sample.of(differences[:, None], clusters)
    return intervals(sample, seed, resamples, method, level)[0]


def mean(values: Values) -> float:
    """Return the mean, the same to the last bit for any order of the values."""
    return math.fsum(values) / values.size


def intervals(
    sample: Sample, seed: int, resamples: int, method: Method, level: float
) -> list[tuple[float, float]]:
    """Return what `interval` returns, for each metric of the sample, from one set of draws."""
    n_metrics = sample.sums.shape[1]
    varying = [column for column in range(n_metrics) if sample.standard_error(column) > 0]
    found = [(sample.mean(column), sample.mean(column)) for column in range(n_metrics)]
    if varying:
        means = _resampled_means(sample, seed, resamples)
        for column in varying:
            lower, upper = _tails(sample, column, means[column], method, level)
            ascending = means[column]
            found[column] = _quantile(ascending, lower), -_quantile(-ascending[::-1], upper)
    return found


def _resampled_means(sample: Sample, seed: int, resamples: int) -> Values:
    """Return (n_metrics, resamples) bootstrap means, ascending; all metrics from the same draws."""
    generator = np.random.default_rng(seed)
    n_units = len(sample.sizes)
    columns = np.column_stack([sample.sums, sample.sizes])
    rows = max(1, _CELLS // n_units)
    first_cell = np.arange(rows)[:, None] * n_units
    totals = np.empty((resamples, columns.shape[1]))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        draws = generator.integers(n_units, size=(size, n_units))
        draws += first_cell[:size]
        # how often each unit was drawn, then one matrix product for all metrics
        counts = np.bincount(draws.ravel(), minlength=size * n_units).reshape(size, n_units)
        totals[start : start + size] = counts.astype(np.float64) @ columns
    return np.sort(totals[:, :-1].T / totals[:, -1], axis=1)


def _tails(
    sample: Sample, column: int, means: Values, method: Method, level: float
) -> tuple[float, float]:
    """Return the share of resampled means to leave out below and above the interval."""
    tail = (1 - level) / 2
    if method == "percentile":
        return tail, tail
    if method == "bca":
        corrected = _bca_tails(sample, column, means, tail)
        if corrected is not None:
            return corrected
    n_units = len(sample.sizes)
    widened = student_t_quantile(tail, n_units - 1) * math.sqrt(n_units / (n_units - 1))
    return _normal_tail(widened), _normal_tail(widened)


def _bca_tails(
    sample: Sample, column: int, means: Values, tail: float
) -> tuple[float, float] | None:
    """Return the bias-corrected and accelerated tails, None where they are undefined."""
    sums, sizes = sample.sums[:, column], sample.sizes
    observed = sums.sum() / sizes.sum()
    below = int(np.searchsorted(means, observed, side="left"))
    not_above = int(np.searchsorted(means, observed, side="right"))
    share = (below + not_above) / (2 * means.size)
    if not 0 < share < 1:
        return None
    bias = _NORMAL.inv_cdf(share)
    left_out = (sums.sum() - sums) / (sizes.sum() - sizes)
    influence = left_out.mean() - left_out
    acceleration = float((influence**3).sum() / (6 * (influence**2).sum() ** 1.5))
    z = _NORMAL.inv_cdf(1 - tail)
    divisors = 1 - acceleration * (bias - z), 1 - acceleration * (bias + z)
    if min(divisors) <= 0:
        return None
    low = bias + (bias - z) / divisors[0]
    high = bias + (bias + z) / divisors[1]
    return _normal_tail(-low), _normal_tail(high)


def _quantile(ascending: Values, share: float) -> float:
    """Return the quantile by linear interpolation, as numpy's default."""
    position = share * (ascending.size - 1)
    index = min(int(position), ascending.size - 2)
    below, above = float(ascending[index]), float(ascending[index + 1])
    return below + (position - index) * (above - below)


def sign_flip_p_values(sample: Sample, seed: int, resamples: int) -> list[float]:
    """Return the two-sided p-value of each metric: how often random signs give as large a mean.

    Exact over all sign patterns when there are at most `resamples` of them, else (r + 1)/(N + 1)
    over N random ones, all metrics with the same signs. Never 0.
    Source: Smucker, Allan and Carterette, CIKM 2007; Phipson and Smyth, SAGMB 2010 for the + 1.
    """
    totals = sample.sums.sum(axis=0)
    # rounding to the grid may part sums that are equal on paper by at most half a step a query
    least = np.abs(totals) - len(sample.differences) * sample.step
    n_nonzero = np.count_nonzero(np.abs(sample.sums) > TOLERANCE, axis=0)
    is_exact = n_nonzero <= math.log2(resamples)
    counts = np.zeros(len(totals), dtype=np.int64)
    if not is_exact.all():
        generator = np.random.default_rng((seed, 1))  # not the bootstrap's stream
        n_units = len(sample.sizes)
        rows = max(1, _CELLS // n_units)
        for start in range(0, resamples, rows):
            size = min(rows, resamples - start)
            random = generator.integers(256, size=(size, -(-n_units // 8)), dtype=np.uint8)
            is_positive = np.unpackbits(random, axis=1, count=n_units).astype(np.float64)
            flipped = 2 * (is_positive @ sample.sums) - totals
            counts += np.count_nonzero(np.abs(flipped) >= least, axis=0)
    p_values = [(int(count) + 1) / (resamples + 1) for count in counts]
    for column in np.flatnonzero(is_exact):
        flipped = np.zeros(1)
        for value in sample.sums[np.abs(sample.sums[:, column]) > TOLERANCE, column]:
            flipped = np.concatenate([flipped + value, flipped - value])
        p_values[column] = int(np.count_nonzero(np.abs(flipped) >= least[column])) / flipped.size
    return p_values


def _normal_tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2))


def student_t_tail(t: float, df: int) -> float:
    """Return the probability that Student's t with `df` degrees of freedom exceeds t >= 0.

    Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle, square = math.atan2(t, math.sqrt(df)), df / (df + t * t)  # cosine squared
    is_odd = df % 2
    numerators = np.arange(1 + is_odd, df - 1, 2)
    terms = np.cumprod(square * numerators / (numerators + 1))
    series = math.sin(angle) * (1 + float(terms.sum()))
    if not is_odd:
        return (1 - series) / 2
    return 0.5 - (angle + (series * math.cos(angle) if df > 1 else 0)) / math.pi


def student_t_quantile(tail: float, df: int) -> float:
    """Return the t that Student's t with `df` degrees of freedom exceeds with probability `tail`.

    tail: above 0, at most 0.5.
    """
    low, high = 0.0, 1.0
    while student_t_tail(high, df) > tail:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        if student_t_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return high
