"""The command line as a user meets it: outputs, exit codes, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embed_ab.cli import main


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    assert main(["demo", "--export", str(folder)]) == 0
    return folder


def compare(folder: Path, *words: str) -> int:
    return main(["compare", str(folder), "-a", "mock:char3", "-b", "mock:word", *words])


def test_the_demo_writes_report_json_and_comment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 0

    assert {path.name for path in tmp_path.iterdir()} >= {
        "report.html",
        "result.json",
        "comment.md",
    }
    out = capsys.readouterr().out
    assert "mock" in out
    assert str(tmp_path / "report.html") in out


def test_the_same_input_gives_the_same_json_but_for_measured(demo: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert compare(demo, "--json", str(tmp_path / f"{name}.json")) == 0

    one, two = (
        json.loads((tmp_path / f"{name}.json").read_text("utf-8")) for name in ("one", "two")
    )
    assert one.pop("measured")
    assert two.pop("measured")["texts_cached"]["A"] == 80
    assert one == two


def test_a_failed_gate_is_exit_1_and_its_report_is_written(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "compare",
        str(demo),
        "-a",
        "bm25:auto",
        "-b",
        "mock:word",
        "--fail-if-worse",
        "hit@1:0.01",
    ]

    code = main([*words, "--out", str(tmp_path / "out")])

    result = json.loads((tmp_path / "out" / "result.json").read_text("utf-8"))
    assert result["outcome"] == "fail"
    assert code == 1
    assert "-> FAIL" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").is_file()


def test_an_inconclusive_gate_is_0_unless_asked(demo: Path) -> None:
    gate = ["--fail-if-worse", "ndcg@10:0.001", "--min-queries", "1000"]

    assert compare(demo, *gate) == 0
    assert compare(demo, *gate, "--on-inconclusive", "fail") == 1


def test_a_result_is_judged_again_without_models(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    gate = ["--fail-if-worse", "ndcg@10:0.02", "--fail-if-worse", "hit@10:0.3"]
    compare(demo, "--out", str(out), *gate, "--cluster-by", "gold")
    before = json.loads((out / "result.json").read_text("utf-8"))["gates"]
    capsys.readouterr()

    code = main(["gate", str(out / "result.json"), *gate])

    shown = " ".join(capsys.readouterr().out.split())
    assert [verdict["outcome"] for verdict in before].count("fail") == code == 0
    for verdict in before:
        assert verdict["reason"] in shown


def test_judging_a_metric_without_values_is_exit_2(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(demo, "--out", str(tmp_path / "out"))

    assert (
        main(["gate", str(tmp_path / "out" / "result.json"), "--fail-if-worse", "map@7:0.1"]) == 2
    )
    assert "holds no values of map@7" in capsys.readouterr().err


def test_a_report_is_made_again_from_json_byte_by_byte(demo: Path, tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    compare(demo, "--out", str(first))

    assert main(["report", str(first / "result.json"), "--out", str(again)]) == 0

    for name in ("report.html", "comment.md", "result.json"):
        assert (again / name).read_bytes() == (first / name).read_bytes(), name


def test_run_files_hold_each_system(demo: Path, tmp_path: Path) -> None:
    assert compare(demo, "--runs", str(tmp_path / "runs"), "-k", "5") == 0

    lines = (tmp_path / "runs" / "a.trec").read_text("utf-8").splitlines()
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        "a.trec",
        "b.trec",
        "bm25.trec",
        "qrels.trec",
    }
    assert len(lines) == 40 * 40  # 100 deep, and there are 40 documents
    assert lines[0].split()[1] == "Q0"


@pytest.mark.parametrize(
    "words",
    [
        ["compare"],
        ["compare", "missing", "-a", "mock:word", "-b", "mock:word"],
        ["compare", "{demo}", "-a", "mock:word"],
        ["compare", "{demo}", "-a", "nobody:x", "-b", "mock:word"],
        ["compare", "{demo}", "-a", "mock:word", "-b", "mock:word", "--metrics", "bleu"],
        ["compare", "{demo}", "-a", "mock:word", "-b", "mock:word", "--fail-if-worse", "ndcg"],
        ["compare", "{demo}", "-a", "mock:word", "-b", "mock:word", "-k", "0"],
        ["compare", "{demo}", "-a", "mock:word", "-b", "mock:word", "--config", "missing.yml"],
        ["compare", "{demo}", "-a", "mock:word", "-b", "mock:word", "--ignore", "everything"],
        ["compare", "{demo}", "-a", "mock:word", "-b", "mock:word,dim=9999"],
        ["compare", "{demo}", "-a", "mock:word", "-b", "mock:word", "--out", "{demo}/corpus.jsonl"],
        ["check", "missing"],
        ["gate", "missing.json", "--fail-if-worse", "ndcg@10:0.1"],
        ["report", "{demo}/corpus.jsonl"],
        ["demo", "--export", "{demo}"],
    ],
)
def test_a_fault_of_the_user_is_exit_2_with_a_hint(
    demo: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert main([word.replace("{demo}", str(demo)) for word in words]) == 2

    message, hint = capsys.readouterr().err.strip().splitlines()
    assert message.startswith("error: ")
    assert hint.strip()


@pytest.mark.parametrize(
    "words", [[], ["--bad"], ["compare", "--bad"], ["compare", "x", "--bm25", "korean"]]
)
def test_unknown_flags_are_exit_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)

    assert caught.value.code == 2


def test_a_bug_is_exit_3_not_1(
    demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("embed_ab.comparison.overlap.jaccard", lambda *_: 1 / 0)

    assert compare(demo) == 3
    assert "this is a bug in embed-ab" in capsys.readouterr().err


def test_terminal_codes_in_a_message_do_not_act(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "\x1b[31mred")]) == 2

    assert "\x1b" not in capsys.readouterr().err


def test_the_config_file_of_the_folder_is_read(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".embed-ab.yml").write_text(
        "eval-path: demo\nmodel-a: mock:char3\nmodel-b: mock:word\nk: 3\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)

    assert main(["compare", "--json", "r.json"]) == 0

    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["primary"] == "ndcg@3"


def test_check_prints_what_a_set_holds(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    assert main(["check", str(demo)]) == 0

    out = capsys.readouterr().out
    assert "40" in out
    assert "documents" in out


def piped(words: list[str], tmp_path: Path) -> int:
    """The exit code of a command whose reader leaves at once."""
    script = tmp_path / "piped.sh"
    script.write_text('"$@" | true\nexit "${PIPESTATUS[0]}"\n', "utf-8")
    command = ["bash", str(script), sys.executable, "-m", "embed_ab", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode


def test_a_reader_that_leaves_changes_no_exit_code(demo: Path, tmp_path: Path) -> None:
    words = ["compare", str(demo), "-a", "bm25:auto", "-b", "mock:word"]

    assert piped(words, tmp_path) == 0
    assert piped([*words, "--fail-if-worse", "hit@1:0.01"], tmp_path) == 1
    assert piped(["check", str(demo)], tmp_path) == 0


def test_an_id_with_a_blank_is_found_before_the_work(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = demo / "corpus.jsonl"
    corpus.write_text(corpus.read_text("utf-8") + '{"_id": "a b", "text": "x"}\n', "utf-8")

    assert compare(demo, "--runs", str(tmp_path / "runs")) == 2
    assert "'a b' cannot be written to a run file" in capsys.readouterr().err
    assert compare(demo) == 0


def test_check_reads_the_config_file(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".embed-ab.yml").write_text("eval-path: demo\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(["check"]) == 0


def test_a_result_with_settings_of_another_version_is_exit_2(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    compare(demo, "--json", str(path))
    changed = json.loads(path.read_text("utf-8"))
    changed["settings"]["colour"] = "red"
    path.write_text(json.dumps(changed), "utf-8")

    assert main(["gate", str(path), "--fail-if-worse", "ndcg@10:0.1"]) == 2
    assert "settings: " in capsys.readouterr().err


def test_a_prompt_for_a_system_without_prompts_is_exit_2(demo: Path) -> None:
    assert compare(demo, "--a-query-prompt", "query: ") == 2


def test_a_result_is_judged_again_by_other_gates(demo: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    words = ["compare", str(demo), "-a", "bm25:auto", "-b", "mock:word"]
    assert main([*words, "--json", str(path)]) == 0

    assert main(["gate", str(path), "--fail-if-worse", "ndcg@10:0.01"]) == 1
    assert main(["gate", str(path), "--fail-if-worse", "ndcg@10:0.9"]) == 0
    unclear = ["gate", str(path), "--fail-if-worse", "ndcg@10:0.01", "--min-queries", "1000"]
    assert main(unclear) == 0
    assert main([*unclear, "--on-inconclusive", "fail"]) == 1


def test_cache_info_clear_and_prune(
    demo: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(demo)

    assert len(list((cache_dir / "reports").iterdir())) == 1
    for action in ("info", "prune"):
        assert main(["cache", action]) == 0
        assert " 160 vectors" in capsys.readouterr().out.splitlines()[-1]
    assert main(["cache", "clear"]) == 0
    assert " 0 vectors" in capsys.readouterr().out
    assert len(list((cache_dir / "reports").iterdir())) == 1  # results are not the store's to clear
    assert main(["cache", "prune", "--days", "0"]) == 0
    assert list((cache_dir / "reports").iterdir()) == []
    assert main(["cache", "prune", "--days", "-1"]) == 2


def test_check_counts_as_relevant_what_min_grade_says(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the 40 questions has one document of grade 2."""
    assert main(["check", str(demo), "--min-grade", "2"]) == 0

    assert "relevant documents per query: 1 (40 queries)" in capsys.readouterr().out


