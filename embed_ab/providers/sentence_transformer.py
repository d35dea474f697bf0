"""Models of sentence-transformers, from a hub name or a local folder.

torch, transformers and sentence_transformers are imported only when vectors are really needed.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.base import Embedded, ModelFacts, Role, Vectors
from embed_ab.providers.model_files import (
    PICKLE_HINT,
    REMOTE_CODE_HINT,
    check_files,
    digest_of,
    first_line,
    hub_folder,
    hub_place,
    is_commit,
    not_fetched,
)

DTYPES = ("float32", "float16", "bfloat16")
POOLINGS = ("mean", "cls", "lasttoken", "max")
_PACKAGES = ("sentence-transformers", "transformers", "torch")
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
        if self.dtype is not None and self.dtype not in DTYPES:
            raise InputError(
                f"dtype={self.dtype} is not known", hint=f"Give one of {', '.join(DTYPES)}."
            )
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise InputError(
                f"pooling={self.pooling} is not known", hint=f"Give one of {', '.join(POOLINGS)}."
            )
        if self._is_folder:
            if self.revision is not None:
                raise InputError(
                    f"{self.name} is a folder, and a folder has no revision",
                    hint="Leave out revision, or give the model's name on the hub.",
                )
        elif self.name.startswith((".", "/", "~")) or re.search(r"\\|/.*/|^\s*$", self.name):
            raise InputError(
                f"{self.name}: there is no such folder",
                hint="Give a folder that exists, or a name on the hub like owner/model.",
            )

    @cached_property
    def fingerprint(self) -> str:
        """Content of the folder or commit on the hub, options and library versions."""
        source = (
            f"folder={digest_of(self._folder, self.trust_remote_code)}"
            if self._is_folder
            else f"hub={self._hub_name}@{self._commit}"
        )
        options = f"max_length={self.max_length}|dtype={self.dtype}|device={self.device}"
        if self.pooling is not None:
            options += f"|pooling={self.pooling}"
        libraries = "|".join(f"{package}={found}" for package, found in _versions().items())
        return f"st|{source}|{options}|remote_code={self.trust_remote_code}|{libraries}"

    @property
    def hub_name(self) -> str:
        """Full name on the hub, "" for a local folder."""
        return "" if self._is_folder else self._hub_name

    @property
    def prompts(self) -> Mapping[Role, str]:
        """Prompts the user gave."""
        given: dict[Role, str | None] = {
            "query": self.query_prompt,
            "document": self.document_prompt,
        }
        return {role: prompt for role, prompt in given.items() if prompt is not None}

    def facts(self) -> ModelFacts:
        """Dimension, prompts in use, length limit and commit; loads the model."""
        model = self._model
        return ModelFacts(
            # By trying: the method that tells it has another name in each version.
            dimension=self._encode(model, ["dimension"], "document").shape[1],
            query_prompt=self._prompt("query"),
            document_prompt=self._prompt("document"),
            max_length=_length_limit(model),
            revision="" if self._is_folder else self._commit,
            details={
                "dtype": _dtype(model),
                "device": str(model.device),
                "modules": ", ".join(_module_title(module) for module in model),
                **_versions(),
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

    @property
    def _is_folder(self) -> bool:
        return bool(self.name) and self._path.is_dir()

    @property
    def _path(self) -> Path:
        return Path(os.path.expanduser(self.name))  # unlike Path's, it takes ~ of no user

    @property
    def _hub_name(self) -> str:
        # sentence-transformers itself completes a bare name so.
        return self.name if "/" in self.name else f"sentence-transformers/{self.name}"

    @cached_property
    def _commit(self) -> str:
        """Commit of a hub name: as given, as the local hub cache knows it, else from the hub."""
        revision = self.revision or "main"
        if is_commit(revision):
            return revision
        folder = _hub_cache(self.offline) / hub_place(self._hub_name)
        known = folder / "refs" / revision
        commit = known.read_text().strip() if known.is_file() else ""
        return commit if is_commit(commit) else self._download(revision).name

    @cached_property
    def _folder(self) -> Path:
        """The local folder with the model's files."""
        return self._path if self._is_folder else self._download(self._commit)

    def _download(self, revision: str) -> Path:
        """Bring the missing files into the local hub cache; return the folder of the commit."""
        cache = _hub_cache(self.offline)
        from huggingface_hub import HfApi, snapshot_download

        unwanted = not_fetched(remote_code=self.trust_remote_code, pickle=self.allow_pickle)
        refusal: Exception | None = None
        with _quiet():
            if not self.offline and is_commit(revision):
                # Asked first because this fails at once, where a download of a commit goes on
                # trying for 23 seconds. Without an answer a complete local copy will do.
                try:
                    HfApi().model_info(self._hub_name, revision=revision, timeout=10)
                except Exception as error:  # the client raises errors of several HTTP libraries
                    refusal = error
            try:
                return Path(
                    snapshot_download(
                        self._hub_name,
                        revision=revision,
                        cache_dir=cache,
                        ignore_patterns=list(unwanted),
                        local_files_only=self.offline or refusal is not None,
                    )
                )
            except Exception as error:
                cause = refusal or error
                raise _hub_error(self._hub_name, revision, cause, self.offline) from cause

    @cached_property
    def _model(self) -> Any:
        _versions()
        folder = self._folder
        check_files(self.name, folder, remote_code=self.trust_remote_code, pickle=self.allow_pickle)
        if self.offline:
            os.environ["HF_HUB_OFFLINE"] = "1"
        # Set at all, it keeps the tokenizers from warning on every later fork.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        options: dict[str, Any] = {} if self.allow_pickle else {"use_safetensors": True}
        if self.dtype is not None:
            options["torch_dtype"] = self.dtype  # the spelling that all versions take
        try:
            with _quiet():
                import torch
                from sentence_transformers import SentenceTransformer
            with _quiet(), _without_bars():  # again: importing transformers set its log level
                model = SentenceTransformer(
                    str(folder),
                    device=self.device,
                    trust_remote_code=self.trust_remote_code,
                    local_files_only=self.offline,
                    model_kwargs=options,
                )
                if self.dtype is not None:
                    model.to(getattr(torch, self.dtype))  # modules that are no transformers
                if self._hub_name.startswith("hkunlp/instructor-"):
                    # The library knows these by name, which a folder does not carry.
                    model.set_pooling_include_prompt(include_prompt=False)
        except Exception as error:  # a model's files can fail in any way
            raise _load_error(self.name, error) from error
        if self.max_length is not None:
            _limit_length(self.name, model, self.max_length)
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
            with _quiet():
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
                f"model '{self.name}' could not embed {len(texts)} texts ({type(error).__name__})",
                hint="A smaller batch size or max_length needs less memory.",
                said=first_line(error),
            ) from error
        return np.concatenate(batches)

    def _count_tokens(self, texts: Sequence[str], role: Role) -> NDArray[np.int64] | None:
        """Tokens of each text with prompt and special tokens, nothing cut; None without a limit."""
        model = self._model
        tokenizer = model.tokenizer
        if _length_limit(model) is None or not callable(tokenizer):
            return None
        prompt = self._prompt(role)
        with _quiet():
            encoded = tokenizer(
                [prompt + text for text in texts],
                padding=False,
                truncation=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
        return np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.int64)


