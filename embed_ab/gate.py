"""The verdict: worse, not worse than the margin, or inconclusive."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from embed_ab import formats
from embed_ab.errors import InputError
from embed_ab.metrics import Metric
from embed_ab.paired import PairedDifference, queries_needed

LEVEL = 0.95
"""Level of the intervals shown, and of all gates together."""

Outcome = Literal["pass", "fail", "inconclusive"]
GateFinding = Literal["worse", "not worse than the margin", "inconclusive"]
Finding = Literal[
    "better", "worse", "no difference shown", "not worse than the margin", "inconclusive"
]

_OUTCOMES: dict[GateFinding, Outcome] = {
    "worse": "fail",
    "not worse than the margin": "pass",
    "inconclusive": "inconclusive",
}


MAX_VALUE = 80
"""Characters of a slice's name."""


@dataclass(frozen=True, kw_only=True)
class SliceName:
    """The queries whose `field` has this value; `str()` is `language=ko`."""

    field: str
    value: str

    @classmethod
    def of(cls, field: str, value: str) -> SliceName:
        """Return the name for any text as value, on one line and at most 80 characters long.

        The end of a longer one is a digest, so that two values keep two names.
        """
        name = formats.plain(value).strip()
        if len(name) > MAX_VALUE:
            digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
            name = f"{name[: MAX_VALUE - 9]}…{digest}"
        return cls(field=field, value=name)

    def __str__(self) -> str:
        return f"{self.field}={self.value}"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A metric, how much of it may be lost, and where: `ndcg@10:0.02`, `hit@5[language=ko]:0.1`."""

    metric: Metric
    margin: float
    slice: SliceName | None = None
    """None where the gate is about all queries."""

    @classmethod
    def parse(cls, text: str, *, default_k: int) -> Gate:
        """Return the gate written as METRIC@K:MARGIN or METRIC@K[FIELD=VALUE]:MARGIN.

        Raises: InputError.
        """
        what, colon, margin_text = text.rpartition(":")
        hint = (
            "Write METRIC@K:MARGIN with a margin from 0 to 1, for example ndcg@10:0.02, or "
            "ndcg@10[language=ko]:0.03 for a part of the queries."
        )
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
        metric, bracket, rest = what.strip().partition("[")
        where = None
        if bracket:
            field, equals, value = rest.removesuffix("]").partition("=")
            if not (rest.endswith("]") and equals and field.strip() and value.strip()):
                raise InputError(f"gate '{text}': '[{rest}' is no [FIELD=VALUE]", hint=hint)
            where = SliceName.of(field.strip(), value)
        return cls(
            metric=Metric.parse(metric.strip(), default_k=default_k),
            margin=abs(margin),
            slice=where,
        )

    @property
    def on(self) -> str:
        """The metric, and the slice where there is one: `ndcg@10[language=ko]`."""
        return _on(str(self.metric), self.slice)

    def __str__(self) -> str:
        return f"{self.on}:{self.margin:g}"


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """What one gate says, and why.

    `queries_needed` counts groups of queries where these are resampled and B loses no query; None
    where it cannot be estimated.
    """

    gate: str
    metric: str
    slice: SliceName | None = None
    """None where the gate is about all queries."""
    margin: float
    outcome: Outcome
    finding: GateFinding
    reason: str
    """The whole line for a log."""
    why: str
    """What is missing for a verdict; "" where there is one."""
    difference: float
    low: float
    high: float
    level: float
    n_queries: int
    queries_needed: int | None

    @property
    def on(self) -> str:
        """The metric, and the slice where there is one: `ndcg@10[language=ko]`."""
        return _on(self.metric, self.slice)


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What all gates together say, or the primary metric's interval where there is no gate."""

    outcome: Outcome
    finding: Finding
    sentence: str
    metric: str
    """The metric that the sentence is about."""


def gate_level(n_gates: int) -> float:
    """Return the level of each gate's interval so that all gates together err in 5 % of cases.

    Source: Bonferroni, 1936.
    """
    return 1 - (1 - LEVEL) / max(n_gates, 1)


