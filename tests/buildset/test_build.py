"""build-set as a user meets it: the set, its record, and what happens after an interruption."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_chat import FakeChat, Message, running
from interrupted import interrupt

from embed_ab import evalset, llm
from embed_ab.buildset.build import build
from embed_ab.buildset.options import Options
from embed_ab.buildset.questions import ChatWriter, Writer
from embed_ab.cli import main
from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.http import Server

TOPICS = ("backup", "restore", "upgrade", "invoice", "password", "export", "webhook", "quota")
SET = ("corpus.jsonl", "queries.jsonl", "qrels.tsv", "build.json")


def passage_of(messages: list[Message]) -> str:
    found = re.search(r"<passage-(\w+)>\n(.*)\n</passage-\1>", messages[1]["content"], re.DOTALL)
    assert found
    return found[2]


def style_of(messages: list[Message]) -> str:
    return re.findall(r"styles: ([\w, ]+)\.", messages[1]["content"])[0].split(", ")[0]


def ask(messages: list[Message]) -> str:
    """A model that asks in words of its own; each passage gets a word no other has."""
    passage = passage_of(messages)
    word = "".join(chr(97 + int(d, 16)) for d in hashlib.sha256(passage.encode()).hexdigest()[:8])
    topic = next(topic for topic in TOPICS if topic in passage)
    question = {"style": style_of(messages), "text": f"trouble with {topic} {word}"}
    return json.dumps({"questions": [question]})


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number, topic in enumerate(TOPICS):
        text = f"# The {topic}\n\nSection {number} explains how the {topic} works, step by step. "
        (folder / f"{topic}.md").write_text(text + "Ask support for help.", encoding="utf-8")
    return folder


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeChat]:
    with running(FakeChat(says=ask)) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.address)
        monkeypatch.setenv("OLLAMA_HOST", fake.address)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        yield fake


def run(docs: Path, out: Path, *words: str) -> int:
    return main(["build-set", str(docs), "--out", str(out), "--llm", "openai:writer", *words])


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def record(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "build.json").read_text("utf-8"))
    return found


def files(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in SET]


def writer(fake: FakeChat) -> Writer:
    """The writer of the command, but for waits, which take no time."""
    environment = {"OPENAI_BASE_URL": fake.address}
    connect = partial(Server, sleep=lambda seconds: None)
    return ChatWriter(chat=llm.chat("openai:writer", environment, connect=connect), seed=0)


def nothing(what: str, done: int, total: int) -> None:
    """Take a progress report."""


@pytest.mark.parametrize("model", ["openai:writer", "ollama:writer", "mock"])
def test_the_set_can_be_checked_and_compared(
    docs: Path, tmp_path: Path, fake: FakeChat, model: str
) -> None:
    out = tmp_path / "out"

    assert run(docs, out, "--llm", model) == 0
    assert main(["check", str(out)]) == 0
    assert main(["compare", str(out), "-a", "mock:char3", "-b", "bm25:word"]) == 0

    loaded = evalset.load(out)
    assert (len(loaded.document_ids), len(loaded.query_ids)) == (8, 8)
    assert loaded.document_metadata[0]["source"] == "backup.md"


def test_a_query_says_where_it_came_from(docs: Path, tmp_path: Path, fake: FakeChat) -> None:
    assert run(docs, tmp_path / "out") == 0

    query = rows(tmp_path / "out" / "queries.jsonl")[0]
    assert query["_id"] == "backup.md#0000.1"
    assert query["metadata"]["source"] == "backup.md"
    assert query["metadata"]["style"] in ("question", "keywords", "paraphrase", "typo")
    assert query["metadata"]["copy_share"] == 0.25  # trouble, with, backup, xxxx: one of four


def test_the_mock_says_that_it_is_one(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build-set", str(docs), "--out", str(tmp_path / "out")]) == 0

    assert "mock: no model was asked" in capsys.readouterr().out
    assert record(tmp_path / "out")["model"] == "mock"


def test_the_record_holds_what_decides_about_the_set(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    run(docs, tmp_path / "out", "--seed", "3", "--per-chunk", "2")

    found = record(tmp_path / "out")
    assert (found["model"], found["seed"], found["prompt_version"]) == ("openai:writer", 3, 1)
    assert found["options"]["per_chunk"] == 2
    assert found["counts"]["chunks_with_fewer_questions"] == 8


@pytest.mark.parametrize(("per_chunk", "is_said"), [("1", False), ("2", True)])
def test_several_questions_about_a_chunk_are_said_to_want_groups(
    docs: Path,
    tmp_path: Path,
    fake: FakeChat,
    capsys: pytest.CaptureFixture[str],
    per_chunk: str,
    is_said: bool,
) -> None:
    run(docs, tmp_path / "out", "--per-chunk", per_chunk)

    assert ("compare with --cluster-by gold" in capsys.readouterr().out) is is_said


def test_records_of_one_file_are_one_file_and_a_document_for_each_chunk(
    tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    texts = [f"The tank of model {n} holds {n} litres of water, filled to the mark." for n in "34"]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "docs" / "records.jsonl").write_text(lines, "utf-8")
    fake.says = lambda messages: json.dumps({"questions": [passage_of(messages)[:40]]})

    assert run(tmp_path / "docs", tmp_path / "out", "--max-copy", "1", "--max-chunks", "1") == 0

    out = capsys.readouterr().out
    assert "files: 1 read, 0 left out; chunks: 2\n" in out
    assert "(2 documents, one for each chunk; 1 query)" in out


def test_what_is_dropped_is_counted_and_printed(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    (docs / "LICENSE.txt").write_text(
        "Permission is hereby granted, free of charge, to any person", encoding="utf-8"
    )
    (docs / "twin.md").write_text((docs / "quota.md").read_text("utf-8"), encoding="utf-8")
    answers = {
        "backup": "What does this document say about backup?",
        "restore": "Section 1 explains how the restore works",
        "upgrade": "x" * 400,
        "invoice": "???",
        "password": "no JSON here",
        "export": "same question",
        "webhook": "The SAME question!",
        "quota": "why blocked",
    }

    def says(messages: list[Message]) -> str:
        topic = next(topic for topic in TOPICS if topic in passage_of(messages))
        text = answers[topic]
        return text if "JSON" in text else json.dumps({"questions": [text, "one more"]})

    fake.says = says

    assert run(docs, tmp_path / "out") == 0

    counts = record(tmp_path / "out")["counts"]
    assert counts["chunks_without_question"] == {
        "licence text": 1,
        "same text as another chunk": 1,
    }
    assert counts["questions_dropped"] == {
        "copied (over 0.6)": 1,
        "longer than 300 characters": 1,
        "more than asked for": 7,
        "points at its document": 1,
        "without words": 1,
    }
    assert (counts["questions_merged"], counts["queries"]) == (1, 2)
    assert record(tmp_path / "out")["unreadable"] == ["password.md#0000"]
    out = capsys.readouterr().out
    assert "1 points at its document" in out
    assert "chunks whose answer could not be read in two tries: 1 (password.md#0000)" in out


def test_a_merged_question_is_answered_by_both_chunks_and_a_twin_by_its_twin(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    (docs / "twin.md").write_text((docs / "quota.md").read_text("utf-8"), encoding="utf-8")
    fake.says = lambda messages: json.dumps(
        {"questions": ["why blocked" if "quota" in passage_of(messages) else "help me"]}
    )

    run(docs, tmp_path / "out")

    judged = [
        line.split("\t")[:2]
        for line in (tmp_path / "out" / "qrels.tsv").read_text("utf-8").splitlines()
    ][1:]
    assert [document for query, document in judged if query == "quota.md#0000.1"] == [
        "quota.md#0000",
        "twin.md#0000",
    ]
    assert len([document for query, document in judged if query == "backup.md#0000.1"]) == 7


def test_max_chunks_asks_about_some_and_keeps_all_as_documents(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    run(docs, tmp_path / "out", "--max-chunks", "3")

    assert len(fake.bodies) == 3
    assert record(tmp_path / "out")["counts"]["chunks"] == 8


def test_a_new_document_leaves_the_choice_of_the_others_alone(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    run(docs, tmp_path / "one", "--max-chunks", "4")
    (docs / "aaa.md").write_text("The webhook of aaa is another than all the others, with more.")
    run(docs, tmp_path / "two", "--max-chunks", "4")

    one, two = (
        {row["_id"] for row in rows(tmp_path / n / "queries.jsonl")} for n in ("one", "two")
    )
    assert len(one & two) >= 3


@pytest.mark.parametrize(
    ("question", "is_marked"),
    [
        ("hermit crab shells", False),  # in its own chunk only
        ("hermit crab shells lantern", False),  # lantern is elsewhere too, the others are not
        ("lantern", True),  # as often in a chunk of the same length: a tie
        ("walrus", True),  # once in its own chunk, twice in another: second
        ("nobody wrote these", True),
    ],
)
def test_a_question_that_another_chunk_answers_as_well_by_bm25_is_marked(
    tmp_path: Path, fake: FakeChat, question: str, is_marked: bool
) -> None:
    """Three chunks only, all of ten words: each is among the first three for any of its words."""
    docs = tmp_path / "docs"
    docs.mkdir()
    gold = "hermit crab shells lantern walrus harbour pebbles driftwood seaweed anchor"
    texts = {
        "gold": gold,
        "tie": "lantern basalt granite marble quartz feldspar obsidian limestone sandstone slate",
        "walrus": "walrus walrus glacier iceberg penguin tundra aurora permafrost blizzard igloo",
    }
    for name, text in texts.items():
        (docs / f"{name}.txt").write_text(f"{text}.", encoding="utf-8")
    fake.says = lambda messages: json.dumps(
        {"questions": [question if gold in passage_of(messages) else "???"]}
    )

    assert run(docs, tmp_path / "out", "--verify", "--max-copy", "1") == 0

    (query,) = rows(tmp_path / "out" / "queries.jsonl")
    assert query["metadata"].get("ambiguous", False) is is_marked


def test_chunks_that_a_merged_question_was_made_of_may_score_alike(
    tmp_path: Path, fake: FakeChat
) -> None:
    """The word stands once in two chunks of one length, and in no other: both answer."""
    docs = tmp_path / "docs"
    docs.mkdir()
    ends = {"a": "pebbles driftwood seaweed", "b": "granite marble quartz", "c": "glacier igloo"}
    for name, end in ends.items():
        word = "tundra" if name == "c" else "lantern"
        text = f"harbour anchor sailors remember {word} beside {end}."
        (docs / f"{name}.txt").write_text(text, encoding="utf-8")
    fake.says = lambda messages: json.dumps(
        {"questions": ["lantern" if "lantern" in passage_of(messages) else "???"]}
    )

    assert run(docs, tmp_path / "out", "--verify", "--max-copy", "1") == 0

    (query,) = rows(tmp_path / "out" / "queries.jsonl")
    assert "ambiguous" not in query["metadata"]


def test_the_model_can_judge_whether_a_question_leads_to_its_chunk(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    def says(messages: list[Message]) -> str:
        if len(messages) > 1:
            return ask(messages)
        text = messages[0]["content"]
        topic = next(topic for topic in TOPICS if f"trouble with {topic}" in text)
        passages = re.findall(r'<passage number="(\d)".*?>\n(.*?)</passage>', text, re.DOTALL)
        chosen = [int(n) for n, passage in passages if f"the {topic}" in passage]
        return json.dumps({"passages": [1, 2] if topic == "quota" else chosen})

    fake.says = says

    run(docs, tmp_path / "out", "--verify", "llm")

    assert record(tmp_path / "out")["counts"]["queries_ambiguous"] == 1


def test_a_finished_set_is_not_made_again(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run(docs, out)
    (out / "qrels.tsv").write_text("judged by hand", encoding="utf-8")
    n_asked = len(fake.bodies)

    assert run(docs, out) == 0

    assert len(fake.bodies) == n_asked
    assert (out / "qrels.tsv").read_text("utf-8") == "judged by hand"
    assert "finished already" in capsys.readouterr().out


def test_the_record_tells_the_server_and_what_the_model_was(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    run(docs, tmp_path / "out", "--llm", "ollama:writer")

    found = record(tmp_path / "out")
    assert (found["server"], found["model_digest"]) == (fake.address, "d1")


def test_a_tag_that_moved_does_not_go_on_in_the_old_journal(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    run(docs, tmp_path / "out", "--llm", "ollama:writer")
    (tmp_path / "out" / "build.json").unlink()
    fake.bodies.clear()
    fake.digest = "d2"

    run(docs, tmp_path / "out", "--llm", "ollama:writer")

    assert len(fake.bodies) == 8
    assert record(tmp_path / "out")["model_digest"] == "d2"


def test_a_tag_that_moves_meanwhile_is_exit_3_and_its_answers_are_not_kept(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    def says(messages: list[Message]) -> str:
        if len(fake.bodies) == 3:
            fake.digest = "d2"
        return ask(messages)

    fake.says = says

    assert run(docs, out, "--llm", "ollama:writer", "--concurrency", "1") == 3

    assert "the model has changed while it was used" in capsys.readouterr().err
    assert len(rows(out / "journal.jsonl")) == 2  # the third answer may be of either
    assert not (out / "build.json").exists()

    fake.says = ask
    fake.bodies.clear()
    assert run(docs, out, "--llm", "ollama:writer") == 0
    assert (len(fake.bodies), record(out)["model_digest"]) == (8, "d2")


def test_another_server_does_not_go_on_in_the_old_journal(
    docs: Path, tmp_path: Path, fake: FakeChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(docs, tmp_path / "out")
    (tmp_path / "out" / "build.json").unlink()

    with running(FakeChat(says=ask)) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.address)
        run(docs, tmp_path / "out")

    assert len(other.bodies) == 8


def test_a_finished_set_of_another_server_is_exit_2_without_asking_it(
    docs: Path,
    tmp_path: Path,
    fake: FakeChat,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(docs, tmp_path / "out", "--llm", "ollama:writer")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")

    assert run(docs, tmp_path / "out", "--llm", "ollama:writer") == 2
    assert "made from other server\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (["--seed", "1"], "seed"),
        (["--llm", "ollama:writer"], "model and server"),
        (["--chunk-chars", "700"], "chunk-chars"),
        (["--max-copy", "0.5"], "max-copy"),
    ],
)
def test_a_finished_set_of_other_settings_is_exit_2(
    docs: Path,
    tmp_path: Path,
    fake: FakeChat,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    changed: str,
) -> None:
    run(docs, tmp_path / "out")

    assert run(docs, tmp_path / "out", *words) == 2
    assert f"made from other {changed}\n" in capsys.readouterr().err


def test_a_finished_set_of_other_documents_is_exit_2(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    run(docs, tmp_path / "out")
    (docs / "quota.md").unlink()

    assert run(docs, tmp_path / "out") == 2
    assert "made from other texts" in capsys.readouterr().err


def test_concurrency_does_not_change_the_set(docs: Path, tmp_path: Path, fake: FakeChat) -> None:
    run(docs, tmp_path / "one", "--concurrency", "1")
    run(docs, tmp_path / "eight", "--concurrency", "8")

    assert files(tmp_path / "one") == files(tmp_path / "eight")


@pytest.mark.parametrize("n_answered", range(1, 8))
def test_a_run_whose_server_died_goes_on_and_makes_the_same_set(
    docs: Path, tmp_path: Path, fake: FakeChat, n_answered: int
) -> None:
    build(docs, tmp_path / "whole", Options(concurrency=1), writer(fake), nothing)
    fake.bodies.clear()
    fake.dies_after = n_answered

    with pytest.raises(ProviderError) as caught:
        build(docs, tmp_path / "out", Options(concurrency=1), writer(fake), nothing)
    fake.dies_after = None
    built = build(docs, tmp_path / "out", Options(concurrency=1), writer(fake), nothing)

    assert "same command" in caught.value.hint
    assert built.n_reused == n_answered
    assert len(fake.bodies) == 8  # nothing was asked twice
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize("n_answered", [0, 3, 7])
def test_a_killed_run_goes_on_and_makes_the_same_set(
    docs: Path, tmp_path: Path, fake: FakeChat, n_answered: int
) -> None:
    out, release, reached = tmp_path / "out", threading.Event(), threading.Event()

    def says(messages: list[Message]) -> str:
        if len(fake.bodies) > n_answered:
            reached.set()
            release.wait(60)
        return ask(messages)

    fake.says = says
    command = [sys.executable, "-m", "embed_ab", "build-set", str(docs), "--out", str(out)]
    command += ["--llm", "openai:writer", "--concurrency", "1", "--quiet"]
    with subprocess.Popen(command, env={**os.environ}, stderr=subprocess.DEVNULL) as process:
        assert reached.wait(60)
        process.send_signal(signal.SIGKILL)
    release.set()
    assert len((out / "journal.jsonl").read_text("utf-8").splitlines()) == n_answered

    assert run(docs, out) == 0

    fake.says = ask
    run(docs, tmp_path / "whole")
    assert files(out) == files(tmp_path / "whole")


def test_two_runs_on_one_folder_do_not_pay_twice(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []

    def says(messages: list[Message]) -> str:
        if len(fake.bodies) == 1:
            codes.append(run(docs, tmp_path / "out"))
        return ask(messages)

    fake.says = says

    assert run(docs, tmp_path / "out", "--concurrency", "1") == 0

    assert (codes, len(fake.bodies)) == ([2], 8)
    assert f"another run is at work in {tmp_path / 'out'}" in capsys.readouterr().err


def test_an_interrupt_does_not_wait_for_the_model(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    release, reached = threading.Event(), threading.Event()

    def says(messages: list[Message]) -> str:
        reached.set()
        release.wait(60)
        return ask(messages)

    fake.says = says
    arguments = ["build-set", str(docs), "--out", str(tmp_path / "out"), "--llm", "openai:writer"]
    interrupt(arguments, reached, release)


@pytest.mark.parametrize(
    "damage",
    [
        {"questions": None},
        {"questions": []},
        {"questions": [{"style": "question"}]},
        {"questions": [{"style": "question", "text": 1}]},
        {"questions": [{"style": "question", "text": "x", "more": 1}]},
        {"questions": ["x"]},
    ],
)
def test_a_damaged_record_of_the_journal_is_asked_again(
    docs: Path, tmp_path: Path, fake: FakeChat, damage: dict[str, Any]
) -> None:
    out = tmp_path / "out"
    run(docs, out)
    before = files(out)
    (out / "build.json").unlink()
    first, *others = rows(out / "journal.jsonl")
    lines = (json.dumps(row) + "\n" for row in [first | damage, *others])
    (out / "journal.jsonl").write_text("".join(lines), "utf-8")
    fake.bodies.clear()

    assert run(docs, out) == 0

    assert len(fake.bodies) == 1
    assert files(out) == before


def test_an_empty_answer_is_unreadable_and_asked_again_by_the_next_run(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.says = lambda messages: '{"questions": []}'
    assert run(docs, tmp_path / "out") == 3
    assert "chunks whose answers could not be used: 8 " in capsys.readouterr().err
    assert len(fake.bodies) == 16

    fake.says = ask
    assert run(docs, tmp_path / "out") == 0


def test_a_file_name_that_is_not_utf_8_is_left_out_and_the_set_written(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    name = os.path.join(os.fsencode(docs), b"caf\xe9.md")
    with open(name, "wb") as file:
        file.write(b"# Coffee\n\nCoffee is served from eight to ten in the kitchen upstairs.")

    assert run(docs, tmp_path / "out") == 0

    (left_out,) = record(tmp_path / "out")["skipped"]
    assert left_out["source"] == "caf?.md"


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_torn_journal_costs_one_question(
    docs: Path, tmp_path: Path, fake: FakeChat, cut: int
) -> None:
    out = tmp_path / "out"
    run(docs, out)
    before = files(out)
    (out / "build.json").unlink()
    journal = out / "journal.jsonl"
    n_lines = len(journal.read_bytes()[:-cut].split(b"\n")) - 1
    journal.write_bytes(journal.read_bytes()[:-cut])
    fake.bodies.clear()

    assert run(docs, out) == 0

    assert len(fake.bodies) == 8 - n_lines
    assert files(out) == before
    assert len(rows(journal)) == 8


def test_answers_about_other_texts_are_not_used_and_said(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run(docs, out)
    (out / "build.json").unlink()
    (docs / "quota.md").write_text("# The quota\n\nThe quota is now ten times as large as before.")
    fake.bodies.clear()

    assert run(docs, out) == 0

    assert len(fake.bodies) == 1
    assert (
        "answers in the journal about other texts or settings, not used: 1\n"
        in capsys.readouterr().out
    )


def test_a_text_that_the_server_refuses_is_named_and_the_others_stay(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.refuses = lambda messages: "content_filter" if "quota" in passage_of(messages) else ""

    assert run(docs, tmp_path / "out") == 0

    assert record(tmp_path / "out")["refused"] == ["quota.md#0000"]
    assert "chunks the server refused: 1 (quota.md#0000)" in capsys.readouterr().out


def test_a_server_that_refuses_all_is_an_error(docs: Path, tmp_path: Path, fake: FakeChat) -> None:
    fake.refuses = lambda messages: "no"

    with pytest.raises(ProviderError, match="answered 400"):
        build(docs, tmp_path / "out", Options(concurrency=1), writer(fake), nothing)

    assert 5 <= len(fake.bodies) < 8  # those under way when the fifth was refused


@pytest.mark.parametrize("n_answered", [1, 3])
def test_a_server_that_starts_to_refuse_is_an_error_and_the_same_command_goes_on(
    docs: Path, tmp_path: Path, fake: FakeChat, n_answered: int
) -> None:
    """As with 400 when credit runs out: five in a row, and no set of the few before them."""
    out, options = tmp_path / "out", Options(concurrency=1)
    fake.refuses = lambda messages: "no credit" if len(fake.bodies) > n_answered else ""

    with pytest.raises(ProviderError, match="no credit") as caught:
        build(docs, out, options, writer(fake), nothing)
    assert "same command" in caught.value.hint
    assert not (out / "build.json").exists()

    fake.refuses = lambda messages: ""
    assert build(docs, out, options, writer(fake), nothing).n_reused == n_answered
    build(docs, tmp_path / "whole", options, writer(fake), nothing)
    assert files(out) == files(tmp_path / "whole")


def test_answers_of_an_earlier_run_do_not_hide_a_server_that_refuses_all(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    out, options = tmp_path / "out", Options(concurrency=1)
    fake.dies_after = 2
    with pytest.raises(ProviderError):
        build(docs, out, options, writer(fake), nothing)
    fake.dies_after, fake.refuses = None, lambda messages: "no credit"

    with pytest.raises(ProviderError, match="no credit"):
        build(docs, out, options, writer(fake), nothing)

    assert not (out / "build.json").exists()


def test_refusals_that_are_not_in_a_row_do_not_end_the_run(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    """Requests 2, 3, 4, 5 and 7 of eight: five refusals, four of them in a row."""
    fake.refuses = lambda messages: "filter" if len(fake.bodies) in (2, 3, 4, 5, 7) else ""

    build(docs, tmp_path / "out", Options(concurrency=1), writer(fake), nothing)

    assert record(tmp_path / "out")["counts"]["chunks_refused"] == 5


@pytest.mark.parametrize("fault", ["refused", "unreadable"])
def test_the_same_command_asks_again_about_a_chunk_without_an_answer(
    docs: Path,
    tmp_path: Path,
    fake: FakeChat,
    fault: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if fault == "refused":
        fake.refuses = lambda messages: "filter" if "quota" in passage_of(messages) else ""
    else:
        fake.says = lambda messages: "" if "quota" in passage_of(messages) else ask(messages)
    out = tmp_path / "out"
    assert run(docs, out, "--quiet") == 0
    assert record(out)[fault] == ["quota.md#0000"]
    assert "quota.md#0000" in capsys.readouterr().out
    fake.refuses, fake.says = lambda messages: "", ask
    fake.bodies.clear()

    assert run(docs, out) == 0

    assert len(fake.bodies) == 1
    run(docs, tmp_path / "whole")
    assert files(out) == files(tmp_path / "whole")


def test_a_chunk_refused_again_leaves_the_set_as_it_is(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests 2, 3, 4, 5 and 7; alone in the second run, they are five in a row."""
    fake.refuses = lambda messages: "filter" if len(fake.bodies) in (2, 3, 4, 5, 7) else ""
    out = tmp_path / "out"
    assert run(docs, out, "--concurrency", "1") == 0
    before = files(out)
    fake.refuses = lambda messages: "filter"

    assert run(docs, out, "--concurrency", "1") == 0

    assert files(out) == before
    assert "warning: chunks the server refused: 5 (" in capsys.readouterr().out


