"""Exact search: one ranking, whatever the block, the threads and the order of the input."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from embed_ab.search import QUERIES_AT_ONCE, pair_scores, rank_scores, top_k

Vectors = NDArray[np.float32]


def unit(vectors: NDArray[np.floating]) -> Vectors:
    vectors = vectors.astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def random_unit(n: int, dimension: int, seed: int = 0) -> Vectors:
    return unit(np.random.default_rng(seed).standard_normal((n, dimension)))


def nearly_equal(n: int, dimension: int, seed: int = 0) -> Vectors:
    """Vectors whose scores differ by less than the error of a float32 product."""
    noise = np.random.default_rng(seed).standard_normal((n, dimension))
    return unit(random_unit(1, dimension) + 2e-7 * noise)


def by_definition(
    queries: Vectors, documents: Vectors, depth: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Every pair scored alone, every row sorted whole."""
    n_queries, n_documents = len(queries), len(documents)
    scores = np.array(
        [
            pair_scores(
                queries,
                documents,
                np.full(n_documents, query, dtype=np.int32),
                np.arange(n_documents, dtype=np.int32),
            )
            for query in range(n_queries)
        ]
    )
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return order.astype(np.int32), np.take_along_axis(scores, order, axis=1)


def test_documents_are_ordered_by_cosine() -> None:
    queries = np.array([[1, 0], [0, 1]], dtype=np.float32)
    documents = np.array([[0.6, 0.8], [1, 0], [0.8, 0.6]], dtype=np.float32)

    found, scores = top_k(queries, documents, 2)

    assert found.tolist() == [[1, 2], [0, 2]]  # cosines 0.6 1 0.8 and 0.8 0 0.6
    assert scores == pytest.approx(np.array([[1, 0.8], [0.8, 0.6]]), abs=1e-7)
    assert (found.dtype, scores.dtype) == (np.int32, np.float64)


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_equal_scores_go_by_ascending_index(block: int) -> None:
    queries = np.array([[1, 0]], dtype=np.float32)
    documents = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [0, -1]], dtype=np.float32)

    found, _ = top_k(queries, documents, 4, block=block)

    assert found.tolist() == [[1, 3, 0, 2]]  # 1 1 0 0; the fifth, also 0, is cut


def test_a_constant_embedder_ranks_by_ascending_index_in_bounded_memory() -> None:
    """4,000 identical documents: no score can tell any of them apart."""
    queries = random_unit(20, 100)
    documents = np.repeat(random_unit(1, 100, seed=1), 4000, axis=0)

    found, scores = top_k(queries, documents, 5, block=64)

    assert (found == np.arange(5)).all()
    assert (scores == scores[:, :1]).all()


def test_where_fewer_documents_than_the_depth_exist_the_rest_is_empty() -> None:
    queries = np.array([[1, 0]], dtype=np.float32)
    documents = np.array([[0, 1], [1, 0]], dtype=np.float32)

    found, scores = top_k(queries, documents, 4)

    assert found.tolist() == [[1, 0, -1, -1]]
    assert scores.tolist() == [[1, 0, -np.inf, -np.inf]]


def test_only_candidates_are_retrieved() -> None:
    queries = np.array([[1, 0]], dtype=np.float32)
    documents = np.array([[1, 0], [0.6, 0.8], [1, 0], [0, 1]], dtype=np.float32)
    is_candidate = np.array([False, True, True, False])

    found, _ = top_k(queries, documents, 3, is_candidate=is_candidate)

    assert found.tolist() == [[2, 1, -1]]


@pytest.mark.parametrize(("n_queries", "n_documents"), [(0, 3), (2, 0), (0, 0)])
def test_nothing_in_gives_nothing_out(n_queries: int, n_documents: int) -> None:
    queries, documents = random_unit(n_queries, 4), random_unit(n_documents, 4)

    found, scores = top_k(queries, documents, 3)

    assert found.shape == scores.shape == (n_queries, 3)
    assert (found == -1).sum() == 3 * n_queries - min(3, n_documents) * n_queries


def test_float32_noise_does_not_decide() -> None:
    """The float32 product orders these nearly equal documents wrongly."""
    queries, documents = random_unit(5, 64, seed=1), nearly_equal(3000, 64)
    expected, expected_scores = by_definition(queries, documents, 20)

    found, scores = top_k(queries, documents, 20, block=100)

    naive = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :20]
    assert (naive != expected).any()
    assert (found == expected).all()
    assert (scores == expected_scores).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_queries=st.integers(1, 6),
    n_distinct=st.integers(1, 40),
    copies=st.integers(1, 4),
    dimension=st.integers(1, 20),
    depth=st.integers(1, 30),
    block=st.integers(1, 70),
    spread=st.sampled_from([1.0, 1e-7]),
)
def test_it_is_the_definition_for_every_block_size(
    seed: int,
    n_queries: int,
    n_distinct: int,
    copies: int,
    dimension: int,
    depth: int,
    block: int,
    spread: float,
) -> None:
    rng = np.random.default_rng(seed)
    center = rng.standard_normal(dimension) * (spread < 1)
    distinct = unit(center + spread * rng.standard_normal((n_distinct, dimension)))
    documents = distinct[rng.permutation(np.tile(np.arange(n_distinct), copies))]
    queries = unit(rng.standard_normal((n_queries, dimension)))
    expected, expected_scores = by_definition(queries, documents, depth)
    width = min(depth, len(documents))

    found, scores = top_k(queries, documents, depth, block=block)

    assert (found[:, :width] == expected).all()
    assert (scores[:, :width] == expected_scores).all()
    assert (found[:, width:] == -1).all()


