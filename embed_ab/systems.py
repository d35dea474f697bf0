"""A system as it was written becomes a ranked one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from embed_ab import bm25, fusion, quantise, rerankers, search
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.origin import Origin, System, Truncation
from embed_ab.providers import score_file, vectors
from embed_ab.providers.base import (
    Embedder,
    ModelFacts,
    Reranker,
    Role,
    Vectors,
    vector_fingerprint,
)
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import CachedVectors, embed_cached, known_facts
from embed_ab.providers.measure import batch_cosine, query_seconds
from embed_ab.providers.openai import OpenAIEmbedder
from embed_ab.providers.prompts import missing_prompt
from embed_ab.providers.score_file import ScoreFile
from embed_ab.records import is_blank
from embed_ab.registry import EMBEDDERS, RERANKERS, Side, embeds, is_pinned
from embed_ab.rerankers import Reranked
from embed_ab.retrieved import Retrieved, counted_before, of_parts
from embed_ab.runs import Run, digest_of
from embed_ab.runs import read as read_run
from embed_ab.system_spec import PROVIDERS, SystemSpec

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What was made and asked before anything is ranked: embedders of servers, and rerankers.

    embedders: by system and side. rerankers, scores: by system, as written; what else is said of
        them is the same for both sides. answered: those of the rerankers that have.
    """

    embedders: dict[str, Embedder] = field(default_factory=dict)
    rerankers: dict[str, Reranker] = field(default_factory=dict)
    scores: dict[str, ScoreFile] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)


def check(spec: SystemSpec, side: Side, evalset: Evalset, ready: Ready) -> None:
    """Make rerankers and read their scores, before another system costs time.

    ready: takes them in, for `contact` and `retrieve`; nothing is loaded or asked yet.
    Raises: InputError for what cannot be had.
    """
    for leaf in spec.leaves:
        name = str(leaf)
        if leaf.provider in RERANKERS:
            if name not in ready.rerankers:
                ready.rerankers[name] = RERANKERS[leaf.provider](leaf, side)
        elif PROVIDERS[leaf.provider].reads_file and not vectors.path_of(leaf.name).exists():
            raise InputError(
                f"{leaf}: no such file or folder", hint="Check the path after the colon."
            )
        elif leaf.provider == "scores" and name not in ready.scores:
            path = vectors.path_of(leaf.name)
            ready.scores[name] = score_file.read(path, evalset.query_ids, evalset.document_ids)
    for reranker in _surely_asked(spec):
        ready.scores[str(reranker)].check_queries(evalset.query_ids)


def _surely_asked(spec: SystemSpec) -> Iterator[SystemSpec]:
    """The files of scores that have candidates of every query to order.

    Search by vectors finds some for each; words or a run may find none, and then none are scored.
    """
    for part in spec.systems:
        yield from _surely_asked(part)
    if spec.reranker is not None and spec.reranker.provider == "scores" and embeds(spec):
        yield spec.reranker


def reordered(
    spec: SystemSpec, evalset: Evalset, candidates: Run, ready: Ready, on_progress: OnProgress
) -> Reranked:
    """Return the candidates in the order of a reranker. Raises: InputError, ProviderError."""
    name = str(spec)
    if spec.provider == "none":
        return rerankers.by_none(name, candidates)
    if spec.provider == "scores":
        return rerankers.by_file(name, ready.scores[name], evalset, candidates)
    return rerankers.by_model(
        name,
        ready.rerankers[name],
        evalset,
        candidates,
        on_progress,
        is_pinned=is_pinned(spec),
    )


