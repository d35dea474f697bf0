"""What an evaluation set holds, without any model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embed_ab.evalset import Evalset, Metadata, normalized_text
from embed_ab.metrics import count_relevant
from embed_ab.readers import Notice
from embed_ab.records import is_blank


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Text lengths in characters."""

    minimum: int
    median: float
    p95: float
    maximum: int


@dataclass(frozen=True, kw_only=True)
class Check:
    """What an evaluation set holds; groups are tuples of ids, metadata counts are per field.

    grades: grade to number of judgements. relevant_per_query: number of relevant documents to
    number of queries, excluded ones under 0; the median is over the evaluated queries.
    near_duplicates: documents that are the same in letters and digits only, exact ones included.
    """

    name: str
    digest: str
    n_documents: int
    n_queries: int
    n_evaluated: int
    n_judgements: int
    n_unjudged_documents: int
    grades: dict[int, int]
    relevant_per_query: dict[int, int]
    median_relevant: float
    duplicate_documents: tuple[tuple[str, ...], ...]
    near_duplicates: tuple[tuple[str, ...], ...]
    duplicate_queries: tuple[tuple[str, ...], ...]
    missing_documents: tuple[str, ...]
    empty_documents: tuple[str, ...]
    document_lengths: Lengths
    query_lengths: Lengths
    document_metadata: dict[str, int]
    query_metadata: dict[str, int]
    notices: tuple[Notice, ...]


def check(evalset: Evalset, *, min_grade: int = 1) -> Check:
    """A summary of an evaluation set, without any model; relevant is `min_grade` or more."""
    qrels, texts = evalset.qrels, evalset.document_texts
    n_relevant = count_relevant(qrels, min_grade)
    return Check(
        name=evalset.name,
        digest=evalset.digest,
        n_documents=len(evalset.document_ids),
        n_queries=len(evalset.query_ids),
        n_evaluated=int(np.count_nonzero(n_relevant)),
        n_judgements=len(qrels.grades),
        n_unjudged_documents=len(evalset.document_ids) - len(np.unique(qrels.documents)),
        grades=_histogram(qrels.grades),
        relevant_per_query=_histogram(n_relevant),
        median_relevant=float(np.median(n_relevant[n_relevant > 0])),
        duplicate_documents=_groups(evalset.document_ids, texts),
        near_duplicates=_groups(evalset.document_ids, map(normalized_text, texts)),
        duplicate_queries=_groups(evalset.query_ids, evalset.query_texts),
        missing_documents=evalset.missing_documents,
        empty_documents=tuple(
            evalset.document_ids[document] for document in np.flatnonzero(evalset.is_empty)
        ),
        document_lengths=_lengths(texts),
        query_lengths=_lengths(evalset.query_texts),
        document_metadata=_fields(evalset.document_metadata),
        query_metadata=_fields(evalset.query_metadata),
        notices=evalset.notices,
    )


def _histogram(numbers: NDArray[np.integer[Any]]) -> dict[int, int]:
    values, counts = np.unique(numbers, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _groups(ids: Sequence[str], texts: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    groups: dict[str, list[str]] = {}
    for identifier, text in zip(ids, texts, strict=True):
        if not is_blank(text):
            groups.setdefault(text, []).append(identifier)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _lengths(texts: Sequence[str]) -> Lengths:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return Lengths(
        minimum=int(lengths.min()),
        median=float(np.median(lengths)),
        p95=float(np.percentile(lengths, 95)),
        maximum=int(lengths.max()),
    )


def _fields(metadata: Iterable[Metadata]) -> dict[str, int]:
    return dict(sorted(Counter(field for fields in metadata for field in fields).items()))
