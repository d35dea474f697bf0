"""The action from its variables to every surface."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from fake_github import REPOSITORY
from fake_results import Reply
from workflow import FAILS, HEAD, PASSES, Workflow

from embed_ab.action.surfaces import OUTPUTS
from embed_ab.providers.mock import MockEmbedder

ROOT = Path(__file__).parents[2]


def artifact_of(workflow: Workflow) -> zipfile.ZipFile:
    (made,) = workflow.results.artifacts
    return zipfile.ZipFile(io.BytesIO(made.content))


def test_a_pass_is_exit_code_0(workflow: Workflow) -> None:
    ran = workflow.run(**PASSES, gate="ndcg@10:0.02")

    assert (ran.code, ran.outputs["outcome"]) == (0, "pass")


def test_a_failed_gate_is_exit_code_1(workflow: Workflow) -> None:
    ran = workflow.run(**FAILS)

    assert (ran.code, ran.outputs["outcome"]) == (1, "fail")


def test_a_failed_gate_lets_the_step_pass_on_request(workflow: Workflow) -> None:
    ran = workflow.run(**FAILS, fail_on_gate="false")

    assert (ran.code, ran.outputs["outcome"]) == (0, "fail")


def test_too_few_queries_for_a_gate_are_inconclusive_and_pass(workflow: Workflow) -> None:
    ran = workflow.run(**FAILS, min_queries="50")

    assert (ran.code, ran.outputs["outcome"]) == (0, "inconclusive")


def test_an_inconclusive_gate_fails_on_request(workflow: Workflow) -> None:
    ran = workflow.run(**FAILS, min_queries="50", on_inconclusive="fail")

    assert (ran.code, ran.outputs["outcome"]) == (1, "inconclusive")


@pytest.mark.parametrize(
    "given",
    [
        {**PASSES, "eval_path": "nowhere"},
        {**PASSES, "model_a": "nobody:knows"},
        {**PASSES, "k": "ten"},
        {**PASSES, "bm25": "yes"},
        {**PASSES, "cache": "yes"},
        {**PASSES, "comment": "sometimes"},
        {**PASSES, "retention_days": "-1"},
        {**PASSES, "mode": "watch"},
        {**PASSES, "config": "missing.yml"},
        {**PASSES, "metrics": "beauty"},
        {**PASSES, "ignore": "everything"},
        {},
    ],
    ids=lambda given: (
        ",".join(f"{k}={v}" for k, v in given.items() if PASSES.get(k) != v) or "none"
    ),
)
def test_wrong_inputs_are_exit_code_2_and_said_everywhere(
    workflow: Workflow, given: dict[str, str]
) -> None:
    ran = workflow.run(**given)

    assert (ran.code, ran.outputs["outcome"]) == (2, "input-error")
    assert len(ran.annotations("error")) == 1
    assert "could not finish" in ran.summary
    assert ran.outputs["verdict"]


def test_a_model_that_fails_is_exit_code_3(workflow: Workflow) -> None:
    ran = workflow.run(**{**PASSES, "model_b": "st:owner/no-such-model"}, offline="true")

    assert (ran.code, ran.outputs["outcome"]) == (3, "error")


def test_a_bug_is_exit_code_3_and_says_so(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("::error::acts")

    monkeypatch.setattr("embed_ab.commands.compare", broken)

    ran = workflow.run(**PASSES)

    assert (ran.code, ran.outputs["outcome"]) == (3, "error")
    assert "this is a bug" in ran.outputs["verdict"]
    assert not re.search("^::error::acts", ran.log, re.M)


def test_every_output_is_set(workflow: Workflow) -> None:
    ran = workflow.run(**PASSES)

    assert list(ran.outputs) == list(OUTPUTS)
    assert all(ran.outputs.values())


def test_the_difference_and_its_ends_are_those_of_the_json(workflow: Workflow) -> None:
    ran = workflow.run(**FAILS)

    result = json.loads((workflow.workspace / ran.outputs["json-path"]).read_text("utf-8"))
    first = result["differences"][0]
    shown = [float(ran.outputs[name]) for name in ("difference", "low", "high")]
    assert shown == [first["difference"], first["low"], first["high"]]


def test_paths_are_relative_to_the_workspace(workflow: Workflow) -> None:
    ran = workflow.run(**PASSES)

    for name in ("report-path", "json-path", "comment-path"):
        assert (workflow.workspace / ran.outputs[name]).is_file()
        assert not Path(ran.outputs[name]).is_absolute()


def test_an_absolute_path_into_the_workspace_is_as_good(workflow: Workflow) -> None:
    ran = workflow.run(**{**PASSES, "eval_path": str(workflow.workspace / "eval")})

    assert ran.code == 0
    assert str(workflow.workspace) not in ran.summary + ran.log


def test_the_report_is_in_the_artifact(workflow: Workflow) -> None:
    workflow.run(**FAILS)

    archive = artifact_of(workflow)
    assert archive.namelist() == ["comment.md", "report.html", "result.json"]
    assert json.loads(archive.read("result.json"))["outcome"] == "fail"
    assert archive.read("report.html").startswith(b"<!DOCTYPE html>")


def test_run_files_inside_the_report_folder_are_in_the_artifact(workflow: Workflow) -> None:
    workflow.run(**PASSES, runs="embed-ab-report/runs")

    assert "runs/a.trec" in artifact_of(workflow).namelist()


def test_a_bare_html_file_is_uploaded_on_request(workflow: Workflow) -> None:
    workflow.run(**PASSES, artifact_archive="false")

    (made,) = workflow.results.artifacts
    assert (made.name, made.content[:15]) == ("embed-ab.quality.html", b"<!DOCTYPE html>")


def test_matrix_legs_keys_and_attempts_have_artifacts_and_comments_of_their_own(
    workflow: Workflow,
) -> None:
    for more in ({}, {"strategy_index": "1"}, {"comment_key": "ko"}):
        workflow.run(**PASSES, **more, is_same_run=True)

    names = [made.name for made in workflow.results.artifacts]
    assert names == ["embed-ab.quality", "embed-ab.quality.leg-1", "embed-ab.quality.key-ko"]
    assert len(workflow.github.comments) == 3


def test_a_second_attempt_uploads_under_another_name(workflow: Workflow) -> None:
    workflow.attempt = 2

    workflow.run(**PASSES)

    assert [made.name for made in workflow.results.artifacts] == ["embed-ab.quality.attempt-2"]


def test_no_artifact_on_request(workflow: Workflow) -> None:
    ran = workflow.run(**PASSES, upload_artifact="false")

    assert workflow.results.artifacts == []
    assert ran.annotations("warning") == []


def test_a_missing_artifact_service_is_a_warning_with_a_way_out(workflow: Workflow) -> None:
    workflow.environ["GITHUB_SERVER_URL"] = "https://git.example.org"

    ran = workflow.run(**PASSES)

    assert ran.code == 0
    assert any("report-path" in text for text in ran.annotations("warning"))


def test_a_refusal_of_the_artifact_service_changes_no_exit_code(workflow: Workflow) -> None:
    workflow.results.fail("CreateArtifact", Reply(status=403, body=b'{"msg": "no"}'))

    ran = workflow.run(**FAILS)

    assert ran.code == 1
    assert any(text.startswith("no artifact: ") for text in ran.annotations("warning"))
    assert len(workflow.github.comments) == 1


def test_the_comment_is_made_once_and_then_edited(workflow: Workflow) -> None:
    first = workflow.run(**FAILS)
    second = workflow.run(**PASSES)

    assert len(workflow.github.comments) == 1
    assert first.outputs["comment-url"] == second.outputs["comment-url"]
    assert "bm25:word" in workflow.github.bodies()[0]


def test_the_comment_links_the_artifact(workflow: Workflow) -> None:
    ran = workflow.run(**PASSES)

    assert f"[Full report](<{ran.outputs['artifact-url']}>)" in workflow.github.bodies()[0]


def test_the_same_result_leaves_the_comment_in_mode_changes(workflow: Workflow) -> None:
    workflow.run(**PASSES, comment="changes")
    before = workflow.github.bodies()
    workflow.run(**PASSES, comment="changes")

    assert workflow.github.bodies() == before


def test_in_mode_failure_a_pass_makes_no_comment(workflow: Workflow) -> None:
    workflow.run(**PASSES, comment="failure")

    assert workflow.github.comments == []


def test_in_mode_failure_a_pass_updates_the_failing_comment(workflow: Workflow) -> None:
    workflow.run(**FAILS, comment="failure")
    failing = workflow.github.bodies()
    workflow.run(**PASSES, comment="failure")

    assert len(workflow.github.comments) == 1
    assert workflow.github.bodies() != failing


def test_no_comment_on_request(workflow: Workflow) -> None:
    ran = workflow.run(**FAILS, comment="off")

    assert workflow.github.requests == []
    assert ran.outputs["comment-url"] == ""


def test_a_run_that_could_not_finish_says_so_where_the_old_result_was(workflow: Workflow) -> None:
    workflow.run(**PASSES)
    workflow.run(**{**PASSES, "eval_path": "nowhere"})

    (body,) = workflow.github.bodies()
    assert "could not finish" in body


def test_a_fork_has_a_notice_a_summary_an_artifact_and_no_failure(workflow: Workflow) -> None:
    workflow.github.is_read_only = True
    workflow.github.pulls[0]["head"]["repo"] = {"id": 9, "full_name": "stranger/octo-repo"}

    ran = workflow.run(**PASSES)

    assert ran.code == 0
    assert ran.annotations("warning") == []
    assert any("Pull requests from forks" in text for text in ran.annotations("notice"))
    assert ran.summary
    assert len(workflow.results.artifacts) == 1


@pytest.mark.parametrize("event", ["merge_group", "schedule", "workflow_dispatch"])
def test_events_without_a_pull_request_have_summary_and_artifact(
    workflow: Workflow, event: str
) -> None:
    workflow.event, workflow.payload = event, {"action": "x"}

    ran = workflow.run(**PASSES)

    assert (ran.code, workflow.github.comments) == (0, [])
    assert ran.summary
    assert ran.annotations("warning") == ran.annotations("error") == []


def test_a_push_comments_on_the_pull_request_of_its_commit(workflow: Workflow) -> None:
    workflow.event, workflow.payload = "push", {"after": HEAD}
    workflow.environ["GITHUB_SHA"] = HEAD

    workflow.run(**PASSES)

    assert len(workflow.github.comments) == 1


def test_a_comment_on_a_pull_request_is_answered_only_for_its_head(workflow: Workflow) -> None:
    workflow.event = "issue_comment"
    workflow.payload = {"issue": {"number": 7, "pull_request": {}}}
    workflow.run(**PASSES)  # the default branch was checked out
    assert workflow.github.comments == []
    (workflow.workspace / ".git").mkdir()
    (workflow.workspace / ".git/HEAD").write_text(HEAD)

    workflow.run(**PASSES)

    assert len(workflow.github.comments) == 1


def test_a_dispatch_comments_where_its_author_says(workflow: Workflow) -> None:
    workflow.event, workflow.payload = "workflow_dispatch", {"inputs": {}}
    workflow.environ["GITHUB_SHA"] = HEAD

    workflow.run(**PASSES, pull_request="7")

    assert len(workflow.github.comments) == 1


def test_a_result_for_an_older_commit_is_not_posted(workflow: Workflow) -> None:
    workflow.github.pulls[0]["head"]["sha"] = "c" * 40  # pushed meanwhile

    ran = workflow.run(**PASSES)

    assert (ran.code, workflow.github.comments) == (0, [])
    assert "is not the newest" in ran.log


def test_another_commit_than_the_pull_request_s_is_not_posted_as_its_head(
    workflow: Workflow,
) -> None:
    """`ref: main` was checked out."""
    (workflow.workspace / ".git").mkdir()
    (workflow.workspace / ".git/HEAD").write_text("d" * 40)

    ran = workflow.run(**PASSES)

    assert (ran.code, workflow.github.comments) == (0, [])
    assert "is not the newest" in ran.log


@pytest.mark.parametrize("commit", [HEAD, "b" * 40], ids=["head", "merge"])
def test_the_head_and_its_merge_are_posted(workflow: Workflow, commit: str) -> None:
    (workflow.workspace / ".git").mkdir()
    (workflow.workspace / ".git/HEAD").write_text(commit)

    workflow.run(**PASSES)

    assert len(workflow.github.comments) == 1


def test_two_uses_with_one_key_are_warned_about(workflow: Workflow) -> None:
    workflow.run(**PASSES)
    ran = workflow.run(**FAILS, artifact_name="other", is_same_run=True)

    assert len(workflow.github.comments) == 1
    assert any("comment-key" in text for text in ran.annotations("warning"))


def test_the_key_is_in_the_heading(workflow: Workflow) -> None:
    workflow.run(**FAILS, comment_key="ko", strategy_index="2")

    assert "## ✗ embed-ab `ko.leg.2`: B is worse" in workflow.github.bodies()[0]


def test_a_token_that_may_not_read_the_pull_request_is_a_notice(workflow: Workflow) -> None:
    workflow.github.fail("GET", ".*/pulls/7", httpx.Response(403, json={"message": "no"}))

    ran = workflow.run(**PASSES)

    assert ran.annotations("warning") == []
    assert ran.annotations("notice")[0].startswith("no comment: ")


def test_a_wrong_input_does_not_undo_the_others(workflow: Workflow) -> None:
    ran = workflow.run(**PASSES, comment="off", retention_days="-1")

    assert ran.code == 2
    assert ran.annotations("warning") == []
    assert workflow.github.requests == []


@pytest.mark.parametrize("place", ["surfaces.comment", "surfaces.upload", "event.read_payload"])
def test_a_bug_in_a_surface_changes_no_exit_code(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(f"embed_ab.action.{place}", broken)

    assert workflow.run(**PASSES).code == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "/nowhere/ca.pem"),
        ("ALL_PROXY", "socks5://proxy:1080"),
        ("NO_PROXY", "[::1]"),
    ],
)
def test_a_wrong_proxy_or_certificate_costs_the_surfaces_only(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    ran = workflow.run(**FAILS)

    assert (ran.code, ran.outputs["outcome"]) == (1, "fail")
    assert any(name in text for text in ran.annotations("warning"))
    assert ran.summary


def test_a_cache_folder_that_cannot_be_written_costs_the_cache_only(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workflow.folder / "file").write_text("")
    monkeypatch.setenv("EMBED_AB_CACHE_DIR", str(workflow.folder / "file"))
    workflow.environ["EMBED_AB_CACHE_DIR"] = str(workflow.folder / "file")

    ran = workflow.run(**PASSES)

    assert ran.code == 0
    assert any("cannot be written" in text for text in ran.annotations("warning"))


def test_a_store_that_fits_no_model_is_thrown_away(workflow: Workflow) -> None:
    """It passes every check, and another branch may have written it: here, five dimensions."""
    workflow.run(**PASSES)
    (entry,) = workflow.results.entries
    path = workflow.folder / "poisoned"
    path.write_bytes(entry.blob.content)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE facts SET facts = replace(facts, '256', '5')")
    entry.blob.content = path.read_bytes()

    ran = workflow.run(**PASSES)

    assert ran.code == 0
    assert any("once more without" in text for text in ran.annotations("warning"))
    assert len(workflow.results.entries) == 2


def test_what_lies_in_the_report_folder_already_is_not_uploaded(workflow: Workflow) -> None:
    (workflow.workspace / "embed-ab-report").mkdir()
    (workflow.workspace / "embed-ab-report/index.html").write_text("<script>")

    workflow.run(**PASSES)

    assert "index.html" not in artifact_of(workflow).namelist()


def test_a_results_service_that_is_silent_is_asked_once(workflow: Workflow) -> None:
    for _ in range(50):
        workflow.results.fail("GetCacheEntryDownloadURL")
    asked = "GetCacheEntryDownloadURL"

    ran = workflow.run(**PASSES)

    assert ran.code == 0
    assert {call.rpartition("/")[2] for call in workflow.results.calls()} == {asked}


def test_an_error_in_the_settings_file_is_annotated_there(workflow: Workflow) -> None:
    (workflow.workspace / ".embed-ab.yml").write_text("k: 5\nseed: [\n")

    ran = workflow.run(**PASSES)

    assert "::error title=embed-ab,file=.embed-ab.yml,line=3::" in ran.log


def test_vectors_that_the_entry_for_these_texts_lacks_are_kept_too(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a model has moved on: each run would embed it again."""
    workflow.run(**PASSES)
    monkeypatch.setattr(MockEmbedder, "fingerprint", "mock:word:2")
    embedded = []
    for _ in range(2):
        ran = workflow.run(**PASSES)
        result = json.loads((workflow.workspace / ran.outputs["json-path"]).read_text("utf-8"))
        embedded.append(sum(result["measured"]["texts_embedded"].values()))

    assert embedded == [80, 0]


