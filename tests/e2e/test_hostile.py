"""Faults and hostile input from outside: the right exit code, one clear line, nothing harmed."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from embed_ab.cli import main
from embed_ab.commands import demo_folder

# Without what unbuffers the streams: then a fault shows only when Python ends.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
MOCKS = ["-a", "mock:char3", "-b", "mock:word"]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "embed_ab", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**ENVIRONMENT, **environment},
        timeout=60,
        check=False,
    )


def evalset(folder: Path, corpus: str) -> Path:
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(corpus, "utf-8")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "x"}\n', "utf-8")
    (folder / "qrels.tsv").write_text("q1\td1\t1\n", "utf-8")
    return folder


@pytest.mark.parametrize("words", [["compare", "--help"], ["schema"], ["demo", "--lang", "ko"]])
def test_a_terminal_that_shows_ascii_only_is_no_fault(words: list[str]) -> None:
    assert run(*words, PYTHONIOENCODING="ascii").returncode == 0


def test_a_terminal_of_no_width_still_shows_the_result() -> None:
    assert "ndcg@10" in run("demo", COLUMNS="0").stdout


def test_a_full_disk_behind_standard_output_does_not_hide_a_failed_gate() -> None:
    words = ["compare", str(demo_folder("en")), "-a", "bm25:auto", "-b", "mock:word", "-k", "1"]
    command = [sys.executable, "-m", "embed_ab", *words, "--fail-if-worse", "hit@1:0.01"]

    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )

    assert done.returncode == 1
    assert "the result cannot be printed: No space left on device" in done.stderr


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "2> >(true)", ">&-", ">&- 2>&-"])
def test_a_stream_nobody_reads_changes_no_exit_code(streams: str, tmp_path: Path) -> None:
    demo = demo_folder("en")
    command = f"{sys.executable} -m embed_ab"
    passing = f"{command} compare {demo} -a bm25:auto -b mock:word --out {tmp_path}"
    commands = {
        f"{command} check {tmp_path}/none": 2,
        f"{command} compare --nope": 2,
        f"{command} --help": 0,
        passing: 0,
        f"{passing} --fail-if-worse hit@1:0.01": 1,
    }

    for line, code in commands.items():
        done = subprocess.run(
            ["bash", "-c", f"{line} {streams}"], env=ENVIRONMENT, check=False, timeout=60
        )
        assert done.returncode == code, line
    assert (tmp_path / "result.json").is_file()


def test_forced_colour_does_not_make_a_log_a_terminal() -> None:
    done = run("check", "::warning::pwned", FORCE_COLOR="1")
    table = run("demo", FORCE_COLOR="1", COLUMNS="40")

    assert "::warning" not in done.stdout + done.stderr
    assert any("interval" in line and "detects" in line for line in table.stdout.splitlines())


def test_a_default_place_that_cannot_be_written_costs_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", "utf-8")
    monkeypatch.setenv("EMBED_AB_CACHE_DIR", str(blocked / "cache"))
    monkeypatch.setattr("embed_ab.systems.retrieve", lambda *_, **__: pytest.fail("worked"))

    assert main(["compare", str(demo_folder("en")), *MOCKS, "--no-cache"]) == 2
    assert "Choose another place" in capsys.readouterr().err


def test_a_set_without_any_text_is_no_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two systems that find nothing are equal, and a gate would pass."""
    folder = evalset(tmp_path / "set", '{"_id": "d1", "text": ""}\n')

    assert main(["compare", str(folder), *MOCKS]) == 2

    assert "neither A nor B finds any document" in capsys.readouterr().err


def test_a_tiny_margin_is_no_bug(tmp_path: Path) -> None:
    words = ["compare", str(demo_folder("en")), "-a", "mock:word", "-b", "mock:word"]

    assert main([*words, "--fail-if-worse", "ndcg@10:1e-320"]) == 0


def test_special_files_and_links_are_written_to_not_replaced(tmp_path: Path) -> None:
    target, link, pipe = (tmp_path / name for name in ("target.html", "link.html", "pipe"))
    link.symlink_to(target)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    words = ["demo", "--report", str(link), "--json", str(pipe), "--out", str(tmp_path / "out")]

    with subprocess.Popen([sys.executable, "-m", "embed_ab", *words], stdout=-3) as writing:
        text = b""
        while not text.endswith(b"\n}\n") and writing.poll() is None:
            text += os.read(reader, 65_536)
    os.close(reader)

    assert writing.returncode == 0
    assert json.loads(text)["schema_version"] == 1
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert link.is_symlink()
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_a_result_never_overwrites_the_evaluation_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "set"
    main(["demo", "--export", str(folder)])
    before = (folder / "corpus.jsonl").read_bytes()

    assert main(["compare", str(folder), *MOCKS, "--json", str(folder / "corpus.jsonl")]) == 2

    assert (folder / "corpus.jsonl").read_bytes() == before
    assert "is a file of the evaluation set" in capsys.readouterr().err


