"""Judged pairs go back into the qrels of their evaluation set; no person's grade is lost."""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from embed_ab import evalset as evalsets
from embed_ab.errors import EvalsetError, InputError
from embed_ab.labels import file as label_file
from embed_ab.labels.file import IDENTITY, Cells, Place, place_of, unescaped
from embed_ab.outputs import replace_file, write_text
from embed_ab.readers import (
    GRADE_HINT,
    find_files,
    in_quotes,
    json_lines,
    parse_grade,
    qrels_rows,
    text_lines,
)

SIDECAR = "judgements.jsonl"
HUMAN = "human"


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What a merge did; `conflicts` are sentences about grades that were left as they were."""

    qrels: Path
    n_added: int
    n_by_llm: int
    n_replaced: int
    n_known: int
    n_open: int
    conflicts: tuple[str, ...]


def merge(folder: Path, split: str, path: Path, *, today: str) -> Merged:
    """Add the judged rows of a file to the qrels of a set; what a person judged before stays.

    A person's grade in the file replaces one that a model gave. Models' grades are recorded in
    `judgements.jsonl`, with `today` as their date. The same file a second time changes nothing.
    Raises: InputError, EvalsetError with the line of the first fault; then nothing was changed.
    """
    files = find_files(folder, split)
    # Whether the set is fit for a comparison is not this command's matter.
    evalset = evalsets.load(folder, split=split, no_positive="exclude", allow_missing_docs=True)
    standing: dict[Place, int] = {}
    lines_of: dict[Place, list[int]] = defaultdict(list)
    ids = frozenset(evalset.query_ids), frozenset(evalset.document_ids)
    for line, query, document, grade in qrels_rows(files.qrels, *ids, []):
        standing[query, document] = grade
        lines_of[query, document].append(line)
    name = files.qrels.relative_to(folder).as_posix()
    recorded_as = name.removesuffix(".gz")
    sidecar = folder / SIDECAR
    judges = _recorded(sidecar, recorded_as)

    judged, n_open = _judged(path, *ids)
    added: dict[Place, int] = {}
    replaced: dict[Place, int] = {}
    records: list[dict[str, Any]] = []
    conflicts: list[str] = []
    for place, judgement in judged.items():
        old = standing.get(place)
        beats_old = old is not None and judgement.judge == HUMAN and _is_of_llm(judges[place, old])
        if old is None:
            added[place] = judgement.grade
        elif old != judgement.grade and beats_old:
            replaced[place] = judgement.grade
        elif old != judgement.grade:
            conflicts.append(
                f"query {place[0]!r}, document {place[1]!r}: {old} in "
                f"{name}:{lines_of[place][0]}, {judgement.grade} in {path.name}:{judgement.line}"
            )
        # A person's grade is recorded only where it takes, or confirms, a model's.
        is_new = judgement.judge not in judges[place, judgement.grade]
        if is_new and (beats_old or (old is None and judgement.judge != HUMAN)):
            records.append(_record(recorded_as, place, judgement, today))

    if records:  # before the qrels: a model's grade must never pass for a person's
        earlier = "".join(line for _, line in text_lines(sidecar, [])) if sidecar.exists() else ""
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        write_text(sidecar, _ended(earlier, "\n") + "".join(lines))
    if added or replaced:
        _write_qrels(files.qrels, added, replaced, lines_of)
    return Merged(
        qrels=files.qrels,
        n_added=len(added),
        n_by_llm=sum(judged[place].judge != HUMAN for place in added),
        n_replaced=len(replaced),
        n_known=len(judged) - len(added) - len(replaced) - len(conflicts),
        n_open=n_open,
        conflicts=tuple(conflicts),
    )


@dataclass(frozen=True, kw_only=True)
class _Judgement:
    line: int
    grade: int
    judge: str
    reason: str
    identity: Mapping[str, str]


def _judged(
    path: Path, queries: Container[str], documents: Container[str]
) -> tuple[dict[Place, _Judgement], int]:
    """The judgements of a file, and how many of its rows have none."""
    known = {"query": queries, "document": documents}
    judged: dict[Place, _Judgement] = {}
    n_open = 0
    for line, cells in label_file.read(path):
        wrong = partial(EvalsetError, path=path, line=line)
        place = place_of(cells)
        for what, given, ids in zip(known, place, known.values(), strict=True):
            if given not in ids:
                raise wrong(
                    f"the evaluation set, in this split, has no {what} {in_quotes(given)}",
                    hint="Give the set, and the split, that the file was made from. A spreadsheet "
                    "may have changed ids such as 007 or 1-2: keep the columns of ids as text.",
                )
        judgement = _judgement_of(line, cells, wrong)
        if judgement is None:
            n_open += 1
            continue
        first = judged.setdefault(place, judgement)
        if first.grade != judgement.grade:
            raise wrong(
                f"query {place[0]!r}, document {place[1]!r}: grade {judgement.grade}, but "
                f"{first.grade} in line {first.line}",
                hint="Keep one of the two rows.",
            )
    return judged, n_open


def _judgement_of(line: int, cells: Cells, wrong: Callable[..., EvalsetError]) -> _Judgement | None:
    """The judgement of a row, None where there is none; a person's grade goes first."""
    judge, text = HUMAN, cells["grade"].strip()
    if not text:
        judge, text = cells.get("llm", "").strip(), cells.get("llm_grade", "").strip()
        if not text:
            return None
        if judge in ("", HUMAN):
            raise wrong(
                "llm_grade is given, but llm does not name the model",
                hint="Write a grade of your own into the column grade.",
            )
    grade = parse_grade(unescaped(text))
    if grade is None:
        raise wrong(
            f"grade {in_quotes(text)} is not a whole number from -30 to 30", hint=GRADE_HINT
        )
    is_llm = judge != HUMAN
    identity = {c.removeprefix("llm_"): unescaped(cells.get(c, "").strip()) for c in IDENTITY}
    return _Judgement(
        line=line,
        grade=grade,
        judge=unescaped(judge),
        reason=unescaped(cells.get("reason", "")) if is_llm else "",
        identity={name: text for name, text in identity.items() if text and is_llm},
    )


