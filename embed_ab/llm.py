"""Asks a chat model for JSON: Ollama's `/api/chat`, and any server with OpenAI's interface."""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from embed_ab.errors import InputError, ProviderError
from embed_ab.providers import ollama, openai
from embed_ab.providers.addresses import shown
from embed_ab.providers.http import RequestRefused, Server
from embed_ab.providers.threads import outcomes

Message = Mapping[str, str]
Schema = Mapping[str, Any]
T = TypeVar("T")

REFUSALS = frozenset({400, 413, 422})
"""How a server refuses one text; other refusals are of the key or the model."""

_EXAMPLES = "ollama:qwen3:4b or openai:gpt-4.1-mini"
_MAX_ANSWER = 50_000  # characters looked at; a longer answer is none of ours
_TOTAL_SECONDS = 600.0  # a model on a processor writes a few words a second
_MAX_STARTS = 2_000
_MAX_NEW_TOKENS = 4_096  # a model caught in a loop would write for ever
_THOUGHTS_END = "</think>"
_START = re.compile(r"[{\[]")
_MANY_REFUSALS = 5
# As words, also within response_format or json_schema: "information" is about something else.
_FORMAT = re.compile(
    r"(?<![a-z])((response)?formats?|json(schema|object)?|schemas?)(?![a-z])", re.IGNORECASE
)
_TEMPERATURE = re.compile(r"(?<![a-z])temperature(?![a-z])", re.IGNORECASE)
_SEED = re.compile(r"(?<![a-z])seed(?![a-z])", re.IGNORECASE)


class UnreadableAnswer(ProviderError):
    """The model answered with something that is not the JSON it was asked for."""


class Chat(Protocol):
    """A chat model; any number of threads may ask at once."""

    @property
    def name(self) -> str:
        """The model as the user wrote it, with its provider."""

    @property
    def address(self) -> str:
        """The server, without a key or password."""

    @property
    def digest(self) -> str:
        """What the model's name meant at first; "" where the server does not tell. Asks it once.

        Raises: ProviderError.
        """

    def digest_now(self) -> str:
        """What the model's name means now. Asks the server each time. Raises: ProviderError."""

    def complete(
        self, messages: Sequence[Message], schema: Schema, *, seed: int = 0
    ) -> dict[str, Any]:
        """Return the JSON object that answers messages of `role` and `content`.

        Its keys are those that the schema requires; what stands in them is the model's, unchecked.
        Raises: UnreadableAnswer, which asking again with another seed may mend; ProviderError.
        """


def check_unmoved(chat: Chat) -> None:
    """Raise ProviderError where a chat model's name came to mean another one.

    To ask takes a thousandth of the time of an answer, so that each answer can be known to be of
    the model whose digest is recorded.
    """
    if chat.digest and chat.digest_now() != chat.digest:
        raise ProviderError(
            f"{chat.name}: the model has changed while it was used",
            hint="Run the same command again: what the model before answered is not used.",
        )


def answers(
    ask: Callable[[int], T], waiting: deque[int], n_threads: int, *, n_known: int = 0
) -> Iterator[tuple[int, T | RequestRefused | UnreadableAnswer]]:
    """Ask what waits, several at once, and yield each answer, or why there is none, in any order.

    One text may offend a filter or be too long; a server that refuses five in a row, or all of
    fewer, takes no more: its key may have run out of credit.
    n_known: answers there are from before, with which fewer than five refusals are no error.
    Raises: the first error that is no fault of a single text, when what was under way has ended.
    """
    n_most = _MANY_REFUSALS if n_known else min(_MANY_REFUSALS, len(waiting))
    n_in_a_row = 0
    failure: BaseException | None = None
    for index, outcome in outcomes(ask, waiting, n_threads):
        n_in_a_row = n_in_a_row + 1 if isinstance(outcome, RequestRefused) else 0
        if isinstance(outcome, BaseException) and not (
            isinstance(outcome, UnreadableAnswer)
            or (
                isinstance(outcome, RequestRefused)
                and outcome.status in REFUSALS
                and n_in_a_row < n_most
            )
        ):
            failure = failure or outcome
            waiting.clear()
        elif failure is None:
            yield index, outcome
    if failure is not None:
        raise failure


def read_json(text: str, schema: Schema) -> dict[str, Any] | None:
    """Return the last object in an answer with the keys that a schema requires, None without one.

    Thoughts, prose and fences around it do not matter. Where the schema has one array and no other
    key, an array alone will do if there is no such object.
    """
    values = list(_values(text.rpartition(_THOUGHTS_END)[2][:_MAX_ANSWER]))
    required = schema["required"]
    for value in reversed(values):
        if isinstance(value, dict) and all(key in value for key in required):
            return value
    if len(required) == 1 and schema["properties"][required[0]]["type"] == "array":
        arrays = [value for value in values if isinstance(value, list)]
        return {required[0]: arrays[-1]} if arrays else None
    return None


def _values(text: str) -> Iterator[Any]:
    """Yield every JSON object and array of a text that stands in no other."""
    decoder = json.JSONDecoder()
    end = 0
    for n_starts, start in enumerate(_START.finditer(text)):
        if n_starts == _MAX_STARTS:
            return
        if start.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        yield value


