"""Texts to a server in requests that it takes: smaller ones where it refuses, down to one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from embed_ab.errors import ProviderError
from embed_ab.providers.base import PLAIN_TEXT, Embedded, Request, Role, Usage, Vectors
from embed_ab.providers.http import RequestRefused

MAX_TOKENS = 100_000  # of one request, estimated; the lowest limit of a large provider is 120,000
MAX_FAULTS = 3  # texts of a call that are singled out; one is enough to end the run
_SHORTEST = 16  # characters; a text refused at this length is not refused for its length
_CLOSER = 4  # bisections: what passes is at most a sixteenth shorter than what would pass
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
        # Of single texts: characters of the longest that passed; estimated tokens of the shortest
        # that was refused for its length; bytes of what passed of the last one shortened.
        self._longest_chars = 0
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
        text = work.texts[row]
        is_length = (
            error.names_length
            or error.status == 413
            or error.speaks_of(_LENGTH)
            or (not error.said and len(text) > self._longest_chars)
        )
        if is_length and not error.names_nan:
            self._too_long_tokens = min(self._too_long_tokens, estimated_tokens(text))
            if self._truncate:
                self._shorten(work, row, error)

    def _shorten(self, work: _Work, row: int, error: RequestRefused) -> None:
        """Embed the beginning of a text: at least 15/16 of what the server would take of it."""
        text = work.texts[row]
        passed, refused = 0, len(text)  # the longest beginning that passed, the shortest refused
        length, step = refused // 2, 1
        if (
            self._fitting_bytes
        ):  # begin with as much as passed of another text, and go on from there
            length, step = refused * self._fitting_bytes // _n_bytes(text), 16
            length = min(length, refused - refused // 16 - 1)
        n_closer, may_pass = 0, _may_pass(error)
        while length >= _SHORTEST and text[:length].strip() and n_closer <= _CLOSER:
            try:
                vectors = self._request([text[:length]], work)
            except RequestRefused as again:
                if again.names_nan:
                    work.faults[row] = again
                    return
                if not again.may_be_size:
                    raise
                refused = length
                may_pass |= _may_pass(again)
            else:
                passed = length
                work.keep([row], vectors)
            if passed >= refused - max(passed // 16, 1):
                break
            if not passed:
                length = refused - max(refused // max(step, 2), 1)
            else:
                n_closer += refused <= 2 * passed
                length = min(passed + max(passed // step, 1), (passed + refused) // 2)
            step = max(step // 4, 1)
        if passed:
            work.n_kept[row] = passed
            del work.faults[row]
            self._fitting_bytes = _n_bytes(text[:passed])
            if may_pass:
                work.passing.add(row)

    def _request(self, texts: Sequence[str], work: _Work) -> Vectors:
        answer = self._send(texts, work.role)
        request = Request(work.role, len(texts), answer.n_tokens, answer.seconds)
        self._usage.requests.append(request)
        work.has_passed = True
        self._longest_chars = max(self._longest_chars, *map(len, texts))
        return answer.vectors


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
