"""Real models on real collections against numbers made with other tools (see ../shared/data)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from embed_ab import evalset, metrics
from embed_ab.comparison import compare_runs
from embed_ab.metrics import Metric
from embed_ab.origin import System
from embed_ab.providers.cache import VectorStore
from embed_ab.registry import Side
from embed_ab.settings import resolve
from embed_ab.system_spec import SystemSpec
from embed_ab.systems import retrieve

pytestmark = [pytest.mark.model, pytest.mark.reference]

DATA = Path(os.environ.get("EMBED_AB_REFERENCE_DATA", "../shared/data"))
NAMES = ("recall@5", "recall@10", "recall@100", "ndcg@5", "ndcg@10", "mrr@10", "hit@10", "map@100")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    return VectorStore.open(tmp_path_factory.mktemp("vectors"))


def collection(name: str) -> evalset.Evalset:
    if not (DATA / name).is_dir():
        pytest.skip(f"{DATA / name} is absent: set EMBED_AB_REFERENCE_DATA")
    return evalset.load(DATA / name)


def system(loaded: evalset.Evalset, folder: Path, store: VectorStore) -> System:
    spec = SystemSpec.parse(f"st:{folder}")
    return retrieve(spec, Side(), loaded, 101, store, lambda *_: None).system


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("scifact", "minilm"),
        ("scifact", "l3"),
        ("cranfield", "minilm"),
        ("cranfield", "sre"),
        ("cranfield", "l3"),
        ("belebele-ko", "minilm"),
        ("belebele-ko", "e5q4"),
    ],
)
def test_means_agree_with_the_reference(
    name: str, model: str, store: VectorStore, request: pytest.FixtureRequest
) -> None:
    """Within 1e-4: only the float noise of the encoder may differ."""
    loaded = collection(name)
    summary = json.loads((DATA / name / "reference" / "summary.json").read_text("utf-8"))
    expected = summary["systems"][{"minilm": "minilm-l6"}.get(model, model)]
    run = system(loaded, request.getfixturevalue(model), store).run

    wanted = [Metric.parse(metric) for metric in NAMES]
    linear = metrics.evaluate(wanted, run, loaded.qrels, gain="linear")
    exponential = metrics.evaluate([Metric("ndcg", 10)], run, loaded.qrels, gain="exponential")

    found = {str(m): values[loaded.is_evaluated].mean() for m, values in linear.items()}
    found["ndcg_exp@10"] = exponential[Metric("ndcg", 10)][loaded.is_evaluated].mean()
    assert found == pytest.approx({key: expected[key] for key in found}, abs=1e-4)


def test_the_same_weights_under_two_names_are_all_ties(
    minilm: Path, twin: Path, store: VectorStore
) -> None:
    loaded = collection("cranfield")
    options = resolve({"gate": "ndcg@10:0.02"}, config=None).options()

    a, b = (system(loaded, folder, store) for folder in (minilm, twin))
    comparison = compare_runs(loaded, a, b, None, options)

    assert {(d.wins, d.losses, d.difference) for d in comparison.differences} == {(0, 0, 0.0)}
    assert "identical_rankings" in {caution.code for caution in comparison.cautions}
    # 1 - 0.05^(1/225) = 0.0132: enough queries to exclude a change in 2 % of them.
    assert comparison.outcome == "pass"


def test_a_bad_fine_tune_fails_the_gate(minilm: Path, sre: Path, store: VectorStore) -> None:
    loaded = collection("cranfield")
    options = resolve({"gate": "ndcg@10:0.02"}, config=None).options()

    comparison = compare_runs(
        loaded, system(loaded, minilm, store), system(loaded, sre, store), None, options
    )

    assert comparison.outcome == "fail"
    assert comparison.finding == "worse"
