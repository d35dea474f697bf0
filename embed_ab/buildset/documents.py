"""Reads a folder of files: which of them are texts, and which are left out and why."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from embed_ab.buildset.html_text import visible_text
from embed_ab.errors import EvalsetError, InputError
from embed_ab.readers import Notice, json_lines

Kind = Literal["markdown", "text", "html", "jsonl"]

KINDS: dict[str, Kind] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".rst": "text",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}
# Files that a user may think are in the set.
_TO_CONVERT = frozenset({".pdf", ".doc", ".docx", ".odt", ".rtf", ".ppt", ".pptx", ".epub"})
MAX_BYTES = 10_000_000
MAX_JSONL_BYTES = 200_000_000
MAX_DEPTH = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
# Controls, line ends, and what turns the direction of the text around it. Not isprintable(), which
# knows no ideographic space and no joiner of an emoji.
_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_FORMATS = "Files of .md, .txt, .rst, .html and .jsonl are read, in UTF-8."


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text to split, a file or a record of one, and where it came from.

    source: path below the folder with `/`; of a record in a .jsonl file, path:line.
    starts, ends: for each character of the text, where it stands in the file; None where the text
        is the file (of a record: its "text"), without a byte order mark.
    """

    source: str
    text: str
    kind: Kind
    title: str = ""
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None

    @property
    def file(self) -> str:
        """Path of the file below the folder."""
        return self.source.rpartition(":")[0] if self.kind == "jsonl" else self.source

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where characters start to end of the text stand in the file."""
        if self.starts is None or self.ends is None or start == end:
            return start, end
        return self.starts[start], self.ends[end - 1]


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A file that was left out; `reason` reads after its name and a colon."""

    source: str
    reason: str


def read(place: Path, *, without: Path) -> tuple[list[Document], list[Skipped]]:
    """Return the texts of a file or a folder, in order of their paths, and what was left out.

    Names that start with a dot, symbolic links, evaluation sets and `without` are not entered.
    Of files of other kinds only those such as .pdf are mentioned.
    Raises: InputError where no text is left.
    """
    documents: list[Document] = []
    skipped: list[Skipped] = []
    try:
        is_folder = stat.S_ISDIR(place.stat().st_mode)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{place}: {problem}", hint=f"Name a folder. {_FORMATS}") from None
    if is_folder:
        files = sorted(_files(place, without.resolve(), skipped))
    else:
        files = [(place.name, place)]
    for source, path in files:
        kind = KINDS.get(path.suffix.lower())
        if kind is None and is_folder and path.suffix.lower() not in _TO_CONVERT:
            continue
        try:
            if kind is None:
                raise _Unusable("not a kind of file that is read; convert it to text")
            documents += _documents(source, path, kind, may_be_link=not is_folder)
        except (_Unusable, EvalsetError) as error:
            reason = str(error).removeprefix(str(path)).lstrip(":").strip()
            skipped.append(Skipped(source=source, reason=reason))
        except OSError as error:
            skipped.append(Skipped(source=source, reason=error.strerror or "cannot be read"))
    # A name that is not UTF-8 could not be written into the record.
    skipped = [
        replace(item, source=item.source.encode("utf-8", "replace").decode()) for item in skipped
    ]
    skipped.sort(key=lambda item: item.source)
    if not documents:
        found = "; ".join(f"{item.source}: {item.reason}" for item in skipped[:5])
        raise InputError(f"{place}: no text to read{f' ({found})' if found else ''}", hint=_FORMATS)
    return documents, skipped


class _Unusable(Exception):
    """Why a file is left out."""


def _files(folder: Path, without: Path, skipped: list[Skipped]) -> Iterator[tuple[str, Path]]:
    def unreadable(error: OSError) -> None:
        source = Path(error.filename).relative_to(folder).as_posix()
        skipped.append(Skipped(source=source, reason=error.strerror or "cannot be read"))

    for parent, folders, names in os.walk(folder, onerror=unreadable, followlinks=False):
        here = Path(parent)
        if len(here.relative_to(folder).parts) > MAX_DEPTH:
            # The system takes no longer path, and os.walk goes down by recursion.
            source = "/".join(here.relative_to(folder).parts[:3]) + "/…"
            skipped.append(Skipped(source=source, reason=f"over {MAX_DEPTH} folders deep"))
            folders.clear()
            continue
        if here.resolve() == without:
            folders.clear()
            continue
        if {"corpus.jsonl", "queries.jsonl"} <= set(names):
            source = here.relative_to(folder).as_posix()
            skipped.append(Skipped(source=source, reason="an evaluation set"))
            folders.clear()
            continue
        for name in folders:
            if (here / name).is_symlink():
                source = (here / name).relative_to(folder).as_posix()
                skipped.append(Skipped(source=source, reason="a symbolic link"))
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield (here / name).relative_to(folder).as_posix(), here / name


def _documents(source: str, path: Path, kind: Kind, *, may_be_link: bool) -> Iterator[Document]:
    """Yield the documents of one file. Raises: _Unusable, EvalsetError, OSError."""
    if _SURROGATE.search(source):
        raise _Unusable("its name is not UTF-8, or the locale is not: set PYTHONUTF8=1")
    if _UNSHOWN.search(source):
        raise _Unusable("its name holds characters that cannot be shown")
    found = path.stat() if may_be_link else path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _Unusable("a symbolic link")
    if not stat.S_ISREG(found.st_mode):
        raise _Unusable("not a regular file")
    limit = MAX_JSONL_BYTES if kind == "jsonl" else MAX_BYTES
    if found.st_size > limit:
        raise _Unusable(f"larger than {limit // 1_000_000} MB")
    if kind == "jsonl":
        yield from list(_records(source, path))
        return
    text = _decoded(path.read_bytes())
    if not text.strip():
        raise _Unusable("empty")
    if kind == "html":
        text, starts, ends = visible_text(text)
        if not text.strip():
            raise _Unusable("no visible text")
        yield Document(source=source, text=text, kind=kind, starts=starts, ends=ends)
    else:
        yield Document(source=source, text=text, kind=kind)


def _decoded(content: bytes) -> str:
    if b"\0" in content[:4096] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _Unusable("binary, not text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise _Unusable("UTF-16, not UTF-8; save it as UTF-8") from None
        raise _Unusable(f"byte {error.start} is not UTF-8; save it as UTF-8") from None
    if "\0" in text:
        raise _Unusable("binary, not text")
    return text


def _records(source: str, path: Path) -> Iterator[Document]:
    notices: list[Notice] = []
    n_records = 0
    for line, record in json_lines(path, notices):
        text, title = record.get("text"), record.get("title") or ""
        if not isinstance(text, str) or not isinstance(title, str):
            raise _Unusable(f'line {line} has no "text"')
        try:
            (text + title).encode()
        except UnicodeEncodeError:
            raise _Unusable(f"line {line} holds half of a surrogate pair") from None
        n_records += 1
        if text.strip():
            yield Document(source=f"{source}:{line}", text=text, kind="jsonl", title=title.strip())
    if not n_records:
        raise _Unusable("empty")
