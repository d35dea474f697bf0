"""Texts to a server in requests that it takes: smaller ones where it refuses, down to one text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from embed_ab.errors import ProviderError
from embed_ab.providers.base import PLAIN_TEXT, Embedded, Request, Role, Usage, Vectors
from embed_ab.providers.http import RequestRefused

MAX_TOKENS = 100_000  # of one request, estimated; the lowest limit of a large provider is 120,000
MAX_FAULTS = 3  # texts of a call that are singled out; one is enough to end the run
_SHORTEST = 16  # characters; a text refused at this length is not refused for its length
_WORD = re.compile(r"\w\S*")
# What servers say of a single text that is too long, beyond the words that http.py knows.
_LENGTH = re.compile(
    r"\b(string|text|prompt|document|sequence|content|query|body|payload|entity)s?\b.{0,30}"
    r"\btoo (long|large|big)\b"
    r"|\btoo many (\w+ )?(tokens|characters|bytes|words)\b"
    r"|\b(tokens?|characters?|bytes|length|size)\b.{0,60}"
    r"\b(exceed\w*|max|maximum|limit|longer than|larger than|at most|less than)\b"
    r"|\b(exceed\w*|max|maximum|limit|longer than|larger than|at most|less than)\b.{0,60}"
    r"\b(tokens?|characters?|bytes|length|size)\b",
    re.IGNORECASE,
)


class Answer(NamedTuple):
    """What one request brought: float32 (n_texts, dimension), tokens if told, seconds."""

    vectors: Vectors
    n_tokens: int | None
    seconds: float


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather more: English four bytes, Korean three."""
    return _n_bytes(text) // 3 + 1


def parts(
    texts: Sequence[str],
    rows: Sequence[int],
    *,
    max_texts: int,
    max_tokens: int = MAX_TOKENS,
    long_tokens: float = float("inf"),
) -> Iterator[Sequence[int]]:
    """Split rows into those of one request each, by estimated tokens.

    long_tokens: a text of so many goes alone. No rows are one part without any.
    """
    start, tokens = 0, 0
    is_full = False
    for place, row in enumerate(rows):
        more = estimated_tokens(texts[row])
        is_long = more >= long_tokens
        is_full |= place - start >= max_texts or tokens + more > max_tokens
        if place > start and (is_full or is_long):
            yield rows[start:place]
            start, tokens = place, 0
        is_full = is_long
        tokens += more
    yield rows[start:]


def _n_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


