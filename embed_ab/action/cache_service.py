"""The store of vectors in the runner's cache service, so that a run embeds only what is new."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from pydantic import TypeAdapter, ValidationError

from embed_ab.action.results_service import (
    Runtime,
    ServiceError,
    call,
    download,
    signed_url,
    text_of,
    upload,
)
from embed_ab.errors import GithubError
from embed_ab.formats import plain, shorten
from embed_ab.providers.base import ModelFacts
from embed_ab.providers.cache import FILE_NAME, VectorStore

MAX_BYTES = 2 * 1024**3
_SERVICE = "CacheService"
_PREFIX = "embed-ab-v1-"
_MAX_KEYS, _MAX_KEY_LENGTH = 10, 512
_MAX_DIMENSION, _MAX_TOKENS = 100_000, 10**9
_MAX_FACTS, _MAX_FACTS_LENGTH = 10_000, 1_000_000
_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True, kw_only=True)
class StoreKey:
    """Names of a store in the cache service: its own, and beginnings of others that help."""

    key: str
    restore_keys: tuple[str, ...]

    def is_for_these_texts(self, matched: str) -> bool:
        """Return whether a run with the same models and texts has left an entry."""
        return matched.startswith(self.restore_keys[0])


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What came from the cache. reason: why nothing did, for the log; no fault."""

    matched_key: str = ""
    is_exact: bool = False
    n_bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What went to the cache. reason: why nothing did, for the log; no fault."""

    is_saved: bool = False
    n_bytes: int = 0
    reason: str = ""


def store_key(models: Sequence[str], digest: str, run: str) -> StoreKey:
    """Return the names of the store for some models and a set of texts.

    models: what is known beforehand of what decides a model's vectors: name, revision, prompts,
    versions of libraries.
    digest: of the texts; a run with the same one finds every vector it needs, unless a model has
    moved on.
    run: of the workflow, so that a run can leave an entry beside an older one, which never changes.
    A run with other texts starts from the newest store of the same models, else from any of ours.
    """
    model = hashlib.sha256(json.dumps(sorted(models)).encode()).hexdigest()[:16]
    texts = hashlib.sha256(digest.encode()).hexdigest()[:32]
    same_models = f"{_PREFIX}{model}-"
    same_texts = f"{same_models}{texts}-"
    return StoreKey(key=same_texts + run, restore_keys=(same_texts, same_models, _PREFIX))


def store_version() -> str:
    """Return the version of the cache's entries: a hash of all that makes a store readable."""
    tables, numbers = _expected_layout()
    content = json.dumps(["embed-ab vectors", "sqlite", "<f4", tables, numbers])
    return hashlib.sha256(content.encode()).hexdigest()


def restore_store(
    client: httpx.Client, runtime: Runtime, key: StoreKey, path: Path, *, max_bytes: int = MAX_BYTES
) -> Restored:
    """Bring a store of vectors to `path`, where none is yet, and only one that can be trusted.

    Raises: GithubError if the service fails.
    """
    # A journal of an older store would be played into the new one.
    if any(path.parent.glob(f"{path.name}*")):
        return Restored(reason="there is a store of vectors here already")
    return restore(
        client,
        runtime,
        key.key,
        key.restore_keys,
        store_version(),
        path,
        max_bytes=max_bytes,
        check=check_store,
    )


def save_store(
    client: httpx.Client, runtime: Runtime, key: str, path: Path, *, max_bytes: int = MAX_BYTES
) -> Saved:
    """Keep a copy of the store of vectors under a key that nothing has yet.

    Raises: GithubError if the service fails or the store cannot be read.
    """
    if reason := forbidden(runtime, {"read", "none"}):
        return Saved(reason=reason)
    if not path.is_file():
        return Saved(reason="there is no store of vectors to keep")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".embed-ab-") as folder:
            copy = Path(folder) / FILE_NAME
            with closing(sqlite3.connect(path)) as connection:
                # One file, with what lies in the journal beside the store.
                connection.execute("VACUUM INTO ?", (str(copy),))
            return save(client, runtime, key, store_version(), copy, max_bytes=max_bytes)
    except (OSError, sqlite3.Error) as error:
        raise GithubError(f"the store of vectors cannot be copied: {error}") from None