def judge(gate: Gate, difference: PairedDifference, *, min_queries: int) -> GateVerdict:
    """Judge B − A, whose interval has the gate's level, against the gate's margin.

    difference: over the queries of the gate's slice, or all.
    """
    margin, n = gate.margin, difference.n_units
    units = "queries" if n == difference.n_queries else "groups of queries"
    needed = queries_needed(difference.sd, margin, difference.level)
    low = difference.low
    why = ""
    if difference.losses == 0:
        # Not to have seen a loss is no proof: in n queries a loss that comes in a share p of all
        # goes unseen with probability (1 - p)^n, so p up to 1 - (1 - level)^(1/n) is possible.
        unseen = 1 - (1 - difference.level) ** (1 / n)
        low -= unseen
        seen = "no query changed its value" if difference.wins == 0 else "B loses no query"
        why = f"{seen}, but in {n} {units} a loss of {formats.percent(unseen)} can go unseen"
        tolerable = margin + difference.low
        needed = None
        if 1e-9 < tolerable < 1:
            needed = math.ceil(math.log(1 - difference.level) / math.log1p(-tolerable))
    if needed is not None and (units == "queries" or difference.losses == 0):
        needed = max(needed, min_queries)  # both count the same
    finding: GateFinding = "inconclusive"
    if n >= min_queries:
        if difference.difference < -margin and difference.high < 0:
            finding = "worse"
        elif low > -margin or (low == -margin and difference.losses == 0):
            finding = "not worse than the margin"
    if finding != "inconclusive":
        why = ""
    else:
        if n < min_queries:
            why = f"{_units(difference)} fewer than the {min_queries} a verdict needs"
        elif not why:
            why = f"the interval reaches below {-margin:g}" if margin else "the interval includes 0"
        n_of_needed = n if difference.losses == 0 else difference.n_queries
        if needed is not None and needed > n_of_needed:
            what = units if difference.losses == 0 else "queries"
            why += (
                f"; if B is as good as A, about {needed} {what} would show that it loses no more "
                f"than {margin:g}"
            )
    outcome = _OUTCOMES[finding]
    limit = f"-{margin:g}" if margin else "0"
    reason = (
        f"gate {gate.on}: B-A = {formats.signed(difference.difference)} "
        f"({_level(difference.level)} interval {formats.interval(difference.low, difference.high)})"
        f", fails when worse than {limit} with the whole interval below 0 -> {outcome.upper()}"
    )
    return GateVerdict(
        gate=str(gate),
        metric=str(gate.metric),
        slice=gate.slice,
        margin=margin,
        outcome=outcome,
        finding=finding,
        reason=_ascii(f"{reason}: {why}" if why else reason),
        why=why,
        difference=difference.difference,
        low=difference.low,
        high=difference.high,
        level=difference.level,
        n_queries=difference.n_queries,
        queries_needed=needed,
    )


def decisive(verdicts: Sequence[GateVerdict]) -> GateVerdict | None:
    """Return the verdict that decides the outcome; of equal ones the first on all queries."""
    order: tuple[Outcome, ...] = ("fail", "inconclusive", "pass")
    return min(verdicts, key=lambda v: (order.index(v.outcome), v.slice is not None), default=None)


def conclude(
    primary: PairedDifference, verdicts: Sequence[GateVerdict], *, min_queries: int
) -> Conclusion:
    """Return fail if any gate fails, else inconclusive if any is, else pass; in plain words.

    Without a gate the primary metric's interval decides between better, worse and neither. A gate
    on a slice that decides is named as such.
    """
    deciding = decisive(verdicts)
    outcome = deciding.outcome if deciding else "pass"
    shown = deciding or primary
    part = deciding.slice if deciding else None
    where = f" where {part}" if part else ""
    n_of_part = deciding.n_queries if deciding else 0
    count = f"{n_of_part} {'query' if n_of_part == 1 else 'queries'}" if part else _count(primary)
    numbers = (
        f"{shown.metric} B − A = {formats.signed(shown.difference)}, {_level(shown.level)} "
        f"interval {formats.interval(shown.low, shown.high)}, {count}"
    )
    finding: Finding
    if deciding is not None:
        finding = "better" if deciding.low > 0 and outcome == "pass" else deciding.finding
        says = {
            "better": f"B is better than A{where}: {numbers}.",
            "worse": f"B is worse than A{where}, and the loss measured exceeds the margin of "
            f"{deciding.margin:g}: {numbers}.",
            "not worse than the margin": f"B is not worse than A{where} by more than the margin of "
            f"{deciding.margin:g}: {numbers}.",
            "inconclusive": f"Inconclusive: this set cannot tell whether B is worse than A{where} "
            f"by more than {deciding.margin:g}: {numbers}; {deciding.why}.",
        }[finding]
    elif primary.n_units < min_queries:
        finding = "no difference shown"
        says = (
            f"No difference shown: {numbers}; {_units(primary)} fewer than the {min_queries} "
            "a verdict needs."
        )
    elif primary.low > 0:
        finding, says = "better", f"B is better than A: {numbers}."
    elif primary.high < 0:
        finding, says = "worse", f"B is worse than A: {numbers}."
    else:
        finding = "no difference shown"
        says = f"No difference shown: {numbers}" + (
            f"; this set can detect a difference of about {primary.detectable:.3f}."
            if primary.detectable is not None
            else "."
        )
    return Conclusion(outcome=outcome, finding=finding, sentence=says, metric=shown.metric)


def _count(difference: PairedDifference) -> str:
    queries = "1 query" if difference.n_queries == 1 else f"{difference.n_queries} queries"
    if difference.n_units == difference.n_queries:
        return queries
    return f"{queries} in {difference.n_units} group{'s' if difference.n_units > 1 else ''}"


def _units(difference: PairedDifference) -> str:
    one = difference.n_units == 1
    if difference.n_units == difference.n_queries:
        return "1 query is" if one else f"{difference.n_units} queries are"
    return "1 group of queries is" if one else f"{difference.n_units} groups of queries are"


def _on(metric: str, part: SliceName | None) -> str:
    return f"{metric}[{part}]" if part else metric


def _level(level: float) -> str:
    return f"{100 * level:.4g}%"


def _ascii(text: str) -> str:
    # The gate line is for logs and for grep.
    return text.replace(formats.MINUS, "-")
