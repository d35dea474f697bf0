"""A system with what making it took, and one that is made of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from embed_ab.origin import Origin, System
from embed_ab.runs import Run
from embed_ab.system_spec import SystemSpec


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


def counted_before(part: Retrieved) -> Retrieved:
    """Return a constituent for one more system: its texts are embedded and paid for already."""
    return replace(
        part,
        n_embedded=0,
        n_cached=part.n_embedded + part.n_cached,
        n_tokens=None,
        seconds=0.0,
        price=None,
    )


def of_parts(
    spec: SystemSpec, run: Run, how: dict[str, str], parts: Sequence[Retrieved]
) -> Retrieved:
    """Return the system of a run that was made of others, which tells what they tell."""
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
    cuts = [system.is_cut for system in systems if system.is_cut is not None]
    is_cut = np.logical_or.reduce(cuts) if cuts else None
    distinct = list({id(part): part for part in parts}.values())
    embedding = [part for part in distinct if part.n_embedded]
    tokens = [part.n_tokens for part in embedding]
    prices = [part.price for part in distinct if part.n_embedded or part.n_cached]
    waits = [part.query_seconds for part in distinct if part.n_embedded or part.n_cached]
    scored = [part.rerank_seconds for part in distinct if part.rerank_seconds]
    by_all = sorted(set(scored[0]).intersection(*scored[1:])) if scored else ()
    is_waited = waits and len({len(wait) for wait in waits}) == 1
    return Retrieved(
        system=System(run=run, origin=origin, parts=systems, is_cut=is_cut),
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
