"""Evaluation sets in memory: order, digest, counts, exclusions, summary, writing."""

from __future__ import annotations

import numpy as np
import pytest

from embed_ab.check import Lengths, check
from embed_ab.errors import InputError
from embed_ab.evalset import (
    Evalset,
    from_records,
    load,
    normalized_text,
    save,
)

DOCUMENTS = {"d2": "two", "d1": {"title": "One", "text": "first"}, "d10": "ten"}
QUERIES = {"q2": "which is two?", "q1": "which is first?"}
QRELS = {"q2": {"d2": 1, "d10": 2}, "q1": {"d1": 1}}


def codes(evalset: Evalset) -> list[str]:
    return [notice.code for notice in evalset.notices]


def test_queries_and_documents_are_sorted_by_code_points() -> None:
    evalset = from_records(DOCUMENTS, QUERIES, QRELS)

    assert evalset.document_ids == ("d1", "d10", "d2")
    assert evalset.query_ids == ("q1", "q2")


def test_title_and_text_are_joined_with_one_space_and_stripped() -> None:
    documents = {"d1": {"title": "One", "text": "first "}, "d2": {"title": None, "text": " two"}}

    evalset = from_records(documents, {"q": "x"}, {"q": {"d1": 1}})

    assert evalset.document_texts == ("One first", "two")


def test_qrels_hold_document_indices_in_ascending_order() -> None:
    qrels = from_records(DOCUMENTS, QUERIES, QRELS).qrels

    # documents sorted: d1 0, d10 1, d2 2; rows: q1 -> d1, q2 -> d10 grade 2, d2 grade 1
    assert qrels.offsets.tolist() == [0, 1, 3]
    assert [array.tolist() for array in qrels.of(1)] == [[1, 2], [2, 1]]
    assert (qrels.offsets.dtype, qrels.documents.dtype, qrels.grades.dtype) == (
        np.int64,
        np.int32,
        np.int16,
    )


def test_the_digest_does_not_depend_on_the_order_of_the_input() -> None:
    def reverse(records: dict) -> dict:
        return dict(reversed(records.items()))

    qrels = {query: reverse(row) for query, row in reverse(QRELS).items()}

    turned = from_records(reverse(DOCUMENTS), reverse(QUERIES), qrels)

    assert turned.digest == from_records(DOCUMENTS, QUERIES, QRELS).digest


@pytest.mark.parametrize(
    ("documents", "queries", "qrels"),
    [
        (DOCUMENTS | {"d2": "twofold"}, QUERIES, QRELS),
        (DOCUMENTS | {"d3": "three"}, QUERIES, QRELS),
        (DOCUMENTS, QUERIES | {"q1": "which is last?"}, QRELS),
        (DOCUMENTS, QUERIES, QRELS | {"q1": {"d1": 2}}),
        (DOCUMENTS, QUERIES, QRELS | {"q1": {"d1": 1, "d2": 0}}),
    ],
)
def test_the_digest_changes_with_texts_ids_and_grades(documents, queries, qrels) -> None:
    assert (
        from_records(documents, queries, qrels).digest
        != from_records(DOCUMENTS, QUERIES, QRELS).digest
    )


def test_the_digest_tells_where_one_text_ends_and_the_next_begins() -> None:
    first = from_records({"a": "bc", "d": "e"}, {"q": "x"}, {"q": {"a": 1}})
    second = from_records({"a": "b", "d": "ce"}, {"q": "x"}, {"q": {"a": 1}})

    assert first.digest != second.digest


def test_a_document_with_the_id_of_its_query_is_an_ordinary_document() -> None:
    evalset = from_records({"1": "a", "2": "b"}, {"1": "x"}, {"1": {"1": 1}})

    assert evalset.document_ids == ("1", "2")
    assert evalset.qrels.of(0)[0].tolist() == [0]


def test_integer_ids_become_strings_exactly() -> None:
    big = 2**70
    evalset = from_records({1: "a", np.int64(7): "b", big: "c"}, {3: "x"}, {3: {big: 1}})

    assert evalset.document_ids == ("1", "1180591620717411303424", "7")


@pytest.mark.parametrize("identifier", [1.0, True, None, "", " d1", "d1\t", "d\n1", "d\x001"])
def test_an_id_that_cannot_be_written_unchanged_is_an_error(identifier) -> None:
    with pytest.raises(InputError, match="documents, entry 1: the id"):
        from_records({identifier: "a"}, {"q": "x"}, {"q": {"d": 1}})


