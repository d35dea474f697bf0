"""What exists twice stays the same: the packaged schema and the types it is made from."""

from __future__ import annotations

import json
from pathlib import Path

from embed_ab import result_json

SCHEMA = Path(__file__).parents[2] / "embed_ab" / "result.schema.json"


def schema_text() -> str:
    return json.dumps(result_json.schema(), indent=2, ensure_ascii=False) + "\n"


def test_the_packaged_schema_is_made_from_the_types() -> None:
    """Write it again with `python tests/consistency/test_schema.py`."""
    assert SCHEMA.read_text("utf-8") == schema_text()


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), "utf-8")
