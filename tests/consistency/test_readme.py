"""Both READMEs name every option and caution as the code has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tables import READMES, with_tables


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_tables_are_made_from_the_code(path: Path) -> None:
    """Make them again with `python tests/consistency/tables.py`."""
    text = path.read_text("utf-8")

    assert with_tables(text) == text
