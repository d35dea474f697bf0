"""Models behind OpenAI-compatible servers: requests, answers, limits, and what is kept."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_openai import DIMENSION, FakeOpenAI, answer, edit, hang_up, status

from embed_ab import commands
from embed_ab.errors import InputError, ProviderError
from embed_ab.providers import embed as embed_module
from embed_ab.providers.base import Served
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import CachedVectors, embed_cached, known_facts
from embed_ab.providers.http import Server
from embed_ab.providers.mock import MockEmbedder
from embed_ab.providers.openai import OpenAIEmbedder
from embed_ab.providers.threads import outcomes
from embed_ab.settings import Settings, resolve

MODEL = "text-embedding-3-small"


@pytest.fixture
def store() -> Iterator[VectorStore]:
    opened = VectorStore.open(None)
    yield opened
    opened.close()


def embedder(url: str, key: str = "", **more: Any) -> OpenAIEmbedder:
    environ = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key}
    connect = partial(Server, sleep=lambda seconds: None, jitter=lambda: 0.0)
    return OpenAIEmbedder(more.pop("name", MODEL), environ, connect=connect, **more)


def embed(
    model: OpenAIEmbedder, store: VectorStore, texts: Sequence[str], **more: Any
) -> CachedVectors:
    ids = [f"d{place}" for place, _ in enumerate(texts, 1)]
    return embed_cached(model, store, texts, ids, "document", **more)


def expected(texts: Sequence[str], store: VectorStore) -> np.ndarray:
    ids = [f"d{place}" for place, _ in enumerate(texts, 1)]
    return embed_cached(MockEmbedder("char3"), store, texts, ids, "document").vectors


WORDS = [f"pump number {number} of the long manual" for number in range(300)]


# Requests


@pytest.mark.parametrize(
    ("base", "asked"),
    [
        ("http://h:1", "http://h:1/v1/embeddings"),
        ("http://h:1/", "http://h:1/v1/embeddings"),
        ("h:1", "http://h:1/v1/embeddings"),
        ("http://h:1/v1", "http://h:1/v1/embeddings"),
        ("http://h:1/v1/", "http://h:1/v1/embeddings"),
        ("http://h:1/api/v3", "http://h:1/api/v3/embeddings"),
        ("http://h:1/v1/embeddings", "http://h:1/v1/embeddings"),
        ("http://h:1/embeddings", "http://h:1/embeddings"),
        ("http://h:1/embeddings/", "http://h:1/embeddings"),
        (
            "https://x.openai.azure.com/openai/deployments/d?api-version=2024-02-01",
            "https://x.openai.azure.com/openai/deployments/d/embeddings?api-version=2024-02-01",
        ),
        ("", "https://api.openai.com/v1/embeddings"),
    ],
)
def test_the_path_is_completed(base: str, asked: str) -> None:
    model = embedder(base, "sk-test")

    assert str(model._server.url("/embeddings")) == asked


@pytest.mark.parametrize(
    ("base", "headers"),
    [
        ("http://h", {"Authorization": "Bearer sk-test"}),
        ("https://x.openai.azure.com/openai/v1", {"api-key": "sk-test"}),
        ("https://gateway.example/d?api-version=2024-02-01", {"api-key": "sk-test"}),
    ],
)
def test_the_key_goes_where_the_server_looks_for_it(base: str, headers: dict[str, str]) -> None:
    seen: dict[str, str] = {}

    def connect(url: object, *, headers: Mapping[str, str], **more: object) -> Server:
        seen.update(headers)
        return Server("http://h")

    environ = {"OPENAI_BASE_URL": base, "OPENAI_API_KEY": "sk-test"}
    _ = OpenAIEmbedder(MODEL, environ, connect=connect)._server

    assert seen == headers


def test_a_server_of_ones_own_needs_no_key(store: VectorStore) -> None:
    with FakeOpenAI() as fake:
        embed(embedder(fake.url), store, ["pump"])

    assert "authorization" not in fake.headers[0]


@pytest.mark.parametrize("base", ["", "https://x.openai.azure.com/openai/v1"])
def test_a_host_that_wants_a_key_says_so_before_it_is_asked(base: str) -> None:
    with pytest.raises(InputError, match="OPENAI_API_KEY is not set"):
        embedder(base)


@pytest.mark.parametrize("key", ["sk test", "sk-é", "sk-a\nsk-b"])
def test_a_key_that_cannot_be_one_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(InputError, match=r"^OPENAI_API_KEY holds a character") as caught:
        embedder("http://h", key)

    assert key not in str(caught.value)


def test_a_key_is_in_neither_repr_nor_fingerprint() -> None:
    model = embedder("https://me:pw@h/v1?sig=abc", "sk-test")

    for text in (repr(model), model.fingerprint):
        assert not any(secret in text for secret in ("sk-test", "pw", "abc"))


def test_a_wrong_key_is_named_by_its_variable(store: VectorStore) -> None:
    with (
        FakeOpenAI(key="sk-right") as fake,
        pytest.raises(ProviderError, match="answered 401") as caught,
    ):
        embed(embedder(fake.url, "sk-wrong"), store, ["pump"])

    assert caught.value.hint == "OPENAI_API_KEY is wrong."
    assert "sk-wrong" not in str(caught.value)


def test_a_model_that_is_not_there_is_said_in_the_servers_words(store: VectorStore) -> None:
    with FakeOpenAI() as fake, pytest.raises(ProviderError, match="'other' does not exist"):
        embed(embedder(fake.url, name="other"), store, ["pump"])


def test_dimensions_are_sent_only_when_asked_for(store: VectorStore) -> None:
    with FakeOpenAI() as fake:
        embed(embedder(fake.url), store, ["pump"])
        short = embed(embedder(fake.url, dimensions=200), store, ["pump"])

    assert [body.get("dimensions") for body in fake.bodies] == [None, None, 200, 200]
    assert short.vectors.shape == (1, 200)


def test_a_server_that_ignores_dimensions_is_found_out(store: VectorStore) -> None:
    with FakeOpenAI() as fake:
        fake.script.append(lambda handler: handler.reply.update(whole(handler)))
        with pytest.raises(ProviderError, match="asked for dimensions=5 and sent 256") as caught:
            embed(embedder(fake.url, dimensions=5), store, ["pump"])

    assert "dim=5" in caught.value.hint


def whole(handler: Any) -> dict[str, Any]:
    body = {name: value for name, value in fake_body(handler).items() if name != "dimensions"}
    return handler._reply(handler.server_state, body)


def counts_endlessly(handler: Any) -> None:
    handler.reply["usage"] = {"total_tokens": 10**400}


def fake_body(handler: Any) -> dict[str, Any]:
    return handler.server_state.bodies[-1]


def test_prompts_and_fields_go_with_their_role(store: VectorStore) -> None:
    with FakeOpenAI(extra_fields=("input_type",)) as fake:
        model = embedder(
            fake.url,
            query_prompt="Q: ",
            query_params={"input_type": "query"},
            document_params={"input_type": "document"},
        )
        embed(model, store, ["pump"])
        embed_cached(model, store, ["pump"], ["q1"], "query")

    assert [(body["input"], body["input_type"]) for body in fake.bodies[-2:]] == [
        (["pump"], "document"),
        (["Q: pump"], "query"),
    ]


def test_other_fields_dimensions_paths_and_models_are_other_vectors() -> None:
    makers: list[Callable[[], OpenAIEmbedder]] = [
        lambda: embedder("http://h"),
        lambda: embedder("http://i"),
        lambda: embedder("http://h:81"),
        lambda: embedder("http://h/v2"),
        lambda: embedder("http://h", name="other"),
        lambda: embedder("http://h", dimensions=5),
        lambda: embedder("http://h", query_params={"input_type": "query"}),
        lambda: embedder("http://h", document_params={"input_type": "query"}),
    ]

    assert len({make().fingerprint for make in makers}) == len(makers)


def test_another_field_of_the_queries_keeps_the_documents(store: VectorStore) -> None:
    with FakeOpenAI(extra_fields=("input_type",)) as fake:
        for params in ({}, {"input_type": "query"}):
            model = embedder(fake.url, query_params=params)
            documents = embed(model, store, ["pump", "tank"])
            queries = embed_cached(model, store, ["pump"], ["q1"], "query")

    assert (documents.n_cached, documents.n_embedded) == (2, 0)
    assert (queries.n_cached, queries.n_embedded) == (0, 1)


def test_parameters_of_the_address_are_other_vectors_but_not_its_keys() -> None:
    def fingerprint(query: str) -> str:
        return embedder(f"http://h/v1?{query}").fingerprint

    assert fingerprint("deployment=a&key=k1") == fingerprint("key=k2&deployment=a")
    assert fingerprint("deployment=a") != fingerprint("deployment=b")
    assert "k1" not in fingerprint("key=k1")


@pytest.mark.parametrize("name", ["model", "encoding_format", "dimensions"])
def test_parameters_may_not_change_what_is_ours_to_say(name: str) -> None:
    with pytest.raises(InputError, match=f"may not hold '{name}'"):
        embedder("http://h", query_params={name: 1})


def test_scheme_batch_size_and_concurrency_change_no_vector() -> None:
    one = embedder("http://h/v1/")
    other = embedder("https://h", "sk-test", batch_size=3, concurrency=9, truncate=False)

    assert one.fingerprint == other.fingerprint


def test_a_known_host_is_asked_for_its_field_of_the_request() -> None:
    assert "input_type" in embedder("https://api.voyageai.com/v1", "k").missing_params
    assert "input_type" in embedder("https://api.cohere.ai/compatibility/v1", "k").missing_params
    assert embedder("http://h").missing_params == ""


# Answers


@pytest.mark.parametrize("knows_base64", [True, False])
def test_base64_and_floats_are_both_read(store: VectorStore, knows_base64: bool) -> None:
    with FakeOpenAI(knows_base64=knows_base64) as fake:
        found = embed(embedder(fake.url), store, WORDS)

    assert np.array_equal(found.vectors, expected(WORDS, store))


# 255 numbers are base64 without padding, which is read all at once; 256 and 254 are not.
@pytest.mark.parametrize("dimensions", [254, 255, 256])
def test_vectors_are_the_same_however_long_their_base64_is(
    store: VectorStore, dimensions: int
) -> None:
    with FakeOpenAI() as base64, FakeOpenAI(knows_base64=False) as floats:
        found = embed(embedder(base64.url, dimensions=dimensions), store, WORDS[:9])
        again = embed(embedder(floats.url, dimensions=dimensions), store, WORDS[:9])

    assert found.vectors.shape == (9, dimensions)
    assert np.array_equal(found.vectors, again.vectors)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[1].update(embedding="#" * 1360), "no list of numbers and no base64"),
        (
            lambda data: [item.update(embedding="A" * 1356 + "AA==") for item in data],
            "no list of numbers and no base64",  # 1018 bytes are no numbers of four
        ),
        (
            lambda data: data[1].update(embedding="A" * 1356 + "AA=="),
            "no list of numbers and no base64",
        ),
        (lambda data: data[1].update(embedding=[1, 2]), "2 and 255 dimensions in one answer"),
        (lambda data: data[1].update(embedding="A" * 1344), "252 and 255 dimensions in one answer"),
    ],
)
def test_an_answer_in_base64_without_padding_is_checked_as_any_other(
    store: VectorStore, change: Callable[[list[dict[str, Any]]], object], message: str
) -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url, dimensions=255)
        known_facts(model, store)
        fake.script.append(edit(change))
        with pytest.raises(ProviderError, match=message):
            embed(model, store, ["pump", "tank"])

    assert store.info().n_vectors == 0


def test_a_run_that_resumes_learns_again_that_base64_is_refused(store: VectorStore) -> None:
    with FakeOpenAI(knows_base64=False) as fake:
        embed(embedder(fake.url), store, WORDS[:10])  # the store knows the model from here on
        found = embed(embedder(fake.url), store, WORDS)

    assert np.array_equal(found.vectors, expected(WORDS, store))


def test_vectors_are_placed_by_their_index(store: VectorStore) -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url)
        known_facts(model, store)
        fake.script.append(edit(list.reverse))
        found = embed(model, store, WORDS[:5])

    assert np.array_equal(found.vectors, expected(WORDS[:5], store))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop(), "1 vector came back for 2 texts"),
        (lambda data: data.append(data[0]), "3 vectors came back for 2 texts"),
        (lambda data: data[1].update(index=0), "the index 0 twice"),
        (lambda data: data[1].update(index=2), "the index 2 that no text has"),
        (lambda data: data[1].update(index=-1), "the index -1 that no text has"),
        (lambda data: data[1].update(index=True), "the index True that no text has"),
        (lambda data: data[1].update(index=[]), r"the index \[\] that no text has"),
        (lambda data: data[1].pop("index"), "the index None that no text has"),
        (lambda data: data[1].update(embedding="####"), "no list of numbers and no base64"),
        (lambda data: data[1].update(embedding="AAA="), "no list of numbers and no base64"),
        (lambda data: data[1].update(embedding=[]), "no list of numbers and no base64"),
        (lambda data: data[1].update(embedding=[[1.0]]), "no list of numbers and no base64"),
        (lambda data: data[1].update(embedding=["x"]), "no list of numbers and no base64"),
        (lambda data: data[1].update(embedding=[1, 2]), "2 and 256 dimensions in one answer"),
        (lambda data: [item.update(embedding=[1, 2]) for item in data], "2 dimensions, not 256"),
    ],
)
def test_an_answer_that_does_not_fit_its_request_is_an_error(
    store: VectorStore, change: Callable[[list[dict[str, Any]]], object], message: str
) -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url)
        known_facts(model, store)
        fake.script.append(edit(change))
        with pytest.raises(ProviderError, match=message):
            embed(model, store, ["pump", "tank"])

    assert store.info().n_vectors == 0


def test_an_error_with_status_200_is_said(store: VectorStore) -> None:
    with FakeOpenAI() as fake:
        fake.script.append(answer('{"error": {"message": "no such model"}}'))
        with pytest.raises(ProviderError, match="no list of vectors in `data`: no such model"):
            embed(embedder(fake.url), store, ["pump"])


def test_a_key_in_an_answer_that_is_an_error_is_masked(store: VectorStore) -> None:
    with FakeOpenAI() as fake:
        fake.script.append(answer('{"error": {"message": "bad key sk-test"}}'))
        with pytest.raises(ProviderError, match="bad key …"):
            known_facts(embedder(fake.url, "sk-test"), store)


@pytest.mark.parametrize("key", ["x", "token"])
def test_a_key_that_is_part_of_the_servers_words_hides_no_reason(
    store: VectorStore, key: str
) -> None:
    """As dummies for local servers are: "maximum context length is 300 tokens"."""
    with FakeOpenAI(max_tokens=300, key=key) as fake:
        found = embed(embedder(fake.url, key), store, ["y" * 1000])

    assert found.n_kept is not None
    assert found.n_kept.tolist() == [293]


def test_a_key_in_the_name_of_the_model_that_answered_is_masked(store: VectorStore) -> None:
    def named(handler: Any) -> None:
        handler.reply["model"] = "m sk-test"

    with FakeOpenAI() as fake:
        fake.script.append(named)
        facts = known_facts(embedder(fake.url, "sk-test"), store)

    assert facts.details["model that answered"] == "m …"


def test_a_connection_that_breaks_after_the_first_contact_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server.__init__, "__kwdefaults__", _at_once(Server))
    folder = evalset(tmp_path / "set", {"d1": "pump", "d2": "valve"})
    with FakeOpenAI() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        fake.script.extend([lambda handler: None, hang_up])  # the first contact, and what follows
        flags = {"eval-path": str(folder), "model-a": "mock:char3", "model-b": f"openai:{MODEL}"}
        finished = commands.compare(resolve(flags | {"out": str(tmp_path)}, config=None))

    assert finished.exit_code == 0


def _at_once(kind: type[Server]) -> dict[str, Any]:
    """The defaults of a server that waits for nothing."""
    return {**(kind.__init__.__kwdefaults__ or {}), "sleep": lambda seconds: None}


def test_a_count_of_tokens_that_no_server_can_mean_is_none() -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url)
        fake.script.append(counts_endlessly)
        model.embed(["pump"], "document")

    assert model.usage.requests[0].n_tokens is None


def test_a_nan_that_goes_away_alone_loses_nothing(store: VectorStore) -> None:
    with FakeOpenAI(nan_texts=(WORDS[2],)) as fake:
        found = embed(embedder(fake.url), store, WORDS[:5])

    assert fake.inputs[-1] == [WORDS[2]]
    assert np.array_equal(found.vectors, expected(WORDS[:5], store))


def test_a_nan_that_stays_is_named_and_the_others_are_kept(store: VectorStore) -> None:
    with (
        FakeOpenAI(nan_texts=(WORDS[2],), nan_alone=True) as fake,
        pytest.raises(ProviderError, match="'d3' holds NaN"),
    ):
        embed(embedder(fake.url), store, WORDS[:5])

    assert store.info().n_vectors == 4


def test_a_server_that_fails_on_a_nan_is_told_which_text_it_was(store: VectorStore) -> None:
    """Ollama answers 500 to the whole request."""
    nan = status(500, "failed to encode response: json: unsupported value: NaN")
    with FakeOpenAI() as fake:
        model = embedder(fake.url, concurrency=1)
        known_facts(model, store)
        # Of 3, of a plain text, which passes, of the first 2, of the first.
        fake.script.extend([nan, edit(lambda data: None), nan, nan])
        with pytest.raises(ProviderError, match=r"'d1': .*answered 500"):
            embed(model, store, ["aaa", "bb", "c"])

    assert fake.inputs[2:] == [["What is an embedding?"], ["aaa", "bb"], ["aaa"], ["bb"], ["c"]]
    assert store.info().n_vectors == 2


def test_tokens_and_requests_are_counted() -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url)
        model.embed(["pump", "tank"], "document")
        model.embed(["pumps"], "query")

    assert isinstance(model, Served)
    assert model.usage.n_tokens == 13
    requests = model.usage.requests
    assert [request[:3] for request in requests] == [("document", 2, 8), ("query", 1, 5)]
    assert all(0 < request.seconds < 60 for request in requests)


def test_few_tokens_for_many_words_are_remembered_for_warm_runs(store: VectorStore) -> None:
    """6 tokens for 300 words; the short text that is embedded later tells nothing."""
    with FakeOpenAI() as fake:
        model = embedder(fake.url)
        known_facts(model, store)
        fake.script.append(lambda handler: handler.reply.update(usage={"total_tokens": 6}))
        embed(model, store, ["pump " * 300])
        warm = embedder(fake.url)
        embed(warm, store, ["pump " * 300, "pump"])

    assert known_facts(warm, store).tokens_per_word == 6 / 300


def test_a_server_that_counts_no_tokens_leaves_them_unknown() -> None:
    with FakeOpenAI(counts_tokens=False) as fake:
        model = embedder(fake.url)
        model.embed(["pump"], "document")

    assert model.usage.n_tokens is None


def test_a_model_that_answers_under_another_name_is_shown() -> None:
    with FakeOpenAI() as fake:
        fake.script.append(lambda handler: handler.reply.update(model="all-minilm"))
        details = embedder(fake.url).facts().details

    assert details["model that answered"] == "all-minilm"


# Limits


# Refused are 64, 32, 16, … down to the limit, in each of two threads at most, then never again.
@pytest.mark.parametrize(("limit", "n_refused"), [(1, 6), (10, 3), (32, 1)])
def test_a_limit_of_texts_is_learnt_once(store: VectorStore, limit: int, n_refused: int) -> None:
    with FakeOpenAI(max_texts=limit) as fake:
        found = embed(embedder(fake.url, concurrency=1), store, WORDS)

    assert np.array_equal(found.vectors, expected(WORDS, store))
    refused = [len(texts) for texts in fake.inputs if len(texts) > limit]
    assert len(refused) <= 2 * n_refused


def test_a_limit_of_tokens_is_learnt_and_short_texts_still_share_requests(
    store: VectorStore,
) -> None:
    """Long texts go two to a request, the short ones that follow 64 at once."""
    texts = [f"{number} " + "x" * 900 for number in range(16)] + WORDS[:64]
    with FakeOpenAI(max_request_tokens=3000) as fake:
        found = embed(embedder(fake.url, concurrency=1, batch_size=64), store, texts)

    assert np.array_equal(found.vectors, expected(texts, store))
    assert max(len(texts) for texts in fake.inputs[-3:]) >= 16


def test_requests_are_bounded_by_estimated_tokens_from_the_start(store: VectorStore) -> None:
    """64 texts of 12,000 characters are 256,000 estimated tokens: three requests or more."""
    texts = [f"{number} " + "x" * 12_000 for number in range(64)]
    with FakeOpenAI(max_tokens=20_000, max_request_tokens=300_001) as fake:
        embed(embedder(fake.url), store, texts)

    assert all(sum(map(len, texts)) <= 300_001 for texts in fake.inputs)
    assert sum(map(len, fake.inputs)) == 1 + 64


def test_the_one_text_that_is_too_long_is_shortened_and_counted(store: VectorStore) -> None:
    """Of the lengths tried 293 is the last below 300, the next is 311."""
    texts = [*WORDS[:9], "y" * 1000]
    with FakeOpenAI(max_tokens=300) as fake:
        found = embed(embedder(fake.url), store, texts)
        again = embed(embedder(fake.url), store, texts)

    assert found.n_kept is not None
    assert found.n_kept.tolist() == [-1] * 9 + [293]
    assert again.n_cached == 10
    assert again.n_kept is not None
    assert again.n_kept.tolist() == found.n_kept.tolist()


def test_without_truncate_the_text_is_named_and_the_others_are_kept(store: VectorStore) -> None:
    texts = [*WORDS[:9], "y" * 1000]
    with (
        FakeOpenAI(max_tokens=300) as fake,
        pytest.raises(ProviderError, match=r"'d10': .*maximum context length is 300") as caught,
    ):
        embed(embedder(fake.url, truncate=False), store, texts)

    assert store.info().n_vectors == 9
    assert "maximum context" not in caught.value.unquoted


def test_without_truncate_a_text_shortened_before_is_not_taken_from_the_cache(
    store: VectorStore,
) -> None:
    with FakeOpenAI(max_tokens=300) as fake:
        embed(embedder(fake.url), store, ["y" * 1000])
        with pytest.raises(ProviderError, match="'d1'"):
            embed(embedder(fake.url, truncate=False), store, ["y" * 1000])
        fake.max_tokens = 2000
        whole_now = embed(embedder(fake.url, truncate=False), store, ["y" * 1000])

    assert whole_now.n_kept is None
    assert store.info().n_vectors == 1


def test_a_text_shortened_because_the_server_was_busy_is_used_but_not_stored(
    store: VectorStore,
) -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url)
        known_facts(model, store)
        fake.script.append(status(500, "input is too large to process"))
        shortened = embed(model, store, ["y" * 1000])
        again = embed(model, store, ["y" * 1000])

    assert shortened.n_kept is not None
    assert (again.n_cached, again.n_embedded, again.n_kept) == (0, 1, None)


def test_a_text_refused_at_every_length_is_named(store: VectorStore) -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url)
        known_facts(model, store)
        fake.script.extend([status(413, "not this one")] * 6)
        with pytest.raises(ProviderError, match=r"'d1': .*not this one"):
            embed(model, store, ["z" * 320])

    assert [len(texts[0]) for texts in fake.inputs[1:]] == [320, 63, 30, 22, 18, 16]


def test_a_request_refused_at_first_contact_is_about_the_request(store: VectorStore) -> None:
    """No text is blamed, and nothing is halved, for a field that the server does not know."""
    with (
        FakeOpenAI() as fake,
        pytest.raises(ProviderError, match="Unrecognized request argument supplied: input_type"),
    ):
        embed(embedder(fake.url, document_params={"input_type": "d"}), store, WORDS)

    assert len(fake.bodies) == 2  # the second without encoding_format


# Side by side, and what is kept


def test_requests_run_side_by_side_up_to_the_bound(store: VectorStore) -> None:
    with FakeOpenAI(seconds=0.02) as fake:
        found = embed(embedder(fake.url, batch_size=10, concurrency=3), store, WORDS)

    assert fake.most_at_once == 3
    assert np.array_equal(found.vectors, expected(WORDS, store))


def test_a_server_killed_in_the_middle_loses_no_batch_and_the_next_run_resumes(
    store: VectorStore,
) -> None:
    with FakeOpenAI() as fake:
        model = embedder(fake.url, batch_size=10)
        known_facts(model, store)
        fake.script.extend([edit(lambda data: None)] * 12 + [hang_up] * 500)
        with pytest.raises(ProviderError, match=r"\(7 tries\)"):
            embed(model, store, WORDS)
        port = fake.port
    n_kept = store.info().n_vectors
    with FakeOpenAI(port=port) as fake:
        found = embed(embedder(fake.url, batch_size=10), store, WORDS)

    assert n_kept == 120
    assert (found.n_cached, found.n_embedded) == (120, 180)
    assert np.array_equal(found.vectors, expected(WORDS, store))


def test_a_server_that_is_gone_within_a_batch_loses_nothing_that_it_answered(
    store: VectorStore,
) -> None:
    """64 texts in one answer, a vector of NaN among them; asking for that one alone fails."""
    with FakeOpenAI(nan_texts=(WORDS[5],)) as fake:
        model = embedder(fake.url, batch_size=64, concurrency=1)
        known_facts(model, store)
        fake.script.extend([edit(lambda data: None)] + [hang_up] * 20)
        with pytest.raises(ProviderError, match=r"^POST http://.*\(7 tries\)"):
            embed(model, store, WORDS[:64])

    assert store.info().n_vectors == 63


def test_what_is_known_to_take_several_requests_is_stored_after_each(store: VectorStore) -> None:
    """64 texts of 3,998 estimated tokens each: 25 are 99,950 of 100,000, then 25 and 14."""
    seen: list[int] = []
    texts = [f"{number:02} " + "x" * 11_990 for number in range(64)]
    with FakeOpenAI(max_tokens=20_000) as fake:
        embed(
            embedder(fake.url, concurrency=1),
            store,
            texts,
            on_progress=lambda done, total: seen.append(done),
        )

    assert sorted(np.diff(seen).tolist()) == [14, 25, 25]


def test_an_interrupt_does_not_wait_for_the_server(store: VectorStore) -> None:
    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with FakeOpenAI() as fake, pytest.raises(KeyboardInterrupt):
        embed(embedder(fake.url, batch_size=10), store, WORDS, on_progress=interrupt)

    # 1 stored before; 10 at most wait to be taken, and 5 threads may hold one more: 16 of 30.
    assert 10 <= store.info().n_vectors <= 160


def test_an_interrupt_keeps_what_was_answered_and_not_yet_stored(
    store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four batches of ten are answered before the first of them is stored."""
    monkeypatch.setattr(
        embed_module,
        "outcomes",
        lambda work, waiting, n_threads: iter(list(outcomes(work, waiting, n_threads))),
    )

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with FakeOpenAI() as fake, pytest.raises(KeyboardInterrupt):
        embed(embedder(fake.url, batch_size=10), store, WORDS[:40], on_progress=interrupt)

    assert store.info().n_vectors == 40


