"""The A/B core on rankings made by hand, and what must hold for any rankings."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab import result_json
from embed_ab.comparison import compare_runs, telling_queries
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset, from_records
from embed_ab.origin import Origin, System
from embed_ab.result import Comparison
from embed_ab.runs import Run
from embed_ab.settings import resolve

DOCUMENTS = {f"d{i}": f"text number {i}" for i in range(6)}
QUERIES = {"q1": "first", "q2": "second", "q3": "third"}
QRELS = {"q1": {"d0": 2, "d1": 1}, "q2": {"d2": 1}, "q3": {"d3": 0}}


def evalset(qrels: dict[str, dict[str, int]] = QRELS) -> Evalset:
    return from_records(DOCUMENTS, QUERIES, qrels, no_positive="exclude")


def system(rows: list[list[int]], name: str = "st:x") -> System:
    documents = np.array(rows, dtype=np.int32)
    scores = np.broadcast_to(-np.arange(documents.shape[1], dtype=np.float64), documents.shape)
    return System(
        run=Run(name=name, documents=documents, scores=np.where(documents < 0, -np.inf, scores)),
        origin=Origin(system=name),
    )


A = system([[0, 1, 2, 3, 4], [1, 2, 0, 3, 4], [0, 1, 2, 3, 4]])
B = system([[1, 0, 2, 3, 4], [2, 1, 0, 3, 4], [0, 1, 2, 3, 4]])


def compared(a: System = A, b: System = B, bm25: System | None = None, **flags: Any) -> Comparison:
    options = resolve({"k": 4, "min-queries": 1, "resamples": 500} | flags, config=None).options()
    return compare_runs(evalset(), a, b, bm25, options)


def test_values_of_a_small_set_by_hand() -> None:
    comparison = compared()
    rows = {row.query: row for row in comparison.queries}

    # q1: gains 3 and 1; A is ideal, B swaps: (1 + 3/log2(3)) / (3 + 1/log2(3)) = 0.796708
    assert rows["q1"].a["ndcg@4"] == 1.0
    assert rows["q1"].b["ndcg@4"] == pytest.approx(0.796708, abs=1e-6)
    # q2: A has it at rank 2, 1/log2(3) = 0.630930; B at rank 1
    assert rows["q2"].a["ndcg@4"] == pytest.approx(0.630930, abs=1e-6)
    assert rows["q2"].b["ndcg@4"] == 1.0
    primary = comparison.differences[0]
    assert (primary.metric, primary.wins, primary.losses, primary.ties) == ("ndcg@4", 1, 1, 0)
    assert primary.difference == pytest.approx((0.796708 - 1 + 1 - 0.630930) / 2, abs=1e-6)


def test_a_query_without_a_relevant_document_is_null_and_counted() -> None:
    comparison = compared()
    excluded = comparison.queries[2]

    assert (excluded.query, excluded.n_relevant) == ("q3", 0)
    assert set(excluded.a.values()) == {None}
    assert (comparison.evalset.n_evaluated, comparison.evalset.n_excluded) == (2, 1)
    assert comparison.systems[0].n_queries["ndcg@4"] == 2


def test_the_primary_metric_is_the_first_gates() -> None:
    assert compared().primary == "ndcg@4"
    assert compared(gate="recall@2:0.1, mrr:0.1").primary == "recall@2"


def test_a_gate_on_a_metric_that_is_not_shown_is_computed() -> None:
    comparison = compared(gate="map@3:0.1", metrics="hit")

    assert comparison.metrics == ("hit@4",)
    assert [verdict.metric for verdict in comparison.gates] == ["map@3"]
    assert "map@3" in comparison.queries[0].a


def test_without_a_gate_the_outcome_is_pass_and_the_finding_is_by_the_interval() -> None:
    worse = system([[4, 3, 5, 2, 1]] * 3)

    assert compared(b=worse).outcome == "pass"
    assert compared(b=worse).finding == "worse"
    assert compared(a=worse, b=A).finding == "better"
    assert compared(b=A).finding == "no difference shown"


def test_too_few_queries_give_no_verdict_whatever_the_interval_says() -> None:
    worse = compared(b=system([[4, 3, 5, 2, 1]] * 3), **{"min-queries": 3})

    assert worse.differences[0].high < 0
    assert worse.finding == "no difference shown"
    assert "2 queries are fewer than the 3 a verdict needs" in worse.verdict


def test_a_against_itself_is_all_ties() -> None:
    comparison = compared(b=A)

    for difference in comparison.differences:
        assert (difference.difference, difference.low, difference.high) == (0, 0, 0)
        assert (difference.wins, difference.losses) == (0, 0)
        assert difference.p_value == 1.0
    assert (comparison.overlap.jaccard, comparison.overlap.rbo) == (1.0, pytest.approx(1.0))
    assert all(detail.a == detail.b for detail in comparison.details)


def test_detail_holds_the_lists_of_queries_that_changed() -> None:
    detail = {item.query: item for item in compared().details}

    assert list(detail) == ["q1", "q2", "q3"]  # the loss, the win, then the excluded one
    assert [hit.document for hit in detail["q1"].b] == ["d1", "d0", "d2", "d3"]
    assert [hit.grade for hit in detail["q1"].b] == [1, 2, None, None]
    assert [(hit.document, hit.grade) for hit in detail["q1"].relevant] == [("d0", 2), ("d1", 1)]


def test_telling_queries_come_worst_first_then_best_then_others() -> None:
    difference = np.array([0.1, -0.3, np.nan, 0.0, -0.3, 0.5])
    jaccard = np.zeros(6)

    assert telling_queries(difference, jaccard, 0) == []
    assert telling_queries(difference, jaccard, 2) == [1, 4, 5, 0]
    # Two losses and two wins leave room for two of 6: the tie, then the excluded one.
    assert telling_queries(difference, jaccard, 3) == [1, 4, 5, 0, 3, 2]
    # One win leaves room for the third loss.
    assert telling_queries(np.array([-0.1, -0.2, -0.3, 0.5]), jaccard[:4], 2) == [2, 1, 3, 0]


def test_of_ties_the_lists_that_differ_most_come_first() -> None:
    """Differences below a billionth are noise of float32 scores, and order nothing."""
    difference = np.array([1e-12, 0.0, -1e-12])

    assert telling_queries(difference, np.array([0.9, 0.2, 0.5]), 2) == [1, 2, 0]


def test_a_row_has_the_rank_of_the_first_relevant_document_and_what_is_unjudged_above() -> None:
    """Of q1 d0 and d1 are relevant, of q2 d2; of q3 d3 is judged and not relevant. k is 4."""
    a = system([[3, 0, 1, 2, 4], [4, 3, 0, 1, 2], [0, 1, 2, 3, 4]])
    rows = compared(a=a).queries

    assert [(row.rank_a, row.unjudged_a) for row in rows] == [(2, 1), (5, 4), (None, 3)]
    assert [(row.rank_b, row.unjudged_b) for row in rows] == [(1, 0), (1, 0), (None, 3)]


def test_a_row_names_the_systems_that_cut_a_relevant_document() -> None:
    """A cut d1, which q1 needs; B cut d2, which q2 needs, and d3, which nobody needs."""
    a = replace(A, is_cut=np.array([False, True, False, False, False, False]))
    b = replace(B, is_cut=np.array([False, False, True, True, False, False]))

    assert [row.truncated for row in compared(a=a, b=b).queries] == [("A",), ("B",), ()]


def test_a_hit_has_its_rank_in_bm25() -> None:
    bm25 = system([[4, 2, -1], [0, 1, -1], [-1, -1, -1]])
    detail = compared(bm25=bm25).details[0]

    assert [(hit.document, hit.rank_bm25) for hit in detail.a] == [
        ("d0", None),
        ("d1", None),
        ("d2", 2),
        ("d3", None),
    ]
    assert [document.rank_bm25 for document in detail.relevant] == [None, None]
    assert {hit.rank_bm25 for hit in compared().details[0].a} == {None}


def test_a_hit_that_says_the_same_as_a_relevant_document_is_its_twin() -> None:
    """d1 differs from d0 in case and marks; d2 is relevant itself, and nobody's twin."""
    documents = {"d0": "Reset the pump.", "d1": "reset, the PUMP", "d2": "Reset the pump!"}
    loaded = from_records(documents, {"q1": "pump"}, {"q1": {"d0": 1, "d2": 1}})
    options = resolve({"k": 3}, config=None).options()

    detail = compare_runs(loaded, system([[1, 0, 2]]), system([[2, 1, 0]]), None, options).details[
        0
    ]

    assert [(hit.document, hit.twin_of) for hit in detail.a] == [
        ("d1", "d0"),
        ("d0", ""),
        ("d2", ""),
    ]