def test_an_integer_id_equal_to_a_string_id_is_a_duplicate() -> None:
    with pytest.raises(InputError, match="entry 2: document '1' was already given in line 1"):
        from_records({1: "a", "1": "b"}, {"q": "x"}, {"q": {"1": 1}})


def test_ids_with_inner_white_space_are_accepted_with_a_notice() -> None:
    evalset = from_records({"d 1": "a"}, {"q": "x"}, {"q": {"d 1": 1}})

    assert evalset.notices[0].message == (
        "1 of 1 documents had white space in their id, which TREC run files cannot hold: 'd 1'."
    )


@pytest.mark.parametrize("text", [7, 0.5, True, ["a"], {"b": 1}])
def test_a_text_that_is_not_a_string_is_an_error(text) -> None:
    with pytest.raises(InputError, match=r'"text" is .* not a string'):
        from_records({"d": {"text": text}}, {"q": "x"}, {"q": {"d": 1}})


def test_half_a_surrogate_pair_is_an_error() -> None:
    with pytest.raises(InputError, match=r'"text" holds half of a surrogate pair, .\\ud83d'):
        from_records({"d": "broken \ud83d"}, {"q": "x"}, {"q": {"d": 1}})


@pytest.mark.parametrize("text", ["", "  \n", None, "\u200b", "\u3000"])
def test_a_document_without_visible_text_is_kept_and_marked_empty(text) -> None:
    evalset = from_records({"d": {"text": text}, "e": "e"}, {"q": "x"}, {"q": {"e": 1}})

    assert evalset.is_empty.tolist() == [True, False]
    assert evalset.notices[0].message == ("1 of 2 documents had no text, never retrieved: 'd'.")


@pytest.mark.parametrize("text", ["?", "가", "😀", "\u200b!"])
def test_any_visible_character_makes_a_text(text) -> None:
    assert from_records({"d": text}, {"q": text}, {"q": {"d": 1}}).is_empty.tolist() == [False]


def test_queries_without_text_are_an_error_that_lists_them() -> None:
    queries = {"q1": "x", "q2": " ", "q3": {"text": None}}

    with pytest.raises(InputError, match="2 of 3 queries had no text: 'q2', 'q3'"):
        from_records({"d": "a"}, queries, {q: {"d": 1} for q in queries})


def test_a_query_with_digits_is_an_ordinary_query() -> None:
    evalset = from_records({"d": "a"}, {"q": "iphone x 64 gb"}, {"q": {"d": 1}})

    assert evalset.query_texts == ("iphone x 64 gb",)


def test_documents_above_100_000_characters_are_named() -> None:
    documents = {"long": "x" * 100_001, "limit": "x" * 100_000}

    evalset = from_records(documents, {"q": "x"}, {"q": {"long": 1}})

    assert [notice.message for notice in evalset.notices] == [
        "1 of 2 documents had more than 100,000 characters: 'long'."
    ]


@pytest.mark.parametrize("grade", [1, 1.0, np.int64(1), np.float32(1)])
def test_whole_numbers_of_any_type_are_grades(grade) -> None:
    evalset = from_records({"d": "a"}, {"q": "x"}, {"q": {"d": grade}})

    assert evalset.qrels.grades.tolist() == [1]


@pytest.mark.parametrize("grade", [0.5, True, None, float("nan"), float("inf"), 31, -31, "yes"])
def test_anything_else_is_no_grade(grade) -> None:
    with pytest.raises(InputError, match=r"qrels, entry 1: grade .* is not a whole number"):
        from_records({"d": "a"}, {"q": "x"}, {"q": {"d": grade}})


def test_negative_grades_are_judged_but_not_relevant() -> None:
    evalset = from_records({"d": "a", "e": "b"}, {"q": "x"}, {"q": {"d": -1, "e": 1}})

    assert evalset.qrels.grades.tolist() == [-1, 1]
    assert evalset.notices[0].message == (
        "1 of 2 judgements had a negative grade: judged, not relevant, gain 0."
    )


