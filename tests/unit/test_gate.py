"""The three outcomes of a gate, with the rule's arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from embed_ab.errors import InputError
from embed_ab.gate import Gate, GateVerdict, conclude, gate_level, judge
from embed_ab.metrics import Metric
from embed_ab.paired import PairedDifference

GATE = Gate(metric=Metric(name="ndcg", k=10), margin=0.02)
DIFFERENCE = PairedDifference(
    metric="ndcg@10",
    mean_a=0.6,
    mean_b=0.474,
    difference=-0.126,
    low=-0.218,
    high=-0.033,
    level=0.95,
    p_value=0.01,
    p_holm=0.04,
    wins=5,
    losses=20,
    ties=15,
    n_queries=40,
    n_units=40,
    sd=0.3,
    detectable=0.13,
)


def judged(gate: Gate = GATE, min_queries: int = 10, **changes: object) -> GateVerdict:
    changes = {"n_units": changes.get("n_queries", 40)} | changes
    return judge(gate, replace(DIFFERENCE, **changes), min_queries=min_queries)  # type: ignore[arg-type]


def test_a_loss_beyond_the_margin_with_the_whole_interval_below_zero_fails() -> None:
    verdict = judged()

    assert (verdict.outcome, verdict.finding) == ("fail", "worse")
    assert verdict.reason == (
        "gate ndcg@10: B-A = -0.126 (95% interval [-0.218, -0.033]), "
        "fails when worse than -0.02 with the whole interval below 0 -> FAIL"
    )


def test_a_loss_whose_interval_reaches_zero_is_inconclusive() -> None:
    verdict = judged(high=0.0)

    # ((1.959964 + 0.841621) * 0.3 / 0.02)^2 = 1766.0
    assert verdict.outcome == "inconclusive"
    assert verdict.queries_needed == 1766
    assert verdict.reason.endswith(
        "-> INCONCLUSIVE: the interval reaches below -0.02; "
        "if B is as good as A, about 1766 queries would show that it loses no more than 0.02"
    )


def test_a_clear_loss_smaller_than_the_margin_does_not_fail() -> None:
    assert judged(difference=-0.015, low=-0.018, high=-0.012).outcome == "pass"
    assert judged(difference=-0.015, low=-0.025, high=-0.005).outcome == "inconclusive"


def test_an_interval_above_minus_the_margin_passes() -> None:
    verdict = judged(difference=0.01, low=-0.019, high=0.04)

    assert (verdict.outcome, verdict.finding) == ("pass", "not worse than the margin")


def test_below_min_queries_a_gate_is_only_inconclusive() -> None:
    assert judged(n_queries=9).outcome == "inconclusive"
    assert judged(n_queries=9, min_queries=9).outcome == "fail"
    assert "9 queries are fewer than the 10" in judged(n_queries=9).reason


@pytest.mark.parametrize(("n", "outcome"), [(148, "inconclusive"), (149, "pass")])
def test_all_ties_need_enough_queries_to_exclude_a_change(n: int, outcome: str) -> None:
    """1 - 0.05^(1/n) is 0.02004 at n = 148 and 0.01990 at n = 149."""
    same = {"difference": 0.0, "low": 0.0, "high": 0.0, "wins": 0, "losses": 0, "sd": 0.0}

    verdict = judged(n_queries=n, ties=n, **same)

    assert verdict.outcome == outcome
    if outcome == "inconclusive":
        assert "no query changed its value" in verdict.reason
        assert verdict.queries_needed == 149


@pytest.mark.parametrize(
    ("low", "outcome"),
    [
        (0.0, "inconclusive"),  # 39 ties and one win: 0 - 0.0722 is below -0.02
        (0.05, "inconclusive"),  # 0.05 - 0.0722 = -0.0222
        (0.06, "pass"),  # 0.06 - 0.0722 = -0.0122
    ],
)
def test_wins_without_a_loss_must_outweigh_the_losses_that_can_go_unseen(
    low: float, outcome: str
) -> None:
    """1 - 0.05^(1/40) = 0.0722: so many queries may lose all, and none of 40 shows it."""
    verdict = judged(difference=0.1, low=low, high=0.2, wins=1, losses=0, ties=39)

    assert verdict.outcome == outcome
    assert ("B loses no query" in verdict.reason) == (outcome == "inconclusive")


def test_groups_of_queries_are_what_counts() -> None:
    """40 queries of 4 clusters are 4 units: fewer than the 10 a verdict needs."""
    verdict = judged(n_units=4)

    assert verdict.outcome == "inconclusive"
    assert "4 groups of queries are fewer than the 10" in verdict.reason


def test_what_is_needed_is_said_in_groups_where_groups_are_resampled() -> None:
    """log(0.05) / log(0.8) = 13.4 groups exclude a loss in 20 % of them."""
    gate = Gate(metric=GATE.metric, margin=0.2)
    same = {"difference": 0.0, "low": 0.0, "high": 0.0, "wins": 0, "losses": 0, "sd": 0.0}

    verdict = judged(gate, n_queries=48, n_units=12, ties=48, **same)

    assert "in 12 groups of queries a loss of 22.1% can go unseen" in verdict.reason
    assert "about 14 groups of queries would show" in verdict.reason


def test_never_fewer_than_min_queries_are_needed() -> None:
    """Five equal queries: log(0.05) / log(0.6) = 5.9, but a verdict needs 10."""
    gate = Gate(metric=GATE.metric, margin=0.4)
    same = {"difference": 0.0, "low": 0.0, "high": 0.0, "wins": 0, "losses": 0, "sd": 0.0}

    assert judged(gate, n_queries=5, ties=5, **same).queries_needed == 10


def test_an_inconclusive_gate_always_says_why() -> None:
    """((1.959964 + 0.841621) * 0.03 / 0.02)^2 = 17.7: more queries are not what is missing."""
    verdict = judged(difference=-0.015, low=-0.025, high=-0.005, sd=0.03)

    assert verdict.queries_needed == 18
    assert verdict.reason.endswith("-> INCONCLUSIVE: the interval reaches below -0.02")


def test_a_stricter_level_needs_more_queries() -> None:
    """At 97.5 % z is 2.241403: ((2.241403 + 0.841621) * 0.3 / 0.02)^2 = 2138.6."""
    assert judged(high=0.0, level=0.975).queries_needed == 2139


def test_a_margin_of_zero_is_judged_too() -> None:
    gate = Gate(metric=GATE.metric, margin=0.0)

    assert judged(gate).outcome == "fail"
    assert judged(gate, high=0.01).queries_needed is None
    assert judged(gate, wins=0, losses=0, sd=0.0, low=0.0, high=0.0).outcome == "inconclusive"


def test_a_number_that_rounds_to_zero_has_no_minus() -> None:
    assert "[-0.010, 0.000]" in judged(difference=-1e-9, low=-0.01, high=-1e-9).reason


def test_two_gates_share_the_error_rate() -> None:
    assert gate_level(1) == 0.95
    assert gate_level(2) == pytest.approx(0.975)
    assert "(97.5% interval" in judged(level=0.975).reason


def test_one_failed_gate_fails_all_and_one_open_gate_leaves_it_open() -> None:
    failed, unclear, passed = judged(), judged(high=0.0), judged(low=0.0, difference=0.1, high=0.2)

    def outcome(*verdicts: GateVerdict) -> str:
        return conclude(DIFFERENCE, verdicts, min_queries=10).outcome

    assert outcome(passed, unclear, failed) == "fail"
    assert outcome(passed, unclear) == "inconclusive"
    assert outcome(passed) == "pass"
    assert outcome() == "pass"


def test_the_conclusion_is_about_the_deciding_gate() -> None:
    other = Gate(metric=Metric(name="hit", k=1), margin=0.02)
    passed, failed = judged(low=0.0, difference=0.1, high=0.2), judged(other, metric="hit@1")

    conclusion = conclude(DIFFERENCE, [passed, failed], min_queries=10)

    assert (conclusion.finding, conclusion.metric) == ("worse", "hit@1")
    assert "hit@1 B − A = −0.126, 95% interval [−0.218, −0.033], 40 queries" in conclusion.sentence


def test_a_gate_is_read_from_text() -> None:
    assert Gate.parse("nDCG@5:0.03", default_k=10) == Gate(
        metric=Metric(name="ndcg", k=5), margin=0.03
    )
    assert str(Gate.parse("recall:0.1", default_k=20)) == "recall@20:0.1"


@pytest.mark.parametrize(
    "text",
    ["ndcg@10", "ndcg@10:", "ndcg@10:x", "ndcg@10:-0.1", "ndcg@10:1", "ndcg@10:nan", "foo@10:0.1"],
)
def test_a_malformed_gate_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Gate.parse(text, default_k=10)

    assert caught.value.hint