def test_clusters_by_gold_and_by_field() -> None:
    documents = {"d1": "one", "d2": "two"}
    queries = {f"q{i}": {"text": f"question {i}", "style": "ab"[i % 2]} for i in range(4)}
    qrels = {f"q{i}": {"d1" if i < 2 else "d2": 1} for i in range(4)}
    loaded = from_records(documents, queries, qrels)
    ranked = system([[0, 1]] * 4)

    def clusters(by: str) -> list[int | None]:
        options = resolve({"k": 1, "cluster-by": by}, config=None).options()
        return [row.cluster for row in compare_runs(loaded, ranked, ranked, None, options).queries]

    assert clusters("gold") == [0, 0, 1, 1]
    assert clusters("style") == [0, 1, 0, 1]
    assert clusters("none") == [None] * 4
    with pytest.raises(InputError, match="no query has a field 'topic'"):
        clusters("topic")


def test_a_query_without_the_field_is_a_group_of_its_own_and_types_differ() -> None:
    queries = {
        "q0": {"text": "a", "topic": 1},
        "q1": {"text": "b", "topic": "1"},
        "q2": {"text": "c", "topic": None},
        "q3": {"text": "d"},
        "q4": {"text": "e", "topic": 1},
        "q5": {"text": "f", "topic": {"a": 1, "b": 2}},
        "q6": {"text": "g", "topic": {"b": 2, "a": 1}},
    }
    loaded = from_records({"d1": "one"}, queries, {query: {"d1": 1} for query in queries})
    options = resolve({"k": 1, "cluster-by": "topic"}, config=None).options()

    rows = compare_runs(loaded, system([[0]] * 7), system([[0]] * 7), None, options).queries

    assert len({row.cluster for row in rows}) == 5
    assert rows[0].cluster == rows[4].cluster
    assert rows[5].cluster == rows[6].cluster


