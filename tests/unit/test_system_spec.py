"""Systems as they are written: what is parsed, what is refused, and that text and spec agree."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed_ab import bm25
from embed_ab.errors import InputError
from embed_ab.providers import mock
from embed_ab.registry import EMBEDDERS, RERANKERS
from embed_ab.system_spec import FORMS, MAX_NESTING, PROVIDERS, SystemSpec

A = SystemSpec(provider="st", name="a/b", options={"dim": "256"})
B = SystemSpec(provider="bm25", name="auto")


def error_of(value: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        SystemSpec.parse(value)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("rrf(st:a/b,dim=256, bm25:auto)", SystemSpec(provider="rrf", systems=(A, B))),
        (
            " rrf ( bm25:auto,st:a/b , dim=256 ;k=20, depth=50 ) ",
            SystemSpec(provider="rrf", systems=(B, A), options={"k": "20", "depth": "50"}),
        ),
        (
            "blend(st:a/b,dim=256, bm25:auto; weights=0.7, 0.3; normalise=z)",
            SystemSpec(
                provider="blend",
                systems=(A, B),
                options={"weights": "0.7,0.3", "normalise": "z"},
            ),
        ),
        (
            "rerank(rrf(bm25:auto, st:a/b,dim=256), ce:x/y,max_length=128; depth=30)",
            SystemSpec(
                provider="rerank",
                systems=(SystemSpec(provider="rrf", systems=(B, A)),),
                reranker=SystemSpec(provider="ce", name="x/y", options={"max_length": "128"}),
                options={"depth": "30"},
            ),
        ),
        (
            "rerank(bm25:auto, none)",
            SystemSpec(provider="rerank", systems=(B,), reranker=SystemSpec(provider="none")),
        ),
        (
            "rrf(run:my (old) run.trec, run:a=b.trec)",
            SystemSpec(
                provider="rrf",
                systems=(
                    SystemSpec(provider="run", name="my (old) run.trec"),
                    SystemSpec(provider="run", name="a=b.trec"),
                ),
            ),
        ),
    ],
)
def test_a_system_of_systems(text: str, spec: SystemSpec) -> None:
    assert SystemSpec.parse(text) == spec
    assert SystemSpec.parse(str(spec)) == spec


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        (
            {"provider": "rrf", "systems": ["st:a", {"provider": "bm25", "name": "auto"}], "k": 20},
            "rrf(st:a, bm25:auto; k=20)",
        ),
        (
            {"provider": "blend", "systems": ["st:a", "bm25:auto"], "weights": [1, 0.25]},
            "blend(st:a, bm25:auto; weights=1,0.25)",
        ),
        (
            {"provider": "blend", "systems": ["st:a", "bm25:auto"], "weights": "1, 2"},
            "blend(st:a, bm25:auto; weights=1,2)",
        ),
        (
            {"provider": "rerank", "system": "rrf(st:a, st:b)", "reranker": "none", "depth": 9},
            "rerank(rrf(st:a, st:b), none; depth=9)",
        ),
        ({"provider": "st", "name": "a", "max-length": 5}, "st:a,max_length=5"),
    ],
)
def test_a_mapping_means_the_same_as_its_text(mapping: dict[str, Any], text: str) -> None:
    assert SystemSpec.parse(mapping) == SystemSpec.parse(text)
    assert str(SystemSpec.parse(mapping)) == text


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("rrf(st:a, nobody:x)", "system 2 of rrf: unknown provider 'nobody' in 'nobody:x'"),
        (
            "rrf(st:a, blend(st:b, st:c,colour=red))",
            "system 2 of rrf: system 2 of blend: unknown option 'colour' in 'st:c,colour=red'",
        ),
        ("rrf(st:a, bm25:auto, k=60)", "the option 'k=60' stands where a system goes"),
        ("rrf(k=60; st:a)", "the option 'k=60' stands where a system goes"),
        ("rrf(st:a, bm25:auto; weights=1,2)", "unknown option 'weights' in 'rrf("),
        ("rrf(st:a, bm25:auto; k=0)", "k=0 is not a whole number above 0"),
        ("rrf(st:a, bm25:auto; k=1.5)", "k=1.5 is not a whole number above 0"),
        ("rrf(st:a, bm25:auto; depth=9999999999)", "depth=9999999999 is not a whole number"),
        ("rrf(st:a, bm25:auto; k=1; k=2)", "option 'k' is given twice"),
        ("rrf(st:a, bm25:auto;)", "'' is not an option"),
        ("rrf(st:a, bm25:auto; k)", "'k' is not an option"),
        ("rrf(st:a)", "rrf takes 2 to 10 systems, not 1"),
        ("rrf()", "argument 1 is empty"),
        ("rrf(st:a, , st:b)", "argument 2 is empty"),
        ("rrf(st:a, st:b", "the parenthesis after 'rrf' is not closed"),
        ("rrf(st:a, st:b) st:c", "'st:c' follows the closing parenthesis"),
        ("rrf(blend(st:a, st:b),dim=3, st:c)", "system 1 of rrf: 'blend(st:a, st:b),dim=3': ',dim"),
        ("rrf:x", "'rrf' lacks its parentheses"),
        ("mix(st:a, st:b)", "there is no 'mix(…)'"),
        ("blend(st:a, st:b; weights=1)", "weights=1 are not 2 numbers from 0 up"),
        ("blend(st:a, st:b; weights=1,-1)", "weights=1,-1 are not 2 numbers"),
        ("blend(st:a, st:b; weights=0,0)", "weights=0,0 are not 2 numbers"),
        ("blend(st:a, st:b; weights=nan,1)", "weights=nan,1 are not 2 numbers"),
        ("blend(st:a, st:b; normalise=l2)", "normalise=l2 is not known"),
        ("ce:x", "'ce:x' only orders what another system found"),
        ("none", "'none' only orders what another system found"),
        ("rrf(st:a, none)", "system 2 of rrf: 'none' only orders"),
        ("rerank(st:a, st:b)", "the reranker of rerank: 'st:b' is not a reranker"),
        ("rerank(st:a, rrf(st:b, st:c))", "the reranker of rerank: 'rrf(st:b, st:c)' is not a"),
        ("rerank(st:a)", "rerank takes a system and a reranker, not 1"),
        ("rerank(st:a, none:x)", "no name follows none"),
        ("st:" + "x/" * 2000, "has 4,003 characters, more than 4,000"),
        ({"provider": "rrf", "systems": "st:a"}, "rrf takes 2 to 10 systems, not 1"),
        ({"provider": "rrf", "systems": ["st:a", 5]}, "system 2 of rrf: 5 is not a system"),
        ({"provider": "rrf", "systems": ["st:a", "st:b"], "k": True}, "option 'k' has the value"),
        ({"provider": "rrf", "systems": ["st:a", "st:b"], "k": 1.5}, "option 'k' has the value"),
        ({"provider": "rerank", "system": "st:a"}, "rerank takes a system and a reranker, not 1"),
        ({"provider": "st", "name": "a", "max-length": 5, "max_length": 6}, "given twice"),
        ({"provider": "st", "name": "a", "revision": "b,dim=2"}, "the value of revision"),
        (
            {"provider": "rrf", "systems": ["st:a", {"provider": "run", "name": "a;b"}]},
            "system 2 of rrf: 'run:a;b' holds a semicolon",
        ),
        (
            {"provider": "rrf", "systems": ["st:a", {"provider": "run", "name": "a)("}]},
            "system 2 of rrf: 'run:a)(' holds a semicolon or a parenthesis",
        ),
    ],
)
def test_an_error_points_at_the_part(value: Any, problem: str) -> None:
    assert problem in str(error_of(value))


def test_systems_are_nested_four_deep() -> None:
    text = "bm25:auto"
    for _ in range(MAX_NESTING):
        text = f"rrf({text}, st:a)"

    assert str(SystemSpec.parse(text)) == text
    assert "nested more than 4 deep" in str(error_of(f"rrf({text}, st:a)"))


def test_nesting_without_end_is_refused_before_it_is_followed() -> None:
    mapping: dict[str, Any] = {}
    mapping |= {"provider": "rrf", "systems": [mapping, mapping]}

    assert "nested more than 4 deep" in str(error_of(mapping))
    assert "is not closed" in str(error_of("rrf(" * 900))


def test_leaves_are_what_is_not_made_of_others_each_once() -> None:
    spec = SystemSpec.parse("rrf(st:a, rerank(blend(bm25:auto, st:a), scores:s.tsv))")

    assert [str(leaf) for leaf in spec.leaves] == ["st:a", "bm25:auto", "scores:s.tsv"]
    assert [str(leaf) for leaf in B.leaves] == ["bm25:auto"]


def test_weights_are_equal_unless_given() -> None:
    assert SystemSpec.parse("blend(st:a, st:b)").weights == (1, 1)
    assert SystemSpec.parse("blend(st:a, st:b; weights=1,0.5)").weights == (1, 0.5)


def test_names_are_those_of_the_modules_behind_them() -> None:
    assert set(PROVIDERS["bm25"].names) == set(get_args(bm25.Tokens))
    assert PROVIDERS["mock"].names == mock.NAMES
    assert set(EMBEDDERS) | {"bm25", "vectors", "run"} == {
        name for name, provider in PROVIDERS.items() if not provider.is_reranker
    }
    assert set(RERANKERS) <= {name for name, p in PROVIDERS.items() if p.is_reranker}


def test_no_option_is_both_a_constituents_and_a_hybrids() -> None:
    """Else `rrf(st:a, k=5; k=60)` could be read in two ways."""
    of_providers = {option for provider in PROVIDERS.values() for option in provider.options}

    assert of_providers.isdisjoint(option for options in FORMS.values() for option in options)


names = st.text(
    st.characters(blacklist_characters=",;()", blacklist_categories=("C", "Z")),
    min_size=1,
    max_size=20,
)
numbers = st.integers(1, 10**6).map(str)
leaves = st.one_of(
    st.builds(lambda name: SystemSpec(provider="run", name=name), names),
    st.builds(
        lambda name, options: SystemSpec(provider="st", name=name, options=options),
        names,
        st.fixed_dictionaries({}, optional={"dim": numbers, "revision": names}),
    ),
    st.sampled_from(["auto", "word"]).map(lambda name: SystemSpec(provider="bm25", name=name)),
)
rerankers = st.one_of(
    st.just(SystemSpec(provider="none")),
    st.builds(
        lambda name, options: SystemSpec(provider="ce", name=name, options=options),
        names,
        st.fixed_dictionaries({}, optional={"max_length": numbers}),
    ),
)


def forms(parts: st.SearchStrategy[SystemSpec]) -> st.SearchStrategy[SystemSpec]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(
            lambda systems, options: SystemSpec(provider="rrf", systems=systems, options=options),
            several,
            st.fixed_dictionaries({}, optional={"k": numbers, "depth": numbers}),
        ),
        st.builds(
            lambda systems, normalise, weight: SystemSpec(
                provider="blend",
                systems=systems,
                options={
                    "normalise": normalise,
                    "weights": ",".join(map(str, [weight] * len(systems))),
                },
            ),
            several,
            st.sampled_from(["minmax", "z"]),
            st.floats(1e-9, 1e6),
        ),
        st.builds(
            lambda system, reranker: SystemSpec(
                provider="rerank", systems=(system,), reranker=reranker
            ),
            parts,
            rerankers,
        ),
    )


@given(st.one_of(leaves, forms(leaves), forms(st.one_of(leaves, forms(leaves)))))
def test_every_spec_parses_back_from_its_text(spec: SystemSpec) -> None:
    assert SystemSpec.parse(str(spec)) == spec


@given(st.text(st.sampled_from("rfblend(),;:=k1 stm.\n"), max_size=60))
def test_any_other_text_is_an_input_error(text: str) -> None:
    try:
        spec = SystemSpec.parse(text)
    except InputError:
        return
    assert SystemSpec.parse(str(spec)) == spec


def test_a_reranker_made_of_others_is_refused_at_once_however_deep() -> None:
    deep: dict[str, Any] = {"provider": "none"}
    for _ in range(2_000):
        deep = {"provider": "rerank", "system": "bm25:auto", "reranker": deep}
    text = "rerank(bm25:auto, " * 150 + "none" + ")" * 150

    for value in (deep, text):
        with pytest.raises(InputError, match="is not a reranker") as caught:
            SystemSpec.parse(value)
        assert len(str(caught.value)) < 500
