"""What the HTML report shows beside the comparison itself: headline, plots, rows of queries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from markupsafe import Markup, escape

from embed_ab import bm25, formats, plots
from embed_ab.cautions import Caution
from embed_ab.gate import decisive
from embed_ab.paired import TOLERANCE, PairedDifference
from embed_ab.result import Comparison, Hit, Measured, QueryDetail, QueryRow
from embed_ab.slices import by_name

MAX_ROWS = 1_000
"""Queries that have a row; result.json holds the rest."""

Kind = Literal["loss", "win", "tie", "excluded"]

STRONGEST = (
    "mock_models",  # has a place of its own
    "identical_rankings",
    "near_random_model",
    "other_chunking",
    "batch_mismatch",
    "missing_prompt",
    "truncated_documents",
    "truncated_pairs",
    "silent_cut",
    "missing_queries",
    "shallow_run",
    "unjudged_gap",
    "few_queries",
    "ceiling",
    "ambiguous_queries",
    "copied_queries",
    "shared_relevant_documents",
    "duplicate_documents",
    "tiny_corpus",
    "recall_ceiling",
    "unknown_documents",
    "duplicate_hits",
    "bm25_zero_hits",
    "tied_at_cutoff",
    "unpinned_model",
    "not_significant",  # the verdict says so already
)
"""Codes of cautions, what speaks loudest against a result first."""

_MAX_COST = 1e15  # what is above is no cost, and no axis can be drawn for it
_PLOT = {"left": 48.0, "right": 456.0, "top": 16.0, "bottom": 256.0}
# Within it, so that no dot covers a number at an axis.
_DOTS = {"left": 62.0, "right": 442.0, "top": 30.0, "bottom": 242.0}
_SMALL = {"left": 48.0, "right": 300.0, "top": 16.0, "bottom": 166.0}


@dataclass(frozen=True, kw_only=True)
class Hero:
    """The difference that the verdict is about."""

    metric: str
    slice: str
    """Where it was measured; "" for all queries."""
    difference: float
    low: float
    high: float
    level: float
    margin: float | None
    of: PairedDifference
    plot: plots.Forest


@dataclass(frozen=True, kw_only=True)
class Row:
    """A query of the table, and what filters find it by."""

    anchor: str
    row: QueryRow
    kind: Kind
    difference: float | None
    marks: tuple[str, ...]
    slices: tuple[int, ...]
    """Numbers of the slices that it is in."""
    detail: QueryDetail | None


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A shape of a plot with what hovering over it says, and the row that it leads to."""

    shape: Any
    title: str
    anchor: str
    kind: Kind


def difference_of(row: QueryRow, metric: str) -> float | None:
    """Return B − A of a query; None where it is excluded."""
    a, b = row.a[metric], row.b[metric]
    return None if a is None or b is None else b - a


def kind_of(difference: float | None) -> Kind:
    """Return what a difference means for B."""
    if difference is None:
        return "excluded"
    if abs(difference) <= TOLERANCE:
        return "tie"
    return "win" if difference > 0 else "loss"


def headline(comparison: Comparison) -> tuple[str, str]:
    """Return the verdict in words, and its numbers; one without numbers is all words."""
    words, *numbers = re.split(r": (?=\S+(?: \S+)? B − A = )", comparison.verdict, maxsplit=1)
    return (f"{words}." if numbers else words), "".join(numbers)


def strongest(comparison: Comparison) -> Caution | None:
    """Return the caution that speaks loudest against the result; None where there is none.

    That vectors are for practice is said beside the verdict.
    """
    rank = {code: number for number, code in enumerate(STRONGEST)}
    others = [caution for caution in comparison.cautions if caution.code != "mock_models"]
    return min(others, key=lambda c: rank.get(c.code, len(rank)), default=None)


def hero(comparison: Comparison) -> Hero:
    """Return the difference that decides, drawn against 0 and the margin."""
    gate = decisive(comparison.gates)
    metric = gate.metric if gate else comparison.primary
    slice = gate.slice if gate else None
    part = by_name(comparison.slices).get(slice) if slice else None
    differences = part.differences if part else comparison.differences
    difference = next(d for d in differences if d.metric == metric)
    shown = gate or difference
    margin = gate.margin if gate else None
    return Hero(
        metric=metric,
        slice=str(slice) if slice else "",
        difference=shown.difference,
        low=shown.low,
        high=shown.high,
        level=shown.level,
        margin=margin,
        of=difference,
        plot=plots.forest(
            [(shown.low, shown.difference, shown.high)],
            [margin] if margin else [],
            width=640,
            pad=24,
            n_ticks=6,
        ),
    )


