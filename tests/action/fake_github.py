"""A GitHub in memory: comments in pages, pull requests, permissions, limits, faults and races.

`FakeGithub.handle` is a transport for httpx; `serve` puts it on loopback for containers.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import httpx

from embed_ab.action import github
from embed_ab.action.github import Api

NOW = 1_700_000_000.0
REPOSITORY = "octo-org/octo-repo"
BOT = "github-actions[bot]"
STORE = "https://store.example"
"""Where the artifacts lie; a server on http keeps them itself."""
SIGNATURE = "a-signature/that+must=stay-secret"
READ_ONLY = "Resource not accessible by integration"
MAX_BODY = 65_536


class Waits(list[float]):
    """A sleep that only takes note."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


Reply = httpx.Response | type[httpx.TransportError]


@dataclass(kw_only=True)
class Fault:
    """An answer that comes instead of the real one, a number of times."""

    method: str
    path: str
    replies: list[Reply]
    is_done_first: bool = False
    """The server does what was asked, and then answers with the fault: a lost reply."""


@dataclass(kw_only=True)
class FakeGithub:
    """State of one repository, and what its one token may do."""

    repository: str = REPOSITORY
    api_path: str = ""
    token: str = "token"
    login: str = BOT
    """Whose token it is; an app's may not ask for its user, GraphQL tells it."""
    is_app: bool = True
    is_read_only: bool = False
    is_locked: bool = False
    has_graphql: bool = True
    is_list_stale: bool = False
    """The list does not show comments made since."""
    pulls: list[dict[str, Any]] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    zips: dict[int, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    before: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    """What happens just before the next request of a method is served."""
    requests: list[httpx.Request] = field(default_factory=list)
    next_id: int = 1001

    def add_comment(self, body: str, *, author: str | None = BOT, issue: int = 7) -> int:
        """Put a comment there, as its author would."""
        identifier, self.next_id = self.next_id, self.next_id + 1
        user = None if author is None else {"login": author, "id": 1}
        self.comments.append({"id": identifier, "user": user, "body": body, "issue": issue})
        return identifier

    def add_pull(
        self,
        number: int = 7,
        *,
        sha: str = "a" * 40,
        branch: str = "topic",
        owner: str = "octo-org",
        repository_id: int | None = 1,
        state: str = "open",
        merge: str | None = None,
    ) -> None:
        """Open a pull request; repository_id None: its fork is gone."""
        repo = None
        if repository_id is not None:
            repo = {"id": repository_id, "full_name": f"{owner}/octo-repo"}
        head = {"sha": sha, "ref": branch, "label": f"{owner}:{branch}", "repo": repo}
        self.pulls.append(
            {"number": number, "state": state, "head": head, "merge_commit_sha": merge}
        )

    def add_artifact(
        self,
        content: bytes,
        name: str = "embed-ab.compare",
        *,
        run: int = 5,
        sha: str = "a" * 40,
        **changes: Any,
    ) -> int:
        """Leave an artifact of a run; `changes` are to what the list says of it."""
        number, self.next_id = self.next_id, self.next_id + 1
        page = f"https://api.github.com/repos/{self.repository}/actions/artifacts/{number}"
        self.zips[number] = content
        self.artifacts.append(
            {
                "id": number,
                "node_id": f"node{number}",
                "name": name,
                "size_in_bytes": len(content),
                "url": page,
                "archive_download_url": f"{page}/zip",
                "expired": False,
                "digest": None,
                "created_at": "2026-01-07T08:56:04Z",
                "updated_at": "2026-01-07T08:56:04Z",
                "expires_at": "2026-04-07T08:49:42Z",
                "workflow_run": {
                    "id": run,
                    "repository_id": 1,
                    "head_repository_id": 2,
                    "head_branch": "topic",
                    "head_sha": sha,
                },
            }
            | changes
        )
        return number

    def fail(self, method: str, path: str, *replies: Reply, is_done_first: bool = False) -> None:
        """Answer the next requests to a path (a pattern) with these."""
        self.faults.append(
            Fault(method=method, path=path, replies=list(replies), is_done_first=is_done_first)
        )

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def writes(self) -> list[str]:
        """The methods of the requests that change something, in order."""
        return [
            r.method for r in self.requests if r.method != "GET" and "graphql" not in str(r.url)
        ]

    def api(self, waits: Waits | None = None, url: str = "https://api.github.com") -> Api:
        """Our side of it, with a clock that stands still."""
        client = github.connect(url, self.token, transport=self.transport())
        sleep = Waits() if waits is None else waits
        return Api(client, self.repository, clock=lambda: NOW, sleep=sleep)

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.handle)

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one request as GitHub would."""
        request.read()
        self.requests.append(request)
        for number, (method, happens) in enumerate(self.before):
            if method == request.method and "graphql" not in request.url.path:
                del self.before[number]
                happens()
                break
        fault = next(
            (
                fault
                for fault in self.faults
                if fault.replies
                and fault.method == request.method
                and re.fullmatch(fault.path, request.url.path)
            ),
            None,
        )
        if fault is None:
            return self._answer(request)
        if fault.is_done_first:
            self._answer(request)
        reply = fault.replies.pop(0)
        if isinstance(reply, httpx.Response):
            return reply
        raise reply("as the test wants", request=request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if stored := re.fullmatch(r"/store/(\d+)", request.url.path):
            return self._stored(request, int(stored[1]))
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _says(401, "Bad credentials")
        if request.headers.get("x-github-api-version") != "2022-11-28":
            return _says(400, "the API version is missing")
        path, method = request.url.path, request.method
        if path == self.api_path.removesuffix("/v3") + "/graphql" and method == "POST":
            if not self.has_graphql:
                return _says(404, "Not Found")
            return httpx.Response(200, json={"data": {"viewer": {"login": self.login}}})
        path = path.removeprefix(self.api_path)
        if path == "/user":
            if self.is_app:
                return _says(403, READ_ONLY)
            return httpx.Response(200, json={"login": self.login, "id": 1})
        inside = re.fullmatch(f"/repos/{re.escape(self.repository)}/(.+)", path)
        if inside is None:
            return _says(404, "Not Found")
        rest = inside[1]
        if found := re.fullmatch(r"issues/(\d+)/comments", rest):
            issue = int(found[1])
            return self._create(request, issue) if method == "POST" else self._list(request, issue)
        if found := re.fullmatch(r"issues/comments/(\d+)", rest):
            return self._change(request, int(found[1]))
        if found := re.fullmatch(r"pulls/(\d+)", rest):
            wanted = [pull for pull in self.pulls if pull["number"] == int(found[1])]
            return httpx.Response(200, json=wanted[0]) if wanted else _says(404, "Not Found")
        if found := re.fullmatch(r"actions/runs/(\d+)/artifacts", rest):
            run = int(found[1])
            wanted = [a for a in self.artifacts if (a["workflow_run"] or {"id": run})["id"] == run]
            return self._page(request, wanted, field="artifacts")
        if found := re.fullmatch(r"actions/artifacts/(\d+)/zip", rest):
            return self._redirect(request, int(found[1]))
        if rest == "pulls":
            head, state = request.url.params.get("head"), request.url.params.get("state")
            wanted = [p for p in self.pulls if p["state"] == state and p["head"]["label"] == head]
            return self._page(request, wanted)
        if found := re.fullmatch(r"commits/([0-9a-f]+)/pulls", rest):
            # GitHub lists whatever contains the commit, also where it is not the newest.
            return self._page(request, self.pulls)
        return _says(404, "Not Found")

    def _list(self, request: httpx.Request, issue: int) -> httpx.Response:
        shown = [comment for comment in self.comments if comment["issue"] == issue]
        if self.is_list_stale:
            shown = []
        return self._page(request, sorted(shown, key=lambda comment: comment["id"]))

    def _create(self, request: httpx.Request, issue: int) -> httpx.Response:
        if refusal := self._refuses(request):
            return refusal
        identifier = self.add_comment(_body(request), author=self.login, issue=issue)
        return httpx.Response(201, json=self._comment(identifier))

    def _change(self, request: httpx.Request, identifier: int) -> httpx.Response:
        comment = self._comment(identifier)
        if comment is None:
            return _says(404, "Not Found")
        if refusal := self._refuses(request):
            return refusal
        if comment["user"] is None or comment["user"]["login"] != self.login:
            return _refusal(READ_ONLY)
        if request.method == "DELETE":
            self.comments.remove(comment)
            return httpx.Response(204)
        comment["body"] = _body(request)
        return httpx.Response(200, json=comment)

    def _comment(self, identifier: int) -> dict[str, Any] | None:
        return next((c for c in self.comments if c["id"] == identifier), None)

    def _refuses(self, request: httpx.Request) -> httpx.Response | None:
        if self.is_read_only:
            return _refusal(READ_ONLY)
        if self.is_locked:
            return _refusal("Unable to create comment because issue is locked.")
        if request.method != "DELETE" and len(_body(request)) > MAX_BODY:
            errors = [{"message": f"Body is too long (maximum is {MAX_BODY} characters)"}]
            body = {"message": "Validation Failed", "errors": errors}
            return httpx.Response(422, json=body)
        return None

    def _redirect(self, request: httpx.Request, number: int) -> httpx.Response:
        if all(artifact["id"] != number for artifact in self.artifacts):
            return _says(404, "Not Found")
        if any(a["id"] == number and a["expired"] for a in self.artifacts):
            return _says(410, "Artifact has expired")
        url = request.url
        store = STORE if url.scheme == "https" else f"http://{url.netloc.decode()}"
        signature = quote(SIGNATURE, safe="")
        return httpx.Response(302, headers={"location": f"{store}/store/{number}?sig={signature}"})

    def _stored(self, request: httpx.Request, number: int) -> httpx.Response:
        if "authorization" in request.headers:  # a store of blobs refuses two proofs at once
            return httpx.Response(400)
        if request.url.params.get("sig") != SIGNATURE:
            return httpx.Response(403)
        content = self.zips[number]
        headers = {"content-length": str(len(content)), "content-type": "application/zip"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(content))

    def _page(
        self, request: httpx.Request, items: list[dict[str, Any]], field: str = ""
    ) -> httpx.Response:
        size = min(int(request.url.params.get("per_page", 30)), 100)
        page = int(request.url.params.get("page", 1))
        headers = {}
        if page * size < len(items):
            # GitHub's links go by the repository's number, not by its name.
            query = request.url.copy_merge_params({"page": str(page + 1)}).query.decode()
            link = f"https://api.github.com/repositories/1/issues/7/comments?{query}"
            headers["link"] = f'<{link}>; rel="next", <{link}>; rel="last"'
        shown: Any = items[(page - 1) * size : page * size]
        if field:
            shown = {"total_count": len(items), field: shown}
        return httpx.Response(200, json=shown, headers=headers)


def _body(request: httpx.Request) -> str:
    body: str = json.loads(request.content)["body"]
    return body


def _says(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"message": message})


def _refusal(message: str) -> httpx.Response:
    headers = {"x-accepted-github-permissions": "issues=write; pull_requests=write"}
    return httpx.Response(403, json={"message": message}, headers=headers)


@contextmanager
def serve(github: FakeGithub, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve it on a free port; yields the address for GITHUB_API_URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            url = f"http://{self.headers['host']}{self.path}"
            headers = list(self.headers.items())
            response = github.handle(
                httpx.Request(self.command, url, headers=headers, content=content)
            )
            response.read()
            self.send_response(response.status_code)
            for name, value in response.headers.items():
                self.send_header(name, value)
            if response.status_code != 204 and "content-length" not in response.headers:
                self.send_header("content-length", "0")
            self.end_headers()
            self.wfile.write(response.content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing: the test's output is not the place."""

    server = ThreadingHTTPServer((host, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}{github.api_path}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
