"""What a model has answered so far, one line each, so that an interrupted run goes on."""

from __future__ import annotations

import errno
import fcntl
import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from embed_ab.errors import InputError

NAME = "journal.jsonl"
_FIRST = re.compile(rb'\{"key": "[0-9a-f]{32}", "')
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_ours(path: Path, *, has_answers: bool) -> bool:
    """Return whether a file is a journal, by how it begins.

    Only the beginning: what is damaged after it costs a question asked again.
    has_answers: whether it must hold one; a run that was killed early leaves an empty journal.
    Raises: OSError.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(60)
    return bool(_FIRST.match(start)) if start else not has_answers


class Journal:
    """Answers by the key of their request; any number of threads may put.

    Two runs cannot hold the same one.
    Raises: InputError where the file cannot be read or written, or another run holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._answers: dict[str, dict[str, Any]] = {}
        self._used: set[str] = set()
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what could not be written must not be tried again by a later line.
            self._file = self._path.open("a+b", buffering=0)
        except OSError as error:
            raise self._error(error) from None
        try:
            self._lock_file(folder)
            self._read()
        except OSError as error:
            self._file.close()
            raise self._error(error) from None
        except InputError:
            self._file.close()
            raise
        self.n_found = len(self._answers)

    def _lock_file(self, folder: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another run is at work in {folder}",
                hint="Wait until it has ended, or choose another --out.",
            ) from None
        except OSError:
            return  # a file system without locks

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.readall()
        whole, _, torn = content.rpartition(b"\n")
        for line in whole.split(b"\n"):
            self._take(line)
        self._n_bytes = len(content) - len(torn)
        if torn:  # the run before ended in the middle of a line
            self._file.truncate(self._n_bytes)

    def _take(self, line: bytes) -> None:
        # A line that is damaged costs one question asked again.
        try:
            record = json.loads(line)
            self._answers[str(record["key"])] = record
        except (ValueError, TypeError, KeyError, RecursionError):
            return

    def get(self, key: str, is_sound: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """Return the record of a request, None where it was not answered yet, or is damaged."""
        found = self._answers.get(key)
        if found is None or not is_sound(found):
            return None
        self._used.add(key)
        return found

    def put(self, key: str, **record: Any) -> None:
        """Add a line, which is in the file when this returns."""
        text = json.dumps({"key": key, **record}, ensure_ascii=False)
        line = text.encode("utf-8", "replace") + b"\n"
        try:
            with self._lock:
                self._append(line)
        except OSError as error:
            raise self._error(error) from None
        self._answers[key] = record

    def _append(self, line: bytes) -> None:
        n_written = 0
        try:
            while n_written < len(line):  # a disk that gets full takes a part
                n_written += self._file.write(line[n_written:])
        except OSError:
            with suppress(OSError):
                self._file.truncate(self._n_bytes)
            raise
        self._n_bytes += len(line)

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def n_reused(self) -> int:
        """Answers of earlier runs that were asked for."""
        return len(self._used)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _error(self, error: OSError) -> InputError:
        hint = "Give --out a folder that this user may write."
        if error.errno in _NO_ROOM:
            hint = "Make room there; the same command then goes on from here."
        return InputError(f"{self._path}: {error.strerror or error}", hint=hint)
