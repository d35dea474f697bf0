"""What the client does about limits, faults, pages and refusals."""

from __future__ import annotations

import json

import httpx
import pytest
from fake_github import NOW, REPOSITORY, FakeGithub, Waits, serve

from embed_ab.action import github
from embed_ab.action.github import Api, Refused, Unanswered
from embed_ab.errors import GithubError

COMMENTS = f"/repos/{REPOSITORY}/issues/7/comments"


def limited(status: int = 403, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"message": "You have exceeded a secondary rate limit."}
    return httpx.Response(status, json=body, headers=named)


def test_every_request_has_the_token_and_the_version_of_the_interface() -> None:
    fake = FakeGithub()

    list(fake.api().pages(COMMENTS, {}))

    headers = fake.requests[0].headers
    assert headers["authorization"] == "Bearer token"
    assert headers["accept"] == "application/vnd.github+json"
    assert headers["x-github-api-version"] == "2022-11-28"


def test_an_enterprise_server_keeps_its_path() -> None:
    fake = FakeGithub(api_path="/api/v3")
    api = fake.api(url="https://ghe.example.org/api/v3")

    api.request("GET", COMMENTS)
    api.request("POST", api.graphql(), body={"query": "query { viewer { login } }"})

    assert [str(request.url) for request in fake.requests] == [
        f"https://ghe.example.org/api/v3{COMMENTS}",
        "https://ghe.example.org/api/graphql",
    ]


def test_250_comments_take_three_pages() -> None:
    fake = FakeGithub()
    for number in range(250):
        fake.add_comment(f"comment {number}")

    found = [item["body"] for item in fake.api().pages(COMMENTS, {})]

    assert found == [f"comment {number}" for number in range(250)]
    assert [dict(r.url.params) for r in fake.requests] == [
        {"per_page": "100"},
        {"per_page": "100", "page": "2"},
        {"per_page": "100", "page": "3"},
    ]


def test_the_next_page_is_asked_of_the_same_address_wherever_the_link_leads() -> None:
    fake = FakeGithub()
    link = '<https://evil.example.org/steal?page=2>; rel="next"'
    fake.fail("GET", COMMENTS, httpx.Response(200, json=[], headers={"link": link}))

    assert list(fake.api().pages(COMMENTS, {})) == []
    assert [r.url.host for r in fake.requests] == ["api.github.com", "api.github.com"]


def test_a_list_without_end_is_given_up() -> None:
    fake = FakeGithub()
    link = '<https://api.github.com/x?page=2>; rel="next"'
    endless = httpx.Response(200, json=[1], headers={"link": link})
    fake.fail("GET", COMMENTS, *[endless] * 40)

    with pytest.raises(GithubError, match="more than 30 pages"):
        list(fake.api().pages(COMMENTS, {}))


@pytest.mark.parametrize("status", [403, 429])
def test_a_limit_is_waited_for_as_long_as_it_says(status: int) -> None:
    fake, waits = FakeGithub(), Waits()
    fake.fail("GET", COMMENTS, limited(status, retry_after="17"))

    assert fake.api(waits).request("GET", COMMENTS).status == 200
    assert waits == [17.0]


def test_a_used_up_limit_is_waited_for_until_its_reset() -> None:
    fake, waits = FakeGithub(), Waits()
    reset = limited(x_ratelimit_remaining="0", x_ratelimit_reset=str(int(NOW) + 42))
    fake.fail("GET", COMMENTS, reset)

    fake.api(waits).request("GET", COMMENTS)

    assert waits == [42.0]


@pytest.mark.parametrize(
    "sign",
    [
        httpx.Response(429),
        httpx.Response(403, headers={"x-ratelimit-remaining": "0"}),
        httpx.Response(403, headers={"retry-after": "soon"}),
        limited(x_ratelimit_remaining="4000", x_ratelimit_reset=str(int(NOW) + 3000)),
        httpx.Response(403, json={"message": "API rate limit exceeded for installation."}),
        httpx.Response(403, json={"message": "You have triggered an abuse detection mechanism"}),
    ],
    ids=["429", "remaining", "retry-after", "reset of another", "message", "old message"],
)
def test_each_sign_of_a_limit_alone_is_enough_and_without_a_time_it_is_a_minute(
    sign: httpx.Response,
) -> None:
    fake, waits = FakeGithub(), Waits()
    fake.fail("GET", COMMENTS, sign)

    fake.api(waits).request("GET", COMMENTS)

    assert waits == [60.0]


def test_a_wait_beyond_two_minutes_is_given_up_at_once() -> None:
    fake, waits = FakeGithub(), Waits()
    fake.fail("GET", COMMENTS, limited(retry_after="3600"))

    with pytest.raises(GithubError, match="rate limit; it would take 3600 s"):
        fake.api(waits).request("GET", COMMENTS)
    assert waits == []


def test_all_requests_share_the_two_minutes() -> None:
    fake, waits = FakeGithub(), Waits()
    api = fake.api(waits)
    fake.fail("GET", COMMENTS, limited(retry_after="70"), limited(retry_after="70"))

    with pytest.raises(GithubError, match="it would take 70 s"):
        api.request("GET", COMMENTS)
    assert waits == [70.0]


