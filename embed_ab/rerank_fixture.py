"""A rerank evaluation to check by hand: vectors, grades and scores in one JSON file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from embed_ab import metrics, resampling, search
from embed_ab.errors import EvalsetError
from embed_ab.evalset import Qrels
from embed_ab.formats import shorten
from embed_ab.metrics import Metric
from embed_ab.readers import LARGEST_GRADE, json_file
from embed_ab.rerank import reorder
from embed_ab.runs import Run

MAX_BYTES = 32_000_000
DECIMALS = 6
_HINT = (
    "A fixture is one object with k, corpus and queries (lists of id and vector), qrels (query to "
    "document to grade) and rerankerScores (query to document to score)."
)

Id = Annotated[str, Field(min_length=1)]
Grade = Annotated[int, Field(ge=-LARGEST_GRADE, le=LARGEST_GRADE)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Item(_Strict):
    id: Id
    vector: list[Number] = Field(min_length=1)


class _File(_Strict):
    description: str = ""
    k: int = Field(ge=1)
    corpus: list[_Item] = Field(min_length=1)
    queries: list[_Item] = Field(min_length=1)
    qrels: dict[Id, dict[Id, Grade]]
    rerankerScores: dict[Id, dict[Id, Number]]


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """A fixture that has been read; documents are sorted by id, queries as in the file.

    documents, queries: float64 (n, dimension), none of them zero.
    k: how many candidates a query has, and the cutoff of its metrics.
    scores: float64 (n_queries, n_documents) of the reranker, NaN where the file has none.
    """

    path: Path
    k: int
    document_ids: tuple[str, ...]
    documents: NDArray[np.float64]
    order_of_file: tuple[int, ...]
    query_ids: tuple[str, ...]
    queries: NDArray[np.float64]
    qrels: Qrels
    scores: NDArray[np.float64]


def read(path: Path) -> Fixture:
    """Return the fixture in a file. Raises: InputError that names the file and the place in it."""
    wrong = partial(EvalsetError, path=path, hint=_HINT)
    try:
        given = _File.model_validate(json_file(path, max_bytes=MAX_BYTES, hint=_HINT))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = shorten(_place(first["loc"]), 200)
        raise wrong(f"{place}: {shorten(first['msg'], 200)}") from None
    for part, items in (("corpus", given.corpus), ("queries", given.queries)):
        seen: set[str] = set()
        for number, item in enumerate(items):
            place = f"{part}[{number}]"
            if item.id in seen:
                raise wrong(f"{place}: the id '{_short(item.id)}' is given twice")
            seen.add(item.id)
            if len(item.vector) != len(given.corpus[0].vector):
                raise wrong(
                    f"{place} ('{_short(item.id)}') has {len(item.vector)} dimensions, corpus[0] "
                    f"has {len(given.corpus[0].vector)}"
                )
            if not any(item.vector):
                raise wrong(f"{place} ('{_short(item.id)}') is all zero and has no direction")
    documents = sorted(given.corpus, key=lambda item: item.id)
    index = {item.id: place for place, item in enumerate(documents)}
    row = {item.id: place for place, item in enumerate(given.queries)}
    for part, of in (("qrels", given.qrels), ("rerankerScores", given.rerankerScores)):
        for query, inner in of.items():
            if query not in row:
                raise wrong(f"{part}: there is no query '{_short(query)}'")
            for document in inner:
                if document not in index:
                    raise wrong(
                        f"{part}, query '{_short(query)}': there is no document "
                        f"'{_short(document)}' in the corpus"
                    )
    scores = np.full((len(row), len(index)), np.nan)
    for query, of_query in given.rerankerScores.items():
        for document, score in of_query.items():
            scores[row[query], index[document]] = score
    return Fixture(
        path=path,
        k=min(given.k, len(documents)),  # no candidate, and no grade, lies beyond
        document_ids=tuple(index),
        documents=_scaled(documents),
        order_of_file=tuple(index[item.id] for item in given.corpus),
        query_ids=tuple(row),
        queries=_scaled(given.queries),
        qrels=_qrels([given.qrels.get(query, {}) for query in row], index),
        scores=scores,
    )


def evaluate(fixture: Fixture) -> dict[str, Any]:
    """Return what a fixture gives, under the names of its expected values, to six decimals.

    Nothing is rounded before.
    Raises: InputError where a candidate has no score.
    """
    cosine = _cosines(fixture.queries, fixture.documents)
    found, cosines = (
        np.stack(part)
        for part in zip(*(search.rank_scores(row, fixture.k) for row in cosine), strict=True)
    )
    candidates = Run(name="first stage", documents=found, scores=cosines)
    scores = np.take_along_axis(fixture.scores, found, axis=1)
    for query, place in np.argwhere(np.isnan(scores)).tolist():
        raise EvalsetError(
            f"rerankerScores: query '{_short(fixture.query_ids[query])}' has no score for its "
            f"candidate '{_short(fixture.document_ids[found[query, place]])}'",
            path=fixture.path,
            hint="The reranker scores every candidate.",
        )
    reranked = reorder(candidates, scores, name="reranker")
    recall, ndcg = (Metric(name, fixture.k) for name in ("recall", "ndcg"))
    before, after = (
        metrics.evaluate([recall, ndcg], run, fixture.qrels) for run in (candidates, reranked)
    )
    ideal = metrics.dcg(metrics.ideal_grades(fixture.qrels, fixture.k), fixture.k)
    dcg_before, dcg_after = (
        metrics.dcg(metrics.grade_matrix(run.documents, fixture.qrels), fixture.k)
        for run in (candidates, reranked)
    )
    is_evaluated = metrics.count_relevant(fixture.qrels) > 0

    def mean(values: NDArray[np.float64]) -> float | None:
        kept = values[is_evaluated]
        return _rounded(resampling.mean(kept)) if kept.size else None

    def ids(row: NDArray[np.int32]) -> list[str]:
        return [fixture.document_ids[document] for document in row]

    def of_query(query: int) -> dict[str, Any]:
        judged, grades = fixture.qrels.of(query)
        values = {
            "candidateRecall": before[recall],
            "idcg": ideal,
            "baselineDcg": dcg_before,
            "challengerDcg": dcg_after,
            "baselineNdcg": before[ndcg],
            "challengerNdcg": after[ndcg],
            "ndcgDelta": after[ndcg] - before[ndcg],
        }
        return {
            "query": fixture.query_ids[query],
            "cosine": {
                fixture.document_ids[document]: _rounded(cosine[query, document])
                for document in fixture.order_of_file
            },
            "candidates": ids(candidates.documents[query]),
            "rerankedOrder": ids(reranked.documents[query]),
            "positives": ids(judged[grades > 0]),
        } | {
            name: _rounded(value[query]) if is_evaluated[query] else None
            for name, value in values.items()
        }

    return {
        "evaluatedQueries": int(is_evaluated.sum()),
        "excludedNoPositiveQueries": int((~is_evaluated).sum()),
        "candidateRecall": mean(before[recall]),
        "baselineNdcg": mean(before[ndcg]),
        "challengerNdcg": mean(after[ndcg]),
        "pairedNdcgDelta": mean(after[ndcg] - before[ndcg]),
        "perQuery": [of_query(query) for query in range(len(fixture.query_ids))],
    }


def differences_from(path: Path, found: Any) -> Iterator[str]:
    """Yield how a result differs from the JSON in a file. Raises: InputError."""
    hint = "Give what --fixture printed once, or what was computed by hand under the same names."
    return differences(found, json_file(path, max_bytes=MAX_BYTES, hint=hint))


def differences(found: Any, expected: Any, place: str = "") -> Iterator[str]:
    """Yield a sentence for each place at which two JSON values differ; 1 and 1.0 are one number."""
    at = place or "the result"
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in [*expected, *(name for name in found if name not in expected)]:
            inner = f"{place}.{name}".removeprefix(".")
            if name not in found:
                yield f"{inner}: expected, and not there"
            elif name not in expected:
                yield f"{inner}: there, and not expected"
            else:
                yield from differences(found[name], expected[name], inner)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif found != expected or isinstance(found, bool) != isinstance(expected, bool):
        yield f"{at}: {_short(repr(found))}, expected {_short(repr(expected))}"


def _scaled(items: Sequence[_Item]) -> NDArray[np.float64]:
    """The vectors with 1 as their largest element, so that no square overflows or vanishes."""
    vectors = np.array([item.vector for item in items], dtype=np.float64)
    scaled: NDArray[np.float64] = vectors / np.abs(vectors).max(axis=1, keepdims=True)
    return scaled


def _cosines(queries: NDArray[np.float64], documents: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cosines in float64, (n_queries, n_documents), as one works them out by hand.

    The inner product is divided by the product of the norms, once: unit vectors would be rounded
    before, and equal cosines come apart. Each row is summed on its own, as a matrix product is not.
    """
    lengths = np.linalg.norm(documents, axis=1)
    return np.stack(
        [(documents * query).sum(axis=1) / (lengths * np.linalg.norm(query)) for query in queries]
    )


def _qrels(rows: Sequence[Mapping[str, int]], index: Mapping[str, int]) -> Qrels:
    ordered = [sorted((index[document], grade) for document, grade in row.items()) for row in rows]
    pairs = [pair for row in ordered for pair in row]
    return Qrels(
        offsets=np.cumsum([0, *map(len, ordered)], dtype=np.int64),
        documents=np.array([document for document, _ in pairs], dtype=np.int32),
        grades=np.array([grade for _, grade in pairs], dtype=np.int16),
    )


def _rounded(value: float) -> float:
    return round(float(value), DECIMALS) + 0.0  # no -0.0


def _place(location: Sequence[int | str]) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".") or "the file"


def _short(text: str) -> str:
    return shorten(text, 100)
