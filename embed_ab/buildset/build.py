"""The pipeline: documents, chunks, questions, filters, files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embed_ab.buildset import filters
from embed_ab.buildset.asking import OnProgress, ask_questions, verified
from embed_ab.buildset.chunks import Chunk, split
from embed_ab.buildset.documents import read
from embed_ab.buildset.files import (
    BESIDE,
    FILES,
    RECORD,
    describe,
    is_as_written,
    is_record,
    write,
)
from embed_ab.buildset.journal import NAME as JOURNAL
from embed_ab.buildset.journal import Journal, is_ours
from embed_ab.buildset.options import Counts, Options
from embed_ab.buildset.queries import kept, merged
from embed_ab.buildset.questions import PROMPT_VERSION, Writer, key_of
from embed_ab.errors import EmbedAbError, InputError, ProviderError
from embed_ab.evalset import normalized_text
from embed_ab.llm import REFUSALS
from embed_ab.providers.http import RequestRefused
from embed_ab.readers import find_files

GAPS = ("unreadable", "refused", "unjudged")
"""What the record names because the model has not answered about it."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """A finished set: what build.json holds, and what this run had to do for it."""

    folder: Path
    record: Mapping[str, Any]
    n_reused: int = 0
    n_stale: int = 0
    was_finished: bool = False


def build(
    place: Path, out: Path, options: Options, writer: Writer, on_progress: OnProgress
) -> Built:
    """Make an evaluation set in the folder `out` from a file or a folder of files.

    A run that was interrupted goes on where it was: what the model has answered is in the journal
    in `out`. A set that is finished is not made again; but what the model could not answer is asked
    again, while nobody has changed the set.
    Raises: InputError; ProviderError, after which the same command goes on.
    """
    finished = _finished(out)
    documents, skipped = read(place, without=out)
    chunks = split(documents, options.chunk_chars)
    made_by = _made_by(options, writer, chunks)
    if finished is not None:
        _refuse_other(out, finished, made_by)
        _refuse_lacking(out)
        has_gaps = any(finished.get(name) for name in GAPS)
        if not has_gaps or not is_as_written(out, finished) or _has_moved(writer, finished):
            return Built(folder=out, record=finished, was_finished=True)
    counts = Counts()
    gold, asked = _choose(chunks, options, counts)
    with closing(Journal(out)) as journal:
        if (out / RECORD).exists() if finished is None else not is_as_written(out, finished):
            raise InputError(
                f"{out}: another run has finished a set in this folder meanwhile",
                hint="Run the same command again to see whether it is the same set.",
            )
        try:
            answers = ask_questions(chunks, asked, options, writer, journal, counts, on_progress)
            queries = merged(list(kept(chunks, gold, answers, options, counts)), counts)
            if not queries:
                raise _nothing_left(counts)
            queries = verified(chunks, queries, options, writer, journal, counts, on_progress)
        except ProviderError as error:
            # The same texts are refused again: the set stays as it is, with its warnings.
            if finished and isinstance(error, RequestRefused) and error.status in REFUSALS:
                return Built(folder=out, record=finished, was_finished=True)
            if len(journal) and "again" not in error.hint:
                error.hint = f"{error.hint.rstrip('.')}. The same command then goes on from here."
            raise
        record = {
            **made_by,
            "model_digest": writer.digest,  # not asked of a server where the set is finished
            **describe(documents, skipped, chunks, asked, queries, counts),
        }
        record = write(out, chunks, queries, record)
    return Built(
        folder=out,
        record=record,
        n_reused=journal.n_reused,
        n_stale=journal.n_found - journal.n_reused,
    )


def _finished(out: Path) -> dict[str, Any] | None:
    """Return the record of a finished set. Raises: InputError if the folder holds other things."""
    hint = "Choose a new folder for --out."
    try:
        found = sorted(path.name for path in out.iterdir()) if out.exists() else []
        # Nothing of ours starts with a dot but what a killed run was writing.
        names = [name for name in found if not name.startswith(".")]
        if RECORD not in names:
            _refuse_foreign(out, names, hint)
            return None
        record = json.loads((out / RECORD).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{out}: {error.strerror or error}", hint=hint) from None
    except (ValueError, RecursionError):
        record = None
    if not is_record(record):
        raise InputError(f"{out / RECORD}: not a record of build-set", hint=hint)
    found_record: dict[str, Any] = record
    return found_record


def _refuse_foreign(out: Path, names: Sequence[str], hint: str) -> None:
    """Raise InputError where a folder without a record holds what an ended run did not leave."""
    # A run that was killed while it wrote leaves some of the files, and always its journal.
    foreign = [name for name in names if name not in (JOURNAL, *FILES, *BESIDE)]
    if JOURNAL in names and not is_ours(out / JOURNAL, has_answers=len(names) > 1):
        foreign.append(JOURNAL)
    elif names and JOURNAL not in names:
        foreign = list(names)
    if foreign:
        more = ", …" if len(foreign) > 3 else ""
        raise InputError(f"{out}: holds other files ({', '.join(foreign[:3])}{more})", hint=hint)


def _refuse_lacking(out: Path) -> None:
    """Raise InputError where a finished set has lost a file."""
    try:
        find_files(out, "test")
    except InputError as error:
        raise InputError(
            str(error),
            hint=f"Delete {out / RECORD}: the same command then writes the files anew, with the "
            "answers in the journal. Judgements added since are then lost.",
        ) from None


def _has_moved(writer: Writer, finished: Mapping[str, Any]) -> bool:
    """Return whether the model's name means another one by now, whose answers would not fit."""
    return writer.digest != finished.get("model_digest")


