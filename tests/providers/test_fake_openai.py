"""The stand-in is proved with OpenAI's own client before ours is run on it."""

from __future__ import annotations

import numpy as np
import pytest
from fake_openai import DIMENSION, FakeOpenAI, status

openai = pytest.importorskip("openai", reason="the package openai is absent: pip install '.[test]'")

MODEL = "text-embedding-3-small"


def client(fake: FakeOpenAI, key: str = "sk-test") -> openai.OpenAI:
    return openai.OpenAI(base_url=fake.url, api_key=key, max_retries=0)


def test_openais_client_reads_base64_and_floats_alike() -> None:
    """Without encoding_format that client asks for base64 and decodes it itself."""
    with FakeOpenAI(key="sk-test") as fake, client(fake) as official:
        packed = official.embeddings.create(model=MODEL, input=["pump", "tank"])
        plain = official.embeddings.create(model=MODEL, input="pump", encoding_format="float")

    assert [body.get("encoding_format") for body in fake.bodies] == ["base64", "float"]
    assert len(packed.data[0].embedding) == DIMENSION
    assert np.array_equal(packed.data[0].embedding, plain.data[0].embedding)
    assert packed.usage.total_tokens == 8


def test_openais_client_gets_the_dimensions_it_asks_for() -> None:
    with FakeOpenAI() as fake, client(fake) as official:
        reply = official.embeddings.create(model=MODEL, input=["pump"], dimensions=5)

    assert len(reply.data[0].embedding) == 5


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x" * 8193, "maximum context length is 8192 tokens"),
        (["x"] * 2049, "array too long"),
        (["x" * 8000] * 38, "max 300000 tokens per request"),
        ([" "], "is invalid"),
        ([[1, 2]], "is invalid"),
    ],
)
def test_openais_client_knows_the_refusals(text: object, error: str) -> None:
    with (
        FakeOpenAI() as fake,
        client(fake) as official,
        pytest.raises(openai.BadRequestError, match=error),
    ):
        official.embeddings.create(model=MODEL, input=text)


def test_openais_client_knows_the_other_errors() -> None:
    with (
        FakeOpenAI(key="sk-test") as fake,
        client(fake, "sk-other") as official,
        pytest.raises(openai.AuthenticationError),
    ):
        official.embeddings.create(model=MODEL, input="pump")
    with FakeOpenAI() as fake, client(fake) as official:
        with pytest.raises(openai.NotFoundError):
            official.embeddings.create(model="other", input="pump")
        fake.script.append(status(429, Retry_After="1"))
        with pytest.raises(openai.RateLimitError):
            official.embeddings.create(model=MODEL, input="pump")
