"""Paired statistics by hand-computed values, and their symmetries."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from embed_ab.errors import InputError
from embed_ab.metrics import Metric
from embed_ab.paired import (
    PairedDifference,
    holm,
    interval,
    paired_differences,
    queries_needed,
    wilson,
)
from embed_ab.resampling import Sample, student_t_quantile, student_t_tail

NDCG, RECALL = Metric("ndcg", 10), Metric("recall", 10)
NAN = math.nan


def array(values: Any) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def compare(a: Any, b: Any, **options: Any) -> PairedDifference:
    (result,) = paired_differences({NDCG: array(a)}, {NDCG: array(b)}, **options)
    return result


class TestCounts:
    def test_means_wins_losses_and_ties(self) -> None:
        result = compare([0.5, 1.0, 0.25, 0.0], [1.0, 0.5, 0.25, 0.5])

        # differences 0.5, -0.5, 0, 0.5
        assert (result.wins, result.losses, result.ties, result.n_queries) == (2, 1, 1, 4)
        assert (result.mean_a, result.mean_b, result.difference) == (0.4375, 0.5625, 0.125)

    def test_rounding_error_is_a_tie(self) -> None:
        result = compare([0.1 + 0.2, 0.5], [0.3, 0.5])

        assert (result.wins, result.losses, result.ties) == (0, 0, 2)
        assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)

    def test_a_query_excluded_in_either_system_is_left_out(self) -> None:
        result = compare([NAN, 0.0, 1.0, 0.5], [1.0, NAN, 0.0, 0.5])

        assert (result.n_queries, result.mean_a, result.mean_b) == (2, 0.75, 0.25)

    def test_a_metric_without_any_value_is_an_input_error(self) -> None:
        with pytest.raises(InputError, match="no query has a value for ndcg@10"):
            compare([NAN, 1.0], [1.0, NAN])

    def test_sd_and_detectable(self) -> None:
        result = compare([0, 0, 0, 0], [0.2, 0.4, 0.2, 0.4])

        # sd = sqrt(4 · 0.1² / 3) = 0.115470; (1.959964 + 0.841621) · sd / 2 = 0.161750
        assert result.sd == pytest.approx(0.115470, abs=1e-6)
        assert result.detectable == pytest.approx(0.161750, abs=1e-6)


class TestDegenerate:
    @pytest.mark.parametrize("method", ["expanded", "percentile", "bca"])
    @pytest.mark.parametrize("difference", [0.0, 0.1, -1 / 3])
    @pytest.mark.parametrize("n_queries", [1, 2, 7])
    def test_equal_differences_give_a_point(
        self, method: str, difference: float, n_queries: int
    ) -> None:
        result = compare([0.4] * n_queries, [0.4 + difference] * n_queries, method=method)

        assert result.low == result.high == result.difference
        assert result.difference == pytest.approx(difference)
        assert (result.sd, result.detectable) == (0, None)

    @pytest.mark.parametrize("method", ["expanded", "percentile", "bca"])
    def test_two_queries_give_a_finite_interval_between_the_two(self, method: str) -> None:
        result = compare([0.0, 0.0], [0.25, 0.75], method=method)

        assert 0.25 <= result.low <= 0.5 <= result.high <= 0.75

    def test_with_two_queries_the_expanded_interval_reaches_both_ends(self) -> None:
        """t(0.975, 1 degree) · √2 = 17.97 normal deviations leave nothing outside."""
        assert interval(array([0.25, 0.75])) == (0.25, 0.75)

    @pytest.mark.parametrize("method", ["expanded", "percentile", "bca"])
    def test_one_cluster_gives_a_point(self, method: str) -> None:
        result = compare([0, 0, 0], [0.5, 0.1, 0.0], method=method, clusters=np.zeros(3, int))

        assert result.low == result.high == result.difference == pytest.approx(0.2)
        assert (result.p_value, result.detectable) == (1, None)

    @pytest.mark.parametrize("method", ["expanded", "percentile", "bca"])
    @given(
        values=st.lists(
            st.tuples(*[st.sampled_from([0, 0.25, 1 / 3, 0.5, 0.63092975, 1])] * 2), min_size=1
        ),
        level=st.sampled_from([0.8, 0.95, 0.995]),
    )
    @settings(max_examples=25)
    def test_everything_is_finite_and_in_range(
        self, method: str, values: list[tuple[float, float]], level: float
    ) -> None:
        result = compare(*zip(*values, strict=True), method=method, level=level, resamples=200)

        assert -1 <= result.low <= result.high <= 1
        assert 0 < result.p_value <= result.p_holm <= 1
        assert result.wins + result.losses + result.ties == result.n_queries == len(values)


class TestInterval:
    spread = array([0.0, 0.0, 0.5, -0.25, 0.1, 0.3, 0.0, -0.1, 0.2, 0.4])

    def test_the_percentile_interval_is_the_quantiles_of_the_resampled_means(self) -> None:
        draws = np.random.default_rng(3).integers(10, size=(500, 10))
        means = self.spread[draws].mean(axis=1)

        assert interval(self.spread, seed=3, resamples=500, method="percentile") == pytest.approx(
            np.quantile(means, [0.025, 0.975]), abs=1e-12
        )

    def test_the_expanded_interval_widens_the_level_by_t_and_n(self) -> None:
        # t(0.975, 9 degrees) = 2.262157; · √(10/9) = 2.384524; normal tail 0.0085508
        narrow = interval(self.spread, method="percentile", level=1 - 2 * 0.0085508)

        assert interval(self.spread) == pytest.approx(narrow, abs=1e-4)

    def test_expanded_is_wider_than_percentile(self) -> None:
        low, high = interval(self.spread, method="percentile")
        wider = interval(self.spread)

        assert wider[0] < low < high < wider[1]

    def test_a_higher_level_is_wider(self) -> None:
        low, high = interval(self.spread, level=0.95)
        wider = interval(self.spread, level=0.99)

        assert wider[0] < low < high < wider[1]

    def test_the_joint_intervals_are_those_of_each_metric_alone(self) -> None:
        zero = np.zeros(10)
        both = paired_differences(
            {NDCG: zero, RECALL: zero}, {NDCG: self.spread, RECALL: self.spread**2}
        )

        assert (both[0].low, both[0].high) == interval(self.spread)
        assert (both[1].low, both[1].high) == interval(self.spread**2)

    def test_metrics_with_other_queries_have_their_own_draws(self) -> None:
        zero, some = np.zeros(10), np.where(np.arange(10) == 4, NAN, self.spread)
        both = paired_differences({NDCG: zero, RECALL: zero}, {NDCG: self.spread, RECALL: some})

        assert [d.n_queries for d in both] == [10, 9]
        assert (both[0].low, both[0].high) == interval(self.spread)
        assert (both[1].low, both[1].high) == interval(np.delete(self.spread, 4))

    def test_bca_falls_back_to_expanded_where_it_is_undefined(self) -> None:
        """99 % of one side only: with 3 resamples all of them can lie below the mean."""
        skewed = array([0.0] * 99 + [1.0])
        seed = next(
            seed
            for seed in range(100)
            if not (np.random.default_rng(seed).integers(100, size=(3, 100)) == 99).any()
        )

        assert interval(skewed, seed=seed, resamples=3, method="bca") == interval(
            skewed, seed=seed, resamples=3
        )

    def test_clusters_of_one_query_are_no_clusters(self) -> None:
        alone = np.arange(10)[::-1].copy()

        assert interval(self.spread[::-1], clusters=alone) == interval(self.spread)

    def test_a_query_copied_with_its_cluster_adds_nothing(self) -> None:
        """Ten questions asked twice are ten clusters, and as sure as ten questions."""
        twice, groups = np.tile(self.spread, 2), np.tile(np.arange(10), 2)

        assert interval(twice, clusters=groups) == pytest.approx(interval(self.spread), abs=1e-12)

    def test_clusters_of_unequal_size_weigh_by_their_queries(self) -> None:
        # resamples of {1, 1, 1} and {0}: means 1, 0 or 3/4
        low, high = interval(array([1, 1, 1, 0]), clusters=np.array([5, 5, 5, 2]), level=0.4)
        means = {1.0, 0.75, 0.0}

        assert {low, high} <= means
        assert compare([0] * 4, [1, 1, 1, 0], clusters=np.array([5, 5, 5, 2])).difference == 0.75

    def test_the_standard_error_with_clusters(self) -> None:
        result = compare([0] * 4, [0.4, 0.4, 0.2, 0.2], clusters=np.array([0, 0, 1, 1]))

        # mean 0.3; cluster residuals ±0.2; se = √(2/1 · (0.04 + 0.04)) / 4 = 0.1; sd = 0.1 · √4
        assert result.sd == pytest.approx(0.2)
        # (1.959964 + 0.841621) · 0.1
        assert result.detectable == pytest.approx(0.280159, abs=1e-6)


class TestSignFlips:
    def test_exact_by_hand(self) -> None:
        # |±1 ±1/2 ±1/4| >= 1.75 for + + + and - - - only: 2 of 8
        assert compare([0, 0, 0], [1, 0.5, 0.25]).p_value == 0.25

    def test_ties_are_not_flipped(self) -> None:
        assert compare([0] * 5, [1, 0, 0.5, 0, 0.25]).p_value == 0.25

    def test_sums_that_are_equal_on_paper_count_as_equal(self) -> None:
        # ±1/3 ±1/3 ±2/3 is 0 (2 patterns), ±4/3 (2) or ±2/3 (4); with ±1/2 more or less, at least
        # the observed 0 + 1/2 in size are 2 · 2, 2 · 2 and 4 · 1 of the 16
        assert compare([1 / 3, 1 / 3, 0, 0], [0, 0, 2 / 3, 0.5]).p_value == 12 / 16

    def test_clusters_are_flipped_whole(self) -> None:
        # clusters 1.5 and 0.25: 2 of 4
        groups = np.array([0, 0, 1])

        assert compare([0, 0, 0], [1, 0.5, 0.25], clusters=groups).p_value == 0.5

    @given(st.lists(st.integers(-4, 4), min_size=1, max_size=7))
    def test_exact_agrees_with_enumeration(self, quarters: list[int]) -> None:
        patterns = itertools.product([1, -1], repeat=len(quarters))
        sums = [abs(sum(s * q for s, q in zip(p, quarters, strict=True))) for p in patterns]
        expected = sum(s >= abs(sum(quarters)) for s in sums) / len(sums)
        b = array(quarters) / 8 + 0.5

        assert compare(np.full(b.size, 0.5), b, resamples=128).p_value == expected

    def test_monte_carlo_is_never_zero(self) -> None:
        # 60 wins of 60: the exact value 2/2^60 is out of reach of 10,000 draws
        assert compare([0] * 60, [1] * 60).p_value == 1 / 10_001

    def test_monte_carlo_is_close_to_the_exact_value(self) -> None:
        b = array([0.5, 0.25, -0.25, 0.1, 0.3, -0.2, 0.4, 0.15, -0.1, 0.05])
        exact = compare(np.zeros(10), b, resamples=1024).p_value
        drawn = compare(np.zeros(10), b, resamples=1023).p_value

        # standard error √(0.08 · 0.92 / 1023) = 0.0085
        assert exact != drawn
        assert drawn == pytest.approx(exact, abs=0.03)


small_sets = st.lists(
    st.tuples(*[st.sampled_from([0, 0.2, 1 / 3, 0.5, 0.63092975, 1])] * 2), min_size=1, max_size=40
)


class TestSymmetries:
    @pytest.mark.parametrize("method", ["expanded", "percentile", "bca"])
    @given(values=small_sets)
    @settings(max_examples=25)
    def test_exchanging_the_systems_mirrors_everything(
        self, method: str, values: list[tuple[float, float]]
    ) -> None:
        a, b = zip(*values, strict=True)
        there = compare(a, b, method=method, resamples=300)
        back = compare(b, a, method=method, resamples=300)

        assert (there.wins, there.losses, there.ties) == (back.losses, back.wins, back.ties)
        assert (there.p_value, there.sd) == (back.p_value, back.sd)
        assert there.difference == -back.difference
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-12)

    @given(values=small_sets)
    @settings(max_examples=25)
    def test_a_system_against_itself_is_all_ties(self, values: list[tuple[float, float]]) -> None:
        a = [value for value, _ in values]
        result = compare(a, a, resamples=100)

        assert (result.wins, result.losses, result.ties) == (0, 0, len(a))
        assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)

    @given(st.permutations(range(12)))
    @settings(max_examples=25)
    def test_the_order_of_queries_changes_neither_means_nor_spread(self, order: list[int]) -> None:
        generator = np.random.default_rng(0)
        a, b = generator.random(12), generator.random(12)
        plain, mixed = compare(a, b, resamples=4096), compare(a[order], b[order], resamples=4096)

        assert replace(mixed, low=0, high=0) == replace(plain, low=0, high=0)

    def test_the_same_seed_gives_the_same_result_and_another_seed_another(self) -> None:
        generator = np.random.default_rng(0)
        a, b = generator.random(50), generator.random(50)

        assert compare(a, b, seed=1) == compare(a, b, seed=1)
        assert compare(a, b, seed=1).low != compare(a, b, seed=2).low

    def test_sums_of_resampled_differences_are_exact_in_any_order(self) -> None:
        """So that neither threads nor processors can change the result."""
        generator = np.random.default_rng(0)
        sums = Sample.of(generator.uniform(-1, 1, (1000, 1)), None).sums[:, 0]

        for _ in range(20):
            drawn = sums[generator.integers(1000, size=1000)]
            assert drawn.sum() == drawn.cumsum()[-1] == math.fsum(drawn)

    def test_blocks_of_draws_do_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        generator = np.random.default_rng(0)
        a, b = generator.random(50), generator.random(50)
        plain = interval(b - a)
        monkeypatch.setattr("embed_ab.resampling._CELLS", 350)

        assert interval(b - a) == plain


class TestSmallFormulas:
    def test_holm_by_hand(self) -> None:
        # sorted 0.01 · 4, 0.03 · 3, 0.04 · 2 raised to 0.09, 0.5 · 1
        assert holm([0.03, 0.5, 0.01, 0.04]) == pytest.approx((0.09, 0.5, 0.04, 0.09))

    @given(
        p_values=st.lists(st.floats(0.0001, 1), min_size=1, max_size=12),
        level=st.floats(0.001, 0.5),
    )
    def test_holm_rejects_what_the_step_down_procedure_rejects(
        self, p_values: list[float], level: float
    ) -> None:
        """Holm 1979: reject the smallest while p_(i) <= level / (m - i + 1), and stop there."""
        m = len(p_values)
        order = sorted(range(m), key=lambda index: p_values[index])
        rejected = set()
        for step, index in enumerate(order):
            assume(abs(p_values[index] * (m - step) - level) > 1e-9)  # no rounding at the limit
            if p_values[index] > level / (m - step):
                break
            rejected.add(index)

        assert {i for i, p in enumerate(holm(p_values)) if p <= level} == rejected

    def test_holm_stops_at_one(self) -> None:
        assert holm([0.6, 0.7]) == (1, 1)

    def test_holm_of_one_or_none_is_itself(self) -> None:
        assert (holm([0.2]), holm([])) == ((0.2,), ())

    def test_p_values_are_adjusted_over_all_metrics(self) -> None:
        zero = np.zeros(3)
        both = paired_differences(
            {NDCG: zero, RECALL: zero}, {NDCG: array([1, 0.5, 0.25]), RECALL: array([1, 1, -1])}
        )

        # 0.25 · 2; 1 (every pattern of ±1 ±1 ±1 is at least 1)
        assert [(d.metric, d.p_value, d.p_holm) for d in both] == [
            ("ndcg@10", 0.25, 0.5),
            ("recall@10", 1, 1),
        ]

    def test_queries_needed_by_hand(self) -> None:
        # ((1.959964 + 0.841621) · 0.2 / 0.02)² = 784.9
        assert queries_needed(0.2, 0.02) == 785

    @pytest.mark.parametrize(("sd", "margin"), [(0.0, 0.02), (0.2, 0.0), (0.2, 5e-324)])
    def test_queries_needed_is_unknown_without_spread_or_margin(
        self, sd: float, margin: float
    ) -> None:
        assert queries_needed(sd, margin) is None

    def test_wilson_by_hand(self) -> None:
        # z² = 3.841459; middle (8 + 1.920729)/13.841459; half z √(8·2/10 + z²/4) / 13.841459
        assert wilson(8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)

    def test_wilson_does_not_shrink_to_a_point_at_the_ends(self) -> None:
        # 10 / 13.841459, though 16 of 16 would round to just below 1
        assert wilson(10, 10) == (pytest.approx(0.722467, abs=1e-6), 1)
        assert wilson(16, 16)[1] == 1
        assert wilson(0, 10) == (0, pytest.approx(0.277533, abs=1e-6))

    @pytest.mark.parametrize(
        ("tail", "df", "expected"),
        [(0.025, 1, 12.706205), (0.025, 2, 4.302653), (0.025, 9, 2.262157), (0.005, 30, 2.749996)],
    )
    def test_student_t_by_the_table(self, tail: float, df: int, expected: float) -> None:
        assert student_t_quantile(tail, df) == pytest.approx(expected, abs=1e-6)

    def test_student_t_with_one_degree_is_cauchy(self) -> None:
        # 1/2 - atan(1)/π
        assert student_t_tail(1.0, 1) == pytest.approx(0.25)
