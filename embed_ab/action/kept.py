"""What a job brings from the runner's cache service and leaves there: vectors and models."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from embed_ab import __version__
from embed_ab.action import cache_service, models, results_service
from embed_ab.action.step import Step
from embed_ab.errors import GithubError
from embed_ab.providers.cache import FILE_NAME, VectorStore, cache_folder
from embed_ab.providers.model_files import hub_folder, hub_place
from embed_ab.registry import embeds
from embed_ab.result import Comparison
from embed_ab.settings import Settings

KEPT_DAYS = 30
"""A store that goes from job to job would only grow: what no run used for so long is dropped."""


class Kept:
    """The part of a job's files that outlives the job."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._key: cache_service.StoreKey | None = None
        self._is_complete = False
        self._models: list[tuple[models.HubModel, cache_service.Restored]] = []
        self.brought: list[Path] = []
        """Files and folders that came from the cache."""

    @property
    def _store(self) -> Path:
        return cache_folder(self._step.environ) / FILE_NAME

    def restore(self, settings: Settings) -> Settings:
        """Bring what fits best; return the settings to compare with.

        With every model of the hub brought whole, the hub need not be asked: it answers 429 to
        runners that many share. Where the store of vectors cannot be used, the cache is off.
        """
        specs = (settings.model_a, settings.model_b)
        is_embedding = any(spec is not None and embeds(spec) for spec in specs)
        if not settings.cache or not is_embedding:
            return settings
        if self._step.attempt("store of vectors", self._check_place) is None:
            return settings.model_copy(update={"cache": False})
        if results_service.unavailable(self._step.environ):
            return settings
        self._step.attempt("cache of vectors", lambda: self._restore_vectors(settings))
        wanted = models.models_of(settings, self._step.environ)
        if self._is_complete and all(model.is_pinned for model in wanted):
            return settings  # nothing to embed, and no commit to ask for
        for model in wanted:
            self._step.attempt("cache of models", partial(self._restore_model, model))
        is_whole = len(self._models) == len(wanted) and all(r.is_exact for _, r in self._models)
        return settings.model_copy(update={"offline": True}) if wanted and is_whole else settings

    def discard(self, settings: Settings) -> Settings:
        """Delete what the cache brought; return the settings to compare with instead."""
        for path in self.brought:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                for file in path.parent.glob(f"{path.name}*"):  # with its journal
                    file.unlink()
        self.brought.clear()
        return settings

    def _check_place(self) -> bool:
        folder = self._store.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(100_000))
        except OSError as error:
            raise GithubError(f"{folder} cannot be written: {error.strerror}") from None
        return True

    def save(self, comparison: Comparison) -> None:
        """Keep what is new."""
        self._step.attempt("cache of vectors", lambda: self._save_vectors(comparison))
        for model, restored in self._models:
            self._step.attempt("cache of models", partial(self._save_model, model, restored))

    def _restore_vectors(self, settings: Settings) -> None:
        models = [
            "\n".join(map(str, (spec, side.query_prompt, side.document_prompt, *_versions())))
            for label, spec in (("A", settings.model_a), ("B", settings.model_b))
            for side in (settings.side(label),)
        ]
        environ = self._step.environ
        run = f"{environ.get('GITHUB_RUN_ID', '')}-{environ.get('GITHUB_RUN_ATTEMPT', '')}"
        key = cache_service.store_key(models, _texts_digest(Path(settings.eval_path)), run)
        restored = cache_service.restore_store(
            self._step.client, self._step.runtime(), key, self._store
        )
        self._key = key
        self._is_complete = key.is_for_these_texts(restored.matched_key)
        if restored.matched_key:
            self.brought.append(self._store)
            whose = "for these texts" if self._is_complete else "of an earlier run"
            self._step.log.line(f"vectors {whose}: {restored.n_bytes / 1e6:,.1f} MB from the cache")
        else:
            self._step.log.line(f"no vectors from the cache: {restored.reason}")

    def _save_vectors(self, comparison: Comparison) -> None:
        n_embedded = sum(comparison.measured["texts_embedded"].values())
        if self._key is None or not n_embedded:
            return
        with closing(VectorStore.open(self._store.parent)) as store:
            store.prune(older_than_days=KEPT_DAYS)
        saved = cache_service.save_store(
            self._step.client, self._step.runtime(), self._key.key, self._store
        )
        if saved.is_saved:
            self._step.log.line(f"kept {n_embedded:,} new vectors: {saved.n_bytes / 1e6:,.1f} MB")
        else:
            self._step.log.line(f"vectors not kept: {saved.reason}")

    def _restore_model(self, model: models.HubModel) -> None:
        restored = models.restore_model(
            self._step.client,
            self._step.runtime(),
            model,
            folder=hub_folder(self._step.environ),
            clock=self._now,
        )
        self._models.append((model, restored))
        if restored.matched_key:
            self.brought.append(hub_folder(self._step.environ) / hub_place(model.name))
            whose = "" if restored.is_exact else " of an earlier week"
            self._step.log.line(
                f"{model.name}{whose}: {restored.n_bytes / 1e6:,.1f} MB from the cache"
            )
        else:
            self._step.log.line(f"{model.name} not from the cache: {restored.reason}")

    def _save_model(self, model: models.HubModel, restored: cache_service.Restored) -> None:
        saved = models.save_model(
            self._step.client,
            self._step.runtime(),
            model,
            restored,
            folder=hub_folder(self._step.environ),
            clock=self._now,
        )
        if saved.is_saved:
            self._step.log.line(f"kept {model.name}: {saved.n_bytes / 1e6:,.1f} MB")
        else:
            self._step.log.line(f"{model.name} not kept: {saved.reason}")

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._step.clock(), UTC)


def _texts_digest(folder: Path) -> str:
    """Return a hash of the files that hold texts, whatever is wrong with them."""
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("corpus.jsonl*"), *folder.glob("queries.jsonl*"))):
        if path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()


def _versions() -> list[str]:
    """Return the versions of the packages that make vectors; they are part of a fingerprint."""
    found = [__version__]
    for name in ("sentence-transformers", "transformers", "torch"):
        with suppress(PackageNotFoundError):
            found.append(version(name))
    return found
