"""Models behind any server that answers like OpenAI's /v1/embeddings."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpx
import numpy as np

from embed_ab.errors import InputError, ProviderError
from embed_ab.formats import counted
from embed_ab.providers.addresses import (
    bearer,
    host_and_path,
    is_secret_name,
    read_base_url,
    shown,
    without_endpoint,
)
from embed_ab.providers.base import (
    PLAIN_TEXT,
    ModelFacts,
    Role,
    Vectors,
    refuse_fields,
)
from embed_ab.providers.batching import Answer
from embed_ab.providers.http import RequestRefused, Server
from embed_ab.providers.served import ServedModel

DEFAULT_URL = "https://api.openai.com/v1"
BATCH_SIZE = 64
_ONE_BY_ONE = "With batch_size=1 each answer holds one vector, and nothing can be mixed up."
_OURS = {
    "model": "The model is the name after openai:.",
    "encoding_format": "Vectors come as floats; how they travel is settled with the server.",
    "dimensions": "Write openai:NAME,dimensions=256.",
}
# Hosts whose models want to be told queries from documents by a field of the request.
_ASYMMETRIC = {
    r"(^|\.)voyageai\.com$": ("Voyage", '{"input_type": "query"}', '{"input_type": "document"}'),
    r"(^|\.)cohere\.(com|ai)$": (
        "Cohere",
        '{"input_type": "search_query"}',
        '{"input_type": "search_document"}',
    ),
}


@dataclass(frozen=True)
class OpenAIEmbedder(ServedModel):
    """A model of such a server; environ has OPENAI_BASE_URL and OPENAI_API_KEY.

    dimensions: asked of the server.

    Raises: InputError for an address or key that cannot be one, and for parameters that would
        change what is ours to say.
    """

    batch_size: int = BATCH_SIZE
    dimensions: int | None = None
    # What this server takes: "encoding_format" once it refused that, "" once it took everything.
    _known: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        headers(self._url, self.environ)
        refuse_fields(self.query_params, self.document_params, _OURS)

    def identity(self) -> str:
        """Host, path and parameters without keys, model and dimensions; no scheme."""
        public = sorted(
            pair for pair in self._url.params.multi_items() if not is_secret_name(pair[0])
        )
        query = f"?{json.dumps(public)}" if public else ""
        return f"openai|{host_and_path(self._url)}{query}|{self.name}|dimensions={self.dimensions}"

    @property
    def missing_params(self) -> str:
        """One sentence where a known host wants fields that no request will have, else ""."""
        for pattern, (maker, query, document) in _ASYMMETRIC.items():
            if re.search(pattern, self._url.host) and not (
                self.query_params and self.document_params
            ):
                return (
                    f"{maker} tells queries from documents by a field of the request "
                    f"(query-params {query}, doc-params {document}), and this run sends none."
                )
        return ""

    def facts(self) -> ModelFacts:
        """Dimension, prompts and address, by embedding one short text for each role."""
        roles: list[Role] = ["document", "query"] if self.query_params else ["document"]
        for role in roles:
            vectors, reported = self._probe(role)
        return ModelFacts(
            dimension=vectors.shape[1],
            query_prompt=self.query_prompt or "",
            document_prompt=self.document_prompt or "",
            details={
                "server": host_and_path(self._url),
                # Some servers answer with the one model they hold, whatever was asked for.
                **({"model that answered": reported} if reported != self.name else {}),
            },
        )

    @cached_property
    def _url(self) -> httpx.URL:
        return base_url(self.environ)

    @cached_property
    def _server(self) -> Server:
        return server(self.environ, connect=self.connect, concurrency=self.concurrency)

    def _probe(self, role: Role) -> tuple[Vectors, str]:
        """Vectors of a short text, and the name of the model that answered.

        A refusal here is about the request, not about a text.
        """
        reply, _ = self._ask([PLAIN_TEXT], role)
        vectors = self._read(reply, 1)
        if self.dimensions not in (None, vectors.shape[1]):
            raise ProviderError(
                f"model '{self.name}' was asked for dimensions={self.dimensions} and sent "
                f"{vectors.shape[1]}",
                hint=f"Ask for dim={self.dimensions}: it cuts the vectors here.",
            )
        reported = reply.get("model")
        is_name = isinstance(reported, str) and reported.isprintable() and reported
        return vectors, self._server.masked(str(reported))[:100] if is_name else self.name

    def send(self, texts: Sequence[str], role: Role) -> Answer:
        """As `ServedModel.send`."""
        reply, seconds = self._ask(texts, role)
        return Answer(self._read(reply, len(texts)), _tokens(reply), seconds)

    def _ask(self, texts: Sequence[str], role: Role) -> tuple[dict[str, Any], float]:
        """Return the answer and its seconds; without encoding_format where that is not known."""
        body = self._body(texts, role)
        if not self._known:
            try:
                answered = self._server.post_timed("/embeddings", body)
            except RequestRefused as error:
                if error.status not in (400, 422) or error.names_length:
                    raise
                bare = {name: value for name, value in body.items() if name != "encoding_format"}
                try:
                    answered = self._server.post_timed("/embeddings", bare)
                except RequestRefused:
                    raise error from None
                self._known.add("encoding_format")
            else:
                self._known.add("")
            return answered
        return self._server.post_timed("/embeddings", body)

    def _body(self, texts: Sequence[str], role: Role) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "input": self.prompted(texts, role),
            "encoding_format": "base64",
        }
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        if "encoding_format" in self._known:
            del body["encoding_format"]
        return body | self.params(role)

    def _read(self, reply: Mapping[str, Any], n_texts: int) -> Vectors:
        place = f"model '{self.name}' at {shown(self._url)}"
        items = reply.get("data")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ProviderError(
                f"{place}: the answer has no list of vectors in `data`",
                hint="Check that OPENAI_BASE_URL is an OpenAI-compatible server.",
                said=self._server.masked(_error_text(reply)),
            )
        if len(items) != n_texts:
            came, asked = counted(len(items), "vector"), counted(n_texts, "text")
            raise ProviderError(f"{place}: {came} came back for {asked}", hint=_ONE_BY_ONE)
        places: dict[int, int] = {}
        for place_in_answer, item in enumerate(items):
            index = item.get("index")
            if type(index) is not int or not 0 <= index < n_texts or index in places:
                what = "twice" if type(index) is int and index in places else "that no text has"
                raise ProviderError(
                    f"{place}: a vector came back with the index {index!r:.20} {what}",
                    hint=_ONE_BY_ONE,
                )
            places[index] = place_in_answer
        values = [items[places[index]].get("embedding") for index in range(n_texts)]
        if (vectors := _alike(values)) is not None:
            return vectors
        rows = [_vector(value, place) for value in values]
        dimensions = sorted({len(vector) for vector in rows})
        if len(dimensions) > 1:
            raise ProviderError(
                f"{place}: vectors of {dimensions[0]} and {dimensions[-1]} dimensions in one answer"
            )
        return np.stack(rows)


def base_url(environ: Mapping[str, str]) -> httpx.URL:
    """The server that OPENAI_BASE_URL names, OpenAI's own without it. Raises: InputError."""
    url = read_base_url(environ.get("OPENAI_BASE_URL") or DEFAULT_URL, "OPENAI_BASE_URL")
    return without_endpoint(url, "/embeddings", default="/v1")


