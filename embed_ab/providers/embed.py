"""Unit vectors of texts: each distinct text embedded once, and only if the store lacks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.base import Embedded, Embedder, ModelFacts, Role, Vectors
from embed_ab.providers.cache import VectorStore

_BLOCK = 4096  # rows normalised at a time, to bound the float64 copy


@dataclass(frozen=True, kw_only=True)
class CachedVectors:
    """Unit vectors of some texts, in the order of the texts.

    vectors: float32 (n_texts, dimension), L2-normalised.
    n_tokens: int64 (n_texts,) length before truncation; None where the provider cannot tell.
    n_embedded, n_cached: how many distinct texts the model embedded and the store knew.
    """

    vectors: Vectors
    n_tokens: NDArray[np.int64] | None
    n_embedded: int
    n_cached: int


def known_facts(embedder: Embedder, store: VectorStore) -> ModelFacts:
    """Facts of a model from the store; only a model never seen is loaded."""
    facts = store.facts(embedder.fingerprint, embedder.prompts)
    if facts is None:
        facts = embedder.facts()
        store.save_facts(embedder.fingerprint, embedder.prompts, facts)
    return facts


def embed_cached(
    embedder: Embedder,
    store: VectorStore,
    texts: Sequence[str],
    text_ids: Sequence[str],
    role: Role,
    *,
    dim: int | None = None,
    batch: int = 64,
    on_progress: Callable[[int, int], None] | None = None,
) -> CachedVectors:
    """Unit vectors of the texts, each distinct text embedded once and only if the store lacks it.

    dim: keep only so many leading elements before normalising (Matryoshka).
    on_progress: called before the first and after each batch with the texts done and to do.
    Raises: InputError for a dim above the model's; ProviderError, naming a text's id, for vectors
    that are too few, of another dimension, not finite or zero.
    """
    facts = known_facts(embedder, store)
    if dim is not None and dim > facts.dimension:
        raise InputError(
            f"dim={dim} is more than the {facts.dimension} dimensions of model '{embedder.name}'",
            hint=f"Leave out dim, or give at most {facts.dimension}.",
        )
    prompt = facts.query_prompt if role == "query" else facts.document_prompt
    distinct = list(dict.fromkeys(texts))
    ids = dict(zip(reversed(texts), reversed(text_ids), strict=True))  # the first id of each text
    found = store.get(embedder.fingerprint, role, prompt, distinct, dimension=facts.dimension)
    vectors, n_tokens = found.vectors, found.n_tokens

    # Texts of like length share a batch; the longest first, so that a lack of memory shows early.
    missing = sorted(np.flatnonzero(~found.is_found).tolist(), key=lambda row: -len(distinct[row]))
    report = on_progress or (lambda done, total: None)
    if missing:
        report(0, len(missing))
    for start in range(0, len(missing), batch):
        rows = missing[start : start + batch]
        batch_texts = [distinct[row] for row in rows]
        embedded = embedder.embed(batch_texts, role)
        _check(embedder, embedded, [ids[text] for text in batch_texts], facts.dimension)
        store.put(embedder.fingerprint, role, prompt, batch_texts, embedded)
        vectors[rows] = embedded.vectors
        if embedded.n_tokens is not None:
            n_tokens[rows] = embedded.n_tokens
        report(start + len(rows), len(missing))

    unit = _normalised(vectors[:, :dim])
    zeros = np.flatnonzero(~unit.any(axis=1))
    if zeros.size:  # only a cut vector can still be zero here
        raise ProviderError(
            f"model '{embedder.name}': the first {dim} elements of the vector of "
            f"'{ids[distinct[zeros[0]]]}' are all zero",
            hint="Give a larger dim.",
        )
    if len(distinct) < len(texts):
        row_of = {text: row for row, text in enumerate(distinct)}
        order = [row_of[text] for text in texts]
        unit, n_tokens = unit[order], n_tokens[order]
    return CachedVectors(
        vectors=unit,
        n_tokens=None if (n_tokens < 0).any() else n_tokens,
        n_embedded=len(missing),
        n_cached=len(distinct) - len(missing),
    )


def _check(embedder: Embedder, embedded: Embedded, ids: Sequence[str], dimension: int) -> None:
    """Refuse vectors that cannot be compared, before they reach the store."""
    vectors = embedded.vectors
    fault = ""
    place = f"'{ids[0]}'" if len(ids) == 1 else f"'{ids[0]}' … '{ids[-1]}'"
    if vectors.ndim != 2 or len(vectors) != len(ids):
        n_vectors = len(vectors) if vectors.ndim else 0
        fault = f"{n_vectors} vectors came back for {len(ids)} texts ({place})"
    elif vectors.shape[1] != dimension:
        fault = f"the vectors of {place} have {vectors.shape[1]} dimensions, not {dimension}"
    elif not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        fault = f"the vector of '{ids[row]}' holds NaN or infinite values"
    elif not vectors.any(axis=1).all():
        row = int(np.flatnonzero(~vectors.any(axis=1))[0])
        fault = f"the vector of '{ids[row]}' is all zero"
    if fault:
        raise ProviderError(
            f"model '{embedder.name}': {fault}",
            hint="Look at that text: a model may have no word of it, or fail on its length.",
        )


def _normalised(vectors: Vectors) -> Vectors:
    """Rows divided by their L2 norm, computed in float64; zero rows stay zero."""
    unit = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        norms = np.linalg.norm(block, axis=1, keepdims=True)
        unit[start : start + _BLOCK] = np.divide(block, norms, out=block, where=norms > 0)
    return unit
