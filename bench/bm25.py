"""BM25 search: ours against bm25s' own retrieve, both with the numpy backend.

    python bench/bm25.py [COLLECTION] [--depth 100]

COLLECTION is a folder with corpus.jsonl and queries.jsonl; without one, 20,000 made-up documents.
Each method runs in its own process; times are medians of five, the peak is of the whole process.
Both start from the same tokens. "index" ends when bm25s' index is built, "search" is all after it.
"""

import argparse
import functools
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from embed_ab import bm25

REPETITIONS = 5
Tokens = list[list[str]]


def texts(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [f"{record.get('title') or ''} {record['text']}".strip() for record in records]


def made_up(n_texts: int, length: int) -> Tokens:
    """Texts of 50,000 words with Zipf's frequencies."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, 50_001)
    return [
        [f"w{rank}" for rank in rng.choice(len(share), length, p=share / share.sum())]
        for _ in range(n_texts)
    ]


def inputs(collection: Path | None) -> tuple[Tokens, Tokens]:
    if collection is None:
        return made_up(20_000, 150), made_up(300, 12)
    documents, queries = (texts(collection / name) for name in ("corpus.jsonl", "queries.jsonl"))
    return [bm25.tokenize(t, "auto") for t in documents], [
        bm25.tokenize(t, "auto") for t in queries
    ]


def theirs(documents: Tokens, queries: Tokens, depth: int) -> None:
    engine = bm25s.BM25(method="lucene", k1=bm25.K1, b=bm25.B, backend="numpy")
    engine.index(documents, show_progress=False)
    engine.retrieve(queries, k=min(depth, len(documents)), show_progress=False)


METHODS: dict[str, Callable[[Tokens, Tokens, int], Any]] = {
    "bm25s retrieve": theirs,
    "embed_ab search": bm25.search_tokens,
}


def measure(method: str, collection: Path | None, depth: int) -> tuple[float, float, float]:
    """Median index and search time in seconds, peak memory in MB."""
    documents, queries = inputs(collection)
    index_ends: list[float] = []
    build = bm25s.BM25.index

    @functools.wraps(build)
    def timed(*arguments: Any, **options: Any) -> None:
        build(*arguments, **options)
        index_ends.append(time.perf_counter())

    bm25s.BM25.index = timed
    index_times, search_times = [], []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        METHODS[method](documents, queries, depth)
        search_times.append(time.perf_counter() - index_ends[-1])
        index_times.append(index_ends[-1] - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return statistics.median(index_times), statistics.median(search_times), peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", nargs="?", type=Path)
    parser.add_argument("--depth", type=int, default=100)
    arguments = parser.parse_args()

    context = multiprocessing.get_context("spawn")
    rows = {}
    for method in METHODS:
        with ProcessPoolExecutor(1, context) as executor:
            measured = executor.submit(measure, method, arguments.collection, arguments.depth)
            rows[method] = measured.result()
    peer = rows["bm25s retrieve"]
    print("| method | index s | ratio | search s | ratio | peak MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for method, (index, search, peak) in rows.items():
        print(
            f"| {method} | {index:.3f} | {index / peer[0]:.2f} "
            f"| {search:.4f} | {search / peer[1]:.2f} | {peak:.0f} |"
        )


if __name__ == "__main__":
    main()
