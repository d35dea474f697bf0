"""Evaluation sets: documents, queries and judgements, validated, summarised and written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import EvalsetError, InputError
from embed_ab.judgements import Judgement, arrange, index_judgements
from embed_ab.readers import (
    GRADE_HINT,
    Notice,
    find_files,
    json_lines,
    parse_grade,
    qrels_rows,
)
from embed_ab.records import (
    Fault,
    Metadata,
    Table,
    Wrong,
    collect,
    first_ids,
    identifier_text,
    is_blank,
    note,
)

__all__ = [
    "Evalset",
    "Metadata",
    "NoPositive",
    "Notice",
    "Qrels",
    "from_records",
    "load",
    "normalized_text",
    "save",
]

NoPositive = Literal["error", "exclude"]

HUGE_DOCUMENT = 100_000  # characters
_DIGEST_BLOCK = 4096  # texts
_ASCII_BETWEEN = bytes(code for code in range(128) if not chr(code).isalnum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Qrels:
    """Judgements in compressed rows, one row for each query of the evaluation set.

    offsets: int64 (n_queries + 1,); the row of query q is offsets[q] to offsets[q + 1].
    documents: int32 (n_judgements,) document indices, ascending within a query.
    grades: int16 (n_judgements,) from -30 to 30; relevant = grade >= 1. Absent = unjudged, not 0.
    """

    offsets: NDArray[np.int64]
    documents: NDArray[np.int32]
    grades: NDArray[np.int16]

    def of(self, query: int) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """Document indices and grades of one query."""
        row = slice(self.offsets[query], self.offsets[query + 1])
        return self.documents[row], self.grades[row]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evalset:
    """A validated evaluation set; queries and documents are sorted by id (by code points).

    document_texts: title and text joined with one space, stripped.
    is_empty: (n_documents,) documents without a visible character.
    is_evaluated: (n_queries,) queries with a relevant document.
    digest: SHA-256 of ids, texts and grades; the order and format of the files do not matter.
    missing_documents: ids that the qrels name and the corpus lacks (dropped, as was asked).
    """

    name: str
    query_ids: tuple[str, ...]
    query_texts: tuple[str, ...]
    document_ids: tuple[str, ...]
    document_texts: tuple[str, ...]
    qrels: Qrels
    digest: str
    query_metadata: tuple[Metadata, ...]
    document_metadata: tuple[Metadata, ...]
    notices: tuple[Notice, ...]
    is_empty: NDArray[np.bool_]
    is_evaluated: NDArray[np.bool_]
    missing_documents: tuple[str, ...] = ()


def load(
    folder: Path,
    *,
    split: str = "test",
    no_positive: NoPositive | None = None,
    allow_missing_docs: bool = False,
    min_grade: int = 1,
) -> Evalset:
    """The evaluation set in a BEIR folder: corpus.jsonl, queries.jsonl and the qrels.

    With `qrels/<split>.tsv`, queries without a row in it are not part of the set.
    no_positive: what to do when a query has no relevant document; None is "error" for a
        `qrels.tsv` and "exclude" for a split.
    allow_missing_docs: drop judgements of documents that the corpus lacks, with a notice.
    min_grade: the lowest grade that counts as relevant.
    Raises: InputError, EvalsetError with the file and line of the first fault.
    """
    files = find_files(folder, split)
    notices: list[Notice] = []
    documents = _read(files.corpus, "document", notices)
    queries = _read(files.queries, "query", notices)
    return _assemble(
        # A folder's name need not be valid Unicode; the record of the comparison must be.
        folder.resolve().name.encode("utf-8", "replace").decode(),
        documents,
        queries,
        qrels_rows(files.qrels, queries.index, documents.index, notices),
        wrong=partial(EvalsetError, path=files.qrels),
        is_split=files.is_split,
        no_positive=no_positive or ("exclude" if files.is_split else "error"),
        allow_missing_docs=allow_missing_docs,
        min_grade=min_grade,
        notices=notices,
    )


def from_records(
    documents: Mapping[Any, str | Mapping[str, Any]],
    queries: Mapping[Any, str | Mapping[str, Any]],
    qrels: Mapping[Any, Mapping[Any, float]],
    *,
    name: str = "records",
    no_positive: NoPositive = "error",
    allow_missing_docs: bool = False,
    min_grade: int = 1,
) -> Evalset:
    """The evaluation set of three dictionaries, with the same rules as the files.

    documents, queries: id to text, or id to {"text": …, "title": …, any metadata}.
    qrels: query id to {document id: grade}.
    Raises: InputError for the first fault.
    """
    notices: list[Notice] = []
    return _assemble(
        name,
        collect(
            _records(documents),
            kind="document",
            wrong=partial(_entry_error, "documents"),
            notices=notices,
        ),
        collect(
            _records(queries),
            kind="query",
            wrong=partial(_entry_error, "queries"),
            notices=notices,
        ),
        _judgements(qrels),
        wrong=partial(_entry_error, "qrels"),
        is_split=False,
        no_positive=no_positive,
        allow_missing_docs=allow_missing_docs,
        min_grade=min_grade,
        notices=notices,
    )


def save(evalset: Evalset, folder: Path) -> None:
    """Write corpus.jsonl, queries.jsonl and qrels.tsv; the folder appears whole or not at all.

    Title and text stay joined. A set with excluded queries loads again with no_positive="exclude".
    Raises: InputError if the folder exists and is not empty, or cannot be written.
    """
    folder = folder.absolute()
    documents = evalset.document_ids, evalset.document_texts, evalset.document_metadata
    queries = evalset.query_ids, evalset.query_texts, evalset.query_metadata
    partial_folder = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(
                f"{folder}: already exists", hint="Choose a new folder, or remove this one first."
            )
        partial_folder.mkdir(parents=True)
        for name, lines in (
            ("corpus.jsonl", _json_lines_of(*documents)),
            ("queries.jsonl", _json_lines_of(*queries)),
            ("qrels.tsv", _qrels_lines_of(evalset)),
        ):
            with (partial_folder / name).open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in lines)
        if folder.exists():
            folder.rmdir()  # Windows renames onto nothing only
        partial_folder.rename(folder)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror or error})",
            hint="Choose a folder that this user may write.",
        ) from error
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)


def normalized_text(text: str) -> str:
    """The letters and digits of a text after NFKC and case folding, with their marks.

    Marks stay because they are vowels in many scripts. "" for a text without letters and digits.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    if folded.isascii():  # the same as below, much faster
        return folded.encode().translate(None, _ASCII_BETWEEN).decode()
    between = (character for character in set(folded) if not _is_letter_like(character))
    return folded.translate(dict.fromkeys(map(ord, between)))


