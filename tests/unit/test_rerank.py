"""Frozen candidates: the order changes, the sets do not, and the ceiling is what no order beats."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from embed_ab import evalset, metrics
from embed_ab.comparison import compare_runs
from embed_ab.evalset import Evalset
from embed_ab.metrics import Metric
from embed_ab.origin import Origin, System
from embed_ab.rerank import best_values, differing, examine, reorder
from embed_ab.result import Comparison
from embed_ab.runs import Run
from embed_ab.settings import resolve

NAMES = ("ndcg@3", "recall@3", "mrr@3", "hit@3", "map@3", "precision@3", "rcap@3")


def make_run(*lists: list[int]) -> Run:
    documents = np.array(lists, dtype=np.int32)
    scores = np.where(documents < 0, -np.inf, -np.arange(documents.shape[1], dtype=float))
    return Run(name="first stage", documents=documents, scores=scores)


def make_set(*grades: dict[int, int], n_documents: int = 6) -> Evalset:
    """Documents d0, d1, …; queries q0, q1, … with their grades by document."""
    return evalset.from_records(
        {f"d{n}": f"text {n}" for n in range(n_documents)},
        {f"q{n}": f"question {n}" for n in range(len(grades))},
        {f"q{n}": {f"d{d}": g for d, g in of.items()} for n, of in enumerate(grades)},
        no_positive="exclude",
    )


def compared(evalset: Evalset, candidates: Run, scores: NDArray[np.float64]) -> Comparison:
    """B orders the candidates by scores, A leaves them as they are."""
    options = resolve({"k": 3, "resamples": 100, "metrics": ",".join(NAMES)}, config=None).options()
    a, b = (
        System(run=run, origin=Origin(system=run.name), candidates=candidates)
        for run in (candidates, reorder(candidates, scores, name="B"))
    )
    return compare_runs(evalset, a, b, None, options)


def test_scores_decide_and_ties_go_by_document() -> None:
    """Document 4 has the best score; 2 and 5 tie; nothing stays nothing, whatever stands there."""
    candidates = make_run([5, 2, 4, -1], [3, 0, 1, 2])
    scores = np.array([[0.5, 0.5, 0.9, 99.0], [1.0, 1.0, 1.0, 1.0]])

    found = reorder(candidates, scores, name="B")

    assert found.documents.tolist() == [[4, 2, 5, -1], [0, 1, 2, 3]]
    assert found.scores.tolist() == [[0.9, 0.5, 0.5, -np.inf], [1.0, 1.0, 1.0, 1.0]]


def test_queries_whose_documents_differ_are_found() -> None:
    before = make_run([1, 2, 3], [1, 2, 3], [1, 2, -1], [1, 2, -1])
    after = make_run([3, 1, 2], [3, 1, 4], [2, 1, -1], [2, -1, -1])

    assert differing(before, after).tolist() == [1, 3]
    assert differing(before, before.cut(2)).tolist() == [0, 1]


def test_the_ceiling_keeps_the_ideal_of_all_documents() -> None:
    """q0: d0 has 1, d5 has 3 and is no candidate. q1: nothing relevant among the candidates.

    q0 at best 1 / (7 + 1/log2(3)) = 0.131045; the mean over two is 0.065523. A is worse: d0 third,
    half of that. B has it second, 1/log2(3) of it, which is 0.26186 of the way from 1/2 to 1.
    """
    evalset = make_set({0: 1, 5: 3}, {5: 1}, {1: 0})
    candidates = make_run([1, 2, 0], [1, 2, 3], [1, 2, 3])
    scores = np.array([[0.9, 0.0, 0.5], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])

    found = compared(evalset, candidates, scores).candidates

    assert found is not None
    ndcg = found.ceilings[0]
    assert (ndcg.metric, ndcg.ceiling) == ("ndcg@3", pytest.approx(0.065523, abs=1e-6))
    assert ndcg.way == pytest.approx((1 / np.log2(3) - 0.5) / 0.5)
    assert (found.depth, found.recall, found.out_of_reach) == (3, 0.25, ("q1",))  # (1/2 + 0) / 2


def test_at_the_ceiling_there_is_no_way_to_go() -> None:
    found = compared(make_set({1: 1}, {1: 2}), make_run([1, 2], [1, 2]), np.array([[1, 2], [2, 1]]))

    assert found.candidates is not None
    assert [c.way for c in found.candidates.ceilings if c.metric == "ndcg@3"] == [None]


def test_where_a_orders_other_documents_there_is_no_way_either() -> None:
    evalset, candidates = make_set({2: 1}), make_run([1, 2, 3])
    comparison = compared(evalset, candidates, np.array([[1.0, 2.0, 3.0]]))

    found = examine(
        evalset,
        candidates,
        make_run([1, 2, 4]),
        comparison.differences,
        is_a_frozen=False,
        gain="exponential",
        min_grade=1,
    )

    assert not found.same_for_a
    assert {ceiling.way for ceiling in found.ceilings} == {None}


@pytest.mark.parametrize(("is_a_frozen", "is_alike"), [(False, True), (True, False)])
def test_where_a_has_more_documents_no_way_is_told(is_a_frozen: bool, is_alike: bool) -> None:
    """B orders two candidates. A has d2 at rank 3, which B never had: recall@3 is 1 against 0."""
    evalset, candidates = make_set({2: 1}), make_run([0, 1])
    a = make_run([0, 1, 2])
    comparison = compared(evalset, candidates, np.array([[1.0, 2.0]]))
    metrics_at_3 = [d for d in comparison.differences if d.metric.endswith("@3")]

    found = examine(
        evalset,
        candidates,
        a,
        metrics_at_3,
        is_a_frozen=is_a_frozen,
        gain="exponential",
        min_grade=1,
    )

    assert found.same_for_a is is_alike
    assert metrics_at_3
    assert {ceiling.way for ceiling in found.ceilings} == {None}


def test_a_system_that_searched_everything_has_no_candidates() -> None:
    run = make_run([1, 2, 3])
    system = System(run=run, origin=Origin(system="x"))
    options = resolve({"k": 3, "resamples": 100}, config=None).options()

    assert compare_runs(make_set({1: 1}), system, system, None, options).candidates is None


N_DOCUMENTS = 6


@st.composite
def stages(draw: st.DrawFn) -> tuple[Evalset, Run, NDArray[np.float64]]:
    """A small set, candidates of each query, of different number, and scores of them."""
    n_queries = draw(st.integers(1, 4))
    depth = draw(st.integers(1, 5))
    grades = st.dictionaries(st.integers(0, N_DOCUMENTS - 1), st.integers(-1, 3), max_size=5)
    judged: list[dict[int, int]] = draw(st.lists(grades, min_size=n_queries, max_size=n_queries))
    judged[0] = {**judged[0], draw(st.integers(0, N_DOCUMENTS - 1)): 1}
    rows = []
    for _ in range(n_queries):
        found = draw(st.permutations(range(N_DOCUMENTS)))[: draw(st.integers(1, depth))]
        rows.append([*found, *[-1] * (depth - len(found))])
    scores = draw(
        st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=len(rows) * depth, max_size=99)
    )
    matrix = np.array(scores[: len(rows) * depth]).reshape(len(rows), depth)
    return make_set(*judged, n_documents=N_DOCUMENTS), make_run(*rows), matrix


@given(stages())
def test_reordering_never_changes_the_recall_of_the_candidates(stage: Any) -> None:
    evalset, candidates, scores = stage
    whole = Metric("recall", candidates.documents.shape[1])

    before, after = (
        metrics.evaluate([whole], run, evalset.qrels)[whole]
        for run in (candidates, reorder(candidates, scores, name="B"))
    )

    assert np.array_equal(before, after, equal_nan=True)
    assert differing(candidates, reorder(candidates, scores, name="B")).size == 0


@given(stages())
@settings(max_examples=25)
def test_a_reranker_that_keeps_the_order_ties_everywhere(stage: Any) -> None:
    evalset, candidates, _ = stage

    found = compared(evalset, candidates, candidates.scores)

    assert {(d.wins, d.losses, d.difference) for d in found.differences} == {(0, 0, 0.0)}


@given(stages())
@settings(max_examples=25)
def test_a_reranker_that_knows_the_grades_reaches_the_ceiling_exactly(stage: Any) -> None:
    evalset, candidates, _ = stage
    grades = metrics.grade_matrix(candidates.documents, evalset.qrels)

    found = compared(evalset, candidates, np.maximum(grades, 0).astype(np.float64))

    assert found.candidates is not None
    assert {c.metric: c.ceiling for c in found.candidates.ceilings} == found.systems[1].means
    assert {c.way for c in found.candidates.ceilings} <= {None, 1.0}


@given(stages())
@settings(max_examples=40)
def test_no_order_beats_the_ceiling(stage: Any) -> None:
    """All permutations of the first query's candidates, in every metric."""
    evalset, candidates, _ = stage
    wanted = [Metric.parse(name) for name in NAMES]
    best = best_values(wanted, candidates, evalset, gain="exponential", min_grade=1)
    row = candidates.documents[0]
    found = row[row >= 0].tolist()

    reached = {metric: -1.0 for metric in wanted}
    for order in itertools.permutations(found):
        run = make_run(*[[*order, *[-1] * (len(row) - len(order))]] * len(candidates.documents))
        for metric, values in metrics.evaluate(wanted, run, evalset.qrels).items():
            reached[metric] = max(reached[metric], float(values[0]))

    assert {metric: best[metric][0] for metric in wanted} == pytest.approx(reached)
