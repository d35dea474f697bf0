"""BM25: what a token is, what a score is, and what is never retrieved."""

import logging
import unicodedata
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab.bm25 import Tokens, search, search_tokens, tokenize

ALL_TOKENS: tuple[Tokens, ...] = ("word", "char2", "auto")
LATIN = st.text(alphabet="abé ²Ü5._-\n", max_size=20)
MIXED = st.text(
    alphabet="abX5 ._가나ㅋ日本々ーカﾊﾟＡゔ\u3099\u309a\u1112\u1161\u11ab㐀𠮷", max_size=20
)


def test_word_keeps_runs_of_two_or_more_word_characters_in_lower_case() -> None:
    assert tokenize("A RAID-1 box, its 2 disks; don't", "word") == [
        "raid",
        "box",
        "its",
        "disks",
        "don",
    ]


def test_word_leaves_korean_words_whole() -> None:
    assert tokenize("배가 뜨지 못하면", "word") == ["배가", "뜨지", "못하면"]


def test_char2_cuts_every_run_of_word_characters() -> None:
    assert tokenize("Box 배표를", "char2") == ["bo", "ox", "배표", "표를"]


def test_char2_keeps_a_run_of_one_character() -> None:
    assert tokenize("a b", "char2") == ["a", "b"]


def test_auto_cuts_hangul_and_leaves_latin_words_whole() -> None:
    assert tokenize("Nextcloud 서버를 백업", "auto") == ["nextcloud", "서버", "버를", "백업"]


def test_auto_keeps_a_cjk_character_that_stands_alone() -> None:
    assert tokenize("이 배", "auto") == ["이", "배"]


def test_auto_separates_digits_and_latin_from_the_hangul_they_touch() -> None:
    assert tokenize("2차 USB포트", "auto") == ["2", "차", "usb", "포트"]


def test_auto_drops_a_lone_latin_character_as_word_does() -> None:
    assert tokenize("가나 a 5 다라", "auto") == ["가나", "다라"]


def test_auto_takes_kana_and_han_as_one_stretch() -> None:
    assert tokenize("東京タワーへ", "auto") == ["東京", "京タ", "タワ", "ワー", "ーへ"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("𠮷野家", ["𠮷野", "野家"]),  # Han beyond the first plane
        ("㐀㐁", ["㐀㐁"]),  # extension A
        ("人々", ["人々"]),  # iteration mark
        ("ㅋㅋㅋ", ["ㅋㅋ", "ㅋㅋ"]),  # compatibility jamo
        ("ｶﾅﾊﾟ", ["カナ", "ナパ"]),  # half-width kana with its sound mark
        ("か\u309aき", ["か\u309a", "\u309aき"]),  # a sound mark without a composed form
        ("中・日", ["中", "日"]),  # the middle dot separates
        ("ＵＳＢ３", ["usb3"]),  # full-width Latin
    ],
)
def test_auto_knows_the_rarer_blocks(text: str, expected: list[str]) -> None:
    assert tokenize(text, "auto") == expected


@pytest.mark.parametrize("tokens", ALL_TOKENS)
@pytest.mark.parametrize("text", ["한글 문서", "Café Ångström", "がぎぐ"])
def test_decomposed_text_has_the_tokens_of_composed_text(text: str, tokens: Tokens) -> None:
    assert tokenize(unicodedata.normalize("NFD", text), tokens) == tokenize(text, tokens)


@given(LATIN)
def test_a_text_without_cjk_has_the_same_tokens_under_auto_and_word(text: str) -> None:
    assert tokenize(text, "auto") == tokenize(text, "word")


@given(MIXED, st.sampled_from(ALL_TOKENS))
def test_no_token_is_empty_or_holds_white_space_or_upper_case(text: str, tokens: Tokens) -> None:
    for token in tokenize(text, tokens):
        assert token
        assert token == token.lower()
        assert not any(character.isspace() for character in token)


@given(MIXED)
def test_auto_loses_no_cjk_character(text: str) -> None:
    kept = set("".join(tokenize(text, "auto")))

    assert set("가나ㅋ日本々ーカ한㐀𠮷") & set(unicodedata.normalize("NFC", text)) <= kept


def test_a_score_is_idf_times_saturated_term_frequency() -> None:
    run = search(["red fox", "red red", "blue cat"], ["red"], "word", 3)

    # all lengths equal: tf / (tf + 1.5); idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = 0.470004
    assert run.documents.tolist() == [[1, 0, -1]]
    assert run.scores[0, :2] == pytest.approx([0.470004 * 2 / 3.5, 0.470004 / 2.5], abs=1e-6)
    assert run.scores[0, 2] == -np.inf


