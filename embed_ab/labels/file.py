"""The file of pairs to judge: tab-separated, for a person with a spreadsheet or an editor."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from embed_ab import formats
from embed_ab.errors import EvalsetError
from embed_ab.evalset import Evalset
from embed_ab.labels.pool import Pair
from embed_ab.outputs import write_text
from embed_ab.readers import text_lines

_IDS = ("query-id", "corpus-id")
_TEXTS = ("query", "document", "rank_a", "rank_b", "impact")
IDENTITY = ("llm_prompt", "llm_server", "llm_digest")
"""Which model gave a grade, beside its name: version of the prompt, server, and Ollama's digest."""
_OF_MODEL = ("llm_grade", "llm", "reason", *IDENTITY)
COLUMNS = (*_IDS, "grade", *_TEXTS, *_OF_MODEL)
"""`grade` is a person's; from `llm_grade` on they are a model's."""

_DOCUMENT_TEXT = 300  # characters
_QUERY_TEXT = 1_000
# What a spreadsheet would calculate, and what was escaped so: one more ' in front, or one less.
_FORMULA = re.compile("'*[=+@＝＋＠－-]")
_ESCAPED = re.compile("'+[=+@＝＋＠－-]")
_HINT = "Give a file that `embed-ab label EVAL RESULT.json --out FILE` wrote."

Cells = dict[str, str]
"""A row as it stands in the file, by column."""
Place = tuple[str, str]
"""Query id and document id."""


def rows_of(evalset: Evalset, pairs: Iterable[Pair]) -> list[Cells]:
    """Return a row for each pair, not judged yet; texts are on one line and no formulas."""
    return [
        dict.fromkeys(COLUMNS, "")
        | {
            "query-id": escaped(evalset.query_ids[pair.query]),
            "corpus-id": escaped(evalset.document_ids[pair.document]),
            "query": safe_text(evalset.query_texts[pair.query], _QUERY_TEXT),
            "document": safe_text(evalset.document_texts[pair.document], _DOCUMENT_TEXT),
            "rank_a": str(pair.rank_a or ""),
            "rank_b": str(pair.rank_b or ""),
            "impact": f"{pair.impact:.6f}",
        }
        for pair in pairs
    ]


def is_judged(cells: Cells) -> bool:
    """Return whether a row has a grade, of a person or of a model."""
    return bool(cells.get("grade", "").strip() or cells.get("llm_grade", "").strip())


def place_of(cells: Cells) -> Place:
    """Return the ids of a row."""
    query, document = (unescaped(cells[column].strip()) for column in _IDS)
    return query, document


def safe_text(text: str, length: int) -> str:
    """Return a stranger's text as a cell: one line of at most `length` characters, no formula."""
    # The first cut only spares work on huge texts.
    return escaped(formats.shorten(formats.plain(text[: 10 * length]).strip(), length))


def escaped(cell: str) -> str:
    """Return a cell that no spreadsheet calculates; `unescaped` gives it back."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unescaped(cell: str) -> str:
    """Return what was escaped; any other cell as it is."""
    return cell[1:] if _ESCAPED.match(cell) else cell


def with_judged(rows: list[Cells], earlier: Iterable[Cells]) -> list[Cells]:
    """Return the rows with what an earlier file holds beyond them; its other such rows follow.

    A row is kept for a grade or for what a person wrote into a column of their own. Of two rows for
    one pair a person's grade goes first; a second grade of a person stays too, for the merge to
    refuse.
    """
    held: dict[Place, list[Cells]] = {}
    for cells in earlier:
        if is_judged(cells) or any(cells[column].strip() for column in cells.keys() - {*COLUMNS}):
            held.setdefault(place_of(cells), []).append(cells)
    for found in held.values():
        found.sort(key=lambda cells: not cells.get("grade", "").strip())  # stable
    # What the set and the result say is made anew; a person's own columns are kept.
    kept, taken = [], set()
    for cells in rows:
        first = next(iter(held.get(place_of(cells), [])), {})
        kept.append(cells | {c: v for c, v in first.items() if c not in _TEXTS})
        if first:
            taken.add(place_of(cells))
            del held[place_of(cells)][0]
    return kept + [
        cells
        for place, found in held.items()
        for number, cells in enumerate(found)
        if cells.get("grade", "").strip() or (number == 0 and place not in taken)
    ]


def take_in(path: Path, rows: list[Cells]) -> None:
    """Put into rows, in place, what a person has written into their file since it was written.

    Cells that a model or the set fills are not looked at; judged rows for other pairs are added,
    and so is a person's second grade for a pair, for the merge to refuse.
    Raises: EvalsetError where the file cannot be read now.
    """
    ours = {*_IDS, *_TEXTS, *_OF_MODEL}
    # Rows of one pair stand in the file in the order in which they were written.
    waiting: dict[Place, deque[Cells]] = {}
    for cells in rows:
        waiting.setdefault(place_of(cells), deque()).append(cells)
    for _, cells in read(path):
        place = place_of(cells)
        if waiting.get(place):
            waiting[place].popleft().update({c: v for c, v in cells.items() if c not in ours})
        elif cells.get("grade", "").strip() or (is_judged(cells) and place not in waiting):
            rows.append(cells)
            waiting.setdefault(place, deque())


def read(path: Path) -> list[tuple[int, Cells]]:
    """Return the rows of a file with their lines; columns go by the names in the header.

    Raises: EvalsetError that names the line.
    """
    numbers = [1]

    def lines() -> Iterator[str]:
        for number, line in text_lines(path, []):
            numbers.append(number)
            yield line

    rows: list[tuple[int, Cells]] = []
    reader = csv.reader(lines(), delimiter="\t", strict=True)
    wrong = partial(EvalsetError, path=path)
    try:
        csv.field_size_limit(sys.maxsize)  # the default refuses what a person may paste
        columns = [name.strip() for name in next(reader, [])]
        while columns[-2:] == ["", ""]:  # spreadsheets leave tabs at the end
            columns.pop()
        if not {*_IDS, "grade"} <= set(columns) or len(set(columns)) < len(columns):
            raise wrong(
                "the first line does not name the columns query-id, corpus-id and grade, each once",
                line=numbers[-1],
                hint=_HINT,
            )
        for cells in reader:
            if any(cell.strip() for cell in cells[len(columns) :]):
                raise wrong(
                    f"{len(cells)} columns instead of {len(columns)}",
                    line=numbers[-1],
                    hint="Columns have tabs between them, as in the header.",
                )
            padded = cells + [""] * (len(columns) - len(cells))
            row = dict(zip(columns, padded, strict=False))
            if not all(place_of(row)):
                raise wrong("an id is empty", line=numbers[-1], hint=_HINT)
            rows.append((numbers[-1], row))
    except csv.Error as error:
        raise wrong(
            f"not a row with tabs between its cells: {error}",
            line=numbers[-1],
            hint='A cell that starts with " ends with " and has "" for each " in it.',
        ) from None
    return rows


def write(path: Path, rows: Sequence[Cells]) -> None:
    """Write a file of rows, whole or not at all; columns a person added stay.

    Raises: InputError.
    """
    columns = dict.fromkeys([*COLUMNS, *(column for cells in rows for column in cells)])
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, delimiter="\t", lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, stream.getvalue())
