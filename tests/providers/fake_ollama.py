"""A strict stand-in for an Ollama server: /api/version, /api/tags, /api/show, /api/embed.

It refuses what a server refuses and what the official client does not send: unknown fields and
wrong types. `test_ollama_fake.py` proves it with that client. Each known fault of a version is one
attribute. A token is a word; two more stand for the start and the end of a text.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import loopback

from embed_ab.providers.mock import MockEmbedder

_EMBED_FIELDS: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "input": (str, list),
    "truncate": (bool,),
    "options": (dict,),
    "keep_alive": (str, int, float),
    "dimensions": (int,),
}
_OPTIONS: dict[str, tuple[type, ...]] = {"num_ctx": (int,), "num_batch": (int,)}


@dataclass(kw_only=True)
class Model:
    """One pulled model; its vectors are those of mock:char3, cut to the dimension."""

    digest: str = "ab" * 32
    dimension: int = 256
    context_length: int = 512
    architecture: str = "bert"
    modelled_dimension: int | None = None  # what /api/show says, where it is wrong

    @property
    def details(self) -> dict[str, Any]:
        return {
            "parent_model": "",
            "format": "gguf",
            "family": self.architecture,
            "families": [self.architecture],
            "parameter_size": "23M",
            "quantization_level": "F16",
        }


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(kw_only=True)
class Reply:
    status: int = 200
    body: Any = None
    """An object to send as JSON, or bytes to send as they are."""
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(kw_only=True)
class FakeOllama:
    """What the server knows, what it was asked, and which faults it has."""

    models: dict[str, Model] = field(default_factory=lambda: {"all-minilm:latest": Model()})
    version: str = "0.23.1"
    address: str = ""
    requests: list[Request] = field(default_factory=list)
    key: str = ""
    scripted: deque[Reply] = field(default_factory=deque)
    """Answers to the next requests for /api/embed, before the ordinary ones."""

    rejects_long_always: bool = False  # whatever `truncate` says
    long_message: str = "the input length exceeds the context length"
    limit_in_bytes: int | None = None  # "input too large", also for a batch
    nan_word: str = ""  # a text with this word makes the whole request fail
    is_empty_for_lists: bool = False
    reply_key: str = "embeddings"
    scale: float = 1.0  # old versions do not normalise
    zero_word: str = ""
    lost: int = 0  # vectors missing at the end of an answer
    fails_after: int | None = None  # requests after which every one is answered with 503
    narrows_after: int | None = None  # requests after which vectors are one element shorter

    def embeds(self) -> list[Request]:
        return [request for request in self.requests if request.path == "/api/embed"]

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return Reply(status=401, body={"error": "unauthorized"})
        routes: dict[tuple[str, str], Callable[[Any], Any]] = {
            ("GET", "/api/version"): lambda body: {"version": self.version},
            ("GET", "/api/tags"): lambda body: self._tags(),
            ("POST", "/api/show"): self._show,
            ("POST", "/api/embed"): self._embed,
        }
        route = routes.get((request.method, request.path))
        if route is None:
            return Reply(
                status=404, body=b"404 page not found", headers={"Content-Type": "text/plain"}
            )
        if request.path == "/api/embed" and self.scripted:
            return self.scripted.popleft()
        if self.fails_after is not None and len(self.embeds()) > self.fails_after:
            return Reply(status=503, body={"error": "server busy"})
        try:
            return Reply(body=route(request.body))
        except Refused as error:
            return Reply(status=error.status, body={"error": str(error)})

    def _tags(self) -> dict[str, Any]:
        return {
            "models": [
                {
                    "name": name,
                    "model": name,
                    "modified_at": "2026-01-02T03:04:05.678901234Z",
                    "size": 45960996,
                    "digest": model.digest,
                    "details": model.details,
                }
                for name, model in self.models.items()
            ]
        }

    def _model(self, body: Any) -> Model:
        name = body.get("model")
        if not isinstance(name, str):
            raise Refused(400, "model is required")
        model = self.models.get(name) or self.models.get(f"{name}:latest")
        if model is None:
            raise Refused(404, f"model '{name}' not found")
        return model

    def _show(self, body: Any) -> dict[str, Any]:
        _check(body, {"model": (str,)})
        model = self._model(body)
        kind = model.architecture
        return {
            "modelfile": "FROM …",
            "parameters": "num_ctx 256",
            "template": "{{ .Prompt }}",
            "details": model.details,
            "model_info": {
                "general.architecture": kind,
                "general.parameter_count": 22565376,
                f"{kind}.context_length": model.context_length,
                f"{kind}.embedding_length": model.modelled_dimension or model.dimension,
                f"{kind}.rope.scaling.original_context_length": 7,
            },
            "capabilities": ["embedding"],
            "modified_at": "2026-01-02T03:04:05.678901234Z",
        }

    def _embed(self, body: Any) -> dict[str, Any]:
        _check(body, _EMBED_FIELDS)
        _check(body.get("options", {}), _OPTIONS)
        model = self._model(body)
        given = body.get("input", [])
        texts = [given] if isinstance(given, str) else given
        if not all(isinstance(text, str) for text in texts):
            raise Refused(400, "invalid input type")
        if self.limit_in_bytes is not None and len("".join(texts).encode()) > self.limit_in_bytes:
            raise Refused(500, "input is too large to process. increase the physical batch size")
        limit = min(model.context_length, body.get("options", {}).get("num_ctx", 4096))
        n_tokens = 0
        for place, text in enumerate(texts):
            words = text.split()
            if len(words) + 2 > limit:
                if self.rejects_long_always or body.get("truncate") is False:
                    raise Refused(400, self.long_message)
                words = words[: limit - 2]
                texts[place] = " ".join(words)
            n_tokens += len(words) + 2
            if self.nan_word in words:
                raise Refused(500, "failed to encode response: json: unsupported value: NaN")
        n_before = len(self.embeds()) - 1
        is_narrow = self.narrows_after is not None and n_before >= self.narrows_after
        dimension = body.get("dimensions", model.dimension) - is_narrow
        vectors = MockEmbedder("char3").embed(texts, "document").vectors[:, :dimension] * self.scale
        found = vectors.tolist()
        for place, text in enumerate(texts):
            if self.zero_word in text.split():
                found[place] = [0.0] * dimension
        if self.is_empty_for_lists and isinstance(given, list):
            found = [[] for _ in texts]
        found = found[: len(found) - self.lost]
        flat = found[0] if self.reply_key == "embedding" and len(found) == 1 else found
        return {
            "model": body["model"],
            self.reply_key: flat,
            "total_duration": 14143917,
            "load_duration": 1019500,
            "prompt_eval_count": n_tokens,
        }


def _check(body: Any, fields: dict[str, tuple[type, ...]]) -> None:
    if not isinstance(body, dict):
        raise Refused(400, "json: cannot unmarshal")
    for name, value in body.items():
        if name not in fields:
            raise Refused(400, f"the stand-in knows no field '{name}'")
        if not isinstance(value, fields[name]) or (value is True and bool not in fields[name]):
            raise Refused(400, f"json: cannot unmarshal {value!r} into field '{name}'")


@contextmanager
def running(fake: FakeOllama) -> Iterator[FakeOllama]:
    """Serve on a free port of the loopback interface; `fake.address` is where."""

    class Handler(loopback.Handler):
        def respond(self) -> None:
            try:
                body = json.loads(self.content)
            except ValueError:
                body = None
            reply = fake.answer(
                Request(
                    method=self.command,
                    path=self.path,
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=body,
                )
            )
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body)
            headers = {"Content-Type": "application/json; charset=utf-8"} | reply.headers
            self.send(reply.status, content, kind=headers.pop("Content-Type"), **headers)

    with loopback.serving(Handler) as port:
        fake.address = f"http://127.0.0.1:{port}"
        yield fake
