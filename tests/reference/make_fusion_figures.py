"""Writes fusion_figures.json: what ranx makes of pairs of reference runs, and its version.

Run by hand, in an environment of its own (pip install ranx), which compiles for minutes:
python make_fusion_figures.py DATA

A document that a run lacks gets 0 in ranx whatever the normalisation; ours gets the lowest standard
score, because 0 is the mean of those. So z is of the documents that both runs have.
"""

from __future__ import annotations

import gzip
import json
import sys
from importlib.metadata import version
from pathlib import Path

from ranx import Run, fuse  # type: ignore[import-untyped]

RUNS = ("bm25s-word-lucene-k1.5-b0.75", "minilm-l6")
WEIGHTS = (0.7, 0.3)
EVERY, TOP = 20, 8


def read(path: Path) -> Run:
    found: dict[str, dict[str, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            query, _, document, _, score, _ = line.split()
            found.setdefault(query, {})[document] = float(score)
    return Run(found)


def by_rank(run: Run) -> Run:
    """Scores that no two documents share: ranx ranks equal ones in an order of its own."""
    return Run(
        {
            query: {
                document: 1000.0 - rank
                for rank, (document, _) in enumerate(
                    sorted(found.items(), key=lambda item: (-item[1], item[0]))
                )
            }
            for query, found in run.to_dict().items()
        }
    )


def shared(runs: list[Run]) -> list[Run]:
    """The runs with those documents only that each has for the query."""
    first, second = (run.to_dict() for run in runs)
    both = {query: first[query].keys() & second[query].keys() for query in first}
    return [
        Run({q: {d: s for d, s in of[q].items() if d in both[q]} for q in of if both[q]})
        for of in (first, second)
    ]


def best(run: Run) -> dict[str, dict[str, float]]:
    ranked = run.to_dict()
    return {
        query: dict(sorted(ranked[query].items(), key=lambda item: (-item[1], item[0]))[:TOP])
        for query in sorted(ranked)[::EVERY]
    }


def main(data: Path) -> None:
    figures = {}
    for folder in sorted(data.glob("*/reference/runs")):
        runs = [read(folder / f"{name}.trec.gz") for name in RUNS]
        queries = set(runs[0].keys()) & set(runs[1].keys())
        runs = [Run({q: r for q, r in run.to_dict().items() if q in queries}) for run in runs]
        figures[folder.parents[1].name] = {
            "rrf": best(
                fuse([by_rank(run) for run in runs], norm=None, method="rrf", params={"k": 60})
            ),
            "minmax": best(fuse(runs, norm="min-max", method="wsum", params={"weights": WEIGHTS})),
            "z": best(fuse(shared(runs), norm="zmuv", method="wsum", params={"weights": WEIGHTS})),
        }
    written = {"ranx": version("ranx"), "figures": figures}
    text = json.dumps(written, indent=1, ensure_ascii=False)
    (Path(__file__).parent / "fusion_figures.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
