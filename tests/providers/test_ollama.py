"""ollama: against the stand-in: what is sent, what is read, and each known fault of a version."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_ollama import FakeOllama, Model, Refused, Reply, running

from embed_ab import cli
from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import CachedVectors, embed_cached, known_facts
from embed_ab.providers.http import Server
from embed_ab.providers.mock import MockEmbedder
from embed_ab.providers.ollama import NotTold, OllamaEmbedder, base_url
from embed_ab.providers.prompts import missing_prompt
from embed_ab.system_spec import SystemSpec

DEMO = Path(__file__).parents[2] / "embed_ab" / "demo" / "en"


@pytest.fixture
def fake() -> Iterator[FakeOllama]:
    with running(FakeOllama()) as fake:
        yield fake


@pytest.fixture
def waits() -> list[float]:
    """Seconds that were waited, without waiting."""
    return []


@pytest.fixture
def embedder(fake: FakeOllama, waits: list[float]) -> Any:
    def make(name: str = "all-minilm", **more: Any) -> OllamaEmbedder:
        environ = {"OLLAMA_HOST": fake.address} | more.pop("environ", {})

        def connect(*arguments: Any, **options: Any) -> Server:
            return Server(*arguments, **options, sleep=waits.append, jitter=lambda: 0.0)

        return OllamaEmbedder(name, environ, connect=connect, **more)

    return make


def cached(embedder: OllamaEmbedder, texts: list[str], store: VectorStore) -> CachedVectors:
    return embed_cached(
        embedder, store, texts, [f"d{row}" for row in range(len(texts))], "document"
    )


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:80", "http://gpu"),  # the port of http
        ("gpu:8080/", "http://gpu:8080/"),
        (":56789", "http://127.0.0.1:56789"),
        ("http://gpu", "http://gpu"),
        ("https://gpu", "https://gpu"),
        ("https://gpu:11434/ollama", "https://gpu:11434/ollama"),
        ("gpu/ollama", "http://gpu:11434/ollama"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://0.0.0.0", "http://127.0.0.1"),
        ("::1", "http://[::1]:11434"),
        ("[::]:8080", "http://[::1]:8080"),
        ("[::1]", "http://[::1]:11434"),
        (" 'gpu:8080' ", "http://gpu:8080"),
        ("http://me:pass@gpu:8080", "http://me:pass@gpu:8080"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert str(base_url({"OLLAMA_HOST": host})) == url


@pytest.mark.parametrize("host", ["gpu:port", "ftp://gpu", "gpu:99999"])
def test_an_address_that_is_none_names_the_variable(host: str) -> None:
    with pytest.raises(InputError, match="OLLAMA_HOST is not the address of a server"):
        base_url({"OLLAMA_HOST": host})


def test_vectors_come_in_the_order_of_the_texts(embedder: Any) -> None:
    texts = [f"text number {number}" for number in range(20)]

    found = embedder().embed(texts, "document").vectors

    assert found == pytest.approx(MockEmbedder("char3").embed(texts, "document").vectors)


def test_a_request_holds_eight_texts_their_context_and_no_keep_alive(
    fake: FakeOllama, embedder: Any
) -> None:
    embedder().embed([f"text {number}" for number in range(9)], "document")

    first, second = (request.body for request in fake.embeds())
    assert (len(first["input"]), len(second["input"])) == (8, 1)
    assert second == {
        "model": "all-minilm",
        "input": ["text 8"],
        "truncate": False,
        "options": {"num_ctx": 512},
    }


def test_a_large_context_is_not_asked_for(fake: FakeOllama, embedder: Any) -> None:
    fake.models["all-minilm:latest"].context_length = 32768

    embedder().embed(["text"], "document")

    assert fake.embeds()[0].body["options"] == {"num_ctx": 8192}


def test_max_length_asks_for_context_and_batch(fake: FakeOllama, embedder: Any) -> None:
    fake.models["all-minilm:latest"].context_length = 32768

    embedder(max_length=16384).embed(["text"], "document")

    assert fake.embeds()[0].body["options"] == {"num_ctx": 16384, "num_batch": 16384}


def test_a_max_length_above_the_models_is_refused(embedder: Any) -> None:
    with pytest.raises(InputError, match="max_length=513 is more than the 512 tokens"):
        embedder(max_length=513).facts()


def test_prompts_stand_before_each_text_of_their_role(fake: FakeOllama, embedder: Any) -> None:
    model = embedder(query_prompt="query: ", document_prompt="passage: ")

    model.embed(["one"], "query")
    model.embed(["one"], "document")

    assert [r.body["input"] for r in fake.embeds()] == [["query: one"], ["passage: one"]]


def test_params_reach_the_request(fake: FakeOllama, embedder: Any) -> None:
    embedder(query_params={"keep_alive": "1h"}).embed(["one"], "query")

    assert fake.embeds()[0].body["keep_alive"] == "1h"


def test_the_facts_are_what_the_server_says(fake: FakeOllama, embedder: Any) -> None:
    facts = embedder().facts()

    assert (facts.dimension, facts.max_length, facts.revision) == (256, 512, "ab" * 32)
    assert facts.details == {
        "family": "bert",
        "parameters": "23M",
        "quantisation": "F16",
        "server": "Ollama 0.23.1",
    }


def test_the_dimension_is_that_of_a_vector(fake: FakeOllama, embedder: Any) -> None:
    """A dense layer at the end of a model is not in its embedding_length."""
    fake.models["all-minilm:latest"].modelled_dimension = 768

    assert embedder().facts().dimension == 256


def test_a_moved_tag_misses_the_cache(fake: FakeOllama, embedder: Any) -> None:
    store = VectorStore.open(None)
    cached(embedder(), ["one"], store)
    fake.models["all-minilm:latest"].digest = "cd" * 32

    assert cached(embedder(), ["one"], store).n_embedded == 1


def test_a_list_of_models_that_is_refused_is_no_fault_of_a_text(
    fake: FakeOllama, embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> dict[str, Any]:
        raise Refused(400, "the input length exceeds the context length")

    model = embedder()
    model.embed(["one"], "document")
    monkeypatch.setattr(fake, "_tags", refuse)
    n_before = len(fake.embeds())

    with pytest.raises(NotTold, match=r"GET .*/api/tags answered 400"):
        model.embed(["two", "three"], "document")

    assert len(fake.embeds()) == n_before + 1


def test_an_unmoved_tag_hits_the_cache(embedder: Any) -> None:
    store = VectorStore.open(None)
    cached(embedder(), ["one"], store)

    assert cached(embedder("library/all-minilm:latest"), ["one"], store).n_cached == 1


@pytest.mark.parametrize(
    ("pulled", "name"),
    [
        ("nomic-embed-text:v1.5", "nomic-embed-text:v1.5"),
        ("hf.co/CompendiumLabs/bge-small-en-v1.5-gguf:Q4_K_M",) * 2,
        ("hf.co/owner/model:Q4_K_M", "hf.co/Owner/Model:q4_k_m"),
        ("owner/model:latest", "owner/model"),
        ("mxbai-embed-large:latest", "registry.ollama.ai/library/mxbai-embed-large"),
    ],
)
def test_names_match_as_ollama_matches_them(
    pulled: str, name: str, fake: FakeOllama, embedder: Any
) -> None:
    fake.models = {"other:latest": Model(), pulled: Model(digest="cd" * 32)}

    assert "cd" * 32 in embedder(name).fingerprint


def test_another_tag_is_not_pulled(fake: FakeOllama, embedder: Any) -> None:
    with pytest.raises(ProviderError, match=r"'all-minilm:22m' at http.*has not been pulled") as e:
        _ = embedder("all-minilm:22m").fingerprint

    assert e.value.hint == "ollama pull all-minilm:22m"


def test_a_server_that_is_down_is_said_within_five_seconds() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(ProviderError, match=f"GET http://{host}/api/tags: no connection") as e:
            _ = OllamaEmbedder("all-minilm", {"OLLAMA_HOST": host}).fingerprint

    assert time.monotonic() - started < 5
    assert "`ollama serve`" in e.value.hint
    assert f"http://{host}" in e.value.hint


def test_a_server_that_is_no_ollama_is_said(fake: FakeOllama, embedder: Any) -> None:
    environ = {"OLLAMA_HOST": f"{fake.address}/elsewhere"}

    with pytest.raises(NotTold, match="answered 404") as caught:
        _ = embedder(environ=environ).fingerprint

    assert "Check that OLLAMA_HOST is an Ollama server" in caught.value.hint


def test_a_digest_that_is_not_told_is_an_error(fake: FakeOllama, embedder: Any) -> None:
    fake.models["all-minilm:latest"].digest = ""

    with pytest.raises(ProviderError, match="does not tell the model's digest"):
        _ = embedder().fingerprint


def test_the_key_goes_to_the_server_and_nowhere_else(fake: FakeOllama, embedder: Any) -> None:
    fake.key = "very-secret-key"
    model = embedder(environ={"OLLAMA_API_KEY": "very-secret-key"})

    assert "very-secret-key" not in f"{model.facts()} {model.fingerprint} {model!r}"


def test_a_password_in_the_address_goes_to_the_server_and_nowhere_else(
    fake: FakeOllama, embedder: Any
) -> None:
    host = fake.address.replace("//", "//me:very-secret@")
    model = embedder(environ={"OLLAMA_HOST": host})

    shown = f"{model.facts()} {model.fingerprint} {model!r}"
    fake.models = {}
    with pytest.raises(ProviderError) as caught:
        _ = embedder(environ={"OLLAMA_HOST": host}).fingerprint

    assert fake.requests[0].headers["authorization"].startswith("Basic ")
    assert "very-secret" not in f"{shown} {caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "message",
    [
        "the input length exceeds the context length",
        "input length exceeds maximum context length",
        "input after truncation exceeds maximum context length",
    ],
)
def test_a_long_text_is_shortened_and_counted(
    message: str, fake: FakeOllama, embedder: Any
) -> None:
    """Ten words of 5 characters, 10 + 2 tokens; the limit of 8 takes six: up to character 30."""
    fake.models["all-minilm:latest"].context_length = 8
    fake.rejects_long_always = True
    fake.long_message = message
    texts = ["word " * 10, "short text"]

    found = embedder().embed(texts, "document")

    assert found.n_kept is not None
    assert found.n_kept.tolist() == [30, -1]
    expected = MockEmbedder("char3").embed([("word " * 10)[:30], "short text"], "document")
    assert found.vectors == pytest.approx(expected.vectors)


def test_a_long_text_is_named_without_truncation(fake: FakeOllama, embedder: Any) -> None:
    fake.models["all-minilm:latest"].context_length = 8

    with pytest.raises(ProviderError, match=r"'d1'.*exceeds the context length"):
        cached(embedder(truncate=False), ["short", "word " * 10], VectorStore.open(None))


def test_a_batch_too_large_for_the_server_is_halved(fake: FakeOllama, embedder: Any) -> None:
    fake.limit_in_bytes = 20
    texts = [f"text {number}" for number in range(8)]

    found = embedder().embed(texts, "document")

    assert found.vectors == pytest.approx(MockEmbedder("char3").embed(texts, "document").vectors)


def test_a_server_that_fails_within_a_batch_loses_nothing_that_it_answered(
    fake: FakeOllama, embedder: Any
) -> None:
    """Eight texts at once are refused; the first four pass, and then the server fails for good."""
    store = VectorStore.open(None)
    texts = [f"text {number}" for number in range(8)]
    model = embedder()
    known_facts(model, store)
    too_large = {"error": "input is too large to process. increase the physical batch size"}
    fake.scripted.append(Reply(status=500, body=too_large))
    fake.fails_after = 2 + len(fake.embeds())

    with pytest.raises(ProviderError, match=r"answered 503 .*\(7 tries\)"):
        cached(model, texts, store)
    fake.fails_after = None

    assert cached(embedder(), texts, store).n_embedded == 4
    store.close()


def test_one_text_that_breaks_the_model_is_named_and_the_others_are_kept(
    fake: FakeOllama, embedder: Any, waits: list[float]
) -> None:
    fake.nan_word = "broken"
    store = VectorStore.open(None)
    texts = ["one", "two", "a broken text", "three"]

    with pytest.raises(ProviderError, match=r"'d2'.*NaN"):
        cached(embedder(), texts, store)

    assert waits == []  # no pause heals it
    fake.nan_word = ""
    assert cached(embedder(), texts, store).n_embedded == 1


def test_a_zero_vector_is_named(fake: FakeOllama, embedder: Any) -> None:
    fake.zero_word = "empty"

    with pytest.raises(ProviderError, match="the vector of 'd1' is all zero"):
        cached(embedder(), ["one", "an empty one"], VectorStore.open(None))


def test_empty_vectors_are_an_error_with_endpoint_and_version(
    fake: FakeOllama, embedder: Any
) -> None:
    fake.is_empty_for_lists = True

    with pytest.raises(
        ProviderError, match=r"empty vectors came back from /api/embed of Ollama 0\.23\.1"
    ):
        embedder().facts()


def test_vectors_that_change_their_dimension_are_an_error(fake: FakeOllama, embedder: Any) -> None:
    fake.narrows_after = 1  # the first request is for the facts

    with pytest.raises(ProviderError, match="have 255 dimensions, not 256"):
        cached(embedder(), ["one"], VectorStore.open(None))


def test_missing_vectors_are_an_error(fake: FakeOllama, embedder: Any) -> None:
    fake.lost = 1

    with pytest.raises(ProviderError, match="1 vector came back for 2 texts"):
        embedder().embed(["one", "two"], "document")


def test_the_old_name_of_the_vectors_is_read(fake: FakeOllama, embedder: Any) -> None:
    fake.reply_key = "embedding"

    assert embedder().embed(["one"], "document").vectors.shape == (1, 256)
    assert embedder().embed(["one", "two"], "document").vectors.shape == (2, 256)


def test_vectors_that_are_not_normalised_are_normalised_here(
    fake: FakeOllama, embedder: Any
) -> None:
    fake.scale = 40.0

    found = cached(embedder(), ["one", "two"], VectorStore.open(None))

    assert np.linalg.norm(found.vectors, axis=1) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    "vectors", [[["a", "b"]], [[1.0], [1.0, 2.0]], [{"0": 1.0}], [[[1.0]]], [1.0], "text", None]
)
def test_what_is_no_vector_is_an_error(vectors: Any, fake: FakeOllama, embedder: Any) -> None:
    texts = ["one", "two"][: len(vectors or "x")]
    fake.scripted.append(Reply(body={"model": "all-minilm", "embeddings": vectors}))

    with pytest.raises(ProviderError, match=r"came back.* from /api/embed"):
        embedder().embed(texts, "document")


def test_a_busy_server_is_asked_again(fake: FakeOllama, embedder: Any, waits: list[float]) -> None:
    fake.scripted.extend([Reply(status=503, body={"error": "server busy, please try again"})] * 3)

    assert embedder().embed(["one"], "document").vectors.shape == (1, 256)
    assert waits == [2, 4, 8]


def test_tokens_are_counted_as_the_server_counts_them(embedder: Any) -> None:
    model = embedder()

    model.embed([f"text {number}" for number in range(9)], "document")

    assert model.usage.n_tokens == 36  # nine times two words and two tokens more


def test_a_name_with_slashes_and_colons_takes_options() -> None:
    spec = SystemSpec.parse("ollama:hf.co/owner/model:Q4_K_M,dim=256,max_length=2048")

    assert (spec.name, spec.number("dim")) == ("hf.co/owner/model:Q4_K_M", 256)


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("nomic-embed-text:v1.5", "'search_query: ' before every query"),
        ("snowflake-arctic-embed2", "'query: ' before every query"),
        ("snowflake-arctic-embed:l", "'Represent this sentence"),
    ],
)
def test_names_of_ollama_are_known_for_their_prompts(name: str, prompt: str) -> None:
    assert prompt in missing_prompt(name, "", "")


def test_a_model_that_is_not_pulled_ends_with_exit_3_and_the_command(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", fake.address)

    code = cli.main(["compare", str(DEMO), "-a", "mock:char3", "-b", "ollama:bge-m3", "--no-cache"])

    assert code == 3
    assert "hint: ollama pull bge-m3" in capsys.readouterr().err


def test_a_comparison_ranks_as_the_vectors_say(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stand-in's vectors are those of mock:char3."""
    monkeypatch.setenv("OLLAMA_HOST", fake.address)

    code = cli.main(
        ["compare", str(DEMO), "-a", "mock:char3", "-b", "ollama:all-minilm", "--no-cache"]
    )

    assert code == 0
    assert "overlap of the top 10: Jaccard 1.000, RBO 1.000" in capsys.readouterr().out


