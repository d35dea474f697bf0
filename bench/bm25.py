"""BM25 search: ours against bm25s' own retrieve, both with the numpy backend.

    python bench/bm25.py [COLLECTION] [--depth 100]

COLLECTION is a folder with corpus.jsonl and queries.jsonl; without one, 20,000 made-up documents.
Each method has its own process, and the two take turns, so that a busy machine troubles both alike.
Times are CPU time (neither uses threads), medians of seven; the peak is of the whole process.
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
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from embed_ab import bm25

REPETITIONS = 7
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
index_end = 0.0
cached_inputs = functools.cache(inputs)


def note_when_the_index_ends() -> None:
    """Run once in each process: the moment that parts "index" from "search"."""
    build = bm25s.BM25.index

    def index(*arguments: Any, **options: Any) -> None:
        global index_end
        build(*arguments, **options)
        index_end = time.process_time()

    bm25s.BM25.index = index


def measure(method: str, collection: Path | None, depth: int) -> tuple[float, float, float]:
    """Index and search time in seconds of one call, and the peak memory so far in MB."""
    documents, queries = cached_inputs(collection)
    start = time.process_time()
    METHODS[method](documents, queries, depth)
    end = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return index_end - start, end - index_end, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", nargs="?", type=Path)
    parser.add_argument("--depth", type=int, default=100)
    arguments = parser.parse_args()

    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        processes = {
            method: stack.enter_context(
                ProcessPoolExecutor(1, spawn, initializer=note_when_the_index_ends)
            )
            for method in METHODS
        }
        calls: dict[str, list[tuple[float, ...]]] = {method: [] for method in METHODS}
        for _ in range(REPETITIONS):
            for method, process in processes.items():
                task = process.submit(measure, method, arguments.collection, arguments.depth)
                calls[method].append(task.result())

    medians = {
        method: [statistics.median(column) for column in zip(*rows, strict=True)]
        for method, rows in calls.items()
    }
    peer = medians["bm25s retrieve"]
    print("| method | index s | ratio | search s | ratio | peak MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for method, (index, search, _) in medians.items():
        print(
            f"| {method} | {index:.3f} | {index / peer[0]:.2f} "
            f"| {search:.4f} | {search / peer[1]:.2f} | {calls[method][-1][2]:.0f} |"
        )


if __name__ == "__main__":
    main()
