"""The runner's results service: who this job is, calls, and uploads to its blob store."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, unquote, urlsplit

import httpx

from embed_ab import __version__
from embed_ab.errors import GithubError
from embed_ab.formats import plain, shorten

USER_AGENT = f"embed-ab-action/{__version__}"
BLOCK_BYTES = 8 * 1024 * 1024
ATTEMPTS = 5
LONGEST_WAIT = 60.0  # seconds; a server that asks for more is not waited for
_FIRST_WAIT, _GROWTH = 3.0, 1.5
_CALL_TIMEOUT = httpx.Timeout(20.0)
_BLOB_TIMEOUT = httpx.Timeout(60.0)  # without progress, not for the whole transfer
_STORAGE_VERSION = "2021-08-06"  # of the blob store's protocol
_PASSING_STATUS = {429, 500, 502, 503, 504}
_MISSING_STATUS = {404, 405, 501}
_MISSING_CODES = {"", "bad_route", "unimplemented"}  # not an entry's not_found
INSTEAD = (
    "Set upload-artifact: false, and upload the file that the output report-path names "
    "with a step of its own."
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What a job has for speaking with the results service.

    run_id, job_id: the service's own names of run and job, from the token.
    run_page: address of the run for people, "" where unknown.
    cache_mode: what the runner says this job may do with caches, "" where it says nothing.
    mask: hides a string in the log from then on.
    jitter: gives numbers from 0 to 1 that spread the retries of many jobs.
    """

    origin: str
    token: str = field(repr=False)
    run_id: str
    job_id: str
    run_page: str
    max_retention_days: int | None
    cache_mode: str
    mask: Callable[[str], None]
    sleep: Callable[[float], None]
    jitter: Callable[[], float]


class ServiceError(GithubError):
    """An answer of the results service, or none.

    status: of the answer, 0 for none. code, text: of its body.
    is_passing: the same call may work later. wait: seconds the server asks for.
    is_unsure: this attempt, or one before, may have been carried out although no answer came.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        text: str = "",
        is_passing: bool = False,
        is_unsure: bool = False,
        wait: float = 0.0,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.text = text
        self.is_passing = is_passing
        self.is_unsure = is_unsure
        self.wait = wait

    @property
    def is_missing_service(self) -> bool:
        """Whether the server does not know the service that was called."""
        return self.status in _MISSING_STATUS and self.code in _MISSING_CODES


def unavailable(environ: Mapping[str, str]) -> str:
    """Return why there is no results service that the action can use, or "" where there is one."""
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    host = _host(server)
    if host != "github.com" and not host.endswith((".ghe.com", ".localhost")):
        return (
            f"{shorten(plain(server), 100)} is not GitHub.com: enterprise servers and other forges "
            "have no artifact service of the kind that the action speaks"
        )
    for name in ("ACTIONS_RESULTS_URL", "ACTIONS_RUNTIME_TOKEN"):
        if not environ.get(name):
            return f"the runner gave no {name}, which it does inside a workflow's job only"
    return ""


def runtime_of(
    environ: Mapping[str, str],
    *,
    mask: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> Runtime:
    """Return what the environment of a job's step says. Raises: GithubError."""
    if reason := unavailable(environ):
        raise GithubError(f"no artifact service: {reason}", hint=INSTEAD)
    if not _is_address(environ["ACTIONS_RESULTS_URL"]):
        raise GithubError("ACTIONS_RESULTS_URL is not an address", hint=INSTEAD)
    address = urlsplit(environ["ACTIONS_RESULTS_URL"])
    token = environ["ACTIONS_RUNTIME_TOKEN"]
    run_id, job_id = _backend_ids(token)
    days = environ.get("GITHUB_RETENTION_DAYS", "")
    return Runtime(
        origin=f"{address.scheme}://{address.netloc.rpartition('@')[2]}",
        token=token,
        run_id=run_id,
        job_id=job_id,
        run_page=_run_page(environ),
        max_retention_days=int(days) if days.isascii() and days.isdigit() and int(days) else None,
        cache_mode=environ.get("ACTIONS_CACHE_MODE", "").strip().lower(),
        mask=mask,
        sleep=sleep,
        jitter=jitter,
    )