class Batcher:
    """Splits texts into requests and remembers what the server refused; threads may share one.

    send: one request for texts as they are; raises RequestRefused for what is too much.
    max_texts: texts per request at most. truncate: shorten a text that is too long alone.
    """

    def __init__(
        self,
        send: Callable[[Sequence[str], Role], Answer],
        *,
        max_texts: int,
        truncate: bool,
        usage: Usage,
    ) -> None:
        self._send = send
        self._max_texts = max_texts
        self._max_tokens = MAX_TOKENS
        self._truncate = truncate
        self._usage = usage
        # Of single texts: estimated tokens of the shortest that was refused for its length; bytes
        # of what passed of the last one shortened.
        self._too_long_tokens: float = float("inf")
        self._fitting_bytes = 0

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Return the vectors of some texts; texts without one are among the faults.

        What was answered before a failure comes back with it.
        Raises: ProviderError for what no smaller request can mend, where nothing was answered.
        """
        work = _Work(texts, role)
        try:
            for rows in self._parts(texts, range(len(texts))):
                self._fill(work, rows)
        except ProviderError as error:
            if not work.is_kept.any():
                raise
            return work.embedded(error)
        return work.embedded()

    def _parts(self, texts: Sequence[str], rows: Sequence[int]) -> Iterator[Sequence[int]]:
        """Split rows by the limits known now; a text that is likely too long goes alone."""
        return parts(
            texts,
            rows,
            max_texts=self._max_texts,
            max_tokens=self._max_tokens,
            long_tokens=self._too_long_tokens,
        )

    def _fill(self, work: _Work, rows: Sequence[int]) -> bool:
        """Embed some rows; return whether the server took every request but too large ones."""
        split = list(self._parts(work.texts, rows))  # an answer before may have taught a limit
        if len(split) > 1:
            return all([self._fill(work, part) for part in split])
        try:
            vectors = self._request([work.texts[row] for row in rows], work)
        except RequestRefused as error:
            if not (error.may_be_size or error.names_nan):
                raise
            if not work.has_passed and not error.names_length:
                self._try_plain(work, error)
            if len(work.faults) >= MAX_FAULTS:
                work.faults.update(dict.fromkeys(rows, error))
                return False
            if len(rows) == 1:
                self._single(work, rows[0], error)
                return False
            middle = (len(rows) + 1) // 2
            halves = rows[:middle], rows[middle:]
            if all([self._fill(work, half) for half in halves]) and error.may_be_size:
                self._learn(work, halves, error)
            return False
        work.keep(rows, vectors)
        is_unsound = ~(np.isfinite(vectors).all(axis=1) & np.any(vectors, axis=1))
        if len(rows) > 1:
            for place in np.flatnonzero(is_unsound).tolist():
                if work.n_unsound + len(work.faults) >= MAX_FAULTS:
                    break
                # The company of other texts may be the reason: once more, alone.
                self._fill(work, [rows[place]])
            return True
        work.n_unsound += int(is_unsound.sum())
        if (n_tokens := estimated_tokens(work.texts[rows[0]])) >= self._too_long_tokens:
            self._too_long_tokens = n_tokens + 1  # this one has more characters a token
        return True

    def _try_plain(self, work: _Work, error: RequestRefused) -> None:
        """Raise where a short plain text is refused too: then it is the request, not a text."""
        try:
            self._send([PLAIN_TEXT], work.role)  # not counted: nobody asked for its vector
        except RequestRefused:
            raise RequestRefused(
                error.unquoted,
                status=error.status,
                hint=error.hint
                or "The server refuses any text: check that the model is one for embeddings, and "
                "the fields of query-params and doc-params.",
                said=error.said,
            ) from error
        work.has_passed = True

    def _learn(
        self, work: _Work, halves: tuple[Sequence[int], Sequence[int]], error: RequestRefused
    ) -> None:
        """Remember the size of two requests that passed where both together did not."""
        if error.names_length:
            tokens = [sum(estimated_tokens(work.texts[row]) for row in half) for half in halves]
            self._max_tokens = min(self._max_tokens, max(tokens))
        else:
            self._max_texts = min(self._max_texts, len(halves[0]))

    def _single(self, work: _Work, row: int, error: RequestRefused) -> None:
        """Shorten a text that was refused alone, if its length may be why; else note the fault."""
        work.faults[row] = error
        is_length = (
            error.names_length or error.status == 413 or error.speaks_of(_LENGTH) or not error.said
        )
        if is_length and not error.names_nan:
            if error.said:
                n_tokens = estimated_tokens(work.texts[row])
                self._too_long_tokens = min(self._too_long_tokens, n_tokens)
            if self._truncate:
                self._shorten(work, row, error)

    def _shorten(self, work: _Work, row: int, error: RequestRefused) -> None:
        """Embed the beginning of a text: the longest of `_beginnings` that the server takes.

        What passed of another text only tells where to look first: which beginning is kept depends
        on the text and the server alone, not on what other threads found out meanwhile.
        """
        text = work.texts[row]
        lengths = _beginnings(text)
        passed, refused = -1, len(lengths)  # places of the longest that passed, shortest refused
        place, reach = refused // 2, refused
        if self._fitting_bytes:
            near = len(text) * self._fitting_bytes // _n_bytes(text)
            place, reach = min(max(bisect_right(lengths, near) - 1, 0), refused - 1), 1
        vectors, may_pass = None, _may_pass(error)
        while refused - passed > 1:
            try:
                vectors = self._request([text[: lengths[place]]], work)
            except RequestRefused as again:
                if again.names_nan:
                    work.faults[row] = again
                    return
                if not again.may_be_size:
                    raise
                may_pass |= _may_pass(again)
                refused = place
                place = max(refused - reach, (passed + refused) // 2)
            else:
                passed = place
                place = min(passed + reach, (passed + refused) // 2)
            reach *= 4
        if vectors is None:
            return
        length = lengths[passed]
        if not error.said and self._takes(text[:length], len(text), work.role):
            return
        del work.faults[row]
        work.keep([row], vectors)
        work.n_kept[row] = length
        self._fitting_bytes = _n_bytes(text[:length])
        if may_pass:
            work.passing.add(row)

    def _takes(self, beginning: str, length: int, role: Role) -> bool:
        """Whether the server takes so many characters, of a text that it takes, over and over.

        If it does, the length of another text was not why that one was refused without a word.
        """
        repeated = f"{beginning} " * (length // len(beginning) + 1)
        try:
            self._send([repeated[:length]], role)  # not counted: nobody asked for its vector
        except RequestRefused as error:
            if not error.may_be_size:
                raise
            return False
        return True

    def _request(self, texts: Sequence[str], work: _Work) -> Vectors:
        answer = self._send(texts, work.role)
        n_words = sum(len(_WORD.findall(text)) for text in texts)
        self._usage.requests.append(
            Request(work.role, len(texts), answer.n_tokens, answer.seconds, n_words)
        )
        work.has_passed = True
        return answer.vectors


def _beginnings(text: str) -> list[int]:
    """Lengths to which a text may be shortened, ascending, each about a sixteenth over the last."""
    least = len(text) - len(text.lstrip())
    lengths, length = [], _SHORTEST
    while length < len(text):
        if length > least:
            lengths.append(length)
        length += length // 16
    return lengths


def _may_pass(error: RequestRefused) -> bool:
    """Whether a pause may heal what is said to be a matter of length."""
    return error.status == 429 or error.status >= 500


class _Work:
    """The texts of one call, and what is known of them so far."""

    def __init__(self, texts: Sequence[str], role: Role) -> None:
        self.texts = texts
        self.role = role
        self.has_passed = False
        self.vectors: Vectors = np.empty((len(texts), 0), dtype=np.float32)
        self.n_kept = np.full(len(texts), -1, dtype=np.int64)
        self.is_kept = np.zeros(len(texts), dtype=np.bool_)
        self.n_unsound = 0  # texts whose vector is no numbers, or zero, also alone
        self.faults: dict[int, ProviderError] = {}
        self.passing: set[int] = set()

    def keep(self, rows: Sequence[int], vectors: Vectors) -> None:
        known, dimension = self.vectors.shape[1], vectors.shape[1]
        if not known:
            self.vectors = np.full((len(self.texts), dimension), np.nan, dtype=np.float32)
        elif known != dimension:
            raise ProviderError(
                f"vectors of {known} and of {dimension} dimensions came back for one model"
            )
        self.vectors[rows] = vectors
        self.is_kept[rows] = True

    def embedded(self, failure: ProviderError | None = None) -> Embedded:
        if failure is not None:
            for row in np.flatnonzero(~self.is_kept).tolist():
                self.faults.setdefault(row, failure)
        return Embedded(
            vectors=self.vectors,
            n_kept=self.n_kept if (self.n_kept >= 0).any() else None,
            faults=self.faults,
            failure=failure,
            passing=frozenset(self.passing),
        )
