"""Splits documents into chunks that know where in their file they stand."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from embed_ab.buildset.documents import Document

_FENCE = re.compile(r"\s*(```|~~~)[^`\n]*")
_HASH_HEADING = re.compile(r"\s{0,3}#{1,6}(\s.*)?")
_UNDERLINE = re.compile(r"\s{0,3}([=\-~^\"'*+#.:_])\1{2,}\s*")
_FENCE_START = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_PART = 50_000  # characters that the splitter is given at once
# Where a longer text is cut, best first: headings, paragraphs, lines, sentences, words.
_BORDERS = (
    re.compile(r"\n(?=#{1,6}\s)"),
    re.compile(r"\n[ \t]*\r?\n(?=\S)"),
    re.compile(r"\n"),
    re.compile(r"[.!?…][\"')\]]*\s+|[。！？]"),
    re.compile(r"\s"),
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_UNSAFE_IN_ID = re.compile(r"[\s%]")


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a document; start and end are characters of the file `source`.

    `text` is those characters, but for HTML, where the span also holds the tags between them. Of a
    record in a .jsonl file, `source` is path:line, and they are characters of its `text`.
    """

    id: str
    source: str
    start: int
    end: int
    text: str
    title: str = ""


def split(documents: Iterable[Document], size: int) -> list[Chunk]:
    """Return the chunks of documents in their order, each at most `size` characters.

    Where that is enough for more than one section, they share a chunk; none begins within a section
    and ends in the next. A heading left alone is put before the chunk that follows it, which may
    make that one up to twice as long. Ids are `path#0000`; white space and % in the path are
    percent-encoded.
    """
    return [chunk for document in documents for chunk in _of(document, size)]


def _of(document: Document, size: int) -> Iterator[Chunk]:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    is_markdown = document.kind in ("markdown", "jsonl")
    splitter = MarkdownSplitter(size) if is_markdown else TextSplitter(size)
    name = _UNSAFE_IN_ID.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), document.source
    )
    number, waiting = 0, -1
    # MarkdownSplitter knows headings, and those of HTML stand apart by more empty lines.
    has_titles = document.kind == "text"
    sections = _sections(document.text, size) if has_titles else [(0, len(document.text))]
    pieces = [
        (begin + start, piece)
        for section in sections
        for begin, end in parts(document.text, *section)
        for start, piece in splitter.chunk_indices(document.text[begin:end])
    ]
    for place, (start, piece) in enumerate(pieces):
        begin, end = (waiting if waiting >= 0 else start), start + len(piece)
        # Headings upon headings are a text like any other, and would be looked at again and again.
        is_short = end - begin <= size and place + 1 < len(pieces)
        if is_short and _is_heading_only(document.text[begin:end]):
            waiting = begin
            continue
        waiting = -1
        span = document.span(begin, end)
        yield Chunk(
            id=f"{name}#{number:04}",
            source=document.source,
            start=span[0],
            end=span[1],
            text=document.text[begin:end],
            title=document.title,
        )
        number += 1


def _sections(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield spans that together are the text: sections, as many at once as `size` holds."""
    begin = end = 0
    for start in (*_titles(text), len(text)):
        if start - begin > size and end > begin:
            yield begin, end
            begin = end
        end = start
    yield begin, end


def parts(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield spans of at most _PART characters that together are a section.

    The splitter's time grows with the square of a text, above all of one without line breaks.
    """
    is_in_fence = False
    while end - begin > _PART:
        part = text[begin : begin + _PART]
        fences = [found.start() for found in _FENCE_START.finditer(part)]
        cut = _border(part, fences, is_in_fence)
        is_in_fence ^= bisect_left(fences, cut) % 2 == 1
        yield begin, begin + cut
        begin += cut
    yield begin, end


def _border(part: str, fences: Sequence[int], is_in_fence: bool) -> int:
    """Return where to cut in the second half of a part: not within code, where that can be."""
    for borders in _BORDERS:
        ends = [found.end() for found in borders.finditer(part, len(part) // 2)]
        outside = [end for end in ends if bisect_left(fences, end) % 2 == is_in_fence]
        if outside:
            return outside[-1]
    lines = [part.rfind(mark, len(part) // 2) + 1 for mark in "\n "]
    return next((cut for cut in lines if cut), len(part))


def _titles(text: str) -> Iterator[int]:
    """Yield where a title stands that has a line of marks under it, or also above it."""
    place, starts = 0, []
    lines = text.splitlines(keepends=True)
    for line in lines:
        starts.append(place)
        place += len(line)
    for number in range(1, len(lines)):
        title = number - 1
        if not _UNDERLINE.fullmatch(lines[number]) or not lines[title].strip():
            continue
        first = title - 1 if title and _UNDERLINE.fullmatch(lines[title - 1]) else title
        is_title = not _UNDERLINE.fullmatch(lines[title])
        if is_title and (first == 0 or not lines[first - 1].strip()):
            yield starts[first]


def _is_heading_only(text: str) -> bool:
    lines = [line for line in _COMMENT.sub("", text).splitlines() if line.strip()]
    is_heading = False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        is_heading = bool(
            _HASH_HEADING.fullmatch(line)
            or _FENCE.fullmatch(line)
            or _UNDERLINE.fullmatch(line)
            or _UNDERLINE.fullmatch(below)
        )
        if not is_heading:
            return False
    return True
