"""One way to talk to a server of models: when to try again, how long to wait, what to say."""

from __future__ import annotations

import json
import logging
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from html import unescape
from typing import Any

import httpx
from httpx_retries import Retry, RetryTransport

from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.addresses import is_loopback, secrets_of, shown
from embed_ab.providers.threads import Slots

_LOG = logging.getLogger(__name__)  # waits and the like, for those who listen

TRIES = 7
FIRST_TRIES = 2  # of a server that never answered: it may be loading a model, or be none at all
_SILENCE_SECONDS = 10.0  # at first contact, until that is told
CONNECT_SECONDS = 4.0  # a server that is down must be known within five
MAX_WAIT_SECONDS = 600.0  # a longer Retry-After is a quota of hours, and ends the run
MAX_ANSWER_BYTES = 256 * 2**20
_MAX_ERROR_BYTES = 64 * 2**10
_MAX_SAID = 300
_ENCODINGS = frozenset({"identity", "gzip", "deflate"})
_MAX_REDIRECTS = 3
_RETRIED = frozenset({408, 425, 429, *range(500, 600)})
_AGAIN_HINT = "Run the same command again later: it goes on from what is kept."
_HINTS = {
    401: "Check the key that the environment gives for this server.",
    403: "Check the key that the environment gives for this server, and what it may use.",
    404: "Check the server's address and the name of the model.",
}
_SPEAKS_OF_SIZE = frozenset({429, 500})  # besides 4xx; a 503 is about the server, whatever it says
_NAN = re.compile(r"\bNaN\b")  # Ollama answers 500: json: unsupported value: NaN
# Texts or batches that are too long; some servers say so with 429 or 500. A rate limit, "tokens per
# min", must not match: waiting heals it.
_TOO_LONG = re.compile(
    r"context (length|size|window)|(request|input|inputs) (is |are )?too (large|long)"
    r"|too many tokens|maximum (input|sequence) length|tokens per request"
    r"|max allowed tokens|larger than the max|physical batch size|must have less than \d+ tokens",
    re.IGNORECASE,
)