@pytest.mark.parametrize("fault", [httpx.Response(502), httpx.ReadTimeout, httpx.ConnectError])
def test_a_server_that_fails_is_asked_again(fault: httpx.Response) -> None:
    fake, waits = FakeGithub(), Waits()
    fake.fail("GET", COMMENTS, fault, fault)

    assert fake.api(waits).request("GET", COMMENTS).status == 200
    assert waits == [1.0, 2.0]


def test_a_server_that_keeps_failing_is_given_up_after_four_times() -> None:
    fake, waits = FakeGithub(), Waits()
    fake.fail("GET", COMMENTS, *[httpx.Response(503)] * 9)

    with pytest.raises(GithubError, match="GitHub answered 503, 4 times"):
        fake.api(waits).request("GET", COMMENTS)
    assert waits == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize(
    ("fault", "waited"),
    [(httpx.Response(502), 1.0), (httpx.ReadTimeout, 1.0), (limited(retry_after="9"), 9.0)],
)
def test_what_writes_is_not_repeated_without_a_look(
    method: str, fault: httpx.Response, waited: float
) -> None:
    fake, waits = FakeGithub(), Waits()
    fake.fail(method, COMMENTS, fault)

    with pytest.raises(Unanswered):
        fake.api(waits).request(method, COMMENTS, body={"body": "x"})
    assert len(fake.requests) == 1
    assert waits == [waited]


def test_a_missing_permission_is_told_from_a_limit_and_named() -> None:
    fake, waits = FakeGithub(is_read_only=True), Waits()

    with pytest.raises(Refused, match="Resource not accessible") as caught:
        fake.api(waits).request("POST", COMMENTS, body={"body": "x"})

    assert caught.value.is_permission
    assert caught.value.hint == "The token needs issues: write or pull-requests: write."
    assert waits == []


def test_a_locked_conversation_is_not_a_missing_permission() -> None:
    fake = FakeGithub(is_locked=True)

    with pytest.raises(Refused, match="locked") as caught:
        fake.api().request("POST", COMMENTS, body={"body": "x"})
    assert not caught.value.is_permission


@pytest.mark.parametrize("status", [301, 404, 409, 410, 422])
def test_other_refusals_are_not_repeated(status: int) -> None:
    fake = FakeGithub()
    fake.fail("GET", COMMENTS, httpx.Response(status))

    with pytest.raises(Refused) as caught:
        fake.api().request("GET", COMMENTS)
    assert caught.value.status == status
    assert len(fake.requests) == 1


def test_the_reason_of_a_422_is_in_the_message() -> None:
    fake = FakeGithub()

    with pytest.raises(Refused, match=r"Validation Failed: Body is too long \(maximum"):
        fake.api().request("POST", COMMENTS, body={"body": "x" * 65_537})


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>", b"{", b"[" * 100_000, b"1" * 10_000, b"\xff", b'{"message": 3}', b'"text"'],
)
def test_an_answer_that_is_no_list_is_said(content: bytes) -> None:
    fake = FakeGithub()
    fake.fail("GET", COMMENTS, httpx.Response(200, content=content))

    with pytest.raises(GithubError, match="GitHub sent no list"):
        list(fake.api().pages(COMMENTS, {}))


def test_a_huge_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github, "MAX_BYTES", 1000)
    fake = FakeGithub()
    fake.fail("GET", COMMENTS, httpx.Response(200, content=b" " * 1001))

    with pytest.raises(GithubError, match="an answer of more than 64 MB"):
        list(fake.api().pages(COMMENTS, {}))


def test_what_github_says_cannot_command_the_log() -> None:
    fake = FakeGithub()
    words = {"message": "no\n::add-mask::a\x1b[31m" + "x" * 9000}
    fake.fail("GET", COMMENTS, httpx.Response(404, json=words))

    with pytest.raises(Refused) as caught:
        fake.api().request("GET", COMMENTS)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "gh\u00e9"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(GithubError) as caught:
        github.connect("https://api.github.com", token)
    assert str(caught.value) == "there is no usable token for GitHub"


@pytest.mark.parametrize(
    "name", ["", "a", "a/..", "a/.", "../b", "a/b/c", "a/b?c", "a/b\n", "/a/b", "a/b#", "a/%2e"]
)
def test_a_repository_is_an_owner_and_a_name(name: str) -> None:
    client = httpx.Client(transport=FakeGithub().transport())

    with pytest.raises(GithubError, match="GITHUB_REPOSITORY"):
        Api(client, name, clock=lambda: NOW, sleep=Waits())


def test_the_same_client_talks_to_a_server() -> None:
    fake = FakeGithub(api_path="/api/v3")
    with serve(fake) as url, github.connect(url, fake.token) as client:
        api = Api(client, fake.repository, clock=lambda: NOW, sleep=Waits())
        answer = api.request("POST", COMMENTS, body={"body": "한국어 \U0001f600"})

    assert json.loads(fake.requests[0].content) == {"body": "한국어 \U0001f600"}
    assert answer.content["body"] == fake.bodies()[0] == "한국어 \U0001f600"
