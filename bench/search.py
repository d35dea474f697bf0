"""Exact search: ours against faiss IndexFlatIP and plain numpy; same ids, time, peak memory.

    python bench/search.py [--documents 100000] [--queries 1000] [--dimension 384] [--depth 10]

Needs faiss-cpu. Each method runs in its own process with two threads; times are medians of
`--repetitions`, taken in turns so that a busy machine slows all alike. The peak is of the whole
process, inputs included. "product" is the matrix product alone: no numpy search can be faster.
Where ids differ from ours, the last column says by how much the float64 scores of the two
documents differ at most: below about 1e-7 it is float32 that cannot tell them apart.
"""

import os

os.environ.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")  # before numpy is imported

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray

from embed_ab.search import pair_scores, top_k

Vectors = NDArray[np.float32]
Search = Callable[[Vectors, int], NDArray[np.integer]]


def unit(n: int, dimension: int, seed: int) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((n, dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def faiss_flat(documents: Vectors) -> Search:
    import faiss

    faiss.omp_set_num_threads(2)
    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(documents)
    return lambda queries, depth: index.search(queries, depth)[1]


def numpy_argpartition(documents: Vectors) -> Search:
    def search(queries: Vectors, depth: int) -> NDArray[np.integer]:
        found = []
        for start in range(0, len(queries), 128):
            scores = queries[start : start + 128] @ documents.T
            best = np.argpartition(scores, -depth, axis=1)[:, -depth:]
            order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
            found.append(np.take_along_axis(best, order, axis=1))
        return np.concatenate(found)

    return search


def product(documents: Vectors) -> Search:
    def search(queries: Vectors, depth: int) -> NDArray[np.integer]:
        out = np.empty((2048, len(queries)), dtype=np.float32)
        for start in range(0, len(documents), 2048):
            some = documents[start : start + 2048]
            np.matmul(some, queries.T, out=out[: len(some)])
        return np.empty((0, depth), dtype=np.int32)

    return search


def ours(documents: Vectors) -> Search:
    return lambda queries, depth: top_k(queries, documents, depth)[0]


METHODS: dict[str, Callable[[Vectors], Search]] = {
    "faiss IndexFlatIP": faiss_flat,
    "embed_ab top_k": ours,
    "numpy argpartition": numpy_argpartition,
    "product": product,
}
search: Search
queries: Vectors


def prepare(method: str, n_documents: int, n_queries: int, dimension: int) -> None:
    """Run once in each worker: faiss copies its documents, the others hold them."""
    global search, queries
    search = METHODS[method](unit(n_documents, dimension, seed=0))
    queries = unit(n_queries, dimension, seed=1)


def measure(depth: int) -> tuple[float, float, NDArray[np.integer]]:
    start = time.perf_counter()
    found = search(queries, depth)
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=5)
    chosen = parser.parse_args()

    context = multiprocessing.get_context("spawn")
    workers = {
        method: ProcessPoolExecutor(
            1,
            mp_context=context,
            initializer=prepare,
            initargs=(method, chosen.documents, chosen.queries, chosen.dimension),
        )
        for method in METHODS
    }
    measured = {method: [] for method in METHODS}
    for repetition in range(chosen.repetitions + 1):
        for method, worker in workers.items():
            result = worker.submit(measure, chosen.depth).result()
            if repetition:  # the first round only warms up
                measured[method].append(result)
    for worker in workers.values():
        worker.shutdown()

    documents = unit(chosen.documents, chosen.dimension, seed=0)
    queries = unit(chosen.queries, chosen.dimension, seed=1)
    own = measured["embed_ab top_k"][-1][2]
    base = measured["faiss IndexFlatIP"]
    print(
        "| method | median s | minimum s | ratio to faiss | peak MB | ids that differ from ours |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for method, results in measured.items():
        times = [seconds for seconds, _, _ in results]
        # Taken pairwise: the two of a round ran next to each other.
        ratio = statistics.median(r[0] / b[0] for r, b in zip(results, base, strict=True))
        found = results[-1][2]
        differing = "-"
        if len(found):
            query, rank = np.nonzero(found != own)
            gaps = pair_scores(queries, documents, query, found[query, rank]) - pair_scores(
                queries, documents, query, own[query, rank]
            )
            differing = f"{len(query)} of {own.size}, by {np.abs(gaps).max(initial=0):.0e}"
        print(
            f"| {method} | {statistics.median(times):.3f} | {min(times):.3f} | {ratio:.2f} "
            f"| {results[-1][1]:.0f} | {differing} |"
        )


if __name__ == "__main__":
    main()
