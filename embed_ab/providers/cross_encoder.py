"""Cross-encoders of sentence-transformers: they read a query and a document together."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embed_ab.errors import ProviderError
from embed_ab.formats import counted
from embed_ab.providers.base import RerankerFacts, Scored
from embed_ab.providers.model_files import first_line
from embed_ab.providers.model_source import (
    ModelSource,
    dtype_of,
    length_limit,
    limit_length,
    quiet,
    versions,
)


@dataclass(frozen=True)
class CrossEncoderReranker:
    """A cross-encoder, loaded when its facts or scores are first needed.

    name, revision, dtype, offline, trust_remote_code, allow_pickle: as for `ModelSource`.
    max_length: tokens of query and document together, instead of the model's own limit.

    Raises: InputError for a folder that does not exist, a revision of a folder or another dtype;
    ProviderError, from everything that resolves or loads, for whatever the model or the hub lacks.
    """

    name: str
    revision: str | None = None
    max_length: int | None = None
    device: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    batch_size: int = 8
    concurrency: int = 1
    clock: Callable[[], float] = field(default=time.perf_counter, repr=False, compare=False)

    def __post_init__(self) -> None:
        _ = self._source  # says what is wrong with the name

    @property
    def hub_name(self) -> str:
        """Full name on the hub, "" for a local folder."""
        return "" if self._source.is_folder else self._source.hub_name

    def facts(self) -> RerankerFacts:
        """Length limit and commit; loads the model."""
        model = self._model
        return RerankerFacts(
            max_length=length_limit(model),
            revision=self._source.known_revision,
            details={"dtype": dtype_of(model), "device": str(model.device), **versions()},
        )

    def score(self, query: str, documents: Sequence[str]) -> Scored:
        """Scores of one query with each document: logits, unless the model ends otherwise."""
        model = self._model
        started = self.clock()
        try:
            with quiet():
                scores = model.predict(
                    [(query, document) for document in documents],
                    batch_size=self.batch_size,
                    show_progress_bar=False,
                    activation_fn=self._activation,
                )
                seconds = self.clock() - started  # nobody who only ranks counts what is cut
                n_cut = self._count_cut(query, documents)
        except Exception as error:  # out of memory, or whatever a model's own code raises
            raise ProviderError(
                f"model '{self.name}' could not score {counted(len(documents), 'document')} "
                f"({type(error).__name__})",
                hint="A smaller batch size or max_length needs less memory.",
                said=first_line(error),
            ) from error
        return Scored(np.asarray(scores, dtype=np.float64), n_cut, seconds)

    @cached_property
    def _source(self) -> ModelSource:
        return ModelSource(
            name=self.name,
            owner="cross-encoder",
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
            offline=self.offline,
        )

    @cached_property
    def _model(self) -> Any:
        model = self._source.load("CrossEncoder")
        if not _has_head(self._source.folder):
            # The library would make up random weights for the head, and only warn.
            raise ProviderError(
                f"model '{self.name}' has no part that scores a query with a document",
                hint="It may be a model for embeddings: give a cross-encoder, such as "
                "ce:cross-encoder/ms-marco-MiniLM-L6-v2.",
            )
        if model.num_labels != 1:
            raise ProviderError(
                f"model '{self.name}' sorts pairs into {model.num_labels} classes and gives no "
                "one score",
                hint="Give a cross-encoder made for ranking: it has one output.",
            )
        if self.max_length is not None:
            limit_length(self.name, model, self.max_length, pair=True)
        return model

    @cached_property
    def _activation(self) -> Any:
        from torch.nn import Identity, Sigmoid

        # A sigmoid keeps the order, but rounds what is nearly 1 to ties.
        return Identity() if isinstance(self._model.activation_fn, Sigmoid) else None

    def _count_cut(self, query: str, documents: Sequence[str]) -> int | None:
        """How many pairs are longer than the limit; None where that cannot be told."""
        model = self._model
        limit, tokenizer = length_limit(model), model.tokenizer
        is_plain = getattr(model[0], "transformer_task", "") == "sequence-classification"
        if limit is None or not is_plain or not callable(tokenizer):
            return None
        encoded = tokenizer(
            [query] * len(documents),
            list(documents),
            padding=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return sum(len(ids) > limit for ids in encoded["input_ids"])


def _has_head(folder: Path) -> bool:
    """Whether the weights were saved with a head; a language model answers with its own."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        (architecture,) = config["architectures"]
    except (OSError, ValueError, KeyError, TypeError):
        return True  # modules of their own: the library loads them as they were saved
    return str(architecture).endswith(("ForSequenceClassification", "ForCausalLM"))
