"""Where things stand in the report's plots: values in, positions and ticks out; templates draw.

Positions are in units of the drawing, x to the right and y downwards, with one decimal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from embed_ab import formats

MAX_BARS = 200
"""Of the waterfall: with more queries, a bar is the mean of neighbours."""
MAX_POINTS = 300
"""Of the scatter: with more queries, points are counted on a grid."""
GRID = 25
"""Cells of that grid to a side."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A mark of an axis."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The straight line from values to positions: `low` stands at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, n: int = 5, *, is_difference: bool = False) -> tuple[Tick, ...]:
        """Return marks at about `n` round values."""
        step = round_step((self.high - self.low) / n)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        values = (
            round(step * number, 12)
            for number in range(
                math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1
            )
        )
        return tuple(
            Tick(at=self.at(value), label=_label(value, digits, is_difference=is_difference))
            for value in values
        )


def round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= least * (1 - 1e-9))


def _label(value: float, digits: int, *, is_difference: bool) -> str:
    sign = formats.MINUS if value < 0 else "+" if is_difference and value > 0 else ""
    return f"{sign}{abs(value):,.{digits}f}"


def scale_around(values: Iterable[float], start: float, end: float, *, least: float) -> Scale:
    """Return a scale with a margin around the values, which spans at least `least`."""
    present = list(values)
    low, high = min(present), max(present)
    missing = max(0.0, least - (high - low)) / 2
    margin = 0.06 * max(high - low, least) + missing
    return Scale(low=low - margin, high=high + margin, start=start, end=end)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A difference with its interval, drawn against 0."""

    low: float
    at: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Intervals on one axis."""

    zero: float
    margins: tuple[float, ...]
    """Where −margin of the gates stands."""
    ticks: tuple[Tick, ...]
    rows: tuple[Interval, ...]


