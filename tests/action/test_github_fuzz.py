"""Whatever an event or an answer holds, the only error is GithubError."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fake_github import REPOSITORY, FakeGithub
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab.action import comment, event
from embed_ab.action.comment import Mark
from embed_ab.action.event import PullRequest, Run
from embed_ab.errors import GithubError

HEAD = "a" * 40
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from([HEAD, 7, "7", "../..", "::error::x", "a" * 3000, 2**64, "\x00", "open"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
PULL: dict[str, Any] = {
    "number": 7,
    "state": "open",
    "merge_commit_sha": "b" * 40,
    "head": {"sha": HEAD, "ref": "topic", "repo": {"id": 1, "full_name": REPOSITORY}},
}
PAYLOAD: dict[str, Any] = {
    "pull_request": PULL,
    "issue": {"number": 7, "pull_request": {"url": "x"}},
    "deleted": False,
    "workflow_run": {
        "id": 5,
        "run_attempt": 1,
        "head_sha": HEAD,
        "head_branch": "topic",
        "head_repository": {"id": 1, "owner": {"login": "octo-org"}},
    },
}
EVENTS = ["pull_request", "pull_request_target", "issue_comment", "workflow_run", "push", "x\n::y"]


ANY_TEXT = st.text(st.characters())  # with surrogates: bytes of an input that are not UTF-8


@st.composite
def damaged(draw: st.DrawFn, whole: Any) -> Any:
    """A value with one place in it replaced by something else."""
    whole = copy.deepcopy(whole)
    place = whole
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.booleans()):
            place[key] = draw(JSON)
            return whole
        place = place[key]


@contextmanager
def only_our_error() -> Iterator[None]:
    """Let nothing but a GithubError happen, and that on one line."""
    try:
        yield
    except GithubError as error:
        message = str(error)
    else:
        return
    assert message.isprintable()


def requests_of(fake: FakeGithub) -> list[str]:
    return [request.url.raw_path.decode() for request in fake.requests]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(EVENTS), damaged(PAYLOAD) | st.dictionaries(st.text(), JSON))
def test_a_damaged_event_ends_in_an_answer_or_in_our_error(name: str, payload: Any) -> None:
    fake = FakeGithub()
    fake.add_pull(7)
    environ = {"GITHUB_RUN_ID": "1", "GITHUB_SHA": HEAD}
    with only_our_error():
        event.triggering_run(payload)
        commit = event.run_of(name, payload, environ).commit
        event.pull_request_of(name, payload, fake.api(), commit)
    for path in requests_of(fake):
        assert path.startswith(f"/repos/{REPOSITORY}/")
        assert ".." not in path.partition("?")[0]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EVENTS), damaged([PULL]) | JSON)
def test_a_damaged_answer_about_pull_requests_ends_in_our_error(name: str, answer: Any) -> None:
    fake = FakeGithub()
    one = answer[0] if isinstance(answer, list) and answer else answer
    fake.fail("GET", ".*/pulls/7", httpx.Response(200, json=one))
    fake.fail("GET", ".*/pulls", httpx.Response(200, json=answer))
    with only_our_error():
        event.pull_request_of(name, PAYLOAD, fake.api(), HEAD)


@settings(max_examples=60, deadline=None)
@given(damaged([{"id": 1, "user": {"login": "github-actions[bot]"}, "body": "x"}]) | JSON)
def test_a_damaged_list_of_comments_ends_in_our_error_or_one_comment(answer: Any) -> None:
    fake = FakeGithub()
    fake.fail("GET", ".*/comments", httpx.Response(200, json=answer))
    run = Run(id=1, attempt=1, commit=HEAD)
    pull = PullRequest(number=7, head=HEAD, is_fork=False)
    with only_our_error():
        comment.upsert_comment(
            fake.api(),
            pull,
            "## x\n",
            "k",
            run,
            mode="always",
            is_failure=False,
            server_url="https://github.com",
        )
    assert len(fake.comments) <= 1


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT, st.text(), st.integers(0, 10**18), st.booleans())
def test_any_key_makes_a_mark_that_is_read_back_and_by_no_other_key(
    key: str, other: str, run: int, is_failure: bool
) -> None:
    mark = Mark(key=key, run=run, attempt=1, head=HEAD, is_failure=is_failure, shown="0" * 32)
    line = str(mark)

    assert line.isascii()
    assert line.isprintable()
    assert line.index("-->") == len(line) - 3
    assert Mark.read(line, key) == mark
    assert other == key or Mark.read(line, other) is None


@settings(max_examples=300, deadline=None)
@given(st.text(), st.text())
def test_any_text_after_our_name_is_a_mark_or_none(key: str, rest: str) -> None:
    Mark.read(f"<!-- embed-ab-action:{key} {rest} -->", key)
