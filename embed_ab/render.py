"""A comparison as a page, as a comment and on a terminal; the wording is in `templates/`."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from embed_ab import formats
from embed_ab.comparison import Comparison, Hit, QueryRow
from embed_ab.evalset import Check, Lengths
from embed_ab.paired import TOLERANCE
from embed_ab.providers.cache import StoreInfo

MOCK_NOTICE = "mock vectors: for practice, says nothing about a real model"
MAX_ROWS = 1_000
"""Rows of the page's table of all queries; the JSON holds the rest."""
COMMENT_BYTES = 60_000
"""GitHub refuses a comment above 65,536 characters; the action adds a line of its own."""


def html(comparison: Comparison) -> str:
    """Return the report: one page that needs no other file, no script and no network."""
    style = (resources.files("embed_ab") / "templates" / "report.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _environment(formats.plain)
        .get_template("report.html")
        .render(_context(comparison), style=Markup(style), style_digest=digest)
    )


def notebook(comparison: Comparison) -> str:
    """Return the report in a frame, so that neither page's style reaches the other."""
    return (
        '<iframe title="embed-ab report" sandbox width="100%" height="720" '
        f'srcdoc="{escape(html(comparison))}"></iframe>'
    )


def markdown(comparison: Comparison, *, report_url: str = "") -> str:
    """Return the text that a pull request gets, at most 60,000 bytes in UTF-8.

    What does not fit is left out and said: first the worst queries, then warnings, gates and
    metrics; the verdict and the link stay.
    """
    environment = _environment(lambda text: Markup(formats.prose(text)))
    marking = _NUMBERS | {"code": formats.code, "cell": formats.cell, "link": formats.link}
    environment.filters |= {name: _marked(function) for name, function in marking.items()}
    template = environment.get_template("comment.md")
    context = _context(comparison)
    shown = {
        "worst": len(context["worst"]),
        "cautions": len(comparison.cautions),
        "gates": len(comparison.gates),
        "metrics": len(context["metrics"]),
    }
    for section in shown:
        while True:
            text = template.render(context, shown=shown, report_url=report_url)
            text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
            if len(text.encode()) <= COMMENT_BYTES:
                return text
            if shown[section] == 0:
                break
            shown[section] //= 2
    return text


def terminal(comparison: Comparison, console: Console, *, quiet: bool = False) -> None:
    """Print the verdict, the gates, the tables and the warnings; `quiet`: verdict and gates only.

    What is not a terminal gets whole lines, so that a gate line can be searched for.
    """
    context = _context(comparison)
    _line(console, comparison.verdict, f"bold {_STYLES[comparison.finding]}")
    for gate in comparison.gates:
        _line(console, gate.reason, _STYLES[gate.outcome])
    if quiet:
        return
    if context["is_mock"]:
        _line(console, MOCK_NOTICE, "bold")
    _line(console)
    for system in comparison.systems:
        _line(console, f"{system.label}: {formats.shorten(system.system, 200)}")
    _line(console, f"set: {context['set_sentence']}")
    _line(console)
    _table(
        console,
        ["mean", *(system.label for system in comparison.systems), "n"],
        [
            [
                metric,
                *(formats.number(system.means.get(metric)) for system in comparison.systems),
                str(comparison.systems[0].n_queries.get(metric, 0)),
            ]
            for metric in context["metrics"]
        ],
    )
    _line(console)
    _table(
        console,
        ["difference", "B - A", "interval", "p (Holm)", "W/L/T", "n", "detects"],
        [
            [
                d.metric,
                formats.signed(d.difference),
                formats.interval(d.low, d.high),
                formats.p_value(d.p_holm),
                f"{d.wins}/{d.losses}/{d.ties}",
                str(d.n_queries),
                formats.number(d.detectable),
            ]
            for d in comparison.differences
        ],
    )
    if comparison.cautions:
        _line(console)
    for caution in comparison.cautions:
        _line(
            console, f"! {caution.code}: {formats.shorten(caution.message, 600)} {caution.advice}"
        )
    if comparison.ignored:
        _line(console, f"ignored warnings: {', '.join(comparison.ignored)}")


def check(found: Check, console: Console) -> None:
    """Print what an evaluation set holds."""

    def some(ids: Sequence[str]) -> str:
        shown = [formats.shorten(item, 60) for item in ids[:5]]
        return f" ({', '.join(shown)}{', ...' if len(ids) > 5 else ''})" if ids else ""

    def groups(same: tuple[tuple[str, ...], ...]) -> str:
        total = sum(map(len, same))
        return f"{total:,}{some([' = '.join(group[:5]) for group in same])}"

    def histogram(counts: Mapping[Any, int], one: str = "", many: str = "") -> str:
        shown = [
            f"{formats.shorten(str(key), 60)} ({n:,}{one if n == 1 else many})"
            for key, n in counts.items()
        ]
        return ", ".join(shown[:10]) + (", ..." if len(shown) > 10 else "")

    def lengths(of: Lengths) -> str:
        return (
            f"{of.minimum:,} to {of.maximum:,}, median {of.median:,.10g}, "
            f"95% have at most {of.p95:,.10g}"
        )

    per_query = histogram(found.relevant_per_query, " query", " queries")
    facts = {
        "set": f"{found.n_documents:,} documents, {found.n_queries:,} queries, "
        f"{found.n_judgements:,} judgements",
        "digest": f"sha256 {found.digest}",
        "queries evaluated": f"{found.n_evaluated:,}",
        "relevant documents per query": f"{per_query}; median {found.median_relevant:g}",
        "grades": histogram(found.grades, " judgement", " judgements"),
        "documents never judged": f"{found.n_unjudged_documents:,}",
        "documents without text": f"{len(found.empty_documents):,}{some(found.empty_documents)}",
        "documents with equal texts": groups(found.duplicate_documents),
        "documents equal in letters and digits": groups(found.near_duplicates),
        "queries with equal texts": groups(found.duplicate_queries),
        "judged documents that do not exist": f"{len(found.missing_documents):,}"
        f"{some(found.missing_documents)}",
        "document length in characters": lengths(found.document_lengths),
        "query length in characters": lengths(found.query_lengths),
        "more fields of documents": histogram(found.document_metadata) or "none",
        "more fields of queries": histogram(found.query_metadata) or "none",
    }
    _line(console, formats.shorten(found.name, 100), "bold")
    for name, fact in facts.items():
        _line(console, f"{name}: {fact}")
    for notice in found.notices:
        _line(console, f"! {notice.code}: {notice.message}")