def test_a_set_that_somebody_changed_is_not_written_anew_for_a_chunk_without_an_answer(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.refuses = lambda messages: "filter" if "quota" in passage_of(messages) else ""
    out = tmp_path / "out"
    run(docs, out)
    qrels = (out / "qrels.tsv").read_text("utf-8") + "backup.md#0000.1\tquota.md#0000\t1\n"
    (out / "qrels.tsv").write_text(qrels, "utf-8")
    fake.refuses = lambda messages: ""
    capsys.readouterr()

    assert run(docs, out) == 0

    assert (out / "qrels.tsv").read_text("utf-8") == qrels
    printed = capsys.readouterr().out
    assert "finished already" in printed
    assert "warning: chunks the server refused: 1 (quota.md#0000)" in printed


def test_a_set_without_a_question_is_never_written(
    docs: Path, tmp_path: Path, fake: FakeChat
) -> None:
    fake.says = lambda messages: "I cannot do that."

    assert run(docs, tmp_path / "out") == 3

    assert not (tmp_path / "out" / "build.json").exists()
    assert not (tmp_path / "out" / "queries.jsonl").exists()


def test_a_folder_with_other_files_is_left_alone(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build-set", str(docs), "--out", str(docs)]) == 2

    assert "holds other files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "journal",
    [
        b'{"day": 1}\n{"day": 2, "mine": "precious, no newline at the end"}',
        b'{"key": "1"}\n',
        b"mine",
        b"\0" * 100,
    ],
)
def test_a_journal_of_somebody_else_is_left_alone(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], journal: bytes
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "journal.jsonl").write_bytes(journal)

    assert main(["build-set", str(docs), "--out", str(out)]) == 2

    assert "holds other files (journal.jsonl)" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["journal.jsonl"]
    assert (out / "journal.jsonl").read_bytes() == journal


