"""One comment, kept up to date: who writes what over what, and what strangers cannot do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fake_github import BOT, MAX_BODY, REPOSITORY, FakeGithub, Waits
from markdown_it import MarkdownIt

from embed_ab.action import comment
from embed_ab.action.comment import (
    SHARED,
    Existing,
    Mark,
    Mode,
    Plan,
    Posted,
    ReadOnlyToken,
    decide,
)
from embed_ab.action.event import PullRequest, Run
from embed_ab.errors import GithubError

GOLDEN = Path(__file__).parents[1] / "golden" / "demo"
HEAD = "a" * 40
PULL = PullRequest(number=7, head=HEAD, is_fork=False)
BODY = "## B is better\n\nthe table\n"
MARK = Mark(key="default", run=12, attempt=1, head=HEAD, is_failure=False, shown="0" * 32)
COMMENTS = f"/repos/{REPOSITORY}/issues/7/comments"


def post(
    fake: FakeGithub,
    body: str = BODY,
    *,
    key: str = "default",
    run: int = 12,
    attempt: int = 1,
    mode: Mode = "always",
    is_failure: bool = False,
    pull: PullRequest = PULL,
    waits: Waits | None = None,
    **more: str,
) -> Posted:
    return comment.upsert_comment(
        fake.api(waits),
        pull,
        body,
        key,
        Run(id=run, attempt=attempt, commit=HEAD),
        mode=mode,
        is_failure=is_failure,
        server_url="https://github.com",
        **more,
    )


def there(identifier: int, **changes: object) -> Existing:
    return Existing(id=identifier, mark=replace(MARK, **changes))  # type: ignore[arg-type]


# The decision


@pytest.mark.parametrize(
    ("mode", "is_failure", "do"),
    [
        ("always", False, "create"),
        ("changes", False, "create"),
        ("failure", True, "create"),
        ("failure", False, "leave"),
    ],
)
def test_without_a_comment_one_is_made_unless_only_failures_are_wanted(
    mode: Mode, is_failure: bool, do: str
) -> None:
    assert decide([], replace(MARK, is_failure=is_failure), mode).do == do


@pytest.mark.parametrize(
    ("mode", "was_failure", "was_shown", "is_failure", "do"),
    [
        ("always", False, "0", False, "edit"),
        ("changes", False, "0", False, "leave"),
        ("changes", False, "1", False, "edit"),
        ("failure", False, "1", False, "leave"),
        ("failure", True, "1", False, "edit"),  # what failed passes now
        ("failure", False, "1", True, "edit"),
    ],
)
def test_a_comment_of_an_older_run_is_edited_as_the_mode_says(
    mode: Mode, was_failure: bool, was_shown: str, is_failure: bool, do: str
) -> None:
    older = there(1, run=11, is_failure=was_failure, shown=was_shown * 32)

    plan = decide([older], replace(MARK, is_failure=is_failure), mode)

    assert (plan.do, plan.target, plan.extra) == (do, 1, ())


@pytest.mark.parametrize("newer", [{"run": 13}, {"attempt": 2}])
@pytest.mark.parametrize("mode", ["always", "changes", "failure"])
def test_what_a_newer_run_wrote_is_never_touched(newer: dict[str, int], mode: Mode) -> None:
    plan = decide([there(1, run=11), there(2, **newer)], replace(MARK, is_failure=True), mode)

    assert (plan.do, plan.target, plan.extra) == ("leave", 1, ())
    assert "which is newer" in plan.why


def test_the_oldest_comment_stays_and_extra_ones_go() -> None:
    plan = decide([there(5, run=10), there(3, run=9), there(4)], MARK, "always")

    assert plan == Plan(do="edit", why="it was of run 9", target=3, extra=(5, 4))


def test_an_extra_comment_of_a_newer_run_stays_for_that_run_to_delete() -> None:
    plan = decide([there(3), there(4, run=13)], MARK, "always")

    assert (plan.do, plan.extra) == ("leave", ())


def test_our_extra_comment_goes_when_a_newer_run_was_first() -> None:
    plan = decide([there(3, run=13), there(4)], MARK, "always")

    assert (plan.do, plan.target, plan.extra) == ("leave", 3, (4,))


def test_few_comments_are_deleted_in_one_run() -> None:
    """GitHub limits writes; the next run takes the next ones."""
    plan = decide([there(number, run=2) for number in range(1, 9)], MARK, "always")

    assert plan.extra == (8, 7)


def test_two_jobs_of_a_run_with_one_key_are_told_apart_from_two_runs() -> None:
    plan = decide([there(1, shown="1" * 32)], MARK, "always")

    assert plan.do == "edit"
    assert plan.why == SHARED


# The mark


@pytest.mark.parametrize(
    "key",
    ["default", "docs/한국어", "a-->b", "x y=1 run=99", "--!>", "a\nb", "k" * 500, "", "\udcff"],
)
def test_a_mark_is_read_back_as_it_was_written(key: str) -> None:
    mark = replace(MARK, key=key, is_failure=True)

    assert "-->" not in str(mark).removesuffix(" -->")
    assert "\n" not in str(mark)
    assert Mark.read(f"{mark}\r\ntext", key) == mark
    assert Mark.read(f"{mark}\r\ntext", key + "x") is None


@pytest.mark.parametrize(
    "body",
    ["", "text", f"text\n{MARK}", f" {MARK}", f"{MARK} text", str(MARK)[:-4], f"> {MARK}"],
)
def test_a_mark_is_the_whole_first_line(body: str) -> None:
    assert Mark.read(body, "default") is None


def test_a_mark_with_less_than_ours_is_older_than_every_run() -> None:
    mark = Mark.read("<!-- embed-ab-action:default future=x -->\n", "default")

    assert mark is not None
    assert mark.order == (0, 0)


# Posting


def test_a_comment_is_created_once_and_then_edited() -> None:
    fake = FakeGithub()

    first = post(fake, run=12)
    second = post(fake, "## B is worse\n", run=13)

    url = "https://github.com/octo-org/octo-repo/pull/7#issuecomment-1001"
    assert first == Posted(what="created", why="there is no comment yet", url=url)
    assert second == Posted(what="edited", why="it was of run 12", url=url)
    assert len(fake.comments) == 1
    assert "## B is worse" in fake.bodies()[0]
    assert fake.writes() == ["POST", "PATCH"]


def test_the_text_is_mark_verdict_note_body_and_links() -> None:
    fake = FakeGithub()

    post(fake, report_url="https://example.org/artifacts/1", note="Not verified.")

    digest = re.search("shown=([0-9a-f]{32})", fake.bodies()[0])
    assert digest is not None
    assert fake.bodies()[0] == (
        f"<!-- embed-ab-action:default run=12 attempt=1 head={HEAD} failed=no "
        f"shown={digest[1]} -->\n"
        "## B is better\n\n> Not verified.\n\nthe table\n\n"
        "<sub>[Full report](<https://example.org/artifacts/1>) · "
        "[run 12](<https://github.com/octo-org/octo-repo/actions/runs/12/attempts/1>) · "
        "commit `aaaaaaaaaaaa`</sub>\n"
    )


def test_the_mark_is_hidden_and_the_heading_a_heading() -> None:
    fake = FakeGithub()
    post(fake)

    html = MarkdownIt().render(fake.bodies()[0])

    assert html.startswith("<!-- embed-ab-action:default ")
    assert "<h2>B is better</h2>" in html
    assert '<a href="https://github.com/octo-org/octo-repo/actions/runs/12/attempts/1">' in html


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_demos_comment_is_posted_whole(language: str) -> None:
    body = (GOLDEN / f"{language}.md").read_text("utf-8")
    fake = FakeGithub()

    post(fake, body)

    heading, rest = body.split("\n", 1)
    assert f" -->\n{heading}\n\n{rest.strip()}\n\n<sub>[run 12]" in fake.bodies()[0]


def test_ours_is_found_on_the_third_page_of_250_comments() -> None:
    fake = FakeGithub()
    for number in range(249):
        fake.add_comment(f"talk {number}", author="someone")
    fake.add_comment(f"{replace(MARK, run=1)}\nold")

    assert post(fake).what == "edited"
    assert len(fake.comments) == 250


@pytest.mark.parametrize("author", ["mallory", "github-actions", "GitHub-Actions[bot]", None])
def test_a_mark_pasted_by_someone_else_is_not_ours(author: str | None) -> None:
    fake = FakeGithub()
    fake.add_comment(f"{replace(MARK, run=999)}\nplanted", author=author)

    assert post(fake).what == "created"
    assert fake.bodies()[0].endswith("planted")


def test_a_text_that_quotes_our_mark_below_its_first_line_is_not_ours() -> None:
    fake = FakeGithub()
    fake.add_comment(f"title of a stranger\n{MARK}\n")

    assert post(fake).what == "created"


@pytest.mark.parametrize(
    ("is_app", "has_graphql", "login"),
    [(True, True, BOT), (True, True, "our-app[bot]"), (True, False, BOT), (False, True, "robot")],
    ids=["job", "app", "no GraphQL", "person"],
)
def test_our_comments_are_those_of_the_tokens_own_login(
    is_app: bool, has_graphql: bool, login: str
) -> None:
    fake = FakeGithub(is_app=is_app, has_graphql=has_graphql, login=login)

    post(fake, run=12)

    assert post(fake, run=13).what == "edited"
    assert [item["user"]["login"] for item in fake.comments] == [login]


def test_two_keys_are_two_comments() -> None:
    fake = FakeGithub()

    post(fake, key="docs")
    post(fake, key="code")
    post(fake, "## docs again\n", key="docs", run=13)

    assert ["docs again" in body for body in fake.bodies()] == [True, False]


def test_off_asks_nothing() -> None:
    fake = FakeGithub()

    assert post(fake, mode="off").what == "off"
    assert fake.requests == []


def test_changes_looks_at_the_result_and_not_at_run_commit_or_report() -> None:
    fake = FakeGithub()
    post(fake, run=12, report_url="https://example.org/1", mode="changes")

    same = post(fake, run=13, report_url="https://example.org/2", mode="changes")
    other = post(fake, "## B is worse\n", run=14, mode="changes")

    assert (same.what, other.what) == ("left", "edited")
    assert same.url == other.url


def test_failure_updates_the_failing_comment_and_then_rests() -> None:
    fake = FakeGithub()

    done = [
        post(fake, run=1, mode="failure").what,
        post(fake, run=2, mode="failure", is_failure=True).what,
        post(fake, run=3, mode="failure").what,
        post(fake, run=4, mode="failure").what,
    ]

    assert done == ["left", "created", "edited", "left"]


def test_there_is_no_address_where_there_is_no_comment() -> None:
    assert post(FakeGithub(), mode="failure").url == ""


# Races and faults


def test_an_older_run_that_ends_later_leaves_the_newer_text() -> None:
    fake = FakeGithub()
    post(fake, "## new\n", run=13)

    late = post(fake, "## old\n", run=12)

    assert late.what == "left"
    assert "## new" in fake.bodies()[0]


@pytest.mark.parametrize("other", [11, 13])
@pytest.mark.parametrize("is_other_first", [True, False])
def test_two_runs_that_create_at_once_end_with_one_comment_of_the_newer(
    other: int, is_other_first: bool
) -> None:
    """The other run does the whole of its work between our list and our POST, or just after."""
    fake = FakeGithub()

    def other_run() -> None:
        post(fake, f"## of run {other}\n", run=other)

    if is_other_first:
        fake.before.append(("POST", other_run))
    else:
        fake.before += [("GET", lambda: None)] * 2  # who we are, and the first list
        fake.before.append(("GET", other_run))

    post(fake, "## of run 12\n", run=12)

    newer = max(12, other)
    assert len(fake.comments) == 1
    assert f"## of run {newer}\n" in fake.bodies()[0]


def test_two_runs_whose_lists_are_both_empty_end_with_one_comment() -> None:
    """Both have created before either looks again; each deletes or keeps by the lower number."""
    fake = FakeGithub()
    copy = f"{replace(MARK, run=11)}\n## of run 11\n"
    fake.before.append(("POST", lambda: fake.add_comment(copy)))  # 1001, ours is 1002

    posted = post(fake, run=12)

    assert posted.what == "edited"
    assert [item["id"] for item in fake.comments] == [1001]
    assert fake.writes() == ["POST", "PATCH", "DELETE"]


def test_an_extra_comment_that_the_other_run_deleted_first_is_no_fault() -> None:
    fake = FakeGithub()
    fake.add_comment(f"{replace(MARK, run=1)}\n")
    extra = fake.add_comment(f"{replace(MARK, run=2)}\n")
    fake.before.append(
        ("DELETE", lambda: fake.comments.remove(next(c for c in fake.comments if c["id"] == extra)))
    )

    assert post(fake).what == "edited"
    assert len(fake.comments) == 1


def test_an_extra_comment_that_cannot_be_deleted_does_not_hide_the_one_posted() -> None:
    fake = FakeGithub()
    fake.add_comment(f"{replace(MARK, run=1)}\n")
    fake.add_comment(f"{replace(MARK, run=2)}\n")
    fake.fail("DELETE", ".*", *[httpx.Response(500)] * 9)

    assert post(fake).url.endswith("#issuecomment-1001")


def test_a_comment_deleted_between_reading_and_writing_is_created_anew() -> None:
    fake = FakeGithub()
    fake.add_comment(f"{replace(MARK, run=1)}\n")
    fake.before.append(("PATCH", fake.comments.clear))

    assert post(fake).what == "created"
    assert len(fake.comments) == 1


def test_a_comment_that_keeps_vanishing_is_given_up() -> None:
    fake = FakeGithub()
    fake.add_comment(f"{replace(MARK, run=1)}\n")
    fake.fail("PATCH", ".*", *[httpx.Response(404)] * 9)

    with pytest.raises(GithubError, match="#7 was gone before it was written, 4 times"):
        post(fake)


@pytest.mark.parametrize("fault", [httpx.Response(502), httpx.ReadTimeout])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_lost_reply_to_the_first_comment_makes_no_second_one(
    fault: httpx.Response, is_done: bool
) -> None:
    fake = FakeGithub()
    fake.fail("POST", COMMENTS, fault, is_done_first=is_done)

    assert post(fake).url.endswith("#issuecomment-1001")
    assert len(fake.comments) == 1


def test_a_list_that_lags_behind_makes_no_second_comment() -> None:
    fake = FakeGithub(is_list_stale=True)

    assert post(fake).what == "created"
    assert len(fake.comments) == 1


def test_a_server_that_loses_every_comment_is_given_up() -> None:
    fake = FakeGithub()
    fake.fail("POST", COMMENTS, *[httpx.Response(502)] * 9)

    with pytest.raises(GithubError, match="GitHub answered 502, 4 times"):
        post(fake)


def test_what_a_newer_run_writes_while_we_wait_for_a_limit_is_not_overwritten() -> None:
    fake = FakeGithub()
    post(fake, run=11)
    fake.fail("PATCH", ".*", httpx.Response(403, headers={"retry-after": "60"}))
    fake.before += [("GET", lambda: None)] * 2  # who we are, and the first list
    fake.before.append(("GET", lambda: post(fake, "## of run 13\n", run=13)))

    assert post(fake, run=12).what == "left"
    assert "## of run 13" in fake.bodies()[0]


def test_a_lost_answer_about_who_we_are_is_asked_for_again() -> None:
    fake = FakeGithub(login="our-app[bot]")
    post(fake, run=11)
    fake.fail("POST", "/graphql", httpx.Response(502))

    assert post(fake, run=12).what == "edited"


def test_a_limit_on_writing_is_waited_for() -> None:
    fake, waits = FakeGithub(), Waits()
    fake.fail("POST", COMMENTS, httpx.Response(403, headers={"retry-after": "60"}))

    assert post(fake, waits=waits).what == "created"
    assert waits == [60.0]


# Where the token may not write


def test_a_fork_is_told_that_its_token_only_reads() -> None:
    fake = FakeGithub(is_read_only=True)

    with pytest.raises(ReadOnlyToken, match="may not comment in a pull request from a fork") as no:
        post(fake, pull=replace(PULL, is_fork=True))

    assert no.value.hint.startswith("The token needs issues: write or pull-requests: write. A fork")


def test_elsewhere_the_missing_permission_is_named() -> None:
    fake = FakeGithub(is_read_only=True)
    fake.add_comment(f"{replace(MARK, run=1)}\n")

    with pytest.raises(ReadOnlyToken, match="may not comment here: PATCH") as no:
        post(fake)

    assert "issues: write or pull-requests: write. Write it under `permissions:`" in no.value.hint


def test_a_locked_conversation_is_said_as_github_says_it() -> None:
    with pytest.raises(GithubError, match="issue is locked") as caught:
        post(FakeGithub(is_locked=True))
    assert not isinstance(caught.value, ReadOnlyToken)


def test_a_token_that_is_not_valid_is_said() -> None:
    fake = FakeGithub()
    fake.fail("GET", "/user", httpx.Response(401, json={"message": "Bad credentials"}))

    with pytest.raises(GithubError, match="Bad credentials"):
        post(fake)


# Size, and hostile answers


@pytest.mark.parametrize("line", ["한" * 300 + "\n", "x" * 99 + "\n", "\U0001f600" * 50 + "\n"])
def test_the_longest_body_with_everything_added_is_within_githubs_limit(line: str) -> None:
    fake = FakeGithub()
    body = "## verdict\n\n" + line * 2000

    post(fake, body, key="한" * 100, report_url="https://example.org/" + "1" * 500, note="n" * 500)

    text = fake.bodies()[0]
    assert len(text.encode()) < MAX_BODY
    assert text.startswith("<!-- embed-ab-action:")
    assert "## verdict" in text
    assert text.endswith("commit `aaaaaaaaaaaa`</sub>\n")


def test_a_body_that_github_still_finds_too_long_is_said() -> None:
    fake = FakeGithub()
    errors = [{"message": "Body is too long (maximum is 65536 characters)"}]
    fake.fail("POST", COMMENTS, httpx.Response(422, json={"message": "No", "errors": errors}))

    with pytest.raises(GithubError, match="Body is too long"):
        post(fake)


@pytest.mark.parametrize(
    "item",
    [None, 3, [], {}, {"id": "1"}, {"id": -1}, {"id": 1, "user": {}}, {"id": 1, "body": 5}],
)
def test_a_comment_that_is_none_is_refused_and_nothing_written(item: object) -> None:
    fake = FakeGithub()
    fake.fail("GET", COMMENTS, httpx.Response(200, json=[item]))

    with pytest.raises(GithubError, match="A comment is not as GitHub describes it"):
        post(fake)
    assert fake.writes() == []


def test_an_address_in_the_answer_is_not_taken() -> None:
    fake = FakeGithub()
    evil = {"id": 5, "html_url": "https://evil.example.org/", "url": "https://evil.example.org/"}
    fake.is_list_stale = True
    fake.fail("POST", COMMENTS, httpx.Response(201, json=evil))

    assert post(fake).url == "https://github.com/octo-org/octo-repo/pull/7#issuecomment-5"