def restore(
    client: httpx.Client,
    runtime: Runtime,
    key: str,
    restore_keys: Sequence[str],
    version: str,
    path: Path,
    *,
    max_bytes: int,
    check: Callable[[Path], str],
) -> Restored:
    """Bring the newest entry of a key, or of a beginning of keys, to `path`, whole or not at all.

    check: says what is wrong with a file, or ""; entries are what any workflow may have written.
    Raises: GithubError if the service fails.
    """
    if reason := forbidden(runtime, {"write-only", "none"}):
        return Restored(reason=reason)
    keys = [key, *restore_keys][:_MAX_KEYS]
    _check_keys(keys)
    fields: dict[str, Any] = {"key": key, "version": version}
    if restore_keys:
        fields["restore_keys"] = keys[1:]
    reply, reason = _ask(client, runtime, "GetCacheEntryDownloadURL", fields)
    if reason:
        return Restored(reason=reason)
    matched = text_of(reply, "matched_key")
    if len(matched) > _MAX_KEY_LENGTH or not any(map(matched.startswith, keys)):
        raise ServiceError("the cache service gave an entry that was not asked for")
    url = signed_url(runtime, reply, "signed_download_url")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".embed-ab-") as folder:
            arrived = Path(folder) / path.name
            with arrived.open("w+b") as file:
                n_bytes = download(client, runtime, url, file, max_bytes)
            if fault := check(arrived):
                # Whoever wrote the entry chose the end of its key, and texts inside it.
                told = shorten(plain(f"{matched} is not used: {fault}"), 600)
                return Restored(reason=f"the cache's entry {told}")
            os.replace(arrived, path)
    except OSError as error:
        raise GithubError(f"{path.name}: cannot be written: {error.strerror}") from None
    return Restored(matched_key=matched, is_exact=matched == key, n_bytes=n_bytes)


def save(
    client: httpx.Client, runtime: Runtime, key: str, version: str, path: Path, *, max_bytes: int
) -> Saved:
    """Keep a file under a key that nothing has yet. Raises: GithubError if the service fails."""
    if reason := forbidden(runtime, {"read", "none"}):
        return Saved(reason=reason)
    _check_keys([key])
    n_bytes = path.stat().st_size
    if not n_bytes:
        return Saved(reason="there is nothing to keep")
    if n_bytes > max_bytes:
        return Saved(reason=f"{n_bytes:,} bytes are more than the {max_bytes:,} to keep")
    entry = {"key": key, "version": version}
    reply, reason = _ask(client, runtime, "CreateCacheEntry", entry)
    if reason:
        return Saved(reason=reason)
    url = signed_url(runtime, reply, "signed_upload_url")
    with path.open("rb") as content:
        blob = upload(client, runtime, url, content, "application/octet-stream")
    sizes = {"size_bytes": str(blob.n_bytes)}
    _, reason = _ask(client, runtime, "FinalizeCacheEntryUpload", entry | sizes)
    if reason:
        return Saved(reason=reason)
    return Saved(is_saved=True, n_bytes=blob.n_bytes)


def check_store(path: Path) -> str:
    """Return what is wrong with a file that should be a store of vectors, or "".

    Nothing in the file is run: it must have exactly the tables of a new store, and no others.
    """
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            return "it is not an SQLite database"
    try:
        if _layout(path) != _expected_layout():
            return "it is not a store of vectors of this version"
        with closing(_read_only(path)) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return "the database is damaged"
            return _wrong_rows(connection)
    except UnicodeDecodeError:  # in a text, or in what SQLite says about one
        return "the database is damaged: a text is not UTF-8"
    except sqlite3.Error as error:
        return f"the database is damaged: {error}"


