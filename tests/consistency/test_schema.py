"""What exists twice stays the same: the packaged schema and the types it is made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embed_ab import matrix_surfaces, result_json

PACKAGE = Path(__file__).parents[2] / "embed_ab"
SCHEMAS = {
    PACKAGE / "result.schema.json": result_json.schema,
    PACKAGE / "matrix.schema.json": matrix_surfaces.schema,
}


def schema_text(path: Path) -> str:
    return json.dumps(SCHEMAS[path](), indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_the_packaged_schema_is_made_from_the_types(path: Path) -> None:
    """Write it again with `python tests/consistency/test_schema.py`."""
    assert path.read_text("utf-8") == schema_text(path)


if __name__ == "__main__":
    for path in SCHEMAS:
        path.write_text(schema_text(path), "utf-8")
