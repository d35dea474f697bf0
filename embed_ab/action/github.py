"""GitHub's REST interface: one policy for headers, waiting, pages and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import httpx
from pydantic import Field, TypeAdapter, ValidationError

from embed_ab import formats
from embed_ab.errors import GithubError

PATIENCE = 120.0
"""Seconds that all requests of one run may wait together before a surface is given up."""
ATTEMPTS = 4
MAX_PAGES = 30
"""Of 100 each: GitHub itself closes a conversation at 2,500 comments."""
MAX_BYTES = 64_000_000
"""A page of 100 comments, each as long as it may be and all of it escaped."""

T = TypeVar("T")
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Number = Annotated[int, Field(strict=True, ge=1, lt=2**63)]

_REPOSITORY = re.compile(r"[\w-][\w.-]{0,99}/(?!\.\.?$)[\w.-]{1,100}", re.ASCII)


class Refused(GithubError):
    """GitHub answered, and the answer is no."""

    def __init__(self, message: str, *, status: int, is_permission: bool, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.is_permission = is_permission


class Unanswered(GithubError):
    """A request to write got no answer or a late one: look again before writing again."""


def connect(
    api_url: str, token: str, *, transport: httpx.BaseTransport | None = None
) -> httpx.Client:
    """Return a client for the address in GITHUB_API_URL. Raises: GithubError."""
    if not re.fullmatch("[!-~]+", token):
        # Said here, because the error of the HTTP library would show the token.
        raise GithubError(
            "there is no usable token for GitHub", hint="Give the input github-token."
        )
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "embed-ab-action",
    }
    timeout = httpx.Timeout(30, connect=10)
    try:
        # Redirects are not followed: another host has no business with the token.
        return httpx.Client(base_url=api_url, headers=headers, timeout=timeout, transport=transport)
    except httpx.InvalidURL:
        raise GithubError(f"GITHUB_API_URL is no address: {formats.plain(api_url)}") from None
    except (OSError, ValueError, ImportError) as error:
        raise no_client(error) from None


def no_client(error: Exception) -> GithubError:
    """Return what to say where no HTTP client can be made."""
    return GithubError(
        f"no connection can be made: {type(error).__name__}: {formats.plain(str(error))}",
        hint="Look at the variables SSL_CERT_FILE, HTTPS_PROXY, ALL_PROXY and NO_PROXY; a file "
        "must be one that the container has, below the workspace for example.",
    )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What GitHub sent back: parsed JSON, and the query of the next page."""

    status: int
    headers: httpx.Headers
    content: Any
    next_page: Mapping[str, str] | None

    @property
    def message(self) -> str:
        """Return GitHub's own words for a refusal, on one line."""
        if not isinstance(self.content, dict):
            return ""
        errors = self.content.get("errors")
        first = errors[0] if isinstance(errors, list) and errors else None
        said = [self.content.get("message"), first.get("message") if isinstance(first, dict) else 0]
        words = ": ".join(part for part in said if isinstance(part, str))
        return formats.shorten(formats.plain(words[:1000]), 300)

    @property
    def is_rate_limit(self) -> bool:
        """Return whether waiting helps; GitHub uses 403 for this and for missing permissions."""
        said = self.message.lower()
        return self.status == 429 or (
            self.status == 403
            and (
                "retry-after" in self.headers
                or self.headers.get("x-ratelimit-remaining") == "0"
                or "rate limit" in said
                or "abuse detection" in said
            )
        )

    @property
    def permissions(self) -> str:
        """Return what a token needs for this request, as one writes it in a workflow."""
        header = self.headers.get("x-accepted-github-permissions", "")[:500]
        choices = [re.findall("([a-z_]{1,40})=([a-z]{1,10})", part) for part in header.split(";")]
        return " or ".join(
            " and ".join(f"{name.replace('_', '-')}: {level}" for name, level in choice)
            for choice in choices
            if choice
        )