def _recorded(sidecar: Path, qrels: str) -> dict[tuple[Place, int], set[str]]:
    """Who gave a grade to a pair, of the qrels of that name; nobody where it is not recorded."""
    judges: dict[tuple[Place, int], set[str]] = defaultdict(set)
    if sidecar.exists():
        for line, record in json_lines(sidecar, []):
            query, document, grade, judge = (
                record.get(key) for key in ("query-id", "corpus-id", "grade", "judge")
            )
            if not isinstance(grade, int) or not all(
                isinstance(text, str) for text in (query, document, judge)
            ):
                raise EvalsetError(
                    "not a record of a judgement",
                    path=sidecar,
                    line=line,
                    hint="A record has query-id, corpus-id, grade and judge; remove the line.",
                )
            if record.get("qrels") == qrels:
                judges[(str(query), str(document)), grade].add(str(judge))
    return judges


def _is_of_llm(judges: set[str]) -> bool:
    return bool(judges) and HUMAN not in judges


def _record(qrels: str, place: Place, judgement: _Judgement, today: str) -> dict[str, Any]:
    return {
        "qrels": qrels,
        "query-id": place[0],
        "corpus-id": place[1],
        "grade": judgement.grade,
        "judge": judgement.judge,
        **judgement.identity,
        "reason": judgement.reason,
        "date": today,
    }


def _write_qrels(
    path: Path,
    added: Mapping[Place, int],
    replaced: Mapping[Place, int],
    lines_of: Mapping[Place, Sequence[int]],
) -> None:
    """Change the grades that are replaced and append the others, as the file writes its rows.

    Raises: EvalsetError for an id that its columns cannot hold, InputError.
    """
    is_compressed = path.suffix == ".gz"
    content = path.read_bytes()
    text = (gzip.decompress(content) if is_compressed else content).decode()
    # As the reader counts lines: \n, \r\n and \r end one. Here each keeps its own end.
    lines = list(io.StringIO(text, newline=""))
    sample = lines[min(numbers[0] for numbers in lines_of.values()) - 1]
    for place, grade in replaced.items():
        for line in lines_of[place]:
            lines[line - 1] = re.sub(r"\S+(\s*)\Z", rf"{grade}\g<1>", lines[line - 1])
    end = lines[0][len(lines[0].rstrip("\r\n")) :] or "\n"
    tabs = sample.rstrip("\r\n").count("\t")
    separator = "\t" if tabs else " "
    middle = () if tabs == 2 else ("0",)
    rows = []
    for (query, document), grade in added.items():
        if not tabs and (query.split() != [query] or document.split() != [document]):
            raise EvalsetError(
                f"query {query!r}, document {document!r}: an id has white space",
                path=path,
                hint="Its columns have blanks between them: put tabs there instead.",
            )
        rows.append(separator.join([query, *middle, document, str(grade)]) + end)
    encoded = (_ended("".join(lines), end) + "".join(rows)).encode()
    _replace(path.resolve(), gzip.compress(encoded, mtime=0) if is_compressed else encoded)


def _ended(text: str, end: str) -> str:
    return text if not text or text.endswith(("\n", "\r")) else text + end


def _replace(path: Path, content: bytes) -> None:
    """Replace a file by one with the same permissions, whole or not at all. Raises: InputError."""
    try:
        replace_file(path, content, mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror or error}",
            hint="Judgements are merged into this file: it must be one that this user may write.",
        ) from None
