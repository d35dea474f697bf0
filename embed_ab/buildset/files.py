"""Writes the set, and the record of how it was made."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from embed_ab import __version__
from embed_ab.buildset.chunks import Chunk
from embed_ab.buildset.documents import Document, Skipped
from embed_ab.buildset.options import Counts, Query
from embed_ab.buildset.questions import COPIED, STYLES
from embed_ab.outputs import write_text

RECORD = "build.json"
FILES = ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
BESIDE = ("judgements.jsonl",)
"""What `label --merge` puts beside the set."""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Skipped(_Part):
    source: str
    reason: str


class _CopyShare(_Part):
    median: float
    at_least_half: int


class _Counts(_Part):
    files: int
    skipped_files: int
    chunks: int
    chunks_without_question: dict[str, int]
    chunks_asked: int
    questions_written: int
    questions_dropped: dict[str, int]
    questions_merged: int
    queries: int
    queries_ambiguous: int
    styles: dict[str, int]


class _Options(_Part):
    verify: str
    per_chunk: int


class _Record(_Part):
    """What of a record is compared or printed."""

    model: str
    options: _Options
    counts: _Counts
    copy_share: _CopyShare
    skipped: list[_Skipped]
    unreadable: list[str]
    refused: list[str]
    fewer: list[str]
    unjudged: list[str]


def is_record(found: object) -> bool:
    """Return whether what stands in a file is a record as `describe` makes it."""
    try:
        _Record.model_validate(found)
    except ValidationError:
        return False
    return True


def describe(
    documents: Sequence[Document],
    skipped: Sequence[Skipped],
    chunks: Sequence[Chunk],
    asked: Sequence[int],
    queries: Sequence[Query],
    counts: Counts,
) -> dict[str, Any]:
    """Return what the record says about a set beyond what it was made by."""
    shares = [query.metadata["copy_share"] for query in queries]
    written = Counter(query.metadata["style"] for query in queries)
    return {
        "version": __version__,
        "counts": {
            "files": len({document.file for document in documents}),
            "skipped_files": len(skipped),
            "chunks": len(chunks),
            "chunks_without_question": dict(sorted(counts.without_question.items())),
            "chunks_asked": len(asked),
            "chunks_with_fewer_questions": len(counts.fewer),
            "chunks_unreadable": len(counts.unreadable),
            "chunks_refused": len(counts.refused),
            "questions_written": counts.n_written,
            "questions_dropped": dict(sorted((+counts.dropped).items())),
            "questions_merged": counts.n_merged,
            "queries": len(queries),
            "queries_ambiguous": sum("ambiguous" in query.metadata for query in queries),
            "queries_unjudged": len(counts.unjudged),
            "styles": {style: written[style] for style in (*STYLES, COPIED) if written[style]},
            "languages": dict(
                sorted(Counter(query.metadata["language"] for query in queries).items())
            ),
        },
        "copy_share": {
            "median": round(median(shares), 3),
            "at_least_half": sum(share >= 0.5 for share in shares),
        },
        "skipped": [asdict(item) for item in skipped],
        "unreadable": counts.unreadable,
        "refused": counts.refused,
        "fewer": counts.fewer,
        "unjudged": counts.unjudged,
    }


def write(
    out: Path, chunks: Sequence[Chunk], queries: Sequence[Query], record: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the set, each file whole, and last the record that says it is finished; return that."""
    corpus = [
        {
            "_id": chunk.id,
            **({"title": chunk.title} if chunk.title else {}),
            "text": chunk.text,
            "metadata": {"source": chunk.source, "start": chunk.start, "end": chunk.end},
        }
        for chunk in chunks
    ]
    asked = [{"_id": query.id, "text": query.text, "metadata": query.metadata} for query in queries]
    judged = [
        f"{query.id}\t{chunks[document].id}\t1" for query in queries for document in query.documents
    ]
    contents = (
        _lines(json.dumps(row, ensure_ascii=False) for row in corpus),
        _lines(json.dumps(row, ensure_ascii=False) for row in asked),
        _lines(["query-id\tcorpus-id\tscore", *judged]),
    )
    texts = dict(zip(FILES, contents, strict=True))
    (out / RECORD).unlink(missing_ok=True)  # of a set with gaps: killed here, it is not finished
    for name, text in texts.items():
        write_text(out / name, text)
    record = {**record, "files": {name: _digest(text.encode()) for name, text in texts.items()}}
    write_text(out / RECORD, json.dumps(record, ensure_ascii=False, indent=2) + "\n")
    return record


def is_as_written(out: Path, record: Mapping[str, Any]) -> bool:
    """Return whether the files of a set are still those that its record was written with."""
    digests = record.get("files")
    try:
        return isinstance(digests, dict) and all(
            _digest((out / name).read_bytes()) == digests.get(name) for name in FILES
        )
    except OSError:
        return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
