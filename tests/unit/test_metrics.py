"""Metrics by hand-computed values. Ranks count from 1; log2(rank + 1) discounts rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from embed_ab import metrics
from embed_ab.errors import InputError
from embed_ab.evalset import Qrels
from embed_ab.metrics import (
    METRIC_NAMES,
    NOT_RETRIEVED,
    UNJUDGED,
    Metric,
    ceiling,
    condensed,
    count_relevant,
    dcg,
    evaluate,
    grade_matrix,
    ideal_grades,
    judged,
    ndcg,
)
from embed_ab.runs import Run


def make_qrels(*queries: dict[int, int]) -> Qrels:
    """Judgements of each query: document index -> grade."""
    rows = [sorted(query.items()) for query in queries]
    flat = [pair for row in rows for pair in row]
    return Qrels(
        offsets=np.cumsum([0, *map(len, rows)]),
        documents=np.array([document for document, _ in flat], dtype=np.int32),
        grades=np.array([grade for _, grade in flat], dtype=np.int16),
    )


def make_run(*lists: Sequence[int]) -> Run:
    documents = np.array(lists, dtype=np.int32)
    return Run(
        name="run",
        documents=documents,
        scores=np.where(documents < 0, -np.inf, -np.arange(documents.shape[1], dtype=float)),
    )


def value(text: str, run: Run, qrels: Qrels, **options: object) -> NDArray[np.float64]:
    metric = Metric.parse(text)
    return evaluate([metric], run, qrels, **options)[metric]  # type: ignore[arg-type]


class TestParse:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("ndcg@10", "ndcg@10"),
            ("nDCG@10", "ndcg@10"),
            (" NDCG@10 ", "ndcg@10"),
            ("ndcg_cut_10", "ndcg@10"),
            ("ndcg_cut.10", "ndcg@10"),
            ("ndcg_at_10", "ndcg@10"),
            ("ndcg@010", "ndcg@10"),
            ("RR@10", "mrr@10"),
            ("MRR@10", "mrr@10"),
            ("mrr_at_10", "mrr@10"),
            ("recip_rank@5", "mrr@5"),
            ("P@1", "precision@1"),
            ("P_10", "precision@10"),
            ("AP@100", "map@100"),
            ("MAP@100", "map@100"),
            ("map_cut_100", "map@100"),
            ("R@1000", "recall@1000"),
            ("recall_10", "recall@10"),
            ("success_10", "hit@10"),
            ("Success@10", "hit@10"),
            ("hit_rate@10", "hit@10"),
            ("accuracy@3", "hit@3"),
            ("Judged@10", "judged@10"),
            ("R_cap@10", "rcap@10"),
            ("recall_cap_at_10", "rcap@10"),
        ],
    )
    def test_spellings_of_other_tools_are_understood(self, text: str, expected: str) -> None:
        assert str(Metric.parse(text)) == expected

    @pytest.mark.parametrize("name", METRIC_NAMES)
    def test_every_metric_reads_its_own_spelling(self, name: str) -> None:
        assert Metric.parse(str(Metric(name, 7))) == Metric(name, 7)

    def test_a_missing_cutoff_is_the_default(self) -> None:
        assert Metric.parse("recall", default_k=20) == Metric("recall", 20)

    def test_a_given_cutoff_beats_the_default(self) -> None:
        assert Metric.parse("recall@5", default_k=20) == Metric("recall", 5)

    def test_a_missing_cutoff_without_default_is_an_input_error(self) -> None:
        with pytest.raises(InputError, match="has no cutoff"):
            Metric.parse("recall")

    @pytest.mark.parametrize(
        "text", ["", "@10", "bleu@10", "ndcg@", "ndcg@-1", "ndcg@1.5", "ndcg@x", "10", "ndcg@1\n2"]
    )
    def test_an_unknown_metric_is_an_input_error_that_lists_the_known(self, text: str) -> None:
        with pytest.raises(InputError, match="unknown metric") as raised:
            Metric.parse(text)

        assert all(name in raised.value.hint for name in METRIC_NAMES)

    @pytest.mark.parametrize("k", ["0", "10001", "9" * 5000])
    def test_an_absurd_cutoff_is_an_input_error(self, k: str) -> None:
        with pytest.raises(InputError, match="from 1 to 10000"):
            Metric.parse(f"ndcg@{k}")


class TestGradeMatrix:
    def test_each_ranked_document_has_its_grade_or_a_state(self) -> None:
        qrels = make_qrels({0: 2, 3: -1}, {}, {1: 1, 2: 0})
        documents = np.array([[3, 1, 0], [0, 1, -1], [-1, 1, 2]], dtype=np.int32)

        assert grade_matrix(documents, qrels).tolist() == [
            [-1, UNJUDGED, 2],
            [UNJUDGED, UNJUDGED, NOT_RETRIEVED],
            [NOT_RETRIEVED, 1, 0],
        ]

    def test_nothing_retrieved_and_nothing_judged(self) -> None:
        documents = np.array([[-1, -1]], dtype=np.int32)

        assert grade_matrix(documents, make_qrels({})).tolist() == [[NOT_RETRIEVED] * 2]

    def test_no_query_at_all(self) -> None:
        assert grade_matrix(np.empty((0, 3), dtype=np.int32), make_qrels()).shape == (0, 3)

    def test_blocks_of_queries_do_not_see_each_other(self) -> None:
        """With 1,500,000 documents a block of the table holds one query."""
        far = 1_499_999
        qrels = make_qrels({0: 3, far: 1}, {1: 2}, {far: 4})
        documents = np.array([[far, 0, -1], [far, 1, 0], [0, far, 1]], dtype=np.int32)

        assert grade_matrix(documents, qrels).tolist() == [
            [1, 3, NOT_RETRIEVED],
            [UNJUDGED, 2, UNJUDGED],
            [UNJUDGED, 4, UNJUDGED],
        ]

    @given(
        st.lists(
            st.tuples(
                st.dictionaries(st.integers(0, 9), st.integers(-30, 30)),
                st.permutations([*range(10), *[-1] * 3]),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_agrees_with_looking_up_one_by_one(
        self, queries: list[tuple[dict[int, int], list[int]]]
    ) -> None:
        qrels = make_qrels(*(judgements for judgements, _ in queries))
        documents = np.array([ranked for _, ranked in queries], dtype=np.int32)

        assert grade_matrix(documents, qrels).tolist() == [
            [NOT_RETRIEVED if d < 0 else judgements.get(d, UNJUDGED) for d in ranked]
            for judgements, ranked in queries
        ]


def test_ideal_grades_are_all_grades_highest_first_cut_and_padded() -> None:
    qrels = make_qrels({0: 1, 1: 3, 2: -2}, {}, {5: 0, 6: 2, 7: 1, 8: 2})

    assert ideal_grades(qrels, 3).tolist() == [[3, 1, -2], [NOT_RETRIEVED] * 3, [2, 2, 1]]
    assert ideal_grades(qrels, 4)[0].tolist() == [3, 1, -2, NOT_RETRIEVED]


def test_relevant_documents_are_counted_from_the_least_grade_on() -> None:
    qrels = make_qrels({0: 1, 1: 3, 2: -2}, {}, {5: 0, 6: 2})

    assert count_relevant(qrels).tolist() == [2, 0, 1]
    assert count_relevant(qrels, min_grade=2).tolist() == [1, 0, 1]


class TestNdcg:
    def test_a_gold_document_outside_the_candidates_caps_ndcg(self) -> None:
        """Reordering cannot reach 1.0 when d3 (grade 1) was never retrieved."""
        grades = np.array([[3, UNJUDGED]], dtype=np.int16)
        ideal = np.array([[3, 1]], dtype=np.int16)

        # 7 / (7 + 1/log2(3))
        assert ndcg(grades, ideal, k=2) == pytest.approx([0.917319], abs=1e-6)

    def test_linear_gain_is_the_grade(self) -> None:
        grades = np.array([[1, 3]], dtype=np.int16)
        ideal = np.array([[3, 1]], dtype=np.int16)

        # (1 + 3/1.584963) / (3 + 1/1.584963) = 2.892789 / 3.630930
        assert ndcg(grades, ideal, k=2, gain="linear") == pytest.approx([0.796708], abs=1e-6)

    def test_exponential_gain_is_two_to_the_grade_less_one(self) -> None:
        grades = np.array([[1, 3]], dtype=np.int16)
        ideal = np.array([[3, 1]], dtype=np.int16)

        # (1 + 7/1.584963) / (7 + 1/1.584963) = 5.416508 / 7.630930
        assert ndcg(grades, ideal, k=2) == pytest.approx([0.709810], abs=1e-6)

    def test_negative_grades_and_states_gain_nothing(self) -> None:
        grades = np.array([[-30, UNJUDGED, NOT_RETRIEVED, 0, 1]], dtype=np.int16)

        # rank 5: 1 / log2(6)
        assert dcg(grades, k=5) == pytest.approx([0.386853], abs=1e-6)

    def test_a_query_without_a_positive_grade_is_nan(self) -> None:
        qrels = make_qrels({}, {0: 0}, {0: -1})

        assert np.isnan(value("ndcg@2", make_run([0, 1], [0, 1], [0, 1]), qrels)).all()

    def test_the_largest_grade_does_not_overflow(self) -> None:
        # gains 2^30 - 1 at rank 2 and in the ideal at rank 1: 1 / log2(3)
        assert value("ndcg@2", make_run([1, 0]), make_qrels({0: 30})) == pytest.approx([0.630930])

    def test_a_perfect_ranking_of_few_documents_is_exactly_one_at_a_large_cutoff(self) -> None:
        """Pairwise sums of 13 terms and of the same with 17 zeros differ in the last bit."""
        grades = sorted(((7 * document) % 5 for document in range(13)), reverse=True)
        qrels = make_qrels(dict(enumerate(grades)))

        assert value("ndcg@30", make_run(list(range(13))), qrels) == 1.0

    @given(st.lists(st.integers(-30, 30), min_size=1, max_size=40), st.integers(1, 50))
    def test_a_perfect_ranking_is_exactly_one(self, grades: list[int], k: int) -> None:
        best_first = sorted(range(len(grades)), key=lambda document: -grades[document])
        qrels = make_qrels(dict(enumerate(grades)))

        result = value(f"ndcg@{k}", make_run(best_first), qrels)[0]

        assert math.isnan(result) if max(grades) <= 0 else result == 1.0


class TestBinaryMetrics:
    """Relevant are documents 0, 1 and 2; the run finds 1 at rank 2 and 0 at rank 4."""

    qrels = make_qrels({0: 1, 1: 2, 2: 1, 9: 0})
    run = make_run([9, 1, 8, 0, 7])

    @pytest.mark.parametrize(
        ("metric", "expected"),
        [
            ("recall@1", 0),
            ("recall@2", 1 / 3),
            ("recall@5", 2 / 3),
            ("rcap@2", 1 / 2),  # at most 2 of the 3 fit
            ("rcap@5", 2 / 3),
            ("precision@2", 1 / 2),
            ("precision@5", 2 / 5),
            ("precision@10", 2 / 10),  # over k, though only 5 were retrieved
            ("hit@1", 0),
            ("hit@2", 1),
            ("mrr@1", 0),
            ("mrr@5", 1 / 2),
            ("map@3", (1 / 2) / 3),
            ("map@5", (1 / 2 + 2 / 4) / 3),  # over all 3 relevant documents
            ("judged@1", 1),
            ("judged@5", 3 / 5),
            ("judged@10", 3 / 5),  # over the documents retrieved
        ],
    )
    def test_by_hand(self, metric: str, expected: float) -> None:
        assert value(metric, self.run, self.qrels) == pytest.approx([expected])

    @pytest.mark.parametrize(
        ("metric", "expected"), [("recall@5", 1), ("mrr@5", 1 / 2), ("map@5", 1 / 2)]
    )
    def test_grades_below_the_least_grade_are_not_relevant(
        self, metric: str, expected: float
    ) -> None:
        assert value(metric, self.run, self.qrels, min_grade=2) == pytest.approx([expected])

    def test_the_least_grade_does_not_change_ndcg(self) -> None:
        assert value("ndcg@5", self.run, self.qrels, min_grade=2) == value(
            "ndcg@5", self.run, self.qrels
        )

    @pytest.mark.parametrize("name", [name for name in METRIC_NAMES if name != "ndcg"])
    def test_a_query_without_a_relevant_document_is_nan(self, name: str) -> None:
        run = make_run([0, 1], [0, 1], [0, 1])
        qrels = make_qrels({}, {0: 0}, {0: 1})

        assert np.isnan(value(f"{name}@2", run, qrels)).tolist() == [True, True, False]

    @pytest.mark.parametrize("name", METRIC_NAMES)
    def test_a_query_that_retrieves_nothing_is_zero(self, name: str) -> None:
        assert value(f"{name}@2", make_run([-1, -1]), make_qrels({0: 1})).tolist() == [0]

    @pytest.mark.parametrize("name", METRIC_NAMES)
    def test_a_run_without_any_rank_is_zero(self, name: str) -> None:
        run = Run(name="empty", documents=np.empty((1, 0), dtype=np.int32), scores=np.empty((1, 0)))

        assert value(f"{name}@2", run, make_qrels({0: 1})).tolist() == [0]

    def test_a_negative_grade_is_judged(self) -> None:
        assert judged(np.array([[-1, UNJUDGED]], dtype=np.int16), k=2).tolist() == [0.5]


class TestEvaluate:
    def test_ranks_beyond_the_largest_cutoff_change_nothing(self) -> None:
        qrels = make_qrels({0: 1, 1: 1})

        assert value("recall@2", make_run([5, 0, 1]), qrels).tolist() == [0.5]

    def test_metrics_come_back_in_the_order_asked_for(self) -> None:
        asked = [Metric("recall", 5), Metric("ndcg", 1), Metric("recall", 1)]

        assert list(evaluate(asked, make_run([0]), make_qrels({0: 1}))) == asked

    @given(st.data())
    def test_every_value_is_nan_or_from_zero_to_one_and_no_better_than_the_ceiling(
        self, data: st.DataObject
    ) -> None:
        qrels = make_qrels(data.draw(st.dictionaries(st.integers(0, 7), st.integers(-2, 4))))
        run = make_run(data.draw(st.permutations([*range(8), -1, -1])))
        for name in METRIC_NAMES:
            metric = Metric(name, data.draw(st.integers(1, 10)))
            result = evaluate([metric], run, qrels)[metric][0]

            assert math.isnan(result) or 0 <= result <= ceiling(metric, qrels) + 1e-12

    @given(st.permutations(range(4)))
    def test_permuting_queries_permutes_the_values(self, order: list[int]) -> None:
        judgements: list[dict[int, int]] = [{0: 2, 1: 1}, {}, {2: 3, 3: 1, 4: 1}, {1: 1}]
        lists = [[1, 0, 2], [0, 1, 2], [4, 3, 2], [3, 2, -1]]
        asked = [Metric(name, 3) for name in METRIC_NAMES]
        plain = evaluate(asked, make_run(*lists), make_qrels(*judgements))
        mixed = evaluate(
            asked,
            make_run(*(lists[query] for query in order)),
            make_qrels(*(judgements[query] for query in order)),
        )

        for metric in asked:
            np.testing.assert_array_equal(mixed[metric], plain[metric][list(order)])


class TestCeiling:
    qrels = make_qrels(dict.fromkeys(range(4), 1), {0: 1}, {5: 0})

    @pytest.mark.parametrize(
        ("metric", "expected"),
        [
            ("recall@2", (2 / 4 + 1) / 2),
            ("precision@2", (1 + 1 / 2) / 2),
            ("map@2", (2 / 4 + 1) / 2),
            ("rcap@2", 1),
            ("ndcg@2", 1),
            ("mrr@2", 1),
            ("hit@2", 1),
            ("judged@2", 1),
        ],
    )
    def test_by_hand_over_the_two_queries_with_something_to_find(
        self, metric: str, expected: float
    ) -> None:
        assert ceiling(Metric.parse(metric), self.qrels) == pytest.approx(expected)

    def test_without_a_relevant_document_there_is_none(self) -> None:
        assert math.isnan(ceiling(Metric("recall", 2), make_qrels({0: 0})))


def test_a_condensed_run_moves_judged_documents_up() -> None:
    run = make_run([7, 1, 8, 0], [7, 8, 9, -1])

    shorter = condensed(run, make_qrels({0: 1, 1: -1}, {0: 1}))

    assert shorter.documents.tolist() == [[1, 0, -1, -1], [-1, -1, -1, -1]]
    assert shorter.scores[0].tolist() == [-1, -3, -math.inf, -math.inf]
    assert shorter.documents.dtype == np.int32


def test_a_condensed_run_keeps_the_order_of_long_lists() -> None:
    run = make_run(list(range(100)))

    shorter = condensed(run, make_qrels(dict.fromkeys(range(0, 100, 3), 1)))

    assert shorter.documents[0, :35].tolist() == [*range(0, 100, 3), -1]


def test_states_are_no_grades() -> None:
    assert NOT_RETRIEVED < UNJUDGED < -metrics.LARGEST_GRADE