def test_other_params_of_one_role_keep_the_vectors_of_the_other(embedder: Any) -> None:
    plain, other = embedder(), embedder(query_params={"options": {"num_batch": 64}})

    assert plain.role_fingerprint("document") == other.role_fingerprint("document")
    assert plain.role_fingerprint("query") != other.role_fingerprint("query")


def test_a_tag_that_moves_while_it_is_used_is_found_out(fake: FakeOllama, embedder: Any) -> None:
    store = VectorStore.open(None)
    model = embedder()
    model.facts()
    fake.models["all-minilm:latest"] = Model(digest="cd" * 32)

    with pytest.raises(ProviderError, match="has changed while it was used"):
        cached(model, ["pump"], store)
    # Nothing of the new model was kept under the old one's digest.
    assert not store.holds_all(model.role_fingerprint("document"), "document", "", ["pump"])
    store.close()


@pytest.mark.parametrize("key", ["a b", "schlüssel", "a\nb"])
def test_a_key_that_cannot_be_one_is_named_and_not_shown(embedder: Any, key: str) -> None:
    with pytest.raises(InputError, match="OLLAMA_API_KEY holds a character") as caught:
        embedder(environ={"OLLAMA_API_KEY": key})

    assert key not in str(caught.value)


def test_given_options_stand_beside_ours(fake: FakeOllama, embedder: Any) -> None:
    embedder(document_params={"options": {"num_batch": 64}}).embed(["pump"], "document")

    assert fake.embeds()[0].body["options"] == {"num_ctx": 512, "num_batch": 64}


