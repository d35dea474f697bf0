"""The npm packages that judge us, where `npm ci --prefix tests/action/npm` has installed them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "npm"


def node_modules() -> Path:
    """Return the folder of the packages; skip a test where they or node are absent."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = FOLDER / "node_modules"
    wanted = json.loads((FOLDER / "package.json").read_text("utf-8"))["dependencies"]
    if any(_version(folder / name) != version for name, version in wanted.items()):
        pytest.skip("the npm packages are absent or old: npm ci --prefix tests/action/npm")
    return folder


def _version(package: Path) -> str:
    try:
        version: str = json.loads((package / "package.json").read_text("utf-8"))["version"]
    except OSError:
        return ""
    return version
