"""A matrix as JSON, as a page and as a comment; the wording is in `templates/`."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from markupsafe import Markup
from pydantic import TypeAdapter

from embed_ab import formats
from embed_ab.matrix import Matrix, Verdict
from embed_ab.render import (
    COMMENT_BYTES,
    MOCK_NOTICE,
    REDACTED_NOTICE,
    CostTable,
    cost_table,
    fitted,
    plain_page,
    set_sentence,
)

SYMBOLS: dict[Verdict, Markup] = {
    "better": Markup("✓"),
    "worse": Markup("✗"),
    "no difference shown": Markup("?"),
}


@cache
def _adapter() -> TypeAdapter[Matrix]:
    return TypeAdapter(Matrix)


def dumps(matrix: Matrix) -> str:
    """Return the JSON text, with a line end; the same matrix gives the same bytes."""
    data = _adapter().dump_python(matrix, mode="json")
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a matrix."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_adapter().json_schema(mode="serialization"),
    }


def html(matrix: Matrix) -> str:
    """Return the report: one page that needs no other file, no script and no network."""
    return plain_page("matrix.html", context_of(matrix))


def markdown(matrix: Matrix, *, max_bytes: int = COMMENT_BYTES) -> str:
    """Return the text for a pull request, at most `max_bytes` in UTF-8.

    What does not fit is left out and said: first warnings, then metrics and systems.
    """
    context = context_of(matrix)
    lengths = {
        "ignored": len(matrix.ignored),
        "cautions": len(matrix.cautions),
        "metrics": len(context["metrics"]),
        "systems": len(matrix.systems),
    }
    return fitted("matrix.md", context, lengths, max_bytes)


def context_of(matrix: Matrix) -> dict[str, Any]:
    """Return what the templates and the terminal read beside the matrix itself."""
    metrics = dict.fromkeys((*matrix.metrics, *(d.metric for d in matrix.contrasts[0].differences)))
    return {
        "matrix": matrix,
        "baseline": matrix.systems[0],
        "metrics": tuple(metrics),
        "differences": {c.label: {d.metric: d for d in c.differences} for c in matrix.contrasts},
        "verdicts": {contrast.label: contrast.verdicts for contrast in matrix.contrasts},
        "symbols": SYMBOLS,
        "is_mock": any(system.is_mock for system in matrix.systems),
        "mock_notice": MOCK_NOTICE,
        "redacted_notice": REDACTED_NOTICE,
        "set_sentence": set_sentence(matrix.evalset),
        "cost": cost_table(matrix.systems, matrix.measured),
        "candidates": candidate_table(matrix),
        "title": formats.shorten(matrix.verdict, 120),
    }


def candidate_table(matrix: Matrix) -> CostTable | None:
    """Return what the candidates of each reranked system allow; None where none reorders any."""
    found = {c.label: c.candidates for c in matrix.contrasts if c.candidates is not None}
    if not found:
        return None
    best = {label: {c.metric: c.ceiling for c in f.ceilings} for label, f in found.items()}
    metrics = dict.fromkeys(metric for ceilings in best.values() for metric in ceilings)
    rows = {
        "candidates": [formats.count(f.depth) for f in found.values()],
        "relevant documents among them": [formats.percent(f.recall) for f in found.values()],
        "queries with none of theirs": [formats.count(len(f.out_of_reach)) for f in found.values()],
    } | {
        f"best {metric}": [formats.number(ceilings.get(metric)) for ceilings in best.values()]
        for metric in metrics
    }
    return CostTable(
        headings=("reranking", *found),
        rows=tuple((name, *cells) for name, cells in rows.items()),
        note="The most that any order of a system's candidates reaches. Queries with none of their "
        "relevant documents there are out of every order's reach.",
    )
