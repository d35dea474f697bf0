"""Parity of real models: the causes that one can make with a setting are the causes it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embed_ab import commands
from embed_ab.parity import Parity
from embed_ab.providers.cache import VectorStore
from embed_ab.registry import Side
from embed_ab.settings import resolve
from embed_ab.system_spec import SystemSpec
from embed_ab.systems import retrieve

pytestmark = pytest.mark.model


def parity(a: Path, b: str, **flags: Any) -> Parity:
    given = {"eval-path": str(commands.demo_folder("en")), "model-a": f"st:{a}", "model-b": b}
    return commands.parity(resolve(given | flags, config=None), sample=20)


def codes(found: Parity) -> list[str]:
    return [cause.code for cause in found.causes]


def test_twins_give_the_same_vectors(minilm: Path, twin: Path) -> None:
    found = parity(minilm, f"st:{twin}")

    assert found.finding == "the same"
    assert found.ranks.overlap == 1


def test_a_bad_fine_tune_is_not_the_same_and_no_setting_explains_it(
    minilm: Path, sre: Path
) -> None:
    found = parity(minilm, f"st:{sre}")

    assert (found.finding, codes(found)) == ("not the same", [])


def test_a_missing_prompt_is_named(e5q4: Path) -> None:
    found = parity(e5q4, f"st:{e5q4}", **{"b-doc-prompt": ""})

    assert codes(found) == ["prompt"]
    assert "Give --b-doc-prompt 'passage: '," in found.causes[0].advice


def test_a_shorter_limit_is_named(minilm: Path, twin: Path) -> None:
    found = parity(minilm, f"st:{twin},max_length=24")

    assert codes(found) == ["truncation"]
    assert "A 256 tokens and B 24 tokens" in found.causes[0].message


def test_another_pooling_is_named(minilm: Path) -> None:
    found = parity(minilm, f"st:{minilm},pooling=cls")

    assert codes(found) == ["pooling"]
    assert found.causes[0].advice.startswith("Write pooling=mean after B's name")


def test_a_cold_run_tells_batch_tokens_and_waits_and_a_warm_one_still_the_batch(
    minilm: Path, cache_dir: Path
) -> None:
    evalset = commands.evalsets.load(commands.demo_folder("en"))
    store = VectorStore.open(cache_dir)
    side = Side(price_per_million_tokens=0.02)

    cold, warm = (
        retrieve(SystemSpec.parse(f"st:{minilm}"), side, evalset, 11, store, lambda *_: None)
        for _ in range(2)
    )
    store.close()

    assert cold.system.origin.batch_cosine == pytest.approx(1, abs=1e-5)
    assert warm.system.origin.batch_cosine == cold.system.origin.batch_cosine
    assert (cold.n_tokens, warm.n_tokens, warm.price) == (3928, None, 0)
    assert cold.price == pytest.approx(3928 * 0.02 / 1e6)
    assert (len(cold.query_seconds), len(warm.query_seconds)) == (20, 0)
