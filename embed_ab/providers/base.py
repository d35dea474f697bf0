"""What every provider of vectors offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError, ProviderError

Role = Literal["query", "document"]
Vectors = NDArray[np.float32]
PLAIN_TEXT = "What is an embedding?"  # a server that refuses it refuses any text
_LONG_WORDS = 100  # of a text; no server cuts shorter ones, and strange counts of them say little
MAX_TOKENS_COUNTED = 10**12  # of one request; beyond it a count means nothing, and sums overflow


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What only the model itself can tell, kept in the store so that a warm run need not load it.

    `query_prompt` and `document_prompt` are the strings really put before each text ("" for none).
    `max_length` is in tokens, special tokens included; None where the model has no limit.
    `details` is for the reader only: dtype, pooling, library versions.
    `batch_cosine` is how alike a text's vectors are, alone and in a batch; None where not tried.
    `tokens_per_word` is the fewest tokens that a server counted for each word of long texts; None
    where none were sent or it counts none.
    """

    dimension: int
    query_prompt: str = ""
    document_prompt: str = ""
    max_length: int | None = None
    revision: str = ""
    details: dict[str, str]
    batch_cosine: float | None = None
    tokens_per_word: float | None = None


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """Vectors of some texts, in the order of the texts.

    vectors: float32 (n_texts, dimension), as the model gave them: not normalised, not checked.
    n_tokens: int64 (n_texts,) length of each text in tokens before truncation, prompt and special
        tokens included; None where the provider cannot tell.
    n_kept: int64 (n_texts,) leading characters embedded of a text that the server would not take
        whole, −1 for whole texts; None where all are whole.
    faults: by row, why a text has no vector; its row of `vectors` means nothing.
    failure: what ended the work early, such as a server that is gone; it is the fault of the rows
        not reached by then.
    passing: rows shortened for a reason that may pass, such as a busy server: not to be stored.
    """

    vectors: Vectors
    n_tokens: NDArray[np.int64] | None = None
    n_kept: NDArray[np.int64] | None = None
    faults: Mapping[int, ProviderError] = field(default_factory=dict)
    failure: ProviderError | None = None
    passing: frozenset[int] = frozenset()


class Request(NamedTuple):
    """One request that a server answered; seconds are those of the try that brought the answer.

    n_words: runs of characters without a space that hold a letter or digit, prompts left out.
    """

    role: Role
    n_texts: int
    n_tokens: int | None
    seconds: float
    n_words: int = 0


@dataclass
class Usage:
    """What a server has done so far; threads may append to `requests` at once."""

    requests: list[Request] = field(default_factory=list)

    @property
    def n_tokens(self) -> int | None:
        """Tokens that the server counted; None where it gave no possible count of any request."""
        n_tokens = 0
        for request in self.requests:
            count = request.n_tokens
            if type(count) is not int or not 0 <= count <= MAX_TOKENS_COUNTED:
                return None
            n_tokens += count
        return n_tokens

    @property
    def tokens_per_word(self) -> float | None:
        """Fewest tokens counted for each word of a request whose texts are long on average.

        Any usual tokenizer makes one token at least of a word (measured: 1.1 and more in English,
        1.9 in Korean and in code), so that a number far below says that texts were cut. Scripts
        without spaces have few words, and show nothing here.
        """
        found = [
            request.n_tokens / request.n_words
            for request in list(self.requests)
            if request.n_tokens and request.n_words >= max(_LONG_WORDS * request.n_texts, 1)
        ]
        return min(found, default=None)


class Embedder(Protocol):
    """One model. Made without loading anything; the first `facts` or `embed` loads it."""

    @property
    def name(self) -> str:
        """The model's name as the user wrote it, without the provider."""

    @property
    def fingerprint(self) -> str:
        """Everything that changes the vectors of a text but role and prompt; nothing is loaded."""

    @property
    def prompts(self) -> Mapping[Role, str]:
        """Prompts the user gave ("" = none); a role that is missing gets the model's own."""

    def facts(self) -> ModelFacts:
        """What only the model knows, with the prompts in use."""

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Vectors of texts that are neither empty nor repeated."""


@runtime_checkable
class Served(Protocol):
    """What an embedder has besides, when a server does the work."""

    @property
    def usage(self) -> Usage:
        """What the server has done so far."""

    @property
    def concurrency(self) -> int:
        """How many threads may call `embed` at once."""

    @property
    def batch_size(self) -> int:
        """How many texts one call of `embed` should bring."""

    @property
    def truncate(self) -> bool:
        """Whether texts that are too long are shortened, not named."""

    def role_fingerprint(self, role: Role) -> str:
        """Everything that changes the vectors of one role's texts but the prompt."""


def vector_fingerprint(embedder: Embedder, role: Role) -> str:
    """Return what the vectors of a role are stored under.

    The fingerprint also has the request fields of the other role, which change none of them.
    """
    return embedder.role_fingerprint(role) if isinstance(embedder, Served) else embedder.fingerprint


def refuse_fields(
    query_params: Mapping[str, Any], document_params: Mapping[str, Any], ours: Mapping[str, str]
) -> None:
    """Raise InputError for a parameter that would change what is ours to say in a request.

    ours: the names of such fields, and what to do instead.
    """
    for params in (query_params, document_params):
        for name in params:
            if name in ours:
                raise InputError(
                    f"query-params and doc-params may not hold '{name}'", hint=ours[name]
                )


@dataclass(frozen=True, kw_only=True)
class RerankerFacts:
    """What only the reranker itself can tell; the same as in `ModelFacts`."""

    max_length: int | None = None
    revision: str = ""
    details: dict[str, str] = field(default_factory=dict)


class Scored(NamedTuple):
    """Scores of one query's documents, higher is better, in the order of the documents.

    scores: float64 (n_documents,), not checked. n_cut: how many documents were not read whole,
    None where the reranker cannot tell. seconds: of the scoring itself, what is only counted for
    the report left out; of a server the requests that brought the answer, without waits.
    """

    scores: NDArray[np.float64]
    n_cut: int | None = None
    seconds: float | None = None


class Reranker(Protocol):
    """One model that reads a query and a document together; made without loading anything."""

    @property
    def concurrency(self) -> int:
        """How many threads may call `score` at once; 1 for a model on this machine."""

    def facts(self) -> RerankerFacts:
        """What only the reranker knows."""

    def score(self, query: str, documents: Sequence[str]) -> Scored:
        """Scores of one query with documents that are neither empty nor repeated."""


def given_prompts(query: str | None, document: str | None) -> dict[Role, str]:
    """Return the prompts of an `Embedder` that the user gave, None for one that was not."""
    given: dict[Role, str | None] = {"query": query, "document": document}
    return {role: prompt for role, prompt in given.items() if prompt is not None}
