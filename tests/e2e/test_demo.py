"""The demo, surface by surface, against files that a person has read.

`EMBED_AB_WRITE_GOLDEN=1 pytest tests/e2e/test_demo.py` writes them anew; read the diff.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from embed_ab import commands, render, result_json, terminal
from embed_ab.result import Comparison
from embed_ab.settings import Settings

GOLDEN = Path(__file__).parents[1] / "golden" / "demo"
VERSIONS = {"python": "3", "numpy": "2", "bm25s": "0.3", "embed-ab-action": "0"}


def demo(language: str, tmp_path: Path) -> Comparison:
    outcome = commands.demo(
        language, Settings(out=str(tmp_path)), clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )
    # What depends on the machine is left out; everything else must not.
    return replace(outcome.comparison, measured={}, versions=VERSIONS, version="0")


def golden(name: str, text: str) -> str:
    path = GOLDEN / name
    if os.environ.get("EMBED_AB_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return path.read_text("utf-8")


@pytest.mark.parametrize("language", ["en", "ko"])
def test_what_a_reader_sees_of_the_demo(language: str, tmp_path: Path) -> None:
    compared = demo(language, tmp_path)
    printed = StringIO()
    terminal.comparison(compared, Console(file=printed, width=100))

    shown = {
        f"{language}.txt": printed.getvalue(),
        f"{language}.md": render.markdown(compared),
    }

    assert shown == {name: golden(name, text) for name, text in shown.items()}


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_json_of_the_demo(language: str, tmp_path: Path) -> None:
    """Numbers within 1e-9: the last bit of a sum is the processor's."""
    found = json.loads(result_json.dumps(demo(language, tmp_path)))

    expected = json.loads(golden(f"{language}.json", result_json.dumps(demo(language, tmp_path))))

    assert_close(found, expected, "")


def assert_close(found: Any, expected: Any, place: str) -> None:
    assert type(found) is type(expected), place
    if isinstance(found, dict):
        assert list(found) == list(expected), place
        for key in found:
            assert_close(found[key], expected[key], f"{place}.{key}")
    elif isinstance(found, list):
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, f"{place}[{number}]")
    elif isinstance(found, float):
        assert found == pytest.approx(expected, abs=1e-9), place
    else:
        assert found == expected, place
