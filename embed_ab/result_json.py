"""`Comparison` to JSON (schema version 1) and back.

The dataclasses are the schema: keys come in the order of their fields, floats at full precision,
and `result.schema.json` in the package is made from them (a test keeps it in step).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from embed_ab.errors import InputError
from embed_ab.result import SCHEMA_VERSION, Comparison


@cache
def _adapter() -> TypeAdapter[Comparison]:
    return TypeAdapter(Comparison)


def dumps(comparison: Comparison) -> str:
    """Return the JSON text, with a line end; the same comparison gives the same bytes."""
    data = _adapter().dump_python(comparison, mode="json")
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def load(path: Path) -> Comparison:
    """Return the comparison of a result file. Raises: InputError."""
    hint = "Give the result.json that `embed-ab compare` wrote."
    try:
        text = path.read_text("utf-8-sig")
        data = json.loads(text)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8", hint=hint) from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg}", hint=hint) from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{path}: {error}", hint=hint) from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply for a result", hint=hint) from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version is {version!r}; this version reads {SCHEMA_VERSION}", hint=hint
        )
    try:
        return _adapter().validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}: {first['msg']}", hint=hint) from None


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a result file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_adapter().json_schema(mode="serialization"),
    }
