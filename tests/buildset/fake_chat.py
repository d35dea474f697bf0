"""Strict stand-ins for the chat of Ollama (/api/chat, /api/tags) and OpenAI (/v1/chat/completions).

They refuse what a server refuses and what the official clients do not send; `test_fake_chat.py`
proves them with those clients. What the model says is a function of the messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import loopback

Message = dict[str, str]

_OPENAI: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "messages": (list,),
    "temperature": (int, float),
    "seed": (int,),
    "response_format": (dict,),
    "stream": (bool,),
}
_OLLAMA: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "messages": (list,),
    "stream": (bool,),
    "think": (bool,),
    "format": (str, dict),
    "options": (dict,),
    "tools": (list,),
}
_OPTIONS: dict[str, tuple[type, ...]] = {
    "temperature": (int, float),
    "seed": (int,),
    "num_predict": (int,),
    "num_ctx": (int,),
}


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(kw_only=True)
class FakeChat:
    """What the model says, what the server was asked, and what it does not take."""

    says: Callable[[list[Message]], str]
    model: str = "writer"
    digest: str = "d1"  # of the model in Ollama's list; without one there is no list
    key: str = ""
    formats: tuple[str, ...] = ("json_schema", "json_object")
    unsupported: tuple[str, ...] = ()  # other fields that it refuses by name
    refuses: Callable[[list[Message]], str] = lambda messages: ""
    refusal: int = 400
    in_parts: bool = False
    dies_after: int | None = None  # requests after which it closes connections without an answer
    address: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)

    def openai(self, body: dict[str, Any]) -> dict[str, Any]:
        _check(body, _OPENAI)
        messages = _messages(body)
        if body["model"] != self.model:
            raise Refused(404, f"The model `{body['model']}` does not exist")
        for name in self.unsupported:
            if name in body:
                raise Refused(400, f"Unsupported value: '{name}' does not support 0 here.")
        kind = body.get("response_format", {"type": "text"})["type"]
        if kind not in ("text", *self.formats):
            raise Refused(400, "This response_format type is unavailable now")
        if kind == "json_schema":
            given = body["response_format"]["json_schema"]
            if set(given) != {"name", "schema", "strict"} or not _is_strict(given["schema"]):
                raise Refused(400, "Invalid schema for response_format 'answer'")
        text = self._said(messages)
        content: Any = [{"type": "text", "text": text}] if self.in_parts else text
        message = {"role": "assistant", "content": content, "refusal": None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1767225600,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
        }

    def ollama(self, body: dict[str, Any]) -> dict[str, Any]:
        _check(body, _OLLAMA)
        _check(body.get("options", {}), _OPTIONS)
        messages = _messages(body)
        if body["model"] not in (self.model, f"{self.model}:latest"):
            raise Refused(404, f"model '{body['model']}' not found")
        if body.get("stream", True):
            raise Refused(400, "the stand-in does not stream")
        return {
            "model": body["model"],
            "created_at": "2026-01-02T03:04:05.678901234Z",
            "message": {"role": "assistant", "content": self._said(messages)},
            "done_reason": "stop",
            "done": True,
            "total_duration": 14143917,
            "prompt_eval_count": 9,
            "eval_count": 9,
        }

    def tags(self) -> dict[str, Any]:
        if not self.digest:
            raise Refused(404, "404 page not found")
        listed = {
            "name": f"{self.model}:latest",
            "model": f"{self.model}:latest",
            "modified_at": "2026-01-02T03:04:05.678901234Z",
            "size": 1_000_000,
            "digest": self.digest,
        }
        return {"models": [listed]}

    def _said(self, messages: list[Message]) -> str:
        if reason := self.refuses(messages):
            raise Refused(self.refusal, reason)
        return self.says(messages)


def _messages(body: dict[str, Any]) -> list[Message]:
    for message in body.get("messages", []):
        if set(message) != {"role", "content"} or not isinstance(message["content"], str):
            raise Refused(400, "a message has a role and a content")
        if message["role"] not in ("system", "user", "assistant"):
            raise Refused(400, f"Invalid value: '{message['role']}'")
    if not body.get("messages"):
        raise Refused(400, "messages is required")
    found: list[Message] = body["messages"]
    return found


def _is_strict(schema: Any) -> bool:
    """What OpenAI demands of a strict schema: every property required, and no others."""
    if schema.get("type") == "object":
        names = set(schema["properties"])
        closed = schema.get("additionalProperties") is False and set(schema["required"]) == names
        return closed and all(map(_is_strict, schema["properties"].values()))
    return schema["type"] != "array" or _is_strict(schema["items"])


def _check(body: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> None:
    for name, value in body.items():
        if name not in fields:
            raise Refused(400, f"Unrecognized request argument supplied: {name}")
        if not isinstance(value, fields[name]) or (value is True and bool not in fields[name]):
            raise Refused(400, f"Invalid type for '{name}'")


@contextmanager
def running(fake: FakeChat) -> Iterator[FakeChat]:
    """Serve on a free port of the loopback interface; `fake.address` is where."""
    routes = {"/v1/chat/completions": fake.openai, "/api/chat": fake.ollama}

    class Handler(loopback.Handler):
        def respond(self) -> None:
            is_openai = self.path.startswith("/v1")
            try:
                if self.command == "GET":
                    answer = self._listed()
                elif fake.dies_after is not None and len(fake.bodies) >= fake.dies_after:
                    self.close_connection = True
                    return
                else:
                    answer = self._said(json.loads(self.content))
            except Refused as error:
                message: Any = str(error)
                if is_openai:
                    message = {"message": message, "type": "invalid_request_error", "code": None}
                self._send(error.status, {"error": message})
            else:
                self._send(200, answer)

        def _listed(self) -> dict[str, Any]:
            if self.path != "/api/tags":
                raise Refused(404, "404 page not found")
            return fake.tags()

        def _said(self, body: dict[str, Any]) -> dict[str, Any]:
            fake.bodies.append(body)
            fake.authorizations.append(self.headers["Authorization"])
            if fake.key and self.headers["Authorization"] != f"Bearer {fake.key}":
                raise Refused(401, "Incorrect API key provided")
            if self.path not in routes:
                raise Refused(404, "404 page not found")
            return routes[self.path](body)

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            self.send(status, json.dumps(answer), kind="application/json; charset=utf-8")

    with loopback.serving(Handler) as port:
        fake.address = f"http://127.0.0.1:{port}"
        yield fake
