"""Puts the requests to the model, several at once, and each answer into the journal."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from embed_ab import bm25
from embed_ab.buildset.chunks import Chunk
from embed_ab.buildset.journal import Journal
from embed_ab.buildset.languages import detect
from embed_ab.buildset.options import Counts, Options, Query
from embed_ab.buildset.questions import Question, Writer, key_of, styles_for
from embed_ab.errors import ProviderError
from embed_ab.llm import UnreadableAnswer, answers
from embed_ab.providers.http import RequestRefused

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

_N_NEIGHBOURS = 4


def ask_questions(
    chunks: Sequence[Chunk],
    asked: Sequence[int],
    options: Options,
    writer: Writer,
    journal: Journal,
    counts: Counts,
    on_progress: OnProgress,
) -> dict[int, list[Question]]:
    """Return the questions of each chunk, from the journal or from the model."""

    def request(index: int) -> tuple[str, Callable[[], dict[str, Any]]]:
        chunk = chunks[index]
        styles = styles_for(chunk, options.per_chunk, options.seed)
        language = detect(chunk.text) if options.language == "auto" else options.language
        key = _key(writer, options, styles, language, chunk.title, chunk.text)

        def ask() -> dict[str, Any]:
            written = writer.questions(chunk, styles, language)
            return {"chunk": chunk.id, "questions": [asdict(question) for question in written]}

        return key, ask

    def failed(index: int, error: ProviderError) -> None:
        is_refusal = isinstance(error, RequestRefused)
        (counts.refused if is_refusal else counts.unreadable).append(chunks[index].id)

    records = _answers(
        asked,
        request,
        _holds_questions,
        failed,
        "questions",
        options.concurrency,
        journal,
        on_progress,
    )
    counts.unreadable.sort()
    counts.refused.sort()
    return {
        index: [Question(**question) for question in record["questions"]]
        for index, record in records.items()
    }


def _key(writer: Writer, options: Options, *asked: object) -> str:
    # The same name on another server, or for another digest, is another model.
    return key_of(writer.name, writer.server, writer.digest, options.seed, *asked)


def _holds_questions(record: dict[str, Any]) -> bool:
    questions = record.get("questions")
    return (
        isinstance(questions, list)
        and bool(questions)
        and all(
            isinstance(question, dict)
            and set(question) == {"style", "text"}
            and all(isinstance(value, str) for value in question.values())
            for question in questions
        )
    )


def _holds_chosen(record: dict[str, Any]) -> bool:
    chosen = record.get("chosen")
    return isinstance(chosen, list) and all(type(place) is int for place in chosen)


def _answers(
    indices: Sequence[int],
    request: Callable[[int], tuple[str, Callable[[], dict[str, Any]]]],
    is_sound: Callable[[dict[str, Any]], bool],
    failed: Callable[[int, ProviderError], None],
    what: str,
    concurrency: int,
    journal: Journal,
    on_progress: OnProgress,
) -> dict[int, dict[str, Any]]:
    """Return the record of each index, in their order; those that failed are left out.

    Each answer is in the journal before the next is waited for.
    Raises: ProviderError for what is no fault of the single request.
    """
    records: dict[int, dict[str, Any]] = {}
    waiting: dict[int, tuple[str, Callable[[], dict[str, Any]]]] = {}
    for index in indices:
        key, ask = request(index)
        known = journal.get(key, is_sound)
        if known is None:
            waiting[index] = key, ask
        else:
            records[index] = known

    def work(index: int) -> dict[str, Any]:
        key, ask = waiting[index]
        record = ask()
        journal.put(key, **record)
        return record

    on_progress(what, len(records), len(indices))
    found = answers(work, deque(waiting), concurrency, n_known=len(records))
    for n_done, (index, outcome) in enumerate(found, len(records) + 1):
        if isinstance(outcome, RequestRefused | UnreadableAnswer):
            failed(index, outcome)
        else:
            records[index] = outcome
        on_progress(what, n_done, len(indices))
    return {index: records[index] for index in indices if index in records}


def verified(
    chunks: Sequence[Chunk],
    queries: Sequence[Query],
    options: Options,
    writer: Writer,
    journal: Journal,
    counts: Counts,
    on_progress: OnProgress,
) -> list[Query]:
    """Return the queries; those that do not lead to their chunk have `ambiguous` in metadata."""
    if options.verify == "none":
        return list(queries)
    texts = [f"{chunk.title}\n{chunk.text}".strip() for chunk in chunks]
    most_gold = max(len(query.documents) for query in queries)
    run = bm25.search(
        texts,
        [query.text for query in queries],
        "auto",
        min(_N_NEIGHBOURS + most_gold, len(texts)),
    )
    ranked = run.documents.tolist()
    if options.verify == "bm25":
        found = [
            _is_ahead(set(query.documents), row, scores)
            for query, row, scores in zip(queries, ranked, run.scores.tolist(), strict=True)
        ]
    else:
        found = _judged(texts, queries, ranked, options, writer, journal, counts, on_progress)
    return [
        query if is_found else replace(query, metadata={**query.metadata, "ambiguous": True})
        for query, is_found in zip(queries, found, strict=True)
    ]


def _is_ahead(gold: set[int], ranked: Sequence[int], scores: Sequence[float]) -> bool:
    """Return whether a gold document is first, with a score that no other document reaches."""
    if ranked[0] not in gold:
        return False
    others = (score for document, score in zip(ranked, scores, strict=True) if document not in gold)
    return scores[0] > next(others, -math.inf)


def _judged(
    texts: Sequence[str],
    queries: Sequence[Query],
    ranked: Sequence[Sequence[int]],
    options: Options,
    writer: Writer,
    journal: Journal,
    counts: Counts,
    on_progress: OnProgress,
) -> list[bool]:
    """Return of each query whether the model, shown its neighbours too, chose only its chunks."""

    def candidates(index: int) -> list[int]:
        gold = queries[index].documents
        # What the question's words find, and then what stands around the chunk.
        place = range(max(gold[0] - _N_NEIGHBOURS, 0), min(gold[0] + _N_NEIGHBOURS + 1, len(texts)))
        around = sorted(place, key=lambda document: abs(document - gold[0]))
        others = dict.fromkeys([*ranked[index], *around])
        near = [document for document in others if document >= 0 and document not in gold]
        # The place must not give the answer away.
        shown = [gold[0], *near[:_N_NEIGHBOURS]]
        return sorted(shown, key=lambda document: key_of(options.seed, index, texts[document]))

    def request(index: int) -> tuple[str, Callable[[], dict[str, Any]]]:
        query = queries[index]
        passages = [texts[document] for document in candidates(index)]

        def ask() -> dict[str, Any]:
            return {"judged": query.id, "chosen": sorted(writer.answering(query.text, passages))}

        return _key(writer, options, "judge", query.text, passages), ask

    def failed(index: int, error: ProviderError) -> None:
        counts.unjudged.append(queries[index].id)

    records = _answers(
        range(len(queries)),
        request,
        _holds_chosen,
        failed,
        "judgements",
        options.concurrency,
        journal,
        on_progress,
    )
    counts.unjudged.sort()
    return [
        [candidates(index)[place] for place in records[index]["chosen"]]
        == [queries[index].documents[0]]
        if index in records
        else False
        for index in range(len(queries))
    ]
