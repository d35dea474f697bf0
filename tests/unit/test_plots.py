"""Positions and ticks of the report's plots."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed_ab import plots
from embed_ab.plots import Scale, forest, movement, round_step, scatter, tradeoff, waterfall

AREA = {"left": 0.0, "right": 100.0, "top": 0.0, "bottom": 100.0}


@pytest.mark.parametrize(
    ("least", "step"),
    [(1, 1), (1.1, 2), (2.1, 5), (5.1, 10), (0.03, 0.05), (0.5, 0.5), (2000, 2000)],
)
def test_a_step_is_one_two_or_five_times_a_power_of_ten(least: float, step: float) -> None:
    assert round_step(least) == pytest.approx(step)


def test_a_scale_runs_straight_from_its_low_to_its_high_end() -> None:
    scale = Scale(low=-1, high=1, start=100, end=0)

    assert [scale.at(value) for value in (-1, 0, 0.5, 1)] == [100, 50, 25, 0]


def test_ticks_stand_at_round_values_with_as_many_decimals_as_they_need() -> None:
    """0.24 / 5 is 0.048, so a step is 0.05: −0.10, −0.05, 0, 0.05, 0.10."""
    scale = Scale(low=-0.12, high=0.12, start=0, end=240)

    ticks = scale.ticks(5, is_difference=True)

    assert [tick.label for tick in ticks] == ["−0.10", "−0.05", "0.00", "+0.05", "+0.10"]
    assert [tick.at for tick in ticks] == [20, 70, 120, 170, 220]


def test_large_ticks_have_their_thousands_apart() -> None:
    labels = [tick.label for tick in Scale(low=0, high=4000, start=0, end=1).ticks(4)]

    assert labels == ["0", "1,000", "2,000", "3,000", "4,000"]


@given(st.floats(-1, 1), st.floats(1e-6, 2))
def test_there_are_a_few_ticks_whatever_the_range(low: float, width: float) -> None:
    scale = Scale(low=low, high=low + width, start=0, end=100)

    ticks = scale.ticks(5)

    assert 1 <= len(ticks) <= 6
    assert all(-0.1 <= tick.at <= 100.1 for tick in ticks)


def test_a_forest_has_zero_and_the_margin_on_its_axis() -> None:
    """From −0.3 to 0 with 6 % beside: −0.318 to 0.018 over 336 units, 1 unit for 0.001."""
    found = forest([(-0.3, -0.2, -0.1)], [0.02], width=336, pad=0)

    assert (found.zero, found.margins) == (318, (298,))
    (row,) = found.rows
    assert (row.low, row.at, row.high) == (18, 118, 218)


def test_a_margin_of_zero_is_zero() -> None:
    assert forest([(-0.3, -0.2, -0.1)], [0.0], width=336, pad=0).margins == ()


def test_a_forest_of_nothing_but_zeros_has_an_axis() -> None:
    found = forest([(0.0, 0.0, 0.0)], width=100, pad=0)

    assert found.zero == 50
    assert len(found.ticks) >= 2


def test_bars_stand_in_order_and_reach_from_zero_to_their_difference() -> None:
    """From −0.5 to 0.5 with 6 % beside: −0.56 to 0.56 over 100 units; three bars of 33.3."""
    found = waterfall([-0.5, 0.0, 0.5], **AREA)

    assert found.zero == 50
    assert [(bar.x, bar.first, bar.last) for bar in found.bars] == [
        (0, 0, 0),
        (33.3, 1, 1),
        (66.7, 2, 2),
    ]
    # 0.5 / 1.12 of 100 units is 44.6; below zero is further down.
    assert [(bar.y, bar.height) for bar in found.bars] == [(50, 44.6), (50, 1), (5.4, 44.6)]


@pytest.mark.parametrize(
    ("n", "labels"),
    [
        (1, ["1"]),
        (3, ["1", "2", "3"]),
        (12, ["5", "10"]),
        (40, ["10", "20", "30", "40"]),
        (10_000, ["2,000", "4,000", "6,000", "8,000", "10,000"]),
    ],
)
def test_queries_are_counted_at_round_numbers(n: int, labels: list[str]) -> None:
    found = waterfall([0.1] * n, **AREA)

    assert [tick.label for tick in found.x_ticks] == labels
    assert 0 < found.x_ticks[-1].at <= 100


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=2_000))
def test_few_bars_hold_every_query_once(differences: list[float]) -> None:
    bars = waterfall(sorted(differences), **AREA).bars

    assert len(bars) <= plots.MAX_BARS
    held = [number for bar in bars for number in range(bar.first, bar.last + 1)]
    assert held == list(range(len(differences)))
    total = math.fsum(bar.value * (bar.last - bar.first + 1) for bar in bars)
    assert total == pytest.approx(math.fsum(differences), abs=1e-6)


def test_the_same_pair_of_values_is_one_larger_point() -> None:
    found = scatter([(0.5, 1.0), (0.0, 0.25), (0.5, 1.0)], **AREA)

    assert [(point.x, point.y, point.members) for point in found.points] == [
        (50, 0, (0, 2)),
        (0, 75, (1,)),
    ]
    assert [point.radius for point in found.points] == [4.9, 3.5]  # 3.5 × √2, 3.5


def test_many_pairs_are_counted_on_a_grid() -> None:
    """301 pairs are too many for points; 0.50 and 0.49 round to the same of 25 cells."""
    pairs = [(0.50, 0.50), (0.49, 0.49)] * 150 + [(0.0, 1.0)]

    found = scatter(pairs, **AREA)

    assert [(point.x, point.y, len(point.members)) for point in found.points] == [
        (48, 52, 300),  # 12.5 and 12.25 round to 12; 12 / 25 = 0.48
        (0, 0, 1),
    ]
    assert found.points[0].radius == 14


def test_ranks_move_between_ranges() -> None:
    """Up: 7 to 2, and nowhere to 50. Down: 1 to 3. The same: 1, and nowhere."""
    found = movement([(7, 2), (None, 50), (1, 3), (1, 1), (None, None)], 100)

    assert found.ranges == ("1", "2–3", "4–10", "11–100", "not found")
    assert found.counts == (
        (1, 1, 0, 0, 0),
        (0, 0, 0, 0, 0),
        (0, 1, 0, 0, 0),
        (0, 0, 0, 0, 0),
        (0, 0, 0, 1, 1),
    )
    assert (found.n_up, found.n_down, found.n_same) == (2, 1, 2)


def test_a_move_within_a_range_is_one() -> None:
    assert movement([(4, 9)], 100).n_down == 1


def test_costs_start_at_zero_and_bm25_is_a_line() -> None:
    """1.15 × 400 is 460 over 100 units; 0.5 to 0.6 with 0.006 beside over 100 units."""
    found = tradeoff("ms", [("A", 400, 0.6), ("B", 115, 0.5)], 0.55, **AREA)

    assert [(spot.label, spot.x) for spot in found.spots] == [("A", 87), ("B", 25)]
    assert [spot.y for spot in found.spots] == [5.4, 94.6]  # 0.006 / 0.112
    assert found.baseline == 50
    assert [tick.label for tick in found.x_ticks] == ["0", "200", "400"]


def test_a_cost_of_nothing_can_be_drawn() -> None:
    found = tradeoff("price", [("A", 0, 0.5), ("B", 0, 0.5)], None, **AREA)

    assert [(spot.x, spot.y) for spot in found.spots] == [(0, 50), (0, 50)]