def _versions() -> dict[str, str]:
    """Versions of the libraries that change vectors, without importing them."""
    try:
        return {package: version(package) for package in _PACKAGES}
    except PackageNotFoundError as error:
        raise ProviderError(
            f"models of sentence-transformers need the package {error.name}, which is missing",
            hint="Install it with pip install 'sentence-transformers>=6.2,<7'; of the images only "
            "the full one has it.",
        ) from error


def _hub_cache(offline: bool) -> Path:
    """Folder where the hub's client and sentence-transformers keep downloaded models."""
    _versions()  # says which package is missing, if one is
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read once, at the first import of the client
    return hub_folder(os.environ)


def _length_limit(model: Any) -> int | None:
    """The model's limit in tokens; None where it has none."""
    limit = model.max_seq_length
    # Tokenizers without a limit say 1e30, static models say infinity.
    return int(limit) if limit is not None and math.isfinite(limit) and limit < 10**9 else None


def _limit_length(name: str, model: Any, max_length: int) -> None:
    if _length_limit(model) is None:
        raise InputError(
            f"model '{name}' has no length limit, so max_length={max_length} changes nothing",
            hint="Leave out max_length.",
        )
    tokenizer: Any = getattr(model, "tokenizer", None)
    if hasattr(tokenizer, "num_special_tokens_to_add"):
        n_special = tokenizer.num_special_tokens_to_add(pair=False)
        if max_length <= n_special:
            raise InputError(
                f"max_length={max_length} leaves no token of a text: model '{name}' adds "
                f"{n_special} of its own",
                hint=f"Give at least {n_special + 1}, better a few hundred.",
            )
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and max_length > positions:
        raise InputError(
            f"max_length={max_length} is more than the {positions} positions of model '{name}'",
            hint=f"Give at most {positions}.",
        )
    model.max_seq_length = max_length


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


