"""`embed-ab rerank` on the command line: several first stages, scores from files and servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_reranker import FakeReranker, edit_results, fake_score

from embed_ab import commands
from embed_ab.cli import main
from embed_ab.commands import for_one_first_stage, reranking
from embed_ab.errors import EvalsetError, InputError, ProviderError
from embed_ab.evalset import load
from embed_ab.providers.base import PLAIN_TEXT
from embed_ab.providers.cache import VectorStore
from embed_ab.registry import EMBEDDERS, RERANKERS, Side
from embed_ab.retrieved import Retrieved
from embed_ab.settings import resolve
from embed_ab.system_spec import SystemSpec
from embed_ab.systems import retrieve

DOCUMENTS = {
    "d1": "the pump starts by hand",
    "d2": "the pump stops when the tank is full",
    "d3": "invoices are due in May",
    "d4": "the valve opens by hand",
}
QUERIES = {
    "q1": "how does the pump start",
    "q2": "when does the pump stop",
    "q3": "how do I open the valve",
    "q4": "what is due in May",
}
GRADES = [("q1", "d1", 2), ("q2", "d2", 1), ("q3", "d3", 1), ("q4", "d3", 0)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of q3 the relevant document is one that no stage finds; q4 has none."""
    folder = tmp_path / "set"
    folder.mkdir()
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    rows = [f"{query}\t{document}\t{grade}" for query, document, grade in GRADES]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return folder


@pytest.fixture
def first(tmp_path: Path) -> str:
    """A first stage: three candidates of each query in one order, d3 only for q4."""
    path = tmp_path / "first.trec"
    rows = [
        f"{query} Q0 {document} {rank} {9 - rank} first\n"
        for query in QUERIES
        for rank, document in enumerate(["d4", "d2", "d3" if query == "q4" else "d1"], start=1)
    ]
    path.write_text("".join(rows))
    return f"run:{path}"


def scores_of(folder: Path, scores: dict[str, dict[str, float]]) -> str:
    path = folder.parent / "scores.tsv"
    rows = [f"{q}\t{d}\t{score}\n" for q, of in scores.items() for d, score in of.items()]
    path.write_text("".join(rows))
    return f"scores:{path}"


RIGHT = {
    "q1": {"d1": 0.9, "d2": 0.2, "d4": 0.1},
    "q2": {"d1": 0.3, "d2": 0.2, "d4": 0.1},
    "q3": {"d1": 0.1, "d2": 0.2, "d4": 0.9, "d3": 5.0},
    "q4": {"d3": 0.1, "d2": 0.2, "d4": 0.3},
}


ALL = {query: dict.fromkeys(DOCUMENTS, 1.0) for query in QUERIES}


