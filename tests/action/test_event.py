"""Which commit an event is about, and which pull request may show its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_github import REPOSITORY, FakeGithub

from embed_ab.action import event
from embed_ab.action.event import NoPullRequest, PullRequest, Run
from embed_ab.errors import GithubError

HEAD, MERGE, BASE, OTHER = "a" * 40, "b" * 40, "c" * 40, "d" * 40
ENVIRON = {"GITHUB_RUN_ID": "12", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_SHA": MERGE}
SHOWN = PullRequest(number=7, head=HEAD, is_fork=False)


def pull_event(sha: str = HEAD, number: Any = 7) -> dict[str, Any]:
    return {"pull_request": {"number": number, "head": {"sha": sha, "repo": None}}}


def run_event(**changes: Any) -> dict[str, Any]:
    run = {
        "id": 5,
        "run_attempt": 3,
        "head_sha": HEAD,
        "head_branch": "topic",
        "head_repository": {"id": 1, "owner": {"login": "octo-org"}},
        "pull_requests": [],
    }
    return {"workflow_run": run | changes}


def reason(found: PullRequest | NoPullRequest) -> str:
    assert isinstance(found, NoPullRequest)
    return found.reason


# Which commit was measured


@pytest.mark.parametrize(
    "name", ["pull_request", "pull_request_review", "pull_request_review_comment"]
)
def test_a_pull_request_measures_its_head_though_the_merge_is_checked_out(name: str) -> None:
    run = event.run_of(name, pull_event(), ENVIRON, checked_out=MERGE)

    assert run == Run(id=12, attempt=2, commit=HEAD)


@pytest.mark.parametrize("name", ["push", "schedule", "pull_request_target", "issue_comment"])
def test_other_events_measure_what_is_checked_out(name: str) -> None:
    assert event.run_of(name, {}, ENVIRON, checked_out=OTHER).commit == OTHER


def test_without_a_checkout_to_read_it_is_the_commit_of_the_run() -> None:
    assert event.run_of("push", {}, ENVIRON).commit == MERGE


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"GITHUB_RUN_ID": ""}, "GITHUB_RUN_ID"),
        ({"GITHUB_RUN_ID": "1 --> x"}, "GITHUB_RUN_ID"),
        ({"GITHUB_RUN_ATTEMPT": "-1"}, "GITHUB_RUN_ATTEMPT"),
        ({"GITHUB_SHA": "main"}, "GITHUB_SHA"),
    ],
)
def test_an_environment_that_is_not_the_runners_is_said(
    changes: dict[str, str], named: str
) -> None:
    with pytest.raises(GithubError, match=named):
        event.run_of("push", {}, ENVIRON | changes)


def test_the_run_that_triggered_this_one_keeps_its_number_attempt_and_commit() -> None:
    assert event.triggering_run(run_event()) == Run(id=5, attempt=3, commit=HEAD)


# Pull requests by event


@pytest.mark.parametrize("name", ["pull_request", "pull_request_review"])
def test_the_event_names_its_pull_request(name: str) -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD)

    assert event.pull_request_of(name, pull_event(), fake.api(), HEAD) == SHOWN


def test_a_pull_request_that_moved_on_is_left_alone() -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=OTHER)

    found = event.pull_request_of("pull_request", pull_event(), fake.api(), HEAD)

    assert reason(found) == (
        "the commit measured, aaaaaaaaaaaa, is not the newest of #7, dddddddddddd"
    )


def test_pull_request_target_measures_the_base_and_is_not_shown() -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD, merge=MERGE)

    found = event.pull_request_of("pull_request_target", pull_event(), fake.api(), BASE)

    assert "is not the newest of #7" in reason(found)


@pytest.mark.parametrize(
    ("owner", "repository_id", "is_fork"),
    [("octo-org", 1, False), ("Octo-Org", 1, False), ("stranger", 2, True), ("gone", None, True)],
)
def test_a_fork_is_a_head_in_another_repository(
    owner: str, repository_id: int | None, is_fork: bool
) -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD, owner=owner, repository_id=repository_id)

    found = event.pull_request_of("pull_request", pull_event(), fake.api(), HEAD)

    assert found == PullRequest(number=7, head=HEAD, is_fork=is_fork)


@pytest.mark.parametrize("commit", [HEAD, MERGE])
def test_a_comment_shows_the_result_when_head_or_merge_is_checked_out(commit: str) -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD, merge=MERGE)
    payload = {"issue": {"number": 7, "pull_request": {"url": "https://evil.example.org"}}}

    assert event.pull_request_of("issue_comment", payload, fake.api(), commit) == SHOWN


def test_the_merge_of_a_closed_pull_request_is_a_commit_of_the_base() -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD, merge=MERGE, state="closed")
    payload = {"issue": {"number": 7, "pull_request": {}}}

    found = event.pull_request_of("issue_comment", payload, fake.api(), MERGE)

    assert isinstance(found, NoPullRequest)


def test_a_comment_on_an_issue_has_no_pull_request() -> None:
    found = event.pull_request_of(
        "issue_comment", {"issue": {"number": 4}}, FakeGithub().api(), HEAD
    )

    assert reason(found) == "#4 is an issue, not a pull request"


def test_a_finished_run_is_found_by_branch_though_the_event_names_no_pull_request() -> None:
    fake = FakeGithub()
    fake.add_pull(6, sha=HEAD, owner="octo-org")
    fake.add_pull(7, sha=HEAD, owner="stranger", repository_id=2)
    payload = run_event(head_repository={"id": 2, "owner": {"login": "stranger"}})

    found = event.pull_request_of("workflow_run", payload, fake.api(), HEAD)

    assert found == PullRequest(number=7, head=HEAD, is_fork=True)
    assert dict(fake.requests[0].url.params) == {
        "per_page": "100",
        "state": "open",
        "head": "stranger:topic",
    }


def test_a_finished_run_of_an_older_commit_is_not_shown() -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=OTHER)

    found = event.pull_request_of("workflow_run", run_event(), fake.api(), HEAD)

    assert reason(found) == "aaaaaaaaaaaa is the newest commit of no open pull request"


def test_a_fork_cannot_reach_a_pull_request_with_a_copy_of_its_commit() -> None:
    """Even where the server ignores the filter by branch, the repository has to be the same."""
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD, owner="octo-org", repository_id=1)
    fake.fail("GET", f"/repos/{REPOSITORY}/pulls", httpx.Response(200, json=fake.pulls))
    payload = run_event(head_repository={"id": 2, "owner": {"login": "stranger"}})

    found = event.pull_request_of("workflow_run", payload, fake.api(), HEAD)

    assert isinstance(found, NoPullRequest)


def test_a_result_that_claims_another_commit_than_its_run_is_not_shown() -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=OTHER)

    found = event.pull_request_of("workflow_run", run_event(), fake.api(), OTHER)

    assert "is not the one of the first run" in reason(found)
    assert fake.requests == []


@pytest.mark.parametrize("gone", [{"head_repository": None}, {"head_branch": None}])
def test_a_finished_run_of_a_deleted_fork_has_no_pull_request(gone: dict[str, None]) -> None:
    found = event.pull_request_of("workflow_run", run_event(**gone), FakeGithub().api(), HEAD)

    assert "gone" in reason(found)


def test_a_push_is_shown_on_the_oldest_open_pull_request_it_is_the_head_of() -> None:
    fake = FakeGithub()
    fake.add_pull(5, sha=HEAD, state="closed")
    fake.add_pull(6, sha=OTHER)  # contains the commit, has newer ones
    fake.add_pull(9, sha=HEAD)
    fake.add_pull(7, sha=HEAD)

    assert event.pull_request_of("push", {}, fake.api(), HEAD) == SHOWN


def test_a_push_without_a_pull_request_says_so() -> None:
    found = event.pull_request_of("push", {}, FakeGithub().api(), HEAD)

    assert reason(found) == "aaaaaaaaaaaa is the newest commit of no open pull request"


def test_a_deleted_branch_has_no_pull_request() -> None:
    found = event.pull_request_of("push", {"deleted": True}, FakeGithub().api(), "0" * 40)

    assert reason(found) == "the branch was deleted"


@pytest.mark.parametrize("name", ["merge_group", "schedule", "workflow_dispatch", "release"])
def test_other_events_belong_to_no_pull_request(name: str) -> None:
    fake = FakeGithub()

    found = event.pull_request_of(name, pull_event(), fake.api(), HEAD)

    assert reason(found) == f"the event {name} belongs to no pull request"
    assert fake.requests == []


def test_a_number_that_the_workflow_gives_beats_the_event() -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD)

    found = event.pull_request_of("workflow_dispatch", {}, fake.api(), HEAD, number=7)

    assert found == SHOWN


# What strangers can send


@pytest.mark.parametrize("number", [0, -1, "7", "7/../8", True, 7.5, None, [7], 2**70], ids=repr)
def test_a_number_that_is_none_is_never_asked_for(number: Any) -> None:
    fake = FakeGithub()

    with pytest.raises(GithubError, match="The event is not as GitHub describes it"):
        event.pull_request_of("pull_request", pull_event(number=number), fake.api(), HEAD)
    assert fake.requests == []


@pytest.mark.parametrize("sha", ["", "A" * 40, "a" * 39, "a" * 40 + "\n", "../" * 14, None, 3])
def test_a_commit_that_is_none_is_refused(sha: Any) -> None:
    with pytest.raises(GithubError):
        event.run_of("pull_request", pull_event(sha=sha), ENVIRON)


@pytest.mark.parametrize(
    "changes",
    [
        {"head_branch": "x" * 2000},
        {"head_branch": ["topic"]},
        {"head_repository": {"id": 1, "owner": {"login": "a:b"}}},
        {"head_repository": {"id": 1, "owner": {"login": "a&state=all"}}},
        {"head_repository": {"id": "1", "owner": {"login": "a"}}},
        {"head_sha": "HEAD"},
        {"id": -4},
    ],
)
def test_a_run_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    fake = FakeGithub()

    with pytest.raises(GithubError):
        event.pull_request_of("workflow_run", run_event(**changes), fake.api(), HEAD)
    assert fake.requests == []


def test_a_branch_with_signs_of_an_address_stays_one_value() -> None:
    fake = FakeGithub()
    fake.add_pull(7, sha=HEAD, branch="a&state=all#x?y/한")

    found = event.pull_request_of(
        "workflow_run", run_event(head_branch="a&state=all#x?y/한"), fake.api(), HEAD
    )

    assert found == SHOWN


def test_the_message_about_a_bad_event_does_not_repeat_it() -> None:
    with pytest.raises(GithubError) as caught:
        event.run_of("pull_request", pull_event(sha="::add-mask::x"), ENVIRON)

    assert str(caught.value) == (
        "The event is not as GitHub describes it: pull_request.head.sha: "
        "String should match pattern '^[0-9a-f]{40}([0-9a-f]{24})?$'"
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"null"])
def test_an_event_file_that_is_no_object_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "event.json").write_bytes(content)

    with pytest.raises(GithubError, match="no JSON object"):
        event.read_payload(tmp_path / "event.json")


def test_a_missing_event_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(GithubError, match="No such file"):
        event.read_payload(tmp_path / "event.json")


def test_an_event_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(json.dumps(pull_event()))

    assert event.read_payload(tmp_path / "event.json") == pull_event()


# The commit in the workspace


def git_folder(workspace: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = workspace / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return workspace


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": f"{HEAD}\n"},
        {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{HEAD}\n"},
        {
            "HEAD": "ref: refs/heads/main\n",
            "packed-refs": f"# pack-refs\n{OTHER} refs/heads/not-refs/heads/main\n"
            f"{HEAD} refs/heads/main\n^{OTHER}\n",
        },
    ],
    ids=["detached", "loose", "packed"],
)
def test_the_commit_in_the_workspace_is_read_without_git(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert event.checked_out_commit(git_folder(tmp_path, files), tmp_path) == HEAD


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"HEAD": ""},
        {"HEAD": "ref: refs/heads/gone"},
        {"HEAD": "ref: refs/../../secret"},
        {"HEAD": "ref: /etc/passwd"},
        {"HEAD": "ref: refs/heads/main", "refs/heads/main": "not a commit"},
    ],
)
def test_a_workspace_that_does_not_tell_gives_nothing(
    tmp_path: Path, files: dict[str, str]
) -> None:
    (tmp_path / "secret").write_text(HEAD)

    assert event.checked_out_commit(git_folder(tmp_path, files), tmp_path) == ""
