"""Slices from the command line to the exit code, and back from the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embed_ab import result_json
from embed_ab.cli import main
from embed_ab.commands import demo_folder

HOSTILE = "|<b>x</b> @octocat\n\n## `` ``` \x1b[31m \u202e::error::x,]=[" + "x" * 200


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Compare BM25 with mock vectors, which lose, on the demo set."""
    models = ["-a", "bm25:auto", "-b", "mock:word", "--no-cache"]
    return ["compare", str(demo_folder("en")), *models, "--out", str(tmp_path / "out")]


def result_of(tmp_path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((tmp_path / "out" / "result.json").read_text("utf-8"))
    return read


def hostile_set(folder: Path) -> Path:
    """The demo set; half of the queries have a hostile topic, and all a hostile field."""
    folder.mkdir()
    for name in ("corpus.jsonl", "qrels.tsv"):
        (folder / name).write_text((demo_folder("en") / name).read_text("utf-8"), "utf-8")
    lines = (demo_folder("en") / "queries.jsonl").read_text("utf-8").splitlines()
    records = [
        json.loads(line) | {"topic": HOSTILE if n % 2 else f"t{n}", "<i>f|": "x"}
        for n, line in enumerate(lines)
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    return folder


def test_slices_are_printed_and_in_every_file(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--slice", "style", "--slice", "query-length"]) == 0

    printed = capsys.readouterr().out
    assert "style=question" in printed
    assert "query-length=short (34 to 51)" in printed
    assert "style=question" in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Slices by `style`, `query-length`: " in (tmp_path / "out" / "comment.md").read_text()
    assert [sliced["field"] for sliced in result_of(tmp_path)["slices"]] == [
        "style",
        "query-length",
    ]


def test_a_lost_slice_fails_the_command(words: list[str], tmp_path: Path) -> None:
    assert main([*words, "--gate", "ndcg@10[style=paraphrase]:0.1", "--min-queries", "9"]) == 1
    assert result_of(tmp_path)["gates"][0]["slice"] == {"field": "style", "value": "paraphrase"}


def test_the_file_is_judged_again_as_compare_would_have(words: list[str], tmp_path: Path) -> None:
    gates = ["--gate", "ndcg@10[style=paraphrase]:0.1", "--gate", "hit[style=question]:0.5"]
    main([*words, *gates, "--min-queries", "9"])
    whole = result_json.load(tmp_path / "out" / "result.json")
    main([*words, "--slice", "style"])
    path = str(tmp_path / "out" / "result.json")

    from embed_ab import commands
    from embed_ab.settings import resolve

    asked = resolve({"gate": "\n".join(gates[1::2]), "min-queries": 9}, config=None)
    again, code = commands.judge_again(Path(path), asked)

    assert code == 1
    for name in ("outcome", "verdict", "finding", "primary", "gates"):
        assert getattr(again, name) == getattr(whole, name), name
    assert again.slices == whole.slices


def test_a_slice_that_the_file_lacks_is_named(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, "--slice", "style"])
    path = str(tmp_path / "out" / "result.json")
    capsys.readouterr()

    assert main(["gate", path, "--gate", "ndcg@10[language=ko]:0.1"]) == 2
    assert f"error: {path} holds no slice language=ko\n" in capsys.readouterr().err


def test_a_slice_without_a_query_is_an_input_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--gate", "ndcg@10[style=haiku]:0.1"]) == 2
    assert "gate on [style=haiku]: no evaluated query" in capsys.readouterr().err


def test_the_command_that_is_shown_asks_for_the_same_slices(
    words: list[str], tmp_path: Path
) -> None:
    gate = "ndcg@10[style=keywords]:0.9"
    main([*words, "--slice", "n-relevant", "--gate", gate])

    command = result_json.load(tmp_path / "out" / "result.json").command
    assert f"--slice n-relevant --fail-if-worse '{gate}'" in command


def test_hostile_values_come_out_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = hostile_set(tmp_path / "set"), tmp_path / "out"
    models = ["-a", "bm25:auto", "-b", "mock:word", "--no-cache"]
    words = ["compare", str(folder), *models, "--slice", "topic", "--out", str(out)]
    file = tmp_path / "embed-ab.yml"
    file.write_text(
        json.dumps({"slice": ["topic", "<i>f|"], "gate": [f"hit@10[topic={HOSTILE}]:0"]})
    )

    assert main([*words, "--config", str(file), "--slice", "<i>f|"]) in (0, 1)

    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert not any(line.startswith("::") for line in printed.splitlines())
    comment = (out / "comment.md").read_text("utf-8")
    report = (out / "report.html").read_text("utf-8")
    assert "<b>x" not in report
    assert "<i>f" not in report
    assert "&lt;b&gt;x" in report
    assert "\n## ``" not in comment
    (topic, _) = result_json.load(out / "result.json").slices
    assert topic.slices[0].of("ndcg@10").n_queries == 20
    assert len(topic.slices[0].value) == 80
