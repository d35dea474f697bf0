"""Stand-ins for rerank servers: text-embeddings-inference's form, and that of Jina and Cohere."""

from __future__ import annotations

import json
import math
import threading
from collections import deque
from typing import Any, Literal

import loopback
import numpy as np
from fake_openai import Behaviour, Handler

from embed_ab.providers.mock import MockEmbedder

_FIELDS = {
    "tei": {"query", "texts", "truncate", "raw_scores", "return_text", "truncation_direction"},
    "jina": {"model", "query", "documents", "top_n", "return_documents"},
}


def fake_score(query: str, document: str) -> float:
    """The inner product of two mock vectors, so that likeness counts."""
    vectors = MockEmbedder("char3").embed([query, document], "query").vectors.astype(np.float64)
    return float(vectors[0] @ vectors[1])


class FakeReranker:
    """A server on loopback; a context manager.

    shape: `tei` knows query and texts, and answers a list with the best first, of scores behind a
        sigmoid unless raw ones are asked for; `jina` knows model, query, documents and top_n, and
        answers results with the best first.
    key: what the Authorization header has to hold; None asks for none. max_documents: of a request.
    script: behaviours for the next requests, one each, in turn.
    """

    def __init__(
        self,
        shape: Literal["tei", "jina"] = "jina",
        *,
        key: str | None = None,
        path: str = "/rerank",
        models: tuple[str, ...] = ("reranker",),
        max_documents: int = 1000,
    ) -> None:
        self.shape = shape
        self.key = key
        self.path = path
        self.models = models
        self.max_documents = max_documents
        self.script: deque[Behaviour] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def __enter__(self) -> FakeReranker:
        fake = self

        class Bound(_Handler):
            state = fake

        self._served = loopback.serving(Bound)
        self._port = self._served.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._served.__exit__(*error)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{self.path.removesuffix('/rerank')}"

    def documents(self, body: dict[str, Any]) -> Any:
        return body.get("texts" if self.shape == "tei" else "documents")


class _Handler(Handler):
    state: FakeReranker
    reply: Any

    def respond(self) -> None:
        state = self.state
        if self.path != state.path:
            return self.refuse(404, f"there is no {self.path}")
        if state.key and self.headers["Authorization"] != f"Bearer {state.key}":
            return self.refuse(401, "wrong key")
        body = json.loads(self.content)
        with state.lock:
            state.bodies.append(body)
            behaviour = state.script.popleft() if state.script else None
        if fault := self._reranker_fault(body):
            return self.refuse(*fault)
        self.reply = self._ranked(body)
        if behaviour is not None:
            behaviour(self)
        if self.reply is not None:
            self.send(200, json.dumps(self.reply))

    def _reranker_fault(self, body: dict[str, Any]) -> tuple[int, str] | None:
        state = self.state
        documents = state.documents(body)
        if unknown := set(body) - _FIELDS[state.shape]:
            return 422, f"unknown field {', '.join(sorted(unknown))}"
        if not isinstance(documents, list) or not documents:
            return 422, "missing field: the documents"
        if not all(isinstance(text, str) and text for text in [body.get("query"), *documents]):
            return 422, "query and documents are texts"
        if len(documents) > state.max_documents:
            return 413, f"batch size {len(documents)} > maximum {state.max_documents}"
        if state.shape == "jina" and body.get("model") not in state.models:
            return 404, f"there is no model {body.get('model')}"
        if state.shape == "jina" and body.get("top_n") != len(documents):
            return 400, "top_n"
        return None

    def _ranked(self, body: dict[str, Any]) -> Any:
        is_tei = self.state.shape == "tei"
        is_raw = not is_tei or body.get("raw_scores", False)
        scores = [fake_score(body["query"], text) for text in self.state.documents(body)]
        found = [
            {
                "index": index,
                "score" if is_tei else "relevance_score": score
                if is_raw
                else 1 / (1 + math.exp(-score)),
            }
            for index, score in enumerate(scores)
        ]
        found.sort(key=lambda item: -max(v for k, v in item.items() if k != "index"))
        return found if is_tei else {"model": body["model"], "results": found}


def edit_results(change: Any) -> Behaviour:
    """Change the list of scores of the reply in place."""

    def behave(handler: Any) -> None:
        reply = handler.reply
        change(reply if isinstance(reply, list) else reply["results"])

    return behave