def cache_info(info: StoreInfo, console: Console) -> None:
    """Print what the store of vectors holds."""
    _line(
        console,
        f"{info.path}: {info.n_vectors:,} vectors of {info.n_models:,} models, "
        f"{info.n_bytes / 1_000_000:,.1f} MB",
    )


def _line(console: Console, text: str = "", style: str = "") -> None:
    console.print(_safe(console, text, style), soft_wrap=not console.is_terminal)


def _table(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, heading in enumerate(headings):
        table.add_column(
            _safe(console, heading), justify="right" if column else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(_safe(console, text) for text in row))
    console.print(table)


def _safe(console: Console, text: str, style: str = "") -> Text:
    # Text, because rich would obey the markup in a str.
    return Text(formats.printable(text, console.encoding, console.is_terminal), style)


_NUMBERS: dict[str, Callable[..., str]] = {
    "number": formats.number,
    "signed": formats.signed,
    "percent": formats.percent,
    "p_value": formats.p_value,
    "count": formats.count,
    "interval": lambda d: formats.interval(d.low, d.high),
}
_STYLES = {
    "better": "green",
    "pass": "green",
    "not worse than the margin": "green",
    "worse": "red",
    "fail": "red",
    "no difference shown": "yellow",
    "inconclusive": "yellow",
}


def _context(comparison: Comparison) -> dict[str, Any]:
    """Return what the templates read beside the comparison itself."""
    rows = {row.query: row for row in comparison.queries}
    min_grade = comparison.settings.get("min-grade", 1)

    def difference(row: QueryRow) -> float | None:
        a, b = row.a[comparison.primary], row.b[comparison.primary]
        return None if a is None or b is None else b - a

    def movement(row: QueryRow) -> str:
        change = difference(row)
        if change is None:
            return "excluded"
        if abs(change) <= TOLERANCE:
            return "tie"
        return "win" if change > 0 else "loss"

    def standing(hit: Hit) -> str:
        if hit.grade is None:
            return "unjudged"
        return "relevant" if hit.grade >= min_grade else "not relevant"

    def rank(document: str, hits: tuple[Hit, ...]) -> int | None:
        return next((n for n, hit in enumerate(hits, 1) if hit.document == document), None)

    detailed = [(rows[detail.query], detail) for detail in comparison.details]
    largest = sorted(comparison.queries, key=lambda row: -abs(difference(row) or 0))[:MAX_ROWS]
    largest.sort(key=lambda row: (difference(row) is None, difference(row) or 0, row.query))
    evalset = comparison.evalset
    return {
        "comparison": comparison,
        "metrics": tuple(
            dict.fromkeys((*comparison.metrics, *(d.metric for d in comparison.differences)))
        ),
        "differences": {d.metric: d for d in comparison.differences},
        "worst": [pair for pair in detailed if movement(pair[0]) == "loss"],
        "best": [pair for pair in detailed if movement(pair[0]) == "win"],
        "rows": largest,
        "is_mock": any(system.is_mock for system in comparison.systems),
        "mock_notice": MOCK_NOTICE,
        "marks": {
            "pass": Markup("✓ PASS"),
            "fail": Markup("✗ FAIL"),
            "inconclusive": Markup("? INCONCLUSIVE"),
        },
        "has_wilson": any(system.wilson for system in comparison.systems),
        "set_sentence": (
            f"{formats.shorten(evalset.name, 100)}: {evalset.n_evaluated:,} of "
            f"{evalset.n_queries:,} queries evaluated ({evalset.n_excluded:,} excluded), "
            f"{evalset.n_documents:,} documents, {evalset.n_judgements:,} judgements"
        ),
        "difference": difference,
        "movement": movement,
        "standing": standing,
        "rank": rank,
    }


def _environment(escape_text: Callable[[str], str]) -> Environment:
    """Return templates in which every text that no filter has marked goes through `escape_text`."""
    environment = Environment(
        loader=PackageLoader("embed_ab"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: (
            escape_text(value)
            if isinstance(value, str) and not isinstance(value, Markup)
            else value
        ),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _NUMBERS | {
        "shorten": formats.shorten,
        "visible_spaces": formats.visible_spaces,
        "setting": formats.setting,
    }
    return environment


def _marked(function: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *arguments: Markup(function(*arguments))
