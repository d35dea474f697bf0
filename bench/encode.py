"""Texts per second: SentenceTransformerEmbedder against plain `encode` with default arguments.

usage: python bench/encode.py MODEL_FOLDER [CORPUS.jsonl QUERIES.jsonl]

Each run alternates the two on the same loaded weights, 256 documents and 128 queries mixed, and
the table shows the median of five runs, the ratio and the largest difference of any vector element.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder

REFERENCE = Path(os.environ.get("EMBED_AB_REFERENCE_DATA", "../shared/data")) / "scifact"
N_DOCUMENTS, N_QUERIES, N_RUNS = 256, 128, 5


def texts_of(path: Path, limit: int) -> list[str]:
    records = [json.loads(line) for line in path.open(encoding="utf-8")][:limit]
    return [f"{record.get('title', '')} {record['text']}".strip() for record in records]


def main() -> None:
    model_folder = sys.argv[1]
    corpus, queries = (
        map(Path, sys.argv[2:4])
        if len(sys.argv) > 3
        else (REFERENCE / "corpus.jsonl", REFERENCE / "queries.jsonl")
    )
    texts = texts_of(corpus, N_DOCUMENTS) + texts_of(queries, N_QUERIES)
    texts = [texts[row] for row in np.random.default_rng(0).permutation(len(texts))]
    embedder = SentenceTransformerEmbedder(model_folder, document_prompt="")
    embedder.facts()  # loads
    model = embedder._model

    def plain() -> np.ndarray:
        return model.encode(texts, prompt="", show_progress_bar=False)

    def ours() -> np.ndarray:
        return embedder.embed(texts, "document").vectors

    def counting() -> np.ndarray:
        return np.asarray(embedder._count_tokens(texts, "document"))

    seconds: dict[str, list[float]] = {"plain encode": [], "ours": [], "of which counting": []}
    results = {}
    for _ in range(N_RUNS):
        for name, work in (
            ("plain encode", plain),
            ("ours", ours),
            ("of which counting", counting),
        ):
            started = time.perf_counter()
            results[name] = work()
            seconds[name].append(time.perf_counter() - started)
    base = statistics.median(seconds["plain encode"])
    print(f"{len(texts)} texts, {Path(model_folder).name}, median of {N_RUNS}")
    for name, times in seconds.items():
        median = statistics.median(times)
        rate, ratio = len(texts) / median, base / median
        print(f"{name:18} {median:7.2f} s {rate:9.1f} texts/s  ratio {ratio:.2f}")
    print(f"largest difference {np.abs(results['ours'] - results['plain encode']).max():.1e}")


if __name__ == "__main__":
    main()