def _dtype(model: Any) -> str:
    parameter = next(model.parameters(), None)
    return "" if parameter is None else str(parameter.dtype).removeprefix("torch.")


def _module_title(module: Any) -> str:
    mode = (
        getattr(module, "pooling_mode", None)
        or getattr(module, "get_pooling_mode_str", lambda: None)()
    )
    title = type(module).__name__
    return title if mode is None else f"{title} ({mode})"


def _hub_error(name: str, revision: str, error: Exception, offline: bool) -> ProviderError:
    """Our error for one of the hub's, told apart by class name: the classes move about."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in kinds:
        return ProviderError(
            f"model '{name}' is gated on the hub",
            hint="Accept its terms on its page and set HF_TOKEN to a token that may read it.",
        )
    if "RepositoryNotFoundError" in kinds or "HFValidationError" in kinds:
        return ProviderError(
            f"model '{name}' is not on the hub, or it is private",
            hint="Check the spelling (owner/name), give a local folder, or set HF_TOKEN.",
        )
    if "RevisionNotFoundError" in kinds:
        return ProviderError(
            f"model '{name}' has no revision '{revision}'",
            hint="Give a branch, a tag or a commit that its page lists.",
        )
    if offline or "OfflineModeIsEnabled" in kinds:
        return ProviderError(
            f"model '{name}' is not in the local hub cache, and the hub may not be asked",
            hint="Run once with the network, or give a local folder.",
        )
    return ProviderError(
        f"model '{name}' could not be fetched from the hub: {first_line(error)}",
        hint="There is no folder of that name here; check the name and the network.",
    )


def _load_error(name: str, error: Exception) -> ProviderError:
    text = str(error)
    if "trust_remote_code" in text:
        return ProviderError(f"model '{name}' wants to run code of its own", hint=REMOTE_CODE_HINT)
    message = f"model '{name}' could not be loaded: {first_line(error)}"
    if "safetensors" in text or "pytorch_model.bin" in text:
        return ProviderError(message, hint=PICKLE_HINT)
    hint = "Download or save the model again, and check its files, device and dtype."
    return ProviderError(message, hint=hint)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' warnings, log lines and loading bars off the user's terminal."""
    loggers = [
        logging.getLogger(name)
        for name in ("transformers", "sentence_transformers", "huggingface_hub")
    ]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep transformers from drawing a bar while it loads weights."""
    from transformers.utils import logging as transformers_logging

    bars: Any = transformers_logging
    had_bars = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if had_bars:
            bars.enable_progress_bar()
