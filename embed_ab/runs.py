"""Runs: what one system ranks for every query; TREC run files in and out."""

from __future__ import annotations

import gzip
import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embed_ab import scored_rows
from embed_ab.errors import EvalsetError, InputError


@dataclass(frozen=True, kw_only=True)
class Run:
    """The documents one system ranks for every query, best first.

    documents: (n_queries, depth) document indices, -1 where nothing.
    scores: (n_queries, depth), -inf where nothing.
    """

    name: str
    documents: NDArray[np.int32]
    scores: NDArray[np.float64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many documents each query has; (n_queries,)."""
        lengths: NDArray[np.int64] = np.count_nonzero(self.documents >= 0, axis=1)
        return lengths

    def cut(self, depth: int) -> Run:
        """Return the run with its first `depth` ranks."""
        return replace(self, documents=self.documents[:, :depth], scores=self.scores[:, :depth])


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
    largest = np.finfo(np.float32).max
    with np.errstate(over="ignore"):
        lowered = scores.astype(np.float32)
    lowered[scores > largest] = largest
    for rank in range(1, lowered.shape[1]):
        below = np.nextafter(lowered[:, rank - 1], np.float32(-np.inf))
        lowered[:, rank] = np.minimum(lowered[:, rank], below)
    # Of numbers below what float32 holds nothing is left but their order.
    is_too_low = (np.isneginf(lowered) & ~np.isneginf(scores)).any(axis=1)
    ranks = np.arange(lowered.shape[1], 0, -1, dtype=np.float32)
    lowered[is_too_low] = np.where(np.isneginf(scores[is_too_low]), -np.inf, ranks)
    return lowered


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """A run that came in a file, and what of the file is not in it.

    n_lines: hits in the file.
    n_duplicates: hits of a document that the query has already; the first one counts.
    n_unknown_documents: hits of documents that the set lacks; they take no rank.
    n_unknown_queries: hits for queries that the set lacks.
    n_missing_queries: queries of the set without any hit that counts.
    """

    run: Run
    n_lines: int
    n_duplicates: int
    n_unknown_documents: int
    n_unknown_queries: int
    n_missing_queries: int


@dataclass(frozen=True, kw_only=True)
class _Hits:
    """The hits of a file on queries and documents of the set, in its order; (n_hits,) each."""

    name: str
    n_lines: int
    n_unknown_documents: int
    n_unknown_queries: int
    queries: NDArray[np.int64]
    documents: NDArray[np.int64]
    scores: NDArray[np.float64]
    lines: NDArray[np.int64]


def read_trec(path: Path, query_ids: Sequence[str], document_ids: Sequence[str]) -> Run:
    """Read a TREC run file that was made from this set; its name is the tag of its first line.

    Raises: EvalsetError as `read`, and for an unknown id or a document given twice for a query.
    """
    return read(path, query_ids, document_ids, is_strict=True).run


def read(
    path: Path,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    *,
    depth: int | None = None,
    is_strict: bool = False,
) -> RunFile:
    """Read a run file: TREC, or the JSON lines of `scored_rows`.

    As every TREC tool does, this goes by the scores and ignores ranks and the order of lines;
    documents of one score are ordered by ascending index, where trec_eval orders them by descending
    id, and scores are told apart in float64, where trec_eval holds float32.

    depth: documents to keep of each query; None for all.
    is_strict: unknown ids and duplicates are errors.
    Raises: EvalsetError that names the line, as `scored_rows.read`.
    """
    hits = _hits(path, query_ids, document_ids, is_strict)
    # Sorted by query and document, in the order of lines: the first hit of each pair counts.
    order = np.lexsort((hits.documents, hits.queries))
    queries, documents = hits.queries[order], hits.documents[order]
    is_repeated = np.zeros(order.size, dtype=bool)
    is_repeated[1:] = (queries[1:] == queries[:-1]) & (documents[1:] == documents[:-1])
    repeated = order[is_repeated]
    if is_strict and repeated.size:
        hit = int(repeated[np.argmin(hits.lines[repeated])])
        raise EvalsetError(
            f"document '{document_ids[hits.documents[hit]]}' is there a second time for query "
            f"'{query_ids[hits.queries[hit]]}'",
            path=path,
            line=int(hits.lines[hit]),
            hint="A run ranks each document once for a query: remove one of the lines.",
        )
    kept = order[~is_repeated]
    queries, documents, scores = hits.queries[kept], hits.documents[kept], hits.scores[kept]
    run, counts = ranked(
        queries, documents, scores, n_queries=len(query_ids), depth=depth, name=hits.name
    )
    return RunFile(
        run=run,
        n_lines=hits.n_lines,
        n_duplicates=int(repeated.size),
        n_unknown_documents=hits.n_unknown_documents,
        n_unknown_queries=hits.n_unknown_queries,
        n_missing_queries=int(np.count_nonzero(counts == 0)),
    )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex, as it lies there."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def ranked(
    queries: NDArray[np.int64],
    documents: NDArray[np.int64],
    scores: NDArray[np.float64],
    *,
    n_queries: int,
    depth: int | None,
    name: str,
) -> tuple[Run, NDArray[np.int64]]:
    """Return the run of scored pairs, and how many documents each query had, (n_queries,).

    queries, documents, scores: (n_pairs,) each; no pair twice.
    depth: ranks of the run; None for as many as the longest list has.
    """
    counts = np.bincount(queries, minlength=n_queries)
    width = int(counts.max(initial=0)) if depth is None else depth
    order = np.lexsort((documents, -scores, queries))
    ranks = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    order, ranks = order[ranks < width], ranks[ranks < width]
    found = np.full((n_queries, width), -1, dtype=np.int32)
    found_scores = np.full((n_queries, width), -np.inf)
    found[queries[order], ranks] = documents[order]
    found_scores[queries[order], ranks] = scores[order]
    return Run(name=name, documents=found, scores=found_scores), counts


def _hits(
    path: Path,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    is_strict: bool,
) -> _Hits:
    row_of = {query: row for row, query in enumerate(query_ids)}
    index_of = {document: index for index, document in enumerate(document_ids)}
    # 32 bytes a hit: lists of numbers would take four times as much.
    queries, documents, lines, scores = array("q"), array("q"), array("q"), array("d")
    name = ""
    n_lines = n_unknown_documents = n_unknown_queries = 0
    for number, query, document, score, tag in scored_rows.read(path, may_be_tabs=False):
        name = name or tag
        n_lines += 1
        row, index = row_of.get(query), index_of.get(document)
        if is_strict and (row is None or index is None):
            what = f"query '{query}'" if row is None else f"document '{document}'"
            raise EvalsetError(
                f"the evaluation set has no {what}",
                path=path,
                line=number,
                hint="Take a run made from this evaluation set, or remove its lines.",
            )
        if row is None:
            n_unknown_queries += 1
        elif index is None:
            n_unknown_documents += 1
        else:
            queries.append(row)
            documents.append(index)
            scores.append(score)
            lines.append(number)
    return _Hits(
        name=name,
        n_lines=n_lines,
        n_unknown_documents=n_unknown_documents,
        n_unknown_queries=n_unknown_queries,
        queries=np.array(queries, dtype=np.int64),
        documents=np.array(documents, dtype=np.int64),
        scores=np.array(scores, dtype=np.float64),
        lines=np.array(lines, dtype=np.int64),
    )
