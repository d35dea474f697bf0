"""Five metrics for 10,000 queries × top 100: ours against pytrec_eval, each in its own process.

Ours starts from arrays, as in a comparison; pytrec_eval from its own dictionaries, made before the
clock starts, its evaluator included in the time. Both must agree to 1e-9.

    python bench/metrics.py [--queries 10000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTH, N_DOCUMENTS, N_JUDGED = 100, 100_000, 10
NAMES = {
    "recall@10": "recall_10",
    "ndcg@10": "ndcg_cut_10",
    "hit@10": "success_10",
    "mrr@100": "recip_rank",
    "map@100": "map_cut_100",
}
MEASURES = {"recall.10", "ndcg_cut.10", "success.10", "recip_rank", "map_cut.100"}


def collection(n_queries: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16]]:
    """Documents (n_queries, depth); judged documents and grades, half of them in the ranking."""
    generator = np.random.default_rng(0)
    documents, judged = [], []
    for _ in range(n_queries):
        drawn = generator.choice(N_DOCUMENTS, DEPTH + N_JUDGED // 2, replace=False)
        documents.append(drawn[:DEPTH])
        inside = generator.choice(drawn[:DEPTH], N_JUDGED - N_JUDGED // 2, replace=False)
        judged.append(np.sort(np.concatenate([inside, drawn[DEPTH:]])))
    grades = generator.integers(0, 4, (n_queries, N_JUDGED), dtype=np.int16)
    grades[:, 0] = 1  # every query has something to find
    return np.array(documents, dtype=np.int32), np.array(judged, dtype=np.int32), grades


def ours(n_queries: int) -> Callable[[], dict[str, float]]:
    from embed_ab.evalset import Qrels
    from embed_ab.metrics import Metric, evaluate
    from embed_ab.runs import Run

    documents, judged, grades = collection(n_queries)
    qrels = Qrels(
        offsets=np.arange(n_queries + 1) * N_JUDGED,
        documents=judged.ravel(),
        grades=grades.ravel(),
    )
    run = Run(name="bench", documents=documents, scores=np.zeros(documents.shape))
    metrics = [Metric.parse(name) for name in NAMES]

    def work() -> dict[str, float]:
        values = evaluate(metrics, run, qrels, gain="linear")
        return {str(metric): float(of_metric.mean()) for metric, of_metric in values.items()}

    return work


def trec_eval(n_queries: int) -> Callable[[], dict[str, float]]:
    import pytrec_eval

    documents, judged, grades = collection(n_queries)
    names = [f"d{document}" for document in range(N_DOCUMENTS)]
    qrels = {
        f"q{query}": {names[d]: int(g) for d, g in zip(judged[query], grades[query], strict=True)}
        for query in range(n_queries)
    }
    run = {
        f"q{query}": {names[d]: float(DEPTH - rank) for rank, d in enumerate(documents[query])}
        for query in range(n_queries)
    }

    def work() -> dict[str, float]:
        values = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
        return {
            name: statistics.fmean(of_query[theirs] for of_query in values.values())
            for name, theirs in NAMES.items()
        }

    return work


METHODS = {"embed_ab": ours, "pytrec_eval": trec_eval}


def measure(method: str, n_queries: int, repeats: int) -> dict[str, Any]:
    work = METHODS[method](n_queries)
    answer = work()  # warm caches and lazy imports
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": statistics.median(seconds), "peak": peak, "answer": answer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--method", choices=METHODS, help="run one method and print JSON")
    options = parser.parse_args()
    if options.method:
        print(json.dumps(measure(options.method, options.queries, options.repeats)))
        return
    results = {}
    for method in METHODS:
        command = [sys.executable, __file__, "--method", method]
        command += ["--queries", str(options.queries), "--repeats", str(options.repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results[method] = json.loads(done.stdout)
    base = results["embed_ab"]["seconds"]
    print(f"five metrics, {options.queries:,} queries × top {DEPTH}, {N_JUDGED} judged each")
    print("| method | median s | ratio | peak MB |\n| --- | --- | --- | --- |")
    for method, result in results.items():
        seconds, peak = result["seconds"], result["peak"]
        print(f"| {method} | {seconds:.3f} | {seconds / base:.1f} | {peak:.0f} |")
    gap = max(
        abs(value - results["pytrec_eval"]["answer"][name])
        for name, value in results["embed_ab"]["answer"].items()
    )
    print(f"largest difference of a mean: {gap:.1e}")
    assert gap < 1e-9


if __name__ == "__main__":
    main()
