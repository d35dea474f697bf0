"""Reads the files of an evaluation set line by line: names, encoding, JSON, rows of judgements."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from embed_ab.errors import EvalsetError, InputError

LARGEST_GRADE = 30
MAX_BLANK = 1_000_000
"""Blank lines in a row; more of them, gzipped, are a file of a few bytes that takes hours."""
GRADE_HINT = f"A grade is a whole number from -{LARGEST_GRADE} to {LARGEST_GRADE}: 0, 1, 2, …"
JSON_HINT = 'Each line is one JSON object, such as {"_id": "d1", "text": "…"}.'
COLUMNS_HINT = (
    "A row is query id, document id, grade with tabs between them; or, as in TREC, "
    "query id, 0, document id, grade."
)

_BYTE_ORDER_MARK = "\ufeff"
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}(\.0*)?")
_SHORT_WORD = re.compile(r"[!-~]{0,64}|\w{0,6}|[\d\s.,+-]{0,20}")
_ITERATION = re.compile(r"Q0|[0-9]+(\.[0-9]+)?", re.IGNORECASE)
_GRADE_TITLES = frozenset({"score", "grade", "relevance", "rel", "label", "judgment", "judgement"})
_DOCUMENT_TITLE = re.compile(r"doc|corpus|passage", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something a reader of the files should know; `message` is a sentence with numbers."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Files:
    """The three files of an evaluation set; `is_split` when the qrels are `qrels/<split>.tsv`."""

    corpus: Path
    queries: Path
    qrels: Path
    is_split: bool


def find_files(folder: Path, split: str) -> Files:
    """The files of the evaluation set in a folder, each plain or `.gz`.

    Raises: InputError if the folder or a file is missing, or two files claim the same part.
    """
    if not split or Path(split).name != split or split == "..":
        raise InputError(
            f"split {split!r} is not a plain name",
            hint="A split is the name of a file in the folder qrels: test for qrels/test.tsv.",
        )
    try:
        return _find(folder, split)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be read ({error.strerror or error})",
            hint="It must be a folder that this user may read.",
        ) from error


def _find(folder: Path, split: str) -> Files:
    if not folder.is_dir():
        problem = "is a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(
            f"{folder}: {problem}",
            hint="Name a folder that holds corpus.jsonl, queries.jsonl and qrels.tsv.",
        )
    corpus = _one_of(folder, "corpus.jsonl") or _missing(folder, "corpus.jsonl")
    queries = _one_of(folder, "queries.jsonl") or _missing(folder, "queries.jsonl")
    single = _one_of(folder, "qrels.tsv")
    in_split = _one_of(folder, f"qrels/{split}.tsv")
    if single and in_split:
        raise InputError(
            f"{folder}: both {single.relative_to(folder)} and {in_split.relative_to(folder)} exist",
            hint="Keep the one that holds the judgements to use.",
        )
    if in_split:
        return Files(corpus=corpus, queries=queries, qrels=in_split, is_split=True)
    # qrels.tsv has no splits: asked for one by name, it must not answer in its place.
    if single and split == "test":
        return Files(corpus=corpus, queries=queries, qrels=single, is_split=False)
    _missing(folder, f"qrels/{split}.tsv", *(() if single else ("qrels.tsv",)))


def text_lines(
    path: Path, notices: list[Notice], *, max_length: int | None = None
) -> Iterator[tuple[int, str]]:
    r"""The lines that are not blank, with their numbers from 1; `\n`, `\r\n` and `\r` end a line.

    Byte order marks are removed and noted. Reads as a stream, `.gz` too.
    max_length: characters of a line that are held at most.
    Raises: EvalsetError if the file cannot be read, is not UTF-8, holds NUL characters, a line
        longer than `max_length` or blank lines without end.
    """
    n_marks = last = 0
    try:
        for number, line in enumerate(_decoded(path, max_length), start=1):
            if max_length is not None and len(line) > max_length:
                raise EvalsetError(
                    f"the line has more than {max_length:,} characters",
                    path=path,
                    line=number,
                    hint="Is this the right file? Its lines are short.",
                )
            if line.startswith(_BYTE_ORDER_MARK):
                line = line.lstrip(_BYTE_ORDER_MARK)
                n_marks += 1
            if "\0" in line:
                raise EvalsetError(
                    "the line holds a NUL character",
                    path=path,
                    line=number,
                    hint="The file is damaged or UTF-16; save it as UTF-8 text.",
                )
            if line and not line.isspace():
                last = number
                yield number, line
            elif number - last > MAX_BLANK:
                raise EvalsetError(
                    f"more than {MAX_BLANK:,} blank lines one after the other",
                    path=path,
                    line=number,
                    hint="Was the file written to the end? What follows may never end.",
                )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise EvalsetError(
            f"not a complete gzip file ({error})",
            path=path,
            hint="Compress the file again, or give it without .gz.",
        ) from error
    except OSError as error:
        raise EvalsetError(
            f"cannot be read ({error.strerror or error})",
            path=path,
            hint="It must be a file that this user may read.",
        ) from error
    if n_marks:
        times = "" if n_marks == 1 else f" at the start of {n_marks} lines"
        notices.append(
            Notice(
                code="bom_stripped",
                message=f"{path.name}: a byte order mark was removed{times}.",
            )
        )


def json_lines(
    path: Path, notices: list[Notice], *, max_length: int | None = None, hint: str = JSON_HINT
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with one object a line, with their line numbers.

    max_length: as in `text_lines`; hint: what errors say of the lines.
    Raises: EvalsetError if a line is not strict JSON, repeats a key or is not an object.
    """
    decode = _DECODER.decode
    for number, line in text_lines(path, notices, max_length=max_length):
        try:
            record = decode(line)
        except json.JSONDecodeError as error:
            problem = f"not JSON: {error.msg} (column {error.colno})"
        except (ValueError, RecursionError) as error:
            problem = f"not usable JSON: {error}"
        else:
            if isinstance(record, dict):
                yield number, record
                continue
            problem = "JSON, but not an object"
        raise EvalsetError(problem, path=path, line=number, hint=hint)