def test_files_beside_a_journal_that_holds_no_answer_are_left_alone(
    docs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "journal.jsonl").touch()
    (out / "queries.jsonl").write_text("mine", "utf-8")

    assert main(["build-set", str(docs), "--out", str(out)]) == 2

    assert (out / "queries.jsonl").read_text("utf-8") == "mine"


def test_a_file_that_is_none_of_the_set_beside_the_journal_is_exit_2(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    main(["build-set", str(docs), "--out", str(out)])
    (out / "build.json").unlink()
    (out / "notes.txt").write_text("mine", "utf-8")

    assert main(["build-set", str(docs), "--out", str(out)]) == 2

    assert "holds other files (notes.txt)" in capsys.readouterr().err


@pytest.mark.parametrize("left", ["journal.jsonl", ".embed-ab-a1b2c3"])
def test_what_a_run_that_was_killed_early_leaves_is_no_other_file(
    docs: Path, tmp_path: Path, left: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / left).touch()

    assert main(["build-set", str(docs), "--out", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    "damage",
    [
        {"counts": {}},
        {"options": ["x"]},
        {"options": {}},
        {"copy_share": {"median": "x", "at_least_half": "y"}},
        {"skipped": [{"source": "x"}]},
        {"unjudged": None},
        {"model": 1},
    ],
)
def test_a_damaged_record_is_exit_2(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: dict[str, Any]
) -> None:
    out = tmp_path / "out"
    main(["build-set", str(docs), "--out", str(out)])
    (out / "build.json").write_text(json.dumps(record(out) | damage), "utf-8")

    assert main(["build-set", str(docs), "--out", str(out)]) == 2
    assert "build.json: not a record of build-set" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "", "9" * 5_000, '"\\ud800"'])
