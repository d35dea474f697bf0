"""Models that an Ollama server holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv6Address, ip_address
from shlex import quote
from typing import Any

import httpx
import numpy as np

from embed_ab.errors import InputError, ProviderError
from embed_ab.formats import counted
from embed_ab.providers.addresses import bearer, read_base_url, shown
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

BATCH_SIZE = 8  # some versions give worse vectors from 16 texts on: ollama/ollama issue 6262
_PORT = 11434
# Without being asked, models of 32,768 and more tokens would take gigabytes for their context.
_MAX_CONTEXT = 8192
_OURS = {
    "model": "The model is the name after ollama:.",
    "truncate": "Say --no-truncate to have texts that are too long named.",
    "dimensions": "Write ollama:NAME,dim=256: it cuts the vectors here.",
}


def base_url(environ: Mapping[str, str]) -> httpx.URL:
    """The server that OLLAMA_HOST names, read as Ollama reads it; 127.0.0.1:11434 without one.

    An address to listen on, such as 0.0.0.0, becomes the loopback address. Raises: InputError.
    """
    text = environ.get("OLLAMA_HOST", "").strip().strip("\"'").strip()
    scheme, has_scheme, rest = text.rpartition("://")
    host, slash, path = rest.partition("/")
    if _is_ipv6(host):
        host = f"[{host}]"
    if not host or host.startswith(":"):
        host = f"127.0.0.1{host}"
    if not has_scheme and not re.search(r":\d+$", host):
        host = f"{host}:{_PORT}"  # with a scheme, it is that scheme's own port
    url = read_base_url(f"{scheme or 'http'}://{host}{slash}{path}", "OLLAMA_HOST")
    try:
        address = ip_address(url.host)
    except ValueError:
        return url
    if address.is_unspecified:
        return url.copy_with(host="::1" if address.version == 6 else "127.0.0.1")
    return url


def server(
    environ: Mapping[str, str], model: str, *, connect: Callable[..., Server] = Server, **more: Any
) -> Server:
    """The server of an environment; `more` goes to `connect`. Raises: InputError."""
    url = base_url(environ)
    return connect(
        url,
        headers=bearer(environ.get("OLLAMA_API_KEY", "").strip(), "OLLAMA_API_KEY"),
        hint=f"Start it with `ollama serve`, or set OLLAMA_HOST: it is {shown(url)} now.",
        hints={
            # The name may come from a pull request, and the command is there to be copied.
            404: f"ollama pull {quote(model)}. Check that OLLAMA_HOST is an Ollama server."
        },
        **more,
    )


class NotTold(ProviderError):
    """A server lists no models; unlike a RequestRefused it is never the fault of a text."""


def listed_digest(server: Server, name: str) -> str | None:
    """Digest of the model that a name means on a server now; "" where it tells none, None without.

    Raises: NotTold, another ProviderError.
    """
    try:
        listed = server.get("/api/tags").get("models")
    except RequestRefused as refused:
        raise NotTold(refused.unquoted, hint=refused.hint, said=refused.said) from refused
    for model in listed if isinstance(listed, list) else []:
        is_model = isinstance(model, dict) and isinstance(model.get("name"), str)
        if is_model and _full_name(model["name"]) == _full_name(name):
            return _word(model.get("digest"))
    return None


@dataclass(frozen=True)
class OllamaEmbedder(ServedModel):
    """A model of an Ollama server; environ has OLLAMA_HOST and OLLAMA_API_KEY.

    max_length: tokens of a text that the server is asked to make room for; None takes what the
        model has, up to 8,192.

    Raises: InputError for an address or key that cannot be one, and for parameters that would
        change what is ours to say.
    """

    batch_size: int = BATCH_SIZE
    max_length: int | None = None

    def __post_init__(self) -> None:
        base_url(self.environ)
        bearer(self.environ.get("OLLAMA_API_KEY", "").strip(), "OLLAMA_API_KEY")
        refuse_fields(self.query_params, self.document_params, _OURS)

    def identity(self) -> str:
        """Digest of the model's files, server version and length: never the tag.

        Asks the server. Raises: ProviderError if it is down or lacks the model.
        """
        return f"ollama|{self._digest}|{self._version}|max_length={self.max_length}"

    def facts(self) -> ModelFacts:
        """What the server says of the model, and the dimension of a first vector.

        Raises: ProviderError; InputError for a max_length above the model's.
        """
        details = self._shown.get("details")
        said = details if isinstance(details, dict) else {}
        titles = {
            "family": said.get("family"),
            "parameters": said.get("parameter_size"),
            "quantisation": said.get("quantization_level"),
            "server": f"Ollama {self._version}",
        }
        # By trying: models with a dense layer at their end say another length.
        dimension = self.send([PLAIN_TEXT], "document").vectors.shape[1]
        return ModelFacts(
            dimension=dimension,
            query_prompt=self.query_prompt or "",
            document_prompt=self.document_prompt or "",
            max_length=self._context,
            revision=self._digest,
            details={title: _word(value) for title, value in titles.items() if _word(value)},
        )

    @cached_property
    def _url(self) -> httpx.URL:
        return base_url(self.environ)

    @cached_property
    def _server(self) -> Server:
        return server(self.environ, self.name, connect=self.connect, concurrency=self.concurrency)

    @cached_property
    def _digest(self) -> str:
        return self._digest_now()

    def _check_unmoved(self) -> None:
        if self._digest_now() != self._digest:
            raise ProviderError(
                f"{self._place}: the model has changed while it was used",
                hint="Run the same command again: what the model before made is not used.",
            )

    def _digest_now(self) -> str:
        """Digest of the model that the name means now."""
        digest = listed_digest(self._server, self.name)
        if digest is None:
            raise ProviderError(
                f"{self._place}: the model has not been pulled",
                hint=f"ollama pull {quote(self.name)}",
            )
        if not digest:
            raise ProviderError(
                f"{self._place}: the server does not tell the model's digest",
                hint="Without it a changed model would go unnoticed: use a real Ollama, "
                "or openai: for another server.",
            )
        return digest

    @cached_property
    def _version(self) -> str:
        return _word(self._server.get("/api/version").get("version"))

    @cached_property
    def _shown(self) -> dict[str, Any]:
        return self._server.post("/api/show", {"model": self.name})

    @cached_property
    def _context(self) -> int | None:
        """Tokens that the server is asked to make room for; None where it tells no limit."""
        info = self._shown.get("model_info")
        limit = None
        if isinstance(info, dict):
            limit = info.get(f"{info.get('general.architecture')}.context_length")
        if type(limit) is not int or limit < 1:
            return self.max_length
        if self.max_length is not None and self.max_length > limit:
            raise InputError(
                f"max_length={self.max_length} is more than the {limit} tokens of model "
                f"'{self.name}'",
                hint=f"Give at most {limit}.",
            )
        return self.max_length or min(limit, _MAX_CONTEXT)

    @property
    def _place(self) -> str:
        return f"model '{self.name}' at {shown(self._url)}"

    def send(self, texts: Sequence[str], role: Role) -> Answer:
        """As `ServedModel.send`; also raises where the name came to mean another model."""
        body: dict[str, Any] = {
            "model": self.name,
            "input": self.prompted(texts, role),
            # An error tells which text is too long; cut in silence, nobody would know.
            "truncate": False,
        }
        options: dict[str, Any] = {}
        if self._context is not None:
            options["num_ctx"] = self._context
        if self.max_length is not None:
            # A text must fit into one batch, which is 512 or 2,048 tokens unless asked.
            options["num_batch"] = self.max_length
        params = self.params(role)
        given = params.pop("options", {})
        options |= given if isinstance(given, dict) else {}
        body |= params | ({"options": options} if options else {})
        reply, seconds = self._server.post_timed("/api/embed", body)
        # After each answer: what is stored under a digest must be that model's, and to ask for it
        # takes a small part of the time of a batch.
        self._check_unmoved()
        n_tokens = reply.get("prompt_eval_count")
        is_count = type(n_tokens) is int and 0 < n_tokens < 2**53
        return Answer(self._read(reply, len(texts)), n_tokens if is_count else None, seconds)

    def _read(self, reply: Mapping[str, Any], n_texts: int) -> Vectors:
        found = reply.get("embeddings")
        if found is None:
            found = reply.get("embedding")  # of some versions; one vector, or a list of them
            if isinstance(found, list) and found and not isinstance(found[0], list):
                found = [found]
        if not isinstance(found, list) or len(found) != n_texts:
            n_found = counted(len(found), "vector") if isinstance(found, list) else "no vectors"
            raise self._fault(f"{n_found} came back for {counted(n_texts, 'text')}")
        try:
            with np.errstate(over="ignore"):  # infinity is found later, with the text's name
                vectors = np.array(found, dtype=np.float64).astype(np.float32)
        except (TypeError, ValueError, OverflowError):
            raise self._fault(
                "vectors came back that are no numbers, or differ in length"
            ) from None
        if vectors.ndim != 2 or not vectors.shape[1]:
            raise self._fault("empty vectors came back")
        return vectors

    def _fault(self, fault: str) -> ProviderError:
        return ProviderError(
            f"{self._place}: {fault} from /api/embed of Ollama {self._version}",
            hint="Try batch_size=1, or another version of Ollama.",
        )


def _full_name(name: str) -> str:
    """A name with what Ollama leaves out of names: its own registry, library, and latest."""
    name = name.lower().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _is_ipv6(text: str) -> bool:
    try:
        return isinstance(ip_address(text), IPv6Address)
    except ValueError:
        return False


def _word(value: object) -> str:
    """A short printable text as the server gave it, else ""."""
    return value if isinstance(value, str) and value.isprintable() and len(value) < 200 else ""