def test_the_verdict_is_shown_when_the_files_cannot_be_written_in_the_end(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out" / "report.html"
    (tmp_path / "out").mkdir()
    real = os.replace

    def full(source: str, target: Path) -> None:
        if Path(target) == report:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr("os.replace", full)

    assert compare(demo, "--out", str(tmp_path / "out")) == 2

    shown = capsys.readouterr()
    assert "ndcg@10" in shown.out
    assert "report.html: cannot be written: No space left on device" in shown.err


def test_schema_describes_the_config_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0

    schema = json.loads(capsys.readouterr().out)
    assert "model-a" in schema["properties"]
    assert "a-trust-remote-code" not in schema["properties"]
    assert schema["properties"]["fail-if-worse"] == schema["properties"]["gate"]


def test_the_printed_command_repeats_the_comparison(demo: Path, tmp_path: Path) -> None:
    import shlex

    compare(
        demo,
        "--json",
        str(tmp_path / "one.json"),
        "-k",
        "3",
        "--fail-if-worse",
        "hit:0.5",
        "--ignore",
        "few_queries",
        "--metrics",
        "ndcg,mrr@5",
        "--cluster-by",
        "style",
    )
    one = json.loads((tmp_path / "one.json").read_text("utf-8"))

    words = shlex.split(one["command"])
    assert words[0] == "embed-ab"
    assert main([*words[1:], "--json", str(tmp_path / "two.json")]) == 0

    two = json.loads((tmp_path / "two.json").read_text("utf-8"))
    assert {**one, "measured": 0} == {**two, "measured": 0}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from embed_ab.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'pydantic', 'rich', 'bm25s', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_mock_and_bm25_need_no_network(demo: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "from embed_ab.cli import main; sys.exit(main(sys.argv[1:]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "compare", str(demo), "-a", "mock:word", "-b", "bm25:auto"],
        capture_output=True,
        text=True,
        env={**os.environ},
        check=False,
    )

    assert done.returncode == 0, done.stderr
