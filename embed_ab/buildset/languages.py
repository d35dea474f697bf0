"""The language of a text, as far as its letters tell, and its name for a prompt."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import cache

# Letters that one living language writes, or nearly: script in Unicode's names to language.
_OWN_LETTERS = {"HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh"}
_SCRIPTS = {
    "LATIN": "Latin-script",
    "CYRILLIC": "Cyrillic-script",
    "ARABIC": "Arabic-script",
    "DEVANAGARI": "Devanagari-script",
    "GREEK": "el",
    "HEBREW": "he",
    "THAI": "th",
}
UNKNOWN = "unknown"
_NAMES = {
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "he": "Hebrew",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "pt": "Portuguese",
    "ru": "Russian",
    "th": "Thai",
    "zh": "Chinese",
}


def detect(text: str) -> str:
    """Return a language tag by the script of a text; `Latin-script` where that is all it tells.

    A tenth of Hangul, kana or Han decides, because Latin commands stand in texts of any language.
    "unknown" for a text without letters, and for other scripts.
    """
    scripts = Counter(_script(letter) for letter in text if letter.isalpha())
    own = {script: n for script, n in scripts.items() if script in _OWN_LETTERS}
    if sum(own.values()) * 10 >= max(scripts.total(), 1):
        # Japanese is written with Han too, and Korean may be: only a text of nothing else is zh.
        for script in ("HANGUL", "HIRAGANA", "KATAKANA"):
            if own.get(script, 0) * 10 >= sum(own.values()):
                return _OWN_LETTERS[script]
        return "zh"
    return _SCRIPTS.get(scripts.most_common(1)[0][0], UNKNOWN) if scripts else UNKNOWN


def name_of(tag: str) -> str:
    """Return how a prompt names the language of a tag."""
    if tag.startswith("und") or tag == UNKNOWN or tag.endswith("-script"):
        return "the language of the passage"
    return _NAMES.get(tag.lower(), f"the language with the code {tag}")


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