@dataclass(frozen=True, kw_only=True)
class OllamaChat:
    """A model of an Ollama server."""

    model: str
    server: Server = field(repr=False)

    @property
    def name(self) -> str:
        """The model with its provider."""
        return f"ollama:{self.model}"

    @property
    def address(self) -> str:
        """As `Chat.address`."""
        return shown(self.server.base_url)

    @cached_property
    def digest(self) -> str:
        """As `Chat.digest`."""
        try:
            return self.digest_now()
        except ollama.NotTold:
            return ""  # a server that only speaks its chat

    def digest_now(self) -> str:
        """As `Chat.digest_now`."""
        return ollama.listed_digest(self.server, self.model) or ""

    def complete(
        self, messages: Sequence[Message], schema: Schema, *, seed: int = 0
    ) -> dict[str, Any]:
        """As `Chat.complete`."""
        options = {"temperature": 0, "seed": seed, "num_predict": _MAX_NEW_TOKENS}
        # Without it Ollama cuts a long prompt silently. A power of two, because each new value
        # makes it load the model again; at most a token a character, as in Korean.
        needed = _MAX_NEW_TOKENS + sum(len(message["content"]) for message in messages)
        options["num_ctx"] = 1 << (needed - 1).bit_length()
        body = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "stream": False,
            "think": False,
            "format": schema,
            "options": options,
        }
        reply = self.server.post("/api/chat", body)
        return _answer(self.name, reply.get("message"), schema)


@dataclass(frozen=True, kw_only=True)
class OpenAIChat:
    """A model of a server with OpenAI's chat completions."""

    model: str
    server: Server = field(repr=False)
    _left_out: set[str] = field(default_factory=set, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    digest: str = field(default="", init=False)  # such servers tell none

    @property
    def name(self) -> str:
        """The model with its provider."""
        return f"openai:{self.model}"

    @property
    def address(self) -> str:
        """As `Chat.address`."""
        return shown(self.server.base_url)

    def digest_now(self) -> str:
        """As `Chat.digest_now`."""
        return self.digest

    def complete(
        self, messages: Sequence[Message], schema: Schema, *, seed: int = 0
    ) -> dict[str, Any]:
        """As `Chat.complete`; what this server does not take is left out from then on."""
        formatted = {"name": "answer", "schema": schema, "strict": True}
        extras: dict[str, Any] = {
            "json_schema": {"type": "json_schema", "json_schema": formatted},
            "json_object": {"type": "json_object"},
            "temperature": 0,
            "seed": seed,
        }
        body = {"model": self.model, "messages": [dict(message) for message in messages]}
        blamed: set[str] = set()
        while True:
            used = [name for name in extras if name not in self._left_out | blamed]
            more = {name: extras[name] for name in used if not name.startswith("json")}
            formats = [name for name in used if name.startswith("json")]
            if formats:
                more["response_format"] = extras[formats[0]]
            try:
                reply = self.server.post("/chat/completions", body | more)
            except RequestRefused as refused:
                name = _blamed(refused, formats, more)
                if name is None:
                    raise
                blamed.add(name)
                continue
            # Only now is it known that the refusal was about these, and not about the texts.
            with self._lock:
                self._left_out.update(blamed)
            choices = reply.get("choices")
            first = choices[0] if isinstance(choices, list) and choices else None
            message = first.get("message") if isinstance(first, dict) else None
            return _answer(self.name, message, schema)


def _blamed(refused: RequestRefused, formats: Sequence[str], sent: Mapping[str, Any]) -> str | None:
    """Which of the fields that not every server takes a refusal is about; None for none of them."""
    if refused.status not in (400, 422) or refused.names_length:
        return None
    if formats and refused.speaks_of(_FORMAT):
        return formats[0]
    others = (("temperature", _TEMPERATURE), ("seed", _SEED))
    return next((n for n, words in others if n in sent and refused.speaks_of(words)), None)


def _answer(name: str, message: Any, schema: Schema) -> dict[str, Any]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):  # in parts
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        raise UnreadableAnswer(f"{name}: an answer without text")
    found = read_json(content, schema)
    if found is None:
        wanted = " and ".join(schema["required"])
        raise UnreadableAnswer(
            f"{name}: an answer without a JSON object that holds {wanted}", said=content[:200]
        )
    return found


def chat(spec: str, environ: Mapping[str, str], *, connect: Callable[..., Server] = Server) -> Chat:
    """Return the chat model that `ollama:NAME` or `openai:NAME` means.

    environ: OLLAMA_HOST and OLLAMA_API_KEY; OPENAI_BASE_URL and OPENAI_API_KEY.
    connect: makes the server of a base URL and headers.
    Raises: InputError.
    """
    provider, _, model = spec.partition(":")
    if provider not in ("ollama", "openai") or not model.strip() or not model.isprintable():
        raise InputError(f"--llm: '{spec}' is not a chat model", hint=f"Write {_EXAMPLES}.")
    if provider == "openai":
        server = openai.server(environ, connect=connect, total_seconds=_TOTAL_SECONDS)
        return OpenAIChat(model=model, server=server)
    server = ollama.server(environ, model, connect=connect, total_seconds=_TOTAL_SECONDS)
    return OllamaChat(model=model, server=server)
