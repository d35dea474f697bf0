"""Texts to a server in requests that it takes: smaller ones where it refuses, down to one text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from embed_ab.errors import ProviderError
from embed_ab.providers.base import Embedded, Request, Role, Usage, Vectors
from embed_ab.providers.http import RequestRefused

MAX_TOKENS = 100_000  # of one request, estimated; the lowest limit of a large provider is 120,000
_SHORTEST = 16  # characters; a text refused at this length is not refused for its length


class Answer(NamedTuple):
    """What one request brought: float32 (n_texts, dimension), tokens if told, seconds."""

    vectors: Vectors
    n_tokens: int | None
    seconds: float


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather more: English four bytes, Korean three."""
    return len(text.encode("utf-8", "replace")) // 3 + 1


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

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Return the vectors of some texts; texts without one are among the faults.

        Raises: ProviderError for what no smaller request can mend.
        """
        work = _Work(texts, role)
        for rows in self._parts(texts, range(len(texts))):
            self._fill(work, rows)
        return work.embedded()

    def _parts(self, texts: Sequence[str], rows: Sequence[int]) -> Iterator[Sequence[int]]:
        """Split rows by the limits known now."""
        start, tokens = 0, 0
        for place, row in enumerate(rows):
            more = estimated_tokens(texts[row])
            if place > start and (
                place - start >= self._max_texts or tokens + more > self._max_tokens
            ):
                yield rows[start:place]
                start, tokens = place, 0
            tokens += more
        yield rows[start:]

    def _fill(self, work: _Work, rows: Sequence[int]) -> bool:
        """Embed some rows; return whether the server took every request but too large ones."""
        parts = list(self._parts(work.texts, rows))  # an answer before may have taught a limit
        if len(parts) > 1:
            return all([self._fill(work, part) for part in parts])
        try:
            vectors = self._request([work.texts[row] for row in rows], work.role)
        except RequestRefused as error:
            if not (error.may_be_size or error.names_nan):
                raise
            if len(rows) == 1:
                self._shorten(work, rows[0], error)
                return False
            middle = (len(rows) + 1) // 2
            halves = rows[:middle], rows[middle:]
            if all([self._fill(work, half) for half in halves]) and error.may_be_size:
                self._learn(work, halves, error)
            return False
        work.keep(rows, vectors)
        if len(rows) > 1:
            is_sound = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
            for place in np.flatnonzero(~is_sound).tolist():
                # The company of other texts may be the reason: once more, alone.
                self._fill(work, [rows[place]])
        return True

    def _learn(
        self, work: _Work, halves: tuple[Sequence[int], Sequence[int]], error: RequestRefused
    ) -> None:
        """Remember the size of two requests that passed where both together did not."""
        if error.names_length:
            tokens = [sum(estimated_tokens(work.texts[row]) for row in half) for half in halves]
            self._max_tokens = min(self._max_tokens, max(tokens))
        else:
            self._max_texts = min(self._max_texts, len(halves[0]))

    def _shorten(self, work: _Work, row: int, error: RequestRefused) -> None:
        """Embed the longest half, quarter, … of a text that is taken; else note the fault."""
        text, length = work.texts[row], len(work.texts[row])
        work.faults[row] = error
        while self._truncate and not error.names_nan and length >= 2 * _SHORTEST:
            length //= 2
            if not text[:length].strip():
                return
            try:
                work.keep([row], self._request([text[:length]], work.role))
            except RequestRefused as again:
                if not again.may_be_size:
                    raise
            else:
                work.n_kept[row] = length
                del work.faults[row]
                return

    def _request(self, texts: Sequence[str], role: Role) -> Vectors:
        answer = self._send(texts, role)
        self._usage.requests.append(Request(role, len(texts), answer.n_tokens, answer.seconds))
        return answer.vectors


class _Work:
    """The texts of one call, and what is known of them so far."""

    def __init__(self, texts: Sequence[str], role: Role) -> None:
        self.texts = texts
        self.role = role
        self.vectors: Vectors = np.empty((len(texts), 0), dtype=np.float32)
        self.n_kept = np.full(len(texts), -1, dtype=np.int64)
        self.faults: dict[int, ProviderError] = {}

    def keep(self, rows: Sequence[int], vectors: Vectors) -> None:
        known, dimension = self.vectors.shape[1], vectors.shape[1]
        if not known:
            self.vectors = np.full((len(self.texts), dimension), np.nan, dtype=np.float32)
        elif known != dimension:
            raise ProviderError(
                f"vectors of {known} and of {dimension} dimensions came back for one model"
            )
        self.vectors[rows] = vectors

    def embedded(self) -> Embedded:
        return Embedded(
            vectors=self.vectors,
            n_kept=self.n_kept if (self.n_kept >= 0).any() else None,
            faults=self.faults,
        )
