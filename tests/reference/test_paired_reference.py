"""Paired statistics against scipy and the reference summaries."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray
from reference_runs import COLLECTIONS, read_columns

from embed_ab import evalset
from embed_ab.metrics import Metric
from embed_ab.paired import interval, paired_differences, wilson
from embed_ab.resampling import student_t_quantile, student_t_tail

NDCG = Metric("ndcg", 10)


def skewed_differences(n: int, seed: int = 0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    return np.where(generator.random(n) < 0.5, 0, generator.beta(1, 3, n) - 0.2)


def mean_of_differences(
    x: NDArray[np.float64], y: NDArray[np.float64], axis: int
) -> NDArray[np.float64]:
    return np.asarray(np.mean(x - y, axis=axis))


def monte_carlo_error(p_value: float) -> float:
    """Four standard errors of the difference of two p-values drawn 10,000 times.

    Ours counts both tails; scipy doubles the smaller one, which has the larger variance.
    """
    both_tails = p_value * (1 - p_value)
    doubled = 4 * (p_value / 2) * (1 - p_value / 2)
    return 4 * math.sqrt((both_tails + doubled) / 10_000)


@pytest.mark.parametrize(("ours", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
@pytest.mark.parametrize("n", [5, 50, 1000])
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_the_interval_has_the_endpoints_of_scipy_from_the_same_draws(
    ours: str, theirs: str, n: int, level: float
) -> None:
    differences = skewed_differences(n)
    expected = scipy.stats.bootstrap(
        (differences,),
        np.mean,
        n_resamples=2000,
        confidence_level=level,
        method=theirs,
        batch=500,
        rng=np.random.default_rng(7),
    ).confidence_interval

    assert interval(
        differences,
        seed=7,
        resamples=2000,
        method=ours,  # type: ignore[arg-type]
        level=level,
    ) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_exact_p_value_is_that_of_scipy() -> None:
    a, b = np.zeros(10), skewed_differences(40)[:10]
    expected = scipy.stats.permutation_test(
        (b, a), mean_of_differences, permutation_type="samples", vectorized=True
    )
    (ours,) = paired_differences({NDCG: a}, {NDCG: b})

    assert ours.p_value == pytest.approx(expected.pvalue, abs=1e-12)


def test_the_drawn_p_value_is_that_of_scipy_within_monte_carlo_error() -> None:
    a, b = np.zeros(120), skewed_differences(120, seed=5) - 0.01
    expected = scipy.stats.permutation_test(
        (b, a),
        mean_of_differences,
        permutation_type="samples",
        vectorized=True,
        n_resamples=9999,
        batch=1000,
        rng=np.random.default_rng(0),
    )
    (ours,) = paired_differences({NDCG: a}, {NDCG: b})

    assert 0.005 < expected.pvalue < 0.5  # where the error can be seen
    assert ours.p_value == pytest.approx(expected.pvalue, abs=monte_carlo_error(expected.pvalue))


@pytest.mark.parametrize("df", [1, 2, 3, 4, 9, 10, 30, 99, 1000, 100_001])
def test_student_t_is_that_of_scipy(df: int) -> None:
    for t in (0.0, 0.1, 1.0, 2.5, 10.0, 300.0):
        assert student_t_tail(t, df) == pytest.approx(scipy.stats.t.sf(t, df), abs=1e-9)
    for tail in (0.5, 0.2, 0.025, 0.025 / 16):
        assert student_t_quantile(tail, df) == pytest.approx(
            scipy.stats.t.isf(tail, df), rel=1e-9, abs=1e-9
        )


@pytest.mark.parametrize("successes", [0, 1, 17, 30])
def test_wilson_is_that_of_scipy(successes: int) -> None:
    expected = scipy.stats.binomtest(successes, 30).proportion_ci(method="wilson")

    assert wilson(successes, 30) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.reference
@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_reference_pair_is_reproduced(reference_data: Path, name: str) -> None:
    collection = evalset.load(reference_data / name)
    folder = reference_data / name / "reference"
    pairs = json.loads((folder / "summary.json").read_text("utf-8"))["pairs"]
    columns = ["ndcg@10", "ndcg_exp@10", "recall@10", "mrr@10", "map@100"]
    for pair, summary in pairs.items():
        a, b = (
            read_columns(folder / f"per_query.{system}.tsv", collection)
            for system in pair.split("__")
        )
        keys = {Metric(column, 0): column for column in columns}
        results = paired_differences(
            {key: a[column] for key, column in keys.items()},
            {key: b[column] for key, column in keys.items()},
            method="percentile",
        )
        bca = interval(
            b["ndcg@10"][~np.isnan(b["ndcg@10"])] - a["ndcg@10"][~np.isnan(a["ndcg@10"])],
            method="bca",
        )
        for result, column in zip(results, columns, strict=True):
            expected = summary["metrics"][column]
            assert result.n_queries == summary["n"]
            assert (result.wins, result.losses, result.ties) == (
                expected["wins_b"],
                expected["losses_b"],
                expected["ties"],
            )
            assert result.difference == pytest.approx(expected["delta"], abs=1e-9)
            assert (result.mean_a, result.mean_b) == pytest.approx(
                (expected["mean_a"], expected["mean_b"]), abs=1e-9
            )
            # other draws: endpoints of 10,000 resamples move by up to 0.0007 (one sd)
            assert (result.low, result.high) == pytest.approx(
                expected["ci95_percentile"], abs=0.003
            )
            p_value = expected["p_signflip_two_sided"]
            assert result.p_value == pytest.approx(p_value, abs=monte_carlo_error(p_value))
        assert bca == pytest.approx(summary["metrics"]["ndcg@10"]["ci95_bca"], abs=0.003)
