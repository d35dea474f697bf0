"""The file of pairs to judge: what is written can be read, by us and by a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed_ab.errors import EvalsetError
from embed_ab.evalset import Evalset, from_records
from embed_ab.labels.file import (
    COLUMNS,
    Cells,
    escaped,
    place_of,
    read,
    rows_of,
    safe_text,
    unescaped,
    with_judged,
    write,
)
from embed_ab.labels.pool import Pair

HEADER = "query-id\tcorpus-id\tgrade\n"


def evalset(
    query: str = "what?", document: str = "that", ids: tuple[str, str] = ("q", "d")
) -> Evalset:
    return from_records({ids[1]: document}, {ids[0]: query}, {ids[0]: {ids[1]: 1}})


PAIR = Pair(query=0, document=0, rank_a=3, rank_b=None, impact=0.0123456)


def written(rows: list[Cells], path: Path) -> list[Cells]:
    write(path, rows)
    return [cells for _, cells in read(path)]


def row(query_id: str, document_id: str, /, **cells: str) -> Cells:
    ids = {"query-id": query_id, "corpus-id": document_id}
    return dict.fromkeys(COLUMNS, "") | ids | cells


def test_a_row_holds_ids_texts_ranks_and_impact() -> None:
    assert rows_of(evalset(), [PAIR]) == [
        row("q", "d", query="what?", document="that", rank_a="3", impact="0.012346")
    ]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("two\tcells\nand\r\nlines", "two cells and lines"),
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("\t =1+1", "'=1+1"),
        ("-3 °C", "'-3 °C"),
        ("@name", "'@name"),
        ("＝1", "'＝1"),
        ("'quoted'", "'quoted'"),
        ("a\x1b[31mred\x07", "ared\ufffd"),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_a_text_is_one_line_and_no_formula(text: str, cell: str) -> None:
    assert safe_text(text, 300) == cell


def test_quotes_in_texts_survive_and_swallow_no_line(tmp_path: Path) -> None:
    rows = rows_of(evalset('"quoted', 'he said "so"'), [PAIR, PAIR])

    assert written(rows, tmp_path / "l.tsv") == rows
    assert len((tmp_path / "l.tsv").read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize("identifier", ["=1", "'=1", "''-x", "@a", '"a"', "a b", "+", "'", "한국"])
def test_an_id_comes_back_as_it_was(identifier: str, tmp_path: Path) -> None:
    rows = rows_of(evalset(ids=(identifier, identifier)), [PAIR])

    (cells,) = written(rows, tmp_path / "l.tsv")
    assert place_of(cells) == (identifier, identifier)
    assert not cells["query-id"].startswith(("=", "+", "-", "@"))


@given(st.text(alphabet="'=+-@＝a"))
def test_unescaped_undoes_escaped(cell: str) -> None:
    assert unescaped(escaped(cell)) == cell


def test_a_file_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """Columns moved and dropped, everything in quotes, a byte order mark, CRLF, cut short rows."""
    path = tmp_path / "l.tsv"
    path.write_bytes(
        b'\xef\xbb\xbf"grade"\t"query-id"\t"corpus-id"\t"my notes"\r\n'
        b'"1"\t"q"\t"d"\t"two\r\nlines"\r\n'
        b"\r\n"
        b"\tq\td2\r\n"
    )

    assert read(path) == [
        (3, {"grade": "1", "query-id": "q", "corpus-id": "d", "my notes": "two\nlines"}),
        (5, {"grade": "", "query-id": "q", "corpus-id": "d2", "my notes": ""}),
    ]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", 1, "does not name the columns"),
        ('{"_id": "d1"}\n', 1, "does not name the columns"),
        ("query-id\tcorpus-id\tscore\n", 1, "does not name the columns"),
        ("query-id\tcorpus-id\tgrade\tgrade\n", 1, "does not name the columns"),
        (HEADER + "q\td\t1\t2\n", 2, "4 columns instead of 3"),
        (HEADER + "q d 1\n", 2, "an id is empty"),
        (HEADER + "q\t\t1\n", 2, "an id is empty"),
        (HEADER + 'q\td\t1\nq\t"d" x\t1\n', 3, "not a row with tabs"),
        (HEADER + 'q\td\t1\nq\t"d\t1\nq\td3\t1\n', 4, "not a row with tabs"),
    ],
)
def test_a_fault_is_named_with_its_line(
    content: str, line: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "l.tsv"
    path.write_text(content, "utf-8")

    with pytest.raises(EvalsetError, match=message) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}:{line}: ")


def test_a_long_cell_and_tabs_at_the_end_of_lines_are_read(tmp_path: Path) -> None:
    """The csv module takes 131,072 characters unless it is told otherwise."""
    path = tmp_path / "l.tsv"
    note = "x" * 200_000
    path.write_text(f"query-id\tcorpus-id\tgrade\tnote\t\t\t\nq\td\t1\t{note}\t\t\t\n", "utf-8")

    ((_, row),) = read(path)

    assert (row["grade"], row["note"]) == ("1", note)


def test_judged_rows_are_kept_with_what_a_person_added() -> None:
    rows = [row("q", "d1", impact="0.2"), row("q", "d2", impact="0.1")]
    earlier = [
        row("q", "d2", grade="2", impact="0.9", note="sure"),
        row("q", "d1"),
        row("q", "d9", llm_grade="1"),
        row("q", "d8"),
    ]

    assert with_judged(rows, earlier) == [
        row("q", "d1", impact="0.2"),
        row("q", "d2", impact="0.1", grade="2", note="sure"),
        row("q", "d9", llm_grade="1"),
    ]


def test_a_persons_grade_goes_before_a_models_for_the_same_pair() -> None:
    earlier = [row("q", "d", grade="2"), row("q", "d", llm_grade="0", llm="m")]

    for order in (earlier, earlier[::-1]):
        assert [cells["grade"] for cells in with_judged([row("q", "d")], order)] == ["2"]


def test_two_grades_of_a_person_for_a_pair_both_stay() -> None:
    earlier = [row("q", "d", grade="2"), row("q", "d", grade="0")]

    assert with_judged([row("q", "d")], earlier) == earlier


def test_a_persons_own_column_stays_on_a_row_without_a_grade() -> None:
    earlier = [row("q", "d", note="ask Ann"), row("q", "d9", note="odd"), row("q", "d8", note="")]

    assert with_judged([row("q", "d")], earlier) == earlier[:2]


def test_a_column_of_one_row_is_a_column_of_the_file(tmp_path: Path) -> None:
    rows = [row("q", "d1"), row("q", "d2", note="sure")]
    write(tmp_path / "l.tsv", rows)

    with (tmp_path / "l.tsv").open(encoding="utf-8", newline="") as file:
        header, *others = csv.reader(file, delimiter="\t")
    assert header == [*COLUMNS, "note"]
    assert [cells[-1] for cells in others] == ["", "sure"]
