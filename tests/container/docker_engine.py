"""The docker command line, for tests that build and run images."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Finished = subprocess.CompletedProcess[str]
Run = Callable[..., Finished]


def docker(*words: str) -> Finished:
    return subprocess.run(["docker", *words], capture_output=True, text=True)


def need_engine() -> None:
    """Skip a test where docker is absent."""
    if shutil.which("docker") is None:
        pytest.skip("there is no docker command")
    if docker("info").returncode != 0:
        pytest.skip("no docker engine answers")


def build(target: str) -> str:
    """Build a target of the Dockerfile and return its tag; the engine keeps the layers."""
    need_engine()
    tag = f"embed-ab-test:{target}"
    built = docker("build", "--target", target, "--tag", tag, str(ROOT))
    assert built.returncode == 0, built.stdout[-5000:] + built.stderr[-5000:]
    return tag


def inside(tag: str, *words: str) -> str:
    """What a program in an image prints, the image's own entry left aside."""
    finished = docker(
        "run", "--rm", "--network", "none", "--entrypoint", *words[:1], tag, *words[1:]
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout
