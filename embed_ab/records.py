"""Documents and queries as validated tables sorted by id, from files or from memory."""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from embed_ab.errors import InputError
from embed_ab.readers import JSON_HINT, Notice, in_quotes

Kind = Literal["document", "query"]
Metadata = Mapping[str, Any]

_PLURAL = {"document": "documents", "query": "queries"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BLANK_CATEGORIES = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
_NO_METADATA: Metadata = {}


class Wrong(Protocol):
    """Makes the error for a fault; it knows the file, or the argument, that holds the line."""

    def __call__(self, message: str, *, line: int | None = None, hint: str) -> InputError:
        """The error for a fault in a line, or in the whole when there is no line."""


class Fault(Exception):
    """What is wrong with a record; the caller adds the place."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Table:
    """Documents or queries sorted by id; `lines` and `wrong` say where each was read."""

    ids: list[str]
    texts: list[str]
    metadata: list[Metadata]
    lines: list[int]
    index: dict[str, int]
    wrong: Wrong

    def only(self, positions: Iterable[int]) -> Table:
        """The rows at these positions, in their order."""
        kept = list(positions)
        ids = [self.ids[position] for position in kept]
        return Table(
            ids=ids,
            texts=[self.texts[position] for position in kept],
            metadata=[self.metadata[position] for position in kept],
            lines=[self.lines[position] for position in kept],
            index={identifier: position for position, identifier in enumerate(ids)},
            wrong=self.wrong,
        )


def collect(
    records: Iterable[tuple[int, dict[str, Any]]],
    *,
    kind: Kind,
    wrong: Wrong,
    notices: list[Notice],
) -> Table:
    """The table of numbered records with `_id`, `text`, a document's `title`, and metadata.

    Takes the known fields out of the records. A record given twice counts once, with a notice.
    Raises: `wrong` for the first invalid record, and when there is none at all.
    """
    index: dict[str, int] = {}
    texts: list[str] = []
    metadata: list[Metadata] = []
    lines = array("q")
    repeated: list[str] = []
    for line, record in records:
        try:
            identifier, text, extra = _parse(record, kind)
        except Fault as fault:
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
    plural = _PLURAL[kind]
    if repeated:
        n_read = len(texts) + len(repeated)
        message = f"{len(repeated):,} of {n_read:,} {plural} repeated an earlier one, counted once"
        note(notices, f"repeated_{plural}", message, repeated)
    ids = list(index)
    if spaced := [identifier for identifier in ids if len(identifier.split()) > 1]:
        message = f"{len(spaced):,} of {len(ids):,} {plural} had white space in their id, "
        message += "which TREC run files cannot hold"
        note(notices, "white_space_in_ids", message, spaced)
    table = Table(
        ids=ids, texts=texts, metadata=metadata, lines=lines.tolist(), index=index, wrong=wrong
    )
    return table.only(sorted(range(len(ids)), key=ids.__getitem__))


def _parse(record: dict[str, Any], kind: Kind) -> tuple[str, str, Metadata]:
    for key in ("_id", "text"):
        if key not in record:
            names = ", ".join(in_quotes(str(name)) for name in list(record)[:10])
            raise Fault(f'no "{key}" in a record with the keys {names or "(none)"}', JSON_HINT)
    identifier = identifier_text(record.pop("_id"))
    text = _text(record.pop("text"), "text")
    if kind == "document":
        text = f"{_text(record.pop('title', None), 'title')} {text}".strip()
    return identifier, text, _metadata(record) if record else _NO_METADATA


def identifier_text(value: object) -> str:
    """The id as a string, exactly as written; whole numbers of any size are accepted.

    Raises: Fault.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        problem = f"the id {_short(value)} is neither a string nor a whole number"
        raise Fault(problem, 'Put ids in quotes: "_id": "d1".')
    if not value:
        problem = "the id is empty"
    elif value != value.strip():
        problem = f"the id {_short(value)} starts or ends with white space"
    elif _CONTROL.search(value):
        problem = f"the id {_short(value)} holds a control character"
    else:
        _encodable(value, "the id")
        return str(value)
    raise Fault(problem, "An id has no white space at its ends and no control characters.")


def _text(value: object, key: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise Fault(f'"{key}" is of type {kind}, not a string', f'Put it in quotes: "{key}": "…".')
    _encodable(value, f'"{key}"')
    return str(value)


def _metadata(record: dict[str, Any]) -> Metadata:
    """All fields beyond the known ones; those of BEIR's `metadata` object stand beside them."""
    nested = record.get("metadata")
    if isinstance(nested, dict):
        del record["metadata"]
        if both := nested.keys() & record.keys():
            names = ", ".join(map(in_quotes, sorted(map(str, both))))
            raise Fault(
                f'{names} stand both in "metadata" and beside it',
                "Give each field in one of the two places.",
            )
        record |= nested
    try:
        written = json.dumps(record, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"its metadata cannot be written as JSON: {error}"
        raise Fault(problem, "Metadata are strings, numbers, lists and objects.") from None
    _encodable(written, "the metadata")
    return record


def _encodable(text: str, what: str) -> None:
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        half = ascii(text[error.start])
        hint = "It was cut inside a character; write the file again from its source."
        raise Fault(f"{what} holds half of a surrogate pair, {half}", hint) from None


def note(notices: list[Notice], code: str, fact: str, ids: Iterable[str] = ()) -> None:
    """Add the notice of a fact, as a sentence, with the first of the ids it is about."""
    listed = first_ids(ids)
    message = f"{fact[0].upper()}{fact[1:]}{': ' if listed else ''}{listed}."
    notices.append(Notice(code=code, message=message))


def first_ids(ids: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """The first five ids, and whether there are more."""
    some = list(islice(ids, 6))
    return ", ".join(map(show, some[:5])) + (", …" if len(some) > 5 else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def is_blank(text: str) -> bool:
    """Whether a text has no visible character: white space, controls and formatting only."""
    if text[:1].isalnum():  # nearly always, and quickly
        return False
    return all(unicodedata.category(character) in _BLANK_CATEGORIES for character in text)
