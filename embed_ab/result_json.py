"""`Comparison` to JSON (schema version 1) and back.

The dataclasses are the schema: keys come in the order of their fields, floats at full precision,
and `result.schema.json` in the package is made from them (a test keeps it in step).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from embed_ab.errors import InputError
from embed_ab.formats import shorten
from embed_ab.gate import MAX_VALUE, SliceName
from embed_ab.metrics import Metric
from embed_ab.paired import PairedDifference
from embed_ab.result import SCHEMA_VERSION, Comparison, redacted
from embed_ab.slices import MAX_FIELD_NAME, MAX_FIELDS, MAX_SLICES

_HINT = "Give the result.json that `embed-ab compare` wrote."
_MAX_DIGITS = 100  # of a number with a point; no float needs more than 24 characters
_COUNTED = ("seconds", "texts_embedded", "texts_cached", "tokens", "price", "embedding_seconds")
_ROUNDING = 1e-6  # by which the mean of values from 0 to 1 may miss that range


@cache
def _adapter() -> TypeAdapter[Comparison]:
    return TypeAdapter(Comparison)


def dumps(comparison: Comparison) -> str:
    """Return the JSON text, with a line end; the same comparison gives the same bytes."""
    data = _adapter().dump_python(comparison, mode="json")
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def load(path: Path) -> Comparison:
    """Return the comparison of a result file. Raises: InputError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint=_HINT) from None
    return loads(content, str(path))


def loads(content: bytes, name: str) -> Comparison:
    """Return the comparison that JSON in UTF-8 holds; `name` stands in the errors.

    A stranger may have written it: what comes back can be shown on any surface, and one that says
    it is redacted holds no text.
    Raises: InputError.
    """
    try:
        data = json.loads(
            content.decode("utf-8-sig"),
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_finite,
        )
        # Written again, because half a surrogate pair cannot be; and because only reading JSON
        # itself is pydantic strict and yet takes a list for a tuple. Without strictness the text
        # "NaN" is a number.
        text = json.dumps(data, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: byte {error.start} is not UTF-8", hint=_HINT) from None
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}: not JSON: {error.msg}", hint=_HINT) from None
    except ValueError as error:  # NaN, half a surrogate pair, a number of thousands of digits
        raise InputError(f"{name}: {error}", hint=_HINT) from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply for a result", hint=_HINT) from None
    if isinstance(data, dict) and data.get("kind") == "matrix":
        raise InputError(
            f"{name}: the result of `embed-ab matrix`, not of a comparison", hint=_HINT
        )
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{name}: schema_version is {shorten(repr(version), 100)}; this version reads "
            f"{SCHEMA_VERSION}",
            hint=_HINT,
        )
    try:
        comparison = _adapter().validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = shorten(".".join(map(str, first["loc"])), 200)
        message = shorten(first["msg"], 200)
        raise InputError(f"{name}: {place}: {message}", hint=_HINT) from None
    if fault := _fault(comparison):
        raise InputError(f"{name}: {fault}", hint=_HINT)
    return redacted(comparison) if comparison.is_redacted else comparison


def _whole(text: str) -> int:
    if len(text) > 19:
        raise ValueError(f"{shorten(text, 40)} is too large a number")
    return int(text)


def _finite(text: str) -> float:
    value = float(text) if len(text) <= _MAX_DIGITS else math.nan
    if not math.isfinite(value):
        raise ValueError(f"{shorten(text, 40)} is not a finite number")
    return value


def _fault(comparison: Comparison) -> str:
    """What does not fit together in a result that somebody may have changed, "" for nothing."""
    known = {difference.metric for difference in comparison.differences}
    named = {comparison.primary, *comparison.metrics, *(g.metric for g in comparison.gates)}
    if not comparison.differences or not comparison.queries or not named <= known:
        return "differences or queries are missing"
    if len(known) < len(comparison.differences):
        return "a metric has two differences"
    if [system.label for system in comparison.systems] not in (["A", "B"], ["A", "B", "BM25"]):
        return "the systems are not A and B, perhaps with BM25"
    for difference in comparison.differences:
        if fault := _fault_of_difference(difference):
            return f"metric {shorten(difference.metric, 100)!r}: {fault}"
    for gate in comparison.gates:
        if not (0 <= gate.margin < 1 and _is_interval(gate.low, gate.high, gate.level)):
            return f"the gate on {gate.metric} has a number that is none of a gate"
    if fault := _fault_of_slices(comparison):
        return fault
    for system in comparison.systems:
        if not all(mean is None or _is_share(mean) for mean in system.means.values()):
            return f"{system.label} has a mean outside 0 to 1"
    evalset = comparison.evalset
    counts = (evalset.n_documents, evalset.n_queries, evalset.n_evaluated, evalset.n_excluded)
    if min(*counts, evalset.n_judgements, evalset.n_empty_documents) < 0:
        return "the evaluation set has a count below 0"
    measured = comparison.measured
    numbers = [
        *(
            n
            for system in comparison.systems
            for n in (system.bytes_per_vector, system.corpus_bytes)
        ),
        *(n for key in _COUNTED for n in measured.get(key, {}).values()),  # type: ignore[attr-defined]
        *(n for wait in measured.get("query_ms", {}).values() for n in wait.values()),
        *(n for wait in measured.get("rerank_ms", {}).values() for n in wait.values()),
    ]
    if min((n for n in numbers if n is not None), default=0) < 0:
        return "something was measured to be below 0"
    if comparison.depth < 1:
        return "the runs have a depth below 1"
    ids = {row.query for row in comparison.queries}
    if fault := _fault_of_candidates(comparison, ids):
        return f"candidates: {fault}"
    if not {detail.query for detail in comparison.details} <= ids:
        return "details name a query that is not among the queries"
    for row in comparison.queries:
        query = shorten(row.query, 100)
        for values in (row.a, row.b):
            if not known <= values.keys():
                return f"query {query!r} has no value for a metric"
            if any(value is not None and not 0 <= value <= 1 for value in values.values()):
                return f"query {query!r} has a value outside 0 to 1"
        ranks = (row.rank_a, row.rank_b)
        if any(rank is not None and rank < 1 for rank in ranks):
            return f"query {query!r} has a rank below 1"
        if min(row.unjudged_a, row.unjudged_b) < 0:
            return f"query {query!r} has a count below 0"
        if row.cluster is not None and not 0 <= row.cluster < len(comparison.queries):
            return f"query {query!r} has cluster {row.cluster}"
    return ""


