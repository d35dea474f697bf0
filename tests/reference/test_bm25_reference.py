"""BM25 against runs that bm25s made outside this project, ranked by the same tie rule."""

import gzip
import itertools
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from embed_ab import bm25, evalset
from embed_ab.evalset import Evalset
from embed_ab.metrics import Metric, evaluate
from embed_ab.runs import Run

pytestmark = pytest.mark.reference

DEPTH = 100
WORD, BIGRAM = "bm25s-word-lucene-k1.5-b0.75", "bm25s-bigram-lucene-k1.5-b0.75"
NDCG_LINEAR = Metric.parse("ndcg@10")
METRICS = [Metric.parse(name) for name in ("recall@10", "recall@100", "hit@10", "map@100")]


def bigrams_of_the_reference(text: str) -> list[str]:
    """The tokens of the reference's `bigram`, which knows ASCII words of any length only."""
    tokens = []
    for run in re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[a-z0-9]+", text.lower()):
        is_whole = run.isascii() or len(run) == 1
        tokens += [run] if is_whole else [a + b for a, b in itertools.pairwise(run)]
    return tokens


def ranked_lists(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Document ids and scores of each query, best first."""
    lists: dict[str, list[tuple[str, float]]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            query, _, document, _, score, _ = line.split()
            lists[query].append((document, float(score)))
    return lists


def assert_same_lists(run: Run, loaded: Evalset, reference: Path) -> None:
    expected = ranked_lists(reference)
    for query, documents, scores in zip(loaded.query_ids, run.documents, run.scores, strict=True):
        found = documents >= 0
        ids = [loaded.document_ids[document] for document in documents[found]]
        assert ids == [document for document, _ in expected[query]], query
        assert scores[found] == pytest.approx([score for _, score in expected[query]], abs=1e-6)


def assert_same_means(run: Run, loaded: Evalset, summary: Path, system: str) -> None:
    expected = json.loads(summary.read_text(encoding="utf-8"))["systems"][system]
    values = evaluate(METRICS, run, loaded.qrels)
    values |= evaluate([NDCG_LINEAR], run, loaded.qrels, gain="linear")
    for metric, per_query in values.items():
        assert np.nanmean(per_query) == pytest.approx(expected[str(metric)], abs=1e-9), metric


@pytest.mark.parametrize(
    ("collection", "tokens"),
    [
        ("scifact", "word"),
        ("scifact", "auto"),
        ("cranfield", "word"),
        ("cranfield", "auto"),
        ("belebele-ko", "word"),
    ],
)
def test_every_list_is_the_list_of_the_reference(
    reference_data: Path, collection: str, tokens: bm25.Tokens
) -> None:
    folder = reference_data / collection
    loaded = evalset.load(folder)

    run = bm25.search(loaded.document_texts, loaded.query_texts, tokens, DEPTH)

    assert_same_lists(run, loaded, folder / "reference" / "runs" / f"{WORD}.trec.gz")
    assert_same_means(run, loaded, folder / "reference" / "summary.json", WORD)


def test_bigrams_of_korean_give_the_lists_of_the_reference(reference_data: Path) -> None:
    folder = reference_data / "belebele-ko"
    loaded = evalset.load(folder)

    run = bm25.search_tokens(
        map(bigrams_of_the_reference, loaded.document_texts),
        map(bigrams_of_the_reference, loaded.query_texts),
        DEPTH,
    )

    assert_same_lists(run, loaded, folder / "reference" / "runs" / f"{BIGRAM}.trec.gz")
    assert_same_means(run, loaded, folder / "reference" / "summary.json", BIGRAM)


def test_auto_finds_as_much_in_korean_as_the_reference(reference_data: Path) -> None:
    """`auto` drops lone ASCII characters and keeps accented words whole, so its lists differ."""
    folder = reference_data / "belebele-ko"
    loaded = evalset.load(folder)
    summary = json.loads((folder / "reference" / "summary.json").read_text(encoding="utf-8"))

    run = bm25.search(loaded.document_texts, loaded.query_texts, "auto", 10)

    mean = np.nanmean(evaluate([NDCG_LINEAR], run, loaded.qrels)[NDCG_LINEAR])
    assert mean == pytest.approx(summary["systems"][BIGRAM]["ndcg@10"], abs=0.002)
