"""Where a model of sentence-transformers lies, on the hub or in a folder, and how it is loaded.

torch, transformers and sentence_transformers are imported only when a model is really needed.
"""

from __future__ import annotations

import logging
import math
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from embed_ab.errors import InputError, ProviderError
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
_PACKAGES = ("sentence-transformers", "transformers", "torch")


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A model's files; nothing is asked or read before a property needs it.

    name: a hub name (`owner/name`) or a local folder; owner: of a hub name without one.
    revision: branch, tag or commit of a hub name; None takes the commit that the local hub cache
        knows for the default branch, else the newest.
    dtype: one of DTYPES instead of the model's own.
    offline: never ask the hub. trust_remote_code, allow_pickle: what may run code on this machine.

    Raises: InputError for a folder that does not exist, a revision of a folder or another dtype;
    ProviderError, from everything that resolves or loads, for whatever the model or the hub lacks.
    """

    name: str
    owner: str
    revision: str | None
    device: str | None
    dtype: str | None
    trust_remote_code: bool
    allow_pickle: bool
    offline: bool

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise InputError(
                f"dtype={self.dtype} is not known", hint=f"Give one of {', '.join(DTYPES)}."
            )
        if self.is_folder:
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
        """Content of the folder, or commit on the hub."""
        if self.is_folder:
            return f"folder={digest_of(self.folder, self.trust_remote_code)}"
        return f"hub={self.hub_name}@{self.commit}"

    @property
    def known_revision(self) -> str:
        """The commit in use, "" for a folder."""
        return "" if self.is_folder else self.commit

    @property
    def is_folder(self) -> bool:
        """Whether the name is that of a folder here."""
        return bool(self.name) and self._path.is_dir()

    @property
    def _path(self) -> Path:
        return Path(os.path.expanduser(self.name))  # unlike Path's, it takes ~ of no user

    @property
    def hub_name(self) -> str:
        """Full name on the hub; sentence-transformers itself completes a bare name so."""
        return self.name if "/" in self.name else f"{self.owner}/{self.name}"

    @cached_property
    def commit(self) -> str:
        """Commit of a hub name: as given, as the local hub cache knows it, else from the hub."""
        revision = self.revision or "main"
        if is_commit(revision):
            return revision
        folder = _hub_cache(self.offline) / hub_place(self.hub_name)
        known = folder / "refs" / revision
        commit = known.read_text().strip() if known.is_file() else ""
        return commit if is_commit(commit) else self._download(revision).name

    @cached_property
    def folder(self) -> Path:
        """The local folder with the model's files."""
        return self._path if self.is_folder else self._download(self.commit)

    def _download(self, revision: str) -> Path:
        """Bring the missing files into the local hub cache; return the folder of the commit."""
        cache = _hub_cache(self.offline)
        from huggingface_hub import HfApi, snapshot_download

        unwanted = not_fetched(remote_code=self.trust_remote_code, pickle=self.allow_pickle)
        refusal: Exception | None = None
        with quiet():
            if not self.offline and is_commit(revision):
                # Asked first because this fails at once, where a download of a commit goes on
                # trying for 23 seconds. Without an answer a complete local copy will do.
                try:
                    HfApi().model_info(self.hub_name, revision=revision, timeout=10)
                except Exception as error:  # the client raises errors of several HTTP libraries
                    refusal = error
            try:
                return Path(
                    snapshot_download(
                        self.hub_name,
                        revision=revision,
                        cache_dir=cache,
                        ignore_patterns=list(unwanted),
                        local_files_only=self.offline or refusal is not None,
                    )
                )
            except Exception as error:
                cause = refusal or error
                raise _hub_error(self.hub_name, revision, cause, self.offline) from cause

    def load(self, kind: str) -> Any:
        """Return the model as a class of sentence_transformers, such as SentenceTransformer."""
        versions()
        folder = self.folder
        check_files(self.name, folder, remote_code=self.trust_remote_code, pickle=self.allow_pickle)
        if self.offline:
            os.environ["HF_HUB_OFFLINE"] = "1"
        # Set at all, it keeps the tokenizers from warning on every later fork.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        options: dict[str, Any] = {} if self.allow_pickle else {"use_safetensors": True}
        if self.dtype is not None:
            options["torch_dtype"] = self.dtype  # the spelling that all versions take
        try:
            with quiet():
                import sentence_transformers
                import torch
            with quiet(), _without_bars():  # again: importing transformers set its log level
                model = getattr(sentence_transformers, kind)(
                    str(folder),
                    device=self.device,
                    trust_remote_code=self.trust_remote_code,
                    local_files_only=self.offline,
                    model_kwargs=options,
                )
                if self.dtype is not None:
                    model.to(getattr(torch, self.dtype))  # modules that are no transformers
        except Exception as error:  # a model's files can fail in any way
            raise _load_error(self.name, error) from error
        return model


def versions() -> dict[str, str]:
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
    versions()  # says which package is missing, if one is
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read once, at the first import of the client
    return hub_folder(os.environ)


def length_limit(model: Any) -> int | None:
    """The model's limit in tokens; None where it has none."""
    limit = model.max_seq_length
    # Tokenizers without a limit say 1e30, static models say infinity.
    return int(limit) if limit is not None and math.isfinite(limit) and limit < 10**9 else None


def limit_length(name: str, model: Any, max_length: int, *, pair: bool = False) -> None:
    """Let a model read so many tokens; of a query and a document together where it reads a pair.

    Raises: InputError for a length that the model cannot have.
    """
    if length_limit(model) is None:
        raise InputError(
            f"model '{name}' has no length limit, so max_length={max_length} changes nothing",
            hint="Leave out max_length.",
        )
    tokenizer: Any = getattr(model, "tokenizer", None)
    if hasattr(tokenizer, "num_special_tokens_to_add"):
        n_special = tokenizer.num_special_tokens_to_add(pair=pair)
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


def dtype_of(model: Any) -> str:
    """The number format of a model's weights, "" for one without weights."""
    parameter = next(model.parameters(), None)
    return "" if parameter is None else str(parameter.dtype).removeprefix("torch.")


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
def quiet() -> Iterator[None]:
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