def retrieve(
    spec: SystemSpec,
    side: Side,
    evalset: Evalset,
    depth: int,
    store: VectorStore,
    on_progress: OnProgress,
    *,
    min_grade: int = 1,
    shared: dict[str, Retrieved] | None = None,
    ready: Ready | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Retrieved:
    """Rank the documents of the set for every query, `depth` deep.

    shared: constituents retrieved so far for other systems of this set, whose work is theirs;
        takes in new ones, but none of those inside a constituent, whose texts would be counted
        twice.
    ready: what `check` and `contact` made; None makes it now.
    Raises: InputError, ProviderError.
    """
    depth = min(depth, len(evalset.document_ids))
    if ready is None:
        check(spec, side, evalset, ready := Ready())
    if spec.systems:
        # What stands twice is retrieved once, and what another system did is no work of this one.
        found = {key: counted_before(part) for key, part in (shared or {}).items()}

        def constituent(part: SystemSpec, depth: int) -> Retrieved:
            key = f"{depth} {part} {side}"
            if key not in found:
                found[key] = retrieve(
                    part,
                    side,
                    evalset,
                    depth,
                    store,
                    on_progress,
                    min_grade=min_grade,
                    ready=ready,
                    clock=clock,
                )
            return found[key]

        made = _joined(spec, evalset, depth, constituent, ready, on_progress)
        if shared is not None:
            shared.update(found)
        return made
    provider = PROVIDERS[spec.provider]
    present = np.flatnonzero(~evalset.is_empty)
    if spec.provider == "vectors":
        return _given(spec, evalset, present, depth)
    if spec.provider == "run":
        return _from_file(spec, evalset, depth)
    if spec.provider == "bm25":
        run = bm25.search(
            evalset.document_texts,
            evalset.query_texts,
            spec.name,  # type: ignore[arg-type]  # checked by SystemSpec
            depth,
            is_candidate=~evalset.is_empty,
            name=str(spec),
        )
        nothing = np.zeros(len(evalset.document_ids), dtype=np.bool_)
        return Retrieved(system=System(run=run, origin=Origin(system=str(spec)), is_cut=nothing))

    embedder = ready.embedders.get(f"{spec} {side}") or EMBEDDERS[spec.provider](spec, side)
    before = probe(embedder, store) if provider.is_model else None

    def vectors_of(
        texts: Sequence[str], ids: Sequence[str], role: Role, many: str
    ) -> CachedVectors:
        return embed_cached(
            embedder,
            store,
            texts,
            ids,
            role,
            dim=spec.number("dim"),
            on_progress=lambda done, total: on_progress(f"{spec}: {many}", done, total),
            before=before,
            clock=clock,
        )

    documents = vectors_of(
        [evalset.document_texts[document] for document in present],
        [f"document {evalset.document_ids[document]}" for document in present],
        "document",
        "documents",
    )
    queries = vectors_of(
        evalset.query_texts, [f"query {query}" for query in evalset.query_ids], "query", "queries"
    )
    run = _ranked(spec, present, documents.vectors, queries.vectors, depth)
    facts = known_facts(embedder, store)
    truncation, is_cut = _truncation(evalset, present, documents, facts.max_length, min_grade)
    if not provider.is_model:
        is_cut = np.zeros(len(evalset.document_ids), dtype=np.bool_)
    origin = _origin(spec, facts, truncation, _quantisation(spec, len(present), depth))
    if n_cut := _n_cut(queries, facts.max_length):
        cut = f"{n_cut:,} of {len(evalset.query_ids):,}"
        origin = replace(origin, details={**origin.details, "queries cut off": cut})
    if isinstance(embedder, OpenAIEmbedder) and embedder.missing_params:
        origin = replace(origin, missing_prompt=embedder.missing_params)
    n_embedded = documents.n_embedded + queries.n_embedded
    tokens = [part.n_tokens_embedded for part in (documents, queries) if part.n_embedded]
    n_tokens = sum(n for n in tokens if n is not None) if tokens and None not in tokens else None
    price = side.price_per_million_tokens
    n_bought = n_tokens if n_embedded else 0
    return Retrieved(
        system=System(run=run, origin=origin, is_cut=is_cut),
        n_embedded=n_embedded,
        n_cached=documents.n_cached + queries.n_cached,
        n_tokens=n_tokens,
        seconds=documents.seconds + queries.seconds,
        price=None if n_bought is None or price is None else n_bought * price / 1e6,
        query_seconds=query_seconds(embedder, evalset.query_texts, clock) if n_embedded else (),
    )


def contact(
    spec: SystemSpec,
    side: Side,
    evalset: Evalset,
    store: VectorStore,
    ready: Ready,
) -> None:
    """Ask the servers of a system for a first vector, where the store does not have them all.

    And its rerankers for a first score: models are loaded, for a head may be missing.
    ready: as `check` left it; takes in the embedders, for `retrieve`: a server that has answered is
        trusted more.
    Raises: InputError, ProviderError for a server that is down or a model that is not there.
    """
    for leaf in spec.leaves:
        if (name := str(leaf)) in ready.rerankers and name not in ready.answered:
            rerankers.contact(name, ready.rerankers[name])
            ready.answered.add(name)
        if not PROVIDERS[leaf.provider].is_served or leaf.provider not in EMBEDDERS:
            continue
        embedder = ready.embedders[f"{leaf} {side}"] = EMBEDDERS[leaf.provider](leaf, side)
        facts = store.facts(embedder.fingerprint, embedder.prompts)
        if facts is None:
            known_facts(embedder, store)
        elif not (
            store.holds_all(
                vector_fingerprint(embedder, "document"),
                "document",
                facts.document_prompt,
                [text for text in evalset.document_texts if not is_blank(text)],
            )
            and store.holds_all(
                vector_fingerprint(embedder, "query"),
                "query",
                facts.query_prompt,
                evalset.query_texts,
            )
        ):
            embedder.facts()


def _joined(
    spec: SystemSpec,
    evalset: Evalset,
    depth: int,
    constituent: Callable[[SystemSpec, int], Retrieved],
    ready: Ready,
    on_progress: OnProgress,
) -> Retrieved:
    """Rank by what other systems rank: a hybrid of them, or one of them reordered."""
    at = spec.number("depth") or fusion.DEPTH
    parts = [constituent(part, at) for part in spec.systems]
    runs = [part.system.run for part in parts]
    reach = min(at, int(np.count_nonzero(~evalset.is_empty)))
    if spec.reranker is not None:
        (candidates,) = runs
        reranked = reordered(spec.reranker, evalset, candidates, ready, on_progress)
        how = {"reranked": f"the first {_reached(reach, candidates)}, by {spec.reranker}"}
        if spec.reranker.provider != "none":
            by = System(run=reranked.run, origin=reranked.origin)
            parts.append(Retrieved(system=by, rerank_seconds=reranked.seconds))
        made = of_parts(spec, replace(reranked.run, name=str(spec)).cut(depth), how, parts)
        return replace(made, system=replace(made.system, candidates=candidates))
    short = {
        f"depth of {part}": _reached(reach, run)
        for part, run in zip(spec.systems, runs, strict=True)
        if (run.lengths < reach).any()
    }
    if spec.provider == "rrf":
        k = spec.number("k") or fusion.K
        how = {"joined by": f"1 / ({k} + rank), of the first {reach:,} documents of each"} | short
        run = fusion.rrf(runs, k=k, depth=depth, name=str(spec))
    else:
        kind = spec.normalise
        lacking = "0" if kind == "minmax" else "the lowest"
        weights = " and ".join(f"{weight:g}" for weight in spec.weights)
        how = {
            "joined by": f"{kind} scores of the first {reach:,} documents of each, "
            f"times {weights}; a document that one lacks gets {lacking} there"
        }
        run = fusion.blend(runs, spec.weights, kind, depth=depth, name=str(spec))
    return of_parts(spec, run, how, parts)


def _reached(depth: int, run: Run) -> str:
    """How many documents of a run there are, where that is not the depth for every query."""
    said = f"{depth:,} documents"
    n = int(np.count_nonzero(run.lengths < depth))
    if not n:
        return said
    least, most = int(run.lengths.min()), int(run.lengths.max())
    has = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{said} (fewer for {n:,} of {len(run.lengths):,} queries, which have {has})"


def _from_file(spec: SystemSpec, evalset: Evalset, depth: int) -> Retrieved:
    """Rank as a run file does."""
    path = vectors.path_of(spec.name)
    given = read_run(path, evalset.query_ids, evalset.document_ids, depth=depth)
    counts = {
        "hits in the file": given.n_lines,
        "hits of a document again": given.n_duplicates,
        "hits of unknown documents": given.n_unknown_documents,
        "hits for unknown queries": given.n_unknown_queries,
        "queries without a hit": given.n_missing_queries,
    }
    origin = Origin(
        system=str(spec),
        revision=digest_of(path),
        details={name: f"{n:,}" for name, n in counts.items() if n},
        file=given,
    )
    run = replace(given.run, name=str(spec))
    return Retrieved(system=System(run=run, origin=origin))


def probe(embedder: Embedder, store: VectorStore) -> Callable[[Sequence[str], Role], None]:
    """Return what compares texts alone and in a batch, once, when the model is to embed anything.

    The store keeps the outcome with the model's facts: a warm run uses the same vectors.
    """
    is_done = False

    def probe(texts: Sequence[str], role: Role) -> None:
        nonlocal is_done
        if is_done:
            return
        cosine = batch_cosine(embedder, texts, role)
        if cosine is not None:
            is_done = True
            facts = replace(known_facts(embedder, store), batch_cosine=cosine)
            store.save_facts(embedder.fingerprint, embedder.prompts, facts)

    return probe


def _given(spec: SystemSpec, evalset: Evalset, present: NDArray[np.intp], depth: int) -> Retrieved:
    """Rank by the vectors of a file."""
    given = vectors.read(
        spec.name,
        [evalset.document_ids[document] for document in present],
        evalset.query_ids,
        dim=spec.number("dim"),
    )
    origin = Origin(
        system=str(spec),
        revision=given.digest,
        dimension=given.documents.shape[1],
        unknown_share=given.unknown_share,
        precision=spec.precision,
        details={"ids in the file that the set lacks": f"{given.n_unknown:,}"}
        | _quantisation(spec, len(present), depth),
    )
    run = _ranked(spec, present, given.documents, given.queries, depth)
    return Retrieved(system=System(run=run, origin=origin))


def _ranked(
    spec: SystemSpec, present: NDArray[np.intp], documents: Vectors, queries: Vectors, depth: int
) -> Run:
    """Rank the documents `present`, whose unit vectors are the rows of `documents`."""
    precision = spec.precision
    if precision == "float32":
        found, scores = search.top_k(queries, documents, depth)
    else:
        n = spec.n_rescored(depth)
        found, scores = quantise.top_k(queries, documents, depth, precision, n_rescored=n)
    return Run(
        name=str(spec),
        # Rows of the searched matrix back to documents; both ascend, so ties stay by id.
        # The last place of the longer array is for -1, nothing.
        documents=np.append(present, -1)[found].astype(np.int32),
        scores=scores,
    )


def _quantisation(spec: SystemSpec, n_documents: int, depth: int) -> dict[str, str]:
    """What a reader must know about how quantised vectors were searched."""
    if spec.precision == "float32":
        return {}
    said = {
        "int8": "int8, in 256 steps from each dimension's least to its greatest document value",
        "ubinary": "ubinary, a bit for each dimension, 1 above 0",
    }
    by = {"int8": "inner product of the codes", "ubinary": "Hamming distance"}[spec.precision]
    if n := min(spec.n_rescored(depth), n_documents):
        by += f"; the first {n:,} ordered anew by the float query and the quantised document"
    return {"precision": said[spec.precision], "searched by": by}


def _origin(
    spec: SystemSpec,
    facts: ModelFacts,
    truncation: Truncation | None,
    quantisation: dict[str, str],
) -> Origin:
    is_model = PROVIDERS[spec.provider].is_model
    return Origin(
        system=str(spec),
        is_mock=not is_model,
        query_prompt=facts.query_prompt if is_model else None,
        document_prompt=facts.document_prompt if is_model else None,
        missing_prompt=missing_prompt(spec.name, facts.query_prompt, facts.document_prompt)
        if is_model
        else "",
        revision=facts.revision,
        is_pinned=is_pinned(spec),
        max_length=facts.max_length,
        dimension=spec.number("dim") or facts.dimension,
        precision=spec.precision,
        details=facts.details | quantisation,
        truncation=truncation,
        batch_cosine=facts.batch_cosine,
        tokens_per_word=facts.tokens_per_word,
    )


def _truncation(
    evalset: Evalset,
    present: NDArray[np.intp],
    documents: CachedVectors,
    limit: int | None,
    min_grade: int,
) -> tuple[Truncation | None, NDArray[np.bool_] | None]:
    """Return how much was cut, and (n_documents,) which documents; None for what is not known."""
    if documents.n_kept is not None:
        # The server's limit is not known, nor the tokens of a text: characters tell the share.
        limit = None
        lengths = np.array([len(evalset.document_texts[document]) for document in present])
        lost = np.where(documents.n_kept < 0, 0, lengths - documents.n_kept)
    elif limit is not None and documents.n_tokens is not None and documents.n_tokens.size:
        lengths = documents.n_tokens
        lost = np.maximum(lengths - limit, 0)
    else:
        return None, None
    cut = present[lost > 0]
    is_cut = np.zeros(len(evalset.document_ids), dtype=np.bool_)
    is_cut[cut] = True
    qrels = evalset.qrels
    relevant = np.intersect1d(cut, qrels.documents[qrels.grades >= min_grade])
    truncation = Truncation(
        max_length=limit,
        n_documents=present.size,
        n_truncated=cut.size,
        n_relevant_truncated=relevant.size,
        tokens_lost=float(lost.sum() / max(lengths.sum(), 1)),
        relevant=tuple(evalset.document_ids[document] for document in relevant[:50]),
    )
    return truncation, is_cut


def _n_cut(texts: CachedVectors, limit: int | None) -> int:
    """How many texts the model did not read to their end, as far as that is known."""
    if texts.n_kept is not None:
        return int(np.count_nonzero(texts.n_kept >= 0))
    if limit is None or texts.n_tokens is None:
        return 0
    return int(np.count_nonzero(texts.n_tokens > limit))
