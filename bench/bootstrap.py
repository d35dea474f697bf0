"""Paired bootstrap of four metrics: ours against scipy.stats.bootstrap, each in its own process.

The same seed gives both the same draws, so their percentile endpoints must agree to 1e-9.

    python bench/bootstrap.py [--queries 1000] [--resamples 10000] [--repeats 5]
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

N_METRICS, SEED = 4, 0
Endpoints = list[tuple[float, float]]


def differences(n_queries: int) -> NDArray[np.float64]:
    """Differences (n_queries, n_metrics), half of them ties."""
    generator = np.random.default_rng(1)
    values = generator.uniform(-1, 1, (n_queries, N_METRICS))
    return np.where(generator.random((n_queries, 1)) < 0.5, 0, values)


def ours(n_queries: int, resamples: int) -> Callable[[], Endpoints]:
    from embed_ab.resampling import Sample, intervals

    values = differences(n_queries)
    return lambda: intervals(Sample.of(values, None), SEED, resamples, "percentile", 0.95)


def scipy_percentile(n_queries: int, resamples: int) -> Callable[[], Endpoints]:
    import scipy.stats

    values = differences(n_queries)

    def work() -> Endpoints:
        found = []
        for column in range(N_METRICS):
            ends = scipy.stats.bootstrap(
                (values[:, column],),
                np.mean,
                n_resamples=resamples,
                method="percentile",
                vectorized=True,
                batch=1000,
                rng=np.random.default_rng(SEED),
            ).confidence_interval
            found.append((float(ends.low), float(ends.high)))
        return found

    return work


METHODS = {"embed_ab": ours, "scipy, metric by metric, batch 1000": scipy_percentile}


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(method: str, n_queries: int, resamples: int, repeats: int) -> dict[str, Any]:
    work = METHODS[method](n_queries, resamples)
    before = peak_megabytes()
    answer = work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(seconds),
        "peak": peak_megabytes(),
        "above": peak_megabytes() - before,
        "answer": answer,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--method", choices=METHODS, help="run one method and print JSON")
    options = parser.parse_args()
    sizes = options.queries, options.resamples, options.repeats
    if options.method:
        print(json.dumps(measure(options.method, *sizes)))
        return
    results = {}
    for method in METHODS:
        command = [sys.executable, __file__, "--method", method]
        for name, size in zip(("--queries", "--resamples", "--repeats"), sizes, strict=True):
            command += [name, str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results[method] = json.loads(done.stdout)
    base, peer = results.values()
    print(f"{options.resamples:,} resamples × {options.queries:,} queries × {N_METRICS} metrics")
    print("| method | median s | ratio | peak MB | above inputs MB |")
    print("| --- | --- | --- | --- | --- |")
    for method, result in results.items():
        ratio = result["seconds"] / base["seconds"]
        print(
            f"| {method} | {result['seconds']:.3f} | {ratio:.1f} "
            f"| {result['peak']:.0f} | {result['above']:.0f} |"
        )
    gap = float(np.abs(np.array(base["answer"]) - np.array(peer["answer"])).max())
    print(f"largest difference of an endpoint: {gap:.1e}")
    assert gap < 1e-9


if __name__ == "__main__":
    main()