def test_two_results_in_one_file_are_refused(tmp_path: Path) -> None:
    same = str(tmp_path / "same")

    assert main(["demo", "--report", same, "--json", same]) == 2


@pytest.mark.parametrize(
    "text",
    [
        "k: 2024-99-99",
        "k: !!int abc",
        "seed: " + "9" * 5000,
        "metrics: " + "[" * 20_000,
        "metrics: [" + "&a [" + "l, " * 9 + "l], " + "[*a, *a, *a, *a]]",
        'cluster-by: "a\\0b"',
        "out: elsewhere",
        "report: .github/workflows/x.yml",
        "json: /etc/passwd",
        "runs: ..",
    ],
)
def test_a_hostile_config_file_is_exit_2(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yml"
    path.write_text(text, encoding="utf-8")

    assert main(["compare", str(demo_folder("en")), *MOCKS, "--config", str(path)]) == 2

    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert len(error) < 1000


@pytest.mark.parametrize(
    "name", ["x\n::error::pwned", "##[error]pwned", "::add-mask::a", "\x1b]0;title\x07"]
)
def test_a_name_does_not_act_on_a_log(name: str) -> None:
    done = run("check", name)

    assert done.returncode == 2
    for line in (done.stdout + done.stderr).splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "\x1b" not in line


@pytest.mark.parametrize("words", [["check"], ["compare", *MOCKS]])
def test_a_folder_name_that_is_not_utf8_is_exit_2(words: list[str], tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/x\xff")
    Path(folder).mkdir()

    assert main([words[0], folder, *words[1:]]) == 2


def test_a_result_with_a_number_of_thousands_of_digits_is_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('{"schema_version": ' + "1" * 5000 + "}", "utf-8")

    assert main(["report", str(path)]) == 2


@pytest.mark.parametrize("days", ["-1", "9" * 20])
def test_prune_takes_sensible_days_only(days: str) -> None:
    assert main(["cache", "prune", "--days", days]) == 2


def test_a_cache_folder_of_nobody_is_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_AB_CACHE_DIR", "~no-such-user/x")

    assert main(["compare", str(demo_folder("en")), *MOCKS]) == 2


def test_a_pipe_in_place_of_a_file_is_exit_2(tmp_path: Path) -> None:
    folder = evalset(tmp_path / "set", "")
    (folder / "corpus.jsonl").unlink()
    os.mkfifo(folder / "corpus.jsonl")

    assert main(["check", str(folder)]) == 2


def test_a_store_damaged_inside_is_cleared(cache_dir: Path) -> None:
    words = ["compare", str(demo_folder("en")), *MOCKS]
    assert main(words) == 0
    store = cache_dir / "vectors.sqlite3"
    content = bytearray(store.read_bytes())
    content[2 * 4096 : 5 * 4096] = b"\xff" * (3 * 4096)
    store.write_bytes(content)
    for file in cache_dir.glob("vectors.sqlite3-*"):
        file.unlink()

    assert main(words) == 3
    assert main(["cache", "clear"]) == 0
    assert main(words) == 0


def test_a_store_that_another_process_holds_is_not_pulled_away(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["compare", str(demo_folder("en")), *MOCKS]) == 0
    store = cache_dir / "vectors.sqlite3"
    before = store.stat().st_ino
    monkeypatch.setattr("embed_ab.providers.cache._WAIT_SECONDS", 0.05)

    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert main(["cache", "clear"]) != 0

    assert store.stat().st_ino == before


def test_prune_leaves_what_is_not_ours(cache_dir: Path) -> None:
    reports = cache_dir / "reports"
    (reports / "mine").mkdir(parents=True)
    (reports / "20200101T000000.000000-ours").mkdir()
    mixed = reports / "20200101T000000.000000-mixed"
    mixed.mkdir()
    (mixed / "thesis.txt").write_text("x", "utf-8")
    (reports / ".DS_Store").write_text("", "utf-8")
    (cache_dir / "elsewhere").mkdir()
    (reports / "20200101T000000.000000-link").symlink_to(cache_dir / "elsewhere")

    assert main(["cache", "prune", "--days", "0"]) == 0

    assert {path.name for path in reports.iterdir()} == {
        "mine",
        mixed.name,
        ".DS_Store",
        "20200101T000000.000000-link",
    }


def test_results_may_lie_inside_the_set_and_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["demo", "--export", str(tmp_path / "set")])
    monkeypatch.chdir(tmp_path / "set")

    for _ in range(2):
        assert main(["compare", ".", *MOCKS, "--out", "results", "--runs", "."]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "loop"],
        ["--json", "n" * 300],
        ["--runs", "n" * 300],
        ["--runs", "runs", "--json", "runs/a.trec"],
        ["--runs", "taken"],
    ],
)
def test_a_place_that_cannot_be_is_found_before_the_work(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("taken/b.trec").mkdir(parents=True)
    monkeypatch.setattr("embed_ab.systems.retrieve", lambda *_, **__: pytest.fail("worked"))

    assert main(["compare", str(demo_folder("en")), *MOCKS, "--out", "out", *words]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["queries"][0]["a"].update({"ndcg@10": 1e308}), "outside 0 to 1"),
        (lambda r: r["queries"][0]["a"].pop("ndcg@10"), "has no value for a metric"),
        (lambda r: r["queries"][0].update(cluster=10**15), "cluster"),
        (lambda r: r["details"][0].update(query="nobody"), "not among the queries"),
        (lambda r: r.update(primary="map@3"), "are missing"),
        (lambda r: r.update(differences=[]), "are missing"),
        (lambda r: r.update(queries=[]), "are missing"),
        (lambda r: r.update(systems=[]), "not A and B"),
        (lambda r: r["queries"][0].update(text="\ud800"), "surrogate"),
    ],
)
def test_a_result_that_does_not_fit_together_is_exit_2(
    change: Callable[[dict[str, Any]], object],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "r.json"
    main(["demo", "--json", str(path), "--out", str(tmp_path / "out")])
    result = json.loads(path.read_text("utf-8"))
    change(result)
    path.write_text(json.dumps(result).replace("\\\\ud800", "\\ud800"), "utf-8")
    capsys.readouterr()

    for verb in (["gate", str(path), "--fail-if-worse", "ndcg@10:0.02"], ["report", str(path)]):
        assert main(verb) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "1e999"])
