"""The collections with reference numbers that these tests read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of EMBED_AB_REFERENCE_DATA; skips the test where it is absent."""
    folder = REPOSITORY / os.environ.get("EMBED_AB_REFERENCE_DATA", "../shared/data")
    if not folder.is_dir():
        pytest.skip(f"no reference data in {folder}; set EMBED_AB_REFERENCE_DATA")
    return folder
