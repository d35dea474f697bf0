"""Parity: how alike two systems' vectors are, and which causes the evidence supports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from embed_ab.parity import NEARLY_SAME, Parity, Subject, Texts, agreement, compare, rank_agreement
from embed_ab.providers.base import ModelFacts, Role, Vectors

WORDS = [f"{a}{b}" for a in "pmkt" for b in "aeiou"]
IDS = [f"d{i:02}" for i in range(40)]
DOCUMENTS = Texts(
    role="document",
    ids=IDS,
    texts=[" ".join(WORDS[(i * j) % 19] for j in range(1, 60 if i % 2 else 5)) for i in range(40)],
)
QUERIES = Texts(
    role="query",
    ids=[f"q{i:02}" for i in range(40)],
    texts=[f"{WORDS[i % 20]} {WORDS[i * 3 % 19]}" for i in range(40)],
)


def unit(rows: Any) -> Vectors:
    array = np.asarray(rows, dtype=np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)  # type: ignore[no-any-return]


def bag(text: str) -> list[float]:
    """Counts of words, and one that is never 0; the words of a prompt count too."""
    vocabulary = [*WORDS, "query:", "passage:"]
    return [1.0, *(10.0 * text.split().count(word) for word in vocabulary)]


def words(
    *,
    limit: int | None = None,
    prompts: dict[Role, str] | None = None,
    dim: int | None = None,
    change: Callable[[Vectors], Vectors] = lambda vectors: vectors,
    batch_cosine: float | None = None,
    **fields: Any,
) -> Subject:
    """A model that counts the first `limit` words."""
    prompts = prompts or {}

    def bare(texts: Texts) -> Vectors:
        rows = [bag(" ".join(text.split()[:limit])) for text in texts.texts]
        return change(unit(np.array(rows)[:, :dim]))

    def embed(texts: Texts) -> Vectors:
        return bare(texts.changed(lambda text: prompts.get(texts.role, "") + text))

    facts = ModelFacts(
        dimension=23,
        query_prompt=prompts.get("query", ""),
        document_prompt=prompts.get("document", ""),
        max_length=limit,
        details={},
        batch_cosine=batch_cosine,
    )
    return Subject(
        **{"system": "toy", "embed": embed, "bare": bare, "facts": lambda: facts} | fields
    )


def compared(a: Subject, b: Subject) -> Parity:
    return compare(a, b, DOCUMENTS, QUERIES, k=10)


def causes(a: Subject, b: Subject) -> dict[str, str]:
    return {cause.code: cause.message for cause in compared(a, b).causes}


def test_the_same_model_gives_the_same_vectors() -> None:
    found = compared(words(), words())

    assert found.finding == "the same"
    assert found.mean == pytest.approx(1)
    assert found.causes == ()
    assert found.verdict == (
        "The same vectors: mean cosine 1.0000 for documents and 1.0000 for queries."
    )


def test_an_agreement_names_the_text_that_agrees_least() -> None:
    """Cosines 1, 0.6 and 0: their mean is 1.6 / 3, and p5 lies a tenth of the way to 0.6."""
    a = np.array([[1, 0], [1, 0], [1, 0]], dtype=np.float32)
    b = np.array([[2, 0], [3, 4], [0, 1]], dtype=np.float32)

    found = agreement(Texts(role="query", ids=["x", "y", "z"], texts=["", "", ""]), a, b)

    assert (found.n, found.lowest, found.lowest_id) == (3, 0, "z")
    assert (found.mean, found.p5) == pytest.approx((1.6 / 3, 0.06))


def test_rankings_agree_whatever_the_dimensions() -> None:
    """A ranks d0, d1 before d2, d3; B, of one dimension more, d0, d2: one of two shared."""
    a = unit([[1, 0], [1, 0.1], [1, 0.2], [1, 0.3]])
    b = unit([[1, 0, 0], [1, 0.2, 0], [1, 0.1, 0], [1, 0.3, 0]])

    found = rank_agreement(
        {"document": a, "query": unit([[1, 0]])}, {"document": b, "query": unit([[1, 0, 0]])}, 10
    )

    assert (found.k, found.overlap, found.same_first) == (2, 0.5, 1)


def test_another_prompt_is_named_with_the_one_that_agrees() -> None:
    a = words(prompts={"query": "query: ", "document": "passage: "})
    b = words(prompts={"query": "query: "})

    found = compared(a, b)

    assert [cause.code for cause in found.causes] == ["prompt"]
    assert "with 'passage:␣' instead of no prompt before B's documents" in found.causes[0].message
    assert found.causes[0].advice.startswith("Give --b-doc-prompt 'passage: ',")


def test_swapped_prompts_are_found_for_both_roles() -> None:
    a = words(prompts={"query": "query: ", "document": "passage: "})
    b = words(prompts={"query": "passage: ", "document": "query: "})

    assert [cause.code for cause in compared(a, b).causes] == ["prompt", "prompt"]


def test_a_prompt_that_a_server_adds_is_found_by_the_familys() -> None:
    """B puts it there itself: no side's settings name it."""
    served = words(prompts={"document": "passage: "})
    silent = words(bare=None, embed=served.embed, expected={"document": "passage: "})

    assert "with 'passage:␣' instead of no prompt before A's" in causes(words(), silent)["prompt"]


