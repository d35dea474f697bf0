"""Rerankers behind servers: requests of both forms, answers, limits and faults."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from fake_openai import answer, status
from fake_reranker import FakeReranker, edit_results, fake_score

from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.http import Server
from embed_ab.providers.http_reranker import HttpReranker

QUERY = "how does the pump start"
DOCUMENTS = ["invoices are due in May", "the pump starts by hand", "a tank", "how to pump"]
SCORES = [fake_score(QUERY, document) for document in DOCUMENTS]


def reranker(url: str, key: str = "", **more: Any) -> HttpReranker:
    environ = {"RERANK_BASE_URL": url, "RERANK_API_KEY": key}
    connect = partial(Server, sleep=lambda seconds: None, jitter=lambda: 0.0)
    return HttpReranker(more.pop("name", "reranker"), environ, connect=connect, **more)


@pytest.mark.parametrize("shape", ["jina", "tei"])
def test_scores_are_placed_by_their_index(shape: Any) -> None:
    """The server sends the best first."""
    with FakeReranker(shape) as server:
        scored = reranker(server.url, shape=shape).score(QUERY, DOCUMENTS)

    assert scored.scores.tolist() == SCORES
    assert scored.scores.dtype == np.float64


def test_the_two_forms_of_a_request() -> None:
    with FakeReranker("jina") as jina, FakeReranker("tei") as tei:
        reranker(jina.url).score("q", ["a", "b"])
        reranker(tei.url, shape="tei", truncate=False).score("q", ["a", "b"])

    assert jina.bodies == [{"model": "reranker", "query": "q", "documents": ["a", "b"], "top_n": 2}]
    assert tei.bodies == [
        {"query": "q", "texts": ["a", "b"], "truncate": False, "raw_scores": True}
    ]


@pytest.mark.parametrize(
    ("base", "asked"),
    [
        ("h:8080", "http://h:8080/rerank"),
        ("http://h:8080/", "http://h:8080/rerank"),
        ("https://api.jina.ai/v1", "https://api.jina.ai/v1/rerank"),
        ("https://api.cohere.com/v2/rerank", "https://api.cohere.com/v2/rerank"),
    ],
)
def test_the_path_is_completed(base: str, asked: str) -> None:
    assert str(reranker(base)._server.url("/rerank")) == asked


def test_a_request_holds_so_many_documents_at_most() -> None:
    with FakeReranker() as server:
        scored = reranker(server.url, batch_size=3).score(QUERY, DOCUMENTS)

    assert [len(body["documents"]) for body in server.bodies] == [3, 1]
    assert scored.scores.tolist() == SCORES


def test_a_batch_that_is_refused_as_too_large_is_halved() -> None:
    with FakeReranker("tei", max_documents=1) as server:
        scored = reranker(server.url, shape="tei").score(QUERY, DOCUMENTS)

    assert [len(body["texts"]) for body in server.bodies] == [4, 2, 1, 1, 2, 1, 1]
    assert scored.scores.tolist() == SCORES


class Clock:
    """Seconds that grow by one each time they are read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.mark.parametrize(
    ("script", "batch_size", "seconds"),
    [((), 4, 1.0), ((), 3, 2.0), ((status(429),), 4, 1.0)],
    ids=["one request", "two requests", "a busy server"],
)
def test_the_seconds_are_those_of_the_requests_that_brought_the_answer(
    script: tuple[Any, ...], batch_size: int, seconds: float
) -> None:
    """The clock is read when a try begins and when it ends, so that each takes a second."""
    connect = partial(Server, sleep=lambda seconds: None, clock=Clock())
    with FakeReranker() as server:
        server.script.extend(script)
        environ = {"RERANK_BASE_URL": server.url}
        asked = HttpReranker("reranker", environ, batch_size=batch_size, connect=connect)
        scored = asked.score(QUERY, DOCUMENTS)

    assert scored.seconds == seconds


