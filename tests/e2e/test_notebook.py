"""The core from Python: one import, one call."""

from __future__ import annotations

import pytest

import embed_ab
from embed_ab.commands import demo_folder
from embed_ab.errors import InputError
from embed_ab.evalset import from_records


def test_compare_takes_a_folder_and_settings_by_their_python_names() -> None:
    comparison = embed_ab.compare(
        demo_folder("en"), "bm25:auto", "mock:word", k=5, gate=["ndcg:0.02"], bm25="none"
    )

    assert comparison.primary == "ndcg@5"
    assert [record.label for record in comparison.systems] == ["A", "B"]
    assert comparison._repr_html_().startswith("<iframe")


def test_compare_takes_a_set_in_memory() -> None:
    evalset = from_records({1: "red apple", 2: "green pear"}, {"q": "apple"}, {"q": {1: 1}})

    comparison = embed_ab.compare(evalset, "bm25:word", "mock:char3", k=1, cache=False)

    assert comparison.queries[0].a["hit@1"] == 1.0


def test_an_unknown_setting_is_an_input_error() -> None:
    with pytest.raises(InputError, match="there is no setting 'colour'"):
        embed_ab.compare(demo_folder("en"), "bm25:auto", "mock:word", colour="red")


def test_a_setting_about_files_is_an_input_error() -> None:
    with pytest.raises(InputError, match="out is for the command line"):
        embed_ab.compare(demo_folder("en"), "bm25:auto", "mock:word", out="x")


def test_a_setting_about_reading_a_folder_is_refused_for_a_set_in_memory() -> None:
    evalset = from_records({"d": "x"}, {"q": "x"}, {"q": {"d": 1}})

    with pytest.raises(InputError, match="split is about reading a folder"):
        embed_ab.compare(evalset, "bm25:auto", "mock:word", split="dev")
