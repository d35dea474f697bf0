"""Filters questions and merges those that ask the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from embed_ab.buildset import filters
from embed_ab.buildset.chunks import Chunk
from embed_ab.buildset.languages import detect
from embed_ab.buildset.options import Counts, Options, Query
from embed_ab.buildset.questions import COPIED, MAX_QUESTION, Question


def kept(
    chunks: Sequence[Chunk],
    gold: Mapping[int, tuple[int, ...]],
    answers: Mapping[int, Sequence[Question]],
    options: Options,
    counts: Counts,
) -> Iterator[Query]:
    """Yield the questions that pass the filters, in the order of their chunks."""
    for index, written in answers.items():
        chunk = chunks[index]
        counts.n_written += len(written)
        if len(written) < options.per_chunk:
            counts.fewer.append(chunk.id)
        counts.dropped["more than asked for"] += len(written[options.per_chunk :])
        for number, question in enumerate(written[: options.per_chunk], 1):
            share = filters.copy_share(question.text, f"{chunk.title}\n{chunk.text}")
            reason = ""
            if len(question.text) > MAX_QUESTION:
                reason = f"longer than {MAX_QUESTION} characters"
            elif sum(map(str.isalpha, question.text)) < 2:
                reason = "without words"
            elif question.style != COPIED and filters.is_deictic(question.text):
                reason = "points at its document"
            elif share > options.max_copy:
                reason = f"copied (over {options.max_copy:g})"
            if reason:
                counts.dropped[reason] += 1
                continue
            metadata = {
                "style": question.style,
                "source": chunk.source,
                "language": detect(question.text),
                "copy_share": round(share, 3),
            }
            yield Query(
                id=f"{chunk.id}.{number}",
                text=question.text,
                documents=gold[index],
                metadata=metadata,
            )


def merged(queries: Sequence[Query], counts: Counts) -> list[Query]:
    """Return the queries with those that ask the same made one, which all their chunks answer."""
    distinct: list[Query] = []
    place_of: dict[str, int] = {}
    for query in queries:
        forms = filters.forms(query.text)
        place = next((place_of[form] for form in forms if form in place_of), len(distinct))
        for form in forms:
            place_of.setdefault(form, place)
        if place == len(distinct):
            distinct.append(query)
            continue
        counts.n_merged += 1
        first = distinct[place]
        documents = tuple(sorted({*first.documents, *query.documents}))
        distinct[place] = replace(first, documents=documents)
    return distinct
