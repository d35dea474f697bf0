"""`embed-ab matrix` as a user meets it: numbers, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embed_ab.cli import main
from embed_ab.commands import demo_folder

DEMO = str(demo_folder("en"))
SYSTEMS = ("mock:char3", "bm25:auto", "mock:word,precision=int8", "mock:char3,dim=64")


def matrix(tmp_path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    out = tmp_path / "matrix"
    assert main(["matrix", DEMO, *words, "--out", str(out)]) == code
    assert {path.name for path in out.iterdir()} == {"report.html", "result.json", "comment.md"}
    loaded: dict[str, Any] = json.loads((out / "result.json").read_text("utf-8"))
    return loaded


def test_numbers_are_those_of_compare_to_the_last_digit(tmp_path: Path) -> None:
    words = ["--metrics", "ndcg,recall@5,map", "-k", "7", "--seed", "3", "--gain", "linear"]

    found = matrix(tmp_path, *SYSTEMS, *words)

    assert [s["system"] for s in found["systems"]] == list(SYSTEMS)
    for contrast, system in zip(found["contrasts"], SYSTEMS[1:], strict=True):
        out = tmp_path / contrast["label"]
        given = ["compare", DEMO, "-a", SYSTEMS[0], "-b", system, "--bm25", "none", *words]
        assert main([*given, "--out", str(out)]) == 0
        pair = json.loads((out / "result.json").read_text("utf-8"))
        for mine, theirs in zip(contrast["differences"], pair["differences"], strict=True):
            assert mine.pop("p_holm") >= theirs.pop("p_holm")
            assert mine == theirs
        assert contrast["overlap"] == pair["overlap"]
        assert [q["values"][contrast["label"]] for q in found["queries"]] == [
            q["b"] for q in pair["queries"]
        ]
        record = next(s for s in found["systems"] if s["label"] == contrast["label"])
        assert {**record, "label": "B"} == pair["systems"][1]


def test_the_same_input_and_seed_give_the_same_bytes_but_for_what_is_measured(
    tmp_path: Path,
) -> None:
    first, second = (matrix(tmp_path / name, *SYSTEMS) for name in ("1", "2"))

    assert first.pop("measured")["texts_embedded"]["A"] == 80
    assert second.pop("measured")["texts_embedded"]["A"] == 0
    assert json.dumps(first) == json.dumps(second)


def test_every_surface_says_what_the_candidates_of_a_reranked_system_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of BM25's first three; the best order of them is what a comparison says it is."""
    reranked = "rerank(bm25:auto, none; depth=3)"

    found = matrix(tmp_path, "mock:char3", "mock:word", reranked)

    terminal = capsys.readouterr().out
    assert main(["compare", DEMO, "-a", "mock:char3", "-b", reranked, "--out", str(tmp_path)]) == 0
    pair = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert [c["candidates"] for c in found["contrasts"]] == [None, pair["candidates"]]
    best = {c["metric"]: f"{c['ceiling']:.3f}" for c in pair["candidates"]["ceilings"]}
    out = tmp_path / "matrix"
    for surface in (
        terminal,
        (out / "report.html").read_text("utf-8"),
        (out / "comment.md").read_text("utf-8"),
    ):
        assert "best ndcg@10" in surface
        assert best["ndcg@10"] in surface
        assert "relevant documents among them" in surface


def test_the_baseline_can_be_any_of_them(tmp_path: Path) -> None:
    found = matrix(tmp_path, *SYSTEMS[:3], "--baseline", "bm25:auto")

    assert [(s["label"], s["system"]) for s in found["systems"]] == [
        ("A", "bm25:auto"),
        ("B", "mock:char3"),
        ("C", "mock:word,precision=int8"),
    ]
    assert found["command"].startswith(
        f"embed-ab matrix {DEMO} bm25:auto mock:char3 mock:word,precision=int8"
    )


def test_the_verdict_of_the_demo_is_that_mocks_are_worse_than_bm25(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = matrix(tmp_path, "bm25:auto", "mock:char3", "mock:word")

    sentence = "Compared with A by ndcg@10, worse: B, C (Holm-adjusted over 8 tests, at 5%)."
    assert found["verdict"] == sentence
    assert capsys.readouterr().out.startswith(sentence)


def test_each_system_is_retrieved_once(tmp_path: Path) -> None:
    found = matrix(tmp_path, "mock:char3", "mock:char3,dim=64", "mock:char3,precision=ubinary")

    # 40 documents and 40 queries are embedded for the first; the others find them in the store
    assert found["measured"]["texts_embedded"] == {"A": 80, "B": 0, "C": 0}
    assert [s["bytes_per_vector"] for s in found["systems"]] == [1024, 256, 32]


def test_settings_of_a_and_b_in_the_file_are_left_aside_and_said(tmp_path: Path) -> None:
    config = tmp_path / "c.yml"
    config.write_text(
        "model-a: mock:char3\na-query-prompt: 'q: '\ngate: ndcg@10:0.02\nk: 5\nbm25: none\n",
        "utf-8",
    )

    found = matrix(tmp_path, "bm25:auto", "mock:word", "--config", str(config))

    assert found["notes"] == [
        "settings that a matrix does not use were left aside: a-query-prompt, bm25, gate, model-a"
    ]
    assert "k" in found["settings"]
    assert not {"gate", "model-a"} & set(found["settings"])
    assert found["primary"] == "ndcg@5"


def test_run_files_are_written_for_every_system(tmp_path: Path) -> None:
    matrix(tmp_path, *SYSTEMS, "--runs", str(tmp_path / "runs"))

    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        *("a.trec", "b.trec", "c.trec", "d.trec", "qrels.trec"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bm25:auto"], "1 system for a matrix"),
        (["bm25:auto", "mock:word", "bm25:auto"], "bm25:auto is named twice"),
        (["bm25:auto", "mock:word", "--baseline", "bm25:word"], "bm25:word is none of the systems"),
        (["bm25:auto", "nonsense"], "'nonsense' is not a system"),
        ([f"mock:word,dim={n}" for n in range(1, 28)], "27 systems for a matrix"),
    ],
)
def test_what_cannot_be_compared_is_exit_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matrix", DEMO, *words]) == 2
    assert said in capsys.readouterr().err


def test_no_prompt_of_a_side_can_be_given() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["matrix", DEMO, *SYSTEMS, "--a-query-prompt", "x"])

    assert ended.value.code == 2


@pytest.mark.parametrize("verb", ["report", "gate"])
def test_a_matrix_is_not_taken_for_a_comparison(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix(tmp_path, *SYSTEMS)
    words = [verb, str(tmp_path / "matrix" / "result.json")]
    words += ["--fail-if-worse", "ndcg@10:0.1"] if verb == "gate" else []

    assert main(words) == 2
    assert "the result of `embed-ab matrix`, not of a comparison" in capsys.readouterr().err


def test_results_without_out_go_where_those_of_compare_go(
    cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matrix", DEMO, "bm25:auto", "mock:word"]) == 0

    place = Path(capsys.readouterr().out.split("json: ")[1].splitlines()[0])
    assert place.is_relative_to(cache_dir / "reports")
    assert json.loads(place.read_text("utf-8"))["kind"] == "matrix"
