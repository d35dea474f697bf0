"""What a run measures of its models: batches against single texts, tokens, and time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
import pytest

from embed_ab import evalset
from embed_ab.commands import _measured, demo_folder
from embed_ab.errors import ProviderError
from embed_ab.providers.base import Embedded, ModelFacts, Request, Role, Usage
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import embed_cached
from embed_ab.providers.measure import batch_cosine, cosines, query_seconds
from embed_ab.registry import Side
from embed_ab.result import Wait
from embed_ab.system_spec import SystemSpec
from embed_ab.systems import retrieve


class Clock:
    """Each look moves it by one second."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@dataclass
class Leaky:
    """In a batch, each text's vector takes something of its neighbour's."""

    leak: float = 0.0
    n_tokens: int | None = None
    fails_at: int = 99
    seconds: float = 0.1
    pieces: int = 1
    name: str = "leaky"
    fingerprint: str = "leaky"
    prompts: Mapping[Role, str] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    concurrency: int = 1
    batch_size: int = 64
    truncate: bool = True
    usage: Usage = field(default_factory=Usage)

    def role_fingerprint(self, role: Role) -> str:
        return self.fingerprint

    def facts(self) -> ModelFacts:
        return ModelFacts(dimension=2, details={})

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        self.asked.append(list(texts))
        n_tokens = self.n_tokens and self.n_tokens * len(texts)
        for _ in range(self.pieces):
            self.usage.requests.append(Request(role, len(texts), n_tokens, self.seconds))
        if len(self.asked) > self.fails_at:
            raise ProviderError("gone")
        own = np.array([[1, 0] if len(text) % 2 else [0, 1] for text in texts], dtype=np.float32)
        return Embedded(vectors=own + self.leak * np.roll(own, 1, axis=0) * (len(texts) > 1))


@dataclass
class Local:
    """A model without a server."""

    fails_at: int = 99
    name: str = "local"
    fingerprint: str = "local"
    prompts: Mapping[Role, str] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    def facts(self) -> ModelFacts:
        return ModelFacts(dimension=1, details={})

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        self.asked.append(list(texts))
        if len(self.asked) > self.fails_at:
            raise RuntimeError("out of memory")
        return Embedded(vectors=np.ones((len(texts), 1), dtype=np.float32))


@pytest.fixture
def store() -> Iterator[VectorStore]:
    store = VectorStore.open(None)
    yield store
    store.close()


def test_a_cosine_is_that_of_rows_of_any_length() -> None:
    """(3, 4) and (4, 3) are 24 / 25 alike."""
    a = np.array([[3, 4], [1, 0], [0, 0]], dtype=np.float32)
    b = np.array([[40, 30], [-1, 0], [1, 0]], dtype=np.float32)

    assert cosines(a, b) == pytest.approx([0.96, -1, np.nan], nan_ok=True)


def test_a_model_without_batch_effects_agrees_with_itself() -> None:
    assert batch_cosine(Leaky(), ["a", "bb"], "document") == pytest.approx(1)


def test_a_neighbour_that_leaks_lowers_the_cosine() -> None:
    """(1, 0.5) and (1, 0) are 1 / sqrt(1.25) alike."""
    assert batch_cosine(Leaky(0.5), ["a", "bb"], "document") == pytest.approx(0.894427)


def test_only_the_shortest_and_the_longest_text_are_tried_and_cut_at_200_characters() -> None:
    model = Leaky()
    batch_cosine(model, ["x" * 999, "bb", "a", "bb"], "document")

    assert model.asked == [["a"], ["x" * 200], ["a", "x" * 200]]


def test_long_texts_are_cut_at_different_lengths_so_that_one_is_padded() -> None:
    model = Leaky()
    batch_cosine(model, ["x" * 300, "y" * 400], "document")

    assert model.asked[-1] == ["x" * 40, "y" * 200]


def test_the_probe_gets_the_shortest_and_the_longest_of_all_texts_to_embed(
    store: VectorStore,
) -> None:
    """Ten texts of 1 to 10 characters, two a batch; that of 10 is in the store."""
    texts = ["x" * length for length in range(1, 11)]
    model = Leaky(batch_size=2)
    embed_cached(model, store, texts[9:], ["d10"], "document")
    seen: list[Sequence[str]] = []

    embed_cached(
        model, store, texts, texts, "document", before=lambda texts, role: seen.append(texts)
    )

    assert seen == [["x", "x" * 9]]


def test_one_text_has_no_batch_to_differ_in() -> None:
    model = Leaky(0.5)

    assert batch_cosine(model, ["a", "a"], "document") is None
    assert model.asked == []


def test_a_query_is_asked_for_alone() -> None:
    """A look at the clock before and one after each, one second apart."""
    model = Local()

    assert query_seconds(model, ["a", "b"], Clock()) == (1, 1)
    assert model.asked == [["a"], ["b"]]


def test_at_most_20_queries_are_asked_for_from_first_to_last() -> None:
    model = Leaky()
    query_seconds(model, [str(number) for number in range(1000)], Clock(0.001))

    assert (len(model.asked), model.asked[0], model.asked[-1]) == (20, ["0"], ["999"])


