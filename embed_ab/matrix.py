"""Several systems over one evaluation set, each compared with one baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import Any, Literal

from embed_ab import paired
from embed_ab.cautions import CODES
from embed_ab.comparison import Options, compare_runs
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.origin import System
from embed_ab.paired import PairedDifference
from embed_ab.rerank import Candidates
from embed_ab.result import (
    SCHEMA_VERSION,
    Comparison,
    EvalsetRecord,
    Measured,
    Number,
    Overlap,
    SystemRecord,
)

LABELS = ascii_uppercase
"""The baseline is A; there are no more systems than letters."""
ERROR_RATE = 0.05
"""How often at most any verdict of a matrix is wrong where nothing differs."""

Verdict = Literal["better", "worse", "no difference shown"]
VERDICTS: tuple[Verdict, ...] = ("better", "worse", "no difference shown")

_OF_DIFFERENCES = frozenset({"not_significant", "identical_rankings", "ceiling", "unjudged_gap"})
_MEANINGS = CODES | {
    # Elsewhere A and B are the only two.
    "identical_rankings": "It returns the same top documents as the baseline for every query.",
}


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One system compared with the baseline, as `compare_runs` does it.

    differences: system − baseline; as in a comparison, but `p_holm` is adjusted over all systems
        and metrics of the matrix, and each interval stands for itself.
    verdicts: by metric; they go by `p_holm` and the sign of the difference.
    candidates: what the system reorders and the best order of it; None where it is no reranker.
    """

    label: str
    differences: tuple[PairedDifference, ...]
    verdicts: dict[str, Verdict]
    overlap: Overlap
    candidates: Candidates | None


@dataclass(frozen=True, kw_only=True)
class Warned:
    """A caution that some comparison with the baseline has.

    systems: which systems have it, the baseline too, where it is about systems.
    comparisons: comparing the baseline with which ones has it, where it is about the difference.
    Both are empty where it is about the evaluation set.
    """

    code: str
    meaning: str
    systems: tuple[str, ...]
    comparisons: tuple[str, ...]

    @property
    def about(self) -> str:
        """What it is about, to stand in parentheses."""
        if self.comparisons:
            return f"comparing with {', '.join(self.comparisons)}"
        return ", ".join(self.systems) or "the evaluation set"