def test_queries_without_a_relevant_document_are_an_error_by_default() -> None:
    """q2 is judged with grade 0 only, q3 not at all."""
    queries = {"q1": "x", "q2": "y", "q3": "z"}

    with pytest.raises(InputError, match=r"2 of 3 queries had no relevant .*: 'q2', 'q3'"):
        from_records({"d": "a"}, queries, {"q1": {"d": 1}, "q2": {"d": 0}})


def test_queries_without_a_relevant_document_are_kept_and_counted_on_request() -> None:
    queries = {"q1": "x", "q2": "y", "q3": "z"}
    qrels = {"q1": {"d": 1}, "q2": {"d": 0}}

    evalset = from_records({"d": "a"}, queries, qrels, no_positive="exclude")

    assert evalset.is_evaluated.tolist() == [True, False, False]
    assert evalset.qrels.offsets.tolist() == [0, 1, 2, 2]
    assert evalset.notices[0].message == (
        "2 of 3 queries had no relevant document, left out of the means: 'q2', 'q3'."
    )


def test_a_set_in_which_no_query_has_a_relevant_document_is_always_an_error() -> None:
    with pytest.raises(InputError, match="no query has a relevant document"):
        from_records({"d": "a"}, {"q": "x"}, {"q": {"d": 0}}, no_positive="exclude")


@pytest.mark.parametrize(
    ("documents", "queries", "qrels", "problem"),
    [
        ({}, {"q": "x"}, {"q": {"d": 1}}, "documents: holds no document"),
        ({"d": "a"}, {}, {"q": {"d": 1}}, "queries: holds no query"),
        ({"d": "a"}, {"q": "x"}, {}, "qrels: holds no judgement"),
        ({"d": "a"}, {"q": "x"}, {"q": {}}, "qrels: holds no judgement"),
    ],
)
def test_an_empty_part_is_an_error(documents, queries, qrels, problem) -> None:
    with pytest.raises(InputError, match=problem):
        from_records(documents, queries, qrels)


def test_unknown_queries_are_an_error_with_their_number_and_the_first_five() -> None:
    qrels = {"q": {"d": 1}} | {f"x{number}": {"d": 1} for number in range(7)}

    with pytest.raises(InputError) as caught:
        from_records({"d": "a"}, {"q": "x"}, qrels)

    assert str(caught.value) == (
        "qrels, entry 2: the qrels name queries that do not exist (7 in all): "
        "'x0', 'x1', 'x2', 'x3', 'x4', …"
    )


def test_unknown_documents_are_an_error_with_their_number() -> None:
    """Of d, e, f and g only g is unknown: no reason to suspect another chunking."""
    documents = {"d": "a", "e": "b", "f": "c"}

    with pytest.raises(InputError) as caught:
        from_records(documents, {"q": "x"}, {"q": {"d": 1, "e": 1, "f": 1, "g": 1}})

    assert str(caught.value) == (
        "qrels, entry 4: 1 of 4 documents in the qrels cannot be found in the corpus: 'g'"
    )
    assert "--allow-missing-docs" in caught.value.hint


def test_mostly_unknown_documents_look_like_another_chunking() -> None:
    with pytest.raises(InputError, match=r"2 of 3 .*made for a different chunking"):
        from_records({"d": "a"}, {"q": "x"}, {"q": {"d": 1, "e": 1, "f": 1}})


def test_judgements_of_unknown_documents_are_dropped_and_counted_on_request() -> None:
    """Three rows name e and f; q2 loses its only row and is excluded."""
    qrels = {"q1": {"d": 1, "e": 1}, "q2": {"e": 1, "f": 1}}

    evalset = from_records(
        {"d": "a"}, {"q1": "x", "q2": "y"}, qrels, allow_missing_docs=True, no_positive="exclude"
    )

    assert evalset.qrels.offsets.tolist() == [0, 1, 1]
    assert evalset.missing_documents == ("e", "f")
    assert codes(evalset) == ["missing_documents", "excluded_queries"]
    assert "their rows were dropped (3 in all)" in evalset.notices[0].message


def test_further_fields_are_metadata_and_the_metadata_object_stands_beside_them() -> None:
    documents = {"d": {"text": "a", "lang": "ko", "metadata": {"url": "x"}}}

    evalset = from_records(documents, {"q": {"text": "x", "level": 2}}, {"q": {"d": 1}})

    assert evalset.document_metadata == ({"lang": "ko", "url": "x"},)
    assert evalset.query_metadata == ({"level": 2},)


