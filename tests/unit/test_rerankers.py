"""A reranker's scores become an order: what it is asked, and what is said when it fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from embed_ab import evalset, rerankers
from embed_ab.errors import EmbedAbError, ProviderError
from embed_ab.providers.base import RerankerFacts, Scored
from embed_ab.providers.cache import VectorStore
from embed_ab.registry import Side
from embed_ab.rerankers import by_model, contact
from embed_ab.retrieved import Retrieved
from embed_ab.runs import Run
from embed_ab.system_spec import SystemSpec
from embed_ab.systems import Ready, retrieve

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


def test_documents_of_one_text_are_asked_about_once_and_tie() -> None:
    reranker = ByText({"same": 1.0, "other": 0.5})

    found = by_model("ce:x", reranker, SET, candidates(2, 3, 0), lambda *_: None)

    assert reranker.asked == [["same", "other"]]
    assert found.run.documents.tolist() == [[0, 2, 3]]


def test_a_candidate_that_is_lost_on_the_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the sets stay the same is checked, not assumed."""

    def lossy(first: Run, scores: object, *, name: str) -> Run:
        return first.cut(1)

    monkeypatch.setattr(rerankers, "reorder", lossy)

    with pytest.raises(EmbedAbError, match="ce:x changed the candidates of query 'q0'"):
        by_model(
            "ce:x", ByText({"same": 1.0, "other": 2.0}), SET, candidates(2, 3), lambda *_: None
        )


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


MANY = evalset.from_records(
    {"d0": "same", "d1": "other"},
    {f"q{n:02}": f"question {n}" for n in range(50)},
    {"q00": {"d1": 1}},
    no_positive="exclude",
)


@dataclass
class Told:
    """A reranker that tells what a query took, and notes which were scored in threads."""

    seconds: float = 1.0
    concurrency: int = 4
    asked: list[str] = field(default_factory=list)
    is_shared: dict[str, bool] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def facts(self) -> RerankerFacts:
        return RerankerFacts()

    def score(self, query: str, documents: Sequence[str]) -> Scored:
        with self.lock:
            self.asked.append(query)
            self.is_shared[query] = threading.current_thread() is not threading.main_thread()
        return Scored(np.arange(len(documents), dtype=float), seconds=self.seconds)


def of_every_query(reranker: Told, seconds_a_look: float = 0.0) -> dict[int, float]:
    """Return the seconds by query; `seconds_a_look` pass each time that the clock is read."""
    first = Run(
        name="first",
        documents=np.tile(np.array([0, 1], dtype=np.int32), (50, 1)),
        scores=np.tile(np.array([2.0, 1.0]), (50, 1)),
    )
    now = [0.0]

    def clock() -> float:
        now[0] += seconds_a_look
        return now[0]

    found = by_model("http:x", reranker, MANY, first, lambda *_: None, clock=clock)
    assert (found.run.documents == [1, 0]).all()
    return dict(found.seconds)


def test_each_query_of_a_model_here_is_timed() -> None:
    assert of_every_query(Told(seconds=2.0, concurrency=1)) == dict.fromkeys(range(50), 2.0)


def test_of_a_server_20_queries_are_timed_each_alone_and_none_is_asked_twice() -> None:
    """From the first to the last of 50, spread evenly: 0, 49 / 19 = 2.58, 5.16, …"""
    reranker = Told()

    found = of_every_query(reranker)

    assert list(found)[:3] == [0, 2, 5]
    assert (len(found), max(found)) == (20, 49)
    assert not any(reranker.is_shared[MANY.query_texts[query]] for query in found)
    assert sum(reranker.is_shared.values()) == 30
    assert sorted(reranker.asked) == sorted(MANY.query_texts)


def test_a_slow_server_is_asked_for_several_at_once_after_ten_seconds() -> None:
    """Looked at before each query: 4 s, then 4 and 8 s later, and 12 s later is too late."""
    assert len(of_every_query(Told(), seconds_a_look=4.0)) == 2


def test_a_failure_among_queries_asked_at_once_is_named() -> None:
    """Query 1 is the first that is not among the 20 spread over the set."""

    class Failing(Told):
        def score(self, query: str, documents: Sequence[str]) -> Scored:
            scored = super().score(query, documents)
            if query == MANY.query_texts[1]:
                raise ProviderError("it is down")
            return scored

    with pytest.raises(ProviderError, match="http:x: query 'q01': it is down"):
        of_every_query(Failing(concurrency=2))


def ranked(system: str, ready: Ready, shared: dict[str, Retrieved] | None = None) -> Retrieved:
    store = VectorStore.open(None)
    found = retrieve(
        SystemSpec.parse(system),
        Side(),
        MANY,
        2,
        store,
        lambda *_: None,
        shared=shared,
        ready=ready,
    )
    store.close()
    return found


def test_a_hybrid_waits_for_all_its_rerankers() -> None:
    """1 s of the model here for each query, and 2 s more of the server where that was timed."""
    ready = Ready(rerankers={"ce:x": Told(seconds=1.0, concurrency=1), "http:y": Told(seconds=2.0)})
    one, other = "rerank(mock:word, ce:x; depth=2)", "rerank(mock:word, http:y; depth=2)"

    alone = ranked(f"rrf({one}, mock:char3)", ready)
    both = ranked(f"rrf({one}, {other})", ready)

    assert alone.rerank_seconds == dict.fromkeys(range(50), 1.0)
    assert set(both.rerank_seconds.values()) == {3.0}
    assert len(both.rerank_seconds) == 20


def test_work_that_another_system_did_is_counted_there_and_the_wait_is_known() -> None:
    """2 documents and 50 queries, embedded for A."""
    ready, shared = Ready(rerankers={"ce:x": Told(concurrency=1)}), dict[str, Retrieved]()
    reranked = "rerank(mock:word, ce:x; depth=2)"

    a = ranked(f"rrf({reranked}, bm25:word)", ready, shared)
    b = ranked(f"blend({reranked}, bm25:word)", ready, shared)

    assert (a.n_embedded, a.n_cached) == (52, 0)
    assert (b.n_embedded, b.n_cached, b.n_tokens, b.seconds, b.price) == (0, 52, None, 0.0, None)
    assert len(a.rerank_seconds) == len(b.rerank_seconds) == 50
    assert len(ready.rerankers["ce:x"].asked) == 50  # type: ignore[attr-defined]