def json_file(path: Path, *, max_bytes: int, hint: str) -> Any:
    """What a JSON file holds: strict, without repeated keys, NaN and infinity.

    Raises: InputError that names the file, and the line where the text is no JSON.
    """
    wrong = partial(EvalsetError, path=path, hint=hint)
    try:
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except OSError as error:
        raise wrong(f"cannot be read ({error.strerror or error})") from None
    if len(content) > max_bytes:
        raise wrong(f"more than {max_bytes:,} bytes")
    try:
        return _DECODER.decode(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise wrong(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise wrong(f"not JSON: {error.msg} (column {error.colno})", line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise wrong(f"not usable JSON: {error}") from None


def qrels_rows(
    path: Path, queries: Container[str], documents: Container[str], notices: list[Notice]
) -> Iterator[tuple[int, str, str, int]]:
    """The judgements of a file as (line, query id, document id, grade), headers left out.

    Three columns with tabs, or the four of TREC with any white space; the first row decides.
    A first row whose grade is no number is a header, unless it names a known query or document.
    Raises: EvalsetError if a row has other columns than the first or a grade is no whole number.
    """
    wrong = partial(EvalsetError, path=path)
    n_columns = 0
    for number, line in text_lines(path, notices):
        cells = _cells(line)
        is_first = n_columns == 0
        if len(cells) not in (3, 4):
            problem = f"{len(cells)} column(s) instead of 3 (with tabs) or 4 (TREC)"
            raise wrong(problem, line=number, hint=COLUMNS_HINT)
        if not is_first and len(cells) != n_columns:
            problem = f"{len(cells)} columns after rows of {n_columns}"
            raise wrong(problem, line=number, hint=COLUMNS_HINT)
        n_columns = len(cells)
        query, document, grade_text = cells[0], cells[-2], cells[-1]
        grade = parse_grade(grade_text)
        if grade is None:
            if is_first and _is_header(cells, queries, documents):
                if any(_DOCUMENT_TITLE.search(cell) for cell in (query, grade_text)):
                    problem = "the header names the columns in another order"
                    raise wrong(problem, line=number, hint=COLUMNS_HINT)
                if grade_text.casefold() not in _GRADE_TITLES:
                    message = f"{path.name}:{number} was read as a header."
                    notices.append(Notice(code="unusual_header", message=message))
                continue
            problem = f"grade {in_quotes(grade_text)} is not a whole number from -30 to 30"
            raise wrong(problem, line=number, hint=GRADE_HINT)
        if not query or not document:
            raise wrong("an id is empty", line=number, hint=COLUMNS_HINT)
        if n_columns == 4 and not _ITERATION.fullmatch(cells[1]):
            problem = "the second of four columns must be 0, as in TREC qrels"
            raise wrong(problem, line=number, hint=COLUMNS_HINT)
        yield number, query, document, grade
    if n_columns == 4:
        message = f"{path.name} was read as TREC qrels: query id, 0, document id, grade."
        notices.append(Notice(code="trec_qrels", message=message))


def parse_grade(text: str) -> int | None:
    """The grade a text means ("1", "+1" and "1.0" are 1), or None where it is none."""
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    grade = int(text.partition(".")[0])
    return grade if abs(grade) <= LARGEST_GRADE else None


def in_quotes(value: str) -> str:
    """A key or cell in quotes if it is one short word or a number, else only its length.

    In a file with other columns than expected it may be a text, and no message quotes texts.
    """
    return repr(value) if _SHORT_WORD.fullmatch(value) else f"({len(value):,} characters)"


def _cells(line: str) -> list[str]:
    # No id starts or ends with white space, so that taking it off loses nothing.
    tabbed = [cell.strip() for cell in line.split("\t")]
    if len(tabbed) == 3:
        return tabbed
    spaced = line.split()
    return spaced if len(spaced) == 4 else tabbed


def _is_header(cells: list[str], queries: Container[str], documents: Container[str]) -> bool:
    try:
        float(cells[-1])
    except ValueError:
        is_titled = cells[-1].casefold() in _GRADE_TITLES
        return is_titled or (cells[0] not in queries and cells[-2] not in documents)
    return False


def _one_of(folder: Path, name: str) -> Path | None:
    plain, compressed = folder / name, folder / f"{name}.gz"
    if plain.exists() and compressed.exists():
        raise InputError(f"{folder}: both {name} and {name}.gz exist", hint="Keep one of the two.")
    return next((path for path in (plain, compressed) if path.exists()), None)


def _missing(folder: Path, *names: str) -> NoReturn:
    wanted = " or ".join(f"{name}[.gz]" for name in names)
    splits = sorted(path.name.removesuffix(".gz") for path in folder.glob("qrels/*.tsv*"))
    if names[0].startswith("qrels") and splits:
        hint = f"Splits in {folder / 'qrels'}: {', '.join(s.removesuffix('.tsv') for s in splits)}."
    else:
        present = sorted(path.name for path in folder.iterdir())
        hint = f"The folder holds: {', '.join(present[:10]) or 'nothing'}."
    raise InputError(f"{folder}: no {wanted}", hint=hint)


def _decoded(path: Path, max_length: int | None) -> Iterator[str]:
    try:
        with _open(path) as stream, io.TextIOWrapper(stream, encoding="utf-8") as text:
            if max_length is None:
                yield from text
            else:  # one character more, so that what is too long is seen and not held
                yield from iter(partial(text.readline, max_length + 1), "")
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise EvalsetError(
            "not a regular file", path=path, hint="Put the file itself there, not a pipe or device."
        )
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _not_utf8(path: Path) -> EvalsetError:
    """The error that names the first byte that is not UTF-8; reads the file once more."""
    offset, line_number, start = 0, 1, b""
    with _open(path) as stream:
        for line in stream:
            start = start or line[:2]
            try:
                line.decode()
                bad = len(line)
            except UnicodeDecodeError as error:
                bad = error.start
            before = line[:bad].replace(b"\r\n", b"\n")
            line_number += before.count(b"\n") + before.count(b"\r")
            offset += bad
            if bad < len(line):
                break
    if start in (b"\xff\xfe", b"\xfe\xff"):
        problem, hint = "the file is UTF-16, not UTF-8", "Save it as UTF-8."
    elif start == b"\x1f\x8b":
        problem, hint = "the file is compressed with gzip", f"Call it {path.name}.gz."
    else:
        problem = f"byte {offset} of the file (counted from 0) is not UTF-8"
        hint = "Save the file as UTF-8; it may be in the system's own encoding, such as cp1252."
    return EvalsetError(problem, path=path, line=line_number, hint=hint)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(
            f"key {in_quotes(next(key for key in keys if keys.count(key) > 1))} appears twice"
        )
    return record


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


# The standard decoder, because ids are exact integers of any size and faults must be seen.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_finite, parse_float=_finite)
