"""Numbers for readers, and texts of strangers made safe for each surface."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

MINUS = "−"
DASH = "–"


def number(value: float | None) -> str:
    """Return a value with three decimals; one that would round to 0 keeps its first digit."""
    if value is None:
        return DASH
    digits = next((d for d in (3, 4, 5, 6) if round(abs(value), d)), 3)
    # Below half a millionth a difference is noise of float32 scores, and 0.000 is the truth.
    text = f"{abs(value):.{digits}f}"
    return MINUS + text if value < 0 and float(text) else text


def signed(value: float | None) -> str:
    """Return a difference with its sign; a plain 0.000 has none."""
    text = number(value)
    return "+" + text if value is not None and value > 0 and float(text) else text


def interval(low: float, high: float) -> str:
    """Return the two ends of an interval of differences."""
    return f"[{signed(low)}, {signed(high)}]"


BAR, ASCII_BAR = "·├─┤●│", ".[-]o|"
"""What an interval is drawn with: nothing, its low end, itself, its high end, the difference, 0."""


def bar(
    low: float, value: float, high: float, limit: float, *, width: int = 15, marks: str = BAR
) -> str:
    """Return an interval of differences drawn from -limit to limit, with 0 in the middle.

    width: odd. What is not 0 is never drawn at 0, so that no interval reaches it only by rounding;
    what lies beyond the limits is drawn at them.
    """
    empty, left, line, right, point, zero = tuple(marks)
    half = width // 2

    def place(x: float) -> int:
        steps = min(math.floor(abs(x) / limit * half + 0.5), half) if limit > 0 else 0
        return half + int(math.copysign(max(steps, 1 if x else 0), x))

    start, end = place(low), place(high)
    cells = [empty] * start + [line] * (end - start + 1) + [empty] * (width - end - 1)
    cells[end], cells[start] = right, left
    cells[half] = zero
    cells[place(value)] = point
    return "".join(cells)


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 in percent; only an exact 0 or 1 reads 0 % or 100 %."""
    if share is None:
        return DASH
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{100 * share:.1f}%"


def p_value(value: float) -> str:
    """Return a p-value; it is never 0."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def count(value: int | None) -> str:
    """Return a whole number with its thousands apart."""
    return DASH if value is None else f"{value:,}"


def counted(n: int, one: str, many: str = "") -> str:
    """Return a whole number of things: `1 text`, `2 texts`; `many` where an s does not do."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def size(n_bytes: int | None) -> str:
    """Return a number of bytes in decimal units."""
    if n_bytes is None:
        return DASH
    value, unit = float(n_bytes), 0
    while value >= 999.95 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:,.1f} {_UNITS[unit]}" if unit else f"{n_bytes} B"


_UNITS = ("B", "kB", "MB", "GB", "TB")


def amount(value: float | None) -> str:
    """Return a time or a price: two decimals, or two digits where it is below 1."""
    if value is None:
        return DASH
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{Decimal(f'{value:.2g}'):f}"


def setting(value: Any) -> str:
    """Return a value of a settings file on one line."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {setting(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value))
    return str(value)


def shorten(text: str, length: int) -> str:
    """Return at most `length` characters; an ellipsis stands for the rest."""
    return text if len(text) <= length else text[: length - 1] + "…"


_ESCAPE_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    # Titles, links. One that another interrupts is over, as in a terminal: what follows a start is
    # then read once, not once for each start before it.
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*+(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]"
)
_SPACE = re.compile(r"\s+")
# Left out: marks that reorder what is read or cannot be seen. The joiners U+200C and U+200D stay,
# because Persian, Hindi and emoji need them.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def readable(text: str) -> str:
    """Return the text without escape sequences, controls or direction overrides.

    White space stays; any other control character becomes U+FFFD: the reader sees it was there.
    """
    text = _INVISIBLE.sub("", _ESCAPE_SEQUENCE.sub("", text))
    return _CONTROL.sub("\ufffd", text)


def plain(text: str) -> str:
    """Return readable text on one line."""
    return _SPACE.sub(" ", readable(text))


def visible_spaces(text: str) -> str:
    """Return a prompt in which every blank, tab and line end can be seen."""
    return plain(text.replace(" ", "␣").replace("\t", "⇥").replace("\n", "↵"))


def printable(text: str, encoding: str, is_terminal: bool) -> str:
    """Return one line that a terminal or a log of this encoding can show and does not obey."""
    text = plain(text).replace(MINUS, "-").replace(DASH, "-")
    if not is_terminal:
        # A line of a GitHub log that holds these would be a command to the runner.
        text = re.sub(":(?=:)", ": ", text).replace("##[", "## [")
    return text.encode(encoding, "backslashreplace").decode(encoding)


def code(text: str, length: int = 200) -> str:
    """Return a markdown code span, in which nothing mentions, links or ends the span."""
    text = _cut(text, length)
    if not text:
        return ""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _cut(text: str, length: int) -> str:
    # The first cut only spares work on huge texts: escape sequences and white space may shrink.
    return shorten(plain(text[: 10 * length]).strip(), length)


def cell(text: str, length: int = 120) -> str:
    """Return a code span for a table, where even inside code a bar must be escaped."""
    return code(text, length).replace("|", "\\|")


def prose(text: str, length: int = 400) -> str:
    """Return a sentence for markdown; each word that could mean more than itself is a code span."""
    words = _cut(text, length).split(" ")
    return " ".join(_word(*_WORD.fullmatch(word).groups()) for word in words)  # type: ignore[union-attr]


_WORD = re.compile(r"([(\"'“‘]*)(.*?)([.,;:!?)\"'”’]*)", re.DOTALL)
_HARMLESS = re.compile(r"(?:[^\W_]|[.,;:!?%()'\"“”‘’…–—−+=/≤≥×-])*")
_NUMBER = re.compile(
    r"\[?[+−-]?[0-9]{1,3}(\.[0-9]{1,4})?%?\]?[,;.)]*"
)  # the ends of an interval too
# What GitHub turns into a link by itself: addresses, GH-12, commits.
_LINKED = re.compile(r"//|www\.|gh-\d|[0-9a-f]{7}", re.IGNORECASE)


def _word(before: str, word: str, after: str) -> str:
    whole = before + word + after
    if _NUMBER.fullmatch(whole) or (_HARMLESS.fullmatch(word) and not _LINKED.search(word)):
        return whole
    return before + code(word) + after


def link(address: str) -> str:
    """Return a link's target in angle brackets, for an address that the action itself made."""
    return f"<{re.sub(r'[^!-~]|[<>]', '', address)}>"
