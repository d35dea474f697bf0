"""The errors a user can meet, and the exit code each one ends with.

    EmbedAbError                 exit 3   could not finish
    ├── InputError               exit 2   files, flags, settings
    │     └── EvalsetError       exit 2   a line of an evaluation set; the place is in the message
    ├── ProviderError            exit 3   a model or a server
    └── GithubError              never fatal: the action reports it and goes on

Exit 1 is a failed gate: it is returned, never raised, because Python's own crash code is 1 and a
bug must not look like a failed gate.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class EmbedAbError(Exception):
    """A comparison that could not finish; `hint` says what to do about it."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(hint)  # a traceback in a notebook shows it


class InputError(EmbedAbError):
    """Something the user gave is wrong: a file, a flag, a setting."""

    exit_code: ClassVar[int] = 2
    path: Path | None = None
    line: int | None = None


class EvalsetError(InputError):
    """A file of an evaluation set is wrong; the message starts with its `path:line`."""

    def __init__(
        self, message: str, *, path: Path, line: int | None = None, hint: str = ""
    ) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {message}", hint=hint)
        self.path = path
        self.line = line


class ProviderError(EmbedAbError):
    """A model or a server failed; the text's id and the model are in the message.

    said: what it said itself about texts, which may quote them; stands after the message.
    """

    def __init__(self, message: str, *, hint: str = "", said: str = "") -> None:
        super().__init__(f"{message}: {said}" if said else message, hint=hint)
        self.unquoted = message
        self.said = said


class GithubError(EmbedAbError):
    """A surface of GitHub (comment, artifact, cache) is not to be had; the comparison stands."""
