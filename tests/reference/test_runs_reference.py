"""Run files and hybrids on real runs: the way out and back, trec_eval, and ranx's figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
import scipy.stats
from reference_runs import COLLECTIONS

from embed_ab import evalset, runs
from embed_ab.evalset import Evalset
from embed_ab.fusion import blend, rrf
from embed_ab.metrics import Metric, evaluate
from embed_ab.rerank import reorder
from embed_ab.runs import Run

pytestmark = pytest.mark.reference

METRICS = {
    Metric.parse(ours): theirs
    for ours, theirs in {
        "ndcg@10": "ndcg_cut_10",
        "ndcg@100": "ndcg_cut_100",
        "recall@100": "recall_100",
        "map@100": "map_cut_100",
        "mrr@100": "recip_rank",
        "hit@10": "success_10",
    }.items()
}
MEASURES = {"ndcg_cut.10,100", "recall.100", "map_cut.100", "recip_rank", "success.10"}
FIGURES = Path(__file__).with_name("fusion_figures.json")


def values(collection: Evalset, run: Run) -> np.ndarray:
    found = evaluate(METRICS, run, collection.qrels, gain="linear")
    return np.array([found[metric] for metric in METRICS])


def by_trec_eval(collection: Evalset, path: Path) -> np.ndarray:
    """What trec_eval says of a run file, 0 for a query that the file lacks."""
    judgements = {}
    for row, query in enumerate(collection.query_ids):
        documents, grades = collection.qrels.of(row)
        judgements[query] = {
            collection.document_ids[document]: int(grade)
            for document, grade in zip(documents, grades, strict=True)
        }
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = pytrec_eval.RelevanceEvaluator(judgements, MEASURES).evaluate(
            pytrec_eval.parse_run(lines)
        )
    return np.array(
        [
            [found.get(query, {}).get(theirs, 0.0) for query in collection.query_ids]
            for theirs in METRICS.values()
        ]
    )


def read(path: Path, collection: Evalset) -> Run:
    return runs.read(path, collection.query_ids, collection.document_ids, depth=100).run


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_run_written_and_read_back_has_the_same_values_here_and_in_trec_eval(
    reference_data: Path, tmp_path: Path, name: str
) -> None:
    collection = evalset.load(reference_data / name)
    paths = sorted((reference_data / name / "reference" / "runs").glob("*.trec.gz"))
    assert paths
    found = [read(path, collection) for path in paths[:4]]
    found.append(rrf(found[:3], k=60, depth=100, name="rrf"))
    found.append(blend(found[:2], [0.7, 0.3], "z", depth=100, name="blend"))
    # Few different scores: most candidates tie, and the document id decides.
    few = np.random.default_rng(5).integers(0, 4, found[0].documents.shape).astype(np.float64)
    found.append(reorder(found[0], few, name="reranked"))
    found.append(reorder(found[4], few, name="reranked hybrid"))
    for run in found:
        path = tmp_path / "run.trec.gz"
        runs.write_trec(run, collection.query_ids, collection.document_ids, path)
        again = read(path, collection)

        assert again.documents.tolist() == run.documents.tolist()
        expected = values(collection, run)
        np.testing.assert_array_equal(values(collection, again), expected)
        theirs = np.where(np.isnan(expected), np.nan, by_trec_eval(collection, path))
        np.testing.assert_allclose(expected, theirs, atol=1e-6, err_msg=run.name)


@pytest.mark.parametrize("name", COLLECTIONS)
def test_hybrids_have_the_scores_of_ranx(reference_data: Path, name: str) -> None:
    """As make_fusion_figures.py wrote them: the best documents of every twentieth query.

    z is of the documents that both runs have: ranx gives a missing one 0, and we the lowest.
    """
    collection = evalset.load(reference_data / name)
    folder = reference_data / name / "reference" / "runs"
    first = read(folder / "bm25s-word-lucene-k1.5-b0.75.trec.gz", collection)
    second = read(folder / "minilm-l6.trec.gz", collection)
    fused = {
        "rrf": rrf([first, second], k=60, depth=200, name="rrf"),
        "minmax": blend([first, second], [0.7, 0.3], "minmax", depth=200, name="blend"),
    }
    both = shared(first, second), shared(second, first)
    fused["z"] = blend(both, [0.7, 0.3], "z", depth=200, name="blend")
    figures = json.loads(FIGURES.read_text("utf-8"))["figures"][name]
    assert fused.keys() == figures.keys()
    for kind, run in fused.items():
        n_compared = 0
        for query, best in figures[kind].items():
            row = collection.query_ids.index(query)
            ranked = [collection.document_ids[d] for d in run.documents[row, : len(best)]]
            assert run.scores[row, : len(best)] == pytest.approx(list(best.values()), abs=1e-12)
            n_inside = len(best) - list(best.values()).count(min(best.values()))
            assert set(ranked[:n_inside]) == set(list(best)[:n_inside])
            n_compared += n_inside
        assert n_compared > 50


def shared(run: Run, other: Run) -> Run:
    """The run with those documents only that the other has for the query, too."""
    is_shared = (run.documents[:, :, None] == other.documents[:, None, :]).any(axis=2)
    is_shared &= run.documents >= 0
    return Run(
        name=run.name,
        documents=np.where(is_shared, run.documents, -1),
        scores=np.where(is_shared, run.scores, -np.inf),
    )


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_blend_of_standard_scores_is_that_of_scipy(reference_data: Path, name: str) -> None:
    """All documents of both runs; the one that a run lacks has that run's lowest score."""
    collection = evalset.load(reference_data / name)
    folder = reference_data / name / "reference" / "runs"
    names = ("bm25s-word-lucene-k1.5-b0.75", "minilm-l6")
    found = [read(folder / f"{each}.trec.gz", collection) for each in names]

    fused = blend(found, [0.7, 0.3], "z", depth=200, name="blend")

    for row in range(0, len(collection.query_ids), 10):
        expected = np.zeros(len(collection.document_ids))
        for run, weight in zip(found, (0.7, 0.3), strict=True):
            is_found = run.documents[row] >= 0
            if is_found.any():
                scores = run.scores[row, is_found]
                is_spread = scores.max() > scores.min()  # else NaN by scipy, and 0 by ours
                standard = scipy.stats.zscore(scores) if is_spread else np.zeros(scores.size)
                of_all = np.full(expected.size, standard.min())
                of_all[run.documents[row, is_found]] = standard
                expected += weight * of_all
        documents = fused.documents[row]
        ranked = documents[documents >= 0]
        assert set(ranked) == {d for run in found for d in run.documents[row] if d >= 0}
        np.testing.assert_allclose(fused.scores[row, : ranked.size], expected[ranked], atol=1e-12)
