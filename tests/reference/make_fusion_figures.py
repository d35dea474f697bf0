"""Writes fusion_figures.json: what ranx makes of pairs of reference runs.

Run by hand, in an environment with ranx, which compiles for minutes:
python make_fusion_figures.py DATA
"""

from __future__ import annotations

import gzip
import json
import sys
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
        }
    text = json.dumps(figures, indent=1, ensure_ascii=False)
    (Path(__file__).parent / "fusion_figures.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
