"""Scores from a file: what is read, and every fault with its line, query and document."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from embed_ab.errors import EvalsetError
from embed_ab.providers.score_file import read
from embed_ab.runs import Run

QUERIES, DOCUMENTS = ("q1", "q2"), ("d1", "d2", "d3")


def candidates(*lists: list[int]) -> Run:
    documents = np.array(lists, dtype=np.int32)
    return Run(name="first", documents=documents, scores=np.zeros(documents.shape))


def written(folder: Path, content: str, name: str = "scores.tsv") -> Path:
    path = folder / name
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


ROWS = "q1\td1\t0.5\nq1\td3\t-2e1\nq2\td2\t7\nq2\td1\t0\n"
OBJECTS = """{"query": "q1", "document": "d1", "score": 0.5, "more": null}
{"query": "q1", "document": "d3", "score": -20}

{"query": "q2", "document": "d2", "score": 7}
{"query": "q2", "document": "d1", "score": 0.0}
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.tsv", ROWS),
        ("s.tsv.gz", ROWS),
        ("s.txt", "query-id\tdocument-id\tscore\n" + ROWS),
        ("s.jsonl", OBJECTS),
        ("s.jsonl.gz", OBJECTS),
    ],
)
def test_every_candidate_gets_its_score(name: str, content: str, tmp_path: Path) -> None:
    """d1 of q2 has a score and is no candidate, which is fine."""
    found = read(written(tmp_path, content, name), QUERIES, DOCUMENTS)

    scores = found.of(candidates([2, 0], [1, -1]), QUERIES, DOCUMENTS)

    assert scores[0].tolist() == [-20.0, 0.5]
    assert scores[1, 0] == 7.0


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("q1\td1", "2: 2 column(s) instead of 3 with tabs"),
        ("q1 d1 0.5", "2: 1 column(s) instead of 3 with tabs"),
        ("q3\td1\t1", "2: query 'q3', document 'd1': the evaluation set has no such query"),
        ("q1\td4\t1", "2: query 'q1', document 'd4': the evaluation set has no such document"),
        ("q1\td2\tnan", "2: query 'q1', document 'd2': the score is not a finite number"),
        ("q1\td2\t1e999", "2: query 'q1', document 'd2': the score is not a finite number"),
        ("q1\td2\thigh", "2: query 'q1', document 'd2': the score is not a finite number"),
        ("q1\td1\t0.5", "2: query 'q1', document 'd1': there is a score for them already"),
    ],
)
def test_a_faulty_row_is_named(row: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"q1\td1\t0.5\n{row}\n")

    with pytest.raises(EvalsetError, match=re.escape(f"{path}:{said}")):
        read(path, QUERIES, DOCUMENTS)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("[]", "1: JSON, but not an object"),
        ('{"query": "q1", "document": "d1"}', '1: no "score" in the record'),
        (
            '{"query": "q1", "document": "d1", "score": true}',
            "1: query 'q1', document 'd1': the score is not a finite number",
        ),
        ('{"query": "q1", "document": "d1", "score": NaN}', "1: not usable JSON: NaN"),
        ('{"query": "q1", "document": 1.5, "score": 1}', "1: the id 1.5 is neither a string"),
    ],
)
def test_a_faulty_object_is_named(record: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, record, "s.jsonl")

    with pytest.raises(EvalsetError, match=re.escape(f"{path}:{said}")):
        read(path, QUERIES, DOCUMENTS)


def test_a_candidate_without_a_score_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)

    with pytest.raises(
        EvalsetError,
        match=re.escape(
            f"{path}: no score for query 'q1' and its candidate 'd2' (1 of this query's candidates"
        ),
    ):
        read(path, QUERIES, DOCUMENTS).of(candidates([0, 1], [1, -1]), QUERIES, DOCUMENTS)


@pytest.mark.parametrize("content", ["", "query\tdocument\tscore\n"])
def test_a_file_without_scores_is_an_error(content: str, tmp_path: Path) -> None:
    with pytest.raises(EvalsetError, match="holds no scores"):
        read(written(tmp_path, content), QUERIES, DOCUMENTS)
