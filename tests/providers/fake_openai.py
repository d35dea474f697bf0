"""A stand-in for OpenAI's /v1/embeddings: as strict as the real one, and faulty on request."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import loopback
import numpy as np

from embed_ab.providers.mock import MockEmbedder

DIMENSION = 256
_FIELDS = {"model", "input", "encoding_format", "dimensions", "user"}

Behaviour = Callable[["Handler"], None]
"""Answers one request instead of the server, or changes `handler.reply` and leaves it to it."""


class FakeOpenAI:
    """A server on loopback whose vectors are those of mock:char3; a context manager.

    key: what the Authorization header has to hold; None asks for none.
    max_texts, max_tokens, max_request_tokens: limits for a request's texts, the tokens of a text
        and the tokens of a request; a token is one character here.
    extra_fields: fields of the body that this server knows besides OpenAI's.
    knows_base64: without it the field encoding_format is refused.
    script: behaviours for the next requests, one each, in turn.
    nan_texts: texts whose vectors are NaN; `nan_alone` says whether even when alone.
    cuts_at: tokens of a text that are read, without a word about the rest.
    seconds: how long each answer takes.
    """

    def __init__(
        self,
        *,
        key: str | None = None,
        models: tuple[str, ...] = ("text-embedding-3-small",),
        max_texts: int = 2048,
        max_tokens: int = 8192,
        max_request_tokens: int = 300_000,
        extra_fields: tuple[str, ...] = (),
        knows_base64: bool = True,
        counts_tokens: bool = True,
        nan_texts: tuple[str, ...] = (),
        nan_alone: bool = False,
        cuts_at: int | None = None,
        seconds: float = 0.0,
        port: int = 0,
    ) -> None:
        self.key = key
        self.models = models
        self.max_texts = max_texts
        self.max_tokens = max_tokens
        self.max_request_tokens = max_request_tokens
        self.fields = _FIELDS | set(extra_fields)
        self.knows_base64 = knows_base64
        self.counts_tokens = counts_tokens
        self.nan_texts = nan_texts
        self.nan_alone = nan_alone
        self.cuts_at = cuts_at
        self.seconds = seconds
        self.script: deque[Behaviour] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self.lock = threading.Lock()
        self._port = port

    def __enter__(self) -> FakeOpenAI:
        fake = self

        class Bound(Handler):
            server_state = fake

        self._served = loopback.serving(Bound, self._port)
        self._port = self._served.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._served.__exit__(*error)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def inputs(self) -> list[list[str]]:
        """The texts of every request so far."""
        return [body["input"] for body in self.bodies]

    def enter(self, step: int) -> None:
        with self.lock:
            self._at_once += step
            self.most_at_once = max(self.most_at_once, self._at_once)

    def vectors(self, texts: list[str]) -> np.ndarray:
        vectors = MockEmbedder("char3").embed(texts, "document").vectors
        for row, text in enumerate(texts):
            if text in self.nan_texts and (self.nan_alone or len(texts) > 1):
                vectors[row] = np.nan
        return vectors


class Handler(loopback.Handler):
    """`reply` is what a request is answered with, None once it is answered."""

    server_state: FakeOpenAI
    reply: dict[str, Any] | None

    def respond(self) -> None:
        state = self.server_state
        state.enter(1)
        try:
            self._answer(state, self.content)
        finally:
            state.enter(-1)

    def _answer(self, state: FakeOpenAI, content: bytes) -> None:
        with state.lock:
            state.paths.append(self.path)
            state.headers.append({name.lower(): value for name, value in self.headers.items()})
        if (self.command, self.path.partition("?")[0]) != ("POST", "/v1/embeddings"):
            return self.refuse(404, f"Invalid URL ({self.command} {self.path})")
        if self.headers["Content-Type"] != "application/json":
            return self.refuse(400, "the content type is not application/json")
        if state.key and self.headers["Authorization"] != f"Bearer {state.key}":
            shown = self.headers["Authorization"] or ""
            return self.refuse(401, f"Incorrect API key provided: {shown}", "invalid_api_key")
        body = json.loads(content)
        with state.lock:
            state.bodies.append(body)
            behaviour = state.script.popleft() if state.script else None
        fault = self._fault(state, body)
        if fault and behaviour is None:
            return self.refuse(*fault)
        self.reply = None if fault else self._reply(state, body)
        if state.seconds:
            time.sleep(state.seconds)
        if behaviour is not None:
            behaviour(self)
        if self.reply is not None:
            self.send(200, json.dumps(self.reply))

    def _fault(self, state: FakeOpenAI, body: dict[str, Any]) -> tuple[int, str] | None:
        unknown = set(body) - state.fields
        texts = body.get("input")
        if unknown:
            return 400, f"Unrecognized request argument supplied: {', '.join(sorted(unknown))}"
        if not state.knows_base64 and "encoding_format" in body:
            return 400, "Unrecognized request argument supplied: encoding_format"
        if body.get("encoding_format", "float") not in ("float", "base64"):
            return 400, "Invalid value for 'encoding_format'"
        if body.get("model") not in state.models:
            return 404, f"The model '{body.get('model')}' does not exist"
        if isinstance(texts, str):
            texts = body["input"] = [texts]
        if not isinstance(texts, list) or not texts:
            return 400, "'$.input' is invalid"
        if not all(isinstance(text, str) and text.strip() for text in texts):
            return 400, "'$.input' is invalid: only texts that are not blank"
        if len(texts) > state.max_texts:
            return 400, (
                f"Invalid 'input': array too long. Expected an array with maximum length "
                f"{state.max_texts}, but got an array with length {len(texts)} instead."
            )
        longest = max(map(len, texts))
        if longest > state.max_tokens:
            return 400, (
                f"This model's maximum context length is {state.max_tokens} tokens, however you "
                f"requested {longest} tokens. Please reduce the length."
            )
        if (total := sum(map(len, texts))) > state.max_request_tokens:
            return (
                400,
                f"Requested {total} tokens, max {state.max_request_tokens} tokens per request",
            )
        dimensions = body.get("dimensions", DIMENSION)
        if type(dimensions) is not int or not 1 <= dimensions <= DIMENSION:
            return 400, "Invalid value for 'dimensions'"
        return None

    def _reply(self, state: FakeOpenAI, body: dict[str, Any]) -> dict[str, Any]:
        texts = [text[: state.cuts_at] for text in body["input"]]
        vectors = state.vectors(texts)[:, : body.get("dimensions", DIMENSION)]
        is_base64 = body.get("encoding_format") == "base64"
        tokens = sum(map(len, texts)) if state.counts_tokens else 0
        return {
            "object": "list",
            "model": body["model"],
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
                    if is_base64
                    else vector.tolist(),
                }
                for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def refuse(self, status: int, message: str, code: str | None = None) -> None:
        kind = "insufficient_quota" if code == "insufficient_quota" else "invalid_request_error"
        error = {"message": message, "type": kind, "param": None, "code": code}
        self.send(status, json.dumps({"error": error}))

    def send(self, *arguments: Any, **more: Any) -> None:
        """Answer; the request is then done with."""
        super().send(*arguments, **more)
        self.reply = None


def status(code: int, message: str = "no", **headers: str) -> Behaviour:
    """Answer with a status and OpenAI's form of an error."""

    def behave(handler: Handler) -> None:
        content = json.dumps({"error": {"message": message, "type": "x", "code": None}})
        handler.send(code, content, **headers)

    return behave


def answer(content: str | bytes, kind: str = "application/json", code: int = 200) -> Behaviour:
    """Answer with some content instead of the reply."""
    return lambda handler: handler.send(code, content, kind=kind)


def edit(change: Callable[[list[dict[str, Any]]], object]) -> Behaviour:
    """Change the list `data` of the reply in place."""

    def behave(handler: Handler) -> None:
        assert handler.reply is not None
        change(handler.reply["data"])

    return behave


def hang_up(handler: Handler) -> None:
    """Close the connection without a word."""
    handler.reply = None
    handler.close_connection = True


def half(handler: Handler) -> None:
    """Announce the whole reply, send half of it and close the connection."""
    content = json.dumps(handler.reply).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    hang_up(handler)


def drip(*, headers: bool) -> Behaviour:
    """Send a byte every 20 ms until the client leaves: of the headers, or of the body."""

    def behave(handler: Handler) -> None:
        handler.reply = None
        handler.close_connection = True
        start = b"HTTP/1.1 200 OK\r\n" + (
            b"X-Slow: " if headers else b"Content-Length: 9999\r\n\r\n"
        )
        try:
            handler.wfile.write(start)
            for _ in range(9000):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.02)
        except OSError:
            pass

    return behave
