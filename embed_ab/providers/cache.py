"""The store of vectors on disk, and embedding through it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import EmbedAbError, InputError
from embed_ab.providers.base import Embedded, ModelFacts, Role, Vectors

T = TypeVar("T")

FILE_NAME = "vectors.sqlite3"
_APPLICATION_ID = 0x656D6162  # "emab", in the header of our files
_SCHEMA_VERSION = 1
_SCHEMA = f"""
CREATE TABLE vectors (
    key BLOB PRIMARY KEY,
    vector BLOB NOT NULL,       -- little-endian float32, as the model gave it
    n_tokens INTEGER,
    checksum INTEGER NOT NULL,  -- of key, vector and n_tokens
    used_on INTEGER NOT NULL    -- day since 1970-01-01
);
CREATE TABLE facts (key BLOB PRIMARY KEY, facts TEXT NOT NULL);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_SCHEMA_VERSION};
"""
_SHORTENED = """
CREATE TABLE IF NOT EXISTS shortened (
    key BLOB PRIMARY KEY,
    n_kept INTEGER NOT NULL     -- leading characters embedded; texts without a row are whole
)
"""
_WAIT_SECONDS = 30.0  # for another process that is writing
_KEYS_PER_QUERY = 500  # SQLite takes at least 999 parameters
_ROWS_AT_ONCE = 100  # of five each
_STORED = np.dtype("<f4")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Folder of the cache: EMBED_AB_CACHE_DIR, else embed-ab under XDG_CACHE_HOME or ~/.cache."""
    own, shared = environ.get("EMBED_AB_CACHE_DIR"), environ.get("XDG_CACHE_HOME")
    folder = own or (f"{shared}/embed-ab" if shared else "~/.cache/embed-ab")
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:  # no such user, or no home
        raise InputError(
            f"the cache folder {folder} has no place: {error}",
            hint="Set EMBED_AB_CACHE_DIR to a folder that can be written.",
        ) from None


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the store holds for some texts, in the order of the texts.

    is_found: bool (n_texts,).
    vectors: float32 (n_texts, dimension), zero where not found.
    n_tokens: int64 (n_texts,), −1 where the provider could not tell or nothing is found.
    n_kept: int64 (n_texts,) leading characters embedded of texts that were shortened, else −1.
    """

    is_found: NDArray[np.bool_]
    vectors: Vectors
    n_tokens: NDArray[np.int64]
    n_kept: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class StoreInfo:
    """What a store holds; n_bytes is the size of its files."""

    path: Path
    n_vectors: int
    n_bytes: int


class VectorStore:
    """Vectors by content: the key is a hash of the model's fingerprint, role, prompt and text.

    Several processes may use one store at once. Each `put` is one transaction, so that a process
    killed in mid-write loses that batch only. A row whose checksum is wrong counts as missing.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path | None, clock: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock

    @classmethod
    def open(cls, folder: Path | None, *, clock: Callable[[], float] = time.time) -> VectorStore:
        """The store in a folder, made when absent; None keeps it in memory.

        Raises: InputError for a folder that cannot be written, EmbedAbError for a damaged file or
        one of another program.
        """
        if folder is None:
            connection = sqlite3.connect(":memory:", isolation_level=None)
            connection.executescript(_SCHEMA + _SHORTENED)
            return cls(connection, None, clock)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from error
        path = folder / FILE_NAME
        try:
            connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
            try:
                _prepare(connection, path)
            except BaseException:
                connection.close()
                raise
        except sqlite3.OperationalError as error:
            raise _unwritable(folder, error) from error
        except sqlite3.DatabaseError as error:
            raise _damaged(path, error) from error
        return cls(connection, path, clock)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def facts(self, fingerprint: str, prompts: Mapping[Role, str]) -> ModelFacts | None:
        """Facts of a model under the prompts the user gave, or None when never seen."""
        with self._guarded():
            row = self._connection.execute(
                "SELECT facts FROM facts WHERE key = ?", (_facts_key(fingerprint, prompts),)
            ).fetchone()
        try:
            return ModelFacts(**json.loads(row[0])) if row else None
        except (TypeError, ValueError):  # damaged, or written by another version
            return None

    def save_facts(self, fingerprint: str, prompts: Mapping[Role, str], facts: ModelFacts) -> None:
        """Keep the facts of a model under the prompts the user gave."""
        row = (_facts_key(fingerprint, prompts), json.dumps(asdict(facts)))
        with self._guarded():
            self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", row)

    def get(
        self, fingerprint: str, role: Role, prompt: str, texts: Sequence[str], *, dimension: int
    ) -> Found:
        """Vectors and token counts that are known for some distinct texts."""
        rows = {key: row for row, key in enumerate(_keys(fingerprint, role, prompt, texts))}
        is_found = np.zeros(len(texts), dtype=np.bool_)
        vectors = np.zeros((len(texts), dimension), dtype=np.float32)
        n_tokens = np.full(len(texts), -1, dtype=np.int64)
        n_kept = np.full(len(texts), -1, dtype=np.int64)
        today = self._today()
        stale: list[bytes] = []
        for keys in _chunks(list(rows), _KEYS_PER_QUERY):
            for key, blob, count, checksum, used_on, kept in self._select(keys):
                if (
                    len(blob) != dimension * _STORED.itemsize
                    or _checksum(key, blob, count) != checksum
                ):
                    continue
                row = rows[key]
                is_found[row] = True
                vectors[row] = np.frombuffer(blob, dtype=_STORED)
                n_tokens[row] = -1 if count is None else count
                n_kept[row] = -1 if kept is None else kept
                if used_on < today:
                    stale.append(key)
        self._touch(stale, today)
        return Found(is_found=is_found, vectors=vectors, n_tokens=n_tokens, n_kept=n_kept)

    def put(
        self, fingerprint: str, role: Role, prompt: str, texts: Sequence[str], embedded: Embedded
    ) -> None:
        """Keep the vectors of some texts, in one transaction."""
        counts: list[int] | list[None] = (
            [None] * len(texts) if embedded.n_tokens is None else embedded.n_tokens.tolist()
        )
        today = self._today()
        kept = [-1] * len(texts) if embedded.n_kept is None else embedded.n_kept.tolist()
        rows, shortened = [], []
        blobs = embedded.vectors.astype(_STORED).tobytes()
        width = len(blobs) // max(len(texts), 1)
        for place, (key, count, n_kept) in enumerate(
            zip(_keys(fingerprint, role, prompt, texts), counts, kept, strict=True)
        ):
            blob = blobs[place * width : (place + 1) * width]
            rows.append((key, blob, count, _checksum(key, blob, count), today))
            if n_kept >= 0:
                shortened.append((key, n_kept))
        with self._guarded(), self._transaction():
            for some in _chunks(rows, _ROWS_AT_ONCE):
                # One statement: between single ones the threads that ask a server would be let in
                # and out again, row by row.
                places = ",".join(["(?,?,?,?,?)"] * len(some))
                self._connection.execute(
                    f"INSERT OR REPLACE INTO vectors VALUES {places}",
                    list(chain.from_iterable(some)),
                )
            if shortened or self._connection.execute("SELECT 1 FROM shortened").fetchone():
                # A text that was shortened once may pass whole later.
                self._connection.executemany(
                    "DELETE FROM shortened WHERE key = ?", [(row[0],) for row in rows]
                )
                self._connection.executemany("INSERT INTO shortened VALUES (?,?)", shortened)

    def info(self) -> StoreInfo:
        """Counts and size of the store."""
        path = self._path or Path(":memory:")
        with self._guarded():
            n_vectors = self._connection.execute("SELECT count(*) FROM vectors").fetchone()[0]
        n_bytes = sum(file.stat().st_size for file in _files(path) if file.exists())
        return StoreInfo(path=path, n_vectors=n_vectors, n_bytes=n_bytes)

    def holds_all(self, fingerprint: str, role: Role, prompt: str, texts: Sequence[str]) -> bool:
        """Return whether the vectors of some texts are all there, without reading them."""
        keys = list(set(_keys(fingerprint, role, prompt, texts)))
        n_found = 0
        for some in _chunks(keys, _KEYS_PER_QUERY):
            marks = ",".join("?" * len(some))
            with self._guarded():
                (n,) = self._connection.execute(
                    f"SELECT COUNT(*) FROM vectors WHERE key IN ({marks})", some
                ).fetchone()
            n_found += n
        return n_found == len(keys)

    def clear(self) -> int:
        """Delete everything; return how many vectors that was."""
        with self._guarded():
            n_deleted = self._connection.execute("DELETE FROM vectors").rowcount
            self._connection.execute("DELETE FROM facts")
            self._connection.execute("DELETE FROM shortened")
            self._shrink()
        return n_deleted

    def prune(self, *, older_than_days: int) -> int:
        """Delete the vectors not used for so many days; return how many that was."""
        oldest = self._today() - older_than_days
        with self._guarded():
            n_deleted = self._connection.execute(
                "DELETE FROM vectors WHERE used_on <= ?", (oldest,)
            ).rowcount
            self._connection.execute(
                "DELETE FROM shortened WHERE key NOT IN (SELECT key FROM vectors)"
            )
            self._shrink()
        return n_deleted

    def _select(
        self, keys: Sequence[bytes]
    ) -> list[tuple[bytes, bytes, int | None, int, int, int | None]]:
        marks = ",".join("?" * len(keys))
        with self._guarded():
            return self._connection.execute(
                "SELECT key, vector, n_tokens, checksum, used_on, n_kept"
                f" FROM vectors LEFT JOIN shortened USING (key) WHERE key IN ({marks})",
                keys,
            ).fetchall()

    def _touch(self, keys: Sequence[bytes], today: int) -> None:
        """Note that rows were used; once a day is enough for `prune`, and a failure is harmless."""
        if keys:
            with suppress(sqlite3.OperationalError), self._transaction():
                self._connection.executemany(
                    "UPDATE vectors SET used_on = ? WHERE key = ?", [(today, key) for key in keys]
                )

    def _shrink(self) -> None:
        """Give the space back to the disk; harmless when another process is at work."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _today(self) -> int:
        return int(self._clock() // 86400)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE takes the write lock at once: a later upgrade could fail without waiting.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.OperationalError):  # a full disk has rolled back by itself
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise EmbedAbError(
                f"{self._path}: the vector cache cannot be used: {error}",
                hint="Free space with `embed-ab cache prune` or `embed-ab cache clear`, "
                "or go on without the cache: --no-cache.",
            ) from error
        except sqlite3.DatabaseError as error:
            raise _damaged(self._path or Path(":memory:"), error) from error


def clear_store(folder: Path) -> int:
    """Empty the store in a folder, damaged or not; return how many bytes that freed.

    Raises: EmbedAbError for a file of another program, which is left alone.
    """
    path = folder / FILE_NAME
    before = sum(file.stat().st_size for file in _files(path) if file.exists())
    if not before:
        return 0
    try:
        store = VectorStore.open(folder)
        try:
            store.clear()
        finally:
            store.close()
    except UnusableStoreError:
        # Unlinking would pull the file from under another process; only a damaged one is unlinked.
        try:
            for file in _files(path):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from error
    return before - sum(file.stat().st_size for file in _files(path) if file.exists())


class ForeignFileError(EmbedAbError):
    """The file in the cache's place belongs to another program."""