def test_a_strangers_files_are_not_read_with_the_rights_of_the_base(workflow: Workflow) -> None:
    workflow.event = "pull_request_target"
    (workflow.workspace / ".git").mkdir()
    (workflow.workspace / ".git/HEAD").write_text(HEAD)

    ran = workflow.run(**PASSES)

    assert (ran.code, ran.outputs["outcome"]) == (2, "input-error")
    assert "pull_request_target" in ran.outputs["verdict"]


@pytest.mark.parametrize("place", [".git", "eval/.git"])
@pytest.mark.parametrize("commit", [HEAD, "d" * 40, ""], ids=["head", "merge", "unknown"])
def test_pull_request_target_reads_nothing_but_the_base(
    workflow: Workflow, place: str, commit: str
) -> None:
    workflow.event = "pull_request_target"
    for folder, head in ((".git", "b" * 40), (place, commit)):
        (workflow.workspace / folder).mkdir(exist_ok=True)
        (workflow.workspace / folder / "HEAD").write_text(head)

    assert workflow.run(**PASSES).code == 2


def test_pull_request_target_on_the_base_is_an_ordinary_run(workflow: Workflow) -> None:
    workflow.event = "pull_request_target"
    (workflow.workspace / ".git").mkdir()
    (workflow.workspace / ".git/HEAD").write_text("b" * 40)

    assert workflow.run(**PASSES).code == 0


