"""A reranker's scores become an order: what it is asked, and what is said when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from embed_ab import evalset
from embed_ab.errors import ProviderError
from embed_ab.providers.base import RerankerFacts, Scored
from embed_ab.rerankers import by_model, contact
from embed_ab.runs import Run

SET = evalset.from_records(
    {"d0": "same", "d1": "", "d2": "same", "d3": "other"},
    {"q0": "question"},
    {"q0": {"d3": 1}},
)


@dataclass
class ByText:
    """Scores that a test gives for each text."""

    of: dict[str, float]
    concurrency: int = 1
    asked: list[list[str]] = field(default_factory=list)

    def facts(self) -> RerankerFacts:
        return RerankerFacts()

    def score(self, query: str, documents: Sequence[str]) -> Scored:
        self.asked.append(list(documents))
        return Scored(np.array([self.of[text] for text in documents]))


def candidates(*documents: int) -> Run:
    return Run(
        name="first",
        documents=np.array([documents], dtype=np.int32),
        scores=-np.arange(len(documents), dtype=float)[None],
    )


def test_a_document_without_text_is_not_asked_about_and_comes_last() -> None:
    reranker = ByText({"same": -5.0, "other": 7.0})

    found = by_model("ce:x", reranker, SET, candidates(1, 2, 3), lambda *_: None)

    assert reranker.asked == [["same", "other"]]
    assert found.run.documents.tolist() == [[3, 2, 1]]
    assert found.run.scores.tolist() == [[7.0, -5.0, -6.0]]


def test_candidates_without_any_text_keep_their_order() -> None:
    reranker = ByText({})

    found = by_model("ce:x", reranker, SET, candidates(1), lambda *_: None)

    assert reranker.asked == []
    assert found.run.documents.tolist() == [[1]]


def test_a_score_that_is_none_is_named_by_a_candidate() -> None:
    """d0 has the same text as d2 and is no candidate."""
    with pytest.raises(ProviderError, match="query 'q0' and document 'd2' is NaN"):
        by_model("ce:x", ByText({"same": np.nan}), SET, candidates(2), lambda *_: None)


@pytest.mark.parametrize("scores", [[np.nan], [0.1, 0.2], [[0.1, 0.2]]])
def test_a_first_score_that_is_none_is_said_at_the_start(scores: list[object]) -> None:
    class Odd(ByText):
        def score(self, query: str, documents: Sequence[str]) -> Scored:
            return Scored(np.array(scores))

    with pytest.raises(ProviderError, match="ce:x: what came back for a short query"):
        contact("ce:x", Odd({}))
