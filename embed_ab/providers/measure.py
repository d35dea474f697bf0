"""What is measured of a model beside its vectors: batch against alone, and the wait of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import ProviderError
from embed_ab.providers.base import Embedder, Role, Vectors

MAX_QUERIES = 20
MAX_SECONDS = 10.0
_LENGTH = 200


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
    """Embed the shortest and the longest text, cut at 200 characters, alone and together.

    Returns: the lower of the two cosines; None where there are no two texts, or a vector is none.
    Raises: ProviderError.
    """
    shortened = sorted(
        {text.strip()[:_LENGTH] for text in texts}, key=lambda text: (len(text), text)
    )
    alone = [
        embedder.embed([text], role).vectors
        for text in dict.fromkeys(shortened[:1] + shortened[-1:])
    ]
    if len(alone) < 2:
        return None
    together = embedder.embed([shortened[0], shortened[-1]], role).vectors
    if {vectors.shape[1] for vectors in alone} != {together.shape[1]} or len(together) != 2:
        return None  # for those who check every batch to say
    lowest = float(cosines(np.concatenate(alone), together).min())
    return lowest if np.isfinite(lowest) else None


def query_seconds(
    embedder: Embedder, queries: Sequence[str], clock: Callable[[], float]
) -> tuple[float, ...]:
    """Return how long each of up to 20 queries took, asked for alone, one after the other.

    The queries are spread evenly; after ten seconds no further one is asked for, and after a
    failure neither: by then the comparison is done, and must not be lost.
    """
    picked = np.linspace(0, len(queries) - 1, min(MAX_QUERIES, len(queries))).astype(int)
    began = clock()
    seconds: list[float] = []
    for row in picked.tolist():
        started = clock()
        if started - began > MAX_SECONDS:
            break
        try:
            embedder.embed([queries[row]], "query")
        except ProviderError:
            break
        seconds.append(clock() - started)
    return tuple(seconds)
