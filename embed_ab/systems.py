"""A system as it was written becomes a ranked one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embed_ab import bm25, fusion, parity, quantise, rerankers, search
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.origin import Origin, System, Truncation
from embed_ab.providers import mock, ollama, score_file, vectors
from embed_ab.providers.base import (
    Embedder,
    ModelFacts,
    Reranker,
    Role,
    Vectors,
    vector_fingerprint,
)
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.cross_encoder import CrossEncoderReranker
from embed_ab.providers.embed import CachedVectors, embed_cached, known_facts
from embed_ab.providers.http_reranker import HttpReranker
from embed_ab.providers.measure import batch_cosine, query_seconds
from embed_ab.providers.openai import OpenAIEmbedder
from embed_ab.providers.prompts import expected_prompts, missing_prompt
from embed_ab.providers.score_file import ScoreFile
from embed_ab.providers.sentence_transformer import POOLINGS, SentenceTransformerEmbedder
from embed_ab.records import is_blank
from embed_ab.rerankers import Reranked
from embed_ab.runs import Run, digest_of
from embed_ab.runs import read as read_run
from embed_ab.system_spec import PROVIDERS, SystemSpec

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


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
        is_pinned=_is_pinned(spec),
    )


@dataclass(frozen=True, kw_only=True)
class Retrieved:
    """A system with what making it took.

    n_embedded, n_cached: distinct texts embedded now and found in the store.
    n_tokens, seconds: tokens (None where nobody told) and wall time of the texts embedded now, the
        loading of the model left out.
    price: of those tokens, 0 where the store had all; None where it is not known.
    query_seconds: of some queries, each asked for alone; none where nothing was embedded.
    rerank_seconds: by query (row index), for all candidates of a query, while those of no other
        were scored; none where nothing scored them now.
    """

    system: System
    n_embedded: int = 0
    n_cached: int = 0
    n_tokens: int | None = None
    seconds: float = 0.0
    price: float | None = None
    query_seconds: tuple[float, ...] = ()
    rerank_seconds: Mapping[int, float] = field(default_factory=dict)


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
        found = {key: _counted_before(part) for key, part in (shared or {}).items()}

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
    before = _probe(embedder, store) if provider.is_model else None

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


def _counted_before(part: Retrieved) -> Retrieved:
    """A constituent for one more system: its texts were embedded, and are paid for, already."""
    return replace(
        part,
        n_embedded=0,
        n_cached=part.n_embedded + part.n_cached,
        n_tokens=None,
        seconds=0.0,
        price=None,
    )


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
    if spec.reranker is not None:
        (candidates,) = runs
        reranked = reordered(spec.reranker, evalset, candidates, ready, on_progress)
        how = {"reranked": f"the first {at:,} documents, by {spec.reranker}"}
        if spec.reranker.provider != "none":
            by = System(run=reranked.run, origin=reranked.origin)
            parts.append(Retrieved(system=by, rerank_seconds=reranked.seconds))
        made = _of_parts(spec, replace(reranked.run, name=str(spec)).cut(depth), how, parts)
        return replace(made, system=replace(made.system, candidates=candidates))
    if spec.provider == "rrf":
        k = spec.number("k") or fusion.K
        how = {"joined by": f"1 / ({k} + rank), of the first {at:,} documents of each"}
        run = fusion.rrf(runs, k=k, depth=depth, name=str(spec))
    else:
        kind = spec.normalise
        lacking = "0" if kind == "minmax" else "the lowest"
        weights = " and ".join(f"{weight:g}" for weight in spec.weights)
        how = {
            "joined by": f"{kind} scores of the first {at:,} documents of each, times {weights}; "
            f"a document that one lacks gets {lacking} there"
        }
        run = fusion.blend(runs, spec.weights, kind, depth=depth, name=str(spec))
    return _of_parts(spec, run, how, parts)


def _of_parts(
    spec: SystemSpec, run: Run, how: dict[str, str], parts: Sequence[Retrieved]
) -> Retrieved:
    """The system of a run that was made of others, which tells what they tell."""
    systems = tuple(part.system for part in parts)
    leaves = System(run=run, origin=Origin(system=str(spec)), parts=systems).leaves
    origin = Origin(
        system=str(spec),
        is_mock=any(leaf.origin.is_mock for leaf in leaves),
        details=how | {f"system {n}": _described(leaf) for n, leaf in enumerate(leaves, start=1)},
    )
    models = [leaf.origin for leaf in leaves if leaf.origin.query_prompt is not None]
    if len(models) == 1:
        (model,) = models
        origin = replace(
            origin,
            query_prompt=model.query_prompt,
            document_prompt=model.document_prompt,
            revision=model.revision,
            max_length=model.max_length,
            truncation=model.truncation,
        )
    sized = [leaf.origin.dimension for leaf in leaves if leaf.origin.dimension is not None]
    if len(sized) == 1:
        origin = replace(origin, dimension=sized[0])
    distinct = list({id(part): part for part in parts}.values())
    embedding = [part for part in distinct if part.n_embedded]
    tokens = [part.n_tokens for part in embedding]
    prices = [part.price for part in distinct if part.n_embedded or part.n_cached]
    waits = [part.query_seconds for part in distinct if part.n_embedded or part.n_cached]
    scored = [part.rerank_seconds for part in distinct if part.rerank_seconds]
    by_all = sorted(set(scored[0]).intersection(*scored[1:])) if scored else ()
    is_waited = waits and len({len(wait) for wait in waits}) == 1
    return Retrieved(
        system=System(run=run, origin=origin, parts=systems),
        n_embedded=sum(part.n_embedded for part in distinct),
        n_cached=sum(part.n_cached for part in distinct),
        n_tokens=sum(n for n in tokens if n is not None) if tokens and None not in tokens else None,
        seconds=sum(part.seconds for part in distinct),
        price=sum(p for p in prices if p is not None) if prices and None not in prices else None,
        # Asked for one after the other; what came out of the store was not waited for.
        query_seconds=tuple(map(sum, zip(*waits, strict=True))) if is_waited else (),
        rerank_seconds={query: sum(of[query] for of in scored) for query in by_all},
    )


def _described(system: System) -> str:
    """What a hybrid's report says of a constituent."""
    origin = system.origin
    said = [origin.system]
    for role, prompt in (("query", origin.query_prompt), ("document", origin.document_prompt)):
        if prompt:
            said.append(f"{role} prompt '{prompt}'")
    if origin.revision:
        said.append(f"revision {origin.revision}")
    if origin.dimension:
        said.append(f"{origin.dimension:,} dimensions")
    if origin.truncation and origin.truncation.n_truncated:
        cut = origin.truncation
        said.append(f"{cut.n_truncated:,} of {cut.n_documents:,} documents cut off")
    if origin.cut_pairs is not None:
        n_cut, n_pairs = origin.cut_pairs
        said.append(f"{n_cut:,} of {n_pairs:,} pairs cut off at {origin.max_length:,} tokens")
    return "; ".join([*said, *(f"{key}: {value}" for key, value in origin.details.items())])


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