def test_a_busy_server_is_asked_again() -> None:
    with FakeReranker() as server:
        server.script.append(status(429))
        assert reranker(server.url).score(QUERY, DOCUMENTS).scores.tolist() == SCORES


def test_the_key_goes_to_the_server_and_into_no_error() -> None:
    with FakeReranker(key="secret-key") as server:
        assert reranker(server.url, "secret-key").score(QUERY, DOCUMENTS).scores.size == 4
        with pytest.raises(ProviderError) as caught:
            reranker(server.url, "wrong-key").score(QUERY, DOCUMENTS)

    assert "401" in str(caught.value)
    assert caught.value.hint == "RERANK_API_KEY is wrong."
    assert "wrong-key" not in f"{caught.value} {caught.value.hint}"


def test_the_other_form_is_named_where_a_request_is_refused() -> None:
    with FakeReranker("tei") as server, pytest.raises(ProviderError) as caught:
        reranker(server.url).score(QUERY, DOCUMENTS)

    assert "shape=tei" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.pop(), "3 scores came back for 4 documents; the first without one"),
        (lambda found: found.append(dict(found[0])), "two scores came back for document"),
        (lambda found: found[0].update(index=4), "the index 4 that no document has"),
        (lambda found: found[0].update(index=-1), "the index -1 that no document has"),
        (lambda found: found[0].update(index=True), "the index True that no document has"),
        (lambda found: found[0].update(relevance_score=None), "is no finite number"),
        (lambda found: found[0].update(relevance_score=float("nan")), "is no finite number"),
        (lambda found: found[0].update(relevance_score="1"), "is no finite number"),
        (lambda found: found[0].update(relevance_score=10**400), "is no finite number"),
        (lambda found: found[0].pop("relevance_score"), "is no finite number"),
    ],
)
def test_an_answer_with_gaps_repeats_or_no_numbers_is_an_error(change: Any, said: str) -> None:
    with FakeReranker() as server:
        server.script.append(edit_results(change))
        with pytest.raises(ProviderError, match=re.escape(said)):
            reranker(server.url).score(QUERY, DOCUMENTS)


@pytest.mark.parametrize("content", ["{}", '{"results": {}}', '{"results": [1]}', "[1]"])
def test_an_answer_without_a_list_of_scores_is_an_error(content: str) -> None:
    with FakeReranker() as server:
        server.script.append(answer(content))
        with pytest.raises(ProviderError, match="the answer has no list of scores"):
            reranker(server.url).score(QUERY, DOCUMENTS)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "http:m needs the address of a server, and RERANK_BASE_URL is not set"),
        ({"RERANK_BASE_URL": "ftp://h"}, "RERANK_BASE_URL is not the address of a server"),
        ({"RERANK_BASE_URL": "h", "RERANK_API_KEY": "a b"}, "RERANK_API_KEY holds a character"),
    ],
)
def test_a_wrong_address_or_key_is_told_at_once(environ: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        HttpReranker("m", environ)


def test_only_the_form_of_tei_can_be_told_not_to_shorten() -> None:
    reranker("h:1", shape="tei", truncate=False)

    with pytest.raises(InputError, match="--no-truncate cannot be kept by http:reranker"):
        reranker("h:1", truncate=False)


@pytest.mark.parametrize(
    ("shape", "truncate", "told"),
    [
        ("jina", True, "left to the server, which does not tell"),
        ("tei", True, "shortened by the server, which does not tell"),
        ("tei", False, "refused"),
    ],
)
def test_what_becomes_of_long_pairs_is_told(shape: str, truncate: bool, told: str) -> None:
    found = reranker("h:1", shape=shape, truncate=truncate).facts()

    assert found.details["pairs too long"] == told


def test_another_form_is_refused() -> None:
    with pytest.raises(InputError, match="shape=bge is not known"):
        reranker("h", shape="bge")
