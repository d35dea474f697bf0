"""The files that a step hands to the runner: its outputs and the job summary."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from embed_ab.errors import GithubError

SUMMARY_BYTES = 900_000
"""The runner drops a summary above 1,048,576 bytes whole."""


def write_outputs(path: Path, outputs: Mapping[str, str], token: Callable[[], str]) -> None:
    """Append the step's outputs, each between fresh delimiters that no value can guess.

    Raises: GithubError if a value holds its delimiter or the file cannot be written.
    """
    lines = []
    for name, value in outputs.items():
        end = f"ghadelimiter_{token()}"
        if end in value:
            raise GithubError(f"the output {name} holds its own delimiter")
        lines.append(f"{name}<<{end}\n{value}\n{end}\n")
    _append(path, "".join(lines))


def write_summary(path: Path, markdown: str) -> None:
    """Append to the job summary, cut at the limit in bytes with a line that says so.

    Raises: GithubError if the file cannot be written.
    """
    content = markdown.encode()
    try:
        room = max(SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0), 0)
    except OSError as error:
        raise GithubError(f"{path.name} cannot be read: {error.strerror}") from None
    if len(content) > room:
        kept = content[:room].decode("utf-8", "ignore").rpartition("\n")[0]
        markdown = f"{kept}\n\nThe rest is left out; the report has all.\n"
    _append(path, f"{markdown.rstrip()}\n")


def give_to_owner_of(folder: Path, paths: Iterable[Path]) -> None:
    """Give files to the owner of a folder: root's files break later steps of self-hosted runners.

    Raises: GithubError.
    """
    if os.geteuid() != 0:
        return
    owner = folder.stat()
    try:
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    except OSError as error:
        raise GithubError(
            f"{path.name} cannot be given to the workspace's owner: {error.strerror}"
        ) from None


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except OSError as error:
        raise GithubError(f"{path.name} cannot be written: {error.strerror}") from None
