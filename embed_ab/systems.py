"""`provider:name,option=value` becomes a ranked system."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from embed_ab import bm25, parity, quantise, search
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.origin import Origin, System, Truncation
from embed_ab.providers import mock, ollama, vectors
from embed_ab.providers.base import Embedder, ModelFacts, Role, Vectors
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import CachedVectors, embed_cached, known_facts
from embed_ab.providers.measure import batch_cosine, query_seconds
from embed_ab.providers.openai import BATCH_SIZE, OpenAIEmbedder
from embed_ab.providers.prompts import expected_prompts, missing_prompt
from embed_ab.providers.sentence_transformer import POOLINGS, SentenceTransformerEmbedder
from embed_ab.runs import Run

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """What the settings say about one side beyond its name; None = the model's own prompt."""

    query_prompt: str | None = None
    document_prompt: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    price_per_million_tokens: float | None = None
    query_params: Mapping[str, Any] = field(default_factory=dict)
    document_params: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 4
    truncate: bool = True

    def refuse_for(self, spec: SystemSpec, label: str) -> None:
        """Raise InputError where something was said that has no meaning for the system."""
        provider = PROVIDERS[spec.provider]
        runs_here = provider.is_model and not provider.is_served
        flags = {
            "query-prompt": (self.query_prompt is not None, provider.is_model),
            "doc-prompt": (self.document_prompt is not None, provider.is_model),
            "trust-remote-code": (self.trust_remote_code, runs_here),
            "allow-pickle": (self.allow_pickle, runs_here),
            "query-params": (bool(self.query_params), provider.is_served),
            "doc-params": (bool(self.document_params), provider.is_served),
            "price-per-million-tokens": (
                self.price_per_million_tokens is not None,
                provider.is_model,
            ),
        }
        for flag, (is_given, has_meaning) in flags.items():
            if is_given and not has_meaning:
                raise InputError(
                    f"--{label.lower()}-{flag} has no meaning for {spec}",
                    hint="Leave it out, or compare a model: st:NAME, ollama:NAME or openai:NAME.",
                )


@dataclass(frozen=True, kw_only=True)
class SystemSpec:
    """A system as the user wrote it: `st:BAAI/bge-small-en-v1.5,dim=256`."""

    provider: str
    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: str | Mapping[str, Any]) -> SystemSpec:
        """Return the spec of a string or of a YAML mapping with `provider` and `name`.

        Raises: InputError for an unknown provider, name or option.
        """
        if isinstance(value, Mapping):
            given = {str(key): _plain(key, item) for key, item in value.items()}
            provider, name = given.pop("provider", ""), given.pop("name", "")
            return cls(provider=provider, name=name, options=given)._checked()
        provider, colon, rest = value.strip().partition(":")
        if not colon:
            raise InputError(
                f"'{value}' is not a system: the provider is missing",
                hint=f"Write PROVIDER:NAME, for example {_EXAMPLES}.",
            )
        name, *pairs = (part.strip() for part in rest.split(","))
        options: dict[str, str] = {}
        for pair in pairs:
            key, equals, item = pair.partition("=")
            key = key.strip().replace("-", "_")
            if not equals or not item or key in options:
                raise InputError(
                    f"'{value}': '{pair}' is not an option"
                    if key not in options
                    else f"'{value}': option '{key}' is given twice",
                    hint="Options follow the name after commas as key=value.",
                )
            options[key] = item.strip()
        return cls(provider=provider.strip(), name=name, options=options)._checked()

    def _checked(self) -> SystemSpec:
        provider = PROVIDERS.get(self.provider)
        if provider is None:
            raise InputError(
                f"unknown provider '{self.provider}' in '{self}'",
                hint=f"Providers: {', '.join(PROVIDERS)}. For example {_EXAMPLES}.",
            )
        if any(len(part.encode("utf-8", "replace")) > 255 for part in self.name.split("/")):
            raise InputError(
                f"'{self.provider}:{self.name[:40]}…': the name is too long for any file or model",
                hint=f"For example {_EXAMPLES}.",
            )
        if (
            not self.name
            or "," in self.name
            or not self.name.isprintable()
            or any(map(str.isspace, self.name[:1] + self.name[-1:]))
        ):
            raise InputError(
                f"'{self}': the name '{self.name}' is empty, or holds a comma or a line break",
                hint=f"For example {_EXAMPLES}.",
            )
        if provider.names and self.name not in provider.names:
            raise InputError(
                f"unknown name '{self.name}' in '{self}'",
                hint=f"{self.provider}: knows {', '.join(provider.names)}.",
            )
        for key, item in self.options.items():
            if key not in provider.options:
                raise InputError(
                    f"unknown option '{key}' in '{self}'",
                    hint=f"{self.provider}: takes {', '.join(provider.options) or 'no options'}.",
                )
            if key in _WHOLE_NUMBERS and not (item.isascii() and item.isdigit() and int(item) > 0):
                raise InputError(
                    f"'{self}': {key}={item} is not a whole number above 0",
                    hint=f"Write {key}=256.",
                )
            if key in _CHOICES and item not in _CHOICES[key]:
                raise InputError(
                    f"'{self}': {key}={item} is not one of {', '.join(_CHOICES[key])}",
                    hint=f"Write {key}={_CHOICES[key][-1]}, or leave it out.",
                )
        if "rescore" in self.options and self.precision == "float32":
            raise InputError(
                f"'{self}': rescore has no meaning for vectors of full precision",
                hint="Give precision=int8 or precision=ubinary with it, or leave it out.",
            )
        return self

    def number(self, option: str) -> int | None:
        """Return a numeric option, None when it is not given."""
        return int(self.options[option]) if option in self.options else None

    @property
    def precision(self) -> quantise.Precision:
        """What each dimension of a document's vector is kept as."""
        return self.options.get("precision", "float32")  # type: ignore[return-value]  # checked

    @property
    def rescore(self) -> bool:
        """Whether candidates found by quantised vectors are ordered anew by the float query."""
        return self.precision != "float32" and self.options.get("rescore", "yes") == "yes"

    def __str__(self) -> str:
        return ",".join(
            [
                f"{self.provider}:{self.name}",
                *(f"{key}={item}" for key, item in self.options.items()),
            ]
        )


