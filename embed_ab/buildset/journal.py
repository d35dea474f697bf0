"""What a model has answered so far, one line each, so that an interrupted run goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embed_ab.errors import InputError

NAME = "journal.jsonl"


class Journal:
    """Answers by the key of their request; any number of threads may put.

    Raises: InputError where the file cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._answers: dict[str, dict[str, Any]] = {}
        self._used: set[str] = set()
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            content = self._path.read_bytes() if self._path.exists() else b""
            whole, _, torn = content.rpartition(b"\n")
            for line in whole.split(b"\n"):
                self._take(line)
            self._file = self._path.open("ab")
            if torn:  # the run before ended in the middle of a line
                self._file.truncate(len(content) - len(torn))
        except OSError as error:
            raise self._error(error) from None
        self.n_found = len(self._answers)

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
        line = json.dumps({"key": key, **record}, ensure_ascii=False)
        try:
            with self._lock:
                self._file.write(line.encode("utf-8", "replace") + b"\n")
                self._file.flush()
        except OSError as error:
            raise self._error(error) from None
        self._answers[key] = record

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
        return InputError(
            f"{self._path}: {error.strerror or error}",
            hint="Give --out a folder that this user may write.",
        )
