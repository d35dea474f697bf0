"""Run files and hybrids as systems, through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from embed_ab import commands, evalset, fusion, runs
from embed_ab.cli import main
from embed_ab.errors import InputError
from embed_ab.providers.cache import VectorStore
from embed_ab.runs import Run
from embed_ab.settings import file_schema, resolve
from embed_ab.system_spec import SystemSpec
from embed_ab.systems import Side, retrieve


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the demo in `eval`, and in `runs` what mock:word (a) and BM25 (b) rank."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--export", "eval"]) == 0
    assert (
        main(
            [
                *[
                    "compare",
                    "eval",
                    "-a",
                    "mock:word",
                    "-b",
                    "bm25:auto",
                    "--runs",
                    "runs",
                    "--out",
                    "first",
                ]
            ]
        )
        == 0
    )
    return tmp_path


def compared(a: str, b: str, *flags: str, code: int = 0) -> dict[str, Any]:
    assert main(["compare", "eval", "-a", a, "-b", b, "--out", "out", *flags]) == code
    result: dict[str, Any] = json.loads(Path("out/result.json").read_text("utf-8"))
    return result


def codes(result: dict[str, Any]) -> set[str]:
    return {caution["code"] for caution in result["cautions"]}


def test_an_exported_run_is_the_system_it_came_from(place: Path) -> None:
    result = compared("mock:word", "run:runs/a.trec", "--metrics", "ndcg,recall,map@100,mrr")

    assert [d["difference"] for d in result["differences"]] == [0, 0, 0, 0]
    assert all(row["a"] == row["b"] for row in result["queries"])
    assert result["overlap"]["jaccard"] == 1


def test_a_run_file_in_json_lines_is_the_same_system(place: Path) -> None:
    rows = [line.split() for line in Path("runs/b.trec").read_text("utf-8").splitlines()]
    Path("b.jsonl").write_text(
        "".join(
            json.dumps({"query": row[0], "document": row[2], "score": float(row[4])}) + "\n"
            for row in reversed(rows)
        ),
        "utf-8",
    )

    result = compared("run:runs/b.trec", "run:b.jsonl")

    assert all(row["a"] == row["b"] for row in result["queries"])


def test_what_a_run_file_has_too_much_or_too_little_is_counted(place: Path) -> None:
    """Of 40 queries: the first one's lines are gone, one document is doubled, one is unknown."""
    lines = Path("runs/a.trec").read_text("utf-8").splitlines()
    first = lines[0].split()[0]
    kept = [line for line in lines if line.split()[0] != first]
    odd = [kept[0], kept[0].replace(kept[0].split()[2], "nowhere"), f"{first}-x Q0 d 1 1 a"]
    Path("odd.trec").write_text("\n".join([*kept, *odd]), "utf-8")

    result = compared("run:odd.trec", "mock:word")

    assert {"duplicate_hits", "unknown_documents", "missing_queries"} <= codes(result)
    details = result["systems"][0]["details"]
    assert details == {
        "hits in the file": f"{len(kept) + 3:,}",
        "hits of a document again": "1",
        "hits of unknown documents": "1",
        "hits for unknown queries": "1",
        "queries without a hit": "1",
    }
    (row,) = (row for row in result["queries"] if row["query"] == first)
    assert set(row["a"].values()) == {0}
    assert len(result["systems"][0]["revision"]) == 64


def test_a_run_cut_at_10_is_too_shallow_for_recall_at_20(place: Path) -> None:
    lines = Path("runs/a.trec").read_text("utf-8").splitlines()
    Path("top.trec").write_text("\n".join(x for x in lines if int(x.split()[3]) <= 10), "utf-8")

    assert "shallow_run" in codes(compared("run:top.trec", "mock:word", "--metrics", "recall@20"))
    assert "shallow_run" not in codes(compared("run:top.trec", "mock:word"))


