"""`provider:name,option=value` becomes a ranked system."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from embed_ab import bm25, search
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.origin import Origin, System, Truncation
from embed_ab.providers import mock
from embed_ab.providers.base import Embedder, ModelFacts
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import embed_cached, known_facts
from embed_ab.providers.prompts import missing_prompt
from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder
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

    def refuse_for(self, spec: SystemSpec, label: str) -> None:
        """Raise InputError where something was said that has no meaning for the system."""
        flags = {
            "query-prompt": self.query_prompt is not None,
            "doc-prompt": self.document_prompt is not None,
            "trust-remote-code": self.trust_remote_code,
            "allow-pickle": self.allow_pickle,
        }
        for flag, is_given in flags.items():
            if is_given and not PROVIDERS[spec.provider].is_model:
                raise InputError(
                    f"--{label.lower()}-{flag} has no meaning for {spec}",
                    hint=f"Leave it out, or compare a model: {_EXAMPLES}.",
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
        return self

    def number(self, option: str) -> int | None:
        """Return a numeric option, None when it is not given."""
        return int(self.options[option]) if option in self.options else None

    def __str__(self) -> str:
        return ",".join(
            [
                f"{self.provider}:{self.name}",
                *(f"{key}={item}" for key, item in self.options.items()),
            ]
        )


_EXAMPLES = "st:BAAI/bge-small-en-v1.5, bm25:auto or mock:char3"
_WHOLE_NUMBERS = frozenset({"dim", "max_length", "batch_size"})


def _plain(key: object, value: object) -> str:
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
        query_prompt=side.query_prompt,
        document_prompt=side.document_prompt,
        trust_remote_code=side.trust_remote_code,
        allow_pickle=side.allow_pickle,
        offline=side.offline,
        **({"batch_size": batch_size} if batch_size else {}),
    )


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What a provider takes, and how to make its embedder; BM25 has none.

    `names` are all there are, () for any name; `is_model` says whether prompts and permissions have
    a meaning.
    """

    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    embedder: Callable[[SystemSpec, Side], Embedder] | None = None
    is_model: bool = False


PROVIDERS: dict[str, Provider] = {
    "st": Provider(
        options=("revision", "max_length", "dim", "device", "dtype", "batch_size"),
        embedder=_sentence_transformer,
        is_model=True,
    ),
    "bm25": Provider(names=get_args(bm25.Tokens)),
    "mock": Provider(options=("dim",), names=mock.NAMES, embedder=_mock),
}


@dataclass(frozen=True, kw_only=True)
class Retrieved:
    """A system with what making it took: texts embedded now and found in the store."""

    system: System
    n_embedded: int = 0
    n_cached: int = 0


def retrieve(
    spec: SystemSpec,
    side: Side,
    evalset: Evalset,
    depth: int,
    store: VectorStore,
    on_progress: OnProgress,
    *,
    min_grade: int = 1,
) -> Retrieved:
    """Rank the documents of the set for every query, `depth` deep.

    Raises: InputError, ProviderError.
    """
    provider = PROVIDERS[spec.provider]
    depth = min(depth, len(evalset.document_ids))
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
    present = np.flatnonzero(~evalset.is_empty)
    documents = embed_cached(
        embedder,
        store,
        [evalset.document_texts[document] for document in present],
        [f"document {evalset.document_ids[document]}" for document in present],
        "document",
        dim=spec.number("dim"),
        on_progress=lambda done, total: on_progress(f"{spec}: documents", done, total),
    )
    queries = embed_cached(
        embedder,
        store,
        evalset.query_texts,
        [f"query {query}" for query in evalset.query_ids],
        "query",
        dim=spec.number("dim"),
        on_progress=lambda done, total: on_progress(f"{spec}: queries", done, total),
    )
    found, scores = search.top_k(queries.vectors, documents.vectors, depth)
    run = Run(
        name=str(spec),
        # Rows of the searched matrix back to documents; both ascend, so ties stay by id.
        # The last place of the longer array is for -1, nothing.
        documents=np.append(present, -1)[found].astype(np.int32),
        scores=scores,
    )
    facts = known_facts(embedder, store)
    truncation = _truncation(evalset, present, documents.n_tokens, facts.max_length, min_grade)
    return Retrieved(
        system=System(run=run, origin=_origin(spec, facts, truncation)),
        n_embedded=documents.n_embedded + queries.n_embedded,
        n_cached=documents.n_cached + queries.n_cached,
    )


def _origin(spec: SystemSpec, facts: ModelFacts, truncation: Truncation | None) -> Origin:
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
        details=facts.details,
        truncation=truncation,
    )


def _is_pinned(spec: SystemSpec) -> bool | None:
    """Whether a hub model names a commit; None for what does not come from a hub."""
    if spec.provider != "st" or Path(spec.name).expanduser().exists():
        return None
    return re.fullmatch(r"[0-9a-f]{7,40}", spec.options.get("revision", "")) is not None


def _truncation(
    evalset: Evalset,
    present: NDArray[np.intp],
    lengths: NDArray[np.int64] | None,
    limit: int | None,
    min_grade: int,
) -> Truncation | None:
    if limit is None or lengths is None or not lengths.size:
        return None
    cut = present[lengths > limit]
    qrels = evalset.qrels
    relevant = np.intersect1d(cut, qrels.documents[qrels.grades >= min_grade])
    return Truncation(
        max_length=limit,
        n_documents=present.size,
        n_truncated=cut.size,
        n_relevant_truncated=relevant.size,
        tokens_lost=float(np.maximum(lengths - limit, 0).sum() / max(lengths.sum(), 1)),
        relevant=tuple(evalset.document_ids[document] for document in relevant[:50]),
    )
