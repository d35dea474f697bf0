"""A result file that somebody changed is refused before anything shows it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from embed_ab import commands, result_json
from embed_ab.errors import InputError
from embed_ab.settings import resolve

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a real comparison wrote."""
    folder = tmp_path_factory.mktemp("result")
    settings = resolve({"out": str(folder), "gate": "ndcg@10:0.5"}, config=None)
    commands.demo("en", settings, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    read: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))
    return read


def said_of(text: str) -> str:
    with pytest.raises(InputError) as e:
        result_json.loads(text.encode("utf-8", "surrogatepass"), "result.json")
    return str(e.value).removeprefix("result.json: ")


def first(name: str, **new: Any) -> Change:
    return lambda r: r[name][0].update(new)


def of_evalset(**new: Any) -> Change:
    return lambda r: r["evalset"].update(new)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (first("differences", low="NaN"), "differences.0.low: Input should be a valid number"),
        (first("differences", wins="17"), "differences.0.wins: Input should be a valid integer"),
        (first("differences", wins=True), "differences.0.wins: Input should be a valid integer"),
        (first("differences", wins=17.0), "differences.0.wins: Input should be a valid integer"),
        (
            first("differences", wins=-17, ties=44),
            "metric 'ndcg@10': wins, losses and ties are not all the queries",
        ),
        (
            first("differences", wins=18),
            "metric 'ndcg@10': wins, losses and ties are not all the queries",
        ),
        (
            first("differences", n_units=0),
            "metric 'ndcg@10': there are fewer queries than groups of them, or none",
        ),
        (
            first("differences", n_units=41),
            "metric 'ndcg@10': there are fewer queries than groups of them, or none",
        ),
        (first("differences", mean_a=1.1), "metric 'ndcg@10': a mean is outside 0 to 1"),
        (
            first("differences", difference=-1e308),
            "metric 'ndcg@10': the difference is outside -1 to 1, or its deviation below 0",
        ),
        (
            first("differences", sd=-0.1),
            "metric 'ndcg@10': the difference is outside -1 to 1, or its deviation below 0",
        ),
        (first("differences", low=-2), "metric 'ndcg@10': the interval is none of a difference"),
        (first("differences", low=0.5), "metric 'ndcg@10': the interval is none of a difference"),
        (first("differences", level=1.0), "metric 'ndcg@10': the interval is none of a difference"),
        (
            first("differences", detectable=1e300),
            "metric 'ndcg@10': the detectable difference is none",
        ),
        (first("differences", p_holm=2), "metric 'ndcg@10': a p-value is outside 0 to 1"),
        (first("gates", margin=1.0), "the gate on ndcg@10 has a number that is none of a gate"),
        (first("gates", high=7), "the gate on ndcg@10 has a number that is none of a gate"),
        (first("gates", metric="hit@1"), "differences or queries are missing"),
        (first("systems", means={"ndcg@10": 3}), "A has a mean outside 0 to 1"),
        (first("systems", corpus_bytes=-1), "something was measured to be below 0"),
        (
            lambda r: r["measured"].update(query_ms={"A": {"p50": 1.0, "p95": -1.0, "n": 1}}),
            "something was measured to be below 0",
        ),
        (
            lambda r: r["measured"].update(price={"A": "**free**"}),
            "measured.price.A: Input should be a valid number",
        ),
        (of_evalset(n_documents=-1), "the evaluation set has a count below 0"),
        (
            lambda r: r["systems"].append(r["systems"][2]),
            "the systems are not A and B, perhaps with BM25",
        ),
        (
            lambda r: r["systems"].reverse(),
            "the systems are not A and B, perhaps with BM25",
        ),
        (first("queries", rank_a=0), "query 'en-q01' has a rank below 1"),
        (first("queries", rank_b=-3), "query 'en-q01' has a rank below 1"),
        (first("queries", unjudged_b=-1), "query 'en-q01' has a count below 0"),
        (first("queries", truncated=["BM25"]), "queries.0.truncated.0: Input should be 'A' or 'B'"),
        (lambda r: r.update(depth=0), "the runs have a depth below 1"),
        (lambda r: r["differences"].append(r["differences"][0]), "a metric has two differences"),
        (lambda r: r.update(outcome="great"), "outcome: Input should be 'pass', 'fail' or 'inc"),
    ],
)
def test_what_no_comparison_writes_is_refused(
    result: dict[str, Any], change: Change, said: str
) -> None:
    content = copy.deepcopy(result)
    change(content)

    assert said_of(json.dumps(content)).startswith(said)


@pytest.fixture(scope="module")
def reranked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a comparison of two orders of one first stage's candidates wrote."""
    folder = tmp_path_factory.mktemp("reranked")
    sides = {f"model-{s}": f"rerank(bm25:auto, {by}; depth=5)" for s, by in ORDERS.items()}
    words = {"eval-path": str(commands.demo_folder("en")), "metrics": "ndcg", "bm25": "none"}
    commands.compare(resolve({**words, **sides, "out": str(folder)}, config=None))
    read: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))
    return read


