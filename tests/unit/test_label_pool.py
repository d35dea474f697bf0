"""Which unjudged documents are listed, and in which order: small sets by hand, any by force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed_ab import metrics
from embed_ab.comparison import compare_runs
from embed_ab.errors import EvalsetError, InputError
from embed_ab.evalset import Evalset, from_records
from embed_ab.labels.pool import Lists, Pair, pool, ranked_lists
from embed_ab.metrics import Metric
from embed_ab.origin import Origin, System
from embed_ab.result import Comparison
from embed_ab.runs import Run, write_trec
from embed_ab.settings import resolve

DOCUMENTS = {f"d{i}": f"text number {i}" for i in range(6)}
QUERIES = {"q1": "first", "q2": "second"}


def evalset(qrels: dict[str, dict[str, int]]) -> Evalset:
    return from_records(DOCUMENTS, QUERIES, qrels, no_positive="exclude")


def lists(*rows: list[int]) -> Lists:
    return np.array(rows, dtype=np.int32)


def pairs(
    found: Evalset, a: Lists, b: Lists, *, metric: str = "mrr@2", min_grade: int = 1, depth: int = 2
) -> list[Pair]:
    return pool(
        found,
        a,
        b,
        metric=Metric.parse(metric),
        gain="exponential",
        min_grade=min_grade,
        depth=depth,
    )


def test_impact_is_the_change_of_the_mean_difference() -> None:
    """Of mrr@2: q1 is 1/2 in A and 1 in B, q2 is 1 in both; the mean difference is 0.25."""
    judged = evalset({"q1": {"d0": 1}, "q2": {"d0": 1}})

    found = pairs(judged, lists([1, 0], [0, 2]), lists([0, 3], [0, 2]))

    # q1 d1: A becomes 1, the difference 0. q1 d3: B is 1 already. q2 d2: both are 1 already.
    assert [(p.query, p.document, round(p.impact, 9)) for p in found] == [
        (0, 1, 0.25),
        (0, 3, 0),
        (1, 2, 0),
    ]
    assert [(p.rank_a, p.rank_b) for p in found] == [(1, None), (None, 2), (2, 2)]


def test_impact_counts_the_ideal_order_that_a_new_relevant_document_changes() -> None:
    """With d1 relevant too, B's list of q1 is perfect and A's is not."""
    judged = evalset({"q1": {"d0": 1}, "q2": {"d0": 1}})

    first = pairs(judged, lists([0, 2], [0, 2]), lists([1, 0], [0, 2]), metric="ndcg@2")[0]

    # before: (0.630930 - 1) / 2; after: (1 - 1 / 1.630930) / 2
    assert (first.query, first.document) == (0, 1)
    assert first.impact == pytest.approx((1 - 0.613147) / 2 + (1 - 0.630930) / 2, abs=1e-6)


def test_a_query_without_a_relevant_document_would_enter_the_mean() -> None:
    """q2 is excluded; with d3 relevant B has 1 there: the mean goes from 0 to 1/2."""
    judged = evalset({"q1": {"d0": 1}, "q2": {"d0": 0}})

    first = pairs(judged, lists([0, 1], [0, 1]), lists([0, 1], [3, 0]))[0]

    assert (first.query, first.document, first.impact) == (1, 3, 0.5)


def test_a_judged_document_is_not_listed_whatever_its_grade() -> None:
    judged = evalset({"q1": {"d0": 1, "d1": 0, "d2": -1}, "q2": {"d0": 1}})

    found = pairs(judged, lists([0, 1], [0, -1]), lists([2, 3], [0, -1]))

    assert [(p.query, p.document) for p in found] == [(0, 3)]


def test_only_the_first_depth_documents_are_listed_with_their_ranks_below() -> None:
    judged = evalset({"q1": {"d0": 1}, "q2": {"d0": 1}})

    found = pairs(judged, lists([0, 1, 2], [0, -1, -1]), lists([2, 0, 1], [0, -1, -1]), depth=1)

    assert [(p.document, p.rank_a, p.rank_b) for p in found] == [(2, 3, 1)]


def test_a_document_is_tried_as_just_relevant() -> None:
    """With grades from 2 up counted as relevant, a grade of 1 would change nothing."""
    judged = evalset({"q1": {"d0": 2}, "q2": {"d0": 2}})

    first = pairs(judged, lists([1, 0], [0, 1]), lists([0, 1], [0, 1]), min_grade=2)[0]

    assert (first.document, first.impact) == (1, 0.25)


def test_equal_impacts_are_ordered_by_id() -> None:
    judged = evalset({"q1": {"d0": 1}, "q2": {"d0": 1}})

    found = pairs(judged, lists([4, 0], [5, 0]), lists([3, 0], [2, 0]))

    assert len({round(p.impact, 9) for p in found}) == 1
    assert [(p.query, p.document) for p in found] == [(0, 3), (0, 4), (1, 2), (1, 5)]


@st.composite
def collections(draw: st.DrawFn) -> tuple[Evalset, Lists, Lists]:
    grades = st.dictionaries(st.sampled_from(sorted(DOCUMENTS)), st.integers(-1, 3), min_size=1)
    first = {"d0": 2} | draw(grades)
    ranked = [lists(*(draw(st.permutations(range(6)))[:4] for _ in QUERIES)) for _ in ("A", "B")]
    return evalset({"q1": first | {"d0": 2}, "q2": draw(grades)}), ranked[0], ranked[1]


@given(collections(), st.sampled_from(["ndcg@3", "recall@2", "mrr@4", "map@3", "judged@3"]))
def test_impact_is_what_judging_and_comparing_again_would_show(
    collection: tuple[Evalset, Lists, Lists], metric: str
) -> None:
    judged, a, b = collection

    def mean_difference(qrels: metrics.Qrels) -> float:
        values = [
            metrics.evaluate(
                [Metric.parse(metric)],
                Run(name="", documents=ranked, scores=-ranked.astype(np.float64)),
                qrels,
            )[Metric.parse(metric)]
            for ranked in (a, b)
        ]
        return float(np.nanmean(values[1] - values[0]))

    before = mean_difference(judged.qrels)
    for pair in pairs(judged, a, b, metric=metric, depth=4):
        rows = {
            query: {
                judged.document_ids[d]: int(g) for d, g in zip(*judged.qrels.of(row), strict=True)
            }
            for row, query in enumerate(judged.query_ids)
        }
        rows[judged.query_ids[pair.query]][judged.document_ids[pair.document]] = 1

        after = mean_difference(evalset(rows).qrels)
        assert pair.impact == pytest.approx(abs(after - before), abs=1e-9)


A = lists([1, 0, 2], [0, 1, 2])
B = lists([0, 3, 2], [1, 0, 2])


def system(documents: Lists, name: str) -> System:
    scores = np.broadcast_to(-np.arange(documents.shape[1], dtype=np.float64), documents.shape)
    return System(
        run=Run(name=name, documents=documents, scores=scores), origin=Origin(system=name)
    )


@pytest.fixture
def judged() -> Evalset:
    return evalset({"q1": {"d0": 1}, "q2": {"d0": 1}})


@pytest.fixture
def compared(judged: Evalset) -> Comparison:
    flags = {"k": 2, "min-queries": 1, "resamples": 100, "worst-queries": 1}
    options = resolve(flags, config=None).options()
    return compare_runs(judged, system(A, "st:x"), system(B, "st:a b"), None, options)


def test_details_give_the_lists_of_the_detailed_queries(
    judged: Evalset, compared: Comparison
) -> None:
    only_q1 = replace(compared, details=compared.details[-1:])
    assert [detail.query for detail in only_q1.details] == ["q1"]

    a, b = ranked_lists(only_q1, judged, None)

    assert a.tolist() == [[1, 0], [-1, -1]]
    assert b.tolist() == [[0, 3], [-1, -1]]


def test_a_result_without_details_gives_no_pairs(judged: Evalset, compared: Comparison) -> None:
    a, b = ranked_lists(replace(compared, details=()), judged, None)

    assert pairs(judged, a, b) == []


def write_runs(judged: Evalset, folder: Path, names: tuple[str, str]) -> None:
    for label, documents, name in zip("ab", (A, B), names, strict=True):
        run = replace(system(documents, name).run, name=name)
        write_trec(run, judged.query_ids, judged.document_ids, folder / f"{label}.trec")


def test_run_files_give_the_lists_of_all_queries(
    judged: Evalset, compared: Comparison, tmp_path: Path
) -> None:
    write_runs(judged, tmp_path, ("A-st:x", "B-st:a b"))

    a, b = ranked_lists(compared, judged, tmp_path)

    assert a.tolist() == A.tolist()
    assert b.tolist() == B.tolist()


def test_run_files_of_another_comparison_are_refused(
    judged: Evalset, compared: Comparison, tmp_path: Path
) -> None:
    write_runs(judged, tmp_path, ("A-st:x", "B-st:other"))

    with pytest.raises(InputError, match=r"b\.trec: holds the run B-st:other, not B-st:a_b"):
        ranked_lists(compared, judged, tmp_path)


def test_a_folder_without_run_files_is_named(
    judged: Evalset, compared: Comparison, tmp_path: Path
) -> None:
    with pytest.raises(EvalsetError, match=r"a\.trec: cannot be read"):
        ranked_lists(compared, judged, tmp_path)


def test_a_set_with_other_queries_is_refused(compared: Comparison) -> None:
    other = from_records(DOCUMENTS, {"q1": "first"}, {"q1": {"d0": 1}})

    with pytest.raises(InputError, match="other queries than the result"):
        ranked_lists(compared, other, None)


def test_a_set_without_a_document_of_the_result_is_refused(compared: Comparison) -> None:
    fewer = {identifier: DOCUMENTS[identifier] for identifier in ("d0", "d1", "d2")}
    other = from_records(fewer, QUERIES, {"q1": {"d0": 1}, "q2": {"d0": 1}})

    with pytest.raises(InputError, match="no document 'd3'"):
        ranked_lists(compared, other, None)
