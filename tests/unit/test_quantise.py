"""Quantised vectors: their codes, exact search in them, and rescoring by the float query."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from embed_ab import search
from embed_ab.quantise import Precision, Ranges, bytes_per_vector, signs, top_k

Vectors = NDArray[np.float32]


def vectors(*rows: list[float]) -> Vectors:
    return np.array(rows, dtype=np.float32)


def random_unit(n: int, dimension: int, seed: int = 0) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((n, dimension)).astype(np.float32)
    unit: Vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit


@pytest.mark.parametrize(
    ("dimension", "precision", "n_bytes"),
    [
        (384, "float32", 1536),  # 4 · 384
        (384, "int8", 384),
        (384, "ubinary", 48),  # 384 / 8
        (10, "ubinary", 2),  # 10 bits fill one byte and a part of the next
    ],
)
def test_the_bytes_of_a_vector(dimension: int, precision: Precision, n_bytes: int) -> None:
    assert bytes_per_vector(dimension, precision) == n_bytes


def test_int8_steps_lie_between_each_dimensions_least_and_greatest_document_value() -> None:
    documents = vectors([0, -51], [255, 51], [100.5, 0])
    documents[:, 1] *= 2.5
    ranges = Ranges.of(documents)

    # Dimension 0 has steps of 255 / 255 = 1 from 0: values 0, 255, 100.5 are steps 0, 255, 100.
    # Dimension 1 has steps of 1 from -127.5: value 0 is 127.5 steps above, so step 127.
    assert ranges.codes(documents).tolist() == [[-128, -128], [127, 127], [-28, -1]]


def test_a_query_outside_the_ranges_takes_the_nearest_step() -> None:
    ranges = Ranges.of(vectors([0], [255]))

    assert ranges.codes(vectors([-7], [999])).tolist() == [[-128], [127]]


def test_a_dimension_in_which_all_documents_agree_has_one_code() -> None:
    ranges = Ranges.of(vectors([3], [3]))

    assert ranges.codes(vectors([3])).tolist() == [[-128]]
    assert ranges.values(ranges.codes(vectors([3]))).tolist() == [[3]]


def test_a_bit_is_1_above_0() -> None:
    # 0.1, 0, -0.2, 5, … -> 1001 0000 and 1 with seven empty bits
    row = [0.1, 0, -0.2, 5, 0, 0, -1, 0, 1]

    assert signs(vectors(row)).tolist() == [[0b10010000, 0b10000000]]


def test_hamming_distance_orders_and_ties_go_by_index() -> None:
    queries = vectors([1, 1, 1, 1])
    documents = vectors([1, -1, -1, -1], [1, 1, -1, 1], [1, 1, 1, 1], [-1, 1, 1, 1])

    found, scores = top_k(queries, documents, 4, "ubinary", n_rescored=0)

    # bits that differ: 3, 1, 0, 1; documents 1 and 3 tie
    assert found.tolist() == [[2, 1, 3, 0]]
    assert scores.tolist() == [[0, -1, -1, -3]]


def test_the_inner_product_of_codes_orders_int8() -> None:
    documents = vectors([0, 255], [255, 0], [128, 128])
    queries = vectors([255, 0])

    found, scores = top_k(queries, documents, 3, "int8", n_rescored=0)

    # codes: query (127, -128); documents (-128, 127), (127, -128), (0, 0)
    # products: -2·127·128 = -32512; 127² + 128² = 32513; 0
    assert found.tolist() == [[1, 2, 0]]
    assert scores.tolist() == [[32513, 0, -32512]]


def test_rescoring_weighs_the_bits_by_the_float_query() -> None:
    queries = vectors([0.9, 0.1, 0.1])
    documents = vectors([-1, 1, 1], [1, -1, -1], [1, 1, -1])

    plain, _ = top_k(queries, documents, 3, "ubinary", n_rescored=0)
    rescored, scores = top_k(queries, documents, 3, "ubinary", n_rescored=12)

    # distances to 111: 1, 2, 1; rescored: 0.1 + 0.1, 0.9, 0.9 + 0.1
    assert plain.tolist() == [[0, 2, 1]]
    assert rescored.tolist() == [[2, 1, 0]]
    assert scores[0] == pytest.approx([1.0, 0.9, 0.2])


def test_rescoring_takes_the_value_at_which_an_int8_step_begins() -> None:
    documents = vectors([0, 255], [255, 0], [100.5, 128])
    queries = vectors([0.5, 0.25])

    found, scores = top_k(queries, documents, 3, "int8", n_rescored=12)

    # 0.25 · 255 = 63.75; 0.5 · 255 = 127.5; 0.5 · 100 (not 100.5) + 0.25 · 128 = 82
    assert found.tolist() == [[1, 2, 0]]
    assert scores.tolist() == [[127.5, 82, 63.75]]


def test_rescoring_sees_so_many_and_returns_no_others() -> None:
    # Among five: the fifth by distance would be the best by the float query.
    queries = vectors([1] + [0.01] * 8)
    near = [[-1] + [1] * 7 + [-1]] * 4  # distance 2, rescored 7 · 0.01 = 0.07
    far = [1] + [-1] * 3 + [1] * 5  # distance 3, rescored 1 + 5 · 0.01 = 1.05
    documents = vectors(*near, far)

    four, _ = top_k(queries, documents, 1, "ubinary", n_rescored=4)
    five, _ = top_k(queries, documents, 1, "ubinary", n_rescored=5)
    two, scores = top_k(queries, documents, 3, "ubinary", n_rescored=2)

    assert (four.tolist(), five.tolist(), two.tolist()) == ([[0]], [[4]], [[0, 1, -1]])
    assert scores[0] == pytest.approx([0.07, 0.07, -np.inf])


@pytest.mark.parametrize("precision", ["int8", "ubinary"])
@pytest.mark.parametrize("n_rescored", [0, 12])
def test_what_is_not_there_is_nothing(precision: Precision, n_rescored: int) -> None:
    found, scores = top_k(
        random_unit(2, 8), random_unit(1, 8, seed=1), 3, precision, n_rescored=n_rescored
    )
    nothing = np.empty((0, 8), np.float32)
    none, _ = top_k(random_unit(2, 8), nothing, 1, precision, n_rescored=n_rescored)

    assert found.tolist() == [[0, -1, -1]] * 2
    assert np.isneginf(scores[:, 1:]).all()
    assert none.tolist() == [[-1], [-1]]


def by_definition(
    queries: Vectors, documents: Vectors, depth: int, precision: Precision, *, n_rescored: int
) -> list[list[int]]:
    """Pair by pair in Python's whole numbers, every row sorted whole."""
    ranges = Ranges.of(documents)
    if precision == "int8":
        rows = ranges.codes(documents).astype(int).tolist()
        asked = ranges.codes(queries).astype(int).tolist()
        distance = [[-sum(a * b for a, b in zip(q, d, strict=True)) for d in rows] for q in asked]
        values = ranges.values(ranges.codes(documents))
    else:
        values = (documents > 0).astype(np.float64)
        distance = [[int(np.sum((q > 0) != (d > 0))) for d in documents] for q in queries]
    lists = []
    for query, row in zip(queries, distance, strict=True):
        order = sorted(range(len(row)), key=lambda index: (row[index], index))
        if n_rescored:
            score = [float(np.sum(query * value)) for value in values]
            order = sorted(
                order[:n_rescored],
                key=lambda index: (-score[index], index),
            )
        lists.append(order[:depth])
    return lists


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 70)),
    depth=st.integers(1, 6),
    precision=st.sampled_from(["int8", "ubinary"]),
    n_rescored=st.integers(0, 30),
    block=st.integers(1, 50),
)
def test_search_is_what_its_definition_says_in_blocks_of_any_size(
    seed: int,
    shape: tuple[int, int, int],
    depth: int,
    precision: Precision,
    n_rescored: int,
    block: int,
) -> None:
    n_queries, n_documents, dimension = shape
    documents = random_unit(n_documents, dimension, seed)
    documents[n_documents // 2 :] = documents[: n_documents - n_documents // 2]  # twins tie
    queries = random_unit(n_queries, dimension, seed + 1)

    found, _ = top_k(queries, documents, depth, precision, n_rescored=n_rescored, block=block)

    expected = by_definition(queries, documents, depth, precision, n_rescored=n_rescored)
    assert [[index for index in row if index >= 0] for row in found.tolist()] == expected


@pytest.mark.parametrize("dimension", [1024, 1025, 4096])
def test_int8_products_are_exact_however_long_the_vectors(dimension: int) -> None:
    """All codes 127 but the last: neighbours that differ by 1 in 2^26 must not tie."""
    documents = np.full((2, dimension), 255, dtype=np.float32)
    documents[0, -1] = 254
    ranges_from = np.zeros((1, dimension), dtype=np.float32)
    queries = np.full((1, dimension), 255, dtype=np.float32)

    found, scores = top_k(
        queries, np.concatenate([documents, ranges_from]), 2, "int8", n_rescored=0
    )

    # 127² · dimension, and once 127 · 126
    assert found.tolist() == [[1, 0]]
    assert scores.tolist() == [[16129 * dimension, 16129 * dimension - 127]]


def test_int8_with_rescoring_finds_nearly_what_float32_finds() -> None:
    documents, queries = random_unit(500, 64), random_unit(50, 64, seed=1)

    exact, _ = search.top_k(queries, documents, 10)
    found, _ = top_k(queries, documents, 10, "int8", n_rescored=40)

    shared = [len({*a} & {*b}) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]
    assert sum(shared) >= 480  # of 500