def test_one_group_of_all_queries_is_an_input_error() -> None:
    """A single group has no interval: it must not look like certainty."""
    queries = {f"q{i}": {"text": f"question {i}", "lang": "en"} for i in range(4)}
    loaded = from_records({"d1": "one"}, queries, {query: {"d1": 1} for query in queries})
    options = resolve({"cluster-by": "lang"}, config=None).options()

    with pytest.raises(InputError, match="puts all evaluated queries into one group"):
        compare_runs(loaded, system([[0]] * 4), system([[0]] * 4), None, options)


def test_a_query_below_min_grade_is_excluded_from_every_metric() -> None:
    """q2 has a document of grade 1 only."""
    comparison = compared(**{"min-grade": 2})

    assert comparison.evalset.n_evaluated == 1
    assert set(comparison.systems[0].n_queries.values()) == {1}
    assert set(comparison.queries[1].a.values()) == {None}
    assert comparison.min_grade == 2


def test_a_long_list_shows_its_first_twenty_documents() -> None:
    documents = {f"d{i:02}": f"text {i}" for i in range(40)}
    loaded = from_records(documents, {"q1": "x"}, {"q1": {"d39": 1}})
    forwards, backwards = system([list(range(40))]), system([list(range(39, -1, -1))])
    options = resolve({"k": 40}, config=None).options()

    detail = compare_runs(loaded, forwards, backwards, None, options).details[0]

    assert len(detail.a) == len(detail.b) == 20
    # d39 is A's fortieth and B's first: the ranks go deeper than the lists.
    assert [(r.document, r.rank_a, r.rank_b) for r in detail.relevant] == [("d39", 40, 1)]


