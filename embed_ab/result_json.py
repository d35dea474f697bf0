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
from embed_ab.result import SCHEMA_VERSION, Comparison, redacted


@cache
def _adapter() -> TypeAdapter[Comparison]:
    return TypeAdapter(Comparison)


def dumps(comparison: Comparison) -> str:
    """Return the JSON text, with a line end; the same comparison gives the same bytes."""
    data = _adapter().dump_python(comparison, mode="json")
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def load(path: Path) -> Comparison:
    """Return the comparison of a result file; one that says it is redacted holds no text.

    Raises: InputError.
    """
    hint = "Give the result.json that `embed-ab compare` wrote."
    try:
        text = path.read_text("utf-8-sig")
        data = json.loads(text, parse_float=_finite, parse_constant=_finite)
        json.dumps(data, ensure_ascii=False).encode()  # half a surrogate pair cannot be written
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8", hint=hint) from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg}", hint=hint) from None
    except ValueError as error:  # NaN, half a surrogate pair, a number of thousands of digits
        raise InputError(f"{path}: {error}", hint=hint) from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply for a result", hint=hint) from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version is {version!r}; this version reads {SCHEMA_VERSION}", hint=hint
        )
    try:
        comparison = _adapter().validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}: {first['msg']}", hint=hint) from None
    if fault := _fault(comparison):
        raise InputError(f"{path}: {fault}", hint=hint)
    return redacted(comparison) if comparison.is_redacted else comparison


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _fault(comparison: Comparison) -> str:
    """What does not fit together in a result that somebody may have changed, "" for nothing."""
    known = {difference.metric for difference in comparison.differences}
    named = {comparison.primary, *comparison.metrics, *(g.metric for g in comparison.gates)}
    if not comparison.differences or not comparison.queries or not named <= known:
        return "differences or queries are missing"
    if [system.label for system in comparison.systems][:2] != ["A", "B"]:
        return "the systems are not A and B"
    ids = {row.query for row in comparison.queries}
    if not {detail.query for detail in comparison.details} <= ids:
        return "details name a query that is not among the queries"
    for row in comparison.queries:
        for values in (row.a, row.b):
            if not known <= values.keys():
                return f"query {row.query!r} has no value for a metric"
            if any(value is not None and not 0 <= value <= 1 for value in values.values()):
                return f"query {row.query!r} has a value outside 0 to 1"
        if row.cluster is not None and not 0 <= row.cluster < len(comparison.queries):
            return f"query {row.query!r} has cluster {row.cluster}"
    return ""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a result file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_adapter().json_schema(mode="serialization"),
    }
