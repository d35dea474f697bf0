"""Candidates and a reranker become a run of the same documents in another order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import EmbedAbError, ProviderError
from embed_ab.evalset import Evalset
from embed_ab.origin import Origin
from embed_ab.providers.base import PLAIN_TEXT, Reranker, Scored
from embed_ab.providers.measure import MAX_SECONDS, spread
from embed_ab.providers.score_file import ScoreFile
from embed_ab.providers.threads import outcomes
from embed_ab.records import is_blank
from embed_ab.rerank import differing, reorder
from embed_ab.runs import Run

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Reranked:
    """A reranker's run, what to know about the reranker, and how long it took for a query.

    The origin is the reranker's alone: what it reordered has its own.
    seconds: by query (row index), of those whose candidates were scored while no other's were.
    """

    run: Run
    origin: Origin
    seconds: Mapping[int, float] = field(default_factory=dict)


def by_none(name: str, candidates: Run) -> Reranked:
    """Return the candidates in the order of the first stage."""
    return Reranked(run=candidates, origin=Origin(system=name))


def by_file(name: str, file: ScoreFile, evalset: Evalset, candidates: Run) -> Reranked:
    """Return the candidates in the order of a file's scores. Raises: InputError."""
    scores = file.of(candidates, evalset.query_ids, evalset.document_ids)
    return Reranked(
        run=_reordered(name, evalset, candidates, scores),
        origin=Origin(system=name, revision=file.digest),
    )


def contact(name: str, reranker: Reranker) -> None:
    """Have a reranker score a pair of short texts, so that what it lacks is said at the start.

    Raises: InputError; ProviderError, also for a score that is none.
    """
    reranker.facts()
    try:
        scores = reranker.score(PLAIN_TEXT, [PLAIN_TEXT]).scores
    except ProviderError as error:
        raise ProviderError(
            f"{name}: {error.unquoted}", hint=error.hint, said=error.said
        ) from error
    if scores.shape != (1,) or not np.isfinite(scores).all():
        raise ProviderError(
            f"{name}: what came back for a short query and document is no finite score",
            hint="Check that this is a model for reranking.",
        )


def by_model(
    name: str,
    reranker: Reranker,
    evalset: Evalset,
    candidates: Run,
    on_progress: OnProgress,
    *,
    is_mock: bool = False,
    is_pinned: bool | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Reranked:
    """Return the candidates in the order of a model's scores; documents of one text tie.

    Nothing is kept between runs: a score belongs to a pair, and each pair is asked for once. A
    server that takes several queries at once gets the first ones, up to 20 spread over the set and
    for up to 10 seconds, one at a time: the time of those at once is shared, and tells nothing.
    Raises: InputError; ProviderError that names the query.
    """
    facts = reranker.facts()
    scores = np.full(candidates.documents.shape, np.nan)
    seconds: dict[int, float] = {}
    n_done, n_pairs, n_cut = 0, 0, 0
    can_tell = True
    rows = np.flatnonzero((candidates.documents >= 0).any(axis=1)).tolist()
    what = f"{name}: queries"

    def score(query: int) -> tuple[Scored, list[str]]:
        found = candidates.documents[query]
        texts = [
            text
            for text in dict.fromkeys(evalset.document_texts[d] for d in found[found >= 0].tolist())
            if not is_blank(text)
        ]
        if not texts:
            return Scored(np.empty(0), 0), texts
        try:
            return reranker.score(evalset.query_texts[query], texts), texts
        except ProviderError as error:
            raise ProviderError(
                f"{name}: query '{evalset.query_ids[query]}': {error.unquoted}",
                hint=error.hint,
                said=error.said,
            ) from error

    on_progress(what, 0, len(rows))
    is_alone = reranker.concurrency == 1
    waiting = deque(rows if is_alone else spread(rows))
    failure: BaseException | None = None

    def answers() -> Iterator[tuple[int, tuple[Scored, list[str]] | BaseException]]:
        nonlocal waiting
        deadline = clock() + MAX_SECONDS
        done: set[int] = set()
        while waiting and (is_alone or clock() <= deadline):
            query = waiting.popleft()
            done.add(query)
            scored, texts = score(query)
            if scored.seconds is not None:
                seconds[query] = scored.seconds
            yield query, (scored, texts)
        waiting = deque(query for query in rows if query not in done)
        yield from outcomes(score, waiting, reranker.concurrency)

    for query, outcome in answers():
        if isinstance(outcome, BaseException):
            failure = failure or outcome
            waiting.clear()
            continue
        scored, texts = outcome
        documents = candidates.documents[query].tolist()
        _check(name, evalset, query, documents, texts, scored.scores)
        of_text = dict(zip(texts, scored.scores.tolist(), strict=True))
        last = min(of_text.values(), default=0.0) - 1  # of a document without text
        for place, document in enumerate(documents):
            if document >= 0:
                scores[query, place] = of_text.get(evalset.document_texts[document], last)
        n_done += 1
        n_pairs += len(texts)
        n_cut += scored.n_cut or 0
        can_tell = can_tell and scored.n_cut is not None
        on_progress(what, n_done, len(rows))
    if failure is not None:
        raise failure
    return Reranked(
        run=_reordered(name, evalset, candidates, scores),
        origin=Origin(
            system=name,
            is_mock=is_mock,
            revision=facts.revision,
            is_pinned=is_pinned,
            max_length=facts.max_length,
            details=facts.details,
            cut_pairs=(n_cut, n_pairs) if can_tell and n_pairs else None,
        ),
        seconds=dict(sorted(seconds.items())),
    )


def _reordered(name: str, evalset: Evalset, candidates: Run, scores: NDArray[np.float64]) -> Run:
    run = reorder(candidates, scores, name=name)
    if (changed := differing(candidates, run)).size:  # checked, not assumed
        raise EmbedAbError(
            f"{name} changed the candidates of query '{evalset.query_ids[changed[0]]}'",
            hint="This is a bug: a reranker only orders them. Please report it.",
        )
    return run


def _check(
    name: str,
    evalset: Evalset,
    query: int,
    documents: Sequence[int],
    texts: Sequence[str],
    scores: NDArray[np.float64],
) -> None:
    """Raise ProviderError for scores that are not one finite number for each text."""
    where = f"query '{evalset.query_ids[query]}'"
    if scores.shape != (len(texts),):
        raise ProviderError(
            f"{name}: scores of the shape {scores.shape} came back for {len(texts)} documents of "
            f"{where}"
        )
    if (bad := np.flatnonzero(~np.isfinite(scores))).size:
        of_text = {evalset.document_texts[d]: d for d in reversed(documents) if d >= 0}
        document = of_text[texts[bad[0]]]
        raise ProviderError(
            f"{name}: the score of {where} and document '{evalset.document_ids[document]}' is "
            "NaN or infinite",
            hint="Half precision may be the reason: try dtype=float32.",
        )
