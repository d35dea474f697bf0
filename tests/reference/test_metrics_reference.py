"""Metrics against trec_eval and the reference files, on the same runs.

The files' ndcg_exp columns are ranx's nDCG with gain 2^grade - 1. ranx itself is not imported here:
it compiles for minutes before its first answer.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from reference_runs import COLLECTIONS, read_columns, read_run

from embed_ab import evalset
from embed_ab.evalset import Evalset
from embed_ab.metrics import Metric, count_relevant, evaluate
from embed_ab.runs import Run

pytestmark = pytest.mark.reference

TREC_NAMES = {
    "ndcg@5": "ndcg_cut_5",
    "ndcg@10": "ndcg_cut_10",
    "ndcg@100": "ndcg_cut_100",
    "recall@10": "recall_10",
    "recall@100": "recall_100",
    "precision@5": "P_5",
    "precision@100": "P_100",
    "hit@1": "success_1",
    "hit@10": "success_10",
    "map@10": "map_cut_10",
    "map@100": "map_cut_100",
    "mrr@100": "recip_rank",
}
TREC_MEASURES = {
    "ndcg_cut.5,10,100",
    "recall.10,100",
    "P.5,100",
    "success.1,10",
    "map_cut.10,100",
    "recip_rank",
}


def as_dicts(
    collection: Evalset, run: Run
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgements and run by ids; trec_eval gets ranks for scores, so that it cannot break ties."""
    judgements, ranked = {}, {}
    for row, query in enumerate(collection.query_ids):
        documents, grades = collection.qrels.of(row)
        if (grades > 0).any():
            judgements[query] = {
                collection.document_ids[document]: int(grade)
                for document, grade in zip(documents, grades, strict=True)
            }
            ranked[query] = {
                collection.document_ids[document]: 1000.0 - rank
                for rank, document in enumerate(run.documents[row])
                if document >= 0
            } or {"nothing was retrieved": 0.0}
    return judgements, ranked


@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_reference_file_is_reproduced(reference_data: Path, name: str) -> None:
    collection = evalset.load(reference_data / name)
    columns = {
        **{m: ("exponential", m) for m in ("recall@5", "recall@10", "recall@100")},
        **{m: ("exponential", m) for m in ("mrr@10", "hit@10", "map@100")},
        **{f"ndcg@{k}": ("linear", f"ndcg@{k}") for k in (5, 10)},
        **{f"ndcg_exp@{k}": ("exponential", f"ndcg@{k}") for k in (5, 10)},
    }
    paths = sorted((reference_data / name / "reference" / "runs").glob("*.trec.gz"))
    assert paths
    for path in paths:
        run = read_run(path, collection)
        expected = read_columns(path.parents[1] / f"per_query.{run.name}.tsv", collection)
        for column, (gain, text) in columns.items():
            metric = Metric.parse(text)
            values = evaluate([metric], run, collection.qrels, gain=gain)[metric]  # type: ignore[arg-type]

            np.testing.assert_allclose(values, expected[column], atol=1e-8, err_msg=column)
        np.testing.assert_array_equal(count_relevant(collection.qrels), expected["positives"])


@pytest.mark.parametrize("min_grade", [1, 2, 3])
@pytest.mark.parametrize("name", COLLECTIONS)
def test_linear_gain_and_binary_metrics_agree_with_trec_eval(
    reference_data: Path, name: str, min_grade: int
) -> None:
    collection = evalset.load(reference_data / name)
    run = read_run(reference_data / name / "reference" / "runs" / "minilm-l6.trec.gz", collection)
    judgements, ranked = as_dicts(collection, run)
    theirs = pytrec_eval.RelevanceEvaluator(
        judgements, TREC_MEASURES, relevance_level=min_grade
    ).evaluate(ranked)
    metrics = {Metric.parse(text): trec_name for text, trec_name in TREC_NAMES.items()}
    ours = evaluate(metrics, run, collection.qrels, gain="linear", min_grade=min_grade)

    for metric, trec_name in metrics.items():
        expected = [
            theirs[query][trec_name] if query in theirs else np.nan
            for query in collection.query_ids
        ]
        # trec_eval counts a query without a relevant document as 0, here it has no value
        values = np.where(np.isnan(expected), np.nan, np.nan_to_num(ours[metric]))

        np.testing.assert_allclose(values, expected, atol=1e-12, err_msg=str(metric))
