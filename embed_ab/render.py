"""A comparison as a page and as a comment; the wording is in `templates/`."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from embed_ab import formats, page
from embed_ab.gate import Finding, SliceName, decisive
from embed_ab.paired import PairedDifference
from embed_ab.result import Comparison, EvalsetRecord, Hit, QueryRow, SystemRecord, Wait
from embed_ab.slices import Slice, Sliced, SliceFinding

MOCK_NOTICE = "mock vectors: for practice, says nothing about a real model"
REDACTED_NOTICE = "texts are left out"
SYMBOLS: dict[Finding | SliceFinding, Markup] = {
    "better": Markup("✓"),
    "not worse than the margin": Markup("✓"),
    "worse": Markup("✗"),
    "no difference shown": Markup("?"),
    "inconclusive": Markup("?"),
    "too few queries": Markup("–"),
}
PAGE_BYTES = 1_900_000
"""Of the report; above that it opens slowly, and fewer and shorter passages are shown."""
OPEN = ((200, 300), (200, 160), (200, 80), (200, 30), (100, 30), (50, 30), (0, 0))
"""How many queries open to their lists, and the characters of a passage there."""
MAX_WORST = 10
"""Queries in the comment; the report has more."""
MAX_ITEMS = 300
"""Of each section of the comment, where far fewer find room; a stranger's result may have more."""
COMMENT_BYTES = 60_000
"""GitHub refuses a comment above 65,536 characters; the action adds a line of its own."""


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """A table of ours: what embedding costs, with a column for each system that has vectors; or
    what reordering the candidates allows. No cell of it holds a user's text.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


def cost_table(of: Sequence[SystemRecord], measured: Mapping[str, Any]) -> CostTable | None:
    """Return the table of what is known of systems' costs; None where nothing is.

    measured: as in `Measured`. Of mock vectors only the size: how long hashing takes says nothing
    about a model. A reranker is none of them, whatever it reorders.
    """
    reranking: Mapping[str, Wait] = measured.get("rerank_ms", {})
    systems = [s for s in of if s.bytes_per_vector is not None or s.label in reranking]
    if not systems:
        return None

    def found(key: str, shown: Callable[[Any], str]) -> list[str]:
        values = measured.get(key, {})
        return [shown(None if s.is_mock else values.get(s.label)) for s in systems]

    n_embedded = measured.get("texts_embedded", {})
    is_new = any(n_embedded.get(s.label) and not s.is_mock for s in systems)
    # Who gave a price is told also that nothing was bought.
    is_priced = any(s.label in measured.get("price", {}) and not s.is_mock for s in systems)
    is_full = all(s.bytes_per_vector in (None, 4 * (s.dimension or 0)) for s in systems)
    rows = {
        "dimensions": [formats.count(system.dimension) for system in systems],
        f"bytes per vector{' (float32)' if is_full else ''}": [
            formats.count(s.bytes_per_vector) for s in systems
        ],
        "vectors of all documents": [formats.size(system.corpus_bytes) for system in systems],
    }
    if is_new or is_priced:
        rows |= {
            "texts embedded in this run": found("texts_embedded", formats.count),
            "texts cached or shared, not in what follows": found("texts_cached", formats.count),
            "tokens": found("tokens", formats.count),
            "price": found("price", formats.amount),
            "seconds": found("embedding_seconds", formats.amount),
            "ms for one query, p50 / p95": found("query_ms", _wait),
        }
    rows["ms to rerank one query, p50 / p95"] = [_wait(reranking.get(s.label)) for s in systems]
    waits = [w["n"] for w in measured.get("query_ms", {}).values()] if is_new else []
    notes = []
    if waits:
        notes.append(f"One query: {max(waits)} asked for one at a time, after the ranking.")
    if is_priced and not is_new:
        notes.append("Nothing was bought: all vectors came from the cache. --no-cache embeds anew.")
    if reranking:
        n = max(wait["n"] for wait in reranking.values())
        notes.append(f"Reranking: all candidates of a query, {n:,} queries one at a time.")
    if reranking and is_priced:
        notes.append("Reranker not priced: the price is of embedding alone.")
    return CostTable(
        headings=("costs", *(system.label for system in systems)),
        rows=tuple((name, *cells) for name, cells in rows.items() if {*cells} != {formats.DASH}),
        note=" ".join(notes),
    )


@dataclass(frozen=True, kw_only=True)
class SliceRow:
    """A slice as every surface lists it; `name` holds text of the user."""

    name: SliceName
    part: Slice
    difference: PairedDifference
    """In the primary metric."""

    @property
    def label(self) -> str:
        """The name, with the numbers that a third reaches from and to."""
        if self.part.range is None:
            return str(self.name)
        return f"{self.name} ({self.part.range[0]:.10g} to {self.part.range[1]:.10g})"

    @property
    def is_small(self) -> bool:
        """Whether there are too few queries for a finding."""
        return self.part.finding == "too few queries"

    @property
    def finding(self) -> str:
        """What B is here, and whether that goes against the whole, in words."""
        return self.part.finding + (", against the whole" if self.part.is_reversal else "")


def slice_rows(comparison: Comparison) -> list[SliceRow]:
    """Return every slice, field by field."""
    return [
        SliceRow(
            name=SliceName(field=sliced.field, value=part.value),
            part=part,
            difference=part.of(comparison.primary),
        )
        for sliced in comparison.slices
        for part in sliced.slices
    ]


def left_out(sliced: Sliced) -> str:
    """Return which evaluated queries are in none of the slices shown, "" where all are."""
    facts = []
    if sliced.n_slices_left_out:
        facts.append(
            f"{sliced.n_slices_left_out:,} smaller slices, {sliced.n_queries_left_out:,} queries "
            "in all, are left out"
        )
    if sliced.n_queries_without:
        facts.append(f"queries without a value: {sliced.n_queries_without:,}")
    return "; ".join(facts)


def scale_of(differences: Iterable[PairedDifference]) -> float:
    """Return how far from 0 the farthest end of an interval lies."""
    return max((max(abs(d.low), abs(d.high)) for d in differences), default=0.0)


def _wait(of: Wait | None) -> str:
    if of is None:
        return formats.DASH
    return f"{formats.amount(of['p50'])} / {formats.amount(of['p95'])}"


def ceiling_table(comparison: Comparison) -> CostTable | None:
    """Return how far reordering went and could have gone; None where B reorders nothing."""
    found = comparison.candidates
    if found is None:
        return None
    means_a, means_b = (system.means for system in comparison.systems[:2])
    n_lost, n = len(found.out_of_reach), comparison.evalset.n_evaluated
    lost = f"{n_lost:,} of {n:,} queries have none there, and no order helps them."
    return CostTable(
        headings=("reranking", "A", "B", "best order", "of the way"),
        rows=tuple(
            (
                ceiling.metric,
                formats.number(means_a.get(ceiling.metric)),
                formats.number(means_b.get(ceiling.metric)),
                formats.number(ceiling.ceiling),
                formats.DASH
                if ceiling.way is None
                else f"{100 * ceiling.way + 0.0:.1f}%".replace("-", formats.MINUS),
            )
            for ceiling in found.ceilings
        ),
        note=f"The first {found.depth:,} documents of the first stage, where there are so many, "
        "are the candidates. They "
        f"hold {formats.percent(found.recall)} of a query's relevant documents; {lost} Of the "
        "way: (B − A) / (best order − A)"
        + ("." if found.same_for_a else ", not shown: A orders other documents than B."),
    )


def html(comparison: Comparison) -> str:
    """Return the report: one page that needs no other file and no network, at best below 2 MB.

    What is too much is left out: first the ends of passages, then the lists of queries.
    """
    folder = resources.files("embed_ab") / "templates"
    style, script = ((folder / f"report.{kind}").read_text("utf-8") for kind in ("css", "js"))
    environment = _environment(formats.readable)
    template = environment.get_template("report.html")
    context = context_of(comparison) | page.context(comparison)
    rows: list[page.Row] = context["rows"]
    detailed = sorted(
        (row for row in rows if row.detail), key=lambda row: -abs(row.difference or 0)
    )
    text = ""
    for n_open, length in OPEN:
        if length and page.table_bytes(rows, detailed[:n_open], length) > PAGE_BYTES:
            continue
        opened = {row.anchor for row in detailed[:n_open]}
        text = template.render(
            context,
            has_bm25=len(comparison.systems) > 2,
            style=Markup(style),
            style_digest=_digest(style),
            script=Markup(script),
            script_digest=_digest(script),
            open=opened,
            n_open=len(opened),
            passage_length=length,
        )
        if len(text.encode()) <= PAGE_BYTES:
            break
    return text


def plain_page(template: str, context: Mapping[str, Any]) -> str:
    """Return a page with the report's style; every text of a stranger in it is shown as text."""
    style = (resources.files("embed_ab") / "templates" / "report.css").read_text("utf-8")
    return (
        _environment(formats.readable)
        .get_template(template)
        .render(context, style=Markup(style), style_digest=_digest(style))
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def notebook(comparison: Comparison) -> str:
    """Return the report in a frame, so that neither page's style reaches the other.

    Its own script runs there, without access to the notebook.
    """
    return (
        '<iframe title="embed-ab report" sandbox="allow-scripts" width="100%" height="720" '
        f'srcdoc="{escape(html(comparison))}"></iframe>'
    )


def markdown(
    comparison: Comparison, *, report_url: str = "", name: str = "", max_bytes: int | None = None
) -> str:
    """Return the text that a pull request gets, at most 60,000 bytes or `max_bytes` in UTF-8.

    name: tells it from other comparisons on the same pull request.
    What does not fit is left out and said: first the worst queries, then warnings, gates and
    metrics; the verdict and the link stay.
    """
    context = context_of(comparison)
    lengths = {
        "worst": min(len(context["worst"]), MAX_WORST),
        "slices": len(context["telling"]),
        "ignored": len(comparison.ignored),
        "cautions": len(comparison.cautions),
        "gates": len(comparison.gates),
        "metrics": len(context["metrics"]),
    }
    context |= {"report_url": report_url, "name": name}
    return fitted("comment.md", context, lengths, max_bytes or COMMENT_BYTES)


def fitted(
    template: str, context: Mapping[str, Any], lengths: Mapping[str, int], max_bytes: int
) -> str:
    """Return markdown of at most `max_bytes` in UTF-8, with as much of each section as fits.

    lengths: of the sections, those first that are given up first; the template shows
    `shown[section]` items and says how many it leaves out.
    """
    # Kept, because the same texts are shown again each time that something is left out.
    environment = _environment(cache(lambda text: Markup(formats.prose(text))))
    marking = _NUMBERS | {"link": formats.link}
    marking |= {"code": cache(formats.code), "cell": cache(formats.cell)}
    marking |= {"own": str}  # words of this package, which mean no more than themselves
    environment.filters |= {name: _marked(function) for name, function in marking.items()}
    made = environment.get_template(template)
    shown = {section: min(length, MAX_ITEMS) for section, length in lengths.items()}
    text = ""
    for section in shown:
        while True:
            text = made.render(context, shown=shown)
            text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
            if len(text.encode()) <= max_bytes:
                return text
            if shown[section] == 0:
                break
            shown[section] //= 2
    return text


def unfinished(message: str, hint: str, name: str = "") -> str:
    """Return the text that a pull request gets in place of a comparison that there is none of."""
    heading = f"## ✗ embed-ab {formats.code(name)}".rstrip() + " could not finish"
    parts = (heading, formats.prose(message, 1000), formats.prose(hint))
    return "\n\n".join(filter(None, parts)) + "\n"


_NUMBERS: dict[str, Callable[..., str]] = {
    "number": formats.number,
    "signed": formats.signed,
    "percent": formats.percent,
    "p_value": formats.p_value,
    "count": formats.count,
    "interval": lambda d: formats.interval(d.low, d.high),
    "bar": lambda d, limit: formats.bar(d.low, d.difference, d.high, limit),
}


def context_of(comparison: Comparison) -> dict[str, Any]:
    """Return what the templates read beside the comparison itself."""
    rows = {row.query: row for row in comparison.queries}
    min_grade = comparison.min_grade

    def difference(row: QueryRow) -> float | None:
        return page.difference_of(row, comparison.primary)

    def standing(hit: Hit) -> str:
        if hit.grade is None:
            return "unjudged"
        return "relevant" if hit.grade >= min_grade else "not relevant"

    def finding(d: PairedDifference) -> Finding:
        for gate in comparison.gates:
            if gate.metric == d.metric and gate.slice is None:
                return gate.finding
        if d.low > 0:
            return "better"
        return "worse" if d.high < 0 else "no difference shown"

    detailed = [rows[detail.query] for detail in comparison.details]
    evalset = comparison.evalset
    rows_of_slices = slice_rows(comparison)
    large = [r.difference for r in rows_of_slices if not r.is_small]
    whole = [d for d in comparison.differences if d.metric == comparison.primary]
    deciding = decisive(comparison.gates)
    return {
        "comparison": comparison,
        "metrics": tuple(
            dict.fromkeys((*comparison.metrics, *(d.metric for d in comparison.differences)))
        ),
        "differences": {d.metric: d for d in comparison.differences},
        "worst": [row for row in detailed if page.kind_of(difference(row)) == "loss"],
        "slices": rows_of_slices,
        # A slice that holds every query repeats the whole.
        "telling": [
            r
            for r in rows_of_slices
            if r.part.matters and r.difference.n_queries < evalset.n_evaluated
        ],
        "n_small": len(rows_of_slices) - len(large),
        "left_out": left_out,
        "deciding_slice": deciding.slice if deciding else None,
        "widest": max(len(d.metric) for d in comparison.differences),
        "scale": scale_of(comparison.differences),
        "scale_of_slices": scale_of([*whole, *large]),
        "is_mock": any(system.is_mock for system in comparison.systems),
        "mock_notice": MOCK_NOTICE,
        "redacted_notice": REDACTED_NOTICE,
        "marks": {
            "pass": Markup("✓ PASS"),
            "fail": Markup("✗ FAIL"),
            "inconclusive": Markup("? INCONCLUSIVE"),
        },
        "findings": {d.metric: finding(d) for d in comparison.differences},
        "symbols": SYMBOLS,
        "has_wilson": any(system.wilson for system in comparison.systems),
        "set_sentence": set_sentence(comparison.evalset),
        "cost": cost_table(comparison.systems, comparison.measured),
        "ceiling": ceiling_table(comparison),
        "out_of_reach": comparison.candidates.out_of_reach if comparison.candidates else (),
        "difference": difference,
        "standing": standing,
    }


def set_sentence(evalset: EvalsetRecord) -> str:
    """Return what was evaluated on, in a few words."""
    return (
        f"{formats.shorten(evalset.name, 100)}: {evalset.n_evaluated:,} of "
        f"{evalset.n_queries:,} queries evaluated ({evalset.n_excluded:,} excluded), "
        f"{evalset.n_documents:,} documents, {evalset.n_judgements:,} judgements"
    )


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
        "padded": lambda text, width: Markup(text).ljust(width),
    }
    return environment


def _marked(function: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *arguments: Markup(function(*arguments))