def run(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    out = folder.parent / "out"
    code = main(["rerank", str(folder), *words, "--bm25", "none", "--out", str(out)])
    place = out / "result.json"
    return code, json.loads(place.read_text("utf-8")) if code == 0 else {}


def test_a_reranker_with_scores_from_a_file(folder: Path, first: str) -> None:
    """nDCG@3 of A: q1 third 1/2, q2 second 1/L = 0.630930, q3 0: mean 0.376977. B: q1 first 1, q2
    second as before, q3 0: 0.543643. At best 1, 1, 0: 0.666667, so B went 0.166667 of 0.289690.
    """
    words = ["--first-stage", first, "--depth", "3", "-k", "3", "-b", scores_of(folder, RIGHT)]

    code, found = run(folder, *words)

    assert code == 0
    assert [s["means"]["ndcg@3"] for s in found["systems"]] == pytest.approx(
        [0.376977, 0.543643], abs=1e-6
    )
    ceilings = {c["metric"]: c for c in found["candidates"]["ceilings"]}
    assert ceilings["ndcg@3"]["ceiling"] == pytest.approx(2 / 3)
    assert ceilings["ndcg@3"]["way"] == pytest.approx(0.575328, abs=1e-6)
    assert (ceilings["recall@3"]["ceiling"], ceilings["recall@3"]["way"]) == (
        pytest.approx(2 / 3),
        None,
    )
    candidates = {key: found["candidates"][key] for key in ("depth", "out_of_reach", "same_for_a")}
    assert candidates == {"depth": 3, "out_of_reach": ["q3"], "same_for_a": True}
    assert found["candidates"]["recall"] == pytest.approx(2 / 3)
    assert (found["evalset"]["n_evaluated"], found["evalset"]["n_excluded"]) == (3, 1)


def test_sides_that_order_other_candidates_are_an_error(
    folder: Path, first: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They share a first stage, so that only a fault of ours can come to this."""
    monkeypatch.setattr("embed_ab.rerank.differing", lambda before, after: np.array([0]))
    words = ["--first-stage", first, "--depth", "3", "-b", scores_of(folder, RIGHT)]

    code, _ = run(folder, *words)

    assert code == 3
    assert "A and B did not order the same candidates" in capsys.readouterr().err


def test_every_surface_says_how_far_reordering_can_go(
    folder: Path, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--first-stage", first, "--depth", "3", "-k", "3", "-b", scores_of(folder, RIGHT)]

    run(folder, *words)

    out = folder.parent / "out"
    surfaces = [
        capsys.readouterr().out,
        (out / "comment.md").read_text("utf-8"),
        (out / "report.html").read_text("utf-8"),
    ]
    for surface in surfaces:
        assert "57.5%" in surface
        assert "1 of 3 queries have none there, and no order helps them." in surface
        assert "q3" in surface
    assert main(["report", str(out / "result.json"), "--out", str(out / "again")]) == 0
    again = (out / "again" / "report.html").read_text("utf-8")
    assert again == (out / "report.html").read_text("utf-8")


def test_the_command_it_names_repeats_it(folder: Path, first: str) -> None:
    import shlex

    code, found = run(
        folder, "--first-stage", first, "--depth", "3", "-b", scores_of(folder, RIGHT)
    )
    words = shlex.split(found["command"])

    again = folder.parent / "again"
    assert (code, words[:2]) == (0, ["embed-ab", "compare"])
    assert main([*words[1:], "--out", str(again)]) == 0
    repeated = json.loads((again / "result.json").read_text("utf-8"))
    assert {**repeated, "measured": {}} == {**found, "measured": {}}


@pytest.mark.parametrize("shape", ["jina", "tei"])
def test_a_reranker_behind_a_server(
    folder: Path, shape: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first stage is a practice model, and the server's scores are read off its vectors."""
    name = "http:reranker" + (",shape=tei" if shape == "tei" else "")
    with FakeReranker(shape) as server:
        monkeypatch.setenv("RERANK_BASE_URL", server.url)
        code, found = run(folder, "--first-stage", "mock:word", "--depth", "4", "-b", name)

    assert code == 0
    shown = {d["query"]: [hit["document"] for hit in d["b"]] for d in found["details"]}
    for query, ranked in shown.items():
        scores = {d: fake_score(QUERIES[query], text) for d, text in DOCUMENTS.items()}
        assert ranked == sorted(scores, key=lambda d: (-scores[d], d))
    asked = [body["query"] for body in server.bodies]
    assert (asked[0], sorted(asked[1:])) == (PLAIN_TEXT, sorted(QUERIES.values()))
    assert found["measured"]["rerank_ms"]["B"]["n"] == 4


def test_two_rerankers_of_one_first_stage(folder: Path, first: str) -> None:
    scores = scores_of(folder, RIGHT)

    code, found = run(folder, "--first-stage", first, "--depth", "3", "-a", scores, "-b", scores)

    assert code == 0
    assert [s["system"] for s in found["systems"]] == [f"rerank({first}, {scores}; depth=3)"] * 2
    assert {(d["wins"], d["losses"]) for d in found["differences"]} == {(0, 0)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-b", "ce:x"], "rerank needs --first-stage"),
        (["--first-stage", "mock:word"], "rerank needs -b"),
        (["--first-stage", "mock:word", "-b", "none", "--depth", "0"], "--depth 0 is below 1"),
        (["--first-stage", "ce:x", "-b", "none"], "'ce:x' only orders what another system found"),
        (["--first-stage", "mock:word", "-b", "mock:word"], "'mock:word' is not a reranker"),
        (["--first-stage", "mock:word", "-b", "http://h:1"], "'http://h:1' is an address"),
        (
            ["--first-stage", "mock:word", "-b", "none", "--b-query-prompt", "q: "],
            "--b-query-prompt has no meaning for a reranker",
        ),
        (
            ["--first-stage", "mock:word", "-b", "none", "--b-price-per-million-tokens", "1"],
            "--b-price-per-million-tokens has no meaning for a reranker",
        ),
        (["--expect", "x"], "--expect is for --fixture"),
        (["--first-stage", "mock:word", "-b", "http:x"], "RERANK_BASE_URL is not set"),
        (["--first-stage", "mock:word", "-b", "http:x,shape=bge"], "shape=bge is not known"),
        (["--first-stage", "mock:word", "-b", "scores:no.tsv"], "scores:no.tsv: no such file"),
        (["--first-stage", "mock:word", "-b", "ce:./no"], "./no: there is no such folder"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *words)[0] == 2
    assert said in capsys.readouterr().err


def test_a_candidate_without_a_score_ends_the_run(
    folder: Path, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = scores_of(folder, {**RIGHT, "q2": {"d1": 1.0}})

    assert run(folder, "--first-stage", first, "--depth", "3", "-b", scores)[0] == 2
    assert "no score for query 'q2' and its candidate 'd4' (2 of" in capsys.readouterr().err


def test_a_server_that_fails_is_named_with_the_query(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeReranker() as server:
        # The first answer is to the text that every server gets, before anything is ranked.
        server.script.extend([edit_results(lambda results: None), edit_results(list.clear)])
        monkeypatch.setenv("RERANK_BASE_URL", server.url)
        code, _ = run(folder, "--first-stage", "mock:word", "-b", "http:reranker")

    assert code == 3
    assert "http:reranker: query 'q1': model 'reranker'" in capsys.readouterr().err


def ranked(folder: Path, verb: str, reranker: str) -> list[tuple[Any, ...]]:
    """Compare a first stage that embeds with its reranked form; return the progress it made."""
    seen: list[tuple[Any, ...]] = []
    reranked = f"rerank(mock:word, {reranker}; depth=2)"
    given: dict[str, Any] = {"eval-path": str(folder), "no-positive": "exclude"}
    given["out"] = str(folder.parent / "out")

    def on_progress(*what: Any) -> None:
        seen.append(what)

    try:
        if verb == "matrix":
            named = ["mock:word", f"rrf({reranked}, bm25:auto)"]
            commands.matrix(resolve(given, config=None), named, on_progress=on_progress)
        else:
            pair = (
                reranking("mock:word", "none", reranker, 2, {})
                if verb == "rerank"
                else {"model-a": "mock:word", "model-b": reranked}
            )
            commands.compare(resolve(given | pair, config=None), on_progress=on_progress)
    except (InputError, ProviderError) as error:
        seen.append((type(error), str(error)))
    return seen


@pytest.mark.parametrize("verb", ["rerank", "compare", "matrix"])
def test_a_reranker_is_asked_before_anything_is_embedded(
    folder: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No progress is told before the error, and nothing but one pair of short texts is sent."""
    scores = scores_of(folder, {"q1": {"elsewhere": 1.0}})
    with FakeReranker(models=("other",)) as server:
        monkeypatch.setenv("RERANK_BASE_URL", server.url)
        [(kind, said)] = ranked(folder, verb, "http:reranker")
        [(kind_of_file, said_of_file)] = ranked(folder, verb, scores)

    assert (kind, kind_of_file) == (ProviderError, EvalsetError)
    assert said.startswith("http:reranker: POST http://127.0.0.1:")
    assert "answered 404" in said
    assert "document 'elsewhere': the evaluation set has no such document" in said_of_file
    assert [(b["query"], b["documents"]) for b in server.bodies] == [(PLAIN_TEXT, [PLAIN_TEXT])]


@pytest.mark.parametrize("verb", ["rerank", "compare", "matrix"])
def test_a_query_without_scores_is_named_before_anything_is_embedded(
    folder: Path, verb: str
) -> None:
    scores = scores_of(folder, {query: ALL[query] for query in ("q1", "q4")})

    [(kind, said)] = ranked(folder, verb, scores)

    assert kind is EvalsetError
    assert said.endswith("scores.tsv: no score for query 'q2' (2 of 4 queries have none)")


def test_a_query_without_candidates_needs_no_scores(folder: Path, first: str) -> None:
    path = Path(first.removeprefix("run:"))
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("q1")), "utf-8")
    scores = scores_of(folder, {query: RIGHT[query] for query in ("q2", "q3", "q4")})

    assert run(folder, "--first-stage", first, "--depth", "3", "-b", scores)[0] == 0


def test_a_reranker_of_both_sides_is_asked_once_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (f"rerank(mock:{of}, http:reranker; depth=2)" for of in ("word", "char3"))
    words = ["-a", a, "-b", b, "--no-positive", "exclude", "--out", str(folder.parent / "out")]
    with FakeReranker() as server:
        monkeypatch.setenv("RERANK_BASE_URL", server.url)
        assert main(["compare", str(folder), *words]) == 0

    assert [body["query"] for body in server.bodies].count(PLAIN_TEXT) == 1


def test_a_server_that_cannot_be_told_not_to_shorten_is_said_in_a_matrix_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RERANK_BASE_URL", "http://127.0.0.1:9")
    system = "rerank(mock:word, http:x)"
    aside = ["--no-positive", "exclude", "--no-truncate"]
    for verb, pair in (
        ("matrix", ["bm25:auto", system]),
        ("compare", ["-a", "bm25:auto", "-b", system]),
    ):
        assert main([verb, str(folder), *pair, *aside]) == 2
        assert "--no-truncate cannot be kept by http:x" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("system", "reached"),
    [
        ("st:a/b,dim=256", ["st:a/b,dim=256"]),
        ("rrf(st:a/b, bm25:auto)", ["st:a/b"]),
        ("rerank(st:a/b, none)", ["st:a/b"]),
        ("rerank(st:a/b, http:x)", ["st:a/b"]),
        ("rerank(st:a/b, ce:c/d)", ["ce:c/d"]),
        ("rerank(rrf(st:a/b, st:e/f), ce:c/d)", ["ce:c/d"]),
        ("rrf(st:a/b, st:e/f)", ["st:a/b", "st:e/f"]),
        ("rrf(rerank(st:a/b, ce:c/d), bm25:auto)", ["st:a/b", "ce:c/d"]),
        ("rerank(bm25:auto, http:x)", []),
    ],
)
def test_a_permission_is_for_one_model(system: str, reached: list[str]) -> None:
    """The reranker of a reranked system, else the only one; two or none are refused."""
    given = {"model-a": "bm25:auto", "model-b": system, "b-trust-remote-code": True}
    settings = resolve(given, config=None)

    assert [str(spec) for spec in SystemSpec.parse(system).permitted] == reached
    if len(reached) == 1:
        settings.check_sides()
        assert settings.side("B").trust_remote_code == tuple(reached)
        return
    said = "is for one model, and" if reached else "has no meaning for"
    with pytest.raises(InputError, match=f"--b-trust-remote-code {said}"):
        settings.check_sides()
    assert settings.side("B").trust_remote_code == ()


@pytest.mark.parametrize(
    ("flags", "trusted"),
    [
        ({"a-trust-remote-code": True}, (True, False)),
        ({"b-trust-remote-code": True}, (False, True)),
        ({"a-trust-remote-code": True, "b-trust-remote-code": True}, (True, True)),
        ({"b-allow-pickle": True}, (False, False)),
    ],
)
def test_the_permission_of_a_reranker_does_not_reach_the_first_stage(
    flags: dict[str, Any], trusted: tuple[bool, bool]
) -> None:
    """A is the first stage as it is, B the reranker; both sides treat the first stage alike."""
    found = reranking("st:a/b", "none", "ce:c/d", 50, flags)
    settings = for_one_first_stage(resolve(found | flags, config=None))
    sides = settings.side("A"), settings.side("B")
    first, reranker = SystemSpec.parse("st:a/b"), SystemSpec.parse_reranker("ce:c/d")

    settings.check_sides()

    assert sides[0] == sides[1]
    assert (
        EMBEDDERS["st"](first, sides[1]).trust_remote_code,  # type: ignore[attr-defined]
        RERANKERS["ce"](reranker, sides[1]).trust_remote_code,  # type: ignore[attr-defined]
    ) == trusted


def test_both_sides_are_the_first_stage_in_another_order() -> None:
    flags = {"a-query-prompt": "query: ", "b-query-prompt": None}

    found = reranking("st:a/b", "none", "ce:c/d", 50, flags)

    assert found == {
        "model-a": "rerank(st:a/b, none; depth=50)",
        "model-b": "rerank(st:a/b, ce:c/d; depth=50)",
    }


def test_prompts_of_the_settings_file_reach_both_first_stages(tmp_path: Path) -> None:
    """A's hold for both, whoever gave them; B's of the file are about another system."""
    config = tmp_path / "c.yml"
    config.write_text("a-query-prompt: 'query: '\nb-query-prompt: 'other: '\n")
    flags = reranking("st:a/b", "none", "ce:c/d", 50, {})

    settings = for_one_first_stage(resolve(flags, config=config))

    assert settings.side("A").query_prompt == settings.side("B").query_prompt == "query: "


def test_the_price_of_the_first_stage_holds_for_both_so_that_it_is_embedded_once() -> None:
    flags = {"a-price-per-million-tokens": "0.02"}
    found = reranking("st:a/b", "none", "ce:c/d", 50, flags)

    settings = for_one_first_stage(resolve(found | flags, config=None))

    assert settings.side("A") == settings.side("B")
    assert settings.side("B").price_per_million_tokens == 0.02


def test_a_reranker_inside_a_hybrid_of_an_ordinary_comparison(folder: Path, first: str) -> None:
    """A is the first stage itself, deeper than B's candidates: both have the same first two."""
    b = f"rrf(rerank({first}, {scores_of(folder, RIGHT)}; depth=2), bm25:auto)"
    out = folder.parent / "out"
    words = ["-a", first, "-b", b, "--no-positive", "exclude", "--out", str(out)]

    assert main(["compare", str(folder), *words]) == 0

    found = json.loads((out / "result.json").read_text("utf-8"))
    assert found["candidates"] is None  # a hybrid adds documents
    assert "scores:" in found["systems"][1]["details"]["system 2"]


def test_a_first_stage_as_a_has_the_same_candidates(folder: Path, first: str) -> None:
    b = f"rerank({first}, {scores_of(folder, RIGHT)}; depth=2)"
    out = folder.parent / "out"
    words = ["-a", first, "-b", b, "--no-positive", "exclude", "--out", str(out)]

    assert main(["compare", str(folder), *words]) == 0

    found = json.loads((out / "result.json").read_text("utf-8"))["candidates"]
    assert (found["depth"], found["same_for_a"]) == (2, True)
    # A has a third document, which B cannot have: at 10 they do not order the same ones.
    assert {ceiling["way"] for ceiling in found["ceilings"]} == {None}


def test_the_first_stage_is_retrieved_once_for_both_sides(folder: Path) -> None:
    evalset = load(folder, no_positive="exclude")
    shared: dict[str, Retrieved] = {}
    store = VectorStore.open(None)

    a, b = (
        retrieve(
            SystemSpec.parse(f"rerank(mock:word, {by}; depth=2)"),
            Side(),
            evalset,
            3,
            store,
            lambda *_: None,
            shared=shared,
        )
        for by in ("none", scores_of(folder, ALL))
    )
    store.close()

    assert a.system.parts[0] is b.system.parts[0]
