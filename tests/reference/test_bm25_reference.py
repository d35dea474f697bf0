"""BM25 against runs that bm25s made outside this project, ranked by the same tie rule."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from reference_runs import DEPTH, read_run

from embed_ab import bm25, evalset
from embed_ab.evalset import Evalset
from embed_ab.metrics import Metric, evaluate
from embed_ab.runs import Run

pytestmark = pytest.mark.reference

WORD, BIGRAM = "bm25s-word-lucene-k1.5-b0.75", "bm25s-bigram-lucene-k1.5-b0.75"
METRICS = [Metric.parse(name) for name in ("ndcg@10", "recall@10", "recall@100", "map@100")]


def bigrams_of_the_reference(text: str) -> list[str]:
    """The tokens of the reference's `bigram`, which knows ASCII words of any length only."""
    tokens = []
    for run in re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[a-z0-9]+", text.lower()):
        is_whole = run.isascii() or len(run) == 1
        tokens += [run] if is_whole else [a + b for a, b in itertools.pairwise(run)]
    return tokens


def means_of_the_reference(folder: Path, system: str) -> dict[str, float]:
    summary = json.loads((folder / "reference" / "summary.json").read_text(encoding="utf-8"))
    return {str(metric): summary["systems"][system][str(metric)] for metric in METRICS}


def means(run: Run, loaded: Evalset) -> dict[str, float]:
    """With the linear gain of the reference."""
    values = evaluate(METRICS, run, loaded.qrels, gain="linear")
    return {str(metric): float(np.nanmean(per_query)) for metric, per_query in values.items()}


def assert_is_the_reference(run: Run, loaded: Evalset, folder: Path, system: str) -> None:
    expected = read_run(folder / "reference" / "runs" / f"{system}.trec.gz", loaded)

    np.testing.assert_array_equal(run.documents, expected.documents)
    np.testing.assert_allclose(run.scores, expected.scores, rtol=0, atol=1e-6)
    assert means(run, loaded) == pytest.approx(means_of_the_reference(folder, system), abs=1e-9)


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

    assert_is_the_reference(run, loaded, folder, WORD)


def test_bigrams_of_korean_give_the_lists_of_the_reference(reference_data: Path) -> None:
    folder = reference_data / "belebele-ko"
    loaded = evalset.load(folder)

    run = bm25.search_tokens(
        map(bigrams_of_the_reference, loaded.document_texts),
        map(bigrams_of_the_reference, loaded.query_texts),
        DEPTH,
    )

    assert_is_the_reference(run, loaded, folder, BIGRAM)


def test_auto_finds_as_much_in_korean_as_the_reference(reference_data: Path) -> None:
    """`auto` drops lone ASCII characters and keeps accented words whole, so its lists differ."""
    folder = reference_data / "belebele-ko"
    loaded = evalset.load(folder)

    run = bm25.search(loaded.document_texts, loaded.query_texts, "auto", DEPTH)

    assert means(run, loaded) == pytest.approx(means_of_the_reference(folder, BIGRAM), abs=0.002)
