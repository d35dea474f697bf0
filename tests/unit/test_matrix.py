"""Several systems against one baseline, on rankings made by hand and any other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab.comparison import Options, compare_runs
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset, from_records
from embed_ab.matrix import Matrix, _notes, compare_all
from embed_ab.origin import Origin, System
from embed_ab.runs import Run
from embed_ab.settings import resolve

N = 12
"""Queries; query i has document i as its only relevant one."""


def evalset() -> Evalset:
    names = [f"{i:02}" for i in range(N)]
    return from_records(
        {f"d{name}": f"text {name}" for name in names},
        {f"q{name}": f"query {name}" for name in names},
        {f"q{name}": {f"d{name}": 1} for name in names},
    )


def system(ranks: list[int], name: str) -> System:
    """A system that has the relevant document of query i at rank `ranks[i]`, 0 for the first."""
    rows = []
    for query, rank in enumerate(ranks):
        others = [document for document in range(N) if document != query]
        rows.append([*others[:rank], query, *others[rank:]])
    documents = np.array(rows, dtype=np.int32)
    scores = np.broadcast_to(-np.arange(N, dtype=np.float64), documents.shape)
    return System(
        run=Run(name=name, documents=documents, scores=scores), origin=Origin(system=name)
    )


def options(**flags: Any) -> Options:
    given = {"k": 3, "metrics": "ndcg,hit", "resamples": 10_000} | flags
    return resolve(given, config=None).options()


BASELINE = system([1] * N, "bm25:auto")
BEST = system([0] * N, "st:best")
WORST = system([5] * N, "st:worst")
SAME = system([1] * N, "st:same")
RANKED = {"A": BASELINE, "B": BEST, "C": SAME, "D": WORST}


def matrix(**flags: Any) -> Matrix:
    return compare_all(evalset(), RANKED, options(**flags))


def test_every_system_is_compared_with_the_first() -> None:
    found = matrix()

    assert [s.label for s in found.systems] == ["A", "B", "C", "D"]
    assert [s.system for s in found.systems] == ["bm25:auto", "st:best", "st:same", "st:worst"]
    # The relevant document at ranks 2, 1, 2, 6: 1/log2(3) = 0.630930, 1, 0.630930, 0
    means = [s.means["ndcg@3"] for s in found.systems]
    assert means == pytest.approx([0.630930, 1, 0.630930, 0], abs=1e-6)
    differences = [c.differences[0].difference for c in found.contrasts]
    assert differences == pytest.approx([0.369070, 0, -0.630930], abs=1e-6)
    assert [c.verdicts["ndcg@3"] for c in found.contrasts] == [
        "better",
        "no difference shown",
        "worse",
    ]


def test_p_values_are_adjusted_over_all_systems_and_metrics() -> None:
    found = matrix()

    # All 12 differences equal: 2 of 2^12 sign patterns are as far from 0, p = 2/4096 = 0.000488.
    # Where all tie p = 1: nDCG and hit of C, and hit of B (rank 2 is a hit, too).
    p_values = [[d.p_value for d in c.differences] for c in found.contrasts]
    low = 2 / 4096
    assert p_values == [[low, 1], [1, 1], [low, low]]
    # Three of six are low: 6 · p, and the later ones are no lower (5 · p, 4 · p).
    assert [[d.p_holm for d in c.differences] for c in found.contrasts] == [
        [6 * low, 1],
        [1, 1],
        [6 * low, 6 * low],
    ]
    assert found.n_tests == 6


def test_the_sentence_names_who_is_better_and_worse() -> None:
    assert matrix().verdict == (
        "Compared with A by ndcg@3, better: B; worse: D; no difference shown: C "
        "(Holm-adjusted over 6 tests, at 5%)."
    )


def test_a_verdict_goes_by_the_adjusted_p_value_though_the_interval_excludes_0() -> None:
    """Six queries better, the others tied: p = 2/2^6 = 0.031, among four tests 0.125."""
    better = system([0] * 6 + [1] * 6, "st:x")

    found = compare_all(
        evalset(), {"A": BASELINE, "B": better, "C": SAME}, options(metrics="ndcg,hit")
    )

    difference = found.contrasts[0].differences[0]
    assert difference.low > 0
    assert (difference.p_value, difference.p_holm) == (0.03125, 0.125)
    assert found.contrasts[0].verdicts["ndcg@3"] == "no difference shown"


def test_too_few_queries_give_no_verdict_and_say_so() -> None:
    found = matrix(**{"min-queries": 13})

    assert {word for c in found.contrasts for word in c.verdicts.values()} == {
        "no difference shown"
    }
    assert found.notes == (
        "12 queries, or groups of them, are fewer than the 13 that a verdict needs",
    )


def test_queries_too_few_for_so_many_tests_are_said() -> None:
    """All signs alike give p = 2 / 2^12; times 120 tests that is 0.059."""
    found = _notes(12, 120, options(resamples=100_000))

    assert found == (
        "with 12 queries, or groups of them, and 120 tests no difference can be shown: take more "
        "queries, or fewer systems and metrics",
    )
    assert _notes(13, 120, options(resamples=100_000)) == ()


def test_resamples_too_few_for_so_many_tests_are_said() -> None:
    # 6 tests / 101 = 0.059 is above 0.05; 6 / (0.05) = 120 sign flips give p down to 1/121
    assert matrix(resamples=100).notes == (
        "with 100 resamples and 6 tests no difference can be shown: give --resamples 121 or more",
    )
    assert matrix(resamples=121).notes == ()
    assert matrix(resamples=119).notes == ()  # 6 / 120 is 0.05 and no more


def test_a_caution_names_what_it_is_about() -> None:
    """The set, a comparison with the baseline, or systems, the baseline among them."""
    mock = replace(BASELINE, origin=Origin(system="mock:word", is_mock=True))
    poor = replace(WORST, origin=Origin(system="st:worst", missing_prompt="It wants a prompt."))
    found = compare_all(evalset(), {"A": mock, "B": BEST, "C": SAME, "D": poor}, options())
    warned = {w.code: w for w in found.cautions}

    assert (warned["few_queries"].systems, warned["few_queries"].comparisons) == ((), ())
    assert warned["identical_rankings"].comparisons == ("C",)
    assert warned["identical_rankings"].meaning == (
        "It returns the same top documents as the baseline for every query."
    )
    assert warned["mock_models"].systems == ("A",)
    assert warned["missing_prompt"].systems == ("D",)
    assert [
        warned[code].about for code in ("few_queries", "identical_rankings", "mock_models")
    ] == [
        "the evaluation set",
        "comparing with C",
        "A",
    ]


def test_a_reranked_system_has_its_candidates_and_the_best_order_of_them() -> None:
    """Two candidates of each query: of the first six the relevant one is among them."""
    ranks = [1] * 6 + [3] * 6
    first = system(ranks, "st:first")
    reranked = replace(first, run=first.run.cut(2), candidates=first.run.cut(2))

    found = compare_all(evalset(), {"A": BASELINE, "B": BEST, "C": reranked}, options())

    b, c = found.contrasts
    assert b.candidates is None
    assert c.candidates is not None
    assert (c.candidates.depth, c.candidates.recall, len(c.candidates.out_of_reach)) == (2, 0.5, 6)
    assert {x.metric: x.ceiling for x in c.candidates.ceilings}["ndcg@3"] == 0.5


def test_an_ignored_caution_is_named_as_ignored() -> None:
    found = matrix(ignore=["few_queries"])

    assert "few_queries" in found.ignored
    assert "few_queries" not in {w.code for w in found.cautions}


def test_each_query_has_the_values_of_every_system() -> None:
    row = matrix().queries[3]

    assert (row.query, row.n_relevant) == ("q03", 1)
    assert [row.values[label]["hit@3"] for label in "ABCD"] == [1, 1, 1, 0]


def test_two_that_find_nothing_are_named() -> None:
    nothing = np.full((N, 4), -1, dtype=np.int32)
    empty = System(
        run=Run(name="x", documents=nothing, scores=np.full((N, 4), -np.inf)),
        origin=Origin(system="bm25:word"),
    )

    with pytest.raises(InputError, match=r"neither A \(bm25:word\) nor C \(bm25:word\) finds"):
        compare_all(evalset(), {"A": empty, "B": BEST, "C": empty}, options())


@settings(deadline=None, max_examples=20)
@given(
    ranks=st.lists(st.lists(st.integers(0, N - 1), min_size=N, max_size=N), min_size=2, max_size=4),
    seed=st.integers(0, 99),
)
def test_numbers_are_those_of_a_comparison_but_for_the_adjustment(
    ranks: list[list[int]], seed: int
) -> None:
    ranked = {label: system(row, f"st:{label}") for label, row in zip("ABCD", ranks, strict=False)}
    chosen = options(seed=seed, resamples=200)

    found = compare_all(evalset(), ranked, chosen)

    for contrast in found.contrasts:
        pair = compare_runs(evalset(), ranked["A"], ranked[contrast.label], None, chosen)
        assert [replace(d, p_holm=0) for d in contrast.differences] == [
            replace(d, p_holm=0) for d in pair.differences
        ]
        assert contrast.overlap == pair.overlap
        assert all(
            mine.p_holm >= theirs.p_holm
            for mine, theirs in zip(contrast.differences, pair.differences, strict=True)
        )


def test_two_systems_are_adjusted_as_a_comparison_is() -> None:
    found = compare_all(evalset(), {"A": BASELINE, "B": BEST}, options())

    pair = compare_runs(evalset(), BASELINE, BEST, None, options())
    assert found.contrasts[0].differences == pair.differences
