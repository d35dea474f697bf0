"""A fork's pull request: its own run, and the second workflow that comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_github import REPOSITORY
from test_untrusted import EVENT
from workflow import FAILS, PASSES, Ran, Workflow

from embed_ab.action.publish import UNVERIFIED


@pytest.fixture
def fork(workflow: Workflow) -> Workflow:
    """The pull request comes from a stranger's repository, whose run may only read."""
    repository = {"id": 2, "full_name": "stranger/octo-repo"}
    head = workflow.github.pulls[0]["head"]
    head |= {"label": "stranger:topic", "repo": repository}
    workflow.github.is_read_only = True
    return workflow


def first_run(workflow: Workflow, **inputs: Any) -> Ran:
    """Run the fork's own workflow, whose artifacts GitHub then lists."""
    ran = workflow.run(**inputs)
    for made in workflow.results.artifacts:
        workflow.github.add_artifact(made.content, made.name, run=workflow.run_id)
    workflow.results.artifacts.clear()
    return ran


def second_run(workflow: Workflow, **inputs: str) -> Ran:
    """Run the workflow that starts when the first has ended, with a token that may write."""
    workflow.github.is_read_only = False
    first = workflow.run_id
    workflow.event = "workflow_run"
    workflow.payload = EVENT | {"workflow_run": EVENT["workflow_run"] | {"id": first}}
    try:
        return workflow.run(mode="publish", **inputs)
    finally:
        workflow.github.is_read_only = True
        workflow.event, workflow.payload = "pull_request", None


def test_the_second_workflow_comments_what_the_first_found(fork: Workflow) -> None:
    assert first_run(fork, **FAILS).code == 1
    assert fork.github.comments == []

    ran = second_run(fork)

    (body,) = fork.github.bodies()
    assert ran.code == 0
    assert ran.outputs["outcome"] == "fail"
    assert "B is worse" in body
    assert UNVERIFIED in body


def test_the_comment_links_run_and_artifact_of_the_first(fork: Workflow) -> None:
    first_run(fork, **FAILS)
    run, artifact = fork.run_id, fork.github.artifacts[0]["id"]

    second_run(fork)

    page = f"https://github.com/{REPOSITORY}/actions/runs/{run}"
    assert f"{page}/artifacts/{artifact}" in fork.github.bodies()[0]
    assert f"{page}/attempts/1" in fork.github.bodies()[0]


def test_the_next_push_edits_the_comment(fork: Workflow) -> None:
    for inputs in (FAILS, PASSES):
        first_run(fork, **inputs)
        second_run(fork)

    assert len(fork.github.comments) == 1
    assert "bm25:word" in fork.github.bodies()[0]


def test_no_texts_are_shown_where_the_second_workflow_says_so(fork: Workflow) -> None:
    """Whatever the fork's own settings were."""
    first_run(fork, **FAILS)

    ran = second_run(fork, redact="true")

    query = "identical videos"
    assert query in (fork.workspace / "embed-ab-report/comment.md").read_text("utf-8")
    assert query not in fork.github.bodies()[0] + ran.summary


def test_a_result_of_an_older_commit_is_not_commented(fork: Workflow) -> None:
    first_run(fork, **FAILS)
    fork.github.pulls[0]["head"]["sha"] = "c" * 40

    ran = second_run(fork)

    assert (ran.code, fork.github.comments) == (0, [])


@pytest.mark.parametrize("inputs", [{"upload_artifact": "false"}, {"eval_path": "nowhere"}])
def test_nothing_to_publish_is_a_warning_with_what_to_do(
    fork: Workflow, inputs: dict[str, str]
) -> None:
    """A stranger's run must not make the default branch red."""
    first_run(fork, **FAILS | inputs)

    ran = second_run(fork)

    assert ran.code == 0
    assert "upload-artifact" in ran.annotations("warning")[0]


def test_an_older_result_does_not_stand_for_a_commit_without_one(fork: Workflow) -> None:
    first_run(fork, **PASSES)
    second_run(fork)
    assert "could not finish" not in fork.github.bodies()[0]
    first_run(fork, **PASSES, upload_artifact="false")

    second_run(fork)

    (body,) = fork.github.bodies()
    assert "left no result" in body


def test_the_outputs_are_those_of_the_worst_result(fork: Workflow) -> None:
    fork.run_id += 1
    fork.run(**PASSES, strategy_index="0", is_same_run=True)
    first_run(fork, **FAILS, strategy_index="1", is_same_run=True)

    assert second_run(fork).outputs["outcome"] == "fail"


def test_a_github_that_does_not_answer_is_exit_code_3(fork: Workflow) -> None:
    first_run(fork, **FAILS)
    fork.github.fail("GET", ".*", *[httpx.Response(502)] * 50)

    ran = second_run(fork)

    assert (ran.code, ran.outputs["outcome"]) == (3, "error")


def test_a_bug_over_a_strangers_data_is_exit_code_3(
    fork: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("::error::acts")

    first_run(fork, **FAILS)
    monkeypatch.setattr("embed_ab.action.untrusted.restated", broken)

    ran = second_run(fork)

    assert (ran.code, ran.outputs["outcome"]) == (3, "error")
    assert "\n::error::acts" not in ran.log


def test_publish_is_for_workflow_run_alone(workflow: Workflow) -> None:
    ran = workflow.run(mode="publish")

    assert (ran.code, ran.outputs["outcome"]) == (2, "input-error")


def test_publish_reads_nothing_of_the_workspace(fork: Workflow, tmp_path: Path) -> None:
    first_run(fork, **FAILS)
    (fork.workspace / ".embed-ab.yml").write_text("nonsense: [")

    assert second_run(fork).code == 0


def test_all_results_of_a_run_share_one_comment(fork: Workflow) -> None:
    """However a fork calls its artifacts, and also when the first leg leaves none later."""
    for legs in (("0", "1"), ("1",)):
        fork.run_id += 1
        for leg in legs:
            fork.run(**FAILS, strategy_index=leg, is_same_run=True)
        for made in fork.results.artifacts:
            fork.github.add_artifact(made.content, made.name, run=fork.run_id)
        fork.results.artifacts.clear()
        second_run(fork)

        (body,) = fork.github.bodies()
        assert body.count("embed-ab-action:") == 1
        assert body.count("B is worse\n") == len(legs)
        assert len(body.encode()) < 65_536


def test_an_inconclusive_gate_that_fails_the_step_counts_as_a_failure(fork: Workflow) -> None:
    first_run(fork, **FAILS, min_queries="50", on_inconclusive="fail")

    second_run(fork, comment="failure")

    assert len(fork.github.comments) == 1
