"""A system as `parity` takes it: its vectors, and those of its variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from embed_ab import parity
from embed_ab.errors import InputError
from embed_ab.providers import vectors
from embed_ab.providers.base import (
    Embedder,
    Role,
    Vectors,
    vector_fingerprint,
)
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import embed_cached, known_facts
from embed_ab.providers.prompts import expected_prompts
from embed_ab.providers.sentence_transformer import POOLINGS
from embed_ab.registry import EMBEDDERS, Side
from embed_ab.system_spec import PROVIDERS, SystemSpec
from embed_ab.systems import OnProgress, probe


def subject(
    spec: SystemSpec,
    side: Side,
    label: str,
    documents: parity.Texts,
    queries: parity.Texts,
    store: VectorStore,
    on_progress: OnProgress,
) -> parity.Subject:
    """Return a system as `parity` takes it.

    documents, queries: all whose vectors it will be asked for as they are.
    Raises: InputError for one that is no model, and for a file of vectors that cannot be used.
    """
    if spec.precision != "float32":
        raise InputError(
            f"{label} ({spec}): parity looks at vectors before they are quantised",
            hint="Leave out precision; `embed-ab compare` tells what quantising costs.",
        )
    if spec.provider == "vectors":
        file = vectors.read(spec.name, documents.ids, queries.ids, dim=spec.number("dim"))
        by_id: dict[Role, dict[str, Vectors]] = {
            "document": dict(zip(documents.ids, file.documents, strict=True)),
            "query": dict(zip(queries.ids, file.queries, strict=True)),
        }

        def given(texts: parity.Texts) -> Vectors:
            return np.stack([by_id[texts.role][identifier] for identifier in texts.ids])

        return parity.Subject(system=str(spec), embed=given, is_given=True)
    make = EMBEDDERS.get(spec.provider)
    if make is None:
        raise InputError(
            f"{label} ({spec}) has no vectors",
            hint="parity compares vectors of models: -a st:NAME -b ollama:NAME.",
        )
    embedder, is_model = make(spec, side), PROVIDERS[spec.provider].is_model

    def embed_with(
        embedder: Embedder, before: Callable[[Sequence[str], Role], None] | None = None
    ) -> parity.Embed:
        def embed(texts: parity.Texts) -> Vectors:
            return embed_cached(
                embedder,
                store,
                texts.texts,
                [f"{texts.role} {identifier}" for identifier in texts.ids],
                texts.role,
                dim=spec.number("dim"),
                on_progress=lambda done, total: on_progress(
                    f"{label} {spec}: {texts.role}", done, total
                ),
                before=before,
            ).vectors

        return embed

    def otherwise(spec: SystemSpec, side: Side) -> parity.Embed:
        # Made when asked for: each is the model once more.
        return lambda texts: embed_with(make(spec, side))(texts)

    def lengths(texts: parity.Texts) -> NDArray[np.float64]:
        facts = known_facts(embedder, store)
        prompt = facts.query_prompt if texts.role == "query" else facts.document_prompt
        found = store.get(
            vector_fingerprint(embedder, texts.role),
            texts.role,
            prompt,
            list(dict.fromkeys(texts.texts)),
            dimension=facts.dimension,
        )
        of: NDArray[np.float64] = np.linalg.norm(found.vectors.astype(np.float64), axis=1)
        return of

    family = expected_prompts(spec.name) if is_model else None
    bare = replace(side, query_prompt="", document_prompt="")
    return parity.Subject(
        system=str(spec),
        embed=embed_with(embedder, probe(embedder, store) if is_model else None),
        bare=embed_with(make(spec, bare)) if is_model else None,
        pooled={
            pooling: otherwise(replace(spec, options={**spec.options, "pooling": pooling}), side)
            for pooling in (POOLINGS if spec.provider == "st" else ())
        },
        lengths=lengths,
        facts=lambda: known_facts(embedder, store),
        expected={"query": family.query, "document": family.document} if family else {},
    )
