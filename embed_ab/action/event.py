"""Which commit was measured, and which pull request may show the result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from embed_ab import formats
from embed_ab.action.github import Api, Commit, Number, read
from embed_ab.errors import GithubError

MAX_EVENT_BYTES = 30_000_000
"""GitHub sends at most 25 MB."""

_OF_A_PULL_REQUEST = (
    "pull_request",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
)
_OF_ITS_HEAD = tuple(name for name in _OF_A_PULL_REQUEST if name != "pull_request_target")
"""Here the default checkout is the head merged into the base; for a target it is the base."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a workflow and the commit that it measured."""

    id: int
    attempt: int
    commit: str


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """The pull request that shows the result; `head` is its newest commit."""

    number: int
    head: str
    is_fork: bool


@dataclass(frozen=True, kw_only=True)
class NoPullRequest:
    """There is no pull request to show the result on, and why."""

    reason: str


class _Repository(BaseModel):
    id: Number
    full_name: Annotated[str, Field(max_length=200)]


class _Head(BaseModel):
    sha: Commit
    repo: _Repository | None = None  # None where the fork was deleted


class _Pull(BaseModel):
    number: Number
    state: Literal["open", "closed"]
    head: _Head
    merge_commit_sha: Commit | None = None


class _PullEvent(BaseModel):
    class Pull(BaseModel):
        number: Number
        head: _Head

    pull_request: Pull


class _CommentEvent(BaseModel):
    class Issue(BaseModel):
        number: Number
        pull_request: dict[str, Any] | None = None

    issue: Issue


class _RunEvent(BaseModel):
    class WorkflowRun(BaseModel):
        class Repository(BaseModel):
            class Owner(BaseModel):
                login: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]

            id: Number
            owner: Owner

        id: Number
        run_attempt: Number = 1
        head_sha: Commit
        head_branch: Annotated[str, Field(min_length=1, max_length=1000)] | None
        head_repository: Repository | None

    workflow_run: WorkflowRun


_PULL = TypeAdapter(_Pull)
_PULL_EVENT = TypeAdapter(_PullEvent)
_COMMENT_EVENT = TypeAdapter(_CommentEvent)
_RUN_EVENT = TypeAdapter(_RunEvent)
_NUMBER = TypeAdapter(Number)
_COMMIT = TypeAdapter(Commit)