@pytest.mark.parametrize(
    ("interval", "words"),
    [("expanded", "expanded percentiles"), ("percentile", "percentiles"), ("bca", "BCa")],
)
def test_the_conventions_name_the_interval(interval: str, words: str) -> None:
    shown = compared(interval=interval).conventions["interval"]

    assert shown == f"95 % paired bootstrap, {words}"


def test_a_min_grade_that_no_document_has_is_an_input_error() -> None:
    with pytest.raises(InputError, match="no query has a document of grade 3 or more"):
        compared(**{"min-grade": 3, "metrics": "recall"})


def test_json_comes_back_equal_and_is_the_same_bytes_again(tmp_path: Path) -> None:
    comparison = compared(bm25=system([[-1] * 5] * 3, "bm25:auto"), gate="ndcg:0.1")
    path = tmp_path / "result.json"
    path.write_text(result_json.dumps(comparison), encoding="utf-8")

    assert result_json.load(path) == comparison
    assert result_json.dumps(
        compared(bm25=system([[-1] * 5] * 3, "bm25:auto"), gate="ndcg:0.1")
    ) == path.read_text("utf-8")


def test_json_validates_against_the_packaged_schema() -> None:
    schema = json.loads((resources.files("embed_ab") / "result.schema.json").read_text("utf-8"))

    jsonschema.validate(json.loads(result_json.dumps(compared(gate="hit:0.1"))), schema)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: not JSON"),
        ("[]", "schema_version is None"),
        ('{"schema_version": 2}', "schema_version is 2"),
        ('{"schema_version": 1}', "version: Field required"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_result_is_an_input_error(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match=message):
        result_json.load(path)


rankings = st.lists(st.permutations(range(6)), min_size=3, max_size=3)


@settings(max_examples=30, deadline=None)
@given(rankings, rankings)
def test_swapping_a_and_b_mirrors_everything(a: list[list[int]], b: list[list[int]]) -> None:
    there, back = compared(system(a), system(b)), compared(system(b), system(a))

    for one, other in zip(there.differences, back.differences, strict=True):
        assert one.difference == pytest.approx(-other.difference, abs=1e-12)
        assert one.low == pytest.approx(-other.high, abs=1e-12)
        assert one.high == pytest.approx(-other.low, abs=1e-12)
        assert (one.wins, one.losses, one.ties) == (other.losses, other.wins, other.ties)
        assert one.p_value == other.p_value
    assert there.overlap == back.overlap


@settings(max_examples=20, deadline=None)
@given(rankings, st.permutations(sorted(DOCUMENTS)), st.permutations(sorted(QUERIES)))
def test_the_order_of_documents_and_queries_in_the_files_changes_nothing(
    b: list[list[int]], documents: list[str], queries: list[str]
) -> None:
    shuffled = from_records(
        {key: DOCUMENTS[key] for key in documents},
        {key: QUERIES[key] for key in queries},
        {key: QRELS[key] for key in queries},
        no_positive="exclude",
    )
    options = resolve({"k": 4, "resamples": 500}, config=None).options()

    same = compare_runs(shuffled, A, system(b), None, options)

    expected = compare_runs(evalset(), A, system(b), None, options)
    assert result_json.dumps(same) == result_json.dumps(expected)


def test_a_comparison_shows_itself_in_a_notebook() -> None:
    shown = replace(compared(), verdict="<b>bold</b>")._repr_html_()

    assert shown.startswith("<iframe")
    assert "<b>bold" not in shown
