"""Evaluation sets: documents, queries and judgements, validated, summarised and written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import EvalsetError, InputError
from embed_ab.readers import (
    GRADE_HINT,
    JSON_HINT,
    Notice,
    find_files,
    json_lines,
    parse_grade,
    qrels_rows,
)

__all__ = [
    "Check",
    "Evalset",
    "Lengths",
    "NoPositive",
    "Notice",
    "Qrels",
    "check",
    "first_with_same_text",
    "from_records",
    "load",
    "save",
]

NoPositive = Literal["error", "exclude"]
Metadata = Mapping[str, Any]

HUGE_DOCUMENT = 100_000  # characters
_DIGEST_BLOCK = 4096  # texts
_BLANK_CATEGORIES = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
_NO_METADATA: Metadata = {}


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
    is_evaluated: (n_queries,) queries with a document of grade >= 1.
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
) -> Evalset:
    """The evaluation set in a BEIR folder: corpus.jsonl, queries.jsonl and the qrels.

    With `qrels/<split>.tsv`, queries without a row in it are not part of the set.
    no_positive: what to do when a query has no relevant document; None is "error" for a
        `qrels.tsv` and "exclude" for a split.
    allow_missing_docs: drop judgements of documents that the corpus lacks, with a notice.
    Raises: InputError, EvalsetError with the file and line of the first fault.
    """
    files = find_files(folder, split)
    notices: list[Notice] = []
    documents = _collect(
        json_lines(files.corpus, notices),
        kind="document",
        wrong=partial(EvalsetError, path=files.corpus),
        notices=notices,
    )
    queries = _collect(
        json_lines(files.queries, notices),
        kind="query",
        wrong=partial(EvalsetError, path=files.queries),
        notices=notices,
    )
    rows = qrels_rows(files.qrels, queries.index, documents.index, notices)
    return _assemble(
        folder.resolve().name.encode("utf-8", "replace").decode(),
        documents,
        queries,
        rows,
        wrong_qrels=partial(EvalsetError, path=files.qrels),
        is_split=files.is_split,
        no_positive=no_positive or ("exclude" if files.is_split else "error"),
        allow_missing_docs=allow_missing_docs,
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
) -> Evalset:
    """The evaluation set of three dictionaries, with the same rules as the files.

    documents, queries: id to text, or id to {"text": …, "title": …, any metadata}.
    qrels: query id to {document id: grade}.
    Raises: InputError for the first fault.
    """
    notices: list[Notice] = []
    collected = [
        _collect(_records(given), kind=kind, wrong=partial(_entry_error, what), notices=notices)
        for given, kind, what in (
            (documents, "document", "documents"),
            (queries, "query", "queries"),
        )
    ]
    return _assemble(
        name,
        *collected,
        _judgements(qrels),
        wrong_qrels=partial(_entry_error, "qrels"),
        is_split=False,
        no_positive=no_positive,
        allow_missing_docs=allow_missing_docs,
        notices=notices,
    )


def save(evalset: Evalset, folder: Path) -> None:
    """Write corpus.jsonl, queries.jsonl and qrels.tsv; the folder appears whole or not at all.

    Title and text stay joined. A set with excluded queries loads again with no_positive="exclude".
    Raises: InputError if the folder exists and is not empty, or cannot be written.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(
            f"{folder}: already exists", hint="Choose a new folder, or remove this one first."
        )
    partial_folder = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        partial_folder.mkdir(parents=True)
        for name, lines in (
            ("corpus.jsonl", _json_lines_of("document", evalset)),
            ("queries.jsonl", _json_lines_of("query", evalset)),
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


def check(evalset: Evalset) -> Check:
    """A summary of an evaluation set, without any model."""
    qrels = evalset.qrels
    rows = np.repeat(np.arange(len(evalset.query_ids)), np.diff(qrels.offsets))
    n_relevant = np.bincount(rows[qrels.grades >= 1], minlength=len(evalset.query_ids))
    documents = (evalset.document_ids, evalset.document_texts)
    return Check(
        name=evalset.name,
        digest=evalset.digest,
        n_documents=len(evalset.document_ids),
        n_queries=len(evalset.query_ids),
        n_evaluated=int(evalset.is_evaluated.sum()),
        n_judgements=len(qrels.grades),
        n_unjudged_documents=len(evalset.document_ids) - len(np.unique(qrels.documents)),
        grades=_histogram(qrels.grades),
        relevant_per_query=_histogram(n_relevant),
        median_relevant=float(np.median(n_relevant[evalset.is_evaluated])),
        duplicate_documents=_groups(*documents, loosely=False),
        near_duplicates=_groups(*documents, loosely=True),
        duplicate_queries=_groups(evalset.query_ids, evalset.query_texts, loosely=False),
        missing_documents=evalset.missing_documents,
        empty_documents=tuple(np.array(evalset.document_ids, object)[evalset.is_empty]),
        document_lengths=_lengths(evalset.document_texts),
        query_lengths=_lengths(evalset.query_texts),
        document_metadata=_fields(evalset.document_metadata),
        query_metadata=_fields(evalset.query_metadata),
        notices=evalset.notices,
    )


def first_with_same_text(texts: Sequence[str], *, loosely: bool = False) -> NDArray[np.int64]:
    """For each text the index of the first one that is the same; (n_texts,).

    loosely: compare letters, digits and their marks only, after NFKC and case folding. Texts
    without any are the same as no other, nor are blank ones in the exact comparison.
    """
    first: dict[str, int] = {}
    keys = (text.translate(_LETTERS) for text in map(_folded, texts)) if loosely else texts
    return np.fromiter(
        (
            number if _is_blank(key) else first.setdefault(key, number)
            for number, key in enumerate(keys)
        ),
        np.int64,
        len(texts),
    )


class _Fault(Exception):
    """What is wrong with a record; the caller adds the place."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Documents or queries sorted by id; `lines` says where each was read."""

    ids: list[str]
    texts: list[str]
    metadata: list[Metadata]
    lines: list[int]
    index: dict[str, int]


def _collect(
    records: Iterable[tuple[int, dict[str, Any]]],
    *,
    kind: Literal["document", "query"],
    wrong: Callable[..., InputError],
    notices: list[Notice],
) -> _Table:
    index: dict[str, int] = {}
    texts: list[str] = []
    metadata: list[Metadata] = []
    lines = array("q")
    repeated: list[str] = []
    for line, record in records:
        try:
            identifier, text, extra = _parse(record, kind)
        except _Fault as fault:
            raise wrong(str(fault), line=line, hint=fault.hint) from None
        known = index.setdefault(identifier, len(texts))
        if known == len(texts):
            texts.append(text)
            metadata.append(extra)
            lines.append(line)
        elif (texts[known], metadata[known]) == (text, extra):
            repeated.append(identifier)
        else:
            raise wrong(
                f"{kind} {identifier!r} was already given in line {lines[known]} and differs",
                line=line,
                hint="Each _id stands for one text: rename or remove one of the two.",
            )
    if not texts:
        raise wrong(f"holds no {kind}", hint=JSON_HINT)
    plural = {"document": "documents", "query": "queries"}[kind]
    if repeated:
        message = f"{len(repeated)} repeated {plural} with equal content were kept once"
        _note(notices, f"repeated_{plural}", message, repeated)
    ids = list(index)
    if spaced := [identifier for identifier in ids if len(identifier.split()) > 1]:
        message = f"{len(spaced)} ids of {plural} contain white space, which TREC files cannot hold"
        _note(notices, "white_space_in_ids", message, spaced)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    ids = [ids[position] for position in order]
    return _Table(
        ids=ids,
        texts=[texts[position] for position in order],
        metadata=[metadata[position] for position in order],
        lines=[lines[position] for position in order],
        index={identifier: position for position, identifier in enumerate(ids)},
    )


def _parse(
    record: dict[str, Any], kind: Literal["document", "query"]
) -> tuple[str, str, Metadata]:
    for key in ("_id", "text"):
        if key not in record:
            raise _Fault(f'no "{key}" in a record with the keys {list(record)[:10]}', JSON_HINT)
    identifier = _identifier(record.pop("_id"))
    text = _text(record.pop("text"), "text")
    if kind == "document":
        text = f"{_text(record.pop('title', None), 'title')} {text}".strip()
    return identifier, text, _metadata(record) if record else _NO_METADATA


def _identifier(value: object) -> str:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        problem = f"the id {value!r} is neither a string nor a whole number"
        raise _Fault(problem, 'Put ids in quotes: "_id": "d1".')
    hint = "An id holds at least one character, no control characters, no blanks at its ends."
    if not value or value != value.strip():
        problem = f"the id {value!r} starts or ends with white space" if value else "the id is empty"
        raise _Fault(problem, hint)
    if _CONTROL.search(value):
        raise _Fault(f"the id {value!r} holds a control character", hint)
    _encodable(value, "id")
    return str(value)


def _text(value: object, key: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Fault(
            f'"{key}" is {_short(value)}, not a string', f'Put it in quotes: "{key}": "…".'
        )
    _encodable(value, key)
    return value


def _metadata(record: dict[str, Any]) -> Metadata:
    """All fields beyond the known ones; those of BEIR's `metadata` object stand beside them."""
    nested = record.get("metadata")
    if isinstance(nested, dict):
        del record["metadata"]
        if both := nested.keys() & record.keys():
            raise _Fault(
                f'{sorted(both)} stand both in "metadata" and beside it',
                "Give each field in one of the two places.",
            )
        record |= nested
    try:
        written = json.dumps(record, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"its metadata cannot be written as JSON: {error}"
        raise _Fault(problem, "Metadata are strings, numbers, lists and objects.") from None
    _encodable(written, "metadata")
    return record


def _encodable(text: str, what: str) -> None:
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        half = ascii(text[error.start])
        hint = "It was cut inside a character; write the file again from its source."
        raise _Fault(f"{what} holds half of a surrogate pair, {half}", hint) from None


def _records(given: Mapping[Any, str | Mapping[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, (identifier, content) in enumerate(given.items(), start=1):
        fields = content if isinstance(content, Mapping) else {"text": content}
        yield number, {**fields, "_id": identifier}


def _judgements(
    qrels: Mapping[Any, Mapping[Any, float]],
) -> Iterator[tuple[int, str, str, int]]:
    number = 0
    for query, row in qrels.items():
        for document, given in row.items():
            number += 1
            grade = parse_grade(str(given))
            try:
                if grade is None:
                    raise _Fault(f"grade {given!r} is not a whole number up to 30", GRADE_HINT)
                yield number, _identifier(query), _identifier(document), grade
            except _Fault as fault:
                raise _entry_error("qrels", str(fault), line=number, hint=fault.hint) from None


def _entry_error(what: str, message: str, *, line: int | None = None, hint: str) -> InputError:
    return InputError(f"{what}{'' if line is None else f', entry {line}'}: {message}", hint=hint)


def _assemble(
    name: str,
    documents: _Table,
    queries: _Table,
    rows: Iterable[tuple[int, str, str, int]],
    *,
    wrong_qrels: Callable[..., InputError],
    wrong_queries: Callable[..., InputError],
    is_split: bool,
    no_positive: NoPositive,
    allow_missing_docs: bool,
    notices: list[Notice],
) -> Evalset:
    judged = _judge(rows, queries, documents, wrong_qrels)
    missing = _settle_missing(judged, wrong_qrels, allow_missing_docs, notices)
    row_query, document, grade = _collapse(judged, queries, documents, wrong_qrels, notices)
    n_read = len(queries.ids)
    if is_split:
        kept = np.flatnonzero(np.frombuffer(judged.has_row, np.bool_))
    else:
        kept = np.arange(n_read)
    if len(kept) < n_read:
        message = f"{n_read - len(kept)} of {n_read} queries have no row in the split's qrels"
        _note(notices, "queries_outside_split", f"{message} and are not part of the set")
    query = np.searchsorted(kept, row_query)  # every row's query is kept
    query_ids = [queries.ids[position] for position in kept]
    query_texts = [queries.texts[position] for position in kept]
    if blank := [position for position in kept if _is_blank(queries.texts[position])]:
        raise wrong_queries(
            f"{len(blank)} queries have no text: {_first(queries.ids[q] for q in blank)}",
            line=queries.lines[blank[0]],
            hint="Give each query a text, or remove it.",
        )
    is_evaluated = np.bincount(query[grade >= 1], minlength=len(kept)) > 0
    _settle_no_positive(query_ids, is_evaluated, no_positive, wrong_qrels, notices)
    is_empty = np.fromiter(map(_is_blank, documents.texts), np.bool_, len(documents.texts))
    _note_documents(documents, is_empty, notices)
    if n_negative := int((grade < 0).sum()):
        message = f"{n_negative} judgements are negative: judged, not relevant, gain 0"
        _note(notices, "negative_grades", message)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(query, minlength=len(kept)))))
    qrels = Qrels(offsets=offsets.astype(np.int64), documents=document, grades=grade)
    return Evalset(
        name=name,
        query_ids=tuple(query_ids),
        query_texts=tuple(query_texts),
        document_ids=tuple(documents.ids),
        document_texts=tuple(documents.texts),
        qrels=qrels,
        digest=_digest((query_ids, query_texts, documents.ids, documents.texts), qrels),
        query_metadata=tuple(queries.metadata[position] for position in kept),
        document_metadata=tuple(documents.metadata),
        notices=tuple(notices),
        is_empty=is_empty,
        is_evaluated=is_evaluated,
        missing_documents=missing,
    )


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """Rows of judgements as indices; `has_row` marks queries, also those of dropped rows."""

    queries: array[int]
    documents: array[int]
    grades: array[int]
    lines: array[int]
    has_row: bytearray
    missing: dict[str, int]  # document id that the corpus lacks: line
    n_missing_rows: int


def _judge(
    rows: Iterable[tuple[int, str, str, int]],
    queries: _Table,
    documents: _Table,
    wrong: Callable[..., InputError],
) -> _Judged:
    columns = array("q"), array("q"), array("h"), array("q")
    add_query, add_document, add_grade, add_line = (column.append for column in columns)
    has_row = bytearray(len(queries.ids))
    unknown: dict[str, int] = {}
    missing: dict[str, int] = {}
    n_missing_rows = 0
    for line, query_id, document_id, grade in rows:
        query = queries.index.get(query_id)
        document = documents.index.get(document_id)
        if query is None:
            unknown.setdefault(query_id, line)
            continue
        has_row[query] = True
        if document is None:
            missing.setdefault(document_id, line)
            n_missing_rows += 1
            continue
        add_query(query)
        add_document(document)
        add_grade(grade)
        add_line(line)
    if unknown:
        raise wrong(
            f"names {len(unknown)} queries that do not exist: {_first(unknown)}",
            line=next(iter(unknown.values())),
            hint="Ids must be written as in the queries, character by character.",
        )
    if not any(has_row):
        raise wrong("holds no judgement", hint=COLUMNS_HINT)
    return _Judged(
        queries=columns[0],
        documents=columns[1],
        grades=columns[2],
        lines=columns[3],
        has_row=has_row,
        missing=missing,
        n_missing_rows=n_missing_rows,
    )


def _settle_missing(
    judged: _Judged, wrong: Callable[..., InputError], is_allowed: bool, notices: list[Notice]
) -> tuple[str, ...]:
    missing = judged.missing
    if not missing:
        return ()
    n_named = len(missing) + len(set(judged.documents))
    message = f"names {len(missing)} of {n_named} documents that the corpus lacks"
    if len(missing) > n_named / 2:
        message += " (these qrels look made for a different chunking)"
    if not is_allowed:
        raise wrong(
            f"{message}: {_first(missing)}",
            line=next(iter(missing.values())),
            hint="Use the corpus that was judged, or drop these judgements with "
            "--allow-missing-docs; recall then counts only documents that exist.",
        )
    message = f"the qrels {message}: their {judged.n_missing_rows} judgements were dropped"
    _note(notices, "missing_documents", message, missing)
    return tuple(missing)


def _collapse(
    judged: _Judged,
    queries: _Table,
    documents: _Table,
    wrong: Callable[..., InputError],
    notices: list[Notice],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int16]]:
    """Columns query, document, grade, sorted by query and document, each pair once."""
    query = np.array(judged.queries, np.int64)
    document = np.array(judged.documents, np.int32)
    grade = np.array(judged.grades, np.int16)
    order = np.lexsort((document, query))  # stable: equal pairs stay in the order of the file
    query, document, grade = query[order], document[order], grade[order]
    is_repeated = np.zeros(len(order), np.bool_)
    is_repeated[1:] = (query[1:] == query[:-1]) & (document[1:] == document[:-1])
    if len(conflicts := np.flatnonzero(is_repeated[1:] & (grade[1:] != grade[:-1])) + 1):
        second = min(conflicts, key=lambda row: judged.lines[order[row]])
        pair = f"({queries.ids[query[second]]!r}, {documents.ids[document[second]]!r})"
        first_line = judged.lines[order[second - 1]]
        raise wrong(
            f"the pair {pair} has grade {grade[second]}, but {grade[second - 1]} in line "
            f"{first_line}",
            line=judged.lines[order[second]],
            hint="Keep one of the two judgements.",
        )
    if n_repeated := int(is_repeated.sum()):
        message = f"{n_repeated} repeated judgements with equal grades were kept once"
        _note(notices, "repeated_judgements", message)
    return query[~is_repeated], document[~is_repeated], grade[~is_repeated]


def _settle_no_positive(
    query_ids: list[str],
    is_evaluated: NDArray[np.bool_],
    no_positive: NoPositive,
    wrong: Callable[..., InputError],
    notices: list[Notice],
) -> None:
    excluded = [query_ids[query] for query in np.flatnonzero(~is_evaluated)]
    if len(excluded) == len(query_ids):
        raise wrong("no query has a relevant document (grade 1 or more)", hint=GRADE_HINT)
    if not excluded:
        return
    message = f"{len(excluded)} of {len(query_ids)} queries have no relevant document"
    if no_positive == "error":
        raise wrong(
            f"{message} (grade 1 or more): {_first(excluded)}",
            hint="Judge them, remove them, or leave them out with --no-positive exclude.",
        )
    _note(notices, "excluded_queries", f"{message} and are left out of the means", excluded)


def _note_documents(
    documents: _Table, is_empty: NDArray[np.bool_], notices: list[Notice]
) -> None:
    if empty := [documents.ids[position] for position in np.flatnonzero(is_empty)]:
        message = f"{len(empty)} of {len(documents.ids)} documents are empty and never retrieved"
        _note(notices, "empty_documents", message, empty)
    huge = [
        identifier
        for identifier, text in zip(documents.ids, documents.texts, strict=True)
        if len(text) > HUGE_DOCUMENT
    ]
    if huge:
        message = f"{len(huge)} documents are longer than {HUGE_DOCUMENT:,} characters"
        _note(notices, "huge_document", message, huge)


def _note(notices: list[Notice], code: str, fact: str, ids: Iterable[str] = ()) -> None:
    listed = _first(ids)
    message = f"{fact[0].upper()}{fact[1:]}{': ' if listed else ''}{listed}."
    notices.append(Notice(code=code, message=message))


def _first(ids: Iterable[str]) -> str:
    """The first five ids, and whether there are more."""
    some = list(islice(ids, 6))
    return ", ".join(map(repr, some[:5])) + (", …" if len(some) > 5 else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _is_blank(text: str) -> bool:
    """Whether a text has no visible character: white space, controls and formatting only."""
    if text[:1].isalnum():  # nearly always, and quickly
        return False
    return all(unicodedata.category(character) in _BLANK_CATEGORIES for character in text)


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


def _histogram(numbers: NDArray[np.integer[Any]]) -> dict[int, int]:
    values, counts = np.unique(numbers, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _groups(
    ids: Sequence[str], texts: Sequence[str], *, loosely: bool
) -> tuple[tuple[str, ...], ...]:
    groups: dict[int, list[str]] = {}
    for number, first in enumerate(first_with_same_text(texts, loosely=loosely).tolist()):
        groups.setdefault(first, []).append(ids[number])
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