def test_a_field_given_twice_is_an_error() -> None:
    documents = {"d": {"text": "a", "lang": "ko", "metadata": {"lang": "en"}}}

    with pytest.raises(InputError, match=r"'lang' stand both in \"metadata\" and beside it"):
        from_records(documents, {"q": "x"}, {"q": {"d": 1}})


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\udc00"])
def test_metadata_that_json_cannot_hold_is_an_error(value) -> None:
    with pytest.raises(InputError, match="metadata"):
        from_records({"d": {"text": "a", "extra": value}}, {"q": "x"}, {"q": {"d": 1}})


def test_check_counts_what_a_set_holds() -> None:
    documents = {
        "a": "Same text",
        "b": "Same text",
        "c": {"text": "same-TEXT!", "lang": "en"},
        "d": "",
        "e": "",
        "f": "other",
    }
    queries = {"q1": "hello", "q2": "hello", "q3": "bye"}
    qrels = {"q1": {"a": 1, "b": 2}, "q2": {"a": 1}, "q3": {"f": 0}}

    found = check(from_records(documents, queries, qrels, no_positive="exclude"))

    assert (found.n_documents, found.n_queries, found.n_evaluated, found.n_judgements) == (
        6,
        3,
        2,
        4,
    )
    assert found.n_unjudged_documents == 3  # c, d, e
    assert found.grades == {0: 1, 1: 2, 2: 1}
    assert found.relevant_per_query == {0: 1, 1: 1, 2: 1}
    assert found.median_relevant == 1.5  # of 2 and 1; q3 has none
    assert found.duplicate_documents == (("a", "b"),)
    assert found.near_duplicates == (("a", "b", "c"),)
    assert found.duplicate_queries == (("q1", "q2"),)
    assert found.empty_documents == ("d", "e")
    assert found.document_metadata == {"lang": 1}
    # lengths 5 5 3; position of the 95th percentile: 0.95 * 2 = 1.9, between 5 and 5
    assert found.query_lengths == Lengths(minimum=3, median=5.0, p95=5.0, maximum=5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A b-C_d 9!", "abcd9"),
        ("Straße", "strasse"),
        ("ＡＢＣ１", "abc1"),  # full width
        ("한국어, 텍스트", "한국어텍스트"),
        ("कि", "कि"),  # the vowel sign stays
        ("?!", ""),
        ("¿…", ""),
    ],
)
def test_normalized_text_keeps_letters_digits_and_marks(text: str, expected: str) -> None:
    assert normalized_text(text) == expected


def test_texts_of_punctuation_alone_are_not_near_duplicates() -> None:
    found = check(from_records({"a": "?", "b": "!"}, {"q": "x"}, {"q": {"a": 1}}))

    assert found.near_duplicates == ()


def test_a_saved_set_loads_the_same(tmp_path) -> None:
    documents = {
        "d1": {"title": "T", "text": "line\nbreak \u2028 and \t tab", "metadata": {"_id": 5}},
        "한": "한국어",
        "empty": "",
    }
    evalset = from_records(
        documents, {"q 1": {"text": "x\r", "n": [1.5]}}, {"q 1": {"한": -1, "d1": 3}}
    )

    save(evalset, tmp_path / "new" / "set")

    loaded = load(tmp_path / "new" / "set")
    assert loaded.digest == evalset.digest
    assert loaded.query_texts == evalset.query_texts
    assert loaded.document_metadata == evalset.document_metadata
    assert loaded.query_metadata == evalset.query_metadata
    assert loaded.qrels.grades.tolist() == evalset.qrels.grades.tolist()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["set"]


def test_save_fills_an_empty_folder_but_never_overwrites(tmp_path) -> None:
    evalset = from_records(DOCUMENTS, QUERIES, QRELS)
    folder = tmp_path / "set"
    folder.mkdir()

    save(evalset, folder)

    with pytest.raises(InputError, match="already exists"):
        save(evalset, folder)


def test_save_leaves_nothing_behind_when_it_cannot_write(tmp_path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="cannot be written"):
        save(from_records(DOCUMENTS, QUERIES, QRELS), tmp_path / "file" / "set")

    assert [path.name for path in tmp_path.iterdir()] == ["file"]
