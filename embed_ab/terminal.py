"""What the commands print: a comparison, a summary of an evaluation set, the store of vectors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from embed_ab import formats
from embed_ab.check import Check, Lengths
from embed_ab.matrix import Matrix
from embed_ab.matrix_surfaces import context_of as matrix_context
from embed_ab.outputs import Places
from embed_ab.paired import PairedDifference
from embed_ab.parity import Parity
from embed_ab.providers.cache import StoreInfo
from embed_ab.render import MOCK_NOTICE, REDACTED_NOTICE, SliceRow, context_of
from embed_ab.result import Comparison, SystemRecord
from embed_ab.slices import SliceFinding
from embed_ab.systems import OnProgress

SECONDS_BETWEEN_LINES = 10
WIDE = 100
"""Columns from which on a terminal gets its intervals drawn, too."""

_STYLES = {
    "better": "green",
    "pass": "green",
    "not worse than the margin": "green",
    "worse": "red",
    "fail": "red",
    "no difference shown": "yellow",
    "inconclusive": "yellow",
}
_SHORT: dict[SliceFinding, str] = {
    "better": "better",
    "worse": "worse",
    "no difference shown": "not shown",
    "too few queries": "too few",
}


def comparison(compared: Comparison, console: Console, *, quiet: bool = False) -> None:
    """Print verdict, gates, tables and warnings; `quiet`: only verdict, gates and mock notice.

    What is not a terminal gets whole lines, so that a gate line can be searched for.
    """
    context = context_of(compared)
    _line(console, compared.verdict, f"bold {_STYLES[compared.finding]}")
    for gate in compared.gates:
        _line(console, gate.reason, _STYLES[gate.outcome])
    if context["is_mock"]:
        _line(console, MOCK_NOTICE, "bold")
    if quiet:
        return
    _line(console)
    for system in compared.systems:
        _line(console, f"{system.label}: {formats.shorten(system.system, 200)}{_prompts(system)}")
    _line(console, f"set: {context['set_sentence']}")
    for notice in compared.evalset.notices:
        _line(console, f"note: {notice}")
    if compared.is_redacted:
        _line(console, REDACTED_NOTICE)
    _line(console)
    _table(
        console,
        ["mean", *(system.label for system in compared.systems), "n"],
        [
            [
                metric,
                *(formats.number(system.means.get(metric)) for system in compared.systems),
                str(compared.systems[0].n_queries.get(metric, 0)),
            ]
            for metric in context["metrics"]
        ],
    )
    _line(console)
    draw = _bars(console)
    _table(
        console,
        ["difference", "B - A", "interval", "p (Holm)", "W/L/T", "n", "detects", *draw.heading],
        [
            [
                d.metric,
                formats.signed(d.difference),
                formats.interval(d.low, d.high),
                formats.p_value(d.p_holm),
                f"{d.wins}/{d.losses}/{d.ties}",
                str(d.n_queries),
                formats.number(d.detectable),
                *draw(d, context["scale"]),
            ]
            for d in compared.differences
        ],
    )
    if compared.slices:
        _slices(compared, context, console)
    if (cost := context["cost"]) is not None:
        _line(console)
        _table(console, cost.headings, cost.rows)
        if cost.note:
            _line(console, cost.note)
    if (ceiling := context["ceiling"]) is not None:
        _line(console)
        _table(console, ceiling.headings, ceiling.rows)
        _line(console, ceiling.note)
        if lost := context["out_of_reach"]:
            shown = [formats.shorten(query, 60) for query in lost[:5]]
            _line(console, f"out of reach: {', '.join(shown)}{', ...' if len(lost) > 5 else ''}")
    overlap = compared.overlap
    _line(console)
    _line(
        console,
        f"overlap of the top {overlap.k}: Jaccard {formats.number(overlap.jaccard)}, "
        f"RBO {formats.number(overlap.rbo)}",
    )
    if compared.cautions:
        _line(console)
    for caution in compared.cautions:
        _line(
            console, f"! {caution.code}: {formats.shorten(caution.message, 600)} {caution.advice}"
        )
    if compared.ignored:
        _line(console, f"ignored warnings: {', '.join(compared.ignored)}")


def _slices(compared: Comparison, context: Mapping[str, Any], console: Console) -> None:
    draw = _bars(console)
    rows: list[SliceRow] = context["slices"]
    _line(console)
    _table(
        console,
        ["slice", "B - A", "interval", "p (Holm)", "n", "B is", *draw.heading],
        [
            [
                formats.shorten(row.label, 50),
                formats.signed(row.difference.difference),
                formats.interval(row.difference.low, row.difference.high),
                formats.DASH if row.is_small else formats.p_value(row.difference.p_holm),
                str(row.difference.n_queries),
                _SHORT[row.part.finding] + (", reversal" if row.part.is_reversal else ""),
                *draw(None if row.is_small else row.difference, context["scale_of_slices"]),
            ]
            for row in rows
        ],
        ["dim" if row.is_small else "" for row in rows],
    )
    _line(console, f"slices: {compared.primary}, intervals not adjusted for their number")
    if any(row.part.is_reversal for row in rows):
        _line(console, "reversal: the interval lies on the other side of 0 than the whole")
    for sliced in compared.slices:
        if said := context["left_out"](sliced):
            _line(console, f"slices by {sliced.field}: {said}")


def matrix(found: Matrix, console: Console, *, quiet: bool = False) -> None:
    """Print the verdict, and unless `quiet` the table, costs and warnings of many systems."""
    context = matrix_context(found)
    _line(console, found.verdict, "bold")
    if context["is_mock"]:
        _line(console, MOCK_NOTICE, "bold")
    if quiet:
        return
    _line(console)
    baseline = found.systems[0].label
    for system in found.systems:
        is_first = " (baseline)" if system.label == baseline else ""
        shown = formats.shorten(system.system, 200)
        _line(console, f"{system.label}{is_first}: {shown}{_prompts(system)}")
    _line(console, f"set: {context['set_sentence']}")
    for note in (*found.notes, *found.evalset.notices):
        _line(console, f"note: {note}")
    if found.is_redacted:
        _line(console, REDACTED_NOTICE)
    _line(console)
    rows = []
    for metric in context["metrics"]:
        for system in found.systems:
            row = [metric, system.label, formats.number(system.means.get(metric))]
            if d := context["differences"].get(system.label, {}).get(metric):
                row += [
                    formats.signed(d.difference),
                    formats.interval(d.low, d.high),
                    formats.p_value(d.p_holm),
                    f"{d.wins}/{d.losses}/{d.ties}",
                    context["verdicts"][system.label][metric],
                ]
            rows.append(row)
    headings = ["metric", "", "mean", f"- {baseline}", "interval", "p (Holm)", "W/L/T", "verdict"]
    _table(console, headings, rows)
    _line(console, f"Verdicts go by p, adjusted over {found.n_tests}; intervals stand alone.")
    for table in filter(None, (context["candidates"], context["cost"])):
        _line(console)
        _table(console, table.headings, table.rows)
        if table.note:
            _line(console, table.note)
    if found.cautions:
        _line(console)
    for caution in found.cautions:
        _line(console, f"! {caution.code} ({caution.about}): {caution.meaning}")
    if found.ignored:
        _line(console, f"ignored warnings: {', '.join(found.ignored)}")


def places(files: Places, console: Console) -> None:
    """Print where the results are."""
    for name in ("report", "json", "comment"):
        # A path broken over two lines cannot be copied.
        console.print(_safe(console, f"{name}: {getattr(files, name)}"), soft_wrap=True)


def progress_lines(
    say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> OnProgress:
    """Return a progress report for a log: a line every ten seconds, with the time left."""
    started: dict[str, float] = {}
    last = clock()

    def show(what: str, done: int, total: int) -> None:
        nonlocal last
        moment = clock()
        begun = started.setdefault(what, moment)
        if moment - last >= SECONDS_BETWEEN_LINES and 0 < done < total:
            last = moment
            left = (moment - begun) / done * (total - done)
            say(f"{what} {done:,} of {total:,}, about {left:.0f} s left")

    return show


@contextmanager
def heard(say: Callable[[str], None]) -> Iterator[None]:
    """Say what the package logs meanwhile, such as a wait for a server, one line each."""

    class Said(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(formats.shorten(formats.plain(record.getMessage()), 500))

    logger, handler = logging.getLogger("embed_ab"), Said()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


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
        "set": f"{formats.counted(found.n_documents, 'document')}, "
        f"{formats.counted(found.n_queries, 'query', 'queries')}, "
        f"{formats.counted(found.n_judgements, 'judgement')}",
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
        _line(console, f"note: {notice.message}")


def parity(found: Parity, console: Console, *, quiet: bool = False) -> None:
    """Print whether two systems give the same vectors, and why not; `quiet`: only whether."""
    style = {"the same": "green", "nearly the same": "yellow", "not the same": "red"}
    _line(console, found.verdict, f"bold {style[found.finding]}")
    if quiet:
        return
    _line(console)
    for label, system, dimension in zip("AB", (found.a, found.b), found.dimensions, strict=True):
        _line(console, f"{label}: {formats.shorten(system, 200)}, {dimension} dimensions")
    _line(console)
    if found.agreements:
        _table(
            console,
            ["cosine of the same text", "n", "mean", "p5", "lowest", "at"],
            [
                [
                    "documents" if a.role == "document" else "queries",
                    str(a.n),
                    *(f"{value:.4f}" for value in (a.mean, a.p5, a.lowest)),
                    formats.shorten(a.lowest_id, 60),
                ]
                for a in found.agreements
            ],
        )
    ranks = found.ranks
    _line(
        console,
        f"rankings of {formats.counted(ranks.n_documents, 'document')} for "
        f"{formats.counted(ranks.n_queries, 'query', 'queries')}: overlap@"
        f"{ranks.k} {ranks.overlap:.3f}, RBO {ranks.rbo:.3f}, same first document in "
        f"{formats.percent(ranks.same_first)}",
    )
    if found.finding != "the same":
        _line(console)
    for cause in found.causes:
        _line(console, f"! {cause.code}: {cause.message} {cause.advice}")
    if not found.agreements and not found.causes:
        _line(console, "Neither is the beginning of the other: these are different models.")
    elif found.finding != "the same" and not found.causes:
        _line(
            console,
            f"No cause found; tried: {', '.join(found.tried)}. Other weights, quantisation, "
            "tokens, and what was not tried, are left.",
        )
    for note in found.notes:
        _line(console, f"note: {note}")


def lines(texts: Iterable[str], console: Console) -> None:
    """Print lines."""
    for text in texts:
        _line(console, text)


def cache_info(info: StoreInfo, console: Console) -> None:
    """Print what the store of vectors holds."""
    _line(
        console,
        f"{info.path}: {formats.counted(info.n_vectors, 'vector')}, "
        f"{info.n_bytes / 1_000_000:,.1f} MB",
    )


def _line(console: Console, text: str = "", style: str = "") -> None:
    console.print(_safe(console, text, style), soft_wrap=not _is_terminal(console))


@dataclass(frozen=True, kw_only=True)
class _Bars:
    """Draws intervals for the last column of a table, where there is room for one."""

    marks: str

    @property
    def heading(self) -> list[str]:
        return ["worse 0 better"] if self.marks else []

    def __call__(self, d: PairedDifference | None, limit: float) -> list[str]:
        if not self.marks:
            return []
        return [formats.bar(d.low, d.difference, d.high, limit, marks=self.marks) if d else ""]


def _bars(console: Console) -> _Bars:
    # Not in a log, which is searched and compared: the numbers say the same.
    if console.width < WIDE or not _is_terminal(console):
        return _Bars(marks="")
    try:
        formats.BAR.encode(console.encoding)
    except UnicodeError:
        return _Bars(marks=formats.ASCII_BAR)
    return _Bars(marks=formats.BAR)


def _table(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str] = (),
) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, heading in enumerate(headings):
        table.add_column(
            _safe(console, heading), justify="right" if column else "left", overflow="fold"
        )
    for row, style in zip_longest(rows, styles, fillvalue=""):
        table.add_row(*(_safe(console, text) for text in row), style=style)
    console.print(table)


def _is_terminal(console: Console) -> bool:
    # Not console.is_terminal: FORCE_COLOR, which many CI jobs set, makes that true for a log.
    return console.file.isatty()


def _safe(console: Console, text: str, style: str = "") -> Text:
    # Text, because rich would obey the markup in a str.
    return Text(formats.printable(text, console.encoding, _is_terminal(console)), style)


def _prompts(system: SystemRecord) -> str:
    if system.query_prompt is None or system.document_prompt is None:
        return ""
    if not system.query_prompt and not system.document_prompt:
        return " (no prompts)"
    shown = [formats.shorten(text, 100) for text in (system.query_prompt, system.document_prompt)]
    return f" (query prompt '{shown[0]}', document prompt '{shown[1]}')"