def test_a_github_that_does_not_answer_changes_no_exit_code(workflow: Workflow) -> None:
    workflow.github.fail("GET", ".*", *[httpx.Response(502)] * 50)

    ran = workflow.run(**FAILS)

    assert ran.code == 1
    assert any(text.startswith("no comment: ") for text in ran.annotations("warning"))
    assert ran.summary


def test_without_a_token_there_is_a_warning_and_no_comment(workflow: Workflow) -> None:
    workflow.environ["INPUT_GITHUB-TOKEN"] = ""

    ran = workflow.run(**PASSES)

    assert (ran.code, workflow.github.requests) == (0, [])
    assert any("github-token" in text for text in ran.annotations("warning"))


def test_no_summary_on_request(workflow: Workflow) -> None:
    assert workflow.run(**PASSES, job_summary="false").summary == ""


def test_the_summary_is_the_comment_with_a_link_to_the_report(workflow: Workflow) -> None:
    ran = workflow.run(**PASSES)

    assert f"](<{ran.outputs['artifact-url']}>)" in ran.summary


def test_an_error_in_a_file_is_annotated_at_its_line(workflow: Workflow) -> None:
    corpus = workflow.workspace / "eval/corpus.jsonl"
    corpus.write_text(corpus.read_text("utf-8") + "{broken\n", "utf-8")
    n_lines = len(corpus.read_text("utf-8").splitlines())

    ran = workflow.run(**PASSES)

    assert f"::error title=embed-ab,file=eval/corpus.jsonl,line={n_lines}::" in ran.log


