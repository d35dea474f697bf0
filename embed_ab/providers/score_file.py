"""A reranker's scores from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embed_ab import scored_rows
from embed_ab.errors import EvalsetError
from embed_ab.formats import shorten
from embed_ab.runs import Run

_ALL_HINT = (
    "Score every candidate of every query, or lower --depth. `embed-ab compare --runs DIR` writes "
    "the candidates of a first stage."
)


@dataclass(frozen=True, kw_only=True)
class ScoreFile:
    """The scores of a file, by query row and document index."""

    path: Path
    digest: str
    by_query: tuple[dict[int, float], ...]

    def check_queries(self, query_ids: Sequence[str]) -> None:
        """Raise InputError for a query without any score, before its candidates are known."""
        if missing := [q for q, known in zip(query_ids, self.by_query, strict=True) if not known]:
            raise EvalsetError(
                f"no score for query '{_short(missing[0])}' ({len(missing):,} of "
                f"{len(query_ids):,} queries have none)",
                path=self.path,
                hint=_ALL_HINT,
            )

    def of(
        self, candidates: Run, query_ids: Sequence[str], document_ids: Sequence[str]
    ) -> NDArray[np.float64]:
        """Return the score of every candidate at its place, NaN where there is no candidate.

        Scores of documents that are no candidates are left aside.
        Raises: InputError for a candidate without a score.
        """
        scores = np.full(candidates.documents.shape, np.nan)
        for query, ranked in enumerate(candidates.documents.tolist()):
            known = self.by_query[query]
            for place, document in enumerate(ranked):
                if document < 0:
                    continue
                if document not in known:
                    n = sum(d >= 0 and d not in known for d in ranked)
                    raise EvalsetError(
                        f"no score for query '{_short(query_ids[query])}' and its candidate "
                        f"'{_short(document_ids[document])}' ({n:,} of this query's candidates "
                        "have none)",
                        path=self.path,
                        hint=_ALL_HINT,
                    )
                scores[query, place] = known[document]
        return scores


def read(path: Path, query_ids: Sequence[str], document_ids: Sequence[str]) -> ScoreFile:
    """Read a file of scores in any format of `scored_rows`.

    Raises: EvalsetError that names the line, as `scored_rows.read`, and for a query or document
        that the set lacks or a pair given twice.
    """
    row_of = {query: row for row, query in enumerate(query_ids)}
    index_of = {document: index for index, document in enumerate(document_ids)}
    by_query: tuple[dict[int, float], ...] = tuple({} for _ in query_ids)
    digest = hashlib.sha256()
    for number, query, document, score, _ in scored_rows.read(path, may_be_tabs=True):
        wrong = partial(EvalsetError, path=path, line=number)
        pair = scored_rows.pair(query, document)
        if query not in row_of:
            raise wrong(
                f"{pair}: the evaluation set has no such query",
                hint="Remove the rows of queries that are not in the set; with qrels/SPLIT.tsv "
                "only those of the split are.",
            )
        if document not in index_of:
            raise wrong(
                f"{pair}: the evaluation set has no such document",
                hint="Take scores made from this evaluation set.",
            )
        known = by_query[row_of[query]]
        if index_of[document] in known:
            raise wrong(
                f"{pair}: there is a score for them already",
                hint="A pair has one score: remove one of the rows.",
            )
        known[index_of[document]] = score
        digest.update(f"{query}\t{document}\t{score!r}\n".encode())
    return ScoreFile(path=path, digest=digest.hexdigest(), by_query=by_query)


def _short(text: str) -> str:
    return shorten(text, 100)