def test_a_depth_that_is_not_reached_is_said(place: Path) -> None:
    """The set has 40 documents, the file ten for each query."""
    lines = Path("runs/a.trec").read_text("utf-8").splitlines()
    Path("top.trec").write_text("\n".join(x for x in lines if int(x.split()[3]) <= 10), "utf-8")

    result = compared("rrf(run:top.trec, mock:word)", "rerank(run:top.trec, none; depth=12)")

    n = len(result["queries"])
    a, b = (system["details"] for system in result["systems"][:2])
    assert (
        a["depth of run:top.trec"] == f"40 documents (fewer for {n} of {n} queries, which have 10)"
    )
    assert "depth of mock:word" not in a
    assert (
        b["reranked"]
        == f"the first 12 documents (fewer for {n} of {n} queries, which have 10), by none"
    )


def test_a_hybrid_of_models_is_that_of_their_run_files(place: Path) -> None:
    """Exported scores strictly decrease, so that both rank their constituents alike."""
    result = compared(
        "rrf(mock:word, bm25:auto; k=20)", "rrf(run:runs/a.trec, run:runs/b.trec; k=20)"
    )

    assert all(row["a"] == row["b"] for row in result["queries"])


@pytest.mark.parametrize(
    ("hybrid", "fused"),
    [
        ("rrf(A, B)", lambda a, b: fusion.rrf([a, b], k=60, depth=100, name="")),
        ("rrf(A, B; k=20)", lambda a, b: fusion.rrf([a, b], k=20, depth=100, name="")),
        (
            "rrf(A, B; depth=3)",
            lambda a, b: fusion.rrf([a.cut(3), b.cut(3)], k=60, depth=100, name=""),
        ),
        ("blend(A, B)", lambda a, b: fusion.blend([a, b], [1, 1], "minmax", depth=100, name="")),
        (
            "blend(A, B; weights=0.7,0.3; normalise=z)",
            lambda a, b: fusion.blend([a, b], [0.7, 0.3], "z", depth=100, name=""),
        ),
    ],
)
def test_the_options_of_a_hybrid_reach_it(
    place: Path, hybrid: str, fused: Callable[[Run, Run], Run]
) -> None:
    collection = evalset.load(Path("eval"))
    ids = collection.query_ids, collection.document_ids
    a, b = (runs.read(Path(f"runs/{name}.trec"), *ids).run for name in "ab")
    system = hybrid.replace("A", "run:runs/a.trec").replace("B", "run:runs/b.trec")

    assert main(["compare", "eval", "-a", system, "-b", "bm25:auto", "--runs", "out"]) == 0

    found, expected = runs.read(Path("out/a.trec"), *ids).run, fused(a, b)
    n_ranks = found.documents.shape[1]
    assert found.documents.tolist() == expected.documents[:, :n_ranks].tolist()
    is_found = found.documents >= 0
    # Ties are told apart in the file, by the last bit of a float32.
    assert found.scores[is_found] == pytest.approx(
        expected.scores[:, :n_ranks][is_found], rel=1e-5, abs=1e-6
    )


def test_a_hybrid_ranks_the_same_whatever_is_measured(place: Path) -> None:
    spec, store = SystemSpec.parse("blend(mock:word, bm25:auto; depth=15)"), VectorStore.open(None)

    few, many = (
        retrieve(spec, Side(), evalset.load(Path("eval")), depth, store, lambda *_: None).system.run
        for depth in (5, 30)
    )
    store.close()

    assert few.documents.tolist() == many.cut(5).documents.tolist()
    assert few.scores.tolist() == many.cut(5).scores.tolist()