def test_a_second_run_embeds_nothing(workflow: Workflow) -> None:
    workflow.run(**PASSES)
    ran = workflow.run(**PASSES)

    result = json.loads((workflow.workspace / ran.outputs["json-path"]).read_text("utf-8"))
    assert sum(result["measured"]["texts_embedded"].values()) == 0
    assert sum(result["measured"]["texts_cached"].values()) == 80
    assert "vectors for these texts" in ran.log


def test_three_changed_documents_are_three_embedded_documents(workflow: Workflow) -> None:
    workflow.run(**PASSES)
    corpus = workflow.workspace / "eval/corpus.jsonl"
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    for row in rows[:3]:
        row["text"] += " More."
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    ran = workflow.run(**PASSES)

    result = json.loads((workflow.workspace / ran.outputs["json-path"]).read_text("utf-8"))
    assert result["measured"]["texts_embedded"]["A"] == 3
    assert "vectors of an earlier run" in ran.log


def test_no_cache_on_request(workflow: Workflow) -> None:
    workflow.run(**PASSES, cache="false")

    assert workflow.results.entries == []


def test_a_read_only_cache_is_normal(workflow: Workflow) -> None:
    workflow.environ["ACTIONS_CACHE_MODE"] = "read"

    ran = workflow.run(**PASSES)

    assert ran.code == 0
    assert ran.annotations("warning") == []


