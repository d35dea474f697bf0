"""Models of sentence-transformers, from a hub name or a local folder.

torch, transformers and sentence_transformers are imported only when vectors are really needed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError, ProviderError
from embed_ab.formats import counted
from embed_ab.providers.base import Embedded, ModelFacts, Role, Vectors, given_prompts
from embed_ab.providers.model_files import first_line
from embed_ab.providers.model_source import (
    ModelSource,
    dtype_of,
    length_limit,
    limit_length,
    quiet,
    versions,
)

POOLINGS = ("mean", "cls", "lasttoken", "max")
_ROLE_PROMPTS: dict[Role, tuple[str, ...]] = {
    # The names that encode_query and encode_document look for, in their order.
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}


@dataclass(frozen=True)
class SentenceTransformerEmbedder:
    """A sentence-transformers model, loaded when its facts or vectors are first needed.

    name: a hub name (`owner/name`) or a local folder.
    revision: branch, tag or commit of a hub name; None takes the commit that the local hub cache
        knows for the default branch, else the newest.
    max_length: limit in tokens instead of the model's own; dtype: one of DTYPES, pooling: one of
        POOLINGS instead of the model's own. query_prompt, document_prompt: beat the model's own;
        "" switches it off.
    offline: never ask the hub. trust_remote_code, allow_pickle: what may run code on this machine.

    Raises: InputError for a folder that does not exist, a revision of a folder or another dtype;
    ProviderError, from everything that resolves or loads, for whatever the model or the hub lacks.
    """

    name: str
    revision: str | None = None
    max_length: int | None = None
    device: str | None = None
    dtype: str | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    batch_size: int = 8
    pooling: str | None = None

    def __post_init__(self) -> None:
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise InputError(
                f"pooling={self.pooling} is not known", hint=f"Give one of {', '.join(POOLINGS)}."
            )
        _ = self._source  # says what is wrong with the name

    @cached_property
    def fingerprint(self) -> str:
        """Content of the folder or commit on the hub, options and library versions."""
        options = f"max_length={self.max_length}|dtype={self.dtype}|device={self.device}"
        if self.pooling is not None:
            options += f"|pooling={self.pooling}"
        libraries = "|".join(f"{package}={found}" for package, found in versions().items())
        source = self._source.fingerprint
        return f"st|{source}|{options}|remote_code={self.trust_remote_code}|{libraries}"

    @property
    def hub_name(self) -> str:
        """Full name on the hub, "" for a local folder."""
        return "" if self._source.is_folder else self._source.hub_name

    @property
    def prompts(self) -> Mapping[Role, str]:
        """Prompts the user gave."""
        return given_prompts(self.query_prompt, self.document_prompt)

    def facts(self) -> ModelFacts:
        """Dimension, prompts in use, length limit and commit; loads the model."""
        model = self._model
        return ModelFacts(
            # By trying: the method that tells it has another name in each version.
            dimension=self._encode(model, ["dimension"], "document").shape[1],
            query_prompt=self._prompt("query"),
            document_prompt=self._prompt("document"),
            max_length=length_limit(model),
            revision=self._source.known_revision,
            details={
                "dtype": dtype_of(model),
                "device": str(model.device),
                "modules": ", ".join(_module_title(module) for module in model),
                **versions(),
            },
        )

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        """Vectors and token counts of the texts, short texts sharing batches with short ones."""
        model = self._model
        n_tokens = self._count_tokens(texts, role)
        lengths = [len(text) for text in texts] if n_tokens is None else n_tokens
        order = np.argsort(lengths, kind="stable")[::-1]
        sorted_vectors = self._encode(model, [texts[row] for row in order.tolist()], role)
        vectors = np.empty_like(sorted_vectors)
        vectors[order] = sorted_vectors
        is_sound = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
        for row in np.flatnonzero(~is_sound).tolist():
            # Half precision or padding may be the reason: once more, alone and in float32.
            vectors[row] = self._encode(self._model_in_float32, [texts[row]], role)[0]
        return Embedded(vectors=vectors, n_tokens=n_tokens)

    @cached_property
    def _source(self) -> ModelSource:
        return ModelSource(
            name=self.name,
            owner="sentence-transformers",
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
            offline=self.offline,
        )

    @cached_property
    def _model(self) -> Any:
        model = self._source.load("SentenceTransformer")
        if self._source.hub_name.startswith("hkunlp/instructor-"):
            # The library knows these by name, which a folder does not carry.
            model.set_pooling_include_prompt(include_prompt=False)
        if self.max_length is not None:
            limit_length(self.name, model, self.max_length)
        if self.pooling is not None:
            _set_pooling(self.name, model, self.pooling)
        return model

    @cached_property
    def _model_in_float32(self) -> Any:
        return copy.deepcopy(self._model).float()

    def _prompt(self, role: Role) -> str:
        """The prompt in use: the user's, else what encode_query or encode_document would use."""
        given = self.prompts.get(role)
        if given is not None:
            return given
        model = self._model
        names = [*_ROLE_PROMPTS[role], model.default_prompt_name]
        return next((model.prompts[name] or "" for name in names if name in model.prompts), "")

    def _encode(self, model: Any, texts: Sequence[str], role: Role) -> Vectors:
        """float32 vectors as the model gives them, in batches of texts that follow each other."""
        encode = model.encode_query if role == "query" else model.encode_document
        prompt = self._prompt(role)
        try:
            with quiet():
                batches = [
                    encode(
                        list(texts[start : start + self.batch_size]),
                        prompt=prompt,
                        batch_size=self.batch_size,
                        show_progress_bar=False,
                        convert_to_tensor=True,  # numpy has no bfloat16
                    )
                    .float()
                    .cpu()
                    .numpy()
                    for start in range(0, len(texts), self.batch_size)
                ]
        except Exception as error:  # out of memory, or whatever a model's own code raises
            raise ProviderError(
                f"model '{self.name}' could not embed {counted(len(texts), 'text')} "
                f"({type(error).__name__})",
                hint="A smaller batch size or max_length needs less memory.",
                said=first_line(error),
            ) from error
        return np.concatenate(batches)

    def _count_tokens(self, texts: Sequence[str], role: Role) -> NDArray[np.int64] | None:
        """Tokens of each text with prompt and special tokens, nothing cut; None without a limit."""
        model = self._model
        tokenizer = model.tokenizer
        if length_limit(model) is None or not callable(tokenizer):
            return None
        prompt = self._prompt(role)
        with quiet():
            encoded = tokenizer(
                [prompt + text for text in texts],
                padding=False,
                truncation=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
        return np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.int64)


def _set_pooling(name: str, model: Any, pooling: str) -> None:
    for module in model:
        # Several at once would change the dimension.
        if isinstance(getattr(module, "pooling_mode", None), str):
            module.pooling_mode = pooling
            return
    raise InputError(
        f"model '{name}' does not pool tokens, so pooling={pooling} changes nothing",
        hint="Leave out pooling.",
    )


def _module_title(module: Any) -> str:
    mode = (
        getattr(module, "pooling_mode", None)
        or getattr(module, "get_pooling_mode_str", lambda: None)()
    )
    title = type(module).__name__
    return title if mode is None else f"{title} ({mode})"
