"""The same difference over parts of the queries: by a field of theirs, or by what they are."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from embed_ab.cautions import COPIED, copied_shares
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset
from embed_ab.gate import LEVEL, SliceName
from embed_ab.origin import System
from embed_ab.paired import PairedDifference, holm

MAX_FIELDS = 10
MAX_SLICES = 20
"""Of one field, the largest; the rest is counted. Slices that gates name come on top."""
MAX_FIELD_NAME = 100
FEW_NUMBERS = 5
"""A field with at most so many different numbers has a slice for each, else one for each third."""

THIRDS = ("low", "medium", "high")
BUILT_IN: dict[str, tuple[str, ...]] = {
    "query-length": ("short", "medium", "long"),
    "n-relevant": ("1", "2-5", "6+"),
    "copied-share": ("0-50%", "50-90%", "90-100%"),
    "gold-truncated": ("neither", "A", "B", "A and B", "not known"),
}
"""What the queries can be sliced by beside their own fields, and the values, in their order."""

SliceFinding = Literal["better", "worse", "no difference shown", "too few queries"]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """B − A over the evaluated queries with one value of a field.

    `p_holm` of its differences is adjusted, metric by metric, over all slices of the comparison
    that are large enough to be judged; it is 1 for one that is not. Intervals are not adjusted.
    """

    value: str
    range: tuple[float, float] | None
    """The least and the largest number in it, where numbers were cut into thirds."""
    finding: SliceFinding
    """By the primary metric: better or worse where `p_holm` is below 0.05 and the interval does not
    hold 0; "too few queries" below `min-queries` of them, or of their groups."""
    is_reversal: bool
    """Its interval lies on the other side of 0 than the difference of all queries."""
    differences: tuple[PairedDifference, ...]
    """Every metric, in the order of the comparison's differences."""

    def of(self, metric: str) -> PairedDifference:
        """Return the difference of a metric."""
        return next(d for d in self.differences if d.metric == metric)

    @property
    def matters(self) -> bool:
        """Whether it is significant or goes against the whole."""
        return self.is_reversal or self.finding in ("better", "worse")


@dataclass(frozen=True, kw_only=True)
class Sliced:
    """The slices by one field. No query is in two; `n_...` count evaluated queries without one."""

    field: str
    slices: tuple[Slice, ...]
    """Numbers and built-in values in their order, others largest first."""
    n_slices_left_out: int
    n_queries_left_out: int
    n_queries_without: int
    """That have no value, or a blank one."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Which slice each query is in.

    values: (n_queries,) the slice's name, "" for a query in none.
    shown: the slices to compare, in order. ranges: see `Slice.range`.
    """

    field: str
    values: tuple[str, ...]
    shown: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]
    n_slices_left_out: int
    n_queries_left_out: int
    n_queries_without: int

    def mask(self, value: str) -> Mask:
        """Return which queries are in a slice, (n_queries,)."""
        return np.array([own == value for own in self.values], dtype=np.bool_)


def partitions(
    fields: Sequence[str],
    gated: Sequence[SliceName],
    evalset: Evalset,
    a: System,
    b: System,
    *,
    gold: NDArray[np.int64],
    n_relevant: NDArray[np.int64],
) -> tuple[Partition, ...]:
    """Return how each field, and each field that a gate names, parts the evaluated queries.

    A built-in name goes before a field of that name. Of a field, numbers of more than five
    different values are cut into thirds; lists and objects are one value, as JSON.
    gold: (n_queries,) the best relevant document, -1 for none; those without are in no slice.
    n_relevant: (n_queries,) how many there are.
    Raises: InputError for a field that no query has, and a gate on a slice without a query.
    """
    is_evaluated = gold >= 0
    found = []
    for field in dict.fromkeys([*fields, *(name.field for name in gated)]):
        ranges: Mapping[str, tuple[float, float]] = {}
        if field == "query-length":
            lengths = [len(text) for text in evalset.query_texts]
            own = [n if seen else None for n, seen in zip(lengths, is_evaluated, strict=True)]
            names, ranges = _thirds(own, BUILT_IN[field])
        elif field == "n-relevant":
            names = [_between(n, (1, 2, 6), BUILT_IN[field]) for n in n_relevant.tolist()]
        elif field == "copied-share":
            shares = copied_shares(evalset, gold).tolist()
            names = [_between(share, (0, 0.5, COPIED), BUILT_IN[field]) for share in shares]
        elif field == "gold-truncated":
            names = _cut_by(a.is_cut, b.is_cut, gold)
        else:
            names, ranges = _of_metadata(field, evalset, is_evaluated)
        names = [name if seen else "" for name, seen in zip(names, is_evaluated, strict=True)]
        wanted = [name.value for name in gated if name.field == field]
        found.append(_partition(field, names, wanted, ranges, int(is_evaluated.sum())))
    of_field = {partition.field: partition for partition in found}
    for name in gated:
        if name.value not in of_field[name.field].shown:
            raise InputError(
                f"gate on [{name}]: no evaluated query is in this slice",
                hint=f"Values are told apart letter by letter; --slice {name.field} without the "
                "gate lists them.",
            )
    return tuple(found)