_EXAMPLES = "st:BAAI/bge-small-en-v1.5, ollama:bge-m3, bm25:auto or mock:char3"
_WHOLE_NUMBERS = frozenset({"dim", "dimensions", "max_length", "batch_size"})
_CHOICES = {"precision": quantise.PRECISIONS, "rescore": ("yes", "no")}
_OF_VECTORS = ("dim", "precision", "rescore")  # for every provider that has vectors


def _plain(key: object, value: object) -> str:
    if key == "rescore" and isinstance(value, bool):
        return "yes" if value else "no"  # which is what YAML makes of yes and no
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(
            f"model option '{key}' has the value {value!r}",
            hint="Options of a model are text or whole numbers.",
        )
    return str(value)


def _mock(spec: SystemSpec, side: Side) -> Embedder:
    return mock.MockEmbedder(spec.name)


def _sentence_transformer(spec: SystemSpec, side: Side) -> Embedder:
    batch_size = spec.number("batch_size")
    return SentenceTransformerEmbedder(
        spec.name,
        revision=spec.options.get("revision"),
        max_length=spec.number("max_length"),
        device=spec.options.get("device"),
        dtype=spec.options.get("dtype"),
        pooling=spec.options.get("pooling"),
        query_prompt=side.query_prompt,
        document_prompt=side.document_prompt,
        trust_remote_code=side.trust_remote_code,
        allow_pickle=side.allow_pickle,
        offline=side.offline,
        **({"batch_size": batch_size} if batch_size else {}),
    )


def _openai(spec: SystemSpec, side: Side) -> Embedder:
    return OpenAIEmbedder(
        spec.name,
        os.environ,
        dimensions=spec.number("dimensions"),
        query_prompt=side.query_prompt,
        document_prompt=side.document_prompt,
        query_params=side.query_params,
        document_params=side.document_params,
        batch_size=spec.number("batch_size") or BATCH_SIZE,
        concurrency=side.concurrency,
        truncate=side.truncate,
    )