def forest(
    intervals: Sequence[tuple[float, float, float]],
    margins: Sequence[float] = (),
    *,
    width: float,
    pad: float,
    n_ticks: int = 5,
) -> Forest:
    """Return intervals, each its low end, value and high end, with 0 and −margin on the axis."""
    ends = [value for interval in intervals for value in interval]
    scale = scale_around(
        [0.0, *ends, *(-margin for margin in margins)], pad, width - pad, least=0.01
    )
    return Forest(
        zero=scale.at(0),
        margins=tuple(scale.at(-margin) for margin in margins if margin),
        ticks=scale.ticks(n_ticks, is_difference=True),
        rows=tuple(
            Interval(low=scale.at(low), at=scale.at(value), high=scale.at(high))
            for low, value, high in intervals
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The mean difference of neighbours in the order of differences: `first` to `last`, from 0."""

    x: float
    y: float
    width: float
    height: float
    value: float
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Waterfall:
    """Differences in ascending order."""

    zero: float
    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def waterfall(
    differences: Sequence[float], *, left: float, right: float, top: float, bottom: float
) -> Waterfall:
    """Return a bar for each difference, which must ascend, or for each group of neighbours."""
    n = len(differences)
    n_bars = min(n, MAX_BARS)
    y = scale_around([0.0, *differences], bottom, top, least=0.1)
    x = Scale(low=0, high=n, start=left, end=right)
    bars = []
    for number in range(n_bars):
        first, end = number * n // n_bars, (number + 1) * n // n_bars
        value = math.fsum(differences[first:end]) / (end - first)
        low, high = sorted((y.at(value), y.at(0)))
        bars.append(
            Bar(
                x=x.at(first),
                y=low,
                width=round(max(x.at(end) - x.at(first) - (0.6 if n_bars < 120 else 0), 0.5), 1),
                height=round(max(high - low, 1), 1),
                value=value,
                first=first,
                last=end - 1,
            )
        )
    step = round(round_step(max(n / 5, 1)))
    return Waterfall(
        zero=y.at(0),
        bars=tuple(bars),
        x_ticks=tuple(
            Tick(at=x.at(count - 0.5), label=f"{count:,}") for count in range(step, n + 1, step)
        ),
        y_ticks=y.ticks(is_difference=True),
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """Queries with about the same two values; `members` are their places in what was given."""

    x: float
    y: float
    radius: float
    members: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """The value under B over the value under A, both from 0 to 1."""

    points: tuple[Point, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def scatter(
    pairs: Sequence[tuple[float, float]], *, left: float, right: float, top: float, bottom: float
) -> Scatter:
    """Return a point for each pair of values, larger where several pairs are the same.

    Where there are many pairs, those within a cell of a grid count as the same.
    """
    places: dict[tuple[float, float], list[int]] = {}
    for number, (a, b) in enumerate(pairs):
        if len(pairs) > MAX_POINTS:
            place = round(a * GRID) / GRID, round(b * GRID) / GRID
        else:
            place = round(a, 4), round(b, 4)
        places.setdefault(place, []).append(number)
    x = Scale(low=0, high=1, start=left, end=right)
    y = Scale(low=0, high=1, start=bottom, end=top)
    largest = max(map(len, places.values()), default=1)
    unit = min(3.5, 14 / math.sqrt(largest))  # so that the largest has a radius of at most 14
    return Scatter(
        points=tuple(
            Point(
                x=x.at(a),
                y=y.at(b),
                radius=round(max(unit * math.sqrt(len(members)), 1.2), 1),
                members=tuple(members),
            )
            for (a, b), members in sorted(places.items(), key=lambda item: -len(item[1]))
        ),
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
    )


@dataclass(frozen=True, kw_only=True)
class Movement:
    """How many queries have their first relevant document within which ranks of A and of B.

    counts: a row for each range of ranks of A, in it a number for each range of B.
    """

    ranges: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    n_up: int
    """Queries whose first relevant document stands higher under B, by any number of ranks."""
    n_down: int
    n_same: int


def movement(ranks: Sequence[tuple[int | None, int | None]], depth: int) -> Movement:
    """Return how the first relevant documents moved from A to B; None is beyond `depth`."""
    starts = [start for start in (1, 2, 4, 11) if start <= depth]
    ends = [start - 1 for start in starts[1:]] + [depth]
    ranges = [f"{s}" if s == e else f"{s}–{e}" for s, e in zip(starts, ends, strict=True)]

    def place(rank: int | None) -> int:
        return len(starts) if rank is None else sum(rank >= start for start in starts) - 1

    counts = [[0] * (len(starts) + 1) for _ in range(len(starts) + 1)]
    for a, b in ranks:
        counts[place(a)][place(b)] += 1
    change = [(b or math.inf) - (a or math.inf) if a or b else 0 for a, b in ranks]
    return Movement(
        ranges=(*ranges, "not found"),
        counts=tuple(map(tuple, counts)),
        n_up=sum(step < 0 for step in change),
        n_down=sum(step > 0 for step in change),
        n_same=sum(step == 0 for step in change),
    )


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A system: what it costs and how good it is."""

    label: str
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """Quality over one kind of cost, which starts at 0."""

    cost: str
    spots: tuple[Spot, ...]
    baseline: float | None
    """Where the quality of a system without that cost stands."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def tradeoff(
    cost: str,
    systems: Sequence[tuple[str, float, float]],
    baseline: float | None,
    *,
    left: float,
    right: float,
    top: float,
    bottom: float,
) -> Tradeoff:
    """Return systems, each a label, a cost and a mean from 0 to 1, as spots."""
    most = max(value for _, value, _ in systems)
    x = Scale(low=0, high=1.15 * most or 1.0, start=left, end=right)
    means = [mean for *_, mean in systems] + ([] if baseline is None else [baseline])
    y = scale_around(means, bottom, top, least=0.05)
    return Tradeoff(
        cost=cost,
        spots=tuple(Spot(label=label, x=x.at(c), y=y.at(mean)) for label, c, mean in systems),
        baseline=None if baseline is None else y.at(baseline),
        x_ticks=x.ticks(4),
        y_ticks=y.ticks(4),
    )
