"""Runs: what one system ranks for every query; TREC run files in and out."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import EvalsetError, InputError
from embed_ab.readers import text_lines


@dataclass(frozen=True, kw_only=True)
class Run:
    """The documents one system ranks for every query, best first.

    documents: (n_queries, depth) document indices, -1 where nothing.
    scores: (n_queries, depth), -inf where nothing.
    """

    name: str
    documents: NDArray[np.int32]
    scores: NDArray[np.float64]


def check_ids(query_ids: Sequence[str], document_ids: Sequence[str]) -> None:
    """Raise InputError for an id that a TREC file cannot hold."""
    for what, ids in (("query", query_ids), ("document", document_ids)):
        for each in ids:
            if each.split() != [each]:
                raise InputError(
                    f"{what} id {each!r} cannot be written to a run file: it is empty or has "
                    "white space",
                    hint="A TREC run file separates its columns by blanks: rename the id, "
                    "or do without run files.",
                )


def write_trec(run: Run, query_ids: Sequence[str], document_ids: Sequence[str], path: Path) -> None:
    """Write a TREC run file; gzip by the suffix `.gz`, the same bytes for the same run.

    TREC tools ignore the rank, hold scores as float32 and order ties by descending id. So that all
    of them see our order, a score that is not below the one before it in float32 is written as the
    next lower float32; every other keeps its value.

    Raises: InputError for an id with white space, or a place that cannot be written.
    """
    check_ids(query_ids, document_ids)
    tag = "_".join(run.name.split()) or "run"
    lines = []
    for query, ranked, scores in zip(
        query_ids, run.documents, _strictly_decreasing(run.scores), strict=True
    ):
        for rank, (document, score) in enumerate(zip(ranked, scores, strict=True), start=1):
            if document >= 0:
                lines.append(f"{query} Q0 {document_ids[document]} {rank} {score:.9g} {tag}\n")
    content = "".join(lines).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise InputError(
            f"the run file {path} cannot be written: {error.strerror}",
            hint="Name a folder that can be written to.",
        ) from error


def _strictly_decreasing(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    lowered = scores.astype(np.float32)
    for rank in range(1, lowered.shape[1]):
        below = np.nextafter(lowered[:, rank - 1], np.float32(-np.inf))
        lowered[:, rank] = np.minimum(lowered[:, rank], below)
    return lowered


def read_trec(path: Path, query_ids: Sequence[str], document_ids: Sequence[str]) -> Run:
    """Read a TREC run file (gzip by the suffix `.gz`); its name is the tag of its first line.

    As every TREC tool does, this goes by the scores and ignores the ranks; documents of one score
    are ordered by ascending index.

    Raises: EvalsetError that names the line, for anything but six columns, a score that is not a
        number, an unknown id, or a document given twice for a query.
    """
    row_of = {query: row for row, query in enumerate(query_ids)}
    index_of = {document: index for index, document in enumerate(document_ids)}
    found: list[dict[int, float]] = [{} for _ in query_ids]
    name = ""
    for number, line in text_lines(path, []):
        wrong = partial(EvalsetError, path=path, line=number)
        columns = line.split()
        if len(columns) != 6:
            raise wrong(
                f"{len(columns)} columns instead of 6",
                hint="A line of a TREC run file is: query-id Q0 document-id rank score name.",
            )
        query, _, document, _, score_text, tag = columns
        name = name or tag
        if query not in row_of:
            raise wrong(
                f"the evaluation set has no query '{query}'",
                hint="Take a run made from this evaluation set, or remove the query's lines.",
            )
        if document not in index_of:
            raise wrong(
                f"the evaluation set has no document '{document}'",
                hint="Take a run made from this evaluation set.",
            )
        score = _finite(score_text)
        if score is None:
            raise wrong(
                f"score '{score_text}' is not a finite number",
                hint="The fifth column of a TREC run file is the score.",
            )
        ranked = found[row_of[query]]
        if index_of[document] in ranked:
            raise wrong(
                f"document '{document}' is there a second time for query '{query}'",
                hint="A run ranks each document once for a query: remove one of the lines.",
            )
        ranked[index_of[document]] = score
    if not name:
        raise EvalsetError(
            "the run file has no lines", path=path, hint="Was the run written to the end?"
        )
    depth = max(map(len, found))
    documents = np.full((len(found), depth), -1, dtype=np.int32)
    scores = np.full((len(found), depth), -np.inf)
    for row, ranked in enumerate(found):
        order = sorted(ranked, key=lambda index: (-ranked[index], index))
        documents[row, : len(order)] = order
        scores[row, : len(order)] = [ranked[index] for index in order]
    return Run(name=name, documents=documents, scores=scores)


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