class UnusableStoreError(EmbedAbError):
    """Our file, but damaged or of another version: nothing in it can be read."""


def _keys(fingerprint: str, role: Role, prompt: str, texts: Sequence[str]) -> Iterator[bytes]:
    prefix = hashlib.blake2b(
        json.dumps([fingerprint, role, prompt]).encode() + b"\n", digest_size=20
    )
    for text in texts:
        digest = prefix.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        yield digest.digest()


def _facts_key(fingerprint: str, prompts: Mapping[Role, str]) -> bytes:
    content = json.dumps([fingerprint, sorted(prompts.items())]).encode()
    return hashlib.blake2b(content, digest_size=20).digest()


def _checksum(key: bytes, blob: bytes, count: int | None) -> int:
    return zlib.crc32(blob, zlib.crc32(f"{count}".encode(), zlib.crc32(key)))


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _files(path: Path) -> list[Path]:
    return [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))]


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file, or see that an old one is ours."""
    connection.execute("BEGIN IMMEDIATE")  # two processes may meet a new file at once
    has_tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if not has_tables:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
    elif application != _APPLICATION_ID:
        raise ForeignFileError(
            f"{path}: this file belongs to another program",
            hint="Set EMBED_AB_CACHE_DIR to another folder, or use --no-cache.",
        )
    elif version != _SCHEMA_VERSION:
        raise UnusableStoreError(
            f"{path}: the vector cache is of another version of embed-ab ({version})",
            hint="Empty it with `embed-ab cache clear`, or use --no-cache.",
        )
    connection.execute(_SHORTENED)  # absent in files made before there were servers
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL loses at most the last transactions when the machine itself stops, never the file.
    connection.execute("PRAGMA synchronous = NORMAL")


def _unwritable(folder: Path, error: Exception) -> InputError:
    return InputError(
        f"{folder}: the cache folder cannot be used: {error}",
        hint="Set EMBED_AB_CACHE_DIR to a folder with room that can be written, or use --no-cache.",
    )


def _damaged(path: Path, error: Exception) -> UnusableStoreError:
    return UnusableStoreError(
        f"{path}: the vector cache is damaged: {error}",
        hint="Empty it with `embed-ab cache clear`, or use --no-cache.",
    )