def test_a_longer_document_scores_lower() -> None:
    run = search(["red fox dog", "red"], ["red"], "word", 2)

    # mean length 2; norms 1.5 x (0.25 + 0.75 x 0.5) = 0.9375 and 1.5 x (0.25 + 0.75 x 1.5) = 2.0625
    # idf = ln(1 + 0.5 / 2.5) = 0.182322
    assert run.documents.tolist() == [[1, 0]]
    assert run.scores[0] == pytest.approx([0.182322 / 1.9375, 0.182322 / 3.0625], abs=1e-6)


def test_a_word_given_twice_counts_twice() -> None:
    run = search(["red fox", "blue cat"], ["red", "red red"], "word", 1)

    assert run.scores[1, 0] == pytest.approx(2 * run.scores[0, 0], abs=1e-6)


def test_equal_scores_are_ordered_by_document_index() -> None:
    run = search(["red fox", "blue cat", "red fox", "red fox"], ["fox"], "word", 2)

    assert run.documents.tolist() == [[0, 2]]


def test_the_shapes_and_types_are_those_of_a_run() -> None:
    run = search(["red fox"], ["red", "blue"], "word", 5, name="bm25:word")

    assert run.name == "bm25:word"
    assert (run.documents.dtype, run.scores.dtype) == (np.int32, np.float64)
    assert run.documents.tolist() == [[0, -1, -1, -1, -1], [-1, -1, -1, -1, -1]]


def test_a_document_that_is_no_candidate_still_counts_in_the_statistics() -> None:
    texts = ["red fox", "red dog", "blue cat"]
    everything = search(texts, ["red"], "word", 2)

    some = search(texts, ["red"], "word", 2, is_candidate=np.array([False, True, True]))

    assert some.documents.tolist() == [[1, -1]]
    assert some.scores[0, 0] == everything.scores[0, 1]


@pytest.mark.parametrize(
    ("documents", "queries"),
    [
        (["red fox"], [""]),
        (["red fox"], ["?!"]),
        (["red fox"], ["unknown"]),
        (["", "a", "!"], ["red"]),
        ([], ["red"]),
        (["red fox"], []),
    ],
    ids=["empty", "no token", "unknown token", "no token anywhere", "no document", "no query"],
)
def test_nothing_in_common_retrieves_nothing(documents: list[str], queries: list[str]) -> None:
    run = search(documents, queries, "word", 2)

    assert run.documents.tolist() == [[-1, -1]] * len(queries)
    assert run.scores.tolist() == [[-np.inf, -np.inf]] * len(queries)


def test_an_empty_first_document_changes_no_index() -> None:
    run = search(["", "red fox"], ["red"], "word", 1)

    assert run.documents.tolist() == [[1]]


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    search(["red fox", "blue cat"], ["red", ""], "auto", 2)

    assert capfd.readouterr() == ("", "")


def test_nothing_is_logged_above_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        search(["red fox", "blue cat"], ["red", ""], "auto", 2)

    assert not caplog.records


WORDS = st.lists(st.sampled_from(["red", "fox", "dog", "cat"]), max_size=5)


@settings(max_examples=50)
@given(st.lists(WORDS, min_size=1, max_size=6), WORDS, st.randoms(use_true_random=False))
def test_permuting_the_documents_changes_no_score(
    documents: list[list[str]], query: list[str], random: Random
) -> None:
    n_documents = len(documents)
    order = list(range(n_documents))
    random.shuffle(order)

    def by_document(given: list[list[str]]) -> dict[int, float]:
        run = search_tokens(given, [query], n_documents)
        found = run.documents[0] >= 0
        return dict(zip(run.documents[0][found].tolist(), run.scores[0][found], strict=True))

    shuffled = by_document([documents[document] for document in order])

    assert {order[at]: score for at, score in shuffled.items()} == by_document(documents)


@settings(max_examples=50)
@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=4))
def test_a_query_retrieves_exactly_the_documents_that_share_a_word(
    documents: list[list[str]], queries: list[list[str]]
) -> None:
    run = search_tokens(documents, queries, len(documents))

    for query, ranked in zip(queries, run.documents.tolist(), strict=True):
        sharing = {at for at, words in enumerate(documents) if set(words) & set(query)}
        assert {document for document in ranked if document >= 0} == sharing