def test_a_hybrid_says_what_it_is_made_of(place: Path) -> None:
    result = compared(
        "blend(mock:word, rrf(mock:char3,dim=64, bm25:auto); weights=0.7,0.3)", "bm25:auto"
    )

    system = result["systems"][0]
    assert system["is_mock"]
    assert system["details"] == {
        "joined by": "minmax scores of the first 40 documents of each, times 0.7 and 0.3; a "
        "document that one lacks gets 0 there",
        "system 1": "mock:word; 256 dimensions",
        "system 2": "mock:char3,dim=64; 64 dimensions",
        "system 3": "bm25:auto",
    }
    assert system["bytes_per_vector"] == 4 * (256 + 64)
    assert "mock_models" in codes(result)
    assert "blend(mock:word, rrf(mock:char3,dim=64, bm25:auto); weights=0.7,0.3)" in Path(
        "out/comment.md"
    ).read_text("utf-8").replace("\\", "")


def test_a_constituent_is_embedded_once(place: Path) -> None:
    """40 documents and 40 queries of mock:word, though it stands three times."""
    result = compared(
        "rrf(mock:word, mock:word, blend(mock:word, bm25:auto))", "bm25:auto", "--no-cache"
    )

    assert result["measured"]["texts_embedded"]["A"] == 80
    assert result["measured"]["texts_cached"]["A"] == 80  # once more, within the blend


def test_none_keeps_the_order_of_the_first_documents(place: Path) -> None:
    result = compared("mock:word", "rerank(mock:word, none; depth=20)")

    assert all(row["a"] == row["b"] for row in result["queries"])


def test_the_command_of_a_hybrid_repeats_it(place: Path) -> None:
    result = compared("mock:word", "rrf(mock:word, bm25:auto)")

    assert "-b 'rrf(mock:word, bm25:auto)'" in result["command"]


def test_the_settings_file_takes_a_hybrid_as_a_mapping(place: Path) -> None:
    text = (
        "eval-path: eval\nmodel-a: mock:word\n"
        "model-b:\n  provider: blend\n  systems: [mock:word, {provider: bm25, name: auto}]\n"
        "  weights: [0.7, 0.3]\n"
    )
    Path(".embed-ab.yml").write_text(text, "utf-8")
    jsonschema.validate(yaml.safe_load(text), file_schema())

    assert main(["compare", "--out", "out"]) == 0

    result = json.loads(Path("out/result.json").read_text("utf-8"))
    assert result["systems"][1]["system"] == "blend(mock:word, bm25:auto; weights=0.7,0.3)"


@pytest.mark.parametrize(
    ("system", "flags", "said"),
    [
        ("run:none.trec", [], "none.trec: no such file"),
        ("run:eval/corpus.jsonl", [], 'eval/corpus.jsonl:1: no "query" in the record'),
        ("run:eval/qrels.tsv", [], "eval/qrels.tsv:1: 3 column(s) instead of 6"),
        ("rrf(mock:word, bm25:autos)", [], "system 2 of rrf: unknown name 'autos'"),
        ("rrf(mock:word, bm25:auto)", ["--b-query-prompt", "x"], "--b-query-prompt has no meaning"),
        (
            "rrf(openai:x, ollama:y)",
            ["--b-doc-prompt", "x"],
            "--b-doc-prompt is for one model, and rrf(openai:x, ollama:y) has 2: openai:x and",
        ),
    ],
)
def test_a_wrong_system_is_an_input_error(
    place: Path, capsys: pytest.CaptureFixture[str], system: str, flags: list[str], said: str
) -> None:
    capsys.readouterr()

    assert main(["compare", "eval", "-a", "mock:word", "-b", system, *flags]) == 2

    printed = capsys.readouterr().err
    assert said in printed
    assert "hint: " in printed


@pytest.mark.parametrize("missing", ["run:no.trec", "vectors:no", "rrf(run:no.trec, bm25:auto)"])
def test_a_file_that_is_missing_is_said_before_the_other_system_works(missing: str) -> None:
    flags = {
        "eval-path": str(commands.demo_folder("en")),
        "model-a": "mock:char3",
        "model-b": missing,
        "cache": False,
    }
    stages: list[str] = []

    with pytest.raises(InputError, match="no such file or folder"):
        commands.compare(
            resolve(flags, config=None),
            on_progress=lambda what, done, total: stages.append(what),
        )

    assert stages == []
