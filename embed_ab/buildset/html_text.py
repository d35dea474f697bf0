"""The visible text of an HTML page, and where each character of it stands in the file.

Not html.parser: before Python's releases of 2025 it needs minutes for 200 kB of `<a <a <a`, and it
does not say how long an entity was. No maintained parser tells where a character stood.
"""

from __future__ import annotations

import re
from array import array
from html import unescape

_RAW = {"script", "style", "textarea", "title", "noscript", "iframe"}  # markup within is no markup
_UNSEEN = {"head", "template", "svg", "nav", "footer", *_RAW}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "dd", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "form", "header", "hr", "li", "main", "ol", "p", "pre", "section"),
    *("table", "tr", "ul"),
}
_MAX_DEPTH = 100  # each end looks for its start
# The repeats are possessive and bounded: a tag that never ends costs no more than one that does.
_TAG = re.compile(
    r"""<(/?)([a-zA-Z][a-zA-Z0-9-]{0,40}+)(?:[^<>"']|"[^"<]{0,4000}+"|'[^'<]{0,4000}+'){0,4000}+>"""
)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?")


def visible_text(page: str) -> tuple[str, array[int], array[int]]:
    """Return the text, and for each of its characters where it starts and ends in the page.

    Scripts, styles, navigation and footers are left out. A heading stands one line above its
    paragraph, and three below the one before, so that a splitter keeps them together.
    """
    reader = _Reader()
    place = 0
    while (sign := page.find("<", place)) >= 0:
        reader.data(page, place, sign)
        place = _after(page, sign, reader)
    reader.data(page, place, len(page))
    return "".join(reader.text), reader.starts, reader.ends


def _after(page: str, sign: int, reader: _Reader) -> int:
    """Take the markup that starts at a `<`, and return where it ends."""
    if page.startswith(("<!", "<?"), sign):
        end = "-->" if page.startswith("<!--", sign) else ">"
        found = page.find(end, sign + 2)
        return found + len(end) if found >= 0 else len(page)
    tag = _TAG.match(page, sign)
    if tag is None:
        reader.data(page, sign, sign + 1, is_sign=True)
        return sign + 1
    name = tag[2].lower()
    # In HTML such a slash ends SVG only; but nobody means to hide the rest of a page by a <nav/>.
    is_whole = tag[0].endswith("/>") and (name not in _RAW or reader.is_in_svg)
    if tag[1]:
        reader.end(name, sign)
    elif is_whole and name in _UNSEEN:
        pass
    elif name in _RAW:
        closing = re.compile(f"</{name}[^<>]{{0,100}}>", re.IGNORECASE).search(page, tag.end())
        return closing.end() if closing else len(page)
    else:
        reader.start(name, sign)
    return tag.end()


class _Reader:
    """The text so far; `starts` and `ends` have an entry for each character of it."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.starts, self.ends = array("q"), array("q")
        self._unseen: list[str] = []
        self._n_pre = 0

    @property
    def is_in_svg(self) -> bool:
        return "svg" in self._unseen

    def start(self, tag: str, place: int) -> None:
        if tag in _UNSEEN:
            if len(self._unseen) < _MAX_DEPTH:
                self._unseen.append(tag)
        elif tag == "body":
            self._unseen.clear()  # the end of the head may be left out
        if tag in _HEADINGS:
            self._break(3, place)
        elif tag in _BLOCKS:
            self._break(2, place)
        elif tag == "br":
            self._break(1, place)
        elif tag in ("td", "th"):
            self._add(" ", place, place)
        self._n_pre += tag == "pre"

    def end(self, tag: str, place: int) -> None:
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        if tag in _HEADINGS:
            self._break(1, place)
        elif tag in _BLOCKS:
            self._break(2, place)
        self._n_pre -= tag == "pre" and self._n_pre > 0

    def data(self, page: str, start: int, end: int, *, is_sign: bool = False) -> None:
        """Take text between markup; `is_sign`: a `<` that starts none."""
        if self._unseen:
            return
        while start < end:
            found = None if is_sign else _REFERENCE.search(page, start, end)
            for place in range(start, found.start() if found else end):
                self._add(page[place], place, place + 1)
            if found is None:
                return
            for character in unescape(found[0]):
                self._add(character, found.start(), found.end())
            start = found.end()

    def _add(self, character: str, start: int, end: int) -> None:
        if self._unseen:
            return
        if character.isspace() and not self._n_pre:
            if not self.text or self.text[-1].isspace():
                return
            character = " "
        self.text.append(character)
        self.starts.append(start)
        self.ends.append(end)

    def _break(self, n_lines: int, place: int) -> None:
        if self._unseen or not self.text:
            return
        while self.text and self.text[-1] == " ":
            for column in (self.text, self.starts, self.ends):
                column.pop()
        written = 0
        while written < min(n_lines, len(self.text)) and self.text[-1 - written] == "\n":
            written += 1
        for _ in range(n_lines - written):
            self.text.append("\n")
            self.starts.append(place)
            self.ends.append(place)
