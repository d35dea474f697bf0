"""The BM25 baseline: tokenisers, and the bm25s library ranked by our tie rule."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab.runs import Run
from embed_ab.search import rank_scores

Tokens = Literal["word", "char2", "auto"]

K1 = 1.5
B = 0.75

# Hangul (jamo, compatibility jamo, extensions, syllables), kana (with extensions and the sound
# marks that NFC cannot compose) and Han (with iteration marks, zero, compatibility ideographs and
# every extension block). Half-width kana and Hangul are gone by then: `normalise` widens them.
_CJK = (
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
)
_WORD = re.compile(r"\w{2,}")  # the same runs as \b\w\w+\b finds, a quarter faster
_ASCII_WORD = re.compile(r"[a-z0-9_]{2,}")  # of lower case: the same again, twice as fast
_RUN = re.compile(r"\w+")
_MARKED_RUN = re.compile(r"[\w\u0300-\u036f]+")  # with marks that NFC would join
_HAS_CJK = re.compile(f"[{_CJK}]")
_WORD_OR_CJK = re.compile(rf"[\w{_CJK}]{{2,}}|[{_CJK}]")
_STRETCH = re.compile(f"[{_CJK}]+|[^{_CJK}]+")
_WIDTH_FORMS = re.compile("[\uff01-\uffee]+")


def tokenize(text: str, tokens: Tokens) -> list[str]:
    r"""The tokens of a text, in order, by the same rule for documents and queries.

    Every rule first puts the text into lower case and NFC (a decomposed "é" or Hangul syllable
    becomes one character) and folds full-width and half-width forms by NFKC. Nothing else is folded
    ("²" stays "²"), no stop words are removed, nothing is stemmed.

    word: runs of at least two word characters, regex `(?u)\b\w\w+\b`.
    char2: overlapping character bigrams of every run of word characters; a run of one is itself.
    auto: as `word`, with each stretch of Hangul, kana and Han in a word cut into overlapping
        bigrams; a stretch of one character is itself. A text without CJK has the tokens of `word`.
    """
    text = normalise(text)
    if tokens != "char2" and text.isascii():
        return _ASCII_WORD.findall(text)
    if tokens == "char2":
        return [token for run in _RUN.findall(text) for token in _bigrams(run)]
    if tokens == "word" or not _HAS_CJK.search(text):
        return _WORD.findall(text)
    return [
        token
        for word in _WORD_OR_CJK.findall(text)
        for stretch in _STRETCH.findall(word)
        for token in (_bigrams(stretch) if _HAS_CJK.match(stretch) else [stretch])
    ]


def find_tokens(text: str, tokens: Set[str]) -> list[tuple[int, int]]:
    """Return where tokens of the kind `auto` stand in a text: start and end, ascending, apart.

    A word that normalising makes longer or shorter is found whole.
    """
    found: list[tuple[int, int]] = []
    for run in _MARKED_RUN.finditer(text):
        word = normalise(run[0])
        if word.isascii():
            spans = [(0, len(word))] if word in tokens else []
        elif len(word) != len(run[0]):
            spans = [(0, len(run[0]))] if not tokens.isdisjoint(tokenize(word, "auto")) else []
        else:
            spans = [
                (start, start + len(token))
                for stretch in _STRETCH.finditer(word)
                for start, token in enumerate(
                    _bigrams(stretch[0]) if _HAS_CJK.match(stretch[0]) else [stretch[0]],
                    start=stretch.start(),
                )
                if token in tokens
            ]
        for start, end in spans:
            if found and run.start() + start <= found[-1][1]:
                found[-1] = found[-1][0], run.start() + end
            else:
                found.append((run.start() + start, run.start() + end))
    return found


def normalise(text: str) -> str:
    """The text in lower case and NFC, with full-width and half-width forms folded."""
    if text.isascii():
        return text.lower()
    folded = _WIDTH_FORMS.sub(lambda forms: unicodedata.normalize("NFKC", forms[0]), text)
    return unicodedata.normalize("NFC", folded.lower())


def search(
    document_texts: Sequence[str],
    query_texts: Sequence[str],
    tokens: Tokens,
    depth: int,
    *,
    is_candidate: NDArray[np.bool_] | None = None,
    name: str = "bm25",
) -> Run:
    """The best `depth` documents of each query by BM25, texts cut by `tokenize`.

    Everything else is as in `search_tokens`.
    """
    return search_tokens(
        (tokenize(text, tokens) for text in document_texts),
        (tokenize(text, tokens) for text in query_texts),
        depth,
        is_candidate=is_candidate,
        name=name,
    )


def search_tokens(
    documents: Iterable[Sequence[str]],
    queries: Iterable[Sequence[str]],
    depth: int,
    *,
    is_candidate: NDArray[np.bool_] | None = None,
    name: str = "bm25",
) -> Run:
    """The best `depth` documents of each query by BM25 (Lucene's variant, k1 1.5, b 0.75).

    Only documents with a score above 0 are retrieved; ties go to the lower document index. A query
    without a known token retrieves nothing; a token given twice counts twice.

    is_candidate: (n_documents,) documents that may be retrieved; the others still count in the
        collection's document frequencies and mean length.
    Source: Kamphuis et al., ECIR 2020, variant "Lucene (accurate)".
    """
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__  # a new token gets the next number
    document_tokens = [list(map(vocabulary.__getitem__, document)) for document in documents]
    query_tokens = list(queries)
    shape = (len(query_tokens), depth)
    ranked = np.full(shape, -1, dtype=np.int32)
    scores = np.full(shape, -np.inf)
    if vocabulary:  # bm25s cannot index a collection without tokens
        import bm25s

        engine = bm25s.BM25(method="lucene", k1=K1, b=B)
        engine.index(
            (document_tokens, dict(vocabulary)), create_empty_token=False, show_progress=False
        )
        for query, given in enumerate(query_tokens):
            known = [vocabulary[token] for token in given if token in vocabulary]
            if known:
                # bm25s' own top k leaves ties in any order: take its scores, not its selection.
                ranked[query], scores[query] = rank_scores(
                    engine.get_scores_from_ids(known),
                    depth,
                    is_candidate=is_candidate,
                    positive_only=True,
                )
    return Run(name=name, documents=ranked, scores=scores)


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]
