"""How texts become requests: which refusals are about a text, and what is kept of a long one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from embed_ab.errors import ProviderError
from embed_ab.providers.base import Role, Usage
from embed_ab.providers.batching import MAX_FAULTS, Answer, Batcher
from embed_ab.providers.http import RequestRefused

PLAIN = "What is an embedding?"
TOO_LONG = "This model's maximum context length is 8 tokens"


class Server:
    """Answers with the length of each text; `refuse` says the status and words of a refusal."""

    def __init__(self, refuse: Callable[[Sequence[str]], tuple[int, str] | None]) -> None:
        self.refuse = refuse
        self.asked: list[list[str]] = []

    def send(self, texts: Sequence[str], role: Role) -> Answer:
        self.asked.append(list(texts))
        if refusal := self.refuse(texts):
            raise RequestRefused("answered", status=refusal[0], said=refusal[1])
        lengths = np.array([[len(text)] for text in texts], dtype=np.float32)
        return Answer(lengths, None, 0.1)

    def batcher(
        self, *, max_texts: int = 64, truncate: bool = True, usage: Usage | None = None
    ) -> Batcher:
        return Batcher(self.send, max_texts=max_texts, truncate=truncate, usage=usage or Usage())


def limited(limit: int, status: int = 400, said: str = TOO_LONG) -> Server:
    """A server that refuses requests with a text of more characters."""
    return Server(lambda texts: (status, said) if max(map(len, texts)) > limit else None)


def without(word: str, said: str, status: int = 400) -> Server:
    """A server that refuses requests with a text that holds a word."""
    return Server(lambda texts: (status, said) if word in " ".join(texts) else None)


# What a refusal is about


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "this model does not support embeddings"),
        (422, ""),
        (500, "unsupported value: NaN"),
    ],
)
def test_a_server_that_refuses_everything_is_asked_twice(status: int, said: str) -> None:
    """Once with the 64 texts, once with a plain one; no text is blamed."""
    server = Server(lambda texts: (status, said))

    with pytest.raises(RequestRefused) as caught:
        server.batcher().embed([f"text {n}" for n in range(64)], "document")

    assert (len(server.asked), server.asked[1]) == (2, [PLAIN])
    assert caught.value.said == said
    assert "The server refuses any text" in caught.value.hint


def test_a_server_that_turns_to_refusing_everything_is_asked_twice_more() -> None:
    is_broken = False
    server = Server(lambda texts: (400, "no model is loaded") if is_broken else None)
    batcher = server.batcher()
    batcher.embed(["a", "b"], "document")
    is_broken = True

    with pytest.raises(RequestRefused, match="no model is loaded"):
        batcher.embed(["c", "d"], "document")

    assert server.asked[1:] == [["c", "d"], [PLAIN]]


def test_a_field_that_only_queries_have_is_not_a_texts_fault() -> None:
    def send(texts: Sequence[str], role: Role) -> Answer:
        if role == "query":
            raise RequestRefused("answered", status=400, said="unknown field")
        return Answer(np.ones((len(texts), 1), dtype=np.float32), None, 0.1)

    batcher = Batcher(send, max_texts=64, truncate=True, usage=Usage())
    batcher.embed(["a", "b"], "document")

    with pytest.raises(RequestRefused, match="unknown field"):
        batcher.embed(["a", "b"], "query")


@pytest.mark.parametrize("said", ["invalid input", "filtered by the content management policy"])
def test_a_text_refused_for_its_content_is_a_fault_and_never_shortened(said: str) -> None:
    server = without("bad", said)
    texts = ["a long good text", "a long bad text that a shorter one would not mend", "good"]

    found = server.batcher().embed(texts, "document")

    assert list(found.faults) == [1]
    assert found.n_kept is None
    assert {text for asked in server.asked for text in asked} == {PLAIN, *texts}


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens",
        "Invalid 'input[0]': string too long. Expected a string with maximum length 1048576",
        "Input is too long for requested model.",
        "too many tokens: total number of tokens in the prompt cannot exceed 512",
        "Input id 0 has 9000 tokens, exceeding max 8192 tokens.",
        "The input token count (9000) exceeds the maximum number of tokens allowed (2048).",
        "Single text cannot exceed 8194 tokens.",
        "Input validation error: `inputs` must have less than 512 tokens. Given: 1000",
        "the input length exceeds the context length",
        "input (600 tokens) is too large to process. increase the physical batch size",
        "The length of the text is larger than the limit of 2000 characters",
    ],
)
def test_words_about_length_shorten_the_text(said: str) -> None:
    found = limited(100, said=said).batcher().embed(["x" * 400], "document")

    assert found.n_kept is not None
    assert not found.faults


@pytest.mark.parametrize(
    "said",
    [
        "The response was filtered due to the prompt triggering content management policy.",
        "'$.input' is invalid. Please check the API reference.",
        "Billing hard limit has been reached",
        "Unrecognized request argument supplied: max_tokens",
        "invalid token in input",
        "unable to process input",
    ],
)
def test_words_about_anything_else_do_not(said: str) -> None:
    server = limited(100, said=said)

    assert list(server.batcher().embed(["x" * 400], "document").faults) == [0]
    assert server.asked == [["x" * 400], [PLAIN]]


def test_a_status_413_is_about_length_whatever_it_says() -> None:
    found = limited(100, status=413, said="batch size").batcher().embed(["x" * 400], "document")

    assert found.n_kept is not None


@pytest.mark.parametrize("is_first", [True, False])
def test_a_refusal_without_words_is_about_length_where_what_passed_does_not_at_that_length(
    is_first: bool,
) -> None:
    """Whatever passed before: another order must not make another result."""
    server = Server(lambda texts: (400, "") if "z" in texts[0] or len(texts[0]) > 90 else None)
    texts = ["a" * 100, "z" * 40, "a" * 50 + "z", "a" * 50]

    found = server.batcher(max_texts=1).embed(texts if is_first else texts[::-1], "document")

    kept = found.n_kept if is_first else found.n_kept[::-1]  # type: ignore[index]
    assert kept is not None
    assert 85 <= kept[0] <= 90
    assert (kept[1:] == -1).all()
    assert sorted(found.faults) == [1, 2]  # the same two in both orders


def test_few_texts_are_singled_out_and_the_others_still_embedded() -> None:
    """64 texts, every fourth refused: 8 faults would be in the first half alone."""
    server = without("bad", "invalid input")
    texts = [f"{'bad' if number % 4 == 0 else 'good'} {number}" for number in range(64)]

    found = server.batcher().embed(texts, "document")

    singled_out = [asked for asked in server.asked if len(asked) == 1 and "bad" in asked[0]]
    assert len(singled_out) == MAX_FAULTS
    assert len(server.asked) < 30
    assert {number for number in range(0, 64, 4)} <= set(found.faults)


def test_a_nan_at_a_shorter_length_is_the_texts_fault() -> None:
    def refuse(texts: Sequence[str]) -> tuple[int, str] | None:
        return (400, TOO_LONG) if len(texts[0]) > 100 else (500, "unsupported value: NaN")

    found = Server(refuse).batcher().embed(["x" * 150], "document")

    assert "NaN" in found.faults[0].said


def test_a_plain_text_that_was_sent_to_find_out_is_not_counted() -> None:
    """Of four requests one brought the vector of a text that somebody asked for."""
    server = without("bad", "invalid input")
    usage = Usage()

    server.batcher(usage=usage).embed(["bad", "good"], "document")

    assert server.asked == [["bad", "good"], [PLAIN], ["bad"], ["good"]]
    assert [request.n_texts for request in usage.requests] == [1]


@pytest.mark.parametrize(
    ("text", "n_tokens", "expected"),
    [
        ("the pump " * 300, 128, 128 / 600),  # cut at 128 tokens
        ("펌프를 켜는 방법 " * 100, 750, 2.5),
        ("x = [i ** 2 for i in y]; " * 40, 560, 2.0),  # x, [i, 2, for, i, in, y]; are 7 words
        ("the pump " * 49, 9, None),  # 98 words are not long
        ("펌프" * 4000, 512, None),  # one word: nothing can be told
        ("the pump " * 300, None, None),
    ],
)
def test_words_and_tokens_tell_of_texts_cut_in_silence(
    text: str, n_tokens: int | None, expected: float | None
) -> None:
    usage = Usage()

    def send(texts: Sequence[str], role: Role) -> Answer:
        return Answer(np.ones((1, 1), dtype=np.float32), n_tokens, 0.1)

    Batcher(send, max_texts=1, truncate=True, usage=usage).embed([text], "document")

    assert usage.tokens_per_word == expected


def test_what_was_answered_before_a_failure_comes_back_with_it() -> None:
    """The server takes one text a request and dies at the 41st text."""
    gone = ProviderError("connection refused")

    def send(texts: Sequence[str], role: Role) -> Answer:
        if "text 40" in texts and len(texts) == 1:
            raise gone
        if len(texts) > 1:
            raise RequestRefused("answered", status=400, said="one text, please")
        return Answer(np.ones((1, 1), dtype=np.float32), None, 0.1)

    batcher = Batcher(send, max_texts=64, truncate=True, usage=Usage())
    found = batcher.embed([f"text {number}" for number in range(64)], "document")

    assert found.failure is gone
    assert found.faults == dict.fromkeys(range(40, 64), gone)
    assert found.vectors[:40].tolist() == [[1]] * 40


def test_texts_whose_vectors_stay_no_numbers_are_asked_again_up_to_a_bound() -> None:
    asked: list[int] = []

    def send(texts: Sequence[str], role: Role) -> Answer:
        asked.append(len(texts))
        return Answer(np.full((len(texts), 1), np.nan, dtype=np.float32), None, 0.1)

    batcher = Batcher(send, max_texts=64, truncate=True, usage=Usage())
    batcher.embed([f"text {number}" for number in range(64)], "document")

    assert asked == [64] + [1] * MAX_FAULTS


# What is kept of a text that is too long


@pytest.mark.parametrize("limit", [17, 100, 101, 127, 128, 500, 511, 777, 999, 1000, 4095])
def test_at_least_94_per_cent_of_what_fits_is_kept(limit: int) -> None:
    server = limited(limit)

    found = server.batcher().embed(["x" * 4096], "document")

    assert found.n_kept is not None
    assert 0.94 * limit - 1 <= found.n_kept[0] <= limit
    assert found.vectors[0, 0] == found.n_kept[0]  # the vector is that of the text kept


def test_the_next_long_text_begins_near_the_length_that_passed() -> None:
    """967 is the most that fits of the lengths tried, a sixteenth more, 1,027, is refused."""
    server = limited(1000)
    batcher = server.batcher()
    batcher.embed(["x" * 8000], "document")
    n_before = len(server.asked)

    found = batcher.embed(["y" * 6000], "document")

    assert found.n_kept is not None
    assert found.n_kept[0] == 967
    assert [len(texts[0]) for texts in server.asked[n_before:]] == [6000, 967, 1027]


@pytest.mark.parametrize("said", [TOO_LONG, ""])
def test_what_is_kept_of_a_text_does_not_depend_on_what_was_refused_before(said: str) -> None:
    """With several requests at once the order is not ours, and the vectors go into the store."""
    server = Server(
        lambda texts: (400, said) if max(len(text.encode()) for text in texts) > 900 else None
    )
    texts = [letter * (1000 + 300 * n) for n, letter in enumerate("aé펌b한ü😀c")]

    def n_kept(batcher: Batcher, text: str) -> int:
        found = batcher.embed([text], "document").n_kept
        assert found is not None
        return int(found[0])

    alone = [n_kept(server.batcher(), text) for text in texts]

    for seed in range(20):
        batcher = server.batcher()
        for place in np.random.default_rng(seed).permutation(len(texts)).tolist():
            assert n_kept(batcher, texts[place]) == alone[place]


@pytest.mark.parametrize("limit", [60, 300, 900, 3000, 7000])
def test_a_limit_that_is_another_for_the_next_text_is_found_too(limit: int) -> None:
    """Texts differ in how many characters make a token."""
    limits = {"x": 1000, "y": limit}
    server = Server(lambda texts: (400, TOO_LONG) if len(texts[0]) > limits[texts[0][0]] else None)
    batcher = server.batcher()
    batcher.embed(["x" * 8000], "document")
    n_before = len(server.asked)

    found = batcher.embed(["y" * 8000], "document")

    assert found.n_kept is not None
    assert 0.94 * limit - 1 <= found.n_kept[0] <= limit
    assert len(server.asked) - n_before <= 12


def test_texts_like_one_that_was_too_long_go_alone_and_are_not_bisected() -> None:
    """16 texts of 2,000 characters take 3 requests each, 16 of 10 one together."""
    server = limited(500)
    texts = ["x" * (2000 - number) for number in range(16)] + ["y" * 10] * 16
    batcher = server.batcher(max_texts=16)
    batcher.embed(["z" * 1900], "document")
    n_before = len(server.asked)

    found = batcher.embed(texts, "document")

    assert found.n_kept is not None
    assert (found.n_kept[:16] >= 470).all()
    assert len(server.asked) - n_before == 16 * 3 + 1


def test_a_text_of_that_length_that_passes_lets_others_share_a_request_again() -> None:
    limits = {"x": 50, "y": 5000}
    server = Server(
        lambda texts: (400, TOO_LONG) if any(len(t) > limits[t[0]] for t in texts) else None
    )
    batcher = server.batcher()
    batcher.embed(["x" * 100], "document")

    batcher.embed(["y" * 200], "document")

    batcher.embed(["y" * 199, "y" * 198], "document")

    assert [len(texts) for texts in server.asked[-2:]] == [1, 2]


@pytest.mark.parametrize(
    ("status", "passing"), [(400, set()), (413, set()), (429, {0}), (500, {0})]
)
def test_a_text_shortened_for_a_reason_that_may_pass_is_marked(
    status: int, passing: set[int]
) -> None:
    found = limited(100, status=status).batcher().embed(["x" * 400], "document")

    assert found.n_kept is not None
    assert found.passing == passing
