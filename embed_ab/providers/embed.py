"""Unit vectors of texts: each distinct text embedded once, and only if the store lacks it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError, ProviderError
from embed_ab.formats import counted
from embed_ab.providers.base import (
    Embedded,
    Embedder,
    ModelFacts,
    Role,
    Served,
    Vectors,
    vector_fingerprint,
)
from embed_ab.providers.batching import parts
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.threads import outcomes

_BLOCK = 256  # rows normalised at a time: their float64 copy stays in the cache of the processor


@dataclass(frozen=True, kw_only=True)
class CachedVectors:
    """Unit vectors of some texts, in the order of the texts.

    vectors: float32 (n_texts, dimension), L2-normalised.
    n_tokens: int64 (n_texts,) length before truncation; None where the provider cannot tell.
    n_kept: int64 (n_texts,) leading characters embedded of texts that a server would not take
        whole, −1 for whole texts; None where all are whole.
    n_embedded, n_cached: how many distinct texts the model embedded and the store knew.
    n_tokens_embedded: those of the texts embedded, as a server counted them, else before
        truncation; None where nobody told.
    seconds: wall time of embedding, with what the server made us wait.
    """

    vectors: Vectors
    n_tokens: NDArray[np.int64] | None
    n_kept: NDArray[np.int64] | None
    n_embedded: int
    n_cached: int
    n_tokens_embedded: int | None
    seconds: float


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
    before: Callable[[Sequence[str], Role], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> CachedVectors:
    """Unit vectors of the texts, each distinct text embedded once and only if the store lacks it.

    dim: keep only so many leading elements before normalising (Matryoshka).
    batch: texts a call; a server's embedder has its own number.
    on_progress: called before the first and after each batch with the texts done and to do.
    before: called with the shortest and the longest text to embed, before the time is taken; not
        when the store has all.
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
    fingerprint = vector_fingerprint(embedder, role)
    found = store.get(fingerprint, role, prompt, distinct, dimension=facts.dimension)
    vectors, n_tokens, n_kept = found.vectors, found.n_tokens, found.n_kept
    served = embedder if isinstance(embedder, Served) else None
    is_known = found.is_found
    if served is not None and not served.truncate:
        is_known &= n_kept < 0  # shortened in a run that was allowed to

    # Texts of like length share a batch; the longest first, so that a lack of memory shows early.
    missing = sorted(np.flatnonzero(~is_known).tolist(), key=lambda row: -len(distinct[row]))
    report = on_progress or (lambda done, total: None)
    # One thread more than requests at once: the server need not wait until an answer is read.
    size, n_threads = (served.batch_size, served.concurrency + 1) if served else (batch, 0)
    if missing:
        report(0, len(missing))
        if before is not None:
            before([distinct[missing[-1]], distinct[missing[0]]], role)
    told = served.usage.n_tokens if served else None
    started = clock()
    # For a server one request each, as far as is known beforehand: what is answered is stored.
    waiting = deque(
        parts(distinct, missing, max_texts=size)
        if served and missing
        else (missing[start : start + size] for start in range(0, len(missing), size))
    )
    answered: deque[tuple[Sequence[int], Embedded]] = deque()
    n_done = 0
    failure: BaseException | None = None

    def work(rows: Sequence[int]) -> None:
        embedded = embedder.embed([distinct[row] for row in rows], role)
        answered.append((rows, embedded))

    def keep_next() -> ProviderError | None:
        """Put what was answered first into the store; return what is wrong with it."""
        nonlocal n_done
        rows, embedded = answered[0]  # it leaves only when stored: an interrupt may come between
        names = [ids[distinct[row]] for row in rows]
        fault, sound = _sound(embedder, embedded, names, facts.dimension)
        if sound:  # kept, whatever became of the others
            lasting = [place for place in sound if place not in embedded.passing]
            batch_texts = [distinct[rows[place]] for place in lasting]
            store.put(fingerprint, role, prompt, batch_texts, _only(embedded, lasting))
            kept, rows = _only(embedded, sound), [rows[place] for place in sound]
            vectors[rows] = kept.vectors
            n_kept[rows] = -1 if kept.n_kept is None else kept.n_kept
            if kept.n_tokens is not None:
                n_tokens[rows] = kept.n_tokens
            n_done += len(rows)
        answered.popleft()
        return fault

    try:
        for _, outcome in outcomes(work, waiting, n_threads):
            if outcome is not None:
                failure = failure or outcome
                waiting.clear()  # what is on its way is still taken in
                continue
            n_before = n_done
            fault = keep_next()
            if n_done > n_before:
                report(n_done, len(missing))
            if fault is not None:
                failure = failure or fault
                waiting.clear()
    finally:
        while answered:  # an interrupt may come when an answer is there and not yet looked at
            keep_next()
    if served is not None:
        _keep_lowest(embedder, store, served.usage.tokens_per_word)
    if failure is not None:
        raise failure

    seconds = clock() - started
    counted = n_tokens[missing]
    n_tokens_embedded = served.usage.n_tokens if served else None
    if n_tokens_embedded is not None:
        n_tokens_embedded -= told or 0
    elif missing and (counted >= 0).all():
        n_tokens_embedded = int(counted.sum())

    # In its own place where nothing is cut off: the vectors are most of a run's memory.
    unit = normalised(vectors[:, :dim], out=vectors if dim is None else None)
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
        unit, n_tokens, n_kept = unit[order], n_tokens[order], n_kept[order]
    return CachedVectors(
        vectors=unit,
        n_tokens=None if (n_tokens < 0).any() else n_tokens,
        n_kept=n_kept if (n_kept >= 0).any() else None,
        n_embedded=len(missing),
        n_cached=len(distinct) - len(missing),
        n_tokens_embedded=n_tokens_embedded,
        seconds=seconds,
    )


