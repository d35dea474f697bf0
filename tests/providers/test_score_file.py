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
        ("q3\td1\t1", "2: query 'q3', document 'd1': the evaluation set has no such query"),
        ("q1\td4\t1", "2: query 'q1', document 'd4': the evaluation set has no such document"),
        ("q1\td1\t0.5", "2: query 'q1', document 'd1': there is a score for them already"),
    ],
)
def test_a_faulty_row_is_named(row: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"q1\td1\t0.5\n{row}\n")

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
