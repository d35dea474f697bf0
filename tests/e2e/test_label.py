"""`label` as a user meets it: list, judge by hand, merge, compare again."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from embed_ab.cli import main

Row = dict[str, str]


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    assert main(["demo", "--export", str(folder)]) == 0
    return folder


def compare(folder: Path, *words: str) -> dict[str, Any]:
    """The result of BM25 as A against word hashes as B; the files go to `out` and `runs` beside."""
    place = folder.parent
    places = ["--out", str(place / "out"), "--runs", str(place / "runs")]
    systems = ["-a", "bm25:word", "-b", "mock:word", "--bm25", "none", "--metrics", "ndcg,judged"]
    assert main(["compare", str(folder), *systems, *places, "--quiet", *words]) == 0
    result: dict[str, Any] = json.loads((place / "out" / "result.json").read_text("utf-8"))
    return result


def label(folder: Path, *words: str) -> int:
    place = folder.parent
    given = [str(folder), str(place / "out" / "result.json"), "--out", str(place / "l.tsv")]
    return main(["label", *given, *words])


def rows(folder: Path) -> list[Row]:
    with (folder.parent / "l.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def save(folder: Path, judged: list[Row]) -> None:
    with (folder.parent / "l.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, judged[0], delimiter="\t")
        writer.writeheader()
        writer.writerows(judged)


def merge(folder: Path) -> int:
    return main(["label", str(folder), "--merge", str(folder.parent / "l.tsv")])


def judge_what_a_returns(folder: Path) -> None:
    """Grade 0 for what A's run has and nobody judged: as when labels come from A's own results."""
    qrels = folder / "qrels.tsv"
    known = {tuple(line.split("\t")[:2]) for line in qrels.read_text("utf-8").splitlines()}
    with qrels.open("a", encoding="utf-8") as file:
        for line in (folder.parent / "runs" / "a.trec").read_text("utf-8").splitlines():
            query, _, document, rank, *_ = line.split()
            if int(rank) <= 10 and (query, document) not in known:
                file.write(f"{query}\t{document}\t0\n")


def test_judging_what_is_listed_closes_the_gap(demo: Path) -> None:
    compare(demo)
    judge_what_a_returns(demo)
    before = compare(demo)
    assert "unjudged_gap" in [caution["code"] for caution in before["cautions"]]
    assert before["systems"][1]["means"]["judged@10"] < 0.7

    assert label(demo, "--runs", str(demo.parent / "runs")) == 0
    save(demo, [row | {"grade": "0"} for row in rows(demo)])
    assert merge(demo) == 0

    after = compare(demo)
    assert "unjudged_gap" not in [caution["code"] for caution in after["cautions"]]
    assert after["systems"][1]["means"]["judged@10"] == 1
    assert after["evalset"]["n_judgements"] == before["evalset"]["n_judgements"] + len(rows(demo))


def test_impact_is_what_the_next_comparison_shows(demo: Path) -> None:
    (before,) = (d for d in compare(demo)["differences"] if d["metric"] == "ndcg@10")
    assert label(demo, "--runs", str(demo.parent / "runs")) == 0
    first, *others = rows(demo)
    assert float(first["impact"]) >= max(float(row["impact"]) for row in others)

    save(demo, [first | {"grade": "1"}, *others])
    assert merge(demo) == 0

    (after,) = (d for d in compare(demo)["differences"] if d["metric"] == "ndcg@10")
    moved = abs(after["difference"] - before["difference"])
    assert float(first["impact"]) == pytest.approx(moved, abs=1e-6)


def test_without_run_files_the_detailed_queries_are_listed_and_it_is_said(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = compare(demo, "--worst-queries", "2")

    assert label(demo) == 0

    assert {row["query-id"] for row in rows(demo)} == {d["query"] for d in result["details"]}
    out = capsys.readouterr().out
    assert "the result holds the documents of 4 of 40 queries, up to rank 10" in out
    assert f"then: embed-ab label {demo} --merge {demo.parent / 'l.tsv'}" in out


def test_a_redacted_result_is_judged_with_the_texts_of_the_set(demo: Path) -> None:
    result = compare(demo, "--redact")
    assert not any(hit["text"] for detail in result["details"] for hit in detail["a"])

    assert label(demo) == 0

    assert all(row["query"] and row["document"] for row in rows(demo))


def test_listing_again_keeps_grades_and_leaves_out_what_is_merged(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(demo)
    assert label(demo, "--max-pairs", "3") == 0
    first, second, third = rows(demo)
    save(demo, [first | {"grade": "1"}, second, third])

    assert label(demo, "--max-pairs", "2") == 0
    assert rows(demo) == [first | {"grade": "1"}, second]

    assert merge(demo) == 0
    (demo.parent / "l.tsv").unlink()
    capsys.readouterr()
    assert label(demo) == 0
    assert first["corpus-id"] not in [
        row["corpus-id"] for row in rows(demo) if row["query-id"] == first["query-id"]
    ]
    assert "the set has changed since the result was made" in capsys.readouterr().out


def test_settings_of_the_comparison_hold_for_its_labels(demo: Path) -> None:
    """A query without a judgement is an error with qrels.tsv, unless the comparison excluded it."""
    with (demo / "queries.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "new", "text": "Which disk is broken?"}\n')
    compare(demo, "--no-positive", "exclude")

    assert label(demo, "--runs", str(demo.parent / "runs")) == 0
    assert "new" in [row["query-id"] for row in rows(demo)]


def test_conflicts_are_listed_and_left(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, line, *_ = before = (demo / "qrels.tsv").read_text("utf-8").splitlines()
    query, document, grade = line.split("\t")
    save(demo, [{"query-id": query, "corpus-id": document, "grade": "0"}])

    assert merge(demo) == 0

    out = capsys.readouterr().out
    assert "conflicts, left as they were: 1" in out
    assert f"query '{query}', document '{document}': {grade} in qrels.tsv:2, 0 in l.tsv:2" in out
    assert (demo / "qrels.tsv").read_text("utf-8").splitlines() == before


def test_a_bad_row_is_exit_2_with_its_place(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(demo, [{"query-id": "nobody", "corpus-id": "nothing", "grade": "1"}])

    assert merge(demo) == 2
    assert f"error: {demo.parent / 'l.tsv'}:2: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["qrels.tsv", "corpus.jsonl"])
def test_no_other_file_is_overwritten(demo: Path, name: str) -> None:
    compare(demo)
    before = (demo / name).read_bytes()

    result = str(demo.parent / "out" / "result.json")
    assert main(["label", str(demo), result, "--out", str(demo / name)]) == 2
    assert (demo / name).read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ["EVAL"],
        ["EVAL", "result.json"],
        ["EVAL", "--out", "l.tsv"],
        ["EVAL", "result.json", "--merge", "l.tsv"],
        ["EVAL", "--merge", "l.tsv", "--llm", "ollama:m"],
        ["EVAL", "result.json", "--out", "l.tsv", "--depth", "0"],
        ["EVAL", "result.json", "--out", "l.tsv", "--max-pairs", "-1"],
        ["EVAL", "result.json", "--out", "l.tsv", "--llm", "gpt-4"],
        ["--merge", "l.tsv"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_exit_2(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["label", *words]) == 2