def _fault_of_slices(comparison: Comparison) -> str:
    metrics = [difference.metric for difference in comparison.differences]
    fields = [sliced.field for sliced in comparison.slices]
    if len(fields) > MAX_FIELDS or len(set(fields)) < len(fields):
        return "there are slices by too many fields, or twice by one"
    names = set()
    for sliced in comparison.slices:
        values = [part.value for part in sliced.slices]
        place = f"slices by {shorten(sliced.field, 100)!r}: "
        if len(values) > MAX_SLICES + len(comparison.gates) or len(set(values)) < len(values):
            return f"{place}there are too many, or one twice"
        if len(sliced.field) > MAX_FIELD_NAME or any(len(value) > MAX_VALUE for value in values):
            return f"{place}a name is too long"
        if min(sliced.n_slices_left_out, sliced.n_queries_left_out, sliced.n_queries_without) < 0:
            return f"{place}a count is below 0"
        for part in sliced.slices:
            if [difference.metric for difference in part.differences] != metrics:
                return f"{place}the metrics are not those of all queries"
            for difference in part.differences:
                if fault := _fault_of_difference(difference):
                    return f"{place}metric {difference.metric!r}: {fault}"
        names |= {SliceName(field=sliced.field, value=value) for value in values}
    if not {gate.slice for gate in comparison.gates} - {None} <= names:
        return "a gate names a slice that is not among the slices"
    for row in comparison.queries:
        if not names.issuperset(row.slice_names):
            return f"query {shorten(row.query, 100)!r} is in a slice that is not among the slices"
    return ""


def _fault_of_difference(difference: PairedDifference) -> str:
    try:
        name = str(Metric.parse(difference.metric))
    except InputError:
        name = ""
    if name != difference.metric:
        return "this is not how a metric is written"
    counts = (difference.wins, difference.losses, difference.ties)
    if min(counts) < 0 or sum(counts) != difference.n_queries:
        return "wins, losses and ties are not all the queries"
    if not 1 <= difference.n_units <= difference.n_queries:
        return "there are fewer queries than groups of them, or none"
    if not (_is_share(difference.mean_a) and _is_share(difference.mean_b)):
        return "a mean is outside 0 to 1"
    if not _is_interval(difference.low, difference.high, difference.level):
        return "the interval is none of a difference"
    if not (abs(difference.difference) <= 1 + _ROUNDING and difference.sd >= 0):
        return "the difference is outside -1 to 1, or its deviation below 0"
    if not 0 <= (difference.detectable or 0) <= 100:
        return "the detectable difference is none"
    if not (_is_share(difference.p_value) and _is_share(difference.p_holm)):
        return "a p-value is outside 0 to 1"
    return ""


def _fault_of_candidates(comparison: Comparison, ids: set[str]) -> str:
    found = comparison.candidates
    if found is None:
        return ""
    of_metric = {difference.metric: difference for difference in comparison.differences}
    if [ceiling.metric for ceiling in found.ceilings] != list(of_metric):
        return "the metrics are not those of the differences"
    if found.depth < 1 or not _is_share(found.recall):
        return "the depth or the recall is none"
    if not set(found.out_of_reach) <= ids or len(set(found.out_of_reach)) < len(found.out_of_reach):
        return "a query out of reach is not among the queries, or is there twice"
    for ceiling in found.ceilings:
        d = of_metric[ceiling.metric]
        room = ceiling.ceiling - d.mean_a
        if not (_is_share(ceiling.ceiling) and ceiling.ceiling >= d.mean_b - _ROUNDING):
            return f"the ceiling of {ceiling.metric} is outside 0 to 1 or below B"
        if ceiling.way is None:
            continue
        if (
            not found.same_for_a
            or room <= 0
            or abs(ceiling.way - (d.mean_b - d.mean_a) / room) > (_ROUNDING / room)
        ):
            return f"the way to the ceiling of {ceiling.metric} is not that of its numbers"
    return ""


def _is_interval(low: float, high: float, level: float) -> bool:
    return -1 - _ROUNDING <= low <= high <= 1 + _ROUNDING and 0.5 <= level < 1 - _ROUNDING


def _is_share(value: float) -> bool:
    return -_ROUNDING <= value <= 1 + _ROUNDING


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a result file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_adapter().json_schema(mode="serialization"),
    }
