"""Workflow commands: groups, annotations and masks, written so that no text can act as one.

Source: github.com/actions/runner, ActionCommand.cs (commands are read from standard output).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from embed_ab.formats import printable

MAX_MESSAGE = 4_000
"""The runner cuts an annotation at 4,096 characters."""


@dataclass(frozen=True)
class Log:
    """The job's log."""

    stream: TextIO

    def line(self, text: str) -> None:
        """Write one line; what would be a command in it does not act."""
        self._write(printable(text, "utf-8", is_terminal=False))

    def notice(self, text: str, *, title: str = "embed-ab") -> None:
        """Annotate the run with something good to know."""
        self._command("notice", text, title=title)

    def warning(self, text: str, *, title: str = "embed-ab") -> None:
        """Annotate the run with something that speaks against the result or is missing."""
        self._command("warning", text, title=title)

    def error(self, text: str, *, title: str = "embed-ab", file: str = "", line: str = "") -> None:
        """Annotate the run, or a line of a file, with what failed."""
        self._command("error", text, title=title, file=file, line=line)

    def mask(self, secret: str) -> None:
        """Let the runner replace a secret by stars from here on."""
        if secret:
            self._write(f"::add-mask::{_data(secret)}")

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold the lines written inside."""
        self._write(f"::group::{_data(printable(title, 'utf-8', is_terminal=False))}")
        try:
            yield
        finally:
            self._write("::endgroup::")

    def _command(self, name: str, text: str, **properties: str) -> None:
        given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
        self._write(f"::{name} {given}::{_data(text[:MAX_MESSAGE])}")

    def _write(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace("##[", "## [")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
