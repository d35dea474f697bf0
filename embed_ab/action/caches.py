"""What a job brings from the runner's cache service and leaves there: the store of vectors."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

from embed_ab.action import cache, results
from embed_ab.action.step import Step
from embed_ab.providers.cache import FILE_NAME, VectorStore, cache_folder
from embed_ab.result import Comparison
from embed_ab.settings import Settings
from embed_ab.systems import PROVIDERS

KEPT_DAYS = 30
"""A store that goes from job to job would only grow: what no run used for so long is dropped."""


def is_useful(step: Step, settings: Settings) -> bool:
    """Return whether there is a cache service, and a comparison that has something to keep."""
    specs = (settings.model_a, settings.model_b)
    embeds = any(spec is not None and PROVIDERS[spec.provider].embedder for spec in specs)
    return settings.cache and embeds and not results.unavailable(step.environ)


class Kept:
    """The part of a job's files that outlives the job."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._folder = cache_folder(step.environ)
        self._key: cache.StoreKey | None = None
        self._is_exact = False

    def restore(self, settings: Settings) -> Settings:
        """Bring what fits best; return the settings to compare with."""
        self._step.attempt("cache of vectors", lambda: self._restore_vectors(settings))
        return settings

    def save(self, comparison: Comparison) -> None:
        """Keep what is new."""
        self._step.attempt("cache of vectors", lambda: self._save_vectors(comparison))

    def _restore_vectors(self, settings: Settings) -> None:
        models = [
            "\n".join(map(str, (spec, side.query_prompt, side.document_prompt)))
            for label, spec in (("A", settings.model_a), ("B", settings.model_b))
            for side in (settings.side(label),)
        ]
        key = cache.store_key(models, _texts_digest(Path(settings.eval_path)))
        runtime = self._step.runtime()
        restored = cache.restore_store(self._step.client, runtime, key, self._folder / FILE_NAME)
        self._key, self._is_exact = key, restored.is_exact
        if restored.matched_key:
            whose = "for these texts" if restored.is_exact else "of an earlier run"
            self._say(f"vectors {whose}: {restored.n_bytes / 1e6:,.1f} MB from the cache")
        else:
            self._say(f"no vectors from the cache: {restored.reason}")

    def _save_vectors(self, comparison: Comparison) -> None:
        n_embedded = sum(comparison.measured["texts_embedded"].values())
        if self._key is None or self._is_exact or not n_embedded:
            return  # an entry never changes, and only new vectors are worth another
        with closing(VectorStore.open(self._folder)) as store:
            store.prune(older_than_days=KEPT_DAYS)
        saved = cache.save_store(
            self._step.client, self._step.runtime(), self._key.key, self._folder / FILE_NAME
        )
        if saved.is_saved:
            self._say(f"kept {n_embedded:,} new vectors: {saved.n_bytes / 1e6:,.1f} MB")
        else:
            self._say(f"vectors not kept: {saved.reason}")

    def _say(self, text: str) -> None:
        self._step.log.line(text)


def _texts_digest(folder: Path) -> str:
    """Return a hash of the files that hold texts, whatever is wrong with them."""
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("corpus.jsonl*"), *folder.glob("queries.jsonl*"))):
        if path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()