def sliced(
    partitions: Sequence[Partition],
    differences_of: Callable[[Mask], tuple[PairedDifference, ...]],
    whole: PairedDifference,
    *,
    min_queries: int,
) -> tuple[Sliced, ...]:
    """Return the difference in every slice.

    differences_of: of the queries in a mask, (n_queries,), every metric; it makes those of all
        queries, too. whole: that of all queries, in the primary metric.
    """
    return judged(
        tuple(
            Sliced(
                field=partition.field,
                slices=tuple(
                    Slice(
                        value=value,
                        range=partition.ranges.get(value),
                        finding="no difference shown",
                        is_reversal=False,
                        differences=differences_of(partition.mask(value)),
                    )
                    for value in partition.shown
                ),
                n_slices_left_out=partition.n_slices_left_out,
                n_queries_left_out=partition.n_queries_left_out,
                n_queries_without=partition.n_queries_without,
            )
            for partition in partitions
        ),
        whole,
        min_queries=min_queries,
    )


def judged(
    parts: Sequence[Sliced], whole: PairedDifference, *, min_queries: int
) -> tuple[Sliced, ...]:
    """Return the slices with p-values adjusted and findings made anew, from their numbers alone.

    How many queries a slice has does not depend on what was measured, so leaving the small ones
    out of the adjustment does not harm it.
    """
    large = {
        (by_field.field, part.value): part
        for by_field in parts
        for part in by_field.slices
        if part.of(whole.metric).n_units >= min_queries
    }
    metrics = [d.metric for d in next(iter(large.values())).differences] if large else []
    adjusted = {
        metric: dict(zip(large, holm([p.of(metric).p_value for p in large.values()]), strict=True))
        for metric in metrics
    }

    def again(field: str, part: Slice) -> Slice:
        differences = tuple(
            replace(d, p_holm=adjusted.get(d.metric, {}).get((field, part.value), 1.0))
            for d in part.differences
        )
        part = replace(part, differences=differences)
        d = part.of(whole.metric)
        is_large = d.n_units >= min_queries
        finding: SliceFinding = "no difference shown" if is_large else "too few queries"
        if is_large and d.p_holm < 1 - LEVEL and not d.low <= 0 <= d.high:
            finding = "better" if d.low > 0 else "worse"
        against = (whole.difference > 0 and d.high < 0) or (whole.difference < 0 and d.low > 0)
        return replace(part, finding=finding, is_reversal=is_large and against)

    return tuple(replace(p, slices=tuple(again(p.field, part) for part in p.slices)) for p in parts)


def values_of(partitions: Sequence[Partition], query: int) -> dict[str, str]:
    """Return the slice of a query by field; only slices that are shown, and in no other."""
    return {p.field: p.values[query] for p in partitions if p.values[query] in p.shown}


def by_name(parts: Sequence[Sliced]) -> dict[SliceName, Slice]:
    """Return every slice by its name."""
    return {
        SliceName(field=by_field.field, value=part.value): part
        for by_field in parts
        for part in by_field.slices
    }


def hidden(parts: Sequence[Sliced], kept: Sequence[SliceName]) -> dict[SliceName, SliceName]:
    """Return a name without text, `slice 2`, for each slice that is named after a query's field.

    Built-in values keep theirs, and so do those in `kept`, which the settings spell out. Hiding
    what is hidden changes nothing.
    """
    names: dict[SliceName, SliceName] = {}
    for by_field in parts:
        taken = {name.value for name in kept if name.field == by_field.field}
        for number, part in enumerate(by_field.slices, start=1):
            if part.value in taken or part.value in BUILT_IN.get(by_field.field, ()):
                continue
            value = f"slice {number}"
            while value in taken:
                value += "*"
            name = SliceName(field=by_field.field, value=part.value)
            names[name] = SliceName(field=by_field.field, value=value)
    return names


