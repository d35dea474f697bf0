"""What a job brings from the runner's cache service and leaves there: the store of vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx

from embed_ab.action import cache
from embed_ab.action.results import Runtime
from embed_ab.providers.cache import FILE_NAME, VectorStore
from embed_ab.settings import Settings
from embed_ab.systems import PROVIDERS

KEPT_DAYS = 30
"""A store that goes from job to job would only grow: what no run used for so long is dropped."""


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The store of vectors of this job, and under which key it is kept."""

    client: httpx.Client
    runtime: Runtime
    key: cache.StoreKey
    folder: Path
    restored: cache.Restored

    def save(self, n_embedded: int) -> str:
        """Keep the store if it has something new; return what was done, for the log.

        Raises: GithubError, EmbedAbError for a store that cannot be read.
        """
        if not n_embedded:
            return "no new vectors to keep"
        if self.restored.is_exact:
            return "the cache has an entry for these texts already, and entries do not change"
        with closing(VectorStore.open(self.folder)) as store:
            store.prune(older_than_days=KEPT_DAYS)
        saved = cache.save_store(self.client, self.runtime, self.key.key, self.folder / FILE_NAME)
        if not saved.is_saved:
            return f"vectors not kept: {saved.reason}"
        return f"kept {n_embedded:,} new vectors ({saved.n_bytes / 1e6:,.1f} MB)"


def uses_vectors(settings: Settings) -> bool:
    """Return whether a comparison embeds anything that is worth keeping."""
    specs = (settings.model_a, settings.model_b)
    return settings.cache and any(
        spec is not None and PROVIDERS[spec.provider].embedder for spec in specs
    )


def restore_vectors(
    client: httpx.Client,
    runtime: Runtime,
    settings: Settings,
    folder: Path,
    say: Callable[[str], None],
) -> Vectors:
    """Bring the store of vectors that fits best. Raises: GithubError."""
    models = [
        "\n".join(map(str, (spec, side.query_prompt, side.document_prompt)))
        for label, spec in (("A", settings.model_a), ("B", settings.model_b))
        for side in (settings.side(label),)
    ]
    key = cache.store_key(models, _texts_digest(Path(settings.eval_path)))
    restored = cache.restore_store(client, runtime, key, folder / FILE_NAME)
    if restored.matched_key:
        how = "for these texts" if restored.is_exact else "of an earlier run"
        say(f"vectors {how}: {restored.n_bytes / 1e6:,.1f} MB from the cache")
    else:
        say(f"no vectors from the cache: {restored.reason}")
    return Vectors(client=client, runtime=runtime, key=key, folder=folder, restored=restored)


def _texts_digest(folder: Path) -> str:
    """Return a hash of the files that hold texts, whatever is wrong with them."""
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("corpus.jsonl*"), *folder.glob("queries.jsonl*"))):
        if path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()