ORDERS = {"a": "none", "b": "none"}


def candidates(**new: Any) -> Change:
    return lambda r: r["candidates"].update(new)


def ceiling(**new: Any) -> Change:
    return lambda r: r["candidates"]["ceilings"][0].update(new)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (candidates(depth=0), "the depth or the recall is none"),
        (candidates(recall=1.5), "the depth or the recall is none"),
        (candidates(ceilings=[]), "the metrics are not those of the differences"),
        (candidates(out_of_reach=["q"]), "a query out of reach is not among the queries"),
        (
            candidates(out_of_reach=["en-q39", "en-q39"]),
            "a query out of reach is not among the queries, or is there twice",
        ),
        (ceiling(ceiling=1.1), "the ceiling of ndcg@10 is outside 0 to 1 or below B"),
        (ceiling(ceiling=0.1), "the ceiling of ndcg@10 is outside 0 to 1 or below B"),
        (ceiling(way=0.5), "the way to the ceiling of ndcg@10 is not that of its numbers"),
        (candidates(same_for_a=False), "the way to the ceiling of ndcg@10 is not that of"),
    ],
)
def test_candidates_that_no_comparison_writes_are_refused(
    reranked: dict[str, Any], change: Change, said: str
) -> None:
    content = copy.deepcopy(reranked)
    change(content)

    assert said_of(json.dumps(content)).startswith(f"candidates: {said}")


def test_candidates_survive_writing_and_reading(reranked: dict[str, Any]) -> None:
    read = result_json.loads(json.dumps(reranked).encode(), "result.json")

    assert json.loads(result_json.dumps(read)) == reranked
    assert read.candidates is not None
    assert read.candidates.ceilings[0].way == 0.0


def test_a_result_from_before_there_were_candidates_is_read(result: dict[str, Any]) -> None:
    older = {key: value for key, value in result.items() if key != "candidates"}

    read = result_json.loads(json.dumps(older).encode(), "result.json")

    assert read.candidates is None


@pytest.mark.parametrize("name", ["nDCG@10", "ndcg@010", "ndcg", "**x**", "| x", "ndcg@99999"])
def test_a_metric_is_named_in_one_way_only(result: dict[str, Any], name: str) -> None:
    text = json.dumps(result).replace("ndcg@10", name)

    assert said_of(text) == f"metric {name!r}: this is not how a metric is written"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"x": NaN}', "NaN is not a finite number"),
        ('{"x": -Infinity}', "-Infinity is not a finite number"),
        ('{"x": 1e999}', "1e999 is not a finite number"),
        ('{"x": 0.' + "1" * 999 + "}", "0.1111111111111111111111111111111111111… is not a finite"),
        ('{"x": 1' + "0" * 9999 + "}", "100000000000000000000000000000000000000… is too large a"),
        ('{"x": "\\ud800"}', "'utf-8' codec can't encode character"),
        ('{"\\ud800": 1}', "'utf-8' codec can't encode character"),
        ('{"x": "\ud800"}', "byte 7 is not UTF-8"),
        ('{"x": ' + "[" * 999_999, "nested too deeply for a result"),
        ('{"schema_version": "' + "x" * 999 + '"}', "schema_version is 'xxx"),
        ('{"schema_version": 1, "version": 1}', "version: Input should be a valid string"),
    ],
)
def test_a_text_that_is_no_result_is_said_in_a_short_line(text: str, said: str) -> None:
    found = said_of(text)

    assert found.startswith(said)
    assert len(found) < 250


def test_a_result_nested_200_times_is_refused(result: dict[str, Any]) -> None:
    """Nothing that walks through the settings may run out of stack."""
    text = json.dumps(result | {"settings": {"x": "deep"}})

    said = said_of(text.replace('"deep"', "[" * 200 + "]" * 200))

    assert "recursion limit exceeded" in said


def test_a_place_in_an_error_is_short_whatever_keys_it_names(result: dict[str, Any]) -> None:
    content = copy.deepcopy(result)
    content["queries"][0]["a"]["x" * 10_000] = "no number"

    assert len(said_of(json.dumps(content))) < 500


def test_unknown_keys_are_of_a_newer_version_and_left_out(result: dict[str, Any]) -> None:
    text = json.dumps(result | {"invented": {"later": []}})

    assert result_json.loads(text.encode(), "x") == result_json.loads(
        json.dumps(result).encode(), "x"
    )


def test_a_byte_order_mark_is_no_fault(result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("\ufeff" + json.dumps(result), encoding="utf-8")

    assert result_json.load(path).primary == "ndcg@10"
