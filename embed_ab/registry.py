"""What makes embedders and rerankers of systems as they were written, one row a provider."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embed_ab.errors import InputError
from embed_ab.providers import mock, ollama
from embed_ab.providers.base import (
    Embedder,
    Reranker,
)
from embed_ab.providers.cross_encoder import CrossEncoderReranker
from embed_ab.providers.http_reranker import HttpReranker
from embed_ab.providers.openai import OpenAIEmbedder
from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder
from embed_ab.system_spec import PROVIDERS, SystemSpec


@dataclass(frozen=True, kw_only=True)
class Side:
    """What the settings say about one side beyond its name; None = the model's own prompt.

    trust_remote_code, allow_pickle: the systems, as written, that may; of both sides, for a model
        that stands on both is the same one.
    """

    query_prompt: str | None = None
    document_prompt: str | None = None
    trust_remote_code: tuple[str, ...] = ()
    allow_pickle: tuple[str, ...] = ()
    offline: bool = False
    price_per_million_tokens: float | None = None
    query_params: Mapping[str, Any] = field(default_factory=dict)
    document_params: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 4
    truncate: bool = True

    def refuse_for(self, spec: SystemSpec, label: str) -> None:
        """Raise InputError where something was said that has no meaning for the system.

        Or several: a prompt is for one model, and nobody said for which one inside of a hybrid.
        """
        providers = [(leaf, PROVIDERS[leaf.provider]) for leaf in spec.leaves]
        models = [leaf for leaf, provider in providers if provider.is_model]
        served = [leaf for leaf, provider in providers if provider.is_served]
        flags = {
            "query-prompt": (self.query_prompt is not None, models),
            "doc-prompt": (self.document_prompt is not None, models),
            "query-params": (bool(self.query_params), served),
            "doc-params": (bool(self.document_params), served),
            "price-per-million-tokens": (self.price_per_million_tokens is not None, models),
        }
        for flag, (is_given, meant) in flags.items():
            if is_given:
                _refuse(spec, f"--{label.lower()}-{flag}", meant)


def refuse_permission(spec: SystemSpec, flag: str) -> None:
    """Raise InputError where a permission that was given does not name one model."""
    _refuse(spec, flag, spec.permitted)


def _refuse(spec: SystemSpec, flag: str, meant: Sequence[SystemSpec]) -> None:
    if not meant:
        raise InputError(
            f"{flag} has no meaning for {spec}",
            hint="Leave it out, or compare a model: st:NAME, ollama:NAME or openai:NAME.",
        )
    if len(meant) > 1:
        raise InputError(
            f"{flag} is for one model, and {spec} has {len(meant)}: "
            f"{' and '.join(map(str, meant))}",
            hint="Leave it out, so that each keeps its own; or write the rankings of one "
            "with --runs DIR, and name that file here as run:FILE.",
        )


def _mock(spec: SystemSpec, side: Side) -> Embedder:
    return mock.MockEmbedder(spec.name)


def _run_here(spec: SystemSpec, side: Side) -> dict[str, Any]:
    """What every model takes that runs on this machine."""
    batch_size = spec.number("batch_size")
    return {
        "revision": spec.options.get("revision"),
        "max_length": spec.number("max_length"),
        "device": spec.options.get("device"),
        "dtype": spec.options.get("dtype"),
        "trust_remote_code": str(spec) in side.trust_remote_code,
        "allow_pickle": str(spec) in side.allow_pickle,
        "offline": side.offline,
    } | ({"batch_size": batch_size} if batch_size else {})


def _sentence_transformer(spec: SystemSpec, side: Side) -> Embedder:
    return SentenceTransformerEmbedder(
        spec.name,
        pooling=spec.options.get("pooling"),
        query_prompt=side.query_prompt,
        document_prompt=side.document_prompt,
        **_run_here(spec, side),
    )


def _openai(spec: SystemSpec, side: Side) -> Embedder:
    return OpenAIEmbedder(
        spec.name, os.environ, dimensions=spec.number("dimensions"), **_served(spec, side)
    )


def _ollama(spec: SystemSpec, side: Side) -> Embedder:
    return ollama.OllamaEmbedder(
        spec.name, os.environ, max_length=spec.number("max_length"), **_served(spec, side)
    )


def _served(spec: SystemSpec, side: Side) -> dict[str, Any]:
    """What every model behind a server is told."""
    batch_size = spec.number("batch_size")
    return {
        "query_prompt": side.query_prompt,
        "document_prompt": side.document_prompt,
        "query_params": side.query_params,
        "document_params": side.document_params,
        "concurrency": side.concurrency,
        "truncate": side.truncate,
    } | ({"batch_size": batch_size} if batch_size else {})


EMBEDDERS: dict[str, Callable[[SystemSpec, Side], Embedder]] = {
    "st": _sentence_transformer,
    "openai": _openai,
    "ollama": _ollama,
    "mock": _mock,
}
"""How to make the embedder of a provider; BM25, given vectors and run files have none."""


def embeds(spec: SystemSpec) -> bool:
    """Return whether a system has anything to embed, so that the store of vectors is of use."""
    return any(leaf.provider in EMBEDDERS for leaf in spec.leaves)


def _cross_encoder(spec: SystemSpec, side: Side) -> Reranker:
    return CrossEncoderReranker(spec.name, **_run_here(spec, side))


def _served_reranker(spec: SystemSpec, side: Side) -> Reranker:
    return HttpReranker(
        spec.name,
        os.environ,
        shape=spec.options.get("shape", "jina"),
        batch_size=spec.number("batch_size"),
        concurrency=side.concurrency,
        truncate=side.truncate,
    )


RERANKERS: dict[str, Callable[[SystemSpec, Side], Reranker]] = {
    "ce": _cross_encoder,
    "http": _served_reranker,
}
"""How to make a reranker that reads texts; `none` and given scores read none."""


def is_pinned(spec: SystemSpec) -> bool | None:
    """Whether a hub model names a commit; None for what does not come from a hub."""
    if spec.provider not in ("st", "ce") or Path(spec.name).expanduser().exists():
        return None
    return re.fullmatch(r"[0-9a-f]{7,40}", spec.options.get("revision", "")) is not None
