"""What a set is made by, and what was dropped while it was made."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from embed_ab.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the set is made by; all of it but `concurrency` decides what the set is.

    max_copy: largest share of a question's words that may stand in its chunk.
    language: `auto`, or the tag of the language to ask in, such as ko.
    verify: by what each question must find its chunk, or else is marked ambiguous: by a BM25 score
        above those of all other chunks, or by the choice of the model.
    Raises: InputError for a value out of its bounds.
    """

    chunk_chars: int = 600
    per_chunk: int = 1
    max_chunks: int | None = None
    max_copy: float = 0.6
    language: str = "auto"
    verify: Literal["none", "bm25", "llm"] = "none"
    seed: int = 0
    concurrency: int = 4

    def __post_init__(self) -> None:
        bounds: dict[str, tuple[float | None, float, float]] = {
            "--chunk-chars": (self.chunk_chars, 100, 20_000),
            "--per-chunk": (self.per_chunk, 1, 20),
            "--max-chunks": (self.max_chunks, 1, 10_000_000),
            "--max-copy": (self.max_copy, 0, 1),
            "--concurrency": (self.concurrency, 1, 64),
        }
        for flag, (value, low, high) in bounds.items():
            if value is not None and not low <= value <= high:
                default = getattr(Options, flag.strip("-").replace("-", "_"))
                usual = (
                    "ask about all chunks" if default is None else f"have the default, {default:g}"
                )
                raise InputError(
                    f"{flag} {value:g} is not from {low:,} to {high:,}",
                    hint=f"Leave it out to {usual}.",
                )
        if self.language != "auto" and not re.fullmatch(
            r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", self.language
        ):
            raise InputError(
                f"--language '{self.language}' is not a language tag",
                hint="Write a tag such as ko, or auto for the language of each chunk.",
            )


@dataclass(frozen=True, kw_only=True)
class Query:
    """A question of the set; `documents` are the chunks that answer it."""

    id: str
    text: str
    documents: tuple[int, ...]
    metadata: dict[str, Any]


@dataclass(kw_only=True)
class Counts:
    """What was dropped, and why; the lists hold the ids of chunks, `unjudged` those of queries."""

    without_question: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    fewer: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    n_written: int = 0
    n_merged: int = 0