def test_a_poisoned_store_is_not_used(workflow: Workflow) -> None:
    """Another workflow of the repository may have written the entry."""
    workflow.run(**PASSES)
    (entry,) = workflow.results.entries
    blob = entry.blob
    blob.content = b"SQLite format 3\0" + b"\0" * 5000

    ran = workflow.run(**PASSES)

    assert ran.code == 0
    assert "is not used" in ran.log


def test_the_config_file_is_read_and_inputs_beat_it(workflow: Workflow) -> None:
    (workflow.workspace / ".embed-ab.yml").write_text(
        "eval-path: eval\nmodel-a: mock:word\nmodel-b: mock:char3\nk: 5\n"
    )

    ran = workflow.run(model_b="bm25:word")

    result = json.loads((workflow.workspace / ran.outputs["json-path"]).read_text("utf-8"))
    assert [system["system"] for system in result["systems"][:2]] == ["mock:word", "bm25:word"]
    assert result["primary"] == "ndcg@5"


def test_several_gates_come_on_several_lines(workflow: Workflow) -> None:
    ran = workflow.run(**{**PASSES, "gate": "ndcg@10:0.02\nrecall@10:0.05\n"})

    assert len(re.findall("^gate ", ran.log, re.M)) == 2


def test_the_token_is_masked_and_nowhere_else(workflow: Workflow) -> None:
    workflow.github.token = "ghs_canary0123456789"

    ran = workflow.run(**FAILS)

    assert ran.log.count("ghs_canary0123456789") == 1
    assert "::add-mask::ghs_canary0123456789\n" in ran.log
    for path in workflow.workspace.rglob("*"):
        if path.is_file():
            assert b"ghs_canary" not in path.read_bytes()


