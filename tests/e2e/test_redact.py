"""With --redact no output holds a text of a query or a document; canaries in each prove it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import embed_ab
from embed_ab import commands, result_json
from embed_ab.cli import main
from embed_ab.errors import ProviderError
from embed_ab.evalset import from_records
from embed_ab.providers.base import Embedded
from embed_ab.providers.mock import MockEmbedder
from embed_ab.registry import EMBEDDERS
from embed_ab.settings import Settings

LATIN, HANGUL = "quokkacanary", "카나리아"
CANARY = f"Quokkacanary {HANGUL} <b>&"
PLAIN = re.compile(r"\\u([0-9a-fA-F]{4})")

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "d1", "title": f"{CANARY} kettle", "text": f"{CANARY} descale the kettle with vinegar"},
    {"_id": "d2", "text": f"{CANARY} the warranty covers the boiler for two years"},
    {"_id": "d3", "text": f"{CANARY} the warranty covers the boiler, for two years!"},
    {"_id": "d4", "title": "", "text": f"{CANARY} 주전자에서 소리가 나면 전원을 확인합니다"},
    {"_id": "d5", "title": f"{CANARY} filters", "text": f"{CANARY} change the filter each month"},
    {"_id": "d6", "text": "", "topic": f"{CANARY} empty"},
    {"_id": "d7", "text": f"{CANARY} endless manual " * 5_000},
    {"_id": "d8", "text": f"{CANARY} kettles", "metadata": {"author": CANARY}},
    {"_id": "d9", "text": f"{CANARY} 7 9"},
]
QUERIES: list[dict[str, Any]] = [
    {"_id": "q1", "text": f"{CANARY} kettel descalling", "topic": f"{CANARY} care"},
    {"_id": "q2", "text": f"{CANARY} warranty of the boiler", "topic": f"{CANARY} papers"},
    {"_id": "q3", "text": f"{CANARY} 주전자 소리", "metadata": {"topic": f"{CANARY} noise"}},
    {"_id": "q4", "text": f"{CANARY} how often do I change filters", "topic": f"{CANARY} care"},
    {"_id": "q5", "text": f"{CANARY} nobody judged this", "topic": f"{CANARY} other"},
    {"_id": "q6", "text": f"{CANARY} warranty of the boiler", "topic": f"{CANARY} papers"},
    {"_id": "q7", "text": f"{CANARY} 7 9"},  # BM25 knows no words of one letter
]
QRELS = [
    "q1\td1\t2",
    "q2\td3\t1",
    "q2\td6\t1",
    "q3\td4\t1",
    "q4\td5\t1",
    "q5\td2\t0",
    "q6\td2\t1",
    "q7\td9\t1",
]


def holds_a_text(output: str) -> bool:
    r"""Whether a canary is there in any case, in HTML escapes of any depth, or as \uXXXX."""
    for _ in range(3):
        output = PLAIN.sub(lambda m: chr(int(m[1], 16)), html.unescape(output))
    output = output.casefold()
    return LATIN in output or HANGUL in output


def write(folder: Path, **files: str) -> Path:
    """An evaluation set whose every text is a canary; `files` replaces the content of some."""
    folder.mkdir()
    contents = {
        "corpus.jsonl": "\n".join(json.dumps(record) for record in DOCUMENTS),
        "queries.jsonl": "\n".join(json.dumps(r, ensure_ascii=False) for r in QUERIES),
        "qrels.tsv": "\n".join(["Quokkacanary frage\tDokument\tNote", *QRELS]),
    }
    contents |= {name.replace("_", "."): content for name, content in files.items()}
    for name, content in contents.items():
        (folder / name).write_text(content, "utf-8")
    return folder


def words(folder: Path, *more: str) -> list[str]:
    models = ["-a", "bm25:auto", "-b", "mock:word", "--no-positive", "exclude", "-k", "2"]
    by_topic = ["--cluster-by", "topic", "--slice", "topic", "--min-queries", "1"]
    return ["compare", str(folder), *models, *by_topic, *more]


@pytest.fixture
def evalset(tmp_path: Path) -> Path:
    return write(tmp_path / "set")


def outputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """Names and contents of all files of a folder, and of what was printed."""
    printed = capsys.readouterr()
    yield from (("stdout", printed.out), ("stderr", printed.err))
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name, path.read_text("utf-8")


@pytest.mark.parametrize(
    "output",
    [
        "QUOKKACANARY",
        f"&lt;b&gt;{HANGUL}",
        "&amp;#52852;&amp;#45208;리아",
        json.dumps(HANGUL),
        html.escape(json.dumps(HANGUL)),
    ],
)
def test_the_search_sees_through_case_and_escapes(output: str) -> None:
    assert holds_a_text(output)


def test_without_redact_every_output_holds_texts(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the search below could not fail; a lost and a won query are among them."""
    assert main(words(evalset, "--out", str(tmp_path / "out"))) == 0

    holding = {name for name, text in outputs(tmp_path / "out", capsys) if holds_a_text(text)}
    assert holding == {"stdout", "report.html", "result.json", "comment.md"}
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert all(kind in report for kind in ("B loses</td>", "B wins</td>", "– excluded</td>"))