def renamed(parts: Sequence[Sliced], names: Mapping[SliceName, SliceName]) -> tuple[Sliced, ...]:
    """Return the slices with some under another name, which loses the numbers that they are cut by.

    names: those of one field all have the same other field.
    """

    def again(by_field: Sliced) -> Sliced:
        own = [SliceName(field=by_field.field, value=part.value) for part in by_field.slices]
        new = [names.get(name, name) for name in own]
        return replace(
            by_field,
            field=new[0].field if new else by_field.field,
            slices=tuple(
                part if name.value == part.value else replace(part, value=name.value, range=None)
                for part, name in zip(by_field.slices, new, strict=True)
            ),
        )

    return tuple(map(again, parts))


def _partition(
    field: str,
    names: Sequence[str],
    wanted: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    n_evaluated: int,
) -> Partition:
    counts = Counter(name for name in names if name)
    largest = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_SLICES]
    largest += [n for n in dict.fromkeys(wanted) if counts[n] and n not in largest]
    order = BUILT_IN.get(field) or (THIRDS if ranges else ())
    shown = [name for name in order if name in largest] or largest
    n_shown = sum(counts[name] for name in shown)
    return Partition(
        field=field,
        values=tuple(names),
        shown=tuple(shown),
        ranges=ranges,
        n_slices_left_out=len(counts) - len(shown),
        n_queries_left_out=counts.total() - n_shown,
        n_queries_without=n_evaluated - counts.total(),
    )


def _of_metadata(
    field: str, evalset: Evalset, is_evaluated: Mask
) -> tuple[list[str], Mapping[str, tuple[float, float]]]:
    raw = [metadata.get(field) for metadata in evalset.query_metadata]
    own = [
        value if seen and value != "" else None
        for value, seen in zip(raw, is_evaluated, strict=True)
    ]
    given = [value for value in own if value is not None]
    if not given:
        known = sorted({name for metadata in evalset.query_metadata for name in metadata})
        raise InputError(
            f"--slice {field}: no evaluated query has a field '{field}'",
            hint=f"Use {', '.join(BUILT_IN)}, or a field of queries.jsonl: "
            f"{', '.join(known[:50]) or '(none)'}.",
        )
    if all(map(_is_number, given)) and len(set(given)) > FEW_NUMBERS:
        return _thirds(own, THIRDS)
    return ["" if v is None else SliceName.of(field, _text(v)).value for v in own], {}


def _is_number(value: Any) -> bool:
    # Those beyond 1e15 are identifiers, or would not fit into a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _thirds(
    numbers: Sequence[float | None], names: Sequence[str]
) -> tuple[list[str], Mapping[str, tuple[float, float]]]:
    """Return the third of each number, equal ones in the same, and the ends of each third."""
    ascending = sorted(number for number in numbers if number is not None)
    n = len(ascending)
    ends = [ascending[math.ceil(n * share / 3) - 1] for share in (1, 2)] if n else [0, 0]
    found = [
        "" if number is None else names[sum(number > end for end in ends)] for number in numbers
    ]
    within: dict[str, list[float]] = {}
    for name, number in zip(found, numbers, strict=True):
        if number is not None:
            within.setdefault(name, []).append(float(number))
    return found, {name: (min(own), max(own)) for name, own in within.items()}


def _between(number: float, starts: Sequence[float], names: Sequence[str]) -> str:
    """Return the name of the range that a number is in; "" below the first start, and for NaN."""
    n = sum(number >= start for start in starts)
    return names[n - 1] if n else ""


def _cut_by(a: Mask | None, b: Mask | None, gold: NDArray[np.int64]) -> list[str]:
    neither, only_a, only_b, both, not_known = BUILT_IN["gold-truncated"]
    if a is None or b is None:
        return [not_known] * gold.size
    named = {(False, False): neither, (True, False): only_a, (False, True): only_b}
    return [named.get((bool(a[document]), bool(b[document])), both) for document in gold]
