"""Exact search as the input grows: each doubling at most doubles time and working memory.

    python bench/growth.py [--documents 62500] [--queries 250] [--doublings 4] [--folder DIR]

Documents are read from a memory map. Each size runs in its own process with two threads, the
median of three searches. "working" is the peak of memory that is not the mapped file
(Linux: RssAnon), above what the process held before the search.
"""

import os

os.environ.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")  # before numpy is imported

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from embed_ab.search import top_k

DIMENSION = 384


def write_documents(path: Path, n_documents: int) -> None:
    rng = np.random.default_rng(0)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n_documents, DIMENSION))
    for start in range(0, n_documents, 50_000):
        part = out[start : start + 50_000]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    out.flush()


def anonymous_mb() -> float:
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no RssAnon: this bench needs Linux")


def measure(path: Path, n_documents: int, n_queries: int) -> tuple[float, float]:
    """Median seconds of three searches, peak working memory in MB."""
    documents = np.load(path, mmap_mode="r")[:n_documents]
    queries = np.random.default_rng(1).standard_normal((n_queries, DIMENSION), dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    before, peak, done = anonymous_mb(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, anonymous_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        top_k(queries, documents, 10)
        seconds.append(time.perf_counter() - start)
    done.set()
    watcher.join()
    return statistics.median(seconds), peak - before


def table(what: str, sizes: list[tuple[int, int]], path: Path) -> None:
    print(f"\n| {what} | median s | times the row above | working MB |\n| --- | --- | --- | --- |")
    before = None
    for n_documents, n_queries in sizes:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as worker:
            seconds, working = worker.submit(measure, path, n_documents, n_queries).result()
        times = "-" if before is None else f"{seconds / before:.2f}"
        size = n_documents if what == "documents" else n_queries
        print(f"| {size:,} | {seconds:.3f} | {times} | {working:.0f} |", flush=True)
        before = seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=62_500)
    parser.add_argument("--queries", type=int, default=250)
    parser.add_argument("--doublings", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=None, help="where the documents are put")
    chosen = parser.parse_args()

    factors = [2**doubling for doubling in range(chosen.doublings + 1)]
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "documents.npy"
        write_documents(path, chosen.documents * factors[-1])
        documents = [(chosen.documents * factor, chosen.queries) for factor in factors]
        table("documents", documents, path)
        table("queries", [(chosen.documents, chosen.queries * factor) for factor in factors], path)


if __name__ == "__main__":
    main()
