"""Rows of query, document and score: `run:` and `scores:` read the same files, faults included."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embed_ab import runs, scored_rows
from embed_ab.errors import EvalsetError
from embed_ab.providers import score_file
from embed_ab.readers import MAX_BLANK

QUERIES, DOCUMENTS = ("q1", "q2"), ("d1", "d2", "d3")

READERS: list[Callable[..., Any]] = [runs.read, score_file.read]
of_both = pytest.mark.parametrize("read", READERS, ids=["run:", "scores:"])

TSV = "q1\td1\t0.5\nq1\td3\t-2e1\nq2\td2\t7\n"
TREC = "q1 Q0 d1 1 0.5 x\n\nq1\tQ0\td3\t9\t-2e1\tx\nq2 Q0 d2 1 7 x\n"
OBJECTS = """{"query": "q1", "document": "d1", "score": 0.5, "more": null}

{"score": -20, "document": "d3", "query": "q1"}
{"query": "q2", "document": "d2", "score": 7}
"""


def written(folder: Path, content: str | bytes, name: str = "rows.tsv") -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def scores_of(found: runs.RunFile | score_file.ScoreFile) -> list[dict[int, float]]:
    if isinstance(found, score_file.ScoreFile):
        return list(found.by_query)
    rows = zip(found.run.documents.tolist(), found.run.scores.tolist(), strict=True)
    return [{d: s for d, s in zip(*row, strict=True) if d >= 0} for row in rows]


def error_of(read: Callable[..., Any], path: Path) -> str:
    with pytest.raises(EvalsetError) as caught:
        read(path, QUERIES, DOCUMENTS)
    assert caught.value.hint
    return str(caught.value)


@of_both
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.trec", TREC),
        ("s.gz", TREC),
        ("s.jsonl.bak", TREC),
        ("s.jsonl", OBJECTS),
        ("s.jsonl.gz", OBJECTS),
        ("s.trec", "\ufeff" + TREC.replace("\n", "\r\n")),
        ("s.trec", "\ufeff" + TREC.replace("\n", "\r")),
        ("s.jsonl", "\ufeff" + OBJECTS.replace("\n", "\r\n")),
    ],
)
def test_each_format_gives_the_same_scores(
    read: Callable[..., Any], name: str, content: str, tmp_path: Path
) -> None:
    found = read(written(tmp_path, content, name), QUERIES, DOCUMENTS)

    assert scores_of(found) == [{0: 0.5, 2: -20.0}, {1: 7.0}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.tsv", TSV),
        ("s.tsv.gz", TSV),
        ("s.txt", "query-id\tdocument-id\tScore\n" + TSV),
        ("s.tsv", "\ufeff" + TSV.replace("\n", "\r\n")),
    ],
)
def test_scores_may_have_three_columns_and_a_run_may_not(
    name: str, content: str, tmp_path: Path
) -> None:
    """Judgements have three, and as a run they would be perfect."""
    path = written(tmp_path, content, name)

    assert scores_of(score_file.read(path, QUERIES, DOCUMENTS)) == [{0: 0.5, 2: -20.0}, {1: 7.0}]
    assert f"{path}:1: 3 column(s) instead of 6" in error_of(runs.read, path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("q1\td2", "2 column(s) by tabs, 2 by blanks instead of 3 by tabs or 6 (TREC)"),
        ("q1 d2 0.5", "1 column(s) by tabs, 3 by blanks instead of 3"),
        ("q1 Q0 d2 1 0.5", "1 column(s) by tabs, 5 by blanks instead of 3"),
        ("q1 Q0 d2 1 0.5 a b", "1 column(s) by tabs, 7 by blanks instead of 3"),
        ("q1 Q0 d2 1 0.5 a", "6 columns after rows of 3"),
        ("\td2\t0.5", "an id is empty"),
        ("q1\t \t0.5", "an id is empty"),
        ("query\tdocument\tscore", "query 'query', document 'document': the score 'score' is"),
        *(
            (f"q1\td2\t{text}", f"query 'q1', document 'd2': the score {text!r} is not a finite")
            for text in ("nan", "inf", "1e999", "high", "1_0", "0x1p3", "1,5", "")
        ),
    ],
)
def test_a_faulty_row_of_scores_is_named(row: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"q1\td1\t0.5\n{row}\n")

    assert error_of(score_file.read, path).startswith(f"{path}:2: {said}")


@of_both
@pytest.mark.parametrize(
    ("row", "said"),
    [
        *(
            (f"q1 Q0 d2 1 {text} a", f"query 'q1', document 'd2': the score '{text}' is not")
            for text in ("nan", "inf", "1e999", "high", "1_0", "0x1p3", "1,5")
        ),
        ("q1 Q0 d2 1 0.5", "5 (column|by blanks)"),
        ("q1 Q0 d2 1  a", "5 (column|by blanks)"),
        ("q1 Q0 d2 1 0.5 a b", "7 (column|by blanks)"),
    ],
)
def test_a_faulty_trec_row_is_named(
    read: Callable[..., Any], row: str, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, f"q1 Q0 d1 1 0.5 a\n{row}\n")

    assert re.match(f"{re.escape(str(path))}:2: .*{said}", error_of(read, path))


@of_both
@pytest.mark.parametrize(
    ("record", "said"),
    [
        ('["q1", "d1", 1]', "JSON, but not an object"),
        ("q1 Q0 d1 1 0.5 a", "not JSON"),
        ('{"query": "q1", "document": "d1"}', 'no "score" in the record'),
        ('{"query": "q1", "score": 1}', 'no "document" in the record'),
        ('{"query": "q1", "document": "d1", "score": NaN}', "not usable JSON: NaN is not a finite"),
        ('{"query": ["q1"], "document": "d1", "score": 1}', "the id ['q1'] is neither a string"),
        ('{"query": true, "document": "d1", "score": 1}', "the id True is neither a string"),
        ('{"query": "q1", "document": 1.5, "score": 1}', "the id 1.5 is neither a string"),
        ('{"query": "q1", "document": "d1 ", "score": 1}', "the id 'd1 ' starts or ends with"),
        *(
            (
                f'{{"query": "q1", "document": "d1", "score": {score}}}',
                "query 'q1', document 'd1': the score is not a finite number",
            )
            for score in ("true", "null", '"1"', "1" + "0" * 400)
        ),
    ],
)
def test_a_faulty_object_is_named(
    read: Callable[..., Any], record: str, said: str, tmp_path: Path
) -> None:
    good = '{"query": "q2", "document": "d1", "score": 1}'
    path = written(tmp_path, f"{good}\n{record}\n", "s.jsonl")

    assert error_of(read, path).startswith(f"{path}:2: {said}")


@of_both
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_scores_is_an_error(
    read: Callable[..., Any], content: str, tmp_path: Path
) -> None:
    assert "the file holds no scores" in error_of(read, written(tmp_path, content))


def test_a_header_alone_is_no_score(tmp_path: Path) -> None:
    path = written(tmp_path, "query\tdocument\tscore\n")
    assert "the file holds no scores" in error_of(score_file.read, path)


@of_both
def test_what_cannot_be_read_is_an_error(read: Callable[..., Any], tmp_path: Path) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(TREC.encode())[:-9])

    assert "none: cannot be read" in error_of(read, tmp_path / "none")
    assert "not a complete gzip file" in error_of(read, cut)
    assert ":1: byte 3 of the file" in error_of(read, written(tmp_path, b"q1 \xff 1\n"))


@of_both
@pytest.mark.parametrize("name", ["s.trec", "s.trec.gz"])
def test_a_line_is_held_up_to_ten_thousand_characters(
    read: Callable[..., Any], name: str, tmp_path: Path
) -> None:
    """`q1 Q0 d1 1 1 ` and a line end are 14 characters."""
    read(written(tmp_path, f"q1 Q0 d1 1 1 {'a' * 9986}\n", name), QUERIES, DOCUMENTS)

    path = written(tmp_path, f"q1 Q0 d2 1 1 a\nq1 Q0 d1 1 1 {'a' * 9987}\n", name)
    assert f"{path}:2: the line has more than 10,000 characters" in error_of(read, path)


@of_both
def test_a_file_that_never_ends_is_an_error(
    read: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scored_rows, "MAX_ROWS", 2)

    path = written(tmp_path, TREC.replace("\n\n", "\n"), "s.trec.gz")

    assert re.match(f"{re.escape(str(path))}:3: more than 2 rows", error_of(read, path))


def test_a_run_is_named_by_its_tag_or_its_file(tmp_path: Path) -> None:
    """Ids of whole numbers are those of the set, in quotes or not."""
    found = list(scored_rows.read(written(tmp_path, "q Q0 d 1 0.5 tag\n"), may_be_tabs=True))
    assert found == [(1, "q", "d", 0.5, "tag")]

    record = '{"query": 7, "document": "8", "score": 1}'
    found = list(scored_rows.read(written(tmp_path, record, "mine.jsonl.gz"), may_be_tabs=False))
    assert found == [(1, "7", "8", 1.0, "mine")]


def test_blank_lines_without_end_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.trec.gz"
    path.write_bytes(gzip.compress(b"q1 Q0 d1 1 0.5 a\n" + b"\n" * (MAX_BLANK + 1)))

    with pytest.raises(EvalsetError, match=r":1000002: more than 1,000,000 blank lines"):
        list(scored_rows.read(path, may_be_tabs=False))