def test_a_result_with_a_number_that_is_none_is_exit_2(constant: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    main(["demo", "--json", str(path), "--out", str(tmp_path / "out")])
    text = path.read_text("utf-8").replace('"jaccard": 0.', f'"jaccard": {constant}, "x": 0.', 1)
    path.write_text(text, "utf-8")

    assert main(["gate", str(path), "--fail-if-worse", "ndcg@10:0.02"]) == 2


def test_folders_may_have_wide_spaces_and_joiners(tmp_path: Path) -> None:
    folder = tmp_path / "평가\u3000집합\u200d"
    main(["demo", "--export", str(folder)])

    assert main(["check", str(folder)]) == 0


def test_a_reader_of_the_json_may_leave(tmp_path: Path) -> None:
    demo = demo_folder("en")
    command = f"{sys.executable} -m embed_ab compare {demo} -a bm25:auto -b mock:word"
    script = f"{command} --out {tmp_path}/out --json /dev/stdout | true; exit ${{PIPESTATUS[0]}}"

    done = subprocess.run(["bash", "-c", script], env=ENVIRONMENT, check=False, timeout=60)

    assert done.returncode == 0


def test_an_export_that_fails_is_exit_2(tmp_path: Path) -> None:
    assert main(["demo", "--export", str(tmp_path / ("n" * 300))]) == 2


def test_the_recorded_command_of_a_folder_that_looks_like_a_flag_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["demo", "--export", "./-set"])

    assert main(["compare", "./-set", *MOCKS, "--json", "r.json"]) == 0

    command = json.loads(Path("r.json").read_text("utf-8"))["command"]
    assert main(shlex.split(command)[1:]) == 0


def test_a_prompt_that_utf8_cannot_hold_is_exit_2() -> None:
    words = ["compare", str(demo_folder("en")), "-a", "st:owner/model", "-b", "bm25:auto"]

    assert main([*words, "--a-query-prompt", "q\udcff"]) == 2


def test_bm25_alone_needs_no_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", "utf-8")
    monkeypatch.setenv("EMBED_AB_CACHE_DIR", str(blocked / "cache"))
    words = ["compare", str(demo_folder("en")), "-a", "bm25:word", "-b", "bm25:char2"]

    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert main(["compare", str(demo_folder("en")), *MOCKS, "--out", str(tmp_path / "out")]) == 2