def _wrong_rows(connection: sqlite3.Connection) -> str:
    """Return what is wrong with rows: SQLite itself takes any type in any column."""
    wrong = connection.execute(
        "SELECT 1 FROM vectors WHERE typeof(key) != 'blob' OR length(key) != 20"
        " OR typeof(vector) != 'blob' OR length(vector) % 4 != 0"
        " OR length(vector) NOT BETWEEN 4 AND 4 * ?"
        " OR typeof(n_tokens) NOT IN ('integer', 'null')"
        " OR coalesce(n_tokens, 0) NOT BETWEEN 0 AND ?"
        " OR typeof(checksum) != 'integer' OR typeof(used_on) != 'integer' LIMIT 1",
        (_MAX_DIMENSION, _MAX_TOKENS),
    ).fetchone()
    if wrong:
        return "a vector's row is not well formed"
    for (blob,) in connection.execute("SELECT vector FROM vectors"):
        vector = np.frombuffer(blob, dtype="<f4")
        if not np.isfinite(vector).all() or not vector.any():
            return "a vector is zero or not finite"
    wrong = connection.execute(
        "SELECT 1 FROM facts WHERE typeof(key) != 'blob' OR length(key) != 20"
        " OR typeof(facts) != 'text' OR length(facts) > ?"
        " UNION ALL SELECT 1 FROM (SELECT count(*) AS n FROM facts) WHERE n > ? LIMIT 1",
        (_MAX_FACTS_LENGTH, _MAX_FACTS),
    ).fetchone()
    if wrong:
        return "a model's row is not well formed"
    reader = TypeAdapter(ModelFacts)
    for (text,) in connection.execute("SELECT facts FROM facts"):
        try:
            facts = reader.validate_json(text, strict=True)
        except ValidationError:
            return "a model's facts are not well formed"
        if not 1 <= facts.dimension <= _MAX_DIMENSION or not (facts.max_length or 1) > 0:
            return "a model's facts are not well formed"
    return ""


def _expected_layout() -> tuple[list[Any], list[int]]:
    """Return the layout of a store that is made anew."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            VectorStore.open(Path(folder)).close()
            return _layout(Path(folder) / FILE_NAME)
    except OSError as error:
        raise GithubError(f"no temporary folder: {error.strerror}") from None


def _layout(path: Path) -> tuple[list[Any], list[int]]:
    """Return everything that the schema holds, and the numbers of program and version."""
    with closing(_read_only(path)) as connection:
        tables = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name LIMIT 100"
        ).fetchall()
        numbers = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        ]
    return tables, numbers


def _read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _ask(
    client: httpx.Client, runtime: Runtime, method: str, fields: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Return an answer, or why there is none where that is no fault: races, rights, no service."""
    try:
        reply = call(client, runtime, _SERVICE, method, fields, waits_for_rate_limit=False)
    except ServiceError as error:
        if error.status == 409:
            return {}, "another job keeps the same already"
        if error.status == 403 or "denied:" in error.text:
            return {}, _denial(error.text)
        if error.status == 429:
            return {}, "the cache service limits the rate of calls"
        if error.is_missing_service:
            return {}, "there is no cache service here"
        raise
    if reply.get("ok") is True:
        return reply, ""
    text = text_of(reply, "message")
    if "denied:" in text:
        return {}, _denial(text)
    return {}, shorten(plain(text), 200) or "the cache has nothing of this kind"


def _denial(text: str) -> str:
    """Return the refusal of a token that may only read, or not even that."""
    return f"the cache refuses this run: {shorten(plain(text), 200) or 'it gives no reason'}"


def forbidden(runtime: Runtime, modes: set[str]) -> str:
    """Return why the runner's mode forbids something, or "" where it does not."""
    if runtime.cache_mode in modes:
        return f"the runner's cache mode is {runtime.cache_mode}"
    return ""


def _check_keys(keys: Sequence[str]) -> None:
    for key in keys:
        if not key or len(key) > _MAX_KEY_LENGTH or "," in key:
            raise GithubError(
                f"'{shorten(plain(key), 60)}' cannot be a key of the cache",
                hint=f"A key has 1 to {_MAX_KEY_LENGTH} characters and no comma.",
            )
