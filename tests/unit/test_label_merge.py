"""Judged rows go into the qrels as the file has its rows; no person's grade is lost."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from embed_ab.errors import EvalsetError, InputError
from embed_ab.labels.merge import Merged, merge

QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td1\t2\n"
HEADER = "query-id\tcorpus-id\tgrade\tllm_grade\tllm\treason\n"
BY_LLM = "q1\td2\t\t1\tollama:m\tit says so\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "eval"
    folder.mkdir()
    for name, ids in (("corpus", ["d1", "d2", "d 3"]), ("queries", ["q1", "q2"])):
        lines = (json.dumps({"_id": each, "text": f"text of {each}"}) + "\n" for each in ids)
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    (folder / "qrels.tsv").write_text(QRELS, "utf-8")
    return folder


def merged(folder: Path, rows: str, *, split: str = "test", today: str = "2026-05-01") -> Merged:
    path = folder.parent / "judged.tsv"
    path.write_text(HEADER + rows, "utf-8")
    return merge(folder, split, path, today=today)


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "judgements.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_judged_rows_are_appended_and_open_rows_counted(folder: Path) -> None:
    done = merged(folder, "q1\td2\t0\nq2\td2\nq2\td 3\t1.0\n")

    assert (folder / "qrels.tsv").read_text("utf-8") == f"{QRELS}q1\td2\t0\nq2\td 3\t1\n"
    assert (done.n_added, done.n_open, done.n_by_llm) == (2, 1, 0)
    assert not (folder / "judgements.jsonl").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"q1\td1\t1\nq2\td1\t2", b"q1\td1\t1\nq2\td1\t2\nq1\td2\t0\n"),
        (b"q2\td1\t2\r\n\r\nq1\td1\t1\r\n", b"q2\td1\t2\r\n\r\nq1\td1\t1\r\nq1\td2\t0\r\n"),
        (b"q1\td1\t1\rq2\td1\t2\r", b"q1\td1\t1\rq2\td1\t2\rq1\td2\t0\r"),
        (b"q1 0 d1 1\nq2  0 d1  2\n", b"q1 0 d1 1\nq2  0 d1  2\nq1 0 d2 0\n"),
        (b"q1\t0\td1\t1\nq2\t0\td1\t2\n", b"q1\t0\td1\t1\nq2\t0\td1\t2\nq1\t0\td2\t0\n"),
        (
            b"\xef\xbb\xbfqid\tdoc\trel\nq1\td1\t1\nq2\td1\t2\n",
            b"\xef\xbb\xbfqid\tdoc\trel\nq1\td1\t1\nq2\td1\t2\nq1\td2\t0\n",
        ),
    ],
    ids=["no line end", "CRLF", "CR", "TREC", "TREC with tabs", "byte order mark"],
)
def test_rows_are_written_as_the_file_has_them(folder: Path, before: bytes, after: bytes) -> None:
    (folder / "qrels.tsv").write_bytes(before)

    merged(folder, "q1\td2\t0\n")

    assert (folder / "qrels.tsv").read_bytes() == after


def test_a_compressed_file_stays_compressed(folder: Path) -> None:
    (folder / "qrels.tsv").unlink()
    (folder / "qrels.tsv.gz").write_bytes(gzip.compress(QRELS.encode()))

    merged(folder, BY_LLM)

    content = gzip.decompress((folder / "qrels.tsv.gz").read_bytes()).decode()
    assert content == f"{QRELS}q1\td2\t1\n"
    assert records(folder)[0]["qrels"] == "qrels.tsv"


def test_permissions_and_links_stay(folder: Path) -> None:
    (folder / "qrels.tsv").rename(folder / "real.tsv")
    (folder / "real.tsv").chmod(0o640)
    (folder / "qrels.tsv").symlink_to("real.tsv")

    merged(folder, "q1\td2\t0\n")

    assert (folder / "qrels.tsv").is_symlink()
    assert (folder / "real.tsv").stat().st_mode & 0o777 == 0o640
    assert (folder / "real.tsv").read_text("utf-8").endswith("q1\td2\t0\n")
    assert sorted(os.listdir(folder)) == ["corpus.jsonl", "qrels.tsv", "queries.jsonl", "real.tsv"]


def test_a_grade_that_is_there_is_left_and_the_conflict_listed(folder: Path) -> None:
    done = merged(folder, "q1\td1\t0\nq2\td1\t2\n")

    assert (folder / "qrels.tsv").read_text("utf-8") == QRELS
    assert (done.n_added, done.n_known) == (0, 1)
    assert done.conflicts == ("query 'q1', document 'd1': 1 in qrels.tsv:2, 0 in judged.tsv:2",)


def test_a_models_grade_is_marked_with_model_reason_and_date(folder: Path) -> None:
    done = merged(folder, BY_LLM)

    assert (done.n_added, done.n_by_llm) == (1, 1)
    assert records(folder) == [
        {
            "qrels": "qrels.tsv",
            "query-id": "q1",
            "corpus-id": "d2",
            "grade": 1,
            "judge": "ollama:m",
            "reason": "it says so",
            "date": "2026-05-01",
        }
    ]


@pytest.mark.parametrize("rows", ["q1\td2\t0\nq1\td1\t0\n", BY_LLM, BY_LLM + "q2\td2\t1\n"])
def test_a_second_merge_changes_nothing(folder: Path, rows: str) -> None:
    def content() -> dict[str, tuple[bytes, int]]:
        return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}

    first = merged(folder, rows)
    before = content()
    again = merged(folder, rows, today="2026-06-01")

    assert content() == before
    assert (again.n_added, again.n_known) == (0, first.n_added)


def test_a_persons_grade_in_the_file_goes_before_the_models(folder: Path) -> None:
    done = merged(folder, "q1\td2\t0\t1\tollama:m\tit says so\n")

    assert (folder / "qrels.tsv").read_text("utf-8").endswith("q1\td2\t0\n")
    assert done.n_by_llm == 0


def test_a_person_replaces_a_models_grade_in_its_line(folder: Path) -> None:
    merged(folder, BY_LLM + "q2\td2\t1\n")

    done = merged(folder, "q1\td2\t2\n")

    assert done.n_replaced == 1
    assert (folder / "qrels.tsv").read_text("utf-8") == f"{QRELS}q1\td2\t2\nq2\td2\t1\n"
    assert records(folder)[-1]["judge"] == "human"


def test_a_grade_that_a_person_gave_or_confirmed_is_not_a_models_any_more(folder: Path) -> None:
    for rows in (BY_LLM, "q1\td2\t1\n"):
        merged(folder, rows)

    assert merged(folder, "q1\td2\t2\n").conflicts == (
        "query 'q1', document 'd2': 1 in qrels.tsv:4, 2 in judged.tsv:2",
    )


def test_a_grade_changed_by_hand_in_the_qrels_is_a_persons(folder: Path) -> None:
    merged(folder, BY_LLM)
    (folder / "qrels.tsv").write_text(f"{QRELS}q1\td2\t2\n", "utf-8")

    done = merged(folder, "q1\td2\t0\n")

    assert len(done.conflicts) == 1


@pytest.mark.parametrize("grade", ["0", "2"])
def test_a_model_replaces_nobodys_grade(folder: Path, grade: str) -> None:
    merged(folder, BY_LLM)

    done = merged(folder, f"q1\td2\t\t{grade}\tollama:other\tno\nq1\td1\t\t0\tollama:m\tno\n")

    assert (len(done.conflicts), done.n_replaced) == (2, 0)
    assert (folder / "qrels.tsv").read_text("utf-8") == f"{QRELS}q1\td2\t1\n"


def test_a_merge_cut_off_between_its_two_files_can_be_repeated(folder: Path) -> None:
    merged(folder, BY_LLM)
    (folder / "qrels.tsv").write_text(QRELS, "utf-8")

    merged(folder, BY_LLM)

    assert (folder / "qrels.tsv").read_text("utf-8") == f"{QRELS}q1\td2\t1\n"
    assert len(records(folder)) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("q1\td2\t0\nq1\td9\t1\n", r"judged\.tsv:3: the evaluation set, in this split, has no doc"),
        ("q9\td1\t\n", r"judged\.tsv:2: the evaluation set, in this split, has no query 'q9'"),
        ("q1\td2\tyes\n", r"judged\.tsv:2: grade 'yes' is not a whole number"),
        ("q1\td2\t0.5\n", r"judged\.tsv:2: grade '0.5' is not a whole number"),
        ("q1\td2\t31\n", r"judged\.tsv:2: grade '31' is not a whole number"),
        ("q1\td2\t\t1\n", r"judged\.tsv:2: llm_grade is given, but llm does not name"),
        ("q1\td2\t1\nq2\td2\t1\nq1\td2\t0\n", r"judged\.tsv:4: .* grade 0, but 1 in line 2"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_changed(folder: Path, rows: str, message: str) -> None:
    with pytest.raises(EvalsetError, match=message):
        merged(folder, rows)

    assert (folder / "qrels.tsv").read_text("utf-8") == QRELS
    assert not (folder / "judgements.jsonl").exists()


def test_a_row_given_twice_counts_once(folder: Path) -> None:
    assert merged(folder, "q1\td2\t1\nq1\td2\t1\n").n_added == 1


def test_an_id_that_columns_with_blanks_cannot_hold_is_an_error(folder: Path) -> None:
    (folder / "qrels.tsv").write_text("q1 0 d1 1\nq2 0 d1 2\n", "utf-8")

    with pytest.raises(EvalsetError, match=r"qrels\.tsv: query 'q1', document 'd 3': .* white"):
        merged(folder, "q1\td 3\t1\n")
    assert (folder / "qrels.tsv").read_text("utf-8") == "q1 0 d1 1\nq2 0 d1 2\n"


def test_a_split_takes_only_its_own_queries(folder: Path) -> None:
    (folder / "qrels.tsv").unlink()
    (folder / "qrels").mkdir()
    (folder / "qrels" / "dev.tsv").write_text("q1\td1\t1\n", "utf-8")

    assert merged(folder, BY_LLM, split="dev").n_added == 1
    assert (folder / "qrels" / "dev.tsv").read_text("utf-8") == "q1\td1\t1\nq1\td2\t1\n"
    assert records(folder)[0]["qrels"] == "qrels/dev.tsv"
    with pytest.raises(EvalsetError, match="in this split, has no query 'q2'"):
        merged(folder, "q2\td2\t1\n", split="dev")


def test_a_damaged_record_of_judgements_is_named(folder: Path) -> None:
    (folder / "judgements.jsonl").write_text('{"grade": 1}\n', "utf-8")

    with pytest.raises(EvalsetError, match=r"judgements\.jsonl:1: not a record"):
        merged(folder, BY_LLM)


def test_a_place_that_cannot_be_written_is_an_input_error(folder: Path) -> None:
    (folder / "judgements.jsonl").mkdir()

    with pytest.raises(InputError, match=r"judgements\.jsonl"):
        merged(folder, BY_LLM)
    assert (folder / "qrels.tsv").read_text("utf-8") == QRELS
