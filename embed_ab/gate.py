"""The verdict: worse, not worse than the margin, or inconclusive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from embed_ab.errors import InputError
from embed_ab.metrics import Metric
from embed_ab.paired import PairedDifference, queries_needed

Outcome = Literal["pass", "fail", "inconclusive"]
Finding = Literal["worse", "not worse than the margin", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A metric and how much of it may be lost: `ndcg@10:0.02`."""

    metric: Metric
    margin: float

    @classmethod
    def parse(cls, text: str, *, default_k: int) -> Gate:
        """Return the gate written as METRIC@K:MARGIN. Raises: InputError."""
        metric, colon, margin_text = text.rpartition(":")
        hint = "Write METRIC@K:MARGIN with a margin from 0 to 1, for example ndcg@10:0.02."
        if not colon:
            raise InputError(f"gate '{text}' has no margin", hint=hint)
        try:
            margin = float(margin_text)
        except ValueError:
            margin = math.nan
        if not 0 <= margin < 1:
            raise InputError(
                f"gate '{text}': the margin '{margin_text.strip()}' is not a number from 0 to 1",
                hint=hint,
            )
        return cls(metric=Metric.parse(metric.strip(), default_k=default_k), margin=margin)

    def __str__(self) -> str:
        return f"{self.metric}:{self.margin:g}"


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """What one gate says, and why; `queries_needed` is None where it cannot be estimated."""

    gate: str
    metric: str
    margin: float
    outcome: Outcome
    finding: Finding
    reason: str
    difference: float
    low: float
    high: float
    level: float
    n_queries: int
    queries_needed: int | None


def gate_level(n_gates: int) -> float:
    """Return the level of each gate's interval so that all gates together err in 5 % of cases.

    Source: Bonferroni, 1936.
    """
    return 1 - 0.05 / max(n_gates, 1)


def judge(gate: Gate, difference: PairedDifference, *, min_queries: int) -> GateVerdict:
    """Judge B − A, whose interval has the gate's level, against the gate's margin."""
    margin, n = gate.margin, difference.n_queries
    needed = queries_needed(difference.sd, margin)
    nothing_changed = difference.wins == 0 and difference.losses == 0
    # n equal values are no proof: a change in a share p of all queries goes unseen in n queries
    # with probability (1 - p)^n, so p up to 1 - (1 - level)^(1/n) cannot be excluded.
    unseen = 1 - (1 - difference.level) ** (1 / n)
    finding: Finding = "inconclusive"
    why = ""
    if n < min_queries:
        why = f"{n} queries are fewer than the {min_queries} a verdict needs (--min-queries)"
    elif nothing_changed:
        if unseen <= margin:
            finding = "not worse than the margin"
        else:
            needed = (
                math.ceil(math.log(1 - difference.level) / math.log1p(-margin)) if margin else None
            )
            why = (
                f"no query changed its value, but in {n} queries a change in "
                f"{unseen:.1%} of all queries can go unseen"
            )
    elif difference.difference < -margin and difference.high < 0:
        finding = "worse"
    elif difference.low > -margin:
        finding = "not worse than the margin"
    if finding == "inconclusive" and needed and needed > n:
        why = f"{why}; " if why else ""
        why += f"about {needed} queries would settle a margin of {margin:g}"
    outcome: Outcome = {
        "worse": "fail",
        "not worse than the margin": "pass",
        "inconclusive": "inconclusive",
    }[finding]  # type: ignore[assignment]
    level = f"{100 * difference.level:.4g}%"
    reason = (
        f"gate {gate.metric}: B-A = {difference.difference:+z.3f} "
        f"({level} interval [{difference.low:+z.3f}, {difference.high:+z.3f}]), "
        f"fails when worse than -{margin:g} with the whole interval below 0 -> {outcome.upper()}"
    )
    return GateVerdict(
        gate=str(gate),
        metric=str(gate.metric),
        margin=margin,
        outcome=outcome,
        finding=finding,
        reason=f"{reason}: {why}" if why else reason,
        difference=difference.difference,
        low=difference.low,
        high=difference.high,
        level=difference.level,
        n_queries=n,
        queries_needed=needed,
    )


def overall(verdicts: Sequence[GateVerdict]) -> Outcome:
    """Return fail if any gate fails, else inconclusive if any is, else pass."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "fail" in outcomes:
        return "fail"
    return "inconclusive" if "inconclusive" in outcomes else "pass"
