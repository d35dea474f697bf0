"""Hybrids: by hand, by a plain second implementation, and by what must hold for any runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed_ab.fusion import blend, rrf
from embed_ab.runs import Run

Lists = list[list[tuple[int, float]]]
"""For each query, documents and scores, best first."""


def run(*queries: Sequence[tuple[int, float]], depth: int | None = None) -> Run:
    width = depth or max(map(len, queries))
    documents = np.full((len(queries), width), -1, dtype=np.int32)
    scores = np.full((len(queries), width), -np.inf)
    for row, found in enumerate(queries):
        for rank, (document, score) in enumerate(found):
            documents[row, rank], scores[row, rank] = document, score
    return Run(name="a", documents=documents, scores=scores)


def lists(found: Run) -> Lists:
    return [
        [(int(d), float(s)) for d, s in zip(documents, scores, strict=True) if d >= 0]
        for documents, scores in zip(found.documents, found.scores, strict=True)
    ]


def test_rrf_adds_reciprocal_ranks() -> None:
    """k = 60. d2 is 2nd and 1st, d1 1st only, d0 2nd only; scores do not matter."""
    first, second = run([(1, 9.0), (2, 8.0)]), run([(2, 0.2), (0, 0.1)])

    fused = rrf([first, second], k=60, depth=3, name="f")

    assert fused.name == "f"
    assert fused.documents.tolist() == [[2, 1, 0]]
    assert fused.scores[0] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62], abs=1e-15)


def test_rrf_ties_go_to_the_lower_document() -> None:
    """d5 and d3 are each 1st once: equal."""
    fused = rrf([run([(5, 1.0)]), run([(3, 1.0)])], k=60, depth=5, name="f")

    assert fused.documents.tolist() == [[3, 5, -1, -1, -1]]
    assert fused.scores[0, 2:].tolist() == [-np.inf] * 3


def test_the_same_ranks_in_other_runs_tie_exactly() -> None:
    """d0 is 1st, 2nd, 3rd; d1 2nd, 3rd, 1st; d2 3rd, 1st, 2nd. Sums in other orders differ."""
    runs = [
        run([(0, 3.0), (1, 2.0), (2, 1.0)]),
        run([(2, 3.0), (0, 2.0), (1, 1.0)]),
        run([(1, 3.0), (2, 2.0), (0, 1.0)]),
    ]

    fused = rrf(runs, k=2, depth=3, name="f")

    assert 1 / 3 + 1 / 4 + 1 / 5 != 1 / 4 + 1 / 5 + 1 / 3
    assert len(set(fused.scores[0].tolist())) == 1
    assert fused.documents.tolist() == [[0, 1, 2]]


def test_blend_adds_weighted_scores_from_0_to_1() -> None:
    """First: 9, 5, 1 → 1, 0.5, 0. Second: 0.4, 0.2 → 1, 0, and d1 is not there: 0."""
    first, second = run([(0, 9.0), (1, 5.0), (2, 1.0)]), run([(2, 0.4), (0, 0.2)])

    fused = blend([first, second], [0.75, 0.25], "minmax", depth=3, name="f")

    # d0: 0.75 + 0; d1: 0.375; d2: 0 + 0.25
    assert fused.documents.tolist() == [[0, 1, 2]]
    assert fused.scores[0] == pytest.approx([0.75, 0.375, 0.25], abs=1e-15)


def test_blend_of_standard_scores_gives_a_missing_document_the_lowest() -> None:
    """Mean 3 and deviation √(8/3) of 5, 3, 1 give z, 0, −z with z = 2 / √(8/3) = 1.224745.

    Of 4, 2: 1 and −1; d1 is not there: −1.
    """
    first, second = run([(0, 5.0), (1, 3.0), (2, 1.0)]), run([(2, 4.0), (0, 2.0)])

    fused = blend([first, second], [1, 1], "z", depth=3, name="f")

    # d0: z − 1; d1: 0 − 1; d2: −z + 1
    assert fused.documents.tolist() == [[0, 2, 1]]
    assert fused.scores[0] == pytest.approx([0.224745, -0.224745, -1], abs=1e-6)


def test_scores_that_are_all_equal_are_1_or_standard_0() -> None:
    first, second = run([(0, 5.0), (1, 5.0)]), run([(2, 0.1)])

    minmax = blend([first, second], [2, 1], "minmax", depth=3, name="f")
    standard = blend([first, second], [2, 1], "z", depth=3, name="f")

    assert lists(minmax) == [[(0, 2), (1, 2), (2, 1)]]
    assert lists(standard) == [[(0, 0), (1, 0), (2, 0)]]


@pytest.mark.parametrize("normalise", ["minmax", "z"])
def test_a_query_without_documents_in_any_run_gets_none(normalise: str) -> None:
    nothing = run([], [(0, 1.0)], depth=2)

    for fused in (
        blend([nothing, nothing], [1, 1], normalise, depth=2, name="f"),  # type: ignore[arg-type]
        rrf([nothing, nothing], k=60, depth=2, name="f"),
    ):
        assert fused.documents.tolist() == [[-1, -1], [0, -1]]


def test_scores_as_large_as_numbers_can_be_are_normalised() -> None:
    """From −1.7e308 to 1.7e308 the distance itself is no float64; 0 lies in the middle."""
    wide = run([(0, 1.7e308), (1, 0.0), (2, -1.7e308)])

    minmax = blend([wide, wide], [0.5, 0.5], "minmax", depth=3, name="f")
    standard = blend([wide, wide], [0.5, 0.5], "z", depth=3, name="f")

    assert lists(minmax) == [[(0, 1), (1, 0.5), (2, 0)]]
    assert standard.scores[0] == pytest.approx([1.224745, 0, -1.224745], abs=1e-6)


scores = st.sampled_from([-3.0, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0, 7.0])
runs_of_two_queries = st.lists(
    st.dictionaries(st.integers(0, 9), scores, max_size=6).map(
        lambda found: sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ),
    min_size=2,
    max_size=2,
).map(lambda queries: run(*queries, depth=6))
some_runs = st.lists(runs_of_two_queries, min_size=2, max_size=4)


def plain_rrf(runs: Sequence[Lists], k: int) -> list[dict[int, float]]:
    fused: list[dict[int, float]] = [{} for _ in runs[0]]
    for found in runs:
        for query, ranked in enumerate(found):
            for rank, (document, _) in enumerate(ranked, start=1):
                fused[query][document] = fused[query].get(document, 0) + 1 / (k + rank)
    return fused


def plain_blend(
    runs: Sequence[Lists], weights: Sequence[float], normalise: str
) -> list[dict[int, float]]:
    fused: list[dict[int, float]] = []
    for query in range(len(runs[0])):
        documents = {document for found in runs for document, _ in found[query]}
        total = dict.fromkeys(documents, 0.0)
        for found, weight in zip(runs, weights, strict=True):
            values = [score for _, score in found[query]]
            if not values:
                continue
            if normalise == "minmax":
                low, span = min(values), max(values) - min(values)
                of = {d: (s - low) / span if span else 1.0 for d, s in found[query]}
                lacking = 0.0
            else:
                mean = sum(values) / len(values)
                deviation = math.sqrt(sum((s - mean) ** 2 for s in values) / len(values))
                of = {d: (s - mean) / deviation if deviation else 0.0 for d, s in found[query]}
                lacking = min(of.values())
            for document in documents:
                total[document] += weight * of.get(document, lacking)
        fused.append(total)
    return fused


def assert_ranks(fused: Run, expected: Sequence[dict[int, float]]) -> None:
    for ranked, scored in zip(lists(fused), expected, strict=True):
        assert {document for document, _ in ranked} == set(scored)
        assert ranked == sorted(ranked, key=lambda item: (-item[1], item[0]))
        for document, score in ranked:
            assert score == pytest.approx(scored[document], abs=1e-12)


@given(runs=some_runs, k=st.integers(1, 100))
def test_rrf_is_what_a_plain_loop_gives(runs: list[Run], k: int) -> None:
    assert_ranks(rrf(runs, k=k, depth=10, name="f"), plain_rrf([lists(each) for each in runs], k))


@given(runs=some_runs, normalise=st.sampled_from(["minmax", "z"]), seed=st.integers(0, 99))
def test_blend_is_what_a_plain_loop_gives(runs: list[Run], normalise: str, seed: int) -> None:
    weights = np.random.default_rng(seed).integers(0, 4, len(runs)).astype(float)

    fused = blend(runs, weights.tolist(), normalise, depth=10, name="f")  # type: ignore[arg-type]

    assert_ranks(fused, plain_blend([lists(each) for each in runs], weights.tolist(), normalise))


@given(runs=some_runs, seed=st.integers(0, 99))
def test_the_order_of_the_runs_does_not_matter(runs: list[Run], seed: int) -> None:
    other = [runs[place] for place in np.random.default_rng(seed).permutation(len(runs))]
    equal = [0.5] * len(runs)

    assert lists(rrf(runs, k=60, depth=5, name="f")) == lists(rrf(other, k=60, depth=5, name="f"))
    assert lists(blend(runs, equal, "minmax", depth=5, name="f")) == lists(
        blend(other, equal, "minmax", depth=5, name="f")
    )


@given(found=runs_of_two_queries)
def test_a_run_fused_with_itself_keeps_its_order(found: Run) -> None:
    for fused in (
        rrf([found, found], k=60, depth=6, name="f"),
        blend([found, found], [1, 3], "minmax", depth=6, name="f"),
        blend([found, found], [1, 3], "z", depth=6, name="f"),
    ):
        assert fused.documents.tolist() == found.documents.tolist()


@given(runs=some_runs, depth=st.integers(1, 10))
def test_a_shallower_result_is_the_beginning_of_a_deeper_one(runs: list[Run], depth: int) -> None:
    deep = rrf(runs, k=60, depth=10, name="f")

    assert lists(rrf(runs, k=60, depth=depth, name="f")) == lists(deep.cut(depth))
