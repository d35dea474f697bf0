"""The locks of the image hold what pyproject.toml asks for, and one version of each package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def project() -> dict[str, Any]:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def lock(name: str) -> dict[str, str]:
    """Versions by package; every one of them must come with a hash."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    entries = re.findall(r"^([\w.-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}\b", text, re.M)
    assert len(entries) == text.count("=="), name
    return dict(entries)


@pytest.mark.parametrize("name", ["slim", "full"])
def test_every_dependency_is_locked_within_its_range(name: str) -> None:
    wanted = list(project()["dependencies"])
    if name == "full":
        wanted += project()["optional-dependencies"]["st"]
    locked = lock(name)

    outside = [
        str(requirement)
        for requirement in map(Requirement, wanted)
        if not requirement.specifier.contains(locked.get(canonicalize_name(requirement.name), "0"))
    ]

    assert outside == []


def test_the_slim_image_has_the_versions_of_the_full_one() -> None:
    assert lock("slim").items() <= lock("full").items()


def test_torch_is_locked_as_cpu_build_and_only_once() -> None:
    assert lock("torch")["torch"].endswith("+cpu")
    assert not {"torch", "triton"} & lock("full").keys()


def test_the_tests_use_the_torch_of_the_image() -> None:
    text = (ROOT / "tests/run").read_text("utf-8")

    assert f"torch=={lock('torch')['torch']}" in text
