"""Practice vectors."""

from __future__ import annotations

import socket
import unicodedata
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab.errors import InputError
from embed_ab.providers.base import Vectors
from embed_ab.providers.mock import NAMES, MockEmbedder


def vectors(name: str, *texts: str) -> Vectors:
    return MockEmbedder(name).embed(texts, "document").vectors


def test_a_vector_counts_each_word_in_one_signed_slot() -> None:
    """'cat cat dog': 2 in the slot of cat, 1 in that of dog, each with its sign, nothing else."""
    found = vectors("word", "cat cat dog", "cat", "dog")

    assert np.array_equal(found[0], 2 * found[1] + found[2])
    assert np.abs(found[1]).sum() == 1


def test_a_trigram_vector_counts_the_padded_trigrams() -> None:
    """'ab' is padded to ' ab ': the trigrams ' ab' and 'ab ', so the counts sum to 2."""
    assert np.abs(vectors("char3", "ab")).sum() == 2


@pytest.mark.parametrize(
    ("name", "checksum"),
    [("char3", 3408246262), ("word", 601537202)],
)
def test_the_vectors_are_the_same_on_every_machine(name: str, checksum: int) -> None:
    """The checksum was taken once; a change of it needs a new version in the fingerprint."""
    found = vectors(name, "The pump stops when the tank is full.", "탱크가 차면 펌프가 멈춘다.")

    assert zlib.crc32(found.astype("<f4").tobytes()) == checksum


@pytest.mark.parametrize("name", NAMES)
def test_korean_in_separate_letters_equals_korean_in_syllables(name: str) -> None:
    syllables = "펌프가 멈춘다"
    letters = unicodedata.normalize("NFD", syllables)

    assert letters != syllables
    assert np.array_equal(vectors(name, letters), vectors(name, syllables))


@pytest.mark.parametrize("name", NAMES)
def test_case_makes_no_difference(name: str) -> None:
    assert np.array_equal(vectors(name, "Pump"), vectors(name, "pUMP"))


def test_texts_with_common_words_are_nearer_than_texts_without() -> None:
    query, same, other = vectors("word", "full tank", "the tank is full", "invoices and payments")

    assert query @ same == 2  # full, tank
    assert query @ other == 0


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_no_text_gets_a_zero_vector(name: str, text: str) -> None:
    assert vectors(name, text).any()


@given(texts=st.lists(st.text(max_size=20), min_size=2, max_size=6))
@settings(max_examples=50, deadline=None)
def test_a_vector_does_not_depend_on_the_texts_beside_it(texts: list[str]) -> None:
    together = vectors("char3", *texts)

    assert np.array_equal(together[1], vectors("char3", texts[1])[0])


def test_the_fingerprint_tells_the_two_recipes_apart() -> None:
    assert MockEmbedder("char3").fingerprint != MockEmbedder("word").fingerprint


def test_another_name_is_an_input_error_that_lists_the_names() -> None:
    with pytest.raises(InputError, match="mock:char4") as caught:
        MockEmbedder("char4")

    assert caught.value.hint == "Write mock:char3 or mock:word."


def test_a_mock_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)

    assert vectors("char3", "pump").shape == (1, 256)