def read_payload(path: Path) -> Mapping[str, Any]:
    """Return the event in GITHUB_EVENT_PATH. Raises: GithubError."""
    try:
        if path.stat().st_size > MAX_EVENT_BYTES:
            raise GithubError("the event of this run is larger than GitHub makes them")
        payload = json.loads(path.read_bytes())
    except OSError as error:
        raise GithubError(f"the event of this run cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise GithubError("the event of this run is no JSON object")
    return payload


def run_of(
    event_name: str,
    payload: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    checked_out: str = "",
) -> Run:
    """Return this run and the commit that it measures.

    checked_out: the commit in the workspace (`checked_out_commit`), where it is known.
    Raises: GithubError.
    """
    commit = checked_out or environ.get("GITHUB_SHA", "")
    if event_name in _OF_ITS_HEAD and commit == environ.get("GITHUB_SHA", ""):
        # The head merged into the base was checked out, as is usual; it counts as the head.
        commit = read(_PULL_EVENT, payload, "The event").pull_request.head.sha
    return Run(
        id=read(_NUMBER, _whole(environ.get("GITHUB_RUN_ID")), "GITHUB_RUN_ID"),
        attempt=read(_NUMBER, _whole(environ.get("GITHUB_RUN_ATTEMPT", "1")), "GITHUB_RUN_ATTEMPT"),
        commit=read(_COMMIT, commit, "GITHUB_SHA"),
    )


def triggering_run(payload: Mapping[str, Any]) -> Run:
    """Return the run whose end started this one (event workflow_run). Raises: GithubError."""
    run = read(_RUN_EVENT, payload, "The event").workflow_run
    return Run(id=run.id, attempt=run.run_attempt, commit=run.head_sha)


def pull_request_of(
    event_name: str,
    payload: Mapping[str, Any],
    api: Api,
    commit: str,
    *,
    number: int | None = None,
) -> PullRequest | NoPullRequest:
    """Return the pull request whose newest commit is the one measured, or why there is none.

    Ask when the result is there, not before: the pull request may move on while it is computed.
    number: what the workflow's author says; it beats the event.
    Raises: GithubError.
    """
    if number is None and event_name == "workflow_run":
        return _of_the_run(payload, api, commit)
    if number is None and event_name == "push":
        return _of_the_commit(payload, api, commit)
    if number is None and event_name in _OF_A_PULL_REQUEST:
        number = read(_PULL_EVENT, payload, "The event").pull_request.number
    if number is None and event_name == "issue_comment":
        issue = read(_COMMENT_EVENT, payload, "The event").issue
        if issue.pull_request is None:
            return NoPullRequest(reason=f"#{issue.number} is an issue, not a pull request")
        number = issue.number
    if number is None:
        name = formats.shorten(formats.plain(event_name), 50)
        return NoPullRequest(reason=f"the event {name} belongs to no pull request")
    pull = read(_PULL, api.request("GET", api.path(f"pulls/{number}")).content, "A pull request")
    current = {pull.head.sha}
    if pull.state == "open" and event_name not in _OF_ITS_HEAD and pull.merge_commit_sha:
        current.add(pull.merge_commit_sha)  # refs/pull/N/merge was checked out
    if commit not in current:
        return NoPullRequest(
            reason=f"the commit measured, {commit[:12]}, is not the newest of #{pull.number}, "
            f"{pull.head.sha[:12]}"
        )
    return _shown(pull, api)


def _of_the_run(payload: Mapping[str, Any], api: Api, commit: str) -> PullRequest | NoPullRequest:
    """Ask by the head's owner and branch: for a fork the event names no pull request."""
    run = read(_RUN_EVENT, payload, "The event").workflow_run
    if run.head_repository is None or run.head_branch is None:
        return NoPullRequest(reason="the repository or branch of the first run is gone")
    if commit != run.head_sha:
        return NoPullRequest(
            reason=f"the commit measured, {commit[:12]}, is not the one of the first run, "
            f"{run.head_sha[:12]}"
        )
    head = f"{run.head_repository.owner.login}:{run.head_branch}"
    found = [
        pull
        for pull in _pulls(api, "pulls", {"state": "open", "head": head}, commit)
        if pull.head.repo is not None and pull.head.repo.id == run.head_repository.id
    ]
    return _first(found, api, commit)


def _of_the_commit(
    payload: Mapping[str, Any], api: Api, commit: str
) -> PullRequest | NoPullRequest:
    if payload.get("deleted") is True:
        return NoPullRequest(reason="the branch was deleted")
    return _first(_pulls(api, f"commits/{commit}/pulls", {}, commit), api, commit)


def _pulls(api: Api, rest: str, params: Mapping[str, str], commit: str) -> list[_Pull]:
    pulls = [read(_PULL, item, "A pull request") for item in api.pages(api.path(rest), params)]
    return [pull for pull in pulls if pull.state == "open" and pull.head.sha == commit]


def _first(found: list[_Pull], api: Api, commit: str) -> PullRequest | NoPullRequest:
    """Return the oldest, so that a second one into another base does not move the comment."""
    if not found:
        return NoPullRequest(reason=f"{commit[:12]} is the newest commit of no open pull request")
    return _shown(min(found, key=lambda pull: pull.number), api)


def _shown(pull: _Pull, api: Api) -> PullRequest:
    repository = pull.head.repo
    return PullRequest(
        number=pull.number,
        head=pull.head.sha,
        is_fork=repository is None or repository.full_name.lower() != api.repository.lower(),
    )


def checked_out_commit(workspace: Path, folder: Path) -> str:
    """Return the commit that a folder of the workspace was checked out from, read without git.

    "" where it cannot be told.
    """
    places = [folder, *folder.parents]
    inside = places[: places.index(workspace) + 1] if workspace in places else [workspace]
    found = (git for place in inside if (git := place / ".git").exists())
    git = next(found, workspace / ".git")
    head = _text(git / "HEAD", 1000).strip()
    reference = head.removeprefix("ref: ")
    if reference != head:
        if not re.fullmatch(r"refs/[\w./-]+", reference) or ".." in reference:
            return ""
        head = _text(git / reference, 1000).strip()
        if not head:
            lines = _text(git / "packed-refs", 10_000_000).splitlines()
            head = next(
                (line[: -1 - len(reference)] for line in lines if line.endswith(f" {reference}")),
                "",
            )
    return head if re.fullmatch("[0-9a-f]{40}(?:[0-9a-f]{24})?", head) else ""


def _text(path: Path, size: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else None