def interval_plot(differences: Iterable[PairedDifference]) -> plots.Forest:
    """Return intervals on one axis, for a table that has a row for each."""
    return plots.forest(
        [(d.low, d.difference, d.high) for d in differences],
        width=320,
        pad=22,
        n_ticks=4,
    )


def rows(comparison: Comparison) -> list[Row]:
    """Return a row for each query, B's losses first, excluded ones last.

    Of too many those with the largest differences.
    """
    details = {detail.query: detail for detail in comparison.details}
    numbers = {
        (sliced.field, part.value): number
        for number, (sliced, part) in enumerate(
            (sliced, part) for sliced in comparison.slices for part in sliced.slices
        )
    }
    found = []
    for number, row in enumerate(comparison.queries):
        difference = difference_of(row, comparison.primary)
        marks = ["unjudged"] if row.unjudged_a or row.unjudged_b else []
        marks += ["truncated"] if row.truncated else []
        own = (numbers.get(name) for name in row.slices.items())
        found.append(
            Row(
                anchor=f"q{number}",
                row=row,
                kind=kind_of(difference),
                difference=difference,
                marks=tuple(marks),
                slices=tuple(n for n in own if n is not None),
                detail=details.get(row.query),
            )
        )
    found.sort(key=lambda r: -abs(r.difference or 0))
    del found[MAX_ROWS:]
    found.sort(key=lambda r: (r.difference is None, r.difference or 0, r.row.query))
    return found


def table_bytes(shown: list[Row], opened: list[Row], length: int) -> int:
    """Return about what the table takes, with passages of `length` characters where it opens.

    Rather too little: what is too large by this is not drawn, which takes seconds.
    """
    n_bytes = sum(380 + len(row.row.text[:160].encode()) for row in shown)
    for detail in (row.detail for row in opened if row.detail):
        for own, others in ((detail.a, ()), (detail.b, {hit.document for hit in detail.a})):
            for hit in own:
                n_shown = length // 3 if hit.document in others else length
                n_bytes += 130 + len(hit.text[:n_shown].encode())
    return n_bytes


def difference_plots(comparison: Comparison, shown: list[Row]) -> dict[str, Any]:
    """Return the plots of single queries, each shape with its words and its link."""
    metric = comparison.primary
    anchors = {row.row.query: row.anchor for row in shown}
    present = [
        (difference, row)
        for row in comparison.queries
        if (difference := difference_of(row, metric)) is not None
    ]
    present.sort(key=lambda pair: (pair[0], pair[1].query))
    fall = plots.waterfall([difference for difference, _ in present], **_PLOT)
    spread = plots.scatter(
        [(row.a[metric] or 0, row.b[metric] or 0) for _, row in present], **_DOTS
    )

    def said(of: QueryRow) -> str:
        change = formats.signed(difference_of(of, metric))
        a, b = formats.number(of.a[metric]), formats.number(of.b[metric])
        text = f": {formats.shorten(of.text, 80)}" if of.text else ""
        return f"{formats.shorten(of.query, 60)} {change} (A {a}, B {b}){text}"

    bars = []
    for bar in fall.bars:
        first, last = present[bar.first], present[bar.last]
        extreme = (first if bar.value < 0 else last)[1]
        title = said(extreme)
        if bar.last > bar.first:
            ends = f"{formats.signed(first[0])} to {formats.signed(last[0])}"
            title = f"{bar.last - bar.first + 1} queries, {ends}; {title}"
        bars.append(
            Linked(
                shape=bar,
                title=title,
                anchor=anchors.get(extreme.query, ""),
                kind=kind_of(bar.value),
            )
        )
    points = []
    for point in spread.points:
        extreme = max((present[m] for m in point.members), key=lambda pair: abs(pair[0]))[1]
        title = said(extreme)
        if len(point.members) > 1:
            title = f"{len(point.members):,} queries, among them {title}"
        points.append(
            Linked(
                shape=point,
                title=title,
                anchor=anchors.get(extreme.query, ""),
                kind=kind_of(difference_of(extreme, metric)),
            )
        )
    ranks = [(row.rank_a, row.rank_b) for _, row in present]
    return {
        "fall": fall,
        "bars": bars,
        "spread": spread,
        "points": points,
        "n_present": len(present),
        # A result of an older version has no ranks.
        "moved": plots.movement(ranks, comparison.depth) if any(map(any, ranks)) else None,
    }


