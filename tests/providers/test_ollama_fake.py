"""The stand-in for Ollama, proved with the official client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_ollama import FakeOllama, Model, running

from embed_ab.providers.ollama import base_url

official = pytest.importorskip("ollama", reason="the package ollama is not installed")


@pytest.fixture
def fake() -> Iterator[FakeOllama]:
    with running(FakeOllama(models={"all-minilm:latest": Model(context_length=6)})) as fake:
        yield fake


@pytest.fixture
def client(fake: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    with official.Client(fake.address) as client:
        yield client


def test_a_list_brings_a_vector_for_each_text_and_the_tokens(client: Any) -> None:
    answer = client.embed("all-minilm", ["one two", "three"], truncate=False)

    assert [len(vector) for vector in answer.embeddings] == [256, 256]
    assert answer.prompt_eval_count == 7  # 2 + 1 words, and 2 tokens more for each text


def test_a_text_alone_has_the_vector_it_has_in_a_list(client: Any) -> None:
    alone = client.embed("all-minilm:latest", "three").embeddings[0]

    assert client.embed("all-minilm", ["one two", "three"]).embeddings[1] == alone


def test_long_texts_are_cut_by_default(client: Any) -> None:
    long = client.embed("all-minilm", "a b c d e f g h").embeddings

    assert long == client.embed("all-minilm", "a b c d").embeddings


def test_long_texts_are_refused_when_asked(client: Any) -> None:
    with pytest.raises(official.ResponseError, match="exceeds the context length") as caught:
        client.embed("all-minilm", ["a b c d e"], truncate=False)

    assert caught.value.status_code == 400


def test_num_ctx_lowers_the_limit(client: Any) -> None:
    with pytest.raises(official.ResponseError, match="exceeds the context length"):
        client.embed("all-minilm", ["a b"], truncate=False, options={"num_ctx": 3})


def test_an_unknown_model_is_404(client: Any) -> None:
    with pytest.raises(official.ResponseError, match="model 'nope' not found") as caught:
        client.embed("nope", "text")

    assert caught.value.status_code == 404


def test_tags_hold_the_digest(client: Any) -> None:
    (model,) = client.list().models

    assert (model.model, model.digest) == ("all-minilm:latest", "ab" * 32)


def test_show_holds_what_the_architecture_prefixes(client: Any) -> None:
    info = client.show("all-minilm").modelinfo

    assert (info["bert.context_length"], info["bert.embedding_length"]) == (6, 256)


def test_the_key_is_asked_for(fake: FakeOllama, client: Any) -> None:
    fake.key = "secret"

    with pytest.raises(official.ResponseError, match="unauthorized"):
        client.embed("all-minilm", "text")
    with official.Client(fake.address, headers={"Authorization": "Bearer secret"}) as other:
        assert other.list().models


@pytest.mark.parametrize("options", [{"num_ctx": "many"}, {"top_k": 3}])
def test_options_of_another_kind_are_refused(
    options: dict[str, Any], client: Any, fake: FakeOllama
) -> None:
    with pytest.raises(official.ResponseError, match=r"num_ctx|knows no field"):
        client._request(
            dict, "POST", "/api/embed", json={"model": "all-minilm", "options": options}
        )


@pytest.mark.parametrize(
    "host",
    [
        *("", "1.2.3.4", ":56789", "1.2.3.4:56789", "example.com", "example.com:80", "[1:2::1]"),
        *("http://1.2.3.4", "https://example.com", "https://example.com:56789/path/", "[::1]:1"),
        *("example.com/path", "http://[1:2::1]", "example.com:56789/"),
    ],
)
def test_ollama_host_means_what_the_official_client_takes_it_for(host: str) -> None:
    with official.Client(host) as client:
        official_url = client._client.base_url

    ours = base_url({"OLLAMA_HOST": host})

    assert str(ours).rstrip("/") == str(official_url).rstrip("/")
