"""Our requests before GitHub's own description of its interface, our events before its examples.

@octokit/openapi is that description; @stoplight/prism-cli answers by it and rejects what it does
not allow. @octokit/webhooks-examples are events that GitHub sent.
"""

from __future__ import annotations

import copy
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_github import NOW, FakeGithub, Waits
from npm_packages import node_modules

from embed_ab.action import comment, event, github, untrusted
from embed_ab.action.comment import Mark
from embed_ab.action.event import NoPullRequest, PullRequest, Run
from embed_ab.action.github import Api

IN_A_REPOSITORY = "/repos/{owner}/{repo}/"
PATHS = {
    "/user",
    IN_A_REPOSITORY + "issues/{issue_number}/comments",
    IN_A_REPOSITORY + "issues/comments/{comment_id}",
    IN_A_REPOSITORY + "pulls",
    IN_A_REPOSITORY + "pulls/{pull_number}",
    IN_A_REPOSITORY + "commits/{commit_sha}/pulls",
    IN_A_REPOSITORY + "actions/runs/{run_id}/artifacts",
    IN_A_REPOSITORY + "actions/artifacts/{artifact_id}/{archive_format}",
}
"""Those we use: the whole description is 13 MB, and any other path is as unknown as a wrong one."""
PLAIN = {"accept": "application/json", "host": "127.0.0.1"}
"""GitHub's pages ask for application/vnd.github+json, its description knows the plain type only."""
EXAMPLE = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
"""The head of the pull request in the description's examples."""


@pytest.fixture(scope="session")
def packages() -> Path:
    return node_modules()


def only(description: dict[str, Any], paths: set[str]) -> dict[str, Any]:
    """A description of these paths, with what they refer to and nothing else."""
    kept: dict[str, dict[str, Any]] = {}

    def follow(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if key == "$ref":
                _, _, kind, name = value.split("/")
                if name not in kept.setdefault(kind, {}):
                    kept[kind][name] = description["components"][kind][name]
                    follow(kept[kind][name])
            elif isinstance(value, dict | list):
                follow(value)

    chosen = {path: description["paths"][path] for path in paths}
    follow(chosen)
    head = {key: description[key] for key in ("openapi", "info", "servers")}
    return head | {"paths": chosen, "components": kept}


@pytest.fixture(scope="session")
def judge(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that answers by the description."""
    path = packages / "@octokit/openapi/generated/api.github.com.json"
    description = tmp_path_factory.mktemp("openapi") / "api.json"
    description.write_text(json.dumps(only(json.loads(path.read_text("utf-8")), PATHS)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    prism = packages / "@stoplight/prism-cli/dist/index.js"
    command = ["node", str(prism), "mock", "-h", "127.0.0.1", "-p", str(port), str(description)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "is listening" in line:
                break
        else:
            pytest.fail("the judge did not start:\n" + "".join(said))
        reader = threading.Thread(target=process.stdout.read)
        reader.start()  # a full pipe would stop it
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        reader.join()


@pytest.fixture
def api(judge: str) -> Iterator[Api]:
    """Our side, talking to the judge."""
    with github.connect(judge, "token") as client:
        client.headers.update(PLAIN)
        client.event_hooks = {"response": [only_page]}
        yield Api(client, "octocat/Hello-World", clock=lambda: NOW, sleep=Waits())


def only_page(response: httpx.Response) -> None:
    """In the description's example every page has a next one, without end."""
    response.headers.pop("link", None)


# The judge is one


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/repos/o/r/issues/7/comments", {"text": "x"}, 422),
        ("POST", "/repos/o/r/issues/7/comments", {"body": 5}, 422),
        ("PATCH", "/repos/o/r/issues/comments/7", {}, 422),
        ("POST", "/repos/o/r/issues/seven/comments", {"body": "x"}, 422),
        ("POST", "/repos/o/r/issues/7/comment", {"body": "x"}, 404),
        ("PUT", "/repos/o/r/issues/comments/7", {"body": "x"}, 405),
    ],
)
def test_the_judge_rejects_what_the_description_does_not_have(
    judge: str, method: str, path: str, body: dict[str, Any], status: int
) -> None:
    assert httpx.request(method, judge + path, json=body).status_code == status


# Our requests


