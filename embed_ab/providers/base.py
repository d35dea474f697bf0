"""What every provider of vectors offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Role = Literal["query", "document"]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What only the model itself can tell, kept in the store so that a warm run need not load it.

    `query_prompt` and `document_prompt` are the strings really put before each text ("" for none).
    `max_length` is in tokens, special tokens included; None where the model has no limit.
    `details` is for the reader only: dtype, pooling, library versions.
    """

    dimension: int
    query_prompt: str = ""
    document_prompt: str = ""
    max_length: int | None = None
    revision: str = ""
    details: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """Vectors of some texts, in the order of the texts.

    vectors: float32 (n_texts, dimension), as the model gave them: not normalised, not checked.
    n_tokens: int64 (n_texts,) length of each text in tokens before truncation, prompt and special
        tokens included; None where the provider cannot tell.
    """

    vectors: Vectors
    n_tokens: NDArray[np.int64] | None = None


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
