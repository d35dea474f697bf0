"""Overlap of two rankings by hand-computed values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from embed_ab.overlap import jaccard, rbo_ext


def ranked(*lists: list[int]) -> NDArray[np.int32]:
    return np.array(lists, dtype=np.int32)


def rbo_of_two_lists(a: list[int], b: list[int], p: float) -> float:
    """Equation 32 of Webber et al., term by term."""
    if not a or not b:
        return 1.0 if a == b else 0.0
    short, long = sorted((a, b), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the paper's letters
    x = {d: len(set(short[:d]) & set(long[:d])) for d in range(1, l + 1)}
    total = sum(x[d] / d * p**d for d in range(1, l + 1))
    total += sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * total + ((x[l] - x[s]) / l + x[s] / s) * p**l


class TestJaccard:
    def test_shared_over_either(self) -> None:
        # {1, 2, 3} and {3, 4, 1}: 2 of 4
        assert jaccard(ranked([1, 2, 3]), ranked([3, 4, 1]), 3).tolist() == [0.5]

    def test_only_the_top_k_counts(self) -> None:
        # {1, 2} and {3, 4}
        assert jaccard(ranked([1, 2, 3]), ranked([3, 4, 1]), 2).tolist() == [0]

    def test_lists_of_unequal_length(self) -> None:
        # {1} and {1, 2}
        assert jaccard(ranked([1, -1, -1]), ranked([1, 2]), 3).tolist() == [0.5]

    def test_two_empty_lists_overlap_fully_and_one_empty_not_at_all(self) -> None:
        assert jaccard(ranked([-1, -1], [-1, -1]), ranked([-1, -1], [3, -1]), 2).tolist() == [1, 0]


class TestRbo:
    def test_equal_lists_overlap_fully(self) -> None:
        assert rbo_ext(ranked([4, 2, 9]), ranked([4, 2, 9]), 3) == pytest.approx([1], abs=1e-15)

    def test_rounding_never_leads_above_one(self) -> None:
        """Unclipped, six equal ranks with p = 0.8 give 1.0000000000000002."""
        six = ranked([0, 1, 2, 3, 4, 5])

        assert rbo_ext(six, six, 6, p=0.8)[0] <= 1

    def test_lists_without_a_common_document_do_not_overlap(self) -> None:
        assert rbo_ext(ranked([1, 2]), ranked([3, 4]), 2).tolist() == [0]

    def test_exchanged_neighbours_at_the_top(self) -> None:
        # X = 0, 2; p = 0.5: (0.5/0.5) (0 + 2/2 · 0.25) + 2/2 · 0.25
        assert rbo_ext(ranked([1, 2]), ranked([2, 1]), 2, p=0.5) == pytest.approx([0.5])

    def test_lists_of_unequal_length(self) -> None:
        # s = 1, l = 2, X = 1, 1; p = 0.5:
        # (0.5/0.5) (1/1 · 0.5 + 1/2 · 0.25 + 1 · (2-1)/(1·2) · 0.25) + (0/2 + 1/1) · 0.25
        assert rbo_ext(ranked([1, -1]), ranked([1, 2]), 2, p=0.5) == pytest.approx([1.0])

    def test_a_document_beyond_the_end_of_the_short_list(self) -> None:
        # short [2], long [1, 2]: X = 0, 1; p = 0.5:
        # (0.5/0.5) (0 + 1/2 · 0.25 + 0) + ((1 - 0)/2 + 0/1) · 0.25
        assert rbo_ext(ranked([2]), ranked([1, 2]), 2, p=0.5) == pytest.approx([0.25])

    def test_two_empty_lists_overlap_fully_and_one_empty_not_at_all(self) -> None:
        assert rbo_ext(ranked([-1, -1], [-1, -1]), ranked([-1, -1], [3, 1]), 2).tolist() == [1, 0]

    def test_the_top_weighs_most(self) -> None:
        top = rbo_ext(ranked([1, 2, 3, 4]), ranked([1, 2, 8, 9]), 4)
        bottom = rbo_ext(ranked([1, 2, 3, 4]), ranked([8, 9, 3, 4]), 4)

        assert top[0] > bottom[0]


pairs_of_lists = st.lists(
    st.tuples(*(st.lists(st.integers(0, 12), unique=True, max_size=8).map(list) for _ in range(2))),
    min_size=1,
    max_size=5,
)


def padded(lists: list[list[int]]) -> NDArray[np.int32]:
    return ranked(*(one + [-1] * (9 - len(one)) for one in lists))


@given(pairs_of_lists, st.integers(1, 10), st.floats(0.1, 0.95))
def test_rbo_agrees_with_the_formula_of_the_paper(
    pairs: list[tuple[list[int], list[int]]], k: int, p: float
) -> None:
    a, b = (padded([pair[side] for pair in pairs]) for side in (0, 1))

    assert rbo_ext(a, b, k, p) == pytest.approx(
        [rbo_of_two_lists(x[:k], y[:k], p) for x, y in pairs], abs=1e-12
    )


@given(pairs_of_lists, st.integers(1, 10))
def test_jaccard_agrees_with_sets(pairs: list[tuple[list[int], list[int]]], k: int) -> None:
    a, b = (padded([pair[side] for pair in pairs]) for side in (0, 1))

    expected = [
        len({*x[:k]} & {*y[:k]}) / len({*x[:k], *y[:k]}) if x or y else 1.0 for x, y in pairs
    ]
    assert jaccard(a, b, k).tolist() == expected


@given(pairs_of_lists, st.integers(1, 10))
def test_exchanging_the_systems_changes_nothing(
    pairs: list[tuple[list[int], list[int]]], k: int
) -> None:
    a, b = (padded([pair[side] for pair in pairs]) for side in (0, 1))

    assert jaccard(a, b, k).tolist() == jaccard(b, a, k).tolist()
    assert rbo_ext(a, b, k).tolist() == rbo_ext(b, a, k).tolist()