class RequestRefused(ProviderError):
    """The server refuses the request itself; the same one would be refused again."""

    def __init__(
        self, message: str, *, status: int, hint: str = "", said: str = "", words: str = ""
    ) -> None:
        super().__init__(message, hint=hint, said=said)
        self.status = status
        self._words = words or said

    def speaks_of(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern is in the server's words, before a key was masked in them."""
        return bool(pattern.search(self._words))

    @property
    def may_be_size(self) -> bool:
        """Whether fewer or shorter texts may pass."""
        return self.status in (400, 413, 422) or self.names_length

    @property
    def names_nan(self) -> bool:
        """Whether the server failed on a vector that is no numbers."""
        return self.speaks_of(_NAN)

    @property
    def names_length(self) -> bool:
        """Whether the server speaks of length or tokens, not of the number of texts."""
        is_count = "batch size" in self._words and "token" not in self._words
        return self.speaks_of(_TOO_LONG) or (self.status == 413 and not is_count)


class Server:
    """A server under one base URL, asked by one policy; any number of threads may ask at once.

    What a pause may heal (408, 425, 429, 5xx, time-outs) is tried TRIES times over two minutes, or
    as long as Retry-After wants. Until the server has answered a request, a connection that fails
    is an error at once, and a time-out at the second try; from then on both are tried again.
    Each wait is told to the logger of this module, level INFO.

    headers: sent with every request to this host and no other. Their values never show in errors,
        nor do passwords and parameters in the base URL.
    clock, sleep, jitter: seconds that only grow, waiting, and a number from 0 to 1.
    transport: what carries the requests; None takes the network, with the proxies and CA bundles
        that the environment names.
    hint: what mends a server that cannot be reached; hints: the same for single statuses.
    total_seconds: for one try, from the name lookup to the last byte.
    concurrency: how many requests may be on their way at once; None for any number.
    list_name: an answer that is a list is taken for an object with it under this name; "" refuses.
    """

    def __init__(
        self,
        base_url: httpx.URL | str,
        *,
        headers: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
        hint: str = "",
        hints: Mapping[int, str] | None = None,
        total_seconds: float = 300.0,
        connect_seconds: float = CONNECT_SECONDS,
        concurrency: int | None = None,
        list_name: str = "",
    ) -> None:
        self.base_url = httpx.URL(base_url)
        # A proxy cannot reach this machine's own loopback, whatever the environment says.
        is_own = is_loopback(self.base_url)
        try:
            client = httpx.Client(
                headers={"Accept-Encoding": "gzip", **(headers or {})},
                timeout=httpx.Timeout(total_seconds, connect=connect_seconds, pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
                transport=transport,
                trust_env=not is_own,
                verify=httpx.create_ssl_context(),  # with the CA bundle of the environment
            )
        except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
            hint = "Look at the variables SSL_CERT_FILE, HTTPS_PROXY, ALL_PROXY and NO_PROXY."
            if isinstance(error, ImportError):
                hint = "A SOCKS proxy needs a package: pip install 'httpx[socks]'."
            raise InputError(
                # Not its words: they may hold part of a proxy's password.
                f"no connection can be made: {type(error).__name__}",
                hint=hint,
            ) from None
        secrets = secrets_of(self.base_url, headers or {})
        if secrets and self.base_url.scheme == "http" and not is_own:
            _LOG.info("the key goes to %s over plain http", shown(self.base_url))
        self._close = weakref.finalize(self, client.close)
        self._client = client
        once = _Once(
            client,
            hint=hint,
            hints=_HINTS | dict(hints or {}),
            secrets=secrets,
            total_seconds=total_seconds,
            connect_seconds=connect_seconds,
            clock=clock,
            slots=Slots(concurrency),
            list_name=list_name,
        )
        self._once = once
        self._transport = RetryTransport(
            once, _Waits(sleep=sleep, jitter=jitter, place=shown(self.base_url), mask=once.masked)
        )

    def close(self) -> None:
        """Close the connections."""
        self._close()

    def masked(self, text: str) -> str:
        """Return what a server said, on one line, bounded, without our keys."""
        return self._once.masked(text)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON object that answers a request. Raises: RequestRefused, ProviderError."""
        return self.post_timed(path, body)[0]

    def post_timed(self, path: str, body: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Return the answer, and the seconds of the try that brought it, without waits."""
        # Half of a surrogate pair cannot be sent; the text around it can.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        return self._ask("POST", path, content=content, headers=headers)

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at a path. Raises: RequestRefused, ProviderError."""
        return self._ask("GET", path, headers={"Accept": "application/json"})[0]

    def url(self, path: str) -> httpx.URL:
        """Return the address of a path under the base URL, whose query stays."""
        base, mark, query = self.base_url.raw_path.partition(b"?")
        return self.base_url.copy_with(raw_path=base.rstrip(b"/") + path.encode() + mark + query)

    def _ask(self, method: str, path: str, **more: Any) -> tuple[dict[str, Any], float]:
        request = self._client.build_request(method, self.url(path), **more)
        try:
            response = self._transport.handle_request(request)
        except httpx.RequestError as error:
            raise ProviderError(
                f"{_place(request)}: {self.masked(_reason(error))} ({TRIES} tries)",
                hint=_AGAIN_HINT,
            ) from None
        if not response.is_success:
            raise ProviderError(
                f"{_answered(request, response)} ({TRIES} tries)",
                hint=_AGAIN_HINT,
                said=self._once.said(response),
            )
        return response.extensions["json"], response.extensions["seconds"]


class _Waits(Retry):
    """How often to try again, and how long to wait before it."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], None],
        jitter: Callable[[], float],
        place: str = "",
        mask: Callable[[str], str] = str,
        attempts_made: int = 0,
    ) -> None:
        super().__init__(
            total=TRIES - 1,
            attempts_made=attempts_made,
            allowed_methods=["GET", "POST"],
            status_forcelist=_RETRIED,
            retry_on_exceptions=[httpx.RequestError],
        )
        self._sleep = sleep
        self._jitter = jitter
        self._place = place
        self._mask = mask

    def increment(self) -> _Waits:
        return _Waits(
            sleep=self._sleep,
            jitter=self._jitter,
            place=self._place,
            mask=self._mask,
            attempts_made=self.attempts_made + 1,
        )

    def sleep(self, response: httpx.Response | Exception) -> None:
        wait: float = 2.0**self.attempts_made  # 2, 4, … 64: 126 seconds in all
        if isinstance(response, httpx.Response):
            wait = max(wait, asked_wait(response))
        wait *= 1 + 0.25 * self._jitter()  # upwards only: never earlier than the server asked for
        failed = (
            f"{response.status_code} {response.reason_phrase}".rstrip()
            if isinstance(response, httpx.Response)
            else _reason(response)
        )
        next_try = self.attempts_made + 1
        told = self._mask(failed), next_try, TRIES, wait
        _LOG.info("%s: %s; try %d of %d in %.0f s", self._place, *told)
        self._sleep(wait)


def asked_wait(response: httpx.Response) -> float:
    """Return the seconds that Retry-After asks for, 0 where it is no number and no date."""
    try:
        return Retry().parse_retry_after(response.headers.get("Retry-After", ""))
    except (ValueError, OverflowError):
        return 0.0


class _Once(httpx.BaseTransport):
    """A whole try as one step of the retry transport: connection, answer, and its JSON."""

    def __init__(
        self,
        client: httpx.Client,
        *,
        hint: str,
        hints: Mapping[int, str],
        secrets: list[str],
        total_seconds: float,
        connect_seconds: float,
        clock: Callable[[], float],
        slots: Slots,
        list_name: str,
    ) -> None:
        self._client = client
        self._hint = hint
        self._hints = hints
        self._secrets = secrets
        self._total_seconds = total_seconds
        self._connect_seconds = connect_seconds
        self._clock = clock
        self._slots = slots
        self._list_name = list_name
        self._has_answered = False
        self._n_unanswered = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = self._in_time(request)  # its slot is free again before it is parsed
            if response.is_success:
                response.extensions["json"] = _object(response, self._list_name)
        except httpx.RequestError as error:
            waited = isinstance(error, httpx.TimeoutException)
            tries = FIRST_TRIES if waited and not isinstance(error, httpx.ConnectTimeout) else 1
            self._n_unanswered += 1
            if self._has_answered or self._n_unanswered < tries:
                raise
            reason = self.masked(_reason(error))
            raise ProviderError(
                f"{_place(request)}: {reason}{f' ({tries} tries)' if tries > 1 else ''}",
                hint=self._hint,
                said=self.said(error.response) if isinstance(error, _NotJson) else "",
            ) from error
        if response.is_success:
            self._has_answered = True
            return response
        self._refuse(request, response)
        return response

    def said(self, response: httpx.Response) -> str:
        """Return what the server wrote, on one line, bounded, without our keys."""
        return self.masked(_words(response))

    def masked(self, text: str) -> str:
        """Return a text on one line, bounded, without our keys."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return re.sub(r"\s+", " ", text).strip()[:_MAX_SAID]

    def _refuse(self, request: httpx.Request, response: httpx.Response) -> None:
        """Raise RequestRefused unless a pause may heal."""
        status, words = response.status_code, _words(response)
        hint = self._hints.get(status, "")
        answered = _answered(request, response)
        if "location" in response.headers and response.is_redirect:
            target = self.masked(_target(request, response))
            answered += f" and points to {target}, where keys do not follow"
            hint = "Give the final address of the server as its base URL."
        wait = asked_wait(response)
        if wait > MAX_WAIT_SECONDS:
            answered += f" and asks to wait {wait:.0f} seconds"
            hint = _AGAIN_HINT
        elif b"insufficient_quota" in response.content:
            hint = "The account has no credit left."
        elif status in _RETRIED and not (
            status in _SPEAKS_OF_SIZE and (_TOO_LONG.search(words) or _NAN.search(words))
        ):
            return
        raise RequestRefused(
            answered, status=status, hint=hint, said=self.masked(words), words=words
        )

    def _in_time(self, request: httpx.Request) -> httpx.Response:
        """Return the answer, read whole.

        In a thread of its own, because no time-out of a socket bounds the lookup of a name, one
        address tried after another, or an answer that comes byte by byte. A thread out of time is
        left behind; it ends with its connection.
        """
        is_first = not self._has_answered
        begun, moved = threading.Event(), threading.Event()  # moved: connected, or ended

        def trace(event: str, info: object) -> None:
            if event.endswith(".send_request_headers.started"):
                moved.set()

        def first() -> httpx.Response:
            begun.set()
            try:
                return self._follow(request, {"trace": trace})
            finally:
                moved.set()

        call = self._slots.put(first if is_first else lambda: self._follow(request, {}))
        try:
            if is_first:
                begun.wait()
                if not moved.wait(self._connect_seconds + 0.5):
                    raise httpx.ConnectTimeout("timed out")
                with suppress(TimeoutError):
                    return call.result(min(_SILENCE_SECONDS, self._total_seconds))
                _LOG.info("%s: no answer yet; it may be loading a model", _place(request))
            return call.result(self._total_seconds)
        except TimeoutError:
            raise httpx.ReadTimeout("timed out") from None
        finally:
            self._slots.leave(call)

    def _follow(self, request: httpx.Request, extensions: Mapping[str, Any]) -> httpx.Response:
        """Send a request, also to where its own host moved it."""
        for _ in range(_MAX_REDIRECTS):
            timeout = request.extensions["timeout"]
            request.extensions = {"timeout": timeout, **extensions}
            started = self._clock()
            try:
                reply = self._client.send(request, stream=True)
            except UnicodeError:  # the name of a host, which no lookup would take
                raise httpx.RemoteProtocolError(
                    "points to an address that is none", request=request
                ) from None
            with closing(reply):
                response = _read(reply)
            response.extensions["seconds"] = self._clock() - started
            onward = reply.next_request
            # 301 to 303 would make a GET of a POST.
            if onward is None or reply.status_code not in (307, 308):
                break
            if onward.url.copy_with(raw_path=b"/") != request.url.copy_with(raw_path=b"/"):
                break
            request = onward
        return response


class _NotJson(httpx.DecodingError):
    def __init__(self, message: str, response: httpx.Response) -> None:
        super().__init__(message, request=response.request)
        self.response = response


def _read(reply: httpx.Response) -> httpx.Response:
    """Return a response that holds its content, which is cut for errors and bounded for answers."""
    if reply.headers.get("Content-Encoding", "identity").lower() not in _ENCODINGS:
        # One after the other, or another one, may make gigabytes of a few bytes at once.
        raise ProviderError(f"{_place(reply.request)}: the answer is compressed in a strange way")
    limit = MAX_ANSWER_BYTES if reply.is_success else _MAX_ERROR_BYTES
    content = bytearray()
    for piece in reply.iter_bytes():
        content += piece
        if len(content) > limit:
            if reply.is_success:
                raise ProviderError(
                    f"{_place(reply.request)}: the answer is larger "
                    f"than {MAX_ANSWER_BYTES // 2**20} MB"
                )
            break
    headers = httpx.Headers(reply.headers)
    for name in ("content-encoding", "transfer-encoding", "content-length"):
        headers.pop(name, None)
    return httpx.Response(
        reply.status_code,
        headers=headers,
        content=bytes(content[:limit]),
        request=reply.request,
    )


def _object(response: httpx.Response, list_name: str) -> dict[str, Any]:
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        answer = None
    if list_name and isinstance(answer, list):
        answer = {list_name: answer}
    if not isinstance(answer, dict):
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
        what = kind if re.fullmatch(r"[\w.+/-]{1,60}", kind) else "something"
        raise _NotJson(f"answered with {what} that is not a JSON object", response)
    return answer


def _words(response: httpx.Response) -> str:
    """The server's own words: the message in its JSON, the title of its page, or its text."""
    # In UTF-8, whatever is announced: some names of encodings are no encodings of text.
    text = response.content[:_MAX_ERROR_BYTES].decode("utf-8", "replace")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        if title := re.search(r"<title[^>]*>([^<]{1,300})", text, re.IGNORECASE):
            return unescape(title[1])
        return "" if "<html" in text[:1000].lower() else text
    for _ in range(4):
        if isinstance(found, list) and found:
            found = found[0]
        elif isinstance(found, dict):
            names = ("error", "message", "detail", "msg", "errors", "error_message")
            found = next((found[name] for name in names if found.get(name)), "")
    return found if isinstance(found, str) else ""


def _place(request: httpx.Request) -> str:
    return f"{request.method} {shown(request.url)}"


def _answered(request: httpx.Request, response: httpx.Response) -> str:
    return f"{_place(request)} answered {response.status_code} {response.reason_phrase}".rstrip()


def _target(request: httpx.Request, response: httpx.Response) -> str:
    try:
        return shown(request.url.join(response.headers["location"]))
    except (httpx.InvalidURL, ValueError):
        return "an address that is none"


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "no connection in time"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx.ConnectError):
        return f"no connection ({error})"
    return str(error) or type(error).__name__