def test_batches_on_their_way_are_kept_when_another_fails(store: VectorStore) -> None:
    with FakeOpenAI(seconds=0.05) as fake:
        model = embedder(fake.url, batch_size=10, concurrency=4)
        known_facts(model, store)
        fake.script.append(status(403))
        with pytest.raises(ProviderError, match="403"):
            embed(model, store, WORDS[:40])

    assert store.info().n_vectors == 30


# The command


def evalset(folder: Path, documents: Mapping[str, str]) -> Path:
    folder.mkdir()
    rows = [json.dumps({"_id": name, "text": text}) for name, text in documents.items()]
    (folder / "corpus.jsonl").write_text("\n".join(rows), "utf-8")
    queries = [
        json.dumps({"_id": f"q-{name}", "text": text[:20]}) for name, text in documents.items()
    ]
    (folder / "queries.jsonl").write_text("\n".join(queries), "utf-8")
    qrels = [f"q-{name}\t{name}\t1" for name in documents]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(qrels), "utf-8")
    return folder


def compare(url: str, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    from embed_ab.cli import main

    out = folder.parent / "out"
    systems = ["-a", "mock:char3", "-b", f"openai:{MODEL}", "--bm25", "none"]
    code = main(["compare", str(folder), *systems, "--out", str(out), "--quiet", *more])
    result = out / "result.json"
    return code, json.loads(result.read_text("utf-8")) if result.exists() else {}


def test_a_server_ranks_as_the_same_model_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = evalset(tmp_path / "set", {f"d{n}": text for n, text in enumerate(WORDS[:50])})
    with FakeOpenAI(key="sk-test") as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        code, result = compare(fake.url, folder)

    assert code == 0
    assert "identical_rankings" in [caution["code"] for caution in result["cautions"]]
    assert "sk-test" not in json.dumps(result)


def test_shortened_documents_are_counted_as_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two documents keeps 293 of its 1,000 characters; 707 of 1,037 are lost."""
    folder = evalset(tmp_path / "set", {"d1": WORDS[0], "d2": "y" * 1000})
    with FakeOpenAI(max_tokens=300) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        _, result = compare(fake.url, folder)

    cut = result["systems"][1]["truncation"]
    assert (cut["max_length"], cut["n_truncated"], cut["relevant"]) == (None, 1, ["d2"])
    assert cut["tokens_lost"] == pytest.approx(707 / (1000 + len(WORDS[0])))
    caution = next(c for c in result["cautions"] if c["code"] == "truncated_documents")
    assert "at the server's limit" in caution["message"]


def test_documents_cut_in_silence_are_a_caution_in_warm_runs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake's tokens are characters: it counts 100 for 300 words of one."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("EMBED_AB_CACHE_DIR", str(tmp_path / "cache"))
    folder = evalset(tmp_path / "set", {"d1": "a b c " * 100, "d2": "d e f " * 100})
    with FakeOpenAI(cuts_at=100) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        _, cold = compare(fake.url, folder)
        n_asked = len(fake.bodies)
        _, warm = compare(fake.url, folder)

    assert len(fake.bodies) == n_asked
    for result in (cold, warm):
        caution = next(c for c in result["cautions"] if c["code"] == "silent_cut")
        assert "the server counted 0.33 tokens for each word" in caution["message"]


def test_a_server_that_is_down_is_said_before_the_other_model_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeOpenAI() as gone:
        monkeypatch.setenv("OPENAI_BASE_URL", gone.url)
    settings = resolve(
        {
            "eval-path": str(evalset(tmp_path / "set", {"d1": "pump", "d2": "valve"})),
            "model-a": "mock:char3",
            "model-b": "openai:m",
            "cache": False,
        },
        config=None,
    )
    stages: list[str] = []
    with pytest.raises(ProviderError, match="no connection"):
        commands.compare(settings, on_progress=lambda what, done, total: stages.append(what))

    assert stages == []


def test_a_server_that_went_down_is_said_first_too_where_a_text_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings_of(documents: Mapping[str, str]) -> Settings:
        folder = evalset(tmp_path / "-".join(documents.values()), documents)
        flags = {"eval-path": str(folder), "model-a": "mock:char3", "model-b": f"openai:{MODEL}"}
        return resolve(flags | {"out": str(tmp_path / "out")}, config=None)

    few = {"d1": "pump", "d2": "valve"}
    with FakeOpenAI() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        commands.compare(settings_of(few))
    stages: list[str] = []
    with pytest.raises(ProviderError, match="no connection"):
        commands.compare(
            settings_of(few | {"d3": "gasket"}),
            on_progress=lambda what, done, total: stages.append(what),
        )
    assert stages == []
    # With nothing new there is nothing to ask.
    assert commands.compare(settings_of(few | {"d3": "pump"})).exit_code == 0


def test_texts_that_the_server_cut_are_said_wherever_a_result_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A token is a character: of 1,020 in all the server reads 293 + 20, of 300 at most."""
    from embed_ab.cli import main

    folder = evalset(tmp_path / "set", {"d1": "x" * 20, "d2": "y" * 1000})
    with FakeOpenAI(max_tokens=300) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        systems = ["-a", "mock:char3", "-b", f"openai:{MODEL}"]
        main(["compare", str(folder), *systems, "--out", str(tmp_path / "out")])

    said = "cut 1 of 2 documents (50%) at the server's limit; 69% of all characters were never read"
    assert said in capsys.readouterr().out
    assert said in (tmp_path / "out" / "comment.md").read_text("utf-8")
    report = html.unescape((tmp_path / "out" / "report.html").read_text("utf-8"))
    assert said in report
    assert "1 of 2 documents (50.0%) at the server's limit; 69.3% of all characters" in report


def test_queries_that_the_server_cut_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is a character: of two queries the one of 500 does not fit into 300."""
    folder = evalset(tmp_path / "set", {"d1": WORDS[0], "d2": WORDS[1]})
    queries = f'{{"_id": "q-d1", "text": "{"z" * 500}"}}\n{{"_id": "q-d2", "text": "pump"}}\n'
    (folder / "queries.jsonl").write_text(queries, "utf-8")
    with FakeOpenAI(max_tokens=300) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        _, result = compare(fake.url, folder)

    assert result["systems"][1]["details"]["queries cut off"] == "1 of 2"


def test_a_price_is_that_of_the_tokens_that_the_server_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is a character: 40 + 60 of the documents, 20 + 20 of the queries; 2 a million."""
    folder = evalset(tmp_path / "set", {"d1": "x" * 40, "d2": "y" * 60})
    with FakeOpenAI() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        _, cold = compare(fake.url, folder, "--b-price-per-million-tokens", "2")
        _, warm = compare(fake.url, folder, "--b-price-per-million-tokens", "2")

    assert cold["measured"]["tokens"] == {"B": 140}
    assert cold["measured"]["price"] == {"B": pytest.approx(0.00028)}
    assert (warm["measured"]["tokens"], warm["measured"]["price"]) == ({}, {"B": 0})
    for name in ("comment.md", "report.html"):
        shown = (tmp_path / "out" / name).read_text("utf-8")
        assert "Nothing was bought: all vectors came from the cache." in shown


def test_redact_leaves_out_what_the_server_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evalset(tmp_path / "set", {"d1": WORDS[0], "d2": WORDS[1]})
    with FakeOpenAI() as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        fake.script.append(status(403, f"not allowed: {WORDS[0]}"))
        code, _ = compare(fake.url, folder, "--redact")

    error = capsys.readouterr().err
    assert code == 3
    assert "answered 403" in error
    assert WORDS[0] not in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--b-query-params", "[1]"], "--b-query-params"),
        (["--b-query-params", "{"], "Input should be a JSON object"),
        (["--b-query-params", '{"input": "x"}'], "that is where the texts go"),
        (["--a-query-params", '{"x": 1}'], "--a-query-params has no meaning for mock:char3"),
        (["--b-trust-remote-code"], "--b-trust-remote-code has no meaning"),
        (["--concurrency", "0"], "--concurrency"),
    ],
)
def test_flags_that_cannot_be_are_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    folder = evalset(tmp_path / "set", {"d1": WORDS[0], "d2": WORDS[1]})

    assert compare("", folder, *flags)[0] == 2
    assert message in capsys.readouterr().err


def test_the_dimension_of_the_stand_in_is_that_of_its_model() -> None:
    assert MockEmbedder("char3").facts().dimension == DIMENSION
