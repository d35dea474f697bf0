"""What build-set prints about a set: every count of what was dropped, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from embed_ab.buildset.build import GAPS, Built
from embed_ab.formats import counted

MOCK_NOTICE = (
    "mock: no model was asked; each question is a sentence copied from its chunk. Such a set shows "
    "how embed-ab works; it cannot tell which model is better."
)
_SHOWN = 5


def lines(built: Built, *, is_quiet: bool = False) -> Iterator[str]:
    """Yield the lines of a summary, ids and numbers, no texts; quiet: where it is and warnings."""
    for line in _lines(built):
        if not is_quiet or line.startswith(("mock:", "warning:", "set:")):
            yield line


def _lines(built: Built) -> Iterator[str]:
    record, counts = built.record, built.record["counts"]
    if built.was_finished:
        yield f"{built.folder} is finished already; nothing was written."
    if record["model"] == "mock":
        yield MOCK_NOTICE
    if built.n_reused:
        yield f"resumed; answers taken from the journal: {built.n_reused:,}"
    if built.n_stale:
        yield (
            "note: answers in the journal about other texts or settings, not used: "
            f"{built.n_stale:,}"
        )
    yield (
        f"files: {counts['files']:,} read, {counts['skipped_files']:,} left out; "
        f"chunks: {counts['chunks']:,}"
    )
    for item in record["skipped"][:20]:
        yield f"left out: {item['source']}: {item['reason']}"
    if len(record["skipped"]) > 20:
        yield f"left out: {len(record['skipped']) - 20:,} more, in build.json"
    without = counts["chunks_without_question"]
    yield (
        f"chunks asked about: {counts['chunks_asked']:,}; "
        f"{sum(without.values()):,} without a question{_reasons(without)}"
    )
    for key, text in (
        ("unreadable", "chunks whose answer could not be read in two tries"),
        ("refused", "chunks the server refused"),
        ("fewer", "chunks with fewer questions than asked for"),
        ("unjudged", "questions the model could not judge, marked ambiguous"),
    ):
        if record[key]:
            yield f"warning: {text}: {len(record[key]):,} ({_some(record[key])})"
    if any(record[key] for key in GAPS):
        yield (
            "note: the same command asks about these again, unless the set or the model has changed"
        )
    dropped = counts["questions_dropped"]
    yield (
        f"questions: {counts['questions_written']:,} written, "
        f"{sum(dropped.values()):,} dropped{_reasons(dropped)}, "
        f"{counts['questions_merged']:,} merged with one that asks the same, "
        f"{counts['queries']:,} kept ({_listed(counts['styles'])})"
    )
    if record["options"]["verify"] != "none":
        yield (
            f"questions that do not lead to their chunk (by {record['options']['verify']}): "
            f"{counts['queries_ambiguous']:,}; they are marked as ambiguous in queries.jsonl, "
            "and count like all others until you mend or remove them"
        )
    share = record["copy_share"]
    yield (
        f"copy share: median {share['median']:.2f}; questions that take half of their words or "
        f"more from their chunk: {share['at_least_half']:,}"
    )
    if share["median"] >= 0.5 and record["model"] != "mock":
        yield (
            "warning: such questions favour word search and models near to it; "
            "lower --max-copy, or use a model that paraphrases"
        )
    folder = shlex.quote(str(built.folder))
    n_queries = counted(counts["queries"], "query", "queries")
    n_documents = counted(counts["chunks"], "document")
    yield f"set: {built.folder} ({n_documents}, one for each chunk; {n_queries})"
    if record["options"]["per_chunk"] > 1:
        yield (
            "note: questions about one chunk are no independent evidence; compare with "
            "--cluster-by gold"
        )
    yield f"next: embed-ab check {folder}"


def _reasons(counts: Mapping[str, int]) -> str:
    return f" ({_listed(counts)})" if counts else ""


def _listed(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{n:,} {reason}" for reason, n in counts.items())


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f", and {more:,} more in build.json" if more > 0 else "")
