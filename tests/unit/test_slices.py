"""Parts of the queries: who is in which, what B − A is there, and what is said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab import paired, result_json, slices
from embed_ab.comparison import compare_runs
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset, from_records
from embed_ab.gate import Gate, SliceName
from embed_ab.origin import Origin, System
from embed_ab.result import Comparison, redacted
from embed_ab.runs import Run
from embed_ab.settings import Settings, resolve

WIN, LOSS, BOTH, NONE = (0, 1), (1, 0), (1, 1), (0, 0)


def set_of(fields: list[dict[str, Any]], *, text: str = "some words here") -> Evalset:
    """One query for each item, whose relevant document is d0."""
    queries = {f"q{i:04}": {"text": text} | own for i, own in enumerate(fields)}
    return from_records(
        {"d0": "relevant", "d1": "other"}, queries, {query: {"d0": 1} for query in queries}
    )


def system(hits: list[int], **more: Any) -> System:
    """A system that puts d0 first where it hits; with k = 1 every metric is then 1, else 0."""
    documents = np.array([[0, 1] if hit else [1, 0] for hit in hits], dtype=np.int32)
    scores = np.broadcast_to(np.array([1.0, 0.5]), documents.shape)
    return System(
        run=Run(name="x", documents=documents, scores=scores), origin=Origin(system="st:x"), **more
    )


def compared(outcomes: list[tuple[tuple[int, int], dict[str, Any]]], **flags: Any) -> Comparison:
    """Compare on queries with these hits of A and B, and these fields."""
    options = resolve({"k": 1, "metrics": "hit"} | flags, config=None).options()
    a, b = (system([hits[side] for hits, _ in outcomes]) for side in (0, 1))
    return compare_runs(set_of([fields for _, fields in outcomes]), a, b, None, options)


KO, EN = {"language": "ko"}, {"language": "en"}
SMALL = [(LOSS, KO)] * 2 + [(BOTH, KO)] * 2 + [(WIN, EN)] * 6 + [(NONE, EN)]


def parts(comparison: Comparison) -> dict[str, slices.Slice]:
    return {str(name): part for name, part in slices.by_name(comparison.slices).items()}


# The numbers


def test_the_difference_of_a_slice_by_hand() -> None:
    found = parts(compared(SMALL, slice="language", **{"min-queries": 4}))

    ko, en = (found[f"language={tag}"].of("hit@1") for tag in ("ko", "en"))
    # ko: A hits 4 of 4, B 2 of 4; en: A none of 7, B 6 of 7
    assert (ko.mean_a, ko.mean_b, ko.difference) == (1.0, 0.5, -0.5)
    assert (ko.wins, ko.losses, ko.ties, ko.n_queries) == (0, 2, 2, 4)
    assert (en.mean_a, en.difference) == (0.0, pytest.approx(6 / 7))
    # signs of two losses: 2 of 4 patterns are as far from 0; of six wins: 2 of 64
    assert (ko.p_value, en.p_value) == (0.5, 2 / 64)


def test_p_values_are_adjusted_over_the_slices_metric_by_metric() -> None:
    found = parts(compared(SMALL, slice="language", **{"min-queries": 4}))

    for metric in ("hit@1", "ndcg@1"):
        # Holm: 2 * 2/64 = 0.0625 for the smaller, then 1 * 0.5
        assert found["language=en"].of(metric).p_holm == 0.0625
        assert found["language=ko"].of(metric).p_holm == 0.5


def test_slices_that_are_too_small_to_judge_do_not_make_the_others_harder() -> None:
    found = parts(compared(SMALL, slice="language", **{"min-queries": 5}))

    assert found["language=en"].of("hit@1").p_holm == 2 / 64
    assert found["language=ko"].of("hit@1").p_holm == 1.0
    assert found["language=ko"].finding == "too few queries"


def test_slices_by_two_fields_are_adjusted_together() -> None:
    outcomes = [(hits, own | {"style": "x"}) for hits, own in SMALL]
    found = parts(compared(outcomes, slice="language, style", **{"min-queries": 4}))

    # p: en 2/64, ko 1/2, style=x, with 6 wins and 2 losses, 2 * (1 + 8 + 28) / 256 = 0.289
    assert found["style=x"].of("hit@1").p_value == 74 / 256
    assert found["language=en"].of("hit@1").p_holm == 3 * 2 / 64
    assert found["style=x"].of("hit@1").p_holm == 2 * 74 / 256


def test_a_slice_that_is_the_whole_has_the_numbers_of_the_whole() -> None:
    outcomes = [(hits, {"all": "yes"}) for hits, _ in SMALL]
    comparison = compared(outcomes, slice="all", **{"min-queries": 4})

    (part,) = parts(comparison).values()
    whole = [replace(d, p_holm=d.p_value) for d in comparison.differences]
    assert list(part.differences) == whole


def test_the_interval_of_a_slice_is_that_of_its_queries() -> None:
    ko = parts(compared(SMALL, slice="language"))["language=ko"].of("hit@1")

    assert (ko.low, ko.high) == paired.interval(np.array([-1.0, -1.0, 0.0, 0.0]))


def test_groups_of_queries_stay_whole_in_a_slice() -> None:
    """Four queries in two groups: what counts against --min-queries is two."""
    outcomes = [
        (hits, own | {"group": i // 2}) for i, (hits, own) in enumerate(SMALL[:4] + SMALL[4:8])
    ]
    found = parts(compared(outcomes, slice="language", **{"cluster-by": "group"}))

    assert found["language=ko"].of("hit@1").n_units == 2


# What is said


def test_a_slice_is_worse_where_interval_and_adjusted_p_value_say_so() -> None:
    """Nine losses of ten: p = 2/512, twice that for two slices."""
    outcomes = [(LOSS, KO)] * 9 + [(BOTH, KO)] + [(WIN, EN), (LOSS, EN)] * 5
    found = parts(compared(outcomes, slice="language"))

    assert found["language=ko"].of("ndcg@1").p_holm == 4 / 512
    assert (found["language=ko"].finding, found["language=ko"].matters) == ("worse", True)
    assert (found["language=en"].finding, found["language=en"].matters) == (
        "no difference shown",
        False,
    )


def test_a_reversal_is_an_interval_on_the_other_side_than_the_whole() -> None:
    outcomes = [(LOSS, KO)] * 9 + [(BOTH, KO)] + [(WIN, EN)] * 20 + [(NONE, EN)]
    comparison = compared(outcomes, slice="language")

    found = parts(comparison)
    assert comparison.differences[1].difference > 0  # (20 - 9) / 31
    assert (found["language=ko"].is_reversal, found["language=en"].is_reversal) == (True, False)


def test_a_loss_in_a_slice_is_no_reversal_of_a_loss_on_the_whole() -> None:
    outcomes = [(LOSS, KO)] * 9 + [(BOTH, KO)] + [(LOSS, EN)] * 10 + [(BOTH, EN)]

    assert not any(
        part.is_reversal for part in parts(compared(outcomes, slice="language")).values()
    )


def test_a_small_p_value_alone_makes_no_slice_worse() -> None:
    """p-value and interval come from two ways of drawing, which can disagree at the border."""
    comparison = compared([(LOSS, KO)] * 9 + [(BOTH, KO)], slice="language")
    (by_language,) = comparison.slices
    (ko,) = by_language.slices
    border = tuple(replace(d, high=0.0) for d in ko.differences)
    whole = comparison.differences[0]

    def finding(part: slices.Slice) -> str:
        (again,) = slices.judged([replace(by_language, slices=(part,))], whole, min_queries=10)
        return again.slices[0].finding

    assert finding(ko) == "worse"
    assert finding(replace(ko, differences=border)) == "no difference shown"


def test_a_reversal_can_be_short_of_significance() -> None:
    """Four losses of four: the interval is [-1, -1], but p = 2/16, twice that for two slices."""
    outcomes = [(LOSS, KO)] * 4 + [(WIN, EN)] * 20
    ko = parts(compared(outcomes, slice="language", **{"min-queries": 4}))["language=ko"]

    assert (ko.finding, ko.is_reversal, ko.matters) == ("no difference shown", True, True)
    assert ko.of("ndcg@1").p_holm == 2 / 16  # the larger of two


def test_too_few_queries_are_no_reversal() -> None:
    outcomes = [(LOSS, KO)] * 4 + [(WIN, EN)] * 20

    assert not parts(compared(outcomes, slice="language"))["language=ko"].is_reversal


# Who is in which slice


def values(field: str, evalset: Evalset, **more: Any) -> tuple[str, ...]:
    return partition(field, evalset, **more).values


def partition(
    field: str,
    evalset: Evalset,
    *,
    gated: tuple[SliceName, ...] = (),
    a: System | None = None,
    b: System | None = None,
) -> slices.Partition:
    n = len(evalset.query_ids)
    (found,) = slices.partitions(
        [field],
        gated,
        evalset,
        a or system([1] * n),
        b or system([1] * n),
        gold=np.where(evalset.is_evaluated, 0, -1),
        n_relevant=evalset.is_evaluated.astype(np.int64),
    )
    return found


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("ko", "ko"),
        (" k\to\u202e ", "k o"),
        (True, "true"),
        (3, "3"),
        (["a", 1], '["a", 1]'),
        ({"x": "한"}, '{"x": "한"}'),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 71 + "…4d1f7bb8"),
        ("", ""),
        ("  ", ""),
        (None, ""),
    ],
)
def test_a_value_becomes_a_name_on_one_line(value: object, name: str) -> None:
    assert values("f", set_of([{"f": value}, {"f": "another"}])) == (name, "another")


def test_two_long_values_keep_two_names() -> None:
    one, two = values("f", set_of([{"f": "x" * 99 + "1"}, {"f": "x" * 99 + "2"}]))

    assert one != two
    assert len(one) == len(two) == 80


def test_six_different_numbers_are_cut_into_thirds_with_equal_ones_together() -> None:
    numbers = [5, 1, 2, 2, 2, 3, 4, 9, 9.5]
    found = partition("n", set_of([{"n": number} for number in numbers]))

    # ascending 1 2 2 | 2 3 4 | 5 9 9.5: the thirds end at 2 and at 4
    assert found.values == ("high", "low", "low", "low", "low", "medium", "medium", "high", "high")
    assert found.ranges == {"low": (1, 2), "medium": (3, 4), "high": (5, 9.5)}
    assert found.shown == ("low", "medium", "high")


def test_five_different_numbers_are_five_slices() -> None:
    found = values("n", set_of([{"n": number} for number in (1, 2, 3, 4, 5, 5)]))

    assert found == ("1", "2", "3", "4", "5", "5")


def test_numbers_among_texts_are_texts() -> None:
    found = values("n", set_of([{"n": n} for n in (1, 2, 3, 4, 5, 6, "7")]))

    assert found == ("1", "2", "3", "4", "5", "6", "7")


def test_a_number_that_no_float_holds_is_a_text() -> None:
    found = values("n", set_of([{"n": 10**400 + i} for i in range(6)]))

    assert len(set(found)) == 6
    assert all(len(name) == 80 for name in found)


def test_the_largest_twenty_are_shown_and_the_rest_counted() -> None:
    fields = [{"f": f"v{i:02}"} for i in range(23)] + [{"f": "v22"}, {}, {"f": None}]
    found = partition("f", set_of(fields))

    # v22 twice, then by name v00 to v18; v19, v20 and v21 are left
    assert found.shown == ("v22", *(f"v{i:02}" for i in range(19)))
    assert (found.n_slices_left_out, found.n_queries_left_out) == (3, 3)
    assert found.n_queries_without == 2


def test_a_slice_that_a_gate_names_is_shown_on_top_of_the_largest() -> None:
    evalset = set_of([{"f": f"v{i:02}"} for i in range(23)])
    found = partition("f", evalset, gated=(SliceName(field="f", value="v22"),))

    assert found.shown[-1] == "v22"
    assert (len(found.shown), found.n_slices_left_out) == (21, 2)


def test_query_length_is_in_thirds_of_characters() -> None:
    texts = ["a", "bb", "cccc", "dddd", "eeeee", "ffffff"]
    found = partition("query-length", set_of([{"text": text} for text in texts]))

    assert found.values == ("short", "short", "medium", "medium", "long", "long")
    assert found.ranges["medium"] == (4, 4)


def test_the_number_of_relevant_documents() -> None:
    documents = {f"d{i}": f"text {i}" for i in range(6)}
    qrels = {f"q{n}": {f"d{i}": 1 for i in range(n)} for n in (1, 2, 5, 6)} | {"q0": {"d0": 0}}
    evalset = from_records(documents, dict.fromkeys(qrels, "x"), qrels, no_positive="exclude")
    options = resolve({"slice": "n-relevant", "k": 1}, config=None).options()
    one = system([1] * 5)

    comparison = compare_runs(evalset, one, one, None, options)

    assert {row.query: row.slices.get("n-relevant") for row in comparison.queries} == {
        "q0": None,
        "q1": "1",
        "q2": "2-5",
        "q5": "2-5",
        "q6": "6+",
    }


def test_the_share_of_words_that_a_query_has_from_its_document() -> None:
    documents = {"d0": "one two three four five six seven eight nine"}
    texts = {
        "q1": "uno dos one two",  # 2 of 4
        "q2": "uno dos tres one",  # 1 of 4
        "q3": "one two three four five six seven eight nine TEN",  # 9 of 10
        "q4": "one two",  # fewer than three words say nothing
    }
    evalset = from_records(documents, texts, {query: {"d0": 1} for query in texts})

    assert values("copied-share", evalset) == ("50-90%", "0-50%", "90-100%", "")


def test_who_cut_the_best_relevant_document() -> None:
    def cut(*documents: bool) -> System:
        return system([1], is_cut=np.array(documents))

    evalset = set_of([{}])
    for a, b, name in (
        (cut(False, True), cut(False, True), "neither"),
        (cut(True, False), cut(False, False), "A"),
        (cut(False, False), cut(True, False), "B"),
        (cut(True, False), cut(True, False), "A and B"),
        (cut(True, False), system([1]), "not known"),
    ):
        assert values("gold-truncated", evalset, a=a, b=b) == (name,)


def test_a_query_without_a_relevant_document_is_in_no_slice() -> None:
    evalset = from_records(
        {"d0": "x", "d1": "y"},
        {"q1": {"text": "x", "f": "a"}, "q2": {"text": "y", "f": "b"}},
        {"q1": {"d0": 1}, "q2": {"d0": 0}},
        no_positive="exclude",
    )

    found = partition("f", evalset)

    assert (found.values, found.shown, found.n_queries_without) == (("a", ""), ("a",), 0)
    assert values("gold-truncated", evalset) == ("not known", "")


def test_a_field_that_no_query_has_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(InputError) as e:
        compared(SMALL, slice="tongue")

    assert str(e.value) == "--slice tongue: no evaluated query has a field 'tongue'"
    assert e.value.hint.endswith("or a field of queries.jsonl: language.")


def test_more_fields_than_ten_are_refused() -> None:
    with pytest.raises(InputError, match="slices by 11 fields; at most 10"):
        Settings(slice=tuple(f"f{i}" for i in range(11))).options()


@pytest.mark.parametrize("field", ["x" * 101, "a\u202eb"])
def test_what_cannot_be_shown_as_a_name_of_a_field_is_refused(field: str) -> None:
    with pytest.raises(InputError, match="a name is one line of at most 100 characters"):
        Settings(slice=(field,)).options()


VALUES = st.one_of(
    st.none(),
    st.sampled_from(["ko", "en", " en", "", "x" * 90]),
    st.integers(-3, 30),
    st.booleans(),
    st.floats(-5, 5),
    st.lists(st.sampled_from(["a", "b"]), max_size=2),
    st.text(max_size=3),
)
OUTCOMES = st.sampled_from([WIN, LOSS, BOTH, NONE])


@settings(max_examples=150, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=60), st.lists(VALUES, min_size=1, max_size=3))
def test_the_slices_of_a_field_part_the_queries_that_have_it(
    own: list[object], more: list[object]
) -> None:
    evalset = set_of([{"f": value} for value in [*own, *more, "one"]])
    found = partition("f", evalset)

    masks = np.array([found.mask(value) for value in found.shown])
    assert masks.sum(axis=0).max() == 1  # no query in two
    n_without = sum(name == "" for name in found.values)
    assert found.n_queries_without == n_without
    assert masks.sum() + found.n_queries_left_out + n_without == len(evalset.query_ids)
    assert len(set(found.shown)) == len(found.shown) <= 20
    assert all(0 < len(value) <= 80 for value in found.shown)
    assert found.n_slices_left_out == len(set(found.values) - {""}) - len(found.shown)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(OUTCOMES, st.sampled_from("abc")), min_size=1, max_size=40))
def test_the_whole_is_the_mean_of_its_slices_by_their_queries(
    outcomes: list[tuple[tuple[int, int], str]],
) -> None:
    comparison = compared([(hits, {"f": tag}) for hits, tag in outcomes], slice="f", resamples=100)

    whole = comparison.differences[0]
    found = [part.differences[0] for part in parts(comparison).values()]
    assert sum(d.n_queries for d in found) == whole.n_queries
    assert sum(d.wins for d in found) == whole.wins
    total = sum(d.difference * d.n_queries for d in found)
    assert total / whole.n_queries == pytest.approx(whole.difference, abs=1e-12)


# Gates


@pytest.mark.parametrize(
    ("text", "field", "value", "again"),
    [
        ("ndcg@10[language=ko]:0.03", "language", "ko", "ndcg@10[language=ko]:0.03"),
        ("ndcg [ topic = a=b: c ] :0.03", "topic", "a=b: c", "ndcg@10[topic=a=b: c]:0.03"),
        ("ndcg[f=[1, 2]]:0.03", "f", "[1, 2]", "ndcg@10[f=[1, 2]]:0.03"),
    ],
)
def test_a_gate_names_its_slice(text: str, field: str, value: str, again: str) -> None:
    gate = Gate.parse(text, default_k=10)

    assert gate.slice == SliceName(field=field, value=value)
    assert str(gate) == again
    assert Gate.parse(again, default_k=10) == gate


@pytest.mark.parametrize(
    "text", ["ndcg[language]:0.1", "ndcg[=ko]:0.1", "ndcg[a= ]:0.1", "ndcg[a=b:0.1", "ndcg[a=b]c:0"]
)
def test_a_slice_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is no \[FIELD=VALUE\]"):
        Gate.parse(text, default_k=10)


def test_a_comma_within_brackets_does_not_part_two_gates() -> None:
    found = resolve({"gate": "ndcg[a=b, c]:0.1, mrr:0.1\nhit[a=d,e]:0,map[:0"}, config=None)

    assert found.gate == ("ndcg[a=b, c]:0.1", "mrr:0.1", "hit[a=d,e]:0", "map[:0")


LOST = [(LOSS, KO)] * 9 + [(BOTH, KO)] + [(WIN, EN)] * 60 + [(NONE, EN)]


def test_a_gate_on_a_slice_fails_where_the_whole_passes() -> None:
    comparison = compared(LOST, gate="hit@1:0.05, hit@1[language=ko]:0.05")

    whole, part = comparison.gates
    assert (whole.outcome, part.outcome, comparison.outcome) == ("pass", "fail", "fail")
    assert (part.difference, part.n_queries) == (-0.9, 10)
    assert comparison.verdict.startswith(
        "B is worse than A where language=ko, and the loss measured exceeds the margin of 0.05: "
        "hit@1 B − A = −0.900, 97.5% interval ["
    )
    assert comparison.verdict.endswith("], 10 queries.")
    assert part.reason.startswith("gate hit@1[language=ko]: B-A = -0.900 (97.5% interval [")


def test_a_gate_on_a_slice_counts_among_the_others() -> None:
    one = compared(LOST, gate="hit@1[language=ko]:0.05").gates
    three = compared(
        LOST, gate="hit@1[language=ko]:0.05, hit@1:0.05, hit@1[language=en]:0.05"
    ).gates

    assert [verdict.level for verdict in one] == [0.95]
    assert [round(verdict.level, 6) for verdict in three] == [0.983333] * 3  # 1 - 0.05 / 3


def test_a_gate_on_a_slice_of_everything_says_what_the_gate_on_the_whole_says() -> None:
    outcomes = [(hits, {"all": "yes"}) for hits, _ in LOST]
    whole, part = compared(outcomes, gate="hit@1:0.05, hit@1[all=yes]:0.05").gates

    named = {"gate": whole.gate, "slice": None, "reason": whole.reason}
    assert replace(part, **named) == whole


def test_a_gate_on_too_small_a_slice_is_inconclusive() -> None:
    comparison = compared(SMALL + [(WIN, EN)] * 9, gate="hit@1[language=ko]:0.05")

    assert comparison.outcome == "inconclusive"
    assert comparison.gates[0].why.startswith("4 queries are fewer than the 10 a verdict needs")


def test_of_two_passing_gates_the_verdict_is_about_all_queries() -> None:
    outcomes = [(WIN, KO)] * 100 + [(NONE, EN)] * 100
    comparison = compared(outcomes, gate="hit@1[language=ko]:0.1, hit@1:0.1")

    assert comparison.verdict.startswith("B is better than A: hit@1")


def test_a_gate_makes_the_slices_of_its_field() -> None:
    assert set(parts(compared(SMALL, gate="hit@1[language=ko]:0.05"))) == {
        "language=en",
        "language=ko",
    }


def test_a_gate_on_a_slice_without_a_query_is_an_error_without_values_of_the_set() -> None:
    with pytest.raises(InputError) as e:
        compared(SMALL, gate="hit@1[language=fr]:0.05")

    assert str(e.value) == "gate on [language=fr]: no evaluated query is in this slice"
    assert "ko" not in e.value.hint


def test_two_gates_on_one_slice_are_refused() -> None:
    with pytest.raises(InputError, match=r"two gates on hit@1\[language=ko\]"):
        compared(SMALL, gate="hit@1[language=ko]:0.05, hit@1[language=ko]:0.1")


# The file


def changed(comparison: Comparison, change: Any) -> str:
    """What the loader says of the JSON after a change."""
    content = json.loads(result_json.dumps(comparison))
    change(content)
    with pytest.raises(InputError) as e:
        result_json.loads(json.dumps(content).encode(), "x")
    return str(e.value).removeprefix("x: ")


def test_slices_survive_the_file() -> None:
    comparison = compared(SMALL, slice="language, query-length", gate="hit@1[language=ko]:0.05")

    assert result_json.loads(result_json.dumps(comparison).encode(), "x") == comparison


def test_a_file_from_before_there_were_slices_is_read() -> None:
    content = json.loads(result_json.dumps(compared(SMALL)))
    del content["slices"]
    for row in content["queries"]:
        del row["slices"]

    assert result_json.loads(json.dumps(content).encode(), "x") == compared(SMALL)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r["slices"].append(r["slices"][0]), "there are slices by too many fields, or t"),
        (
            lambda r: r["slices"][0]["slices"][0].update(value="ko"),
            "slices by 'language': there are too many, or one twice",
        ),
        (
            lambda r: r["slices"][0]["slices"][0].update(value="x" * 81),
            "slices by 'language': a name is too long",
        ),
        (lambda r: r["slices"][0].update(field="x" * 101), "slices by 'xxx"),
        (
            lambda r: r["slices"][0]["slices"].extend(
                r["slices"][0]["slices"][0] | {"value": str(n)} for n in range(20)
            ),
            "slices by 'language': there are too many, or one twice",
        ),
        (
            lambda r: r["slices"][0].update(n_queries_without=-1),
            "slices by 'language': a count is below 0",
        ),
        (
            lambda r: r["slices"][0]["slices"][0]["differences"].pop(),
            "slices by 'language': the metrics are not those of all queries",
        ),
        (
            lambda r: r["slices"][0]["slices"][0]["differences"][0].update(low=-2),
            "slices by 'language': metric 'hit@1': the interval is none of a difference",
        ),
        (
            lambda r: r["gates"][0]["slice"].update(value="fr"),
            "a gate names a slice that is not among the slices",
        ),
        (
            lambda r: r["queries"][0]["slices"].update(language="fr"),
            "query 'q0000' is in a slice that is not among the slices",
        ),
    ],
)
def test_slices_that_no_comparison_writes_are_refused(change: Any, said: str) -> None:
    comparison = compared(SMALL, gate="hit@1[language=ko]:0.05")

    assert changed(comparison, change).startswith(said)


# Redacted


def test_redacted_slices_of_a_field_are_numbered_and_built_in_ones_keep_their_names() -> None:
    comparison = redacted(compared(SMALL, slice="language, n-relevant"))

    assert set(parts(comparison)) == {"language=slice 1", "language=slice 2", "n-relevant=1"}
    # en has seven queries and ko four
    assert parts(comparison)["language=slice 1"].of("hit@1").n_queries == 7
    assert comparison.queries[0].slices == {"language": "slice 2", "n-relevant": "1"}


def test_redacting_hides_the_numbers_that_a_field_is_cut_by() -> None:
    outcomes = [(BOTH, {"n": i}) for i in range(9)]
    part = parts(redacted(compared(outcomes, slice="n")))["n=slice 1"]

    assert part.range is None


def test_a_slice_that_a_gate_names_keeps_the_name_that_the_settings_spell_out() -> None:
    once = redacted(compared(SMALL, gate="hit@1[language=ko]:0.05"))

    assert set(parts(once)) == {"language=slice 1", "language=ko"}
    assert redacted(once) == once


def test_a_value_that_looks_hidden_does_not_take_the_name_of_another() -> None:
    outcomes = [(BOTH, {"f": "a"})] * 3 + [(BOTH, {"f": "slice 1"})]
    once = redacted(compared(outcomes, gate="hit@1[f=slice 1]:0.05"))

    assert set(parts(once)) == {"f=slice 1*", "f=slice 1"}
    assert redacted(once) == once