def tradeoffs(comparison: Comparison) -> list[plots.Tradeoff]:
    """Return quality over each kind of cost that is known of both A and B.

    How long mock vectors take says nothing about a model.
    """
    a, b = comparison.systems[:2]
    measured = comparison.measured
    reranking = _of(measured, "rerank_ms")
    kinds: dict[str, Mapping[str, Any]] = {
        "bytes per vector": {s.label: s.bytes_per_vector for s in (a, b)},
        f"ms for one query{' and reranking' if reranking else ''}, median": {
            label: wait["p50"] + (reranking[label]["p50"] if label in reranking else 0.0)
            for label, wait in _of(measured, "query_ms").items()
        },
        # Not what a run paid that found its vectors in the store.
        "price of embedding": {k: price for k, price in _of(measured, "price").items() if price},
    }
    if a.is_mock or b.is_mock:
        kinds = {"bytes per vector": kinds["bytes per vector"]}
    metric = comparison.primary
    bm25_mean = next((s.means.get(metric) for s in comparison.systems[2:]), None)
    found = []
    for kind, costs in kinds.items():
        known = [
            (system.label, float(cost), float(mean))
            for system in (a, b)
            if (cost := costs.get(system.label)) is not None
            and (mean := system.means.get(metric)) is not None
        ]
        if len(known) == 2 and max(cost for _, cost, _ in known) < _MAX_COST:
            found.append(plots.tradeoff(kind, known, bm25_mean, **_SMALL))
    return found


def _of(measured: Measured, key: str) -> Mapping[str, Any]:
    values: Mapping[str, Any] = measured
    found: Mapping[str, Any] = values.get(key, {})
    return found


def highlighter(comparison: Comparison) -> Callable[[str, str], Markup]:
    """Return what marks in a passage the words that it shares with a query.

    Words of more than a fifth of all passages tell nothing and stay as they are.
    """

    def tokens(text: str) -> Set[str]:
        return {*bm25.tokenize(formats.readable(text), "auto")}

    passages: set[str] = set()
    for detail in comparison.details:
        passages |= {document.text for document in detail.relevant}
        passages |= {hit.text for hit in (*detail.a, *detail.b)}
    counts = Counter(token for text in passages for token in tokens(text))
    limit = max(0.2 * len(passages), 5)
    common = {token for token, count in counts.items() if count > limit}

    @cache
    def terms(query: str) -> Set[str]:
        return tokens(query) - common

    def marked(passage: str, query: str) -> Markup:
        text = formats.readable(passage)
        parts, done = [], 0
        for start, end in bm25.find_tokens(text, terms(query)):
            parts += [escape(text[done:start]), Markup("<mark>{}</mark>").format(text[start:end])]
            done = end
        return Markup("").join([*parts, escape(text[done:])])

    return marked


def ranks_of(hits: tuple[Hit, ...]) -> dict[str, int]:
    """Return where each document stands in a list, from 1."""
    return {hit.document: rank for rank, hit in enumerate(hits, start=1)}


def context(comparison: Comparison) -> dict[str, Any]:
    """Return everything here, by the names that the templates use."""
    shown = rows(comparison)
    words, numbers = headline(comparison)
    return {
        "headline": words,
        "numbers": numbers,
        "strongest": strongest(comparison),
        "hero": hero(comparison),
        "metric_plot": interval_plot(comparison.differences),
        "slice_plot": interval_plot(
            [part.of(comparison.primary) for field in comparison.slices for part in field.slices]
        ),
        "rows": shown,
        "n_detailed": sum(row.detail is not None for row in shown),
        "tradeoffs": tradeoffs(comparison),
        "marked": highlighter(comparison),
        "ranks_of": ranks_of,
        **difference_plots(comparison, shown),
    }
