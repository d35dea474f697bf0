"""Quantised and shortened variants of a model as systems of an ordinary comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embed_ab import evalset
from embed_ab.cli import main
from embed_ab.commands import compare_evalset, demo_folder
from embed_ab.errors import InputError
from embed_ab.settings import resolve
from embed_ab.system_spec import SystemSpec


def compared(tmp_path: Path, a: str, b: str, *words: str) -> dict[str, Any]:
    out = tmp_path / "out"
    given = ["compare", str(demo_folder("en")), "-a", a, "-b", b, "--out", str(out), *words]
    assert main(given) == 0
    loaded: dict[str, Any] = json.loads((out / "result.json").read_text("utf-8"))
    return loaded


def test_one_comparison_tells_whether_the_index_can_be_cut_to_an_eighth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = compared(tmp_path, "mock:char3", "mock:char3,dim=128,precision=int8")

    a, b, _ = result["systems"]
    # 256 dimensions of 4 bytes; 128 of 1 byte; 40 documents
    assert (a["bytes_per_vector"], a["corpus_bytes"]) == (1024, 40960)
    assert (b["bytes_per_vector"], b["corpus_bytes"]) == (128, 5120)
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["bytes", "per", "vector", "1,024", "128"] in table
    assert ["vectors", "of", "all", "documents", "41.0", "kB", "5.1", "kB"] in table


def test_the_vectors_of_all_precisions_are_one_in_the_store(tmp_path: Path) -> None:
    result = compared(tmp_path, "mock:char3,precision=ubinary", "mock:char3,dim=64,precision=int8")

    # 40 documents and 40 queries: A embeds them, B finds them
    assert result["measured"]["texts_embedded"] == {"A": 80, "B": 0, "BM25": 0}
    assert result["measured"]["texts_cached"] == {"A": 0, "B": 80, "BM25": 0}


def test_a_reader_is_told_how_quantised_vectors_were_searched(tmp_path: Path) -> None:
    result = compared(
        tmp_path, "mock:char3,precision=ubinary,rescore=no", "mock:char3,precision=int8"
    )

    a, b, _ = (system["details"] for system in result["systems"])
    assert a["searched by"] == "Hamming distance"
    assert b["searched by"] == (
        "inner product of the codes; the first 40 ordered anew by the float query and the "
        "quantised document"
    )


def test_given_vectors_can_be_quantised(tmp_path: Path) -> None:
    import numpy as np

    from embed_ab.providers.mock import MockEmbedder

    loaded = evalset.load(demo_folder("en"))
    model = MockEmbedder("char3")
    np.savez(
        tmp_path / "v.npz",
        document_ids=np.array(loaded.document_ids),
        documents=model.embed(loaded.document_texts, "document").vectors,
        query_ids=np.array(loaded.query_ids),
        queries=model.embed(loaded.query_texts, "query").vectors,
    )

    result = compared(
        tmp_path, "mock:char3,precision=int8", f"vectors:{tmp_path}/v.npz,precision=int8"
    )

    assert all(d["ties"] == 40 for d in result["differences"])
    assert result["systems"][1]["bytes_per_vector"] == 256


def test_no_score_of_codes_is_taken_for_a_cosine() -> None:
    """Inner products of int8 codes are in the thousands; all above 0.99 says nothing."""
    settings = resolve(
        {"model-a": "mock:char3,precision=int8,rescore=no", "model-b": "mock:char3"}, config=None
    )

    comparison, ranked = compare_evalset(evalset.load(demo_folder("en")), settings)

    scores = ranked["A"].run.scores
    assert scores[:, :40].min() > 0.99
    assert "near_random_model" not in {caution.code for caution in comparison.cautions}


def test_ties_of_distances_in_bits_are_not_laid_to_identical_texts(tmp_path: Path) -> None:
    result = compared(tmp_path, "mock:char3", "mock:char3,precision=ubinary,rescore=no")

    (tied,) = (c for c in result["cautions"] if c["code"] == "tied_at_cutoff")
    assert "vectors of one bit a dimension are the usual cause" in tied["advice"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mock:char3,precision=int4", "precision=int4 is not one of float32, int8, ubinary"),
        ("mock:char3,precision=int8,rescore=true", "rescore=true is not one of yes, no, N"),
        ("mock:char3,precision=int8,rescore=0", "rescore=0 is not one of yes, no, N"),
        ("mock:char3,rescore=no", "rescore has no meaning for vectors of full precision"),
        ("mock:char3,precision=float32,rescore=yes", "rescore has no meaning"),
        ("bm25:auto,precision=int8", "unknown option 'precision'"),
    ],
)
def test_options_without_a_meaning_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        SystemSpec.parse(text)


@pytest.mark.parametrize("provider", ["st", "openai", "ollama", "vectors"])
def test_every_provider_with_vectors_takes_them(provider: str) -> None:
    spec = SystemSpec.parse(f"{provider}:x,dim=8,precision=ubinary,rescore=no")

    assert (spec.precision, spec.n_rescored(10)) == ("ubinary", 0)


def test_how_many_are_rescored() -> None:
    assert SystemSpec.parse("mock:word,precision=int8").n_rescored(10) == 40
    assert SystemSpec.parse("mock:word,precision=int8,rescore=25").n_rescored(10) == 25
    asked = {"provider": "mock", "name": "word", "precision": "int8", "rescore": 25}
    assert SystemSpec.parse(asked).n_rescored(10) == 25  # as YAML has it
    assert SystemSpec.parse("mock:word").n_rescored(10) == 0


def test_yaml_may_say_no_without_quotes(tmp_path: Path) -> None:
    config = tmp_path / "c.yml"
    config.write_text(
        "model-a: {provider: mock, name: word, precision: int8, rescore: no}\n", "utf-8"
    )

    assert str(resolve({}, config=config).model_a) == "mock:word,precision=int8,rescore=no"


def test_parity_refuses_what_it_would_not_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["parity", str(demo_folder("en")), "-a", "mock:word", "-b", "mock:word,precision=int8"]

    assert main(words) == 2
    assert "parity looks at vectors before they are quantised" in capsys.readouterr().err
