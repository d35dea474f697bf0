"""A reranker's scores from a file: rows of query, document and score, or JSON objects of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import EvalsetError
from embed_ab.formats import shorten
from embed_ab.readers import json_lines, text_lines
from embed_ab.records import Fault, identifier_text
from embed_ab.runs import Run

_HINT = (
    "A row is query id, document id and score with tabs between them; in a .jsonl file, "
    '{"query": "q1", "document": "d1", "score": 0.5}.'
)
_FIELDS = ("query", "document", "score")


@dataclass(frozen=True, kw_only=True)
class ScoreFile:
    """The scores of a file, by query row and document index."""

    path: Path
    digest: str
    by_query: tuple[dict[int, float], ...]

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
                        hint="Score every candidate of every query, or lower --depth. `embed-ab "
                        "compare --runs DIR` writes the candidates of a first stage.",
                    )
                scores[query, place] = known[document]
        return scores


def read(path: Path, query_ids: Sequence[str], document_ids: Sequence[str]) -> ScoreFile:
    """Read a file of scores, JSON lines by the suffix `.jsonl`, gzip by a further `.gz`.

    Raises: EvalsetError that names the line, for a query or document that the set lacks, a score
        that is no finite number, or a pair given twice.
    """
    row_of = {query: row for row, query in enumerate(query_ids)}
    index_of = {document: index for index, document in enumerate(document_ids)}
    by_query: tuple[dict[int, float], ...] = tuple({} for _ in query_ids)
    digest = hashlib.sha256()
    is_json = ".jsonl" in path.suffixes[-2:]
    for number, query, document, score in _from_json(path) if is_json else _from_table(path):
        wrong = partial(EvalsetError, path=path, line=number)
        pair = f"query '{_short(query)}', document '{_short(document)}'"
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
        if score is None or not math.isfinite(score):
            raise wrong(f"{pair}: the score is not a finite number", hint=_HINT)
        known = by_query[row_of[query]]
        if index_of[document] in known:
            raise wrong(
                f"{pair}: there is a score for them already",
                hint="A pair has one score: remove one of the rows.",
            )
        known[index_of[document]] = score
        digest.update(f"{query}\t{document}\t{score!r}\n".encode())
    if not any(by_query):
        raise EvalsetError("the file holds no scores", path=path, hint=_HINT)
    return ScoreFile(path=path, digest=digest.hexdigest(), by_query=by_query)


def _from_table(path: Path) -> Iterator[tuple[int, str, str, float | None]]:
    is_first = True
    for number, line in text_lines(path, []):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 3:
            raise EvalsetError(
                f"{len(cells)} column(s) instead of 3 with tabs", path=path, line=number, hint=_HINT
            )
        score = _number(cells[2])
        is_header = is_first and score is None and cells[2].casefold() == "score"
        is_first = False
        if not is_header:
            yield number, cells[0], cells[1], score


def _from_json(path: Path) -> Iterator[tuple[int, str, str, float | None]]:
    for number, record in json_lines(path, []):
        wrong = partial(EvalsetError, path=path, line=number, hint=_HINT)
        if missing := [name for name in _FIELDS if name not in record]:
            raise wrong(f'no "{missing[0]}" in the record')
        try:
            query, document = (identifier_text(record[name]) for name in _FIELDS[:2])
        except Fault as fault:
            raise wrong(str(fault)) from None
        yield number, query, document, _json_number(record["score"])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _json_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _short(text: str) -> str:
    return shorten(text, 100)