def _is_letter_like(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _read(path: Path, kind: Literal["document", "query"], notices: list[Notice]) -> Table:
    return collect(
        json_lines(path, notices),
        kind=kind,
        wrong=partial(EvalsetError, path=path),
        notices=notices,
    )


def _records(given: Mapping[Any, str | Mapping[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, (identifier, content) in enumerate(given.items(), start=1):
        fields = content if isinstance(content, Mapping) else {"text": content}
        yield number, {**fields, "_id": identifier}


def _judgements(qrels: Mapping[Any, Mapping[Any, float]]) -> Iterator[Judgement]:
    pairs = ((query, *judgement) for query, row in qrels.items() for judgement in row.items())
    for number, (query, document, given) in enumerate(pairs, start=1):
        grade = parse_grade(str(given))
        if grade is None:
            message = f"grade {given!r} is not a whole number from -30 to 30"
            raise _entry_error("qrels", message, line=number, hint=GRADE_HINT)
        try:
            ids = identifier_text(query), identifier_text(document)
        except Fault as fault:
            raise _entry_error("qrels", str(fault), line=number, hint=fault.hint) from None
        yield number, *ids, grade


def _entry_error(what: str, message: str, *, line: int | None = None, hint: str) -> InputError:
    return InputError(f"{what}{'' if line is None else f', entry {line}'}: {message}", hint=hint)


def _assemble(
    name: str,
    documents: Table,
    queries: Table,
    rows: Iterable[Judgement],
    *,
    wrong: Wrong,
    is_split: bool,
    no_positive: NoPositive,
    allow_missing_docs: bool,
    min_grade: int,
    notices: list[Notice],
) -> Evalset:
    judged = index_judgements(rows, queries, documents, wrong)
    judged.settle_missing(wrong, allow_missing_docs, notices)
    row_query, document, grade = arrange(judged, queries, documents, wrong, notices)
    kept = np.flatnonzero(judged.has_row) if is_split else np.arange(len(queries.ids))
    if n_outside := len(queries.ids) - len(kept):
        message = f"{n_outside:,} of {len(queries.ids):,} queries had no row in the split"
        note(notices, "queries_outside_split", f"{message}, so they are not part of the set")
    queries = queries.only(kept)
    _require_texts(queries)
    query = np.searchsorted(kept, row_query)
    is_relevant = grade >= min_grade
    is_evaluated = np.bincount(query[is_relevant], minlength=len(kept)) > 0
    _settle_no_positive(queries, is_evaluated, no_positive, min_grade, wrong, notices)
    if n_negative := int((grade < 0).sum()):
        message = f"{n_negative:,} of {len(grade):,} judgements had a negative grade: "
        message += "judged, not relevant, gain 0"
        note(notices, "negative_grades", message)
    is_empty = np.fromiter(map(is_blank, documents.texts), np.bool_, len(documents.texts))
    _note_documents(documents, is_empty, document[is_relevant], notices)
    offsets = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(np.bincount(query, minlength=len(kept)), out=offsets[1:])
    qrels = Qrels(offsets=offsets, documents=document, grades=grade)
    return Evalset(
        name=name,
        query_ids=tuple(queries.ids),
        query_texts=tuple(queries.texts),
        document_ids=tuple(documents.ids),
        document_texts=tuple(documents.texts),
        qrels=qrels,
        digest=_digest((queries.ids, queries.texts, documents.ids, documents.texts), qrels),
        query_metadata=tuple(queries.metadata),
        document_metadata=tuple(documents.metadata),
        notices=tuple(notices),
        is_empty=is_empty,
        is_evaluated=is_evaluated,
        missing_documents=tuple(judged.missing),
    )


def _require_texts(queries: Table) -> None:
    if blank := [query for query, text in enumerate(queries.texts) if is_blank(text)]:
        raise queries.wrong(
            f"{len(blank):,} of {len(queries.ids):,} queries had no text: "
            f"{first_ids(queries.ids[query] for query in blank)}",
            line=queries.lines[blank[0]],
            hint="Give each query a text, or remove it.",
        )


def _digest(columns: Iterable[Sequence[str]], qrels: Qrels) -> str:
    """SHA-256 in hex; each text comes with its length, so that no two sets read the same."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.array(len(column), "<i8").tobytes())
        for start in range(0, len(column), _DIGEST_BLOCK):
            encoded = [text.encode() for text in column[start : start + _DIGEST_BLOCK]]
            digest.update(np.array([len(text) for text in encoded], "<i8").tobytes())
            digest.update(b"".join(encoded))
    for numbers in (qrels.offsets, qrels.documents, qrels.grades):
        digest.update(numbers.astype("<i8").tobytes())
    return digest.hexdigest()


def _settle_no_positive(
    queries: Table,
    is_evaluated: NDArray[np.bool_],
    no_positive: NoPositive,
    min_grade: int,
    wrong: Wrong,
    notices: list[Notice],
) -> None:
    excluded = [queries.ids[query] for query in np.flatnonzero(~is_evaluated)]
    if len(excluded) == len(queries.ids):
        raise wrong(
            f"no query has a relevant document (grade {min_grade} or more)", hint=GRADE_HINT
        )
    if not excluded:
        return
    message = f"{len(excluded):,} of {len(queries.ids):,} queries had no relevant document"
    if no_positive == "error":
        raise wrong(
            f"{message} (grade {min_grade} or more): {first_ids(excluded)}",
            hint="Judge them, remove them, or leave them out with --no-positive exclude.",
        )
    note(notices, "excluded_queries", f"{message}, left out of the means", excluded)


def _note_documents(
    documents: Table,
    is_empty: NDArray[np.bool_],
    relevant: NDArray[np.int32],
    notices: list[Notice],
) -> None:
    if empty := [documents.ids[position] for position in np.flatnonzero(is_empty)]:
        message = f"{len(empty):,} of {len(documents.ids):,} documents had no text, never retrieved"
        if n_relevant := int(is_empty[np.unique(relevant)].sum()):
            message += f" ({n_relevant:,} of them relevant to a query, which lowers its recall)"
        note(notices, "empty_documents", message, empty)
    huge = [
        identifier
        for identifier, text in zip(documents.ids, documents.texts, strict=True)
        if len(text) > HUGE_DOCUMENT
    ]
    if huge:
        message = f"{len(huge):,} of {len(documents.ids):,} documents had more than "
        message += f"{HUGE_DOCUMENT:,} characters"
        note(notices, "huge_document", message, huge)


def _json_lines_of(
    ids: Sequence[str], texts: Sequence[str], metadata: Sequence[Metadata]
) -> Iterator[str]:
    for identifier, text, fields in zip(ids, texts, metadata, strict=True):
        record = {"_id": identifier, "text": text} | ({"metadata": fields} if fields else {})
        yield json.dumps(record, ensure_ascii=False)


def _qrels_lines_of(evalset: Evalset) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore"
    for query, identifier in enumerate(evalset.query_ids):
        for document, grade in zip(*evalset.qrels.of(query), strict=True):
            yield f"{identifier}\t{evalset.document_ids[document]}\t{grade}"