def _made_by(options: Options, writer: Writer, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """Return what decides about the set: another value would make another one."""
    digest = hashlib.sha256(json.dumps([asdict(chunk) for chunk in chunks]).encode()).hexdigest()
    given = asdict(options)
    del given["concurrency"]
    return {
        "schema_version": 1,
        "model": writer.name,
        "server": writer.server,
        "prompt_version": PROMPT_VERSION,
        "seed": given.pop("seed"),
        "options": given,
        "texts": digest,
    }


def _refuse_other(out: Path, finished: Mapping[str, Any], made_by: Mapping[str, Any]) -> None:
    """Raise InputError where a finished set was made from something else."""
    before = {**finished, **(finished.get("options") or {})}
    now = {**made_by, **made_by["options"]}
    changed = [
        name.replace("_", "-")
        for name in now
        if name != "options" and before.get(name) != now[name]
    ]
    if changed:
        raise InputError(
            f"{out}: holds a finished set that was made from other {' and '.join(changed)}",
            hint="Choose another --out; or delete its build.json to write its files anew, keeping "
            "the answers that still fit. Judgements added since are then lost.",
        )


def _choose(
    chunks: Sequence[Chunk], options: Options, counts: Counts
) -> tuple[dict[int, tuple[int, ...]], list[int]]:
    """Return the chunks to ask about, and for each of them the chunks of the same text."""
    same: dict[str, list[int]] = {}
    for index, chunk in enumerate(chunks):
        reason = filters.why_not_asked(chunk.text)
        if reason:
            counts.without_question[reason] += 1
        else:
            same.setdefault(normalized_text(chunk.text), []).append(index)
    gold = {indices[0]: tuple(indices) for indices in same.values()}
    if n_repeated := sum(len(indices) - 1 for indices in gold.values()):
        counts.without_question["same text as another chunk"] = n_repeated
    asked = sorted(gold)
    if options.max_chunks is not None and options.max_chunks < len(asked):
        counts.without_question["not chosen (--max-chunks)"] = len(asked) - options.max_chunks
        # By a number of the chunk's own, so that a new document leaves most of the choice alone.
        chosen = sorted(asked, key=lambda index: key_of(options.seed, "choice", chunks[index].id))
        asked = sorted(chosen[: options.max_chunks])
    return gold, asked


def _nothing_left(counts: Counts) -> EmbedAbError:
    reasons = counts.without_question + counts.dropped
    if failed := len(counts.unreadable) + len(counts.refused):
        named = (counts.unreadable + counts.refused)[:5]
        return ProviderError(
            f"no question is left: chunks whose answers could not be used: {failed:,} "
            f"({', '.join(named)}{', …' if failed > 5 else ''})",
            hint="Try a larger model.",
        )
    listed = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items() if n)
    return InputError(
        f"no question is left: {listed or 'the model wrote none'}",
        hint="Give longer texts, another model, or a higher --max-copy.",
    )