def call(
    client: httpx.Client,
    runtime: Runtime,
    service: str,
    method: str,
    fields: Mapping[str, Any],
    *,
    waits_for_rate_limit: bool = True,
) -> dict[str, Any]:
    """Return the answer to one call, tried again while that may help. Raises: ServiceError."""
    url = f"{runtime.origin}/twirp/github.actions.results.api.v1.{service}/{method}"
    headers = {
        "Authorization": f"Bearer {runtime.token}",
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "Accept-Encoding": "identity",
    }
    content = json.dumps(fields).encode()

    def once() -> dict[str, Any]:
        request = client.build_request(
            "POST", url, content=content, headers=headers, timeout=_CALL_TIMEOUT
        )
        return _answer(method, _send(client, request, method))

    return retrying(runtime, once, waits_for_rate_limit=waits_for_rate_limit)


def text_of(reply: Mapping[str, Any], name: str) -> str:
    """Return a text field of an answer, in either spelling, or "" without it.

    Numbers of 64 bits arrive as texts too.
    """
    first, *others = name.split("_")
    value = reply.get(name, reply.get(first + "".join(map(str.capitalize, others)), ""))
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def signed_url(runtime: Runtime, reply: Mapping[str, Any], name: str) -> str:
    """Return a signed address from an answer, its signature hidden in the log first.

    Raises: ServiceError.
    """
    url = text_of(reply, name)
    if not _is_address(url):
        raise ServiceError(f"the results service gave no {name.replace('_', ' ')}")
    mask_signature(url, runtime.mask)
    return url


def mask_signature(url: str, mask: Callable[[str], None]) -> None:
    """Hide the signature of an address in the log, in every spelling it may come in."""
    for item in url.partition("?")[2].split("&"):
        key, _, value = item.partition("=")
        # A short value would hide everything that holds it.
        if "sig" in key.lower() and len(value) >= 8:
            once = unquote(value)
            for spelling in dict.fromkeys((value, once, quote(once, safe=""))):
                mask(spelling)


@dataclass(frozen=True, kw_only=True)
class Blob:
    """What was uploaded."""

    n_bytes: int
    sha256: str


def upload(
    client: httpx.Client, runtime: Runtime, url: str, content: BinaryIO, content_type: str
) -> Blob:
    """Upload a file to a signed address, in blocks and in order. Raises: ServiceError."""
    digest = hashlib.sha256()
    n_bytes = 0
    names: list[str] = []
    while block := content.read(BLOCK_BYTES):
        # All names of one blob must be of one length.
        names.append(base64.b64encode(f"embed-ab-{len(names):012d}".encode()).decode())
        # The address stays as it is: the signature is over its very letters.
        _put(
            client,
            runtime,
            f"{_with_query(url)}comp=block&blockid={quote(names[-1], safe='')}",
            block,
            {"Content-Type": "application/octet-stream"},
        )
        digest.update(block)
        n_bytes += len(block)
    listed = "".join(f"<Latest>{name}</Latest>" for name in names)
    _put(
        client,
        runtime,
        f"{_with_query(url)}comp=blocklist",
        f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'.encode(),
        {"Content-Type": "application/xml", "x-ms-blob-content-type": content_type},
    )
    return Blob(n_bytes=n_bytes, sha256=digest.hexdigest())


def download(
    client: httpx.Client, runtime: Runtime, url: str, target: BinaryIO, max_bytes: int
) -> int:
    """Write what a signed address holds to a file; return how many bytes that was.

    Raises: ServiceError, also for more than `max_bytes`.
    """

    def once() -> int:
        target.seek(0)
        target.truncate()
        request = client.build_request(
            "GET",
            url,
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            timeout=_BLOB_TIMEOUT,
        )
        request.headers.pop("Authorization", None)
        n_bytes = 0
        try:
            response = client.send(request, auth=None, stream=True, follow_redirects=False)
            try:
                if response.status_code != 200:
                    raise _blob_error(response)
                expected = response.headers.get("Content-Length", "")
                for piece in response.iter_raw():
                    n_bytes += len(piece)
                    if n_bytes > max_bytes:
                        raise ServiceError(f"the stored file has more than {max_bytes:,} bytes")
                    target.write(piece)
            finally:
                response.close()
        except httpx.RequestError as error:
            raise _no_answer("the blob store", error) from None
        if expected.isdigit() and int(expected) != n_bytes:
            raise ServiceError(
                f"only {n_bytes:,} of {int(expected):,} bytes arrived", is_passing=True
            )
        return n_bytes

    return retrying(runtime, once)


def retrying(runtime: Runtime, once: Callable[[], T], *, waits_for_rate_limit: bool = True) -> T:
    """Return what `once` returns, called again after each passing error. Raises: ServiceError."""
    is_unsure = False
    attempt = 0
    while True:
        try:
            return once()
        except ServiceError as error:
            attempt += 1
            is_last = (
                attempt == ATTEMPTS
                or not error.is_passing
                or error.wait > LONGEST_WAIT
                or (error.status == 429 and not waits_for_rate_limit)
            )
            error.is_unsure = is_unsure = is_unsure or error.is_unsure
            if is_last:
                raise
            wait = error.wait
        runtime.sleep(max(wait, _wait_before(attempt, runtime.jitter())))