def _probe(embedder: Embedder, store: VectorStore) -> Callable[[Sequence[str], Role], None]:
    """What compares texts alone and in a batch, once, when the model is about to embed anything.

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
        found, scores = quantise.top_k(queries, documents, depth, precision, rescore=spec.rescore)
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
    if spec.rescore:
        n = quantise.n_candidates(depth, n_documents)
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
        is_pinned=_is_pinned(spec),
        max_length=facts.max_length,
        dimension=spec.number("dim") or facts.dimension,
        precision=spec.precision,
        details=facts.details | quantisation,
        truncation=truncation,
        batch_cosine=facts.batch_cosine,
        tokens_per_word=facts.tokens_per_word,
    )


def _is_pinned(spec: SystemSpec) -> bool | None:
    """Whether a hub model names a commit; None for what does not come from a hub."""
    if spec.provider not in ("st", "ce") or Path(spec.name).expanduser().exists():
        return None
    return re.fullmatch(r"[0-9a-f]{7,40}", spec.options.get("revision", "")) is not None


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
        embed=embed_with(embedder, _probe(embedder, store) if is_model else None),
        bare=embed_with(make(spec, bare)) if is_model else None,
        pooled={
            pooling: otherwise(replace(spec, options={**spec.options, "pooling": pooling}), side)
            for pooling in (POOLINGS if spec.provider == "st" else ())
        },
        lengths=lengths,
        facts=lambda: known_facts(embedder, store),
        expected={"query": family.query, "document": family.document} if family else {},
    )