def test_with_redact_no_file_and_no_line_holds_a_text(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    files = ["--out", str(out), "--runs", str(out / "runs")]

    assert main(words(evalset, *files, "--redact", "--fail-if-worse", "hit@1:0.5")) == 0

    found = dict(outputs(out, capsys))
    assert set(found) >= {"stdout", "report.html", "result.json", "comment.md", "a.trec"}
    assert [name for name, text in found.items() if holds_a_text(text)] == []
    assert "d3" in found["report.html"]


def test_with_redact_no_file_and_no_line_of_a_matrix_holds_a_text(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = ["bm25:auto", "mock:word", "mock:char3,precision=int8", "--cluster-by", "topic"]
    more = ["--no-positive", "exclude", "-k", "2", "--out", str(tmp_path / "out")]
    given = ["matrix", str(evalset), *systems, *more]

    assert main(given) == 0
    assert any(holds_a_text(text) for _, text in outputs(tmp_path / "out", capsys))
    assert main([*given, "--redact"]) == 0
    assert [n for n, text in outputs(tmp_path / "out", capsys) if holds_a_text(text)] == []


def test_what_is_made_from_a_redacted_result_stays_redacted(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    result = str(out / "result.json")
    main(words(evalset, "--out", str(out), "--redact"))

    assert main(["gate", result, "--fail-if-worse", "hit@2:0.9"]) == 0
    assert main(["gate", result, "--fail-if-worse", "hit@2[topic=slice 1]:0.9"]) == 0
    assert main(["report", result, "--no-redact", "--out", str(out / "again")]) == 0

    assert [name for name, text in outputs(out, capsys) if holds_a_text(text)] == []
    for name in ("report.html", "result.json", "comment.md"):
        assert (out / "again" / name).read_bytes() == (out / name).read_bytes(), name


def test_a_result_is_redacted_afterwards_as_compare_would_have(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, flags in (("whole", []), ("redacted", ["--redact"])):
        main(words(evalset, "--out", str(tmp_path / name), *flags))
    capsys.readouterr()

    again = tmp_path / "again"
    result = str(tmp_path / "whole" / "result.json")
    assert main(["report", result, "--redact", "--out", str(again)]) == 0

    assert [name for name, text in outputs(again, capsys) if holds_a_text(text)] == []
    one, two = (result_json.load(f / "result.json") for f in (again, tmp_path / "redacted"))
    assert one.measured != {}
    assert {**vars(one), "measured": {}} == {**vars(two), "measured": {}}
    assert (again / "comment.md").read_bytes() == (
        tmp_path / "redacted" / "comment.md"
    ).read_bytes()


def test_a_result_that_says_it_is_redacted_shows_no_text_that_somebody_put_in(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(words(evalset, "--out", str(tmp_path / "out")))
    capsys.readouterr()
    result = json.loads((tmp_path / "out" / "result.json").read_text("utf-8"))
    result["settings"]["redact"] = True
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(result), "utf-8")

    assert main(["report", str(path), "--out", str(tmp_path / "again")]) == 0

    assert [n for n, text in outputs(tmp_path / "again", capsys) if holds_a_text(text)] == []


def test_the_printed_command_redacts_again(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(words(evalset, "--out", str(tmp_path / "out"), "--redact", "--worst-queries", "3"))

    comparison = result_json.load(tmp_path / "out" / "result.json")
    assert comparison.command.endswith(" --worst-queries 3 --redact")
    assert comparison.settings["redact"] is True


def test_the_config_file_may_ask_for_it(
    evalset: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".embed-ab.yml").write_text("redact: true\n")

    assert main(words(evalset, "--out", "out")) == 0

    assert [n for n, text in outputs(tmp_path / "out", capsys) if holds_a_text(text)] == []


def test_the_notebook_shows_no_text() -> None:
    evalset = from_records(
        {record["_id"]: record for record in map(dict, DOCUMENTS)},
        {record["_id"]: record for record in map(dict, QUERIES)},
        {"q1": {"d1": 1}, "q3": {"d4": 1}, "q4": {"d5": 1}},
        no_positive="exclude",
    )

    shown = {
        redact: embed_ab.compare(
            evalset, "bm25:word", "mock:char3", k=2, cache=False, redact=redact
        )._repr_html_()
        for redact in (False, True)
    }

    assert {redact: holds_a_text(text) for redact, text in shown.items()} == {
        False: True,
        True: False,
    }


def test_the_demo_can_be_redacted(tmp_path: Path) -> None:
    assert main(["demo", "--redact", "--out", str(tmp_path)]) == 0

    comparison = result_json.load(tmp_path / "result.json")
    assert comparison.command == "embed-ab demo --lang en --redact"
    assert {row.text for row in comparison.queries} == {""}


def test_check_shows_no_text(evalset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(evalset), "--no-positive", "exclude"]) == 0

    printed = capsys.readouterr()
    assert not holds_a_text(printed.out + printed.err)


# Errors. Our own never quote a text, whether --redact is given or not; what others say, with it.


def changed(line: str, number: int = 1) -> str:
    records = [json.dumps(record) for record in DOCUMENTS]
    return "\n".join([*records[: number - 1], line, *records[number:]])


@pytest.mark.parametrize(
    "files",
    [
        {"corpus_jsonl": changed(json.dumps(CANARY))},
        {"corpus_jsonl": changed(json.dumps([CANARY]))},
        {"corpus_jsonl": changed(f"d1 {CANARY}")},
        {"corpus_jsonl": changed(f'{{"_id": "d1", "text": "{CANARY}')},
        {"corpus_jsonl": changed(json.dumps({"_id": "d1", "text": [CANARY]}))},
        {"corpus_jsonl": changed(json.dumps({"_id": "d1", "text": {CANARY: 1}}))},
        {"corpus_jsonl": changed(json.dumps({"_id": "d1", "text": "", "title": [CANARY]}))},
        {"corpus_jsonl": changed(json.dumps({CANARY: "d1"}))},
        {"corpus_jsonl": changed(json.dumps({HANGUL * 4: "d1"}))},
        {"corpus_jsonl": changed(f'{{"{CANARY}": 1, "{CANARY}": 2}}')},
        {"corpus_jsonl": changed(json.dumps({"_id": "d1", "text": CANARY + "\ud83d"}))},
        {
            "corpus_jsonl": changed(
                json.dumps({"_id": "d1", "text": "", CANARY: 1, "metadata": {CANARY: 2}})
            )
        },
        {"corpus_jsonl": changed(json.dumps({"_id": "d1", "text": CANARY}), 2)},
        {"queries_jsonl": json.dumps({"_id": "q1", "text": CANARY, "x": f"\ud83d{CANARY}"})},
        {"queries_jsonl": json.dumps({"_id": "q1", "question": CANARY})},
        {"qrels_tsv": f"q1\td1\t{CANARY}\nq2\td2\t{CANARY}"},
        {"qrels_tsv": f"{CANARY}\t{CANARY}\t1"},
        {"qrels_tsv": f"q1\t{CANARY}\t1"},
        {"qrels_tsv": f"q1\td1\t1\nq2\t{CANARY} corpus\t{CANARY}"},
        {"qrels_tsv": f"{CANARY}\t{CANARY}\tcorpus {CANARY}"},
        {"qrels_tsv": f"q1\t{CANARY}\td1\t1"},
        {"qrels_tsv": f"{CANARY}"},
    ],
)
def test_an_input_error_names_the_line_and_quotes_no_text(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "set", **files)

    assert main(words(folder)) == 2

    printed = capsys.readouterr()
    assert re.search(r"(jsonl|tsv):\d+: ", printed.err)
    assert not holds_a_text(printed.out + printed.err)


def test_the_notice_of_documents_that_do_not_exist_quotes_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such an id may be a text: qrels with texts in place of ids are easily made."""
    folder = write(
        tmp_path / "set", qrels_tsv="\n".join([*QRELS, f"q1\t{CANARY}\t1", "q1\td99\t1"])
    )
    out = tmp_path / "out"

    assert main(words(folder, "--allow-missing-docs", "--redact", "--out", str(out))) == 0

    found = dict(outputs(out, capsys))
    assert [name for name, text in found.items() if holds_a_text(text)] == []
    assert f"({len(CANARY)} characters), 'd99'." in found["stdout"]


def test_a_field_without_values_quotes_none(
    evalset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words(evalset), "--cluster-by", "nothing"]) == 2

    printed = capsys.readouterr()
    assert "topic" in printed.err
    assert not holds_a_text(printed.err)


def test_a_broken_result_quotes_no_text(
    evalset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(words(evalset, "--out", str(tmp_path / "out")))
    path = tmp_path / "out" / "result.json"
    result = json.loads(path.read_text("utf-8"))
    result["queries"][0]["text"] = [CANARY]
    path.write_text(json.dumps(result), "utf-8")
    capsys.readouterr()

    assert main(["report", str(path), "--redact"]) == 2

    printed = capsys.readouterr()
    assert "queries.0.text" in printed.err
    assert not holds_a_text(printed.out + printed.err)


class Parrot(MockEmbedder):
    """A model that fails and says on what."""

    def __init__(self, failure: Callable[[str], Exception]) -> None:
        super().__init__("word")
        object.__setattr__(self, "failure", failure)

    def embed(self, texts: Any, role: Any) -> Embedded:
        raise self.failure(texts[0])  # type: ignore[attr-defined]


FAILURES: list[Callable[[str], Exception]] = [
    lambda text: ProviderError("model 'parrot' could not embed", said=text),
    lambda text: ValueError(f"cannot read {text}"),
]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(("flags", "is_quoted"), [([], True), (["--redact"], False)])
def test_what_a_model_says_of_a_text_is_shown_unless_texts_are_redacted(
    failure: Callable[[str], Exception],
    flags: list[str],
    is_quoted: bool,
    evalset: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(EMBEDDERS, "mock", lambda spec, side: Parrot(failure))

    assert main(words(evalset, "--no-cache", *flags)) == 3

    printed = capsys.readouterr()
    assert ("parrot" in printed.err) or ("ValueError" in printed.err)
    assert holds_a_text(printed.out + printed.err) == is_quoted


def test_what_a_model_says_is_no_cause_of_the_error_in_a_notebook(
    evalset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback would show the cause."""
    monkeypatch.setitem(EMBEDDERS, "mock", lambda spec, side: Parrot(FAILURES[0]))
    settings = Settings(
        eval_path=str(evalset),
        model_a="mock:word",
        model_b="mock:word",
        no_positive="exclude",
        cache=False,
        redact=True,
    )

    with pytest.raises(ProviderError) as caught:
        commands.compare(settings)

    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None
