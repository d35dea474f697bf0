"""The fixture of ours by hand, the faults a fixture can have, and how differences are told.

Ours (`rerank/fixture.json`), k = 3; L = log2(3) = 1.584963, discounts 1, 1/L, 1/2:

- p: cosines a 1, d 0.8, b 0.6, c 0, e −1, so the candidates are a, d, b. Relevant are b (2) and c
  (1), recall 1/2, ideal 3 + 1/L = 3.630930. Before: b third, 3/2 = 1.5, nDCG 0.413117. The scores
  of b and d tie, so b goes first: 3, nDCG 0.826235.
- u: b 0.96, a 0.8, c 0.6. Relevant is b (1), recall 1, ideal 1. Before: 1. After a, c, b: 1/2.
- r: c 1, b 0.8, then a and e both 0: a by its id. Relevant are e (3) and a (1); c has −1, which
  gains nothing. Recall 1/2, ideal 7 + 1/L = 7.630930. Before: a third, 1/2, nDCG 0.065523. After
  b, a, c: 1/L = 0.630930, nDCG 0.082681.
- s: no judgement, so it is excluded: null everywhere.
- Means of three: recall 2/3, before 0.492880, after 0.469638, difference −0.023242.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from embed_ab.cli import main
from embed_ab.errors import InputError
from embed_ab.rerank_fixture import differences, evaluate, read

FOLDER = Path(__file__).parent / "rerank"


def test_the_fixture_gives_what_was_computed_by_hand() -> None:
    found = evaluate(read(FOLDER / "fixture.json"))

    assert {name: value for name, value in found.items() if name != "perQuery"} == {
        "evaluatedQueries": 3,
        "excludedNoPositiveQueries": 1,
        "candidateRecall": 0.666667,
        "baselineNdcg": 0.49288,
        "challengerNdcg": 0.469638,
        "pairedNdcgDelta": -0.023242,
    }
    assert found["perQuery"][0] == {
        "query": "p",
        "cosine": {"b": 0.6, "a": 1.0, "e": -1.0, "c": 0.0, "d": 0.8},
        "candidates": ["a", "d", "b"],
        "rerankedOrder": ["b", "d", "a"],
        "positives": ["b", "c"],
        "candidateRecall": 0.5,
        "idcg": 3.63093,
        "baselineDcg": 1.5,
        "challengerDcg": 3.0,
        "baselineNdcg": 0.413117,
        "challengerNdcg": 0.826235,
        "ndcgDelta": 0.413117,  # 0.8262346 − 0.4131173, rounded only at the end
    }
    assert [row["candidates"] for row in found["perQuery"][1:]] == [
        ["b", "a", "c"],
        ["c", "b", "a"],
        ["e", "c", "b"],
    ]
    assert [row["ndcgDelta"] for row in found["perQuery"][1:]] == [-0.5, 0.017158, None]


def test_the_command_prints_the_names_of_the_expected_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = (FOLDER / "expected.json").read_text("utf-8")

    assert main(["rerank", "--fixture", str(FOLDER / "fixture.json")]) == 0
    assert capsys.readouterr().out == expected


def test_what_is_expected_and_found_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(FOLDER / "fixture.json"), "--expect", str(FOLDER / "expected.json")]

    assert main(["rerank", "--fixture", *arguments]) == 0
    assert capsys.readouterr().err == ""


def test_any_difference_ends_with_1_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))
    expected["candidateRecall"] = 0.666666
    expected["perQuery"][2]["rerankedOrder"].reverse()
    path = tmp_path / "expected.json"
    path.write_text(json.dumps(expected))

    assert main(["rerank", "--fixture", str(FOLDER / "fixture.json"), "--expect", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == (FOLDER / "expected.json").read_text("utf-8")
    assert said.err.splitlines() == [
        "difference: candidateRecall: 0.666667, expected 0.666666",
        "difference: perQuery[2].rerankedOrder[0]: 'b', expected 'c'",
        "difference: perQuery[2].rerankedOrder[2]: 'c', expected 'b'",
    ]


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["a: 1, expected True"]),
        ({"a": 1}, {"b": 1}, ["b: expected, and not there", "a: there, and not expected"]),
        ({"a": None}, {"a": 0}, ["a: None, expected 0"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a: [1, 2], expected [1]"]),
        ([], {}, ["the result: [], expected {}"]),
    ],
)
def test_differences_are_found(found: Any, expected: Any, said: list[str]) -> None:
    assert list(differences(found, expected)) == said


SOUND: dict[str, Any] = {
    "k": 1,
    "corpus": [{"id": "d1", "vector": [1, 0]}, {"id": "d2", "vector": [0, 1]}],
    "queries": [{"id": "q1", "vector": [1, 2]}],
    "qrels": {"q1": {"d2": 1}},
    "rerankerScores": {"q1": {"d2": 0.5}},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 0}, "k: Input should be greater than or equal to 1"),
        ({"k": True}, "k: Input should be a valid integer"),
        ({"K": 1}, "K: Extra inputs are not permitted"),
        ({"corpus": []}, "corpus: List should have at least 1 item"),
        ({"queries": [{"id": "q1"}]}, "queries[0].vector: Field required"),
        ({"queries": [{"id": "q1", "vector": [1, "2"]}]}, "queries[0].vector[1]: Input should"),
        ({"queries": [{"id": "q1", "vector": [1]}]}, "queries[0] ('q1') has 1 dimensions"),
        ({"queries": [{"id": "q1", "vector": [0, 0]}]}, "queries[0] ('q1') is all zero"),
        ({"queries": 2 * SOUND["queries"]}, "queries[1]: the id 'q1' is given twice"),
        ({"qrels": {"q2": {}}}, "qrels: there is no query 'q2'"),
        ({"qrels": {"q1": {"d3": 1}}}, "qrels, query 'q1': there is no document 'd3'"),
        ({"qrels": {"q1": {"d2": 31}}}, "qrels.q1.d2: Input should be less than or equal to 30"),
        ({"rerankerScores": {"q1": {"d3": 1}}}, "rerankerScores, query 'q1': there is no document"),
        (
            {"rerankerScores": {"q1": {"d1": 1}}},
            "rerankerScores: query 'q1' has no score for its candidate 'd2'",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(json.dumps(SOUND | change))

    with pytest.raises(InputError, match=re.escape(f"{path}: {said}")):
        evaluate(read(path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"k": 1,\n "k": 1}', ": not usable JSON: key 'k' appears twice"),
        (b'{"k": 1,\n  NaN}', ":2: not JSON: "),
        (b'{"k": NaN}', ": not usable JSON: NaN is not a finite number"),
        (b'{"k": "\xff"}', ": byte 7 is not UTF-8"),
        (b"[" * 100_000, ": not usable JSON"),
        (b"[]", ": the file: Input should be a valid dictionary"),
    ],
)
def test_a_file_that_is_no_fixture_is_named(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "fixture.json"
    path.write_bytes(content)

    with pytest.raises(InputError, match=re.escape(f"{path}{said}")):
        read(path)


def test_vectors_of_one_direction_tie_whatever_their_length(tmp_path: Path) -> None:
    """(1, 2) and (3, 6) have one cosine with (1, 1), so that the id decides."""
    path = tmp_path / "fixture.json"
    corpus = [{"id": "y", "vector": [1, 2]}, {"id": "x", "vector": [3, 6]}]
    scores = {"q1": {"x": 0, "y": 0}}
    queries = [{"id": "q1", "vector": [1e300, 1e300]}]
    qrels = {"q1": {"y": 1}}
    fixture = {"k": 1, "corpus": corpus, "queries": queries, "qrels": qrels}
    path.write_text(json.dumps(fixture | {"rerankerScores": scores}))

    (row,) = evaluate(read(path))["perQuery"]

    assert row["candidates"] == ["x"]
    assert row["cosine"] == {"y": 0.948683, "x": 0.948683}  # 3 / (sqrt 2 · sqrt 5)


def first_of(
    folder: Path, query: list[float], corpus: dict[str, list[float]]
) -> tuple[list[str], dict[str, float]]:
    """The one candidate of a query, and the cosines."""
    path = folder / "fixture.json"
    fixture = SOUND | {
        "corpus": [{"id": name, "vector": vector} for name, vector in corpus.items()],
        "queries": [{"id": "q1", "vector": query}],
        "qrels": {},
        "rerankerScores": {"q1": dict.fromkeys(corpus, 0)},
    }
    path.write_text(json.dumps(fixture))
    (row,) = evaluate(read(path))["perQuery"]
    return row["candidates"], row["cosine"]


def test_what_only_float64_tells_apart_is_told_apart(tmp_path: Path) -> None:
    """The cosine of a is 1 / sqrt(1 + 1e-10) = 1 - 5e-11, which as a float32 is 1."""
    found = first_of(tmp_path, [1, 0], {"a": [1, 1e-5], "b": [1, 0]})

    assert found == (["b"], {"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("first", ["a", "b"])
def test_equal_cosines_tie_that_vectors_in_float32_would_tell_apart(
    first: str, tmp_path: Path
) -> None:
    """(4, 0, 3) and (0, 5, 0) have 10 / (3 * 5) with (1, 2, 2); float32 has no 0.8 and 0.6."""
    vectors = [[4.0, 0, 3], [0, 5.0, 0]]
    corpus = dict(zip("ab" if first == "a" else "ba", vectors, strict=True))

    assert first_of(tmp_path, [1, 2, 2], corpus) == (["a"], {"a": 0.666667, "b": 0.666667})


def test_a_k_beyond_the_corpus_is_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(json.dumps(SOUND | {"k": 9, "rerankerScores": {"q1": {"d1": 1, "d2": 0}}}))

    (row,) = evaluate(read(path))["perQuery"]

    assert (row["candidates"], row["rerankedOrder"]) == (["d2", "d1"], ["d1", "d2"])


def test_a_cosine_just_below_0_is_0_without_a_sign(tmp_path: Path) -> None:
    _, cosines = first_of(tmp_path, [1, 0], {"a": [-1e-9, 1]})

    assert str(cosines["a"]) == "0.0"


def test_a_fixture_without_any_positive_grade_gives_null(tmp_path: Path) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(json.dumps(SOUND | {"qrels": {"q1": {"d2": 0}}}))

    found = evaluate(read(path))

    assert (found["evaluatedQueries"], found["excludedNoPositiveQueries"]) == (0, 1)
    assert found["pairedNdcgDelta"] is None
