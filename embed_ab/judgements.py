"""Judgements: rows of (query, document, grade) checked against the ids and put in order."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embed_ab.readers import COLUMNS_HINT, Notice, in_quotes
from embed_ab.records import Table, Wrong, first_ids, note

Judgement = tuple[int, str, str, int]
"""Line, query id, document id, grade."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Judgements as indices of queries and documents, in the order of their lines.

    has_row: (n_queries,) queries with a row, dropped ones included.
    missing: ids of documents that the corpus lacks, each with the line of its first row.
    """

    queries: NDArray[np.int64]
    documents: NDArray[np.int32]
    grades: NDArray[np.int16]
    lines: NDArray[np.int64]
    has_row: NDArray[np.bool_]
    missing: dict[str, int]
    n_missing_rows: int

    def settle_missing(self, wrong: Wrong, is_allowed: bool, notices: list[Notice]) -> None:
        """Note the rows that were dropped because the corpus lacks their document, or raise."""
        if not self.missing:
            return
        n_named = len(self.missing) + len(np.unique(self.documents))
        fact = f"{len(self.missing):,} of {n_named:,} documents in the qrels cannot be found in "
        fact += "the corpus"
        if len(self.missing) > n_named / 2:
            fact += " (these qrels look made for a different chunking)"
        if not is_allowed:
            raise wrong(
                f"{fact}: {first_ids(self.missing, in_quotes)}",
                line=next(iter(self.missing.values())),
                hint="Use the corpus that was judged, or drop these rows with "
                "--allow-missing-docs: recall then counts only documents that exist.",
            )
        fact += (
            f"; their rows were dropped ({self.n_missing_rows:,} in all), recall counts the rest: "
            f"{first_ids(self.missing, in_quotes)}"
        )
        note(notices, "missing_documents", fact)


def index_judgements(
    rows: Iterable[Judgement], queries: Table, documents: Table, wrong: Wrong
) -> Judged:
    """All judgements; those of documents that the corpus lacks are counted, not kept.

    Raises: `wrong` if there is none, or one names a query that does not exist.
    """
    columns = array("q"), array("i"), array("h"), array("q")
    add_query, add_document, add_grade, add_line = (column.append for column in columns)
    has_row = np.zeros(len(queries.ids), np.bool_)
    unknown: dict[str, int] = {}
    missing: dict[str, int] = {}
    n_missing_rows = 0
    for line, query_id, document_id, grade in rows:
        query = queries.index.get(query_id)
        document = documents.index.get(document_id)
        if query is None:
            unknown.setdefault(query_id, line)
        elif document is None:
            has_row[query] = True
            missing.setdefault(document_id, line)
            n_missing_rows += 1
        else:
            add_query(query)
            add_document(document)
            add_grade(grade)
            add_line(line)
    if unknown:
        raise wrong(
            f"the qrels name queries that do not exist ({len(unknown):,} in all): "
            f"{first_ids(unknown, in_quotes)}",
            line=next(iter(unknown.values())),
            hint="Ids must be the same as in the queries, character by character.",
        )
    if not columns[0] and not missing:
        raise wrong("holds no judgement", hint=COLUMNS_HINT)
    query_column = np.array(columns[0], np.int64)
    has_row[query_column] = True
    return Judged(
        queries=query_column,
        documents=np.array(columns[1], np.int32),
        grades=np.array(columns[2], np.int16),
        lines=np.array(columns[3], np.int64),
        has_row=has_row,
        missing=missing,
        n_missing_rows=n_missing_rows,
    )


def arrange(
    judged: Judged, queries: Table, documents: Table, wrong: Wrong, notices: list[Notice]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int16]]:
    """Columns query, document and grade, sorted by query and document, each pair once.

    Raises: `wrong` if a pair has two grades.
    """
    # The sort is stable: equal pairs stay in the order of their lines.
    order = np.lexsort((judged.documents, judged.queries))
    query, document = judged.queries[order], judged.documents[order]
    grade, line = judged.grades[order], judged.lines[order]
    is_repeated = np.zeros(len(order), np.bool_)
    is_repeated[1:] = (query[1:] == query[:-1]) & (document[1:] == document[:-1])
    is_conflict = is_repeated.copy()
    is_conflict[1:] &= grade[1:] != grade[:-1]
    if is_conflict.any():
        rows = np.flatnonzero(is_conflict)
        row = rows[np.argmin(line[rows])]
        raise wrong(
            f"query {queries.ids[query[row]]!r}, document {documents.ids[document[row]]!r}: "
            f"grade {grade[row]}, but {grade[row - 1]} in line {line[row - 1]}",
            line=int(line[row]),
            hint="Keep one of the two judgements.",
        )
    if n_repeated := int(is_repeated.sum()):
        fact = f"{n_repeated:,} of {len(order):,} judgements repeated an earlier one, counted once"
        note(notices, "repeated_judgements", fact)
    return query[~is_repeated], document[~is_repeated], grade[~is_repeated]
