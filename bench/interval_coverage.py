"""How often the interval covers the true difference, and how often a gate fails without cause.

Each simulated query has one relevant document. For most queries A and B rank it alike; for the
others both ranks are drawn anew, so the differences of nDCG@10 are tie-heavy, lumpy and, when B is
truly worse, skewed: what real query sets look like. A false alarm is a gate that fails although
the true difference is 0; a missed loss is one that says "not worse than the margin" although the
true loss exceeds it. Both are said of the default, expanded interval.

    python bench/interval_coverage.py [--simulations 4000] [--resamples 4000] [--ties 0.6]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from embed_ab.gate import Gate, judge
from embed_ab.metrics import Metric
from embed_ab.paired import PairedDifference
from embed_ab.resampling import Method, Sample, intervals

SIZES = (10, 20, 40, 100, 300)
METHODS: tuple[Method, ...] = ("expanded", "percentile", "bca")
TOGETHER = 100  # simulated query sets that share their bootstrap draws

Values = NDArray[np.float64]

# nDCG@10 of one relevant document at ranks 1 to 10, and 0 where it is not found
NDCG = np.append(1 / np.log2(np.arange(2, 12)), 0)


def rank_distribution(missed: float) -> Values:
    """Chance of each rank, falling as 1 / rank, and of a miss."""
    found = 1 / np.arange(1, 11)
    return np.append((1 - missed) * found / found.sum(), missed)


def simulate(
    generator: np.random.Generator, n_queries: int, missed_by_b: float, ties: float
) -> Values:
    """Differences B − A: (n_queries, TOGETHER), one column for each simulated query set."""
    shape = n_queries, TOGETHER
    a = generator.choice(NDCG, shape, p=rank_distribution(0.2))
    b = generator.choice(NDCG, shape, p=rank_distribution(missed_by_b))
    return np.where(generator.random(shape) < ties, 0, b - a)


def finding(sample: Sample, column: int, low: float, high: float, margin: float) -> str:
    """What the gate says of one simulated query set."""
    differences = sample.differences[:, column]
    n = len(differences)
    gate = Gate(metric=Metric("ndcg", 10), margin=margin)
    difference = PairedDifference(
        metric="ndcg@10",
        mean_a=0.0,
        mean_b=0.0,
        difference=sample.mean(column),
        low=low,
        high=high,
        level=0.95,
        p_value=1.0,
        p_holm=1.0,
        wins=int((differences > 0).sum()),
        losses=int((differences < 0).sum()),
        ties=int((differences == 0).sum()),
        n_queries=n,
        n_units=n,
        sd=sample.standard_error(column) * n**0.5,
        detectable=None,
    )
    return judge(gate, difference, min_queries=10).finding


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulations", type=int, default=4000)
    parser.add_argument("--resamples", type=int, default=4000)
    parser.add_argument("--ties", type=float, default=0.6, help="share of queries ranked alike")
    parser.add_argument("--margin", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    n_groups = -(-options.simulations // TOGETHER)

    print(
        f"{n_groups * TOGETHER:,} simulations, {options.resamples:,} resamples, seed "
        f"{options.seed}, {options.ties:.0%} ties, 95 % intervals, margin {options.margin}"
    )
    worse = 0.35
    effect = (1 - options.ties) * float(NDCG @ (rank_distribution(worse) - rank_distribution(0.2)))
    columns = [f"{method}, true {d:+.3f}" for d in (0.0, effect) for method in METHODS]
    print(f"| n | {' | '.join(columns)} | false alarms | missed losses |")
    print("| --- " * (len(columns) + 3) + "|")
    for n_queries in SIZES:
        generator = np.random.default_rng((options.seed, n_queries))
        covered = {(missed, method): 0 for missed in (0.2, worse) for method in METHODS}
        said: dict[tuple[float, str], int] = {}
        for group in range(n_groups):
            for missed, truth in ((0.2, 0.0), (worse, effect)):
                sample = Sample.of(simulate(generator, n_queries, missed, options.ties), None)
                for method in METHODS:
                    ends = intervals(sample, group, options.resamples, method, 0.95)
                    low, high = np.array(ends).T
                    covered[missed, method] += np.count_nonzero((low <= truth) & (truth <= high))
                    if method == "expanded":
                        for column, interval in enumerate(ends):
                            found = truth, finding(sample, column, *interval, options.margin)
                            said[found] = said.get(found, 0) + 1
        n = n_groups * TOGETHER
        cells = [f"{count / n:.1%}" for count in covered.values()]
        cells.append(f"{said.get((0.0, 'worse'), 0) / n:.1%}")
        cells.append(f"{said.get((effect, 'not worse than the margin'), 0) / n:.1%}")
        print(f"| {n_queries} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