def test_what_is_no_record_at_all_is_exit_2(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "build.json").write_text(content, "utf-8")

    assert main(["build-set", str(docs), "--out", str(tmp_path)]) == 2
    assert "build.json: not a record of build-set" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_finished_set_that_lacks_a_file_is_exit_2_and_can_be_written_anew(
    docs: Path, tmp_path: Path, fake: FakeChat, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    out = tmp_path / "out"
    run(docs, out)
    before = files(out)
    (out / name).unlink()

    assert run(docs, out) == 2

    err = capsys.readouterr().err
    assert name in err
    assert f"Delete {out / 'build.json'}" in err
    (out / "build.json").unlink()
    fake.bodies.clear()
    assert run(docs, out) == 0
    assert (files(out), fake.bodies) == (before, [])


def test_the_output_may_lie_among_the_documents(docs: Path, tmp_path: Path, fake: FakeChat) -> None:
    assert run(docs, docs / "eval") == 0
    (docs / "eval" / "build.json").unlink()

    assert run(docs, docs / "eval") == 0
    assert record(docs / "eval")["counts"]["files"] == 8


@pytest.mark.parametrize(
    "words",
    [
        ["--chunk-chars", "10"],
        ["--per-chunk", "0"],
        ["--max-copy", "1.5"],
        ["--max-copy", "nan"],
        ["--max-chunks", "0"],
        ["--language", "klingon!"],
        ["--llm", "st:model"],
    ],
)
def test_a_wrong_setting_is_exit_2_and_writes_nothing(
    docs: Path, tmp_path: Path, words: list[str]
) -> None:
    assert run(docs, tmp_path / "out", *words) == 2
    assert not (tmp_path / "out").exists()


def test_a_number_out_of_bounds_is_told_its_default(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(docs, tmp_path / "out", "--chunk-chars", "10") == 2

    err = capsys.readouterr().err
    assert "--chunk-chars 10 is not from 100 to 20,000" in err
    assert "hint: Leave it out to have the default, 600." in err


def test_progress_counts_what_the_journal_holds(docs: Path, tmp_path: Path, fake: FakeChat) -> None:
    seen: list[tuple[int, int]] = []
    build(docs, tmp_path / "out", Options(), writer(fake), nothing)
    (tmp_path / "out" / "build.json").unlink()
    journal = tmp_path / "out" / "journal.jsonl"
    journal.write_text("".join(journal.read_text("utf-8").splitlines(True)[:6]), encoding="utf-8")

    build(
        docs,
        tmp_path / "out",
        Options(),
        writer(fake),
        lambda what, done, total: seen.append((done, total)),
    )

    assert seen == [(6, 8), (7, 8), (8, 8)]


def test_an_unwritable_place_is_an_input_error(docs: Path, fake: FakeChat) -> None:
    with pytest.raises(InputError, match="/proc"):
        build(docs, Path("/proc/none/out"), Options(), writer(fake), nothing)


def test_texts_and_keys_are_not_in_the_output(
    docs: Path,
    tmp_path: Path,
    fake: FakeChat,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")

    run(docs, tmp_path / "out")

    printed = "".join(capsys.readouterr())
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert "trouble with" not in printed
    assert "sk-secret-key" not in printed
    assert b"sk-secret-key" not in written