@dataclass(frozen=True, kw_only=True)
class QueryValues:
    """One query with its values by label and metric; `n_relevant` 0 means excluded."""

    query: str
    text: str
    """"" where texts are left out."""
    n_relevant: int
    cluster: int | None
    values: dict[str, dict[str, Number]]


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Everything a report or a comment needs; JSON has the same keys.

    Only `measured` varies between two runs on the same input with the same seed.
    """

    schema_version: int
    kind: Literal["matrix"]
    version: str
    verdict: str
    primary: str
    metrics: tuple[str, ...]
    """Those asked for; `differences` also hold the primary one."""
    min_grade: int
    depth: int
    n_tests: int
    """Systems beside the baseline times metrics: what p-values are adjusted for."""
    evalset: EvalsetRecord
    systems: tuple[SystemRecord, ...]
    """The baseline first."""
    contrasts: tuple[Contrast, ...]
    cautions: tuple[Warned, ...]
    ignored: tuple[str, ...]
    notes: tuple[str, ...]
    queries: tuple[QueryValues, ...]
    conventions: dict[str, str]
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)

    @property
    def is_redacted(self) -> bool:
        """Whether the texts of queries are left out."""
        return bool(self.settings.get("redact"))


def compare_all(evalset: Evalset, ranked: Mapping[str, System], options: Options) -> Matrix:
    """Compare every system with the first one.

    ranked: at least two by label, the baseline first.
    Raises: InputError, as `compare_runs` does.
    """
    (baseline, a), *others = ranked.items()
    options = replace(options, gates=(), worst_queries=0)
    for label, system in others:
        if not any((one.run.documents >= 0).any() for one in (a, system)):
            raise InputError(
                f"neither {baseline} ({a.origin.system}) nor {label} ({system.origin.system}) "
                "finds any document, so there is nothing to compare",
                hint="Look at the texts: with BM25, queries and documents must share words.",
            )
    compared = {label: compare_runs(evalset, a, system, None, options) for label, system in others}
    first = next(iter(compared.values()))
    contrasts = _contrasts(compared, options)
    n_tests = sum(len(contrast.differences) for contrast in contrasts)
    n_units = first.differences[0].n_units
    return Matrix(
        schema_version=SCHEMA_VERSION,
        kind="matrix",
        version=first.version,
        verdict=_sentence(baseline, contrasts, first.primary, n_tests),
        primary=first.primary,
        metrics=first.metrics,
        min_grade=first.min_grade,
        depth=first.depth,
        n_tests=n_tests,
        evalset=first.evalset,
        systems=(
            replace(first.systems[0], label=baseline),
            *(replace(found.systems[1], label=label) for label, found in compared.items()),
        ),
        contrasts=contrasts,
        cautions=_warned(baseline, compared),
        ignored=tuple(sorted({code for found in compared.values() for code in found.ignored})),
        notes=_notes(n_units, n_tests, options),
        queries=tuple(
            QueryValues(
                query=row.query,
                text=row.text,
                n_relevant=row.n_relevant,
                cluster=row.cluster,
                values={baseline: row.a}
                | {label: found.queries[query].b for label, found in compared.items()},
            )
            for query, row in enumerate(first.queries)
        ),
        conventions=first.conventions
        | {
            "p-value": "two-sided sign-flip randomisation test, Holm-adjusted over the "
            f"{n_tests} tests of all systems and metrics",
            "verdict": f"better or worse where the adjusted p-value is at most {ERROR_RATE:g}; "
            "each interval stands for itself and is not adjusted",
        },
    )


def _contrasts(compared: Mapping[str, Comparison], options: Options) -> tuple[Contrast, ...]:
    adjusted = iter(
        paired.holm([d.p_value for found in compared.values() for d in found.differences])
    )
    contrasts = []
    for label, found in compared.items():
        differences = tuple(replace(d, p_holm=next(adjusted)) for d in found.differences)
        contrasts.append(
            Contrast(
                label=label,
                differences=differences,
                verdicts={d.metric: _verdict(d, options.min_queries) for d in differences},
                overlap=found.overlap,
                candidates=found.candidates,
            )
        )
    return tuple(contrasts)


def _verdict(difference: PairedDifference, min_queries: int) -> Verdict:
    if difference.p_holm > ERROR_RATE or difference.n_units < min_queries:
        return "no difference shown"
    return "better" if difference.difference > 0 else "worse"


def _sentence(baseline: str, contrasts: tuple[Contrast, ...], primary: str, n_tests: int) -> str:
    found = {
        verdict: [c.label for c in contrasts if c.verdicts[primary] == verdict]
        for verdict in VERDICTS
    }
    parts = [f"{verdict}: {', '.join(labels)}" for verdict, labels in found.items() if labels]
    return (
        f"Compared with {baseline} by {primary}, {'; '.join(parts)} (Holm-adjusted over "
        f"{n_tests} {'test' if n_tests == 1 else 'tests'}, at {100 * ERROR_RATE:g}%)."
    )


def _warned(baseline: str, compared: Mapping[str, Comparison]) -> tuple[Warned, ...]:
    systems: dict[str, set[str]] = {}
    comparisons: dict[str, list[str]] = {}
    for label, comparison in compared.items():
        named = {"A": baseline, "B": label}
        for caution in comparison.cautions:
            systems.setdefault(caution.code, set()).update(named[side] for side in caution.sides)
            if caution.code in _OF_DIFFERENCES:
                comparisons.setdefault(caution.code, []).append(label)
    return tuple(
        Warned(
            code=code,
            meaning=meaning,
            systems=tuple(sorted(systems[code])),
            comparisons=tuple(comparisons.get(code, ())),
        )
        for code, meaning in _MEANINGS.items()
        if code in systems
    )


def _notes(n_units: int, n_tests: int, options: Options) -> tuple[str, ...]:
    notes = []
    if n_units < options.min_queries:
        notes.append(
            f"{n_units} queries, or groups of them, are fewer than the {options.min_queries} that "
            "a verdict needs"
        )
    if n_tests * 2.0 ** (1 - n_units) > ERROR_RATE:  # all signs alike, the least there can be
        notes.append(
            f"with {n_units} queries, or groups of them, and {n_tests} tests no difference can be "
            "shown: take more queries, or fewer systems and metrics"
        )
    least = n_tests / (options.resamples + 1)  # no p-value of random signs is below 1 / (N + 1)
    if least > ERROR_RATE:
        notes.append(
            f"with {options.resamples} resamples and {n_tests} tests no difference can be shown: "
            f"give --resamples {int(n_tests / ERROR_RATE) + 1} or more"
        )
    return tuple(notes)


def redacted(matrix: Matrix) -> Matrix:
    """Return the matrix without the texts of queries."""
    return replace(matrix, queries=tuple(replace(row, text="") for row in matrix.queries))