def test_texts_cut_in_different_places_agree_once_they_are_short() -> None:
    found = causes(words(), words(limit=30))

    assert list(found) == ["truncation"]
    assert "the 16 longest agree at 0." in found["truncation"]
    assert "A of unknown length and B 30 tokens" in found["truncation"]


def test_a_few_texts_that_were_cut_are_found_in_spite_of_a_perfect_p5() -> None:
    """3 of 100 documents differ: the 5th percentile is 1, the mean is not."""
    documents = Texts(
        role="document",
        ids=[f"d{i}" for i in range(100)],
        texts=[" ".join(WORDS[i % 19] for _ in range(5)) for i in range(97)]
        + [" ".join(WORDS[:10] * 6 + WORDS[10:] * 6) for _ in range(3)],
    )

    found = compare(words(), words(limit=60), documents, QUERIES, k=10)

    assert found.agreements[0].p5 == pytest.approx(1)
    assert found.finding == "nearly the same"
    assert [cause.code for cause in found.causes] == ["truncation"]
    assert "the 3 longest agree at 0." in found.causes[0].message


def test_only_what_could_be_tried_is_said_to_be() -> None:
    """No facts of a batch, no prompt to leave out, no other pooling; then vectors of a file."""
    other = words(change=lambda vectors: vectors[:, ::-1])
    given = words(change=lambda vectors: vectors[:, ::-1], bare=None, is_given=True)
    prompted = words(prompts={"document": "passage: "}, change=lambda vectors: vectors[:, ::-1])

    assert compared(words(), other).tried == ("order", "lengths")
    assert compared(words(bare=None), given).tried == ("order",)
    assert compared(words(), prompted).tried == ("order", "prompts", "lengths")


def test_vectors_in_each_others_places_are_found() -> None:
    found = causes(words(), words(change=lambda vectors: np.roll(vectors, 1, axis=0)))

    assert "for 40 of 40 documents" in found["order"]


def test_a_batch_that_changes_vectors_is_a_cause() -> None:
    slightly = words(batch_cosine=0.98, change=lambda v: unit(v + 0.1 * np.roll(v, 1, axis=0)))

    assert (
        "B gives a text another vector in a batch than alone: cosine 0.9800"
        in (causes(words(), slightly)["batch"])
    )


def test_pooling_is_tried_where_nothing_else_explains_and_the_best_is_named() -> None:
    flipped = words(change=lambda vectors: vectors[:, ::-1])
    st = words(pooled={"max": words(limit=1).embed, "cls": flipped.embed})

    assert (
        "with cls in A the mean cosine of 16 documents is 1.0000"
        in (causes(st, flipped)["pooling"])
    )


def test_another_model_has_no_cause() -> None:
    found = compared(words(), words(change=lambda vectors: vectors[:, ::-1]))

    assert (found.finding, found.causes) == ("not the same", ())


def test_a_little_noise_is_nearly_the_same() -> None:
    noise = np.random.default_rng(0).normal(0, 0.025, (40, 23)).astype(np.float32)
    found = compared(words(), words(change=lambda v: unit(v + noise[: len(v)])))

    assert NEARLY_SAME < (found.mean or 0) < 0.999
    assert (found.finding, found.causes) == ("nearly the same", ())


def test_other_dimensions_are_never_the_same() -> None:
    found = compared(words(), words(change=lambda vectors: vectors[:, 3:]))

    assert found.verdict == "Not the same vectors: A has 23 dimensions and B 20."
    assert (found.mean, found.causes) == (None, ())


def test_a_vector_that_was_cut_is_the_beginning_of_the_other() -> None:
    assert (
        "B's vectors are the first 20 elements of A's"
        in (causes(words(), words(dim=20))["dimensions"])
    )


def test_lengths_other_than_one_are_noted_and_are_no_cause() -> None:
    ones, longer = (
        words(lengths=lambda texts, of=of: np.linspace(1, of, len(texts.texts))) for of in (1, 3)
    )

    found = compared(ones, longer)

    assert found.finding == "the same"
    assert found.notes[0].startswith("B does not normalise its vectors: their lengths go from 1 to")


def test_one_document_and_one_query_are_enough() -> None:
    found = compare(words(), words(), DOCUMENTS.only([0]), QUERIES.only([0]), k=10)

    assert (found.finding, found.ranks.k) == ("the same", 1)