def everything_we_ask() -> list[httpx.Request]:
    """The requests of runs that together take every way through the code."""
    fake = FakeGithub()
    fake.add_pull(7, merge="b" * 40)
    shown = PullRequest(number=7, head="a" * 40, is_fork=False)
    for number in range(120):
        fake.add_comment(f"talk {number}", author="someone")
    for name, payload in (
        ("pull_request", {"pull_request": {"number": 7, "head": {"sha": "a" * 40}}}),
        ("push", {}),
        (
            "workflow_run",
            {
                "workflow_run": {
                    "id": 1,
                    "head_sha": "a" * 40,
                    "head_branch": "topic",
                    "head_repository": {"id": 1, "owner": {"login": "octo-org"}},
                }
            },
        ),
    ):
        assert event.pull_request_of(name, payload, fake.api(), "a" * 40) == shown
    for run in (1, 2):
        mark = Mark(key="k", run=0, attempt=1, head="", is_failure=False, shown="")
        fake.add_comment(f"{mark}\n")
        posted = comment.upsert_comment(
            fake.api(),
            shown,
            "## 한국어 \U0001f600\n",
            "k" if run == 2 else "new",
            Run(id=run, attempt=1, commit="a" * 40),
            mode="always",
            is_failure=False,
            server_url="https://github.com",
        )
        assert posted.what == ("edited" if run == 2 else "created")
    for number in range(120):
        fake.add_artifact(b"", f"embed-ab.job{number}")
    with httpx.Client(transport=fake.transport()) as client:
        run = Run(id=5, attempt=1, commit="a" * 40)
        untrusted.fetch_results(fake.api(), run, client=client, mask=lambda _: None)
    ours = ("/graphql", "/store/")
    return [request for request in fake.requests if not request.url.path.startswith(ours)]


def test_every_request_we_make_is_one_of_the_description(judge: str) -> None:
    """GraphQL has a description of its own, which this judge does not read."""
    asked = everything_we_ask()
    successes = {"GET": 200, "POST": 201, "PATCH": 200, "DELETE": 204}

    def success(method: str, url: str) -> int:
        return 302 if url.endswith("/zip") else successes[method]

    with httpx.Client() as client:
        answers = [
            client.request(
                request.method,
                judge + request.url.raw_path.decode(),
                headers={**request.headers, **PLAIN},
                content=request.content,
            )
            for request in asked
        ]

    judged = [(a.request.method, str(a.request.url), a.status_code) for a in answers]
    assert [status for *_, status in judged] == [success(method, url) for method, url, _ in judged]
    assert {method for method, _, _ in judged} == set(successes)


# The description's example answers


def test_we_read_the_user_of_the_description(api: Api) -> None:
    assert comment.own_login(api) == "octocat"


def test_we_post_a_comment_as_described(api: Api) -> None:
    posted = comment.upsert_comment(
        api,
        PullRequest(number=1347, head=EXAMPLE, is_fork=False),
        "## verdict\n",
        "default",
        Run(id=1, attempt=1, commit=EXAMPLE),
        mode="always",
        is_failure=False,
        server_url="https://github.com",
    )

    assert posted.what == "created"
    assert posted.url == "https://github.com/octocat/Hello-World/pull/1347#issuecomment-1"


@pytest.mark.parametrize("name", ["pull_request", "push", "workflow_run"])
def test_we_find_the_pull_request_of_the_description(api: Api, name: str) -> None:
    payload = {
        "pull_request": {"number": 1347, "head": {"sha": EXAMPLE}},
        "workflow_run": {
            "id": 1,
            "head_sha": EXAMPLE,
            "head_branch": "new-topic",
            "head_repository": {"id": 1296269, "owner": {"login": "octocat"}},
        },
    }

    found = event.pull_request_of(name, payload, api, EXAMPLE)

    assert found == PullRequest(number=1347, head=EXAMPLE, is_fork=False)