def _ollama(spec: SystemSpec, side: Side) -> Embedder:
    return ollama.OllamaEmbedder(
        spec.name,
        os.environ,
        max_length=spec.number("max_length"),
        query_prompt=side.query_prompt,
        document_prompt=side.document_prompt,
        query_params=side.query_params,
        document_params=side.document_params,
        batch_size=spec.number("batch_size") or ollama.BATCH_SIZE,
        concurrency=side.concurrency,
        truncate=side.truncate,
    )


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What a provider takes, and how to make its embedder; BM25 and given vectors have none.

    `names` are all there are, () for any name; `is_model` says whether prompts and permissions have
    a meaning, `is_served` whether a server does the work.
    """

    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    embedder: Callable[[SystemSpec, Side], Embedder] | None = None
    is_model: bool = False
    is_served: bool = False


PROVIDERS: dict[str, Provider] = {
    "st": Provider(
        options=(
            "revision",
            "max_length",
            *_OF_VECTORS,
            "device",
            "dtype",
            "batch_size",
            "pooling",
        ),
        embedder=_sentence_transformer,
        is_model=True,
    ),
    "openai": Provider(
        options=("dimensions", *_OF_VECTORS, "batch_size"),
        embedder=_openai,
        is_model=True,
        is_served=True,
    ),
    "ollama": Provider(
        options=("max_length", *_OF_VECTORS, "batch_size"),
        embedder=_ollama,
        is_model=True,
        is_served=True,
    ),
    "bm25": Provider(names=get_args(bm25.Tokens)),
    "mock": Provider(options=_OF_VECTORS, names=mock.NAMES, embedder=_mock),
    "vectors": Provider(options=_OF_VECTORS),
}


@dataclass(frozen=True, kw_only=True)
class Retrieved:
    """A system with what making it took.

    n_embedded, n_cached: distinct texts embedded now and found in the store.
    n_tokens, seconds: tokens (None where nobody told) and wall time of the texts embedded now, the
        loading of the model left out.
    price: of those tokens; None without tokens or a price.
    query_seconds: of some queries, each asked for alone; none where nothing was embedded.
    """

    system: System
    n_embedded: int = 0
    n_cached: int = 0
    n_tokens: int | None = None
    seconds: float = 0.0
    price: float | None = None
    query_seconds: tuple[float, ...] = ()


def retrieve(
    spec: SystemSpec,
    side: Side,
    evalset: Evalset,
    depth: int,
    store: VectorStore,
    on_progress: OnProgress,
    *,
    min_grade: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Retrieved:
    """Rank the documents of the set for every query, `depth` deep.

    Raises: InputError, ProviderError.
    """
    provider = PROVIDERS[spec.provider]
    depth = min(depth, len(evalset.document_ids))
    present = np.flatnonzero(~evalset.is_empty)
    if spec.provider == "vectors":
        return _given(spec, evalset, present, depth)
    if provider.embedder is None:
        run = bm25.search(
            evalset.document_texts,
            evalset.query_texts,
            spec.name,  # type: ignore[arg-type]  # checked by SystemSpec
            depth,
            is_candidate=~evalset.is_empty,
            name=str(spec),
        )
        return Retrieved(system=System(run=run, origin=Origin(system=str(spec))))

    embedder = provider.embedder(spec, side)
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
    truncation = _truncation(evalset, present, documents, facts.max_length, min_grade)
    origin = _origin(spec, facts, truncation, _quantisation(spec, len(present), depth))
    if isinstance(embedder, OpenAIEmbedder) and embedder.missing_params:
        origin = replace(origin, missing_prompt=embedder.missing_params)
    n_embedded = documents.n_embedded + queries.n_embedded
    tokens = [part.n_tokens_embedded for part in (documents, queries) if part.n_embedded]
    n_tokens = sum(n for n in tokens if n is not None) if tokens and None not in tokens else None
    price = side.price_per_million_tokens
    return Retrieved(
        system=System(run=run, origin=origin),
        n_embedded=n_embedded,
        n_cached=documents.n_cached + queries.n_cached,
        n_tokens=n_tokens,
        seconds=documents.seconds + queries.seconds,
        price=None if n_tokens is None or price is None else n_tokens * price / 1e6,
        query_seconds=query_seconds(embedder, evalset.query_texts, clock) if n_embedded else (),
    )


def contact(spec: SystemSpec, side: Side, store: VectorStore) -> None:
    """Ask the server of a system for what the store does not know of its model.

    Raises: ProviderError for one that is down or lacks the model.
    """
    provider = PROVIDERS[spec.provider]
    if provider.is_served and provider.embedder is not None:
        known_facts(provider.embedder(spec, side), store)


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
    )


def _is_pinned(spec: SystemSpec) -> bool | None:
    """Whether a hub model names a commit; None for what does not come from a hub."""
    if spec.provider != "st" or Path(spec.name).expanduser().exists():
        return None
    return re.fullmatch(r"[0-9a-f]{7,40}", spec.options.get("revision", "")) is not None


def _truncation(
    evalset: Evalset,
    present: NDArray[np.intp],
    documents: CachedVectors,
    limit: int | None,
    min_grade: int,
) -> Truncation | None:
    if documents.n_kept is not None:
        # The server's limit is not known, nor the tokens of a text: characters tell the share.
        limit = None
        lengths = np.array([len(evalset.document_texts[document]) for document in present])
        lost = np.where(documents.n_kept < 0, 0, lengths - documents.n_kept)
    elif limit is not None and documents.n_tokens is not None and documents.n_tokens.size:
        lengths = documents.n_tokens
        lost = np.maximum(lengths - limit, 0)
    else:
        return None
    cut = present[lost > 0]
    qrels = evalset.qrels
    relevant = np.intersect1d(cut, qrels.documents[qrels.grades >= min_grade])
    return Truncation(
        max_length=limit,
        n_documents=present.size,
        n_truncated=cut.size,
        n_relevant_truncated=relevant.size,
        tokens_lost=float(lost.sum() / max(lengths.sum(), 1)),
        relevant=tuple(evalset.document_ids[document] for document in relevant[:50]),
    )


def subject(
    spec: SystemSpec, side: Side, label: str, store: VectorStore, on_progress: OnProgress
) -> parity.Subject:
    """Return a system as `parity` takes it. Raises: InputError for one that is no model."""
    if spec.precision != "float32":
        raise InputError(
            f"{label} ({spec}): parity looks at vectors before they are quantised",
            hint="Leave out precision; `embed-ab compare` tells what quantising costs.",
        )
    if spec.provider == "vectors":

        def given(texts: parity.Texts) -> Vectors:
            documents, queries = (
                texts.ids if texts.role == role else () for role in ("document", "query")
            )
            found = vectors.read(spec.name, documents, queries, dim=spec.number("dim"))
            return found.documents if texts.role == "document" else found.queries

        return parity.Subject(system=str(spec), embed=given, is_given=True)
    make = PROVIDERS[spec.provider].embedder
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
            embedder.fingerprint,
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
