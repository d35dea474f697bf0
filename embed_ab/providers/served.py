"""What every model behind a server is told, and how its texts go there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from json import dumps
from typing import Any

from embed_ab.providers.base import Embedded, Role, Usage, given_prompts
from embed_ab.providers.batching import Answer, Batcher
from embed_ab.providers.http import Server


@dataclass(frozen=True)
class ServedModel(ABC):
    """A model behind a server, asked when its facts or vectors are first needed.

    environ: the server's address and key are read from here.
    query_prompt, document_prompt: put before each text; None and "" put nothing there.
    query_params, document_params: merged into the body of each request, such as
        `{"input_type": "query"}`.
    batch_size: texts per request at most. concurrency: requests at once.
    truncate: shorten texts that are too long, instead of naming them.
    connect: makes the server of a base URL and headers.
    """

    name: str
    environ: Mapping[str, str] = field(repr=False)
    query_prompt: str | None = None
    document_prompt: str | None = None
    query_params: Mapping[str, Any] = field(default_factory=dict)
    document_params: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 1
    concurrency: int = 4
    truncate: bool = True
    connect: Callable[..., Server] = field(default=Server, repr=False)
    usage: Usage = field(default_factory=Usage, init=False, repr=False, compare=False)

    @abstractmethod
    def identity(self) -> str:
        """Everything that changes vectors but prompts and fields of the request."""

    @abstractmethod
    def send(self, texts: Sequence[str], role: Role) -> Answer:
        """One request for texts as they are. Raises: ProviderError."""

    @cached_property
    def fingerprint(self) -> str:
        """What identifies the vectors, with the fields of both roles' requests."""
        return self._with_fields([dict(self.query_params), dict(self.document_params)])

    def role_fingerprint(self, role: Role) -> str:
        """The same with the fields of one role's requests only."""
        return self._with_fields(self.params(role))

    @property
    def prompts(self) -> Mapping[Role, str]:
        """Prompts the user gave."""
        return given_prompts(self.query_prompt, self.document_prompt)

    def params(self, role: Role) -> dict[str, Any]:
        """Fields that the user gave for a role's requests."""
        return dict(self.query_params if role == "query" else self.document_params)

    def prompted(self, texts: Sequence[str], role: Role) -> list[str]:
        """Texts as they are sent."""
        prompt = self.query_prompt if role == "query" else self.document_prompt
        return [(prompt or "") + text for text in texts]

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Vectors of the texts; those that the server would not take are among the faults."""
        return self._batcher.embed(texts, role)

    @cached_property
    def _batcher(self) -> Batcher:
        return Batcher(
            self.send, max_texts=self.batch_size, truncate=self.truncate, usage=self.usage
        )

    def _with_fields(self, params: object) -> str:
        return f"{self.identity()}|{dumps(params, sort_keys=True)}"
