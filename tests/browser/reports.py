"""Comparisons whose reports the browser opens."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from test_render import detail, difference, hit, hostile, relevant, row, sample

from embed_ab import commands
from embed_ab.result import Comparison, QueryDetail
from embed_ab.settings import Settings, resolve
from embed_ab.slices import Slice, Sliced

__all__ = ["collection", "demo", "hostile", "row", "sample", "sliced", "strange", "synthetic"]

REFERENCE_DATA = Path(os.environ.get("EMBED_AB_REFERENCE_DATA", "../shared/data"))


def demo(language: str, folder: Path) -> Comparison:
    """The demo, compared here and now."""
    return commands.demo(language, Settings(out=str(folder))).comparison


def collection(name: str, a: str, b: str, folder: Path, *, slices: str = "") -> Comparison:
    """What two real models ranked on a public collection, by the run files beside it."""
    evalset = REFERENCE_DATA / name
    if not evalset.is_dir():
        pytest.skip(f"{evalset} is absent: set EMBED_AB_REFERENCE_DATA")
    runs = evalset / "reference" / "runs"
    given = {"eval-path": str(evalset), "out": str(folder), "cache": False, "gate": "ndcg@10:0.02"}
    given |= {
        f"model-{side}": f"run:{runs / f'{run}.trec.gz'}" for side, run in (("a", a), ("b", b))
    }
    given |= {"slice": [slices]} if slices else {}
    return commands.compare(resolve(given, config=None)).comparison


@cache
def synthetic(n_queries: int = 1_000) -> Comparison:
    """Queries by the seed: about half change nothing, 200 have lists of ten passages."""
    rng = random.Random(0)
    words = ["descale", "kettle", "boiler", "warranty", "pump", "filter", "noise", "smell", "water"]

    def text(length: int) -> str:
        return " ".join(rng.choices(words, k=length))

    def hits() -> tuple[object, ...]:
        found = rng.sample(range(60), 10)
        return tuple(
            hit(f"d{n}", 0.9 - place / 50, rng.choice([None, None, 0, 1]), text(45)[:300])
            for place, n in enumerate(found)
        )

    rows, details = [], []
    for number in range(n_queries):
        a = rng.choice([0.0, 0.387, 0.5, 0.631, 1.0])
        b = min(1.0, max(0.0, a + rng.choice([0.0, 0.0, 0.0, -0.3, -0.1, 0.2])))
        ranks = {f"rank_{side}": rng.choice([1, 2, 5, 20, None]) for side in "ab"}
        rows.append(row(f"q{number:05}", text(9), a, b, unjudged_a=rng.choice([0, 3]), **ranks))
    rows.sort(key=lambda r: -abs(r.b["ndcg@10"] - r.a["ndcg@10"]))
    for one in rows[:200]:
        found = (relevant("d7", 1, text(45)[:300]),)
        details.append(QueryDetail(query=one.query, relevant=found, a=hits(), b=hits()))
    changes = [r.b["ndcg@10"] - r.a["ndcg@10"] for r in rows]
    wins, losses = sum(c > 1e-9 for c in changes), sum(c < -1e-9 for c in changes)
    whole = replace(
        difference("ndcg@10", -0.02, -0.031, -0.008),
        wins=wins,
        losses=losses,
        ties=n_queries - wins - losses,
        n_queries=n_queries,
    )
    return sample(
        queries=tuple(rows), details=tuple(details), differences=(whole, sample().differences[1])
    )


STRANGE = {
    "long": "x" * 3_000,
    "rtl": "كيف أزيل الترسبات من الغلاية؟ " * 5,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 kettle 🫖" * 20,
    "korean": "주전자에서 물이 끓지 않을 때는 전원을 먼저 확인합니다. " * 8,
    "zero-width": "ket\u200btle\u200d\u200c de\u00adscale\u2060 \u202eelttek\u202c",
    "code": "for (int i = 0; i < n; i++) { a[i] <<= 1; }\n\n\t// &amp; <b>\n" * 5,
    "zalgo": "k" + "\u0301\u0323\u0489" * 60 + "ettle",
}


def strange() -> Comparison:
    """Texts and ids that are hard to lay out."""
    rows = [row(text, text, 1.0, 0.3) for text in STRANGE.values()]
    details = [
        replace(
            detail(text),
            relevant=(relevant(text, 1, text[:300]),),
            a=(hit(text, 0.5, None, text[:300]),),
            b=(hit(text, 0.4, 1, text[:300]), hit("d1", 0.3, None, text[:300])),
        )
        for text in STRANGE.values()
    ]
    return sample(queries=tuple(rows), details=tuple(details))


def sliced() -> Comparison:
    """q2 is in Korean, the others in English."""
    clean = sample()
    whole = clean.differences
    parts = tuple(
        Slice(
            value=value,
            range=None,
            finding="too few queries",
            is_reversal=False,
            differences=whole,
        )
        for value in ("en", "ko")
    )
    field = Sliced(
        field="language",
        slices=parts,
        n_slices_left_out=0,
        n_queries_left_out=0,
        n_queries_without=0,
    )
    languages = {"q2": "ko"}
    return sample(
        slices=(field,),
        queries=tuple(
            replace(q, slices={"language": languages.get(q.query, "en")}) for q in clean.queries
        ),
    )