def _keep_lowest(embedder: Embedder, store: VectorStore, tokens_per_word: float | None) -> None:
    """Note how few tokens a server counted, for runs that find its vectors in the store."""
    facts = known_facts(embedder, store)
    if tokens_per_word is not None and tokens_per_word < (facts.tokens_per_word or float("inf")):
        facts = replace(facts, tokens_per_word=tokens_per_word)
        store.save_facts(embedder.fingerprint, embedder.prompts, facts)


def _only(embedded: Embedded, places: list[int]) -> Embedded:
    """Some of the texts of a batch."""
    if len(places) == len(embedded.vectors):
        return embedded
    n_tokens, n_kept = embedded.n_tokens, embedded.n_kept
    return Embedded(
        vectors=embedded.vectors[places],
        n_tokens=None if n_tokens is None else n_tokens[places],
        n_kept=None if n_kept is None else n_kept[places],
    )


def _sound(
    embedder: Embedder, embedded: Embedded, ids: Sequence[str], dimension: int
) -> tuple[ProviderError | None, list[int]]:
    """The places of a batch whose vectors can be compared, and what is wrong with the first other.

    Where the batch itself is wrong, there are none.
    """
    vectors, said = embedded.vectors, ""
    hint = "Look at that text: a model may have no word of it, or fail on its length."
    place = f"'{ids[0]}'" if len(ids) == 1 else f"'{ids[0]}' … '{ids[-1]}'"
    sound: list[int] = []
    if vectors.ndim != 2 or len(vectors) != len(ids):
        n_vectors = len(vectors) if vectors.ndim else 0
        n_texts = counted(len(ids), "text")
        fault = f"{counted(n_vectors, 'vector')} came back for {n_texts} ({place})"
    elif vectors.shape[1] != dimension and len(embedded.faults) < len(ids):
        fault = f"the vectors of {place} have {vectors.shape[1]} dimensions, not {dimension}"
        hint = (
            "Another model may answer under that name now: `embed-ab cache clear`, and run again."
        )
    else:
        is_finite = np.asarray(np.isfinite(vectors).all(axis=1))
        is_sound = is_finite & np.any(vectors, axis=1)
        is_sound[list(embedded.faults)] = False
        sound = np.flatnonzero(is_sound).tolist()
        if embedded.failure is not None:  # of the server, not of a text
            return embedded.failure, sound
        if len(sound) == len(ids):
            return None, sound
        row = int(np.flatnonzero(~is_sound)[0])
        if row in embedded.faults:
            cause = embedded.faults[row]
            fault = f"'{ids[row]}': {cause.unquoted}"
            said = cause.said
            hint = cause.hint or (
                "The server refuses this text, also alone: go by its own words. Without "
                "--no-truncate a text is shortened where they are about its length."
            )
        elif is_finite[row]:
            fault = f"the vector of '{ids[row]}' is all zero"
        else:
            fault = f"the vector of '{ids[row]}' holds NaN or infinite values"
    return ProviderError(f"model '{embedder.name}': {fault}", hint=hint, said=said), sound


def normalised(vectors: Vectors, *, out: Vectors | None = None) -> Vectors:
    """Rows divided by their L2 norm, computed in float64; zero rows stay zero.

    out: where to put them, which may be `vectors` itself; None makes an array.
    """
    unit = np.empty(vectors.shape, dtype=np.float32) if out is None else out
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        norms = np.linalg.norm(block, axis=1, keepdims=True)
        unit[start : start + _BLOCK] = np.divide(block, norms, out=block, where=norms > 0)
    return unit
