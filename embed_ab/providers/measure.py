"""What is measured of a model beside its vectors: batch against alone, and the wait of a query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from embed_ab.providers.base import Embedder, Role, Served, Vectors

MAX_QUERIES = 20
MAX_SECONDS = 10.0
_SHORT, _LONG = 40, 200  # characters


def cosines(a: Vectors, b: Vectors) -> NDArray[np.float64]:
    """Return the cosine of each row of a with the same row of b, (n,) float64; NaN for a zero row.

    a, b: (n, dimension), of any length.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(a64, axis=1) * np.linalg.norm(b64, axis=1)
    found: NDArray[np.float64] = np.divide(
        (a64 * b64).sum(axis=1), norms, out=np.full(len(a64), np.nan), where=norms > 0
    )
    return found


def batch_cosine(embedder: Embedder, texts: Sequence[str], role: Role) -> float | None:
    """Embed the shortest and the longest text alone and together, cut at 40 and 200 characters.

    They must differ in length: in a batch the shorter text is padded to the longer one, and it is
    there that a faulty attention mask, or a pooling that takes padding in, changes its vector. Two
    texts of one length hide that.

    Returns: the lower of the two cosines; None where there are no two texts, or a vector is none.
    Raises: ProviderError.
    """
    by_length = sorted({text.strip() for text in texts}, key=lambda text: (len(text), text))
    pair = list(dict.fromkeys([by_length[0][:_SHORT], by_length[-1][:_LONG]]))
    if len(pair) < 2:
        return None
    alone = [embedder.embed([text], role).vectors for text in pair]
    together = embedder.embed(pair, role).vectors
    if {vectors.shape[1] for vectors in alone} != {together.shape[1]} or len(together) != 2:
        return None  # for those who check every batch to say
    lowest = float(cosines(np.concatenate(alone), together).min())
    return lowest if np.isfinite(lowest) else None


def spread(rows: Sequence[int]) -> list[int]:
    """Return up to 20 of the rows, evenly over all of them."""
    n = min(MAX_QUERIES, len(rows))
    return [rows[place] for place in np.linspace(0, len(rows) - 1, n).astype(int)]


def query_seconds(
    embedder: Embedder,
    queries: Sequence[str],
    clock: Callable[[], float],
    *,
    max_seconds: float = MAX_SECONDS,
) -> tuple[float, ...]:
    """Return how long each of up to 20 queries took, asked for alone, one after the other.

    The queries are spread evenly. Of a server it is the time of the one request that brought the
    answer; a query that took several, or was shortened, does not count. The comparison is done by
    then and must be neither lost nor held up: nothing is asked after `max_seconds` or after a
    failure of any kind, and a server that does not answer by then is not waited for.
    """
    picked = spread(range(len(queries)))
    served = embedder if isinstance(embedder, Served) else None
    seconds: list[float] = []
    deadline = clock() + max_seconds

    def ask() -> None:
        for row in picked:
            n_before = len(served.usage.requests) if served else 0
            if (started := clock()) > deadline:
                break
            found = embedder.embed([queries[row]], "query")
            took = clock() - started
            if found.faults:
                break
            if served is None:
                seconds.append(took)
            elif len(requests := served.usage.requests[n_before:]) == 1 and found.n_kept is None:
                seconds.append(requests[0].seconds)

    def ask_while_it_works() -> None:
        with suppress(Exception):
            ask()

    if served is None:
        ask_while_it_works()
    else:
        # A server that turned bad is tried again for minutes: such a thread is left behind.
        thread = threading.Thread(target=ask_while_it_works, daemon=True)
        thread.start()
        thread.join(max_seconds)
    return tuple(seconds)
