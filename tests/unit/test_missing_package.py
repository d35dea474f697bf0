"""Without sentence-transformers an `st:` model ends in one sentence, whatever its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["owner/model", "./folder"])
def test_the_missing_package_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    code = (
        "import sys, importlib.metadata as metadata\n"
        "real = metadata.version\n"
        "def version(name):\n"
        "    if name in ('sentence-transformers', 'huggingface_hub'):\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.version = version\n"
        "sys.modules['huggingface_hub'] = sys.modules['sentence_transformers'] = None\n"
        "from embed_ab.cli import main\n"
        "assert main(['demo', '--export', 'eval']) == 0\n"
        f"sys.exit(main(['compare', 'eval', '-a', 'st:{name}', '-b', 'bm25:auto']))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert done.returncode == 3
    assert "need the package sentence-transformers, which is missing" in done.stderr
    assert "Traceback" not in done.stderr
