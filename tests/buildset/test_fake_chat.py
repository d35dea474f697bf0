"""The stand-ins for chat servers, proved with the official clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_chat import FakeChat, running

from embed_ab.buildset.questions import _QUESTIONS

ASKED: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture
def fake() -> Iterator[FakeChat]:
    with running(FakeChat(says=lambda messages: f"heard {messages[-1]['content']}")) as fake:
        yield fake


@pytest.fixture
def openai(fake: FakeChat) -> Iterator[Any]:
    official = pytest.importorskip("openai", reason="the package openai is not installed")
    with official.OpenAI(base_url=f"{fake.address}/v1", api_key="key", max_retries=0) as client:
        yield client


@pytest.fixture
def ollama(fake: FakeChat, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    official = pytest.importorskip("ollama", reason="the package ollama is not installed")
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    with official.Client(fake.address) as client:
        yield client


def test_openai_hears_the_answer(openai: Any) -> None:
    reply = openai.chat.completions.create(model="writer", messages=ASKED, temperature=0, seed=1)

    assert reply.choices[0].message.content == "heard hello"


def test_openai_may_ask_by_a_strict_schema(openai: Any) -> None:
    schema = {"name": "answer", "schema": dict(_QUESTIONS), "strict": True}
    response_format = {"type": "json_schema", "json_schema": schema}

    openai.chat.completions.create(model="writer", messages=ASKED, response_format=response_format)


def test_openai_learns_that_a_format_is_not_taken(openai: Any, fake: FakeChat) -> None:
    fake.formats = ()

    with pytest.raises(Exception, match="response_format") as caught:
        openai.chat.completions.create(
            model="writer", messages=ASKED, response_format={"type": "json_object"}
        )

    assert type(caught.value).__name__ == "BadRequestError"


def test_openai_learns_that_a_model_is_unknown(openai: Any) -> None:
    with pytest.raises(Exception, match="does not exist") as caught:
        openai.chat.completions.create(model="other", messages=ASKED)

    assert type(caught.value).__name__ == "NotFoundError"


def test_ollama_hears_the_answer(ollama: Any) -> None:
    reply = ollama.chat(
        "writer",
        ASKED,
        format=dict(_QUESTIONS),
        think=False,
        options={"temperature": 0, "seed": 1, "num_predict": 9, "num_ctx": 4096},
    )

    assert reply.message.content == "heard hello"


def test_ollama_lists_the_model_with_its_digest(ollama: Any) -> None:
    (listed,) = ollama.list().models

    assert (listed.model, listed.digest) == ("writer:latest", "d1")


def test_ollama_learns_that_a_model_is_not_pulled(ollama: Any) -> None:
    with pytest.raises(Exception, match="model 'other' not found") as caught:
        ollama.chat("other", ASKED)

    assert getattr(caught.value, "status_code", None) == 404
