"""Workflow commands: groups, annotations and masks, written so that no text can act as one.

Source: github.com/actions/runner, ActionCommand.cs and ActionCommandManager.cs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from embed_ab import formats

MAX_MESSAGE = 4_000
"""The runner cuts an annotation at 4,096 characters."""


@dataclass(frozen=True)
class Log:
    """The job's log; `token` makes words that nobody can guess."""

    stream: TextIO
    token: Callable[[], str]

    def line(self, text: str) -> None:
        """Write one line; what would be a command in it does not act."""
        self._write(_shown(text))

    def notice(self, text: str) -> None:
        """Annotate the run with something good to know."""
        self._command("notice", text)

    def warning(self, text: str, *, title: str = "") -> None:
        """Annotate the run with something that is missing or speaks against the result."""
        self._command("warning", text, title=title)

    def error(self, text: str, *, file: str = "", line: int | None = None) -> None:
        """Annotate the run, or a line of a file, with what failed."""
        self._command("error", text, file=file, line="" if line is None else str(line))

    def mask(self, secret: str) -> None:
        """Let the runner replace a secret by stars from here on."""
        if secret.strip():
            self._write(f"::add-mask::{_data(secret)}")

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold the lines written inside."""
        self._write(f"::group::{_data(_shown(title))}")
        try:
            yield
        finally:
            self._write("::endgroup::")

    @contextmanager
    def inert(self) -> Iterator[None]:
        """Let nothing act that is printed inside, whoever prints it; commands of ours neither."""
        token = self.token()
        self._write(f"::stop-commands::{token}")
        try:
            yield
        finally:
            self._write(f"\n::{token}::")  # a library may have left a line open

    def _command(self, name: str, text: str, **properties: str) -> None:
        properties = {"title": "embed-ab"} | {k: v for k, v in properties.items() if v}
        given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        self._write(f"::{name} {given}::{_data(formats.readable(text)[:MAX_MESSAGE])}")

    def _write(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()


def _shown(text: str) -> str:
    return formats.printable(text, "utf-8", is_terminal=False)


def _data(text: str) -> str:
    # The old form of commands, ##[…], is obeyed anywhere in a line.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace("##[", "## [")


def _property(text: str) -> str:
    return _data(formats.plain(text)).replace(":", "%3A").replace(",", "%2C")