def test_we_fetch_the_artifact_of_the_description(api: Api) -> None:
    """Its list has another artifact, of another run; its store is not asked here."""
    asked: list[httpx.URL] = []
    masked: list[str] = []

    def store(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(404)

    run = Run(id=2332938, attempt=1, commit="328faa0536e6fef19753d9d91dc96a9931694ce3")
    with httpx.Client(transport=httpx.MockTransport(store)) as client:
        fetched, problems = untrusted.fetch_results(
            api, run, client=client, mask=masked.append, name="Rails"
        )

    assert fetched == []
    assert [str(p) for p in problems] == ["artifact 'Rails': the artifact store answered 404"]
    assert [url.host for url in asked] == ["pipelines.actions.githubusercontent.com"]
    assert asked[0].params["urlSignature"] in masked


# Events that GitHub sent


@pytest.fixture(scope="session")
def examples(packages: Path) -> dict[str, list[dict[str, Any]]]:
    path = packages / "@octokit/webhooks-examples/api.github.com/index.json"
    return {item["name"]: item["examples"] for item in json.loads(path.read_text("utf-8"))}


def github_of(payload: dict[str, Any], pull: dict[str, Any] | None = None) -> FakeGithub:
    """The repository of an event, with its pull request as it is in the event."""
    fake = FakeGithub(repository=payload["repository"]["full_name"])
    if pull is not None:
        repo = pull["head"]["repo"]
        fake.add_pull(
            pull["number"],
            sha=pull["head"]["sha"],
            branch=pull["head"]["ref"],
            owner=repo["owner"]["login"],
            repository_id=repo["id"],
        )
        fake.pulls[0]["head"]["repo"] = repo
    return fake


@pytest.mark.parametrize(
    "name", ["pull_request", "pull_request_review", "pull_request_review_comment"]
)
@pytest.mark.parametrize("is_fork", [False, True])
def test_each_example_of_a_pull_request_is_found(
    examples: dict[str, list[dict[str, Any]]], name: str, is_fork: bool
) -> None:
    """No example comes from a fork; one is made by giving its head another repository."""
    for payload in copy.deepcopy(examples[name]):
        pull = payload["pull_request"]
        if is_fork:
            owner = {**pull["head"]["repo"]["owner"], "login": "stranger"}
            changes = {"id": 5, "full_name": "stranger/Hello-World", "owner": owner, "fork": True}
            pull["head"]["repo"] = pull["head"]["repo"] | changes
        run = event.run_of(name, payload, {"GITHUB_RUN_ID": "1", "GITHUB_SHA": "b" * 40})

        found = event.pull_request_of(name, payload, github_of(payload, pull).api(), run.commit)

        assert found == PullRequest(
            number=pull["number"], head=pull["head"]["sha"], is_fork=is_fork
        )


def test_each_example_of_a_comment_is_on_an_issue(
    examples: dict[str, list[dict[str, Any]]],
) -> None:
    for payload in examples["issue_comment"]:
        found = event.pull_request_of("issue_comment", payload, github_of(payload).api(), "a" * 40)

        assert isinstance(found, NoPullRequest)


def test_the_examples_of_a_comment_made_ones_on_a_pull_request_are_found(
    examples: dict[str, list[dict[str, Any]]],
) -> None:
    pull = examples["pull_request"][0]["pull_request"]
    for payload in copy.deepcopy(examples["issue_comment"]):
        number = payload["issue"]["number"]
        payload["issue"]["pull_request"] = {"url": f"https://api.github.com/pulls/{number}"}
        fake = github_of(payload, pull | {"number": number})

        found = event.pull_request_of("issue_comment", payload, fake.api(), pull["head"]["sha"])

        assert found == PullRequest(number=number, head=pull["head"]["sha"], is_fork=False)


@pytest.mark.parametrize("is_fork", [False, True])
def test_each_example_of_a_finished_run_is_found_by_its_branch(
    examples: dict[str, list[dict[str, Any]]], is_fork: bool
) -> None:
    for payload in copy.deepcopy(examples["workflow_run"]):
        run = payload["workflow_run"]
        payload["repository"]["full_name"] = run["head_repository"]["full_name"]
        if is_fork:
            owner = {**run["head_repository"]["owner"], "login": "stranger"}
            run["head_repository"] |= {"id": 5, "full_name": "stranger/x", "owner": owner}
            run["pull_requests"] = []
        head = {
            "sha": run["head_sha"],
            "ref": run["head_branch"],
            "repo": run["head_repository"],
        }
        fake = github_of(payload, {"number": 9, "head": head})
        measured = event.triggering_run(payload)

        found = event.pull_request_of("workflow_run", payload, fake.api(), measured.commit)

        assert found == PullRequest(number=9, head=run["head_sha"], is_fork=is_fork)


def test_each_example_of_a_push_is_found_unless_it_deletes(
    examples: dict[str, list[dict[str, Any]]],
) -> None:
    pull = examples["pull_request"][0]["pull_request"]
    for payload in examples["push"]:
        head = pull["head"] | {"sha": payload["after"]}
        fake = github_of(payload, pull | {"head": head})

        found = event.pull_request_of("push", payload, fake.api(), payload["after"])

        assert isinstance(found, NoPullRequest) == payload["deleted"]


def test_every_other_event_belongs_to_no_pull_request_and_asks_nothing(
    examples: dict[str, list[dict[str, Any]]],
) -> None:
    known = {"pull_request", "pull_request_review", "pull_request_review_comment"}
    known |= {"issue_comment", "workflow_run", "push"}
    fake = FakeGithub()
    for name in examples.keys() - known:
        for payload in examples[name]:
            found = event.pull_request_of(name, payload, fake.api(), "a" * 40)

            assert isinstance(found, NoPullRequest), name
    assert fake.requests == []
