"""Rerankers behind any server with the common `/rerank`: TEI's form, or that of Jina and Cohere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError, ProviderError
from embed_ab.formats import counted
from embed_ab.providers.addresses import (
    bearer,
    host_and_path,
    read_base_url,
    shown,
    without_endpoint,
)
from embed_ab.providers.base import RerankerFacts, Scored
from embed_ab.providers.http import RequestRefused, Server

URL, KEY = "RERANK_BASE_URL", "RERANK_API_KEY"
SHAPES = ("jina", "tei")
BATCH_SIZES = {"jina": 128, "tei": 32}  # 32 is what text-embeddings-inference takes by default


@dataclass(frozen=True)
class HttpReranker:
    """A reranker behind a server, asked when its scores are first needed.

    environ: RERANK_BASE_URL and RERANK_API_KEY are read from here.
    shape: `jina` sends model, query, documents and top_n, and gets results with index and
        relevance_score (Jina, Cohere, vLLM, llama.cpp, infinity); `tei` sends query and texts, and
        gets a list with index and score.
    batch_size: documents per request at most; None for that of the shape.
    concurrency: queries at once, each with one request on its way. truncate: let TEI shorten what
        is too long; else it refuses. The other form of a request cannot say so.
    connect: makes the server of a base URL and headers.

    Raises: InputError for an address or key that cannot be one, another shape, or a shape that
        cannot be told not to shorten.
    """

    name: str
    environ: Mapping[str, str] = field(repr=False)
    shape: str = "jina"
    batch_size: int | None = None
    concurrency: int = 4
    truncate: bool = True
    connect: Callable[..., Server] = field(default=Server, repr=False)

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise InputError(
                f"shape={self.shape} is not known", hint=f"Give one of {', '.join(SHAPES)}."
            )
        if not self.truncate and self.shape != "tei":
            raise InputError(
                f"--no-truncate cannot be kept by http:{self.name}: a request of this form cannot "
                "tell the server not to shorten",
                hint="Leave it out, or add shape=tei for a server of text-embeddings-inference. A "
                "first stage can be ranked with it alone, by --runs DIR, and named as run:FILE.",
            )
        _ = self._url, self._headers

    def facts(self) -> RerankerFacts:
        """The server's address, and what becomes of pairs that are too long."""
        too_long = {
            ("jina", True): "left to the server, which does not tell",
            ("tei", True): "shortened by the server, which does not tell",
            ("tei", False): "refused",
        }
        return RerankerFacts(
            details={
                "server": host_and_path(self._url),
                "pairs too long": too_long[self.shape, self.truncate],
            }
        )

    def score(self, query: str, documents: Sequence[str]) -> Scored:
        """Scores of one query with each document, in requests of at most `batch_size`."""
        size = self.batch_size or BATCH_SIZES[self.shape]
        found = [
            self._scores(query, documents[start : start + size])
            for start in range(0, len(documents), size)
        ]
        return _joined(found)

    @cached_property
    def _url(self) -> httpx.URL:
        given = self.environ.get(URL, "")
        if not given.strip():
            raise InputError(
                f"http:{self.name} needs the address of a server, and {URL} is not set",
                hint=f"Set {URL}=http://localhost:8080, or https://api.jina.ai/v1.",
            )
        return without_endpoint(read_base_url(given, URL), "/rerank")

    @cached_property
    def _headers(self) -> dict[str, str]:
        return bearer(self.environ.get(KEY, "").strip(), KEY)

    @cached_property
    def _server(self) -> Server:
        other = next(shape for shape in SHAPES if shape != self.shape)
        asked = f"Check the model's name and {URL}; servers of the other form want shape={other}."
        return self.connect(
            self._url,
            headers=self._headers,
            hint=f"Start the server, or set {URL}: it is {shown(self._url)} now.",
            hints={
                401: f"{KEY} is wrong." if self._headers else f"Set {KEY}.",
                **dict.fromkeys((400, 404, 405, 422), asked),
            },
            concurrency=self.concurrency,
            list_name="results",
        )

    def _scores(self, query: str, documents: Sequence[str]) -> Scored:
        """Scores of one request, or of two halves where the server refuses it as too large."""
        try:
            reply, seconds = self._server.post_timed("/rerank", self._body(query, documents))
        except RequestRefused as error:
            if not error.may_be_size or len(documents) == 1:
                raise
            middle = (len(documents) + 1) // 2
            halves = documents[:middle], documents[middle:]
            return _joined([self._scores(query, half) for half in halves])
        return Scored(self._read(reply, len(documents)), seconds=seconds)

    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        if self.shape == "tei":
            return {
                "query": query,
                "texts": list(documents),
                "truncate": self.truncate,
                # Else a sigmoid follows, which rounds what is nearly 1 to ties.
                "raw_scores": True,
            }
        return {
            "model": self.name,
            "query": query,
            "documents": list(documents),
            "top_n": len(documents),
        }

    def _read(self, reply: Mapping[str, Any], n_documents: int) -> NDArray[np.float64]:
        place = f"model '{self.name}' at {shown(self._url)}"
        items = reply.get("results")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ProviderError(
                f"{place}: the answer has no list of scores",
                hint=f"Check that {URL} is a server with /rerank.",
            )
        key = "score" if self.shape == "tei" else "relevance_score"
        scores = np.full(n_documents, np.nan)
        for item in items:
            index, score = item.get("index"), item.get(key)
            if type(index) is not int or not 0 <= index < n_documents:
                raise ProviderError(
                    f"{place}: a score came back with the index {index!r:.20} that no document has"
                )
            if not np.isnan(scores[index]):
                raise ProviderError(f"{place}: two scores came back for document {index}")
            scores[index] = _finite(score)
            if np.isnan(scores[index]):
                raise ProviderError(
                    f"{place}: the {key} of document {index} is no finite number",
                    hint="Check that this is a model for reranking.",
                )
        missing = np.flatnonzero(np.isnan(scores))
        if missing.size:
            raise ProviderError(
                f"{place}: {counted(len(items), 'score')} came back for "
                f"{counted(n_documents, 'document')}; the first "
                f"without one is {missing[0]}",
                hint="A server must score every document that it is sent.",
            )
        return scores


def _joined(parts: Sequence[Scored]) -> Scored:
    """The scores of requests that were sent one after the other."""
    seconds = sum(part.seconds or 0.0 for part in parts)
    return Scored(np.concatenate([part.scores for part in parts]), seconds=seconds)


def _finite(value: object) -> float:
    """The number, NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:
        return math.nan