def test_a_slow_model_is_asked_for_ten_seconds_only() -> None:
    """A look every four seconds, the first at 4: at 16 s the second query would begin, after 14."""
    assert query_seconds(Local(), ["a", "b", "c", "d"], Clock(4)) == (4,)


def test_of_a_server_the_request_is_timed_not_the_waits_around_it() -> None:
    """The clock says 1 s for each query, the request itself took 0.25 s."""
    assert query_seconds(Leaky(seconds=0.25), ["a", "b"], Clock()) == (0.25, 0.25)


def test_a_query_of_several_requests_is_no_latency() -> None:
    model = Leaky(pieces=2)

    assert query_seconds(model, ["a", "b"], Clock()) == ()
    assert model.asked == [["a"], ["b"]]


def test_a_query_that_was_shortened_is_no_latency() -> None:
    class Shortening(Leaky):
        def embed(self, texts: Sequence[str], role: Role) -> Embedded:
            return replace(super().embed(texts, role), n_kept=np.array([len(texts[0]) // 2]))

    assert query_seconds(Shortening(), ["aa", "bb"], Clock()) == ()


def test_a_query_that_the_server_refuses_ends_it() -> None:
    class Refusing(Leaky):
        def embed(self, texts: Sequence[str], role: Role) -> Embedded:
            return replace(super().embed(texts, role), faults={0: ProviderError("no")})

    model = Refusing()

    assert query_seconds(model, ["a", "b"], Clock()) == ()
    assert model.asked == [["a"]]


def test_a_server_that_hangs_is_not_waited_for() -> None:
    """The second query never comes back; what was measured before is kept."""
    is_over = threading.Event()

    class Hanging(Leaky):
        def embed(self, texts: Sequence[str], role: Role) -> Embedded:
            if texts == ["b"]:
                is_over.wait()
            return super().embed(texts, role)

    try:
        found = query_seconds(Hanging(), ["a", "b", "c"], Clock(0.0), max_seconds=0.2)
    finally:
        is_over.set()

    assert found == (0.1,)


@pytest.mark.parametrize(
    "model", [Leaky(fails_at=1), Local(fails_at=1)], ids=["server", "no ProviderError"]
)
def test_a_failure_of_any_kind_after_the_ranking_loses_nothing(model: Leaky | Local) -> None:
    assert len(query_seconds(model, ["a", "b", "c"], Clock())) == 1
    assert model.asked == [["a"], ["b"]]


@pytest.mark.parametrize("count", [10**400, -1, True, None], ids=["huge", "-1", "True", "None"])
def test_a_count_that_cannot_be_leaves_the_tokens_unknown(count: int | None) -> None:
    requests = [Request("document", 1, 8, 0.1), Request("document", 1, count, 0.1)]

    assert Usage(requests=requests).n_tokens is None


def test_the_tokens_of_all_requests_are_summed() -> None:
    """8 + 0 + 5."""
    requests = [Request("document", 1, count, 0.1) for count in (8, 0, 5)]

    assert Usage(requests=requests).n_tokens == 13


def test_the_texts_of_the_probe_are_not_counted(store: VectorStore) -> None:
    """Two texts of 10 tokens; the probe's four more are not of the set."""
    model = Leaky(n_tokens=10)

    def before(texts: Sequence[str], role: Role) -> None:
        batch_cosine(model, texts, role)

    found = embed_cached(
        model, store, ["a", "bb"], ["d1", "d2"], "document", before=before, clock=Clock()
    )

    assert (found.n_tokens_embedded, found.seconds) == (20, 1)


def test_what_the_store_has_costs_nothing(store: VectorStore) -> None:
    model = Leaky(n_tokens=10)
    embed_cached(model, store, ["a", "bb"], ["d1", "d2"], "document")

    found = embed_cached(model, store, ["a", "ccc"], ["d1", "d3"], "document")

    assert (found.n_embedded, found.n_cached, found.n_tokens_embedded) == (1, 1, 10)


def test_queries_are_timed_only_where_something_was_embedded(store: VectorStore) -> None:
    demo = evalset.load(demo_folder("en"))
    cold, warm = (
        retrieve(SystemSpec.parse("mock:word"), Side(), demo, 11, store, lambda *_: None)
        for _ in range(2)
    )

    assert (cold.n_embedded, len(cold.query_seconds)) == (80, 20)
    assert (warm.n_cached, warm.query_seconds, warm.n_tokens) == (80, (), None)


def test_waits_are_percentiles_in_milliseconds(store: VectorStore) -> None:
    """Of 1 to 5 ms the middle is 3; 95 % of the way from the first to the last is 1 + 0.95 · 4."""
    demo = evalset.load(demo_folder("en"))
    found = retrieve(SystemSpec.parse("bm25:auto"), Side(), demo, 11, store, lambda *_: None)
    timed = replace(
        found, n_embedded=9, n_cached=2, query_seconds=(0.005, 0.001, 0.004, 0.002, 0.003)
    )
    measured = _measured(datetime(2026, 1, 2, tzinfo=UTC), {"A": 1.23456}, {"A": timed, "B": found})

    assert measured["query_ms"] == {"A": Wait(p50=3.0, p95=4.8, n=5)}
    assert measured["texts_embedded"] == {"A": 9, "B": 0}
    assert measured["texts_cached"] == {"A": 2, "B": 0}
    assert measured["seconds"] == {"A": 1.235}