@pytest.mark.parametrize("name", ["model", "truncate", "dimensions"])
def test_parameters_may_not_change_what_is_ours_to_say(embedder: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"may not hold '{name}'"):
        embedder(query_params={name: 1})


def test_the_command_that_pulls_is_quoted(embedder: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        _ = embedder("x; curl evil").fingerprint

    assert caught.value.hint == "ollama pull 'x; curl evil'"


def test_a_hybrid_gives_its_only_model_the_prompt_and_tells_of_it(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """40 queries and 40 documents are embedded; BM25 beside it has no prompt and no vectors."""
    monkeypatch.setenv("OLLAMA_HOST", fake.address)
    words = ["compare", str(DEMO), "-a", "rrf(ollama:all-minilm, bm25:auto)", "-b", "bm25:auto"]
    words += ["--a-query-prompt", "query: ", "--a-price-per-million-tokens", "2", "--no-cache"]

    assert cli.main([*words, "--out", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "result.json").read_text("utf-8"))
    system, measured = result["systems"][0], result["measured"]
    assert (system["query_prompt"], system["document_prompt"]) == ("query: ", "")
    assert system["dimension"] == system["bytes_per_vector"] / 4 > 0
    assert "query prompt 'query: '" in system["details"]["system 1"]
    assert system["details"]["system 2"] == "bm25:auto"
    assert measured["texts_embedded"]["A"] == 80
    assert measured["price"]["A"] == measured["tokens"]["A"] * 2 / 1e6 > 0
    assert measured["query_ms"]["A"]["n"] == 20


def test_a_tag_that_moves_at_the_first_contact_leaves_nothing_behind(
    fake: FakeOllama, embedder: Any
) -> None:
    store = VectorStore.open(None)
    model = embedder()
    _ = model.fingerprint
    fake.models["all-minilm:latest"] = Model(digest="cd" * 32, dimension=16)

    with pytest.raises(ProviderError, match="has changed while it was used"):
        known_facts(model, store)
    assert store.facts(model.fingerprint, model.prompts) is None
    store.close()