def server(
    environ: Mapping[str, str], *, connect: Callable[..., Server] = Server, **more: Any
) -> Server:
    """The server of an environment; `more` goes to `connect`. Raises: InputError."""
    key, url = "OPENAI_API_KEY", base_url(environ)
    return connect(
        url,
        headers=headers(url, environ),
        hint=f"Start the server, or set OPENAI_BASE_URL: it is {shown(url)} now.",
        hints={
            401: f"{key} is wrong." if environ.get(key) else f"Set {key}.",
            404: "Check the model's name, and OPENAI_BASE_URL: it usually ends in /v1.",
        },
        **more,
    )


def headers(url: httpx.URL, environ: Mapping[str, str]) -> dict[str, str]:
    """The header with the key, none without one. Raises: InputError."""
    key = environ.get("OPENAI_API_KEY", "").strip()
    is_azure = bool(re.search(r"\.azure\.(com|us|cn)$", url.host)) or "api-version" in url.params
    if not key:
        if is_azure or url.host == httpx.URL(DEFAULT_URL).host:
            raise InputError(
                f"{url.host} wants a key, and OPENAI_API_KEY is not set",
                hint="Set OPENAI_API_KEY, or OPENAI_BASE_URL to a server of your own.",
            )
        return {}
    header = bearer(key, "OPENAI_API_KEY")
    return {"api-key": key} if is_azure else header


def _alike(values: Sequence[object]) -> Vectors | None:
    """Vectors of one length in base64 without padding, all at once; None for any others.

    Each on its own takes so long that a fast server would wait for it.
    """
    texts = [value for value in values if isinstance(value, str)]
    n_characters = len(texts[0]) if texts else 0
    # Sixteen characters are three numbers of four bytes.
    if not n_characters or n_characters % 16 or set(map(len, texts)) != {n_characters}:
        return None
    try:
        content = base64.b64decode("".join(texts), validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(texts) != len(values) or len(content) * 4 != len(values) * n_characters * 3:
        return None
    return (
        np.frombuffer(content, dtype="<f4").astype(np.float32, copy=False).reshape(len(values), -1)
    )


def _vector(value: object, place: str) -> Vectors:
    """float32 (dimension,) of base64 or a list of numbers; null in a list is NaN."""
    vector = np.empty(0, dtype=np.float32)
    try:
        if isinstance(value, str):
            content = base64.b64decode(value, validate=True)
            vector = np.frombuffer(content, dtype="<f4").astype(np.float32, copy=False)
        elif isinstance(value, list):
            with np.errstate(over="ignore"):  # infinity is found later, with the text's name
                vector = np.array(value, dtype=np.float64).astype(np.float32)
    except (binascii.Error, TypeError, ValueError, OverflowError):
        pass
    if vector.ndim != 1 or not vector.size:
        raise ProviderError(
            f"{place}: a vector came back that is no list of numbers and no base64",
            hint="Check that this is a model for embeddings, with one vector a text.",
        )
    return vector


def _tokens(reply: Mapping[str, Any]) -> int | None:
    """Tokens that the server counted; None where it did not, which some say as 0."""
    usage = reply.get("usage")
    counts = (
        [usage.get(name) for name in ("total_tokens", "prompt_tokens")]
        if isinstance(usage, dict)
        else []
    )
    return next((count for count in counts if type(count) is int and 0 < count < 2**53), None)


def _error_text(reply: Mapping[str, Any]) -> str:
    """What an answer says that is an error in spite of its status."""
    error = reply.get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return text[:300] if isinstance(text, str) else ""
