"""Rows of query, document and score in the formats they come in: tabs, TREC runs, JSON lines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from embed_ab.errors import EvalsetError
from embed_ab.formats import shorten
from embed_ab.readers import in_quotes, json_lines, text_lines
from embed_ab.records import Fault, identifier_text

MAX_LINE = 10_000
"""Characters of a line."""
MAX_ROWS = 100_000_000
"""Rows of a file; more is a file that never ends, or a gzip bomb."""

_JSON = '{"query": "q1", "document": "d1", "score": 0.5}'
HINT = (
    "A line of a TREC run file is query-id Q0 document-id rank score name; in a .jsonl file, each "
    f"is {_JSON}."
)
TABS_HINT = (
    "A row is query id, document id and score with tabs between them, or as in a TREC run file "
    f"query-id Q0 document-id rank score name; in a .jsonl file, {_JSON}."
)


class Row(NamedTuple):
    """One row; `line` counts from 1, `tag` is the sixth column of TREC, else the file's name."""

    line: int
    query: str
    document: str
    score: float
    tag: str


def read(path: Path, *, may_be_tabs: bool) -> Iterator[Row]:
    """Yield the rows of a file: JSON lines by the suffix `.jsonl`, else columns; gzip by `.gz`.

    Columns are the six of a TREC run, by any blanks. Ids are checked for their form only, scores
    are finite.
    may_be_tabs: or three columns by tabs, as the first row is, which may name them. Judgements look
        like that, too.
    Raises: EvalsetError that names the line, for other columns or fields, an id that is none, a
        score that is not a finite number, a line too long, too many rows, and a file without any.
    """
    hint = TABS_HINT if may_be_tabs else HINT
    is_json = path.name.removesuffix(".gz").endswith(".jsonl")
    n_rows = 0
    for row in _from_json(path, hint) if is_json else _from_columns(path, may_be_tabs, hint):
        n_rows += 1
        if n_rows > MAX_ROWS:
            raise EvalsetError(
                f"more than {MAX_ROWS:,} rows",
                path=path,
                line=row.line,
                hint="Cut the file: of each query the first 1,000 documents are enough.",
            )
        yield row
    if not n_rows:
        raise EvalsetError("the file holds no scores", path=path, hint=hint)


def pair(query: str, document: str) -> str:
    """Return the words that name a pair in a message."""
    return f"query '{shorten(query, 100)}', document '{shorten(document, 100)}'"


def _from_columns(path: Path, may_be_tabs: bool, hint: str) -> Iterator[Row]:
    def wrong(problem: str) -> EvalsetError:
        return EvalsetError(problem, path=path, line=number, hint=hint)

    n_columns = 0
    for number, line in text_lines(path, [], max_length=MAX_LINE):
        cells = line.split()
        tabbed = [cell.strip() for cell in line.split("\t")] if may_be_tabs else []
        if may_be_tabs and len(tabbed) == 3:
            cells = tabbed
        elif len(cells) != 6:
            found = f"{len(tabbed)} column(s) by tabs, {len(cells)} by blanks"
            problem = f"{found} instead of 3 by tabs or 6 (TREC)"
            raise wrong(problem if may_be_tabs else f"{len(cells)} column(s) instead of 6")
        is_first = n_columns == 0
        if not is_first and len(cells) != n_columns:
            raise wrong(f"{len(cells)} columns after rows of {n_columns}")
        n_columns = len(cells)
        query, document, text = cells if n_columns == 3 else (cells[0], cells[2], cells[4])
        if is_first and n_columns == 3 and text.casefold() == "score":
            continue
        if not query or not document:
            raise wrong("an id is empty")
        score = _finite(text)
        if score is None:
            raise wrong(
                f"{pair(query, document)}: the score {in_quotes(text)} is not a finite number"
            )
        yield Row(number, query, document, score, cells[5] if n_columns == 6 else _stem(path))


def _from_json(path: Path, hint: str) -> Iterator[Row]:
    """Other fields than these three are not looked at."""
    for number, record in json_lines(path, [], max_length=MAX_LINE, hint=hint):
        wrong = partial(EvalsetError, path=path, line=number, hint=hint)
        if missing := [name for name in ("query", "document", "score") if name not in record]:
            raise wrong(f'no "{missing[0]}" in the record')
        try:
            query, document = (identifier_text(record[name]) for name in ("query", "document"))
        except Fault as fault:
            raise wrong(str(fault)) from None
        given = record["score"]
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        score = _finite(given) if is_number else None
        if score is None:
            raise wrong(f"{pair(query, document)}: the score is not a finite number")
        yield Row(number, query, document, score, _stem(path))


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _finite(value: str | float) -> float | None:
    if isinstance(value, str) and "_" in value:
        return None  # Python reads 1_0 as 10, and no other tool does
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