class Api:
    """GitHub's REST interface to one repository, with a limited patience for all requests."""

    def __init__(
        self,
        client: httpx.Client,
        repository: str,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """Take the clock in seconds since 1970. Raises: GithubError if it is no owner/name."""
        if not _REPOSITORY.fullmatch(repository):
            raise GithubError(f"GITHUB_REPOSITORY is no owner/name: {formats.plain(repository)}")
        self.repository = repository
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._patience = PATIENCE

    @property
    def scheme(self) -> str:
        """Return https, or http for a server of a test."""
        return self._client.base_url.scheme

    def path(self, rest: str) -> str:
        """Return the path of something in the repository."""
        return f"/repos/{self.repository}/{rest}"

    def graphql(self) -> str:
        """Return the address for GraphQL, which enterprise servers keep beside /api/v3."""
        return str(self._client.base_url).rstrip("/").removesuffix("/v3") + "/graphql"

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        params: Mapping[str, str] | None = None,
        wanted: Container[int] = range(200, 300),
    ) -> Answer:
        """Return the answer, after waiting where GitHub asks for it or a server fails.

        wanted: the statuses that are no refusal.
        POST and PATCH are not repeated: they may have been done, and while we waited another run
        may have written. The caller looks again.
        Raises: Refused, Unanswered, GithubError.
        """
        what = f"{method} {path}"
        for attempt in range(ATTEMPTS):
            try:
                answer = self._send(method, path, body, params)
            except httpx.RequestError as error:
                problem, pause = f"{what}: {type(error).__name__}", float(2**attempt)
            else:
                if answer.status in wanted:
                    return answer
                problem, pause = f"{what}: GitHub answered {answer.status}", float(2**attempt)
                if answer.is_rate_limit:
                    problem, pause = f"{what}: GitHub's rate limit", self._pause(answer, attempt)
                elif answer.status not in (500, 502, 503, 504):
                    raise _refused(what, answer)
            if attempt + 1 < ATTEMPTS:
                self.wait(pause, problem)
            if method in ("POST", "PATCH"):
                raise Unanswered(problem)
        raise GithubError(f"{problem}, {ATTEMPTS} times")

    def pages(self, path: str, params: Mapping[str, str], *, field: str = "") -> Iterator[Any]:
        """Yield what every page of a list holds.

        field: which one has the list, where the answer is an object.
        Of the address of the next page only the query is used: where it leads is ours to say.
        Raises: GithubError.
        """
        query: Mapping[str, str] | None = {"per_page": "100", **params}
        for _ in range(MAX_PAGES):
            answer = self.request("GET", path, params=query)
            items = answer.content
            if field and isinstance(items, dict):
                items = items.get(field)
            if not isinstance(items, list):
                raise GithubError(f"GET {path}: GitHub sent no list")
            yield from items
            query = answer.next_page
            if query is None:
                return
        raise GithubError(f"GET {path}: more than {MAX_PAGES} pages")

    def wait(self, seconds: float, problem: str) -> None:
        """Wait before another attempt. Raises: GithubError when the patience is used up."""
        if seconds > self._patience:
            raise GithubError(
                f"{problem}; it would take {seconds:.0f} s until the next attempt",
                hint="Run the job again later.",
            )
        self._patience -= seconds
        self._sleep(seconds)

    def _pause(self, answer: Answer, attempt: int) -> float:
        # Source: "Rate limits for the REST API". The reset stands in every answer, and counts only
        # where nothing remains: another limit ends long before it.
        headers = answer.headers
        if after := _seconds(headers.get("retry-after")):
            return after
        reset = _seconds(headers.get("x-ratelimit-reset"))
        if reset and headers.get("x-ratelimit-remaining") == "0":
            return max(reset - self._clock(), 1.0)
        return 60.0 * float(2**attempt)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        params: Mapping[str, str] | None,
    ) -> Answer:
        with self._client.stream(method, path, json=body, params=params) as response:
            content = bytearray()
            for part in response.iter_bytes():
                content += part
                if len(content) > MAX_BYTES:
                    raise GithubError(f"{method} {path}: an answer of more than 64 MB")
        try:
            following = response.links.get("next", {}).get("url")
            next_page = dict(httpx.URL(following).params) if following else None
        except httpx.InvalidURL:
            raise GithubError(f"{method} {path}: the address of the next page is none") from None
        return Answer(
            status=response.status_code,
            headers=response.headers,
            content=_parsed(bytes(content)),
            next_page=next_page,
        )


def read(kind: TypeAdapter[T], content: Any, what: str) -> T:
    """Return what was sent as a type. Raises: GithubError that names the field, not its value."""
    try:
        return kind.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        problem = formats.plain(f"{place}: {first['msg']}")
        raise GithubError(f"{what} is not as GitHub describes it: {problem}") from None


def _seconds(text: str | None) -> float | None:
    return max(float(text), 1.0) if text and re.fullmatch("[0-9]{1,12}", text) else None


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):
        return None  # a proxy's error page; what needs JSON says so


def _refused(what: str, answer: Answer) -> Refused:
    said = f" ({answer.message})" if answer.message else ""
    is_permission = answer.status == 403 and "locked" not in answer.message.lower()
    hint = ""
    if is_permission and answer.permissions:
        hint = f"The token needs {answer.permissions}."
    elif answer.status == 401:
        hint = "The input github-token is not valid, or no longer."
    return Refused(
        f"{what}: GitHub answered {answer.status}{said}",
        status=answer.status,
        is_permission=is_permission,
        hint=hint,
    )
