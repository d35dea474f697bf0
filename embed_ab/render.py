"""A comparison as a page, as a comment and on a terminal; the wording is in `templates/`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
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
from embed_ab.paired import TOLERANCE

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
            if len(text.encode()) <= COMMENT_BYTES:
                return text
            if shown[section] == 0:
                break
            shown[section] //= 2
    return text


def terminal(comparison: Comparison, console: Console, *, quiet: bool = False) -> None:
    """Print the verdict, the tables, the gates and the warnings; `quiet`: verdict and gates only.

    What is not a terminal gets whole lines, so that a gate line can be searched for.
    """

    def safe(text: str, style: str = "") -> Text:
        return Text(formats.printable(text, console.encoding, console.is_terminal), style)

    def line(text: str, style: str = "") -> None:
        console.print(safe(text, style), soft_wrap=not console.is_terminal)

    def table(title: str, *headings: str) -> Table:
        made = Table(title=safe(title, "bold"), title_justify="left", box=None, pad_edge=False)
        for column, heading in enumerate(headings):
            made.add_column(safe(heading), justify="right" if column else "left", overflow="fold")
        return made

    context = _context(comparison)
    line(comparison.verdict, f"bold {_TERMINAL_STYLES[comparison.finding]}")
    for gate in comparison.gates:
        line(gate.reason, _TERMINAL_STYLES[gate.outcome])
    if quiet:
        return
    if context["is_mock"]:
        line(MOCK_NOTICE, "bold")
    line("")
    for system in comparison.systems:
        line(f"{system.label:<5} {formats.shorten(system.system, 200)}")
    line(f"{'set':<5} {context['set_sentence']}")
    line("")
    labels = [system.label for system in comparison.systems]
    means = table("Means", "metric", *labels, "n")
    for metric in context["metrics"]:
        values = [formats.number(system.means.get(metric)) for system in comparison.systems]
        counted = max(system.n_queries.get(metric, 0) for system in comparison.systems)
        means.add_row(*map(safe, (metric, *values, str(counted))))
    console.print(means)
    line("")
    differences = table(
        "Difference B - A", "metric", "B - A", "interval", "p (Holm)", "W/L/T", "n", "detectable"
    )
    for d in comparison.differences:
        differences.add_row(
            *map(
                safe,
                (
                    d.metric,
                    formats.signed(d.difference),
                    formats.interval(d.low, d.high),
                    formats.p_value(d.p_holm),
                    f"{d.wins}/{d.losses}/{d.ties}",
                    str(d.n_queries),
                    formats.number(d.detectable),
                ),
            )
        )
    console.print(differences)
    if comparison.cautions:
        line("")
    for caution in comparison.cautions:
        line(f"! {caution.code}: {formats.shorten(caution.message, 600)} {caution.advice}")
    if comparison.ignored:
        line(f"ignored warnings: {', '.join(comparison.ignored)}")


_NUMBERS: dict[str, Callable[..., str]] = {
    "number": formats.number,
    "signed": formats.signed,
    "percent": formats.percent,
    "p_value": formats.p_value,
    "count": formats.count,
    "interval": lambda d: formats.interval(d.low, d.high),
}
_TERMINAL_STYLES = {
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