def test_the_time_of_each_phase_is_in_the_log(workflow: Workflow) -> None:
    assert re.search(
        r"^times: cache [\d.]+ s, comparison [\d.]+ s, ", workflow.run(**PASSES).log, re.M
    )


def test_outside_a_workflow_the_container_says_what_to_do(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if "GITHUB" not in name}

    finished = subprocess.run(
        [sys.executable, ROOT / "entrypoint.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environ | {"PYTHONPATH": str(ROOT)},
    )

    assert finished.returncode == 2
    assert "docker run" in finished.stderr


def test_the_entry_of_the_container_runs_the_action(workflow: Workflow) -> None:
    """A process of its own, as the runner starts it."""
    environ = os.environ | {
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(workflow.workspace),
        "GITHUB_OUTPUT": str(workflow.folder / "output"),
        "GITHUB_REPOSITORY": REPOSITORY,
        **{f"INPUT_{name.upper().replace('_', '-')}": value for name, value in FAILS.items()},
        "INPUT_COMMENT": "off",
        "INPUT_UPLOAD-ARTIFACT": "false",
    }

    finished = subprocess.run(
        [sys.executable, ROOT / "entrypoint.py"], capture_output=True, text=True, env=environ
    )

    assert finished.returncode == 1, finished.stderr
    assert "outcome<<" in (workflow.folder / "output").read_text()
