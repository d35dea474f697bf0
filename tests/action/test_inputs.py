"""Inputs to settings: spelling, layers, and what a pull request cannot reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from embed_ab.action import inputs
from embed_ab.errors import InputError
from embed_ab.settings import Settings, key_of, writes_files


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    (folder / "eval/qrels").mkdir(parents=True)
    (folder / "eval/corpus.jsonl").write_text("{}")
    monkeypatch.chdir(folder)
    return folder


def settings(workspace: Path, **given: str) -> Settings:
    environ = {f"INPUT_{name.upper().replace('_', '-')}": text for name, text in given.items()}
    return inputs.settings(environ, inputs.publishing(environ), workspace)


def test_every_setting_of_a_comparison_is_an_input() -> None:
    fixed = {"report", "json", "quiet"}  # the report folder has fixed names in it
    keys = {key_of(name) for name in Settings.model_fields}

    assert set(inputs.comparison_keys()) == keys - fixed
    assert all(writes_files(name) for name in ("report", "json_file", "quiet"))


def test_no_publishing_input_has_the_name_of_a_setting() -> None:
    assert not set(inputs.publishing_keys()) & set(inputs.comparison_keys())


def test_blanks_around_a_value_do_not_count(workspace: Path) -> None:
    assert settings(workspace, k=" 5\n").k == 5


def test_an_empty_input_is_none(workspace: Path) -> None:
    assert settings(workspace, k="", metrics=" ").k == 10


def test_a_prompt_keeps_its_last_blank(workspace: Path) -> None:
    assert settings(workspace, a_query_prompt="query: \n").a_query_prompt == "query: "


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("TRUE", True)])
def test_switches(workspace: Path, text: str, value: bool) -> None:
    assert settings(workspace, cache=text).cache is value


@pytest.mark.parametrize("text", ["yes", "1", "on", "0", "tru"])
def test_nothing_else_is_a_switch(workspace: Path, text: str) -> None:
    with pytest.raises(InputError, match="input cache: Input should be true or false"):
        settings(workspace, cache=text)


def test_lists_come_with_commas_or_lines(workspace: Path) -> None:
    found = settings(workspace, metrics="ndcg@10, recall@5", gate="ndcg@10:0.02\nhit@1:0.1")

    assert (found.metrics, found.gate) == (("ndcg@10", "recall@5"), ("ndcg@10:0.02", "hit@1:0.1"))


def test_an_error_names_the_input_or_the_file(workspace: Path) -> None:
    (workspace / ".embed-ab.yml").write_text("seed: many\n")
    with pytest.raises(InputError, match=r"^\.embed-ab\.yml: seed: "):
        settings(workspace)


def test_uses_with_keys_write_to_folders_of_their_own(workspace: Path) -> None:
    first = settings(workspace, comment_key="ko", strategy_index="2").out

    assert first == "embed-ab-report-ko.leg.2"
    assert settings(workspace).out == "embed-ab-report"


def test_no_key_equals_that_of_a_leg() -> None:
    legs = [
        {"INPUT_STRATEGY-INDEX": "1"},
        {"INPUT_COMMENT-KEY": "leg1"},
        {"INPUT_COMMENT-KEY": "1"},
    ]

    assert len({inputs.publishing(environ).key for environ in legs}) == 3


def test_both_spellings_of_the_gate_are_inputs(workspace: Path) -> None:
    assert settings(workspace, fail_if_worse="ndcg@10:0.02").gate == ("ndcg@10:0.02",)


def test_a_gate_is_not_given_twice(workspace: Path) -> None:
    with pytest.raises(InputError, match="given twice"):
        settings(workspace, fail_if_worse="ndcg@10:0.02", gate="ndcg@10:0.1")


@pytest.mark.parametrize("text", [",", " , ", ",\n,"])
def test_a_gate_of_nothing_is_an_error(workspace: Path, text: str) -> None:
    """Two variables that are not set, joined by a comma, must not switch the gate off."""
    with pytest.raises(InputError, match="input gate: Input should name at least one"):
        settings(workspace, gate=text)


@pytest.mark.parametrize("name", ["gates", "GATE_", "model_a", "fail-if-wrose", "comment_key"])
def test_a_misspelt_input_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match="did you mean"):
        inputs.unknown({f"INPUT_{name.upper()}": "x"})


@pytest.mark.parametrize("name", ["args", "entrypoint", "gate", "fail-if-worse", "mode", "k"])
def test_what_is_known_is_not_strange(name: str) -> None:
    assert inputs.unknown({f"INPUT_{name.upper()}": "x"}) == []


def test_the_variable_of_somebody_else_is_only_named() -> None:
    assert inputs.unknown({"INPUT_DIRECTORY_TO_SCAN": "x", "INPUT_EMPTY_THING": ""}) == [
        "directory_to_scan"
    ]


def test_no_file_is_read_where_inputs_alone_decide(workspace: Path) -> None:
    (workspace / ".embed-ab.yml").write_text("min-queries: 100000\n")

    assert settings(workspace, config="none").min_queries == 10


def test_a_link_to_a_folder_inside_is_followed(workspace: Path) -> None:
    (workspace / "x").mkdir()
    (workspace / "x/test.tsv").symlink_to("/etc/passwd")
    (workspace / "eval/qrels").rmdir()
    (workspace / "eval/qrels").symlink_to("../x")

    with pytest.raises(InputError, match="leads out of the workspace"):
        settings(workspace, eval_path="eval")


@pytest.mark.parametrize("key", ["../x", "a b", "a.b", "a/b", "x" * 61, "$(id)", "<!--"])
def test_a_comment_key_is_a_plain_word(workspace: Path, key: str) -> None:
    with pytest.raises(InputError, match="input comment-key"):
        settings(workspace, comment_key=key)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("eval_path", "../elsewhere"),
        ("eval_path", "/etc"),
        ("out", "../report"),
        ("out", "/tmp/report"),
        ("out", "."),
        ("out", "eval/.."),
        ("runs", "/tmp"),
        ("config", "../settings.yml"),
        ("config", "/etc/passwd"),
        ("model_b", "rerank(bm25:auto, scores:../scores.tsv)"),
        ("model_b", "rerank(bm25:auto, ce:../model)"),
        ("model_b", "st:../model"),
        ("model_b", "st:/tmp"),
        ("model_b", "st:~/model"),
        ("model_b", "vectors:../model"),
        ("model_b", "run:../settings.yml"),
        ("model_b", "run:~/a.trec"),
        ("model_b", "rrf(bm25:auto, run:/etc/passwd)"),
        ("model_b", "rrf(bm25:auto, blend(st:../model, bm25:word))"),
        ("model_b", "rerank(bm25:auto, scores:../settings.yml)"),
    ],
)
def test_no_path_leads_out_of_the_workspace(workspace: Path, key: str, path: str) -> None:
    (workspace.parent / "model").mkdir()
    (workspace.parent / "settings.yml").write_text("k: 5\n")

    with pytest.raises(InputError, match="workspace"):
        settings(workspace, **{key: path})


@pytest.mark.parametrize(
    ("link", "target", "given"),
    [
        (".embed-ab.yml", "/proc/self/environ", {}),
        ("eval/queries.jsonl", "/proc/self/environ", {"eval_path": "eval"}),
        ("eval/qrels/test.tsv", "/proc/self/environ", {"eval_path": "eval"}),
        ("set", "/proc/self", {"eval_path": "set"}),
        ("eval/queries.jsonl", "queries.jsonl", {"eval_path": "eval"}),
        ("model/config.json", "/proc/self/environ", {"model_a": "st:model"}),
        ("model", "/tmp", {"model_a": "st:model"}),
        ("model", "model", {"model_a": "st:model"}),
        ("embed-ab-report", "/tmp", {}),
        ("embed-ab-report", "eval", {}),
        ("embed-ab-report/report.html", "../.git/config", {}),
        ("embed-ab-report/comment.md", "/tmp/x", {}),
        ("a/b", "../eval", {"out": "a/b/c"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_link_leads_out_of_the_workspace(
    workspace: Path, link: str, target: str, given: dict[str, str]
) -> None:
    """The environment of the process holds the token; the runner's files lie beside."""
    (workspace / link).parent.mkdir(exist_ok=True)
    (workspace / link).symlink_to(target)

    with pytest.raises(InputError, match=r"leads out of the workspace|link"):
        settings(workspace, **given)


def test_a_link_inside_the_workspace_may_be_read(workspace: Path) -> None:
    (workspace / "shared.jsonl").write_text("{}")
    (workspace / "eval/queries.jsonl").symlink_to("../shared.jsonl")

    assert settings(workspace, eval_path="eval").eval_path == "eval"


def test_permissions_and_places_are_not_read_from_the_file(workspace: Path) -> None:
    for key in ("out: x", "a-trust-remote-code: true", "b-allow-pickle: true"):
        (workspace / ".embed-ab.yml").write_text(f"{key}\n")
        with pytest.raises(InputError, match="not read from a file"):
            settings(workspace)
