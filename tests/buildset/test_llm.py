"""Chat models behind servers, and the JSON in what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fake_chat import FakeChat, running

from embed_ab.errors import InputError, ProviderError
from embed_ab.llm import Chat, UnreadableAnswer, chat, read_json
from embed_ab.providers.http import RequestRefused

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "string"}}},
    "required": ["items"],
    "additionalProperties": False,
}
ASKED = [{"role": "user", "content": "Which?"}]
ANSWER = {"items": ["one"]}


@pytest.fixture
def fake() -> Iterator[FakeChat]:
    with running(FakeChat(says=lambda messages: json.dumps(ANSWER))) as fake:
        yield fake


@pytest.fixture(params=["openai", "ollama"])
def model(request: pytest.FixtureRequest, fake: FakeChat) -> Chat:
    return chat(f"{request.param}:writer", environment(fake))


def environment(fake: FakeChat) -> dict[str, str]:
    return {"OPENAI_BASE_URL": fake.address, "OLLAMA_HOST": fake.address}


@pytest.mark.parametrize(
    "text",
    [
        '{"items": ["one"]}',
        '```json\n{"items": ["one"]}\n```',
        'Here you are:\n\n{"items": ["one"]}\n\nI hope {this} helps.',
        '<think>{"items": ["draft"]} no</think>{"items": ["one"]}',
        '{"items": ["draft"]} or better {"items": ["one"]}',
        '["one"]',
        '{"items": ["one"]}\n\nSee [1] and [2].',
        '[{"note": 1}] {"items": ["one"]} ["two"]',
        'Sure! ["one"]',
        '{"note": {"items": 3}, "items": ["one"]}',
    ],
)
def test_the_object_is_found_in_what_stands_around_it(text: str) -> None:
    found = read_json(text, SCHEMA)

    assert found is not None
    assert found["items"] == ["one"]


@pytest.mark.parametrize(
    "text", ["", "one", '{"items": ["one"', '{"other": 1}', "[" * 100_000, '{"items":' * 30_000]
)
def test_what_holds_no_such_object_is_none(text: str) -> None:
    assert read_json(text, SCHEMA) is None


def test_a_model_answers(model: Chat) -> None:
    assert model.complete(ASKED, SCHEMA) == ANSWER


def test_the_schema_and_the_seed_are_sent(model: Chat, fake: FakeChat) -> None:
    model.complete(ASKED, SCHEMA, seed=7)

    (body,) = fake.bodies
    if "format" in body:
        assert (body["format"], body["options"]["seed"]) == (SCHEMA, 7)
    else:
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
        assert body["seed"] == 7


def test_prose_is_an_unreadable_answer_whose_words_can_be_left_out(
    model: Chat, fake: FakeChat
) -> None:
    fake.says = lambda messages: "secret words"

    with pytest.raises(UnreadableAnswer) as caught:
        model.complete(ASKED, SCHEMA)

    assert "secret" in str(caught.value)
    assert "secret" not in caught.value.unquoted


def test_formats_that_a_server_refuses_are_left_out_from_then_on(fake: FakeChat) -> None:
    model = chat("openai:writer", environment(fake))
    fake.formats = ()

    model.complete(ASKED, SCHEMA)
    model.complete(ASKED, SCHEMA)

    kinds = [body.get("response_format", {}).get("type") for body in fake.bodies]
    assert kinds == ["json_schema", "json_object", None, None]


def test_json_mode_is_used_where_schemas_are_not_taken(fake: FakeChat) -> None:
    model = chat("openai:writer", environment(fake))
    fake.formats = ("json_object",)

    assert model.complete(ASKED, SCHEMA) == ANSWER


@pytest.mark.parametrize(
    "reason",
    [
        "The prompt contains sensitive information",
        "The text proceeds from a seedy place",
        "Content in this format is not allowed",
    ],
)
def test_a_refusal_of_a_text_switches_nothing_off(fake: FakeChat, reason: str) -> None:
    model = chat("openai:writer", environment(fake))
    fake.refuses = lambda messages: reason

    with pytest.raises(RequestRefused, match=reason):
        model.complete(ASKED, SCHEMA)
    fake.refuses = lambda messages: ""
    model.complete(ASKED, SCHEMA)

    body = fake.bodies[-1]
    assert body["response_format"]["type"] == "json_schema"
    assert (body["temperature"], body["seed"]) == (0, 0)


@pytest.mark.parametrize("reason", ["sensitive information", "a seedy, reformatted text"])
def test_a_word_within_another_is_not_asked_about_again(fake: FakeChat, reason: str) -> None:
    fake.refuses = lambda messages: reason

    with pytest.raises(RequestRefused):
        chat("openai:writer", environment(fake)).complete(ASKED, SCHEMA)

    assert len(fake.bodies) == 1


@pytest.mark.parametrize("name", ["temperature", "seed"])
def test_a_field_that_a_model_refuses_is_left_out(fake: FakeChat, name: str) -> None:
    fake.unsupported = (name,)

    assert chat("openai:writer", environment(fake)).complete(ASKED, SCHEMA) == ANSWER
    assert name not in fake.bodies[-1]


def test_another_refusal_is_not_asked_again(fake: FakeChat) -> None:
    fake.refuses = lambda messages: "content_filter"

    with pytest.raises(RequestRefused, match="content_filter"):
        chat("openai:writer", environment(fake)).complete(ASKED, SCHEMA)

    assert len(fake.bodies) == 1


def test_an_answer_in_parts_is_read(fake: FakeChat) -> None:
    fake.in_parts = True

    assert chat("openai:writer", environment(fake)).complete(ASKED, SCHEMA) == ANSWER


def test_a_model_that_is_not_pulled_names_the_command(fake: FakeChat) -> None:
    with pytest.raises(ProviderError, match="model 'other' not found") as caught:
        chat("ollama:other", environment(fake)).complete(ASKED, SCHEMA)

    assert caught.value.hint.startswith("ollama pull other. ")


@pytest.mark.parametrize(
    ("spec", "listed", "digest"),
    [
        ("ollama:writer", "d1", "d1"),
        ("ollama:other", "d1", ""),
        ("ollama:writer", "", ""),
        ("openai:writer", "d1", ""),
    ],
)
def test_the_digest_is_the_one_that_ollama_lists(
    fake: FakeChat, spec: str, listed: str, digest: str
) -> None:
    fake.digest = listed

    assert chat(spec, environment(fake)).digest == digest


@pytest.mark.parametrize("spec", ["ollama:writer", "openai:writer"])
def test_the_address_has_no_password_and_no_key(spec: str) -> None:
    place = "http://me:secret@host.example:81/v1?key=secret"
    model = chat(spec, {"OLLAMA_HOST": place, "OPENAI_BASE_URL": place})

    assert model.address == "http://host.example:81/v1?key=…"


def test_a_server_that_is_down_is_known_at_once() -> None:
    model = chat("ollama:writer", {"OLLAMA_HOST": "127.0.0.1:1"})

    with pytest.raises(ProviderError, match="no connection") as caught:
        model.complete(ASKED, SCHEMA)

    assert "ollama serve" in caught.value.hint


def test_the_key_is_sent_and_never_shown(fake: FakeChat) -> None:
    fake.key = "sk-right"
    model = chat("openai:writer", {"OPENAI_BASE_URL": fake.address, "OPENAI_API_KEY": "sk-wrong"})

    with pytest.raises(ProviderError) as caught:
        model.complete(ASKED, SCHEMA)

    assert fake.authorizations == ["Bearer sk-wrong"]
    assert "sk-wrong" not in f"{caught.value} {caught.value.hint} {model!r}"


def test_a_long_prompt_gets_room_in_ollama(fake: FakeChat) -> None:
    chat("ollama:writer", environment(fake)).complete(
        [{"role": "user", "content": "가" * 10_000}], SCHEMA
    )

    # 10,000 characters, at most as many tokens, and 4,096 for the answer: 14,096
    assert fake.bodies[0]["options"]["num_ctx"] == 16_384


@pytest.mark.parametrize("spec", ["mock", "ollama", "ollama:", "openai: ", "st:model", "x:y", ""])
def test_what_is_no_chat_model_is_an_input_error(spec: str) -> None:
    with pytest.raises(InputError, match="not a chat model"):
        chat(spec, {})


@pytest.mark.parametrize("key", ["a\nb", "kéy", "a b", "a\x00b"])
def test_a_key_of_ollama_that_cannot_be_one_is_an_input_error_without_it(key: str) -> None:
    with pytest.raises(InputError, match="OLLAMA_API_KEY holds a character") as caught:
        chat("ollama:writer", {"OLLAMA_API_KEY": key})
    assert key not in str(caught.value)