def test_the_order_of_the_queries_does_not_matter() -> None:
    queries, documents = random_unit(300, 24), nearly_equal(500, 24)
    shuffled = np.random.default_rng(2).permutation(300)
    found, scores = top_k(queries, documents, 7)

    found_shuffled, scores_shuffled = top_k(queries[shuffled], documents, 7)

    assert (found_shuffled == found[shuffled]).all()
    assert (scores_shuffled == scores[shuffled]).all()


def test_the_order_of_the_documents_does_not_matter() -> None:
    queries, documents = random_unit(30, 24), nearly_equal(500, 24)
    shuffled = np.random.default_rng(2).permutation(500)
    found, scores = top_k(queries, documents, 7)

    found_shuffled, scores_shuffled = top_k(queries, documents[shuffled], 7)

    assert (np.diff(scores) < 0).all()  # without ties, the index has no say
    assert (shuffled[found_shuffled] == found).all()
    assert (scores_shuffled == scores).all()


def test_documents_that_only_get_better_are_all_found() -> None:
    """The worst order: each block beats every floor raised before it."""
    angle = np.linspace(1.5, 0.1, 2000)
    documents = unit(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    queries = np.array([[1, 0]], dtype=np.float32)

    found, _ = top_k(queries, documents, 4, block=32)

    assert found.tolist() == [[1999, 1998, 1997, 1996]]


def test_more_queries_than_one_tile_are_all_answered() -> None:
    n_queries = QUERIES_AT_ONCE + 3
    queries, documents = random_unit(n_queries, 3), random_unit(50, 3, seed=1)

    found, _ = top_k(queries, documents, 2)

    assert (found == by_definition(queries, documents, 2)[0]).all()


def test_a_memory_map_is_searched_like_an_array(tmp_path: Path) -> None:
    queries, documents = random_unit(4, 8), random_unit(100, 8, seed=1)
    np.save(tmp_path / "documents.npy", documents)
    mapped = np.load(tmp_path / "documents.npy", mmap_mode="r")

    found, scores = top_k(queries, mapped, 3, block=16)

    expected, expected_scores = top_k(queries, documents, 3)
    assert (found == expected).all()
    assert (scores == expected_scores).all()


@pytest.mark.parametrize(
    "documents",
    [random_unit(20_000, 4), np.full((20_000, 4), 0.5, dtype=np.float32)],
    ids=["random", "constant"],
)
def test_memory_is_bounded_by_the_block(documents: Vectors) -> None:
    """All scores at once would be 50 x 20,000 x 4 bytes = 4 MB; a tile of 64 is 13 kB."""
    queries = random_unit(50, 4, seed=1)
    tracemalloc.start()
    try:
        top_k(queries, documents, 5, block=64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1e6


def test_the_number_of_threads_does_not_matter() -> None:
    program = """if True:
        import hashlib
        import numpy as np
        from embed_ab.search import top_k
        rng = np.random.default_rng(0)
        vectors = (1 + 1e-7 * rng.standard_normal((3000, 96))) / np.sqrt(96)
        found, scores = top_k(*np.split(vectors.astype(np.float32), [200]), 9)
        print(hashlib.sha256(found.tobytes() + scores.tobytes()).hexdigest())
        """
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ
            | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
            | {"PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "2")
    }

    assert len(printed) == 1


@pytest.mark.parametrize("dimension", [1, 7, 8, 9, 129, 384, 1000])
def test_a_pair_has_the_same_score_alone_and_in_company(dimension: int) -> None:
    queries, documents = random_unit(3, dimension), random_unit(500, dimension, seed=1)
    query = np.arange(500, dtype=np.int32) % 3
    document = np.arange(500, dtype=np.int32)
    together = pair_scores(queries, documents, query, document)

    alone = [
        pair_scores(queries, documents, query[pair : pair + 1], document[pair : pair + 1])[0]
        for pair in range(500)
    ]

    assert together.tolist() == alone


def test_pair_scores_are_inner_products_in_float64() -> None:
    queries = np.array([[1, 2**-20]], dtype=np.float32)
    documents = np.array([[1, 2**-20]], dtype=np.float32)
    first = np.array([0], dtype=np.int32)

    assert pair_scores(queries, documents, first, first) == [1 + 2**-40]  # float32 gives 1


def test_a_row_of_scores_is_ranked_by_the_same_rule() -> None:
    found, scores = rank_scores(np.array([1.0, 3.0, 2.0, 3.0, 2.0]), 4)

    assert found.tolist() == [1, 3, 2, 4]
    assert scores.tolist() == [3, 3, 2, 2]
    assert (found.dtype, scores.dtype) == (np.int32, np.float64)


def test_scores_of_0_and_below_can_be_left_out() -> None:
    found, scores = rank_scores(np.array([0.0, 2.0, -1.0]), 3, positive_only=True)

    assert found.tolist() == [1, -1, -1]
    assert scores.tolist() == [2, -np.inf, -np.inf]


def test_a_row_ranks_only_candidates() -> None:
    found, _ = rank_scores(np.array([5.0, 4.0, 0.0]), 2, is_candidate=np.array([False, True, True]))

    assert found.tolist() == [1, 2]


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.integers(-2, 4), max_size=30),
    depth=st.integers(1, 12),
    positive_only=st.booleans(),
)
def test_a_row_is_ranked_as_by_sorting(scores: list[int], depth: int, positive_only: bool) -> None:
    expected = sorted(
        (index for index, score in enumerate(scores) if score > 0 or not positive_only),
        key=lambda index: (-scores[index], index),
    )[:depth]

    found, _ = rank_scores(np.array(scores, dtype=np.float64), depth, positive_only=positive_only)

    assert found[found >= 0].tolist() == expected