def _wait_before(attempt: int, jitter: float) -> float:
    """Seconds before another attempt: 3, then each time half as long again, spread by jitter."""
    shortest = _FIRST_WAIT * _GROWTH ** (attempt - 1)
    return shortest if attempt == 1 else shortest * (1 + jitter * (_GROWTH - 1))


def _put(
    client: httpx.Client, runtime: Runtime, url: str, content: bytes, headers: dict[str, str]
) -> None:
    fixed = {"User-Agent": USER_AGENT, "x-ms-version": _STORAGE_VERSION}

    def once() -> None:
        request = client.build_request(
            "PUT", url, content=content, headers=fixed | headers, timeout=_BLOB_TIMEOUT
        )
        # The address carries its own signature; the token is for the results service alone.
        request.headers.pop("Authorization", None)
        response = _send(client, request, "the blob store")
        if response.status_code != 201:
            raise _blob_error(response)

    retrying(runtime, once)


def _send(client: httpx.Client, request: httpx.Request, what: str) -> httpx.Response:
    try:
        return client.send(request, auth=None, follow_redirects=False)
    except httpx.RequestError as error:
        raise _no_answer(what, error) from None


def _no_answer(what: str, error: httpx.RequestError) -> ServiceError:
    if isinstance(error, httpx.TimeoutException):
        reason = "no answer in time"
    else:
        reason = f"the connection failed ({type(error).__name__})"
    is_unsure = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    return ServiceError(f"{what}: {reason}", is_passing=True, is_unsure=is_unsure)


def _answer(method: str, response: httpx.Response) -> dict[str, Any]:
    status = response.status_code
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    if response.is_success and isinstance(body, dict):
        return body
    code = text = ""
    if isinstance(body, dict):
        code, text = text_of(body, "code"), text_of(body, "msg")
    if "insufficient usage" in text:
        raise ServiceError(
            f"{method}: the account's storage for artifacts is full",
            status=status,
            code=code,
            text=text,
            hint="Delete old artifacts, shorten their retention, or set upload-artifact: false.",
        )
    shown = shorten(plain(text), 200) if text else "no message"
    if response.is_success:
        shown = "what came is not JSON" if body is None else "what came is not a JSON object"
    raise ServiceError(
        f"{method}: the results service answered {status}: {shown}",
        status=status,
        code=code,
        text=text,
        is_passing=response.is_success or status in _PASSING_STATUS,
        is_unsure=response.is_success or status >= 500,
        wait=_retry_after(response),
    )


def _blob_error(response: httpx.Response) -> ServiceError:
    status = response.status_code
    code = shorten(plain(response.headers.get("x-ms-error-code", "")), 60)
    return ServiceError(
        f"the blob store answered {status}" + (f" ({code})" if code else ""),
        status=status,
        code=code,
        is_passing=status in _PASSING_STATUS,
        wait=_retry_after(response),
    )


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _with_query(url: str) -> str:
    return url + ("&" if urlsplit(url).query else "?")


def _host(url: str) -> str:
    try:
        return (urlsplit(url.strip()).hostname or "").lower()
    except ValueError:
        return ""


def _is_address(url: str) -> bool:
    try:
        return httpx.URL(url).scheme in ("http", "https") and bool(_host(url))
    except httpx.InvalidURL:
        return False


def _run_page(environ: Mapping[str, str]) -> str:
    parts = [environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    server, repository, run = parts
    return f"{server.rstrip('/')}/{repository}/actions/runs/{run}" if all(parts) else ""


def _backend_ids(token: str) -> tuple[str, str]:
    """Return the service's ids of run and job from the token's scopes, without its signature."""
    wrong = GithubError(
        "ACTIONS_RUNTIME_TOKEN does not name the run and the job for the results service",
        hint=INSTEAD,
    )
    if not token.isascii() or token.count(".") != 2:
        raise wrong
    payload = token.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        raise wrong from None
    scopes = claims.get("scp") if isinstance(claims, dict) else None
    for scope in scopes.split() if isinstance(scopes, str) else ():
        name, *ids = scope.split(":")
        if name == "Actions.Results":
            if len(ids) != 2 or not all(ids):
                break
            return ids[0], ids[1]
    raise wrong
