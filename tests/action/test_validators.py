"""action.yml, our workflows and those we hand out, before validators that others wrote."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from npm_packages import node_modules

from embed_ab import cli

ROOT = Path(__file__).parents[2]
HANDED_OUT = """\
rules:
  unpinned-uses:
    config:
      policies:
        "*": ref-pin # whoever copies them chooses between a tag and a commit
"""
WRONG = """\
on: push
jobs:
  job:
    runs-on: ubuntu-latest
    step: []
    steps:
      - run: echo ${{ github.event.head_commit.message }}
"""
Validator = Callable[[Path], str]


def ours() -> list[Path]:
    return [ROOT / "action.yml", *sorted((ROOT / ".github/workflows").glob("*.yml"))]


def of_the_readmes(folder: Path) -> list[Path]:
    """Write every whole workflow that a README shows to a file of its own."""
    made = []
    for readme in (ROOT / "README.md", ROOT / "README.ko.md"):
        blocks = re.findall(r"^```ya?ml\n(.*?)^```$", readme.read_text("utf-8"), re.M | re.S)
        for number, block in enumerate(block for block in blocks if "\njobs:\n" in block):
            path = folder / f"{readme.stem}-{number}.yml"
            path.write_text(block, "utf-8")
            made.append(path)
    return made


def of_init(folder: Path) -> list[Path]:
    """The workflows that `embed-ab init` writes."""
    assert cli.main(["init", "--dir", str(folder), "--forks"]) == 0
    return sorted((folder / ".github/workflows").glob("*.yml"))


def said(*words: str | Path) -> str:
    """Return what a validator says when it refuses, "" when it accepts."""
    finished = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    return finished.stdout + finished.stderr if finished.returncode else ""


def script(name: str) -> Path:
    path = Path(sysconfig.get_path("scripts"), name)
    if not path.exists():
        pytest.skip(f"{name}, of the extra `test`, is not installed")
    return path


def action_validator(path: Path) -> str:
    return said("node", node_modules() / "@action-validator/cli/cli.mjs", path)


def actionlint(path: Path) -> str:
    # It reads workflows, and action.yml where one of them uses it.
    path = ROOT / ".github/workflows/self-test.yml" if path.name == "action.yml" else path
    return said(script("actionlint"), "-no-color", "-shellcheck=", "-pyflakes=", path)


def zizmor(path: Path) -> str:
    config = path.parent / "zizmor.yml"  # beside what we hand out, which also has to be short
    options = ["--config", config] if config.exists() else ["--no-config", "--persona", "pedantic"]
    return said(script("zizmor"), "--quiet", "--offline", "--strict-collection", *options, path)


VALIDATORS = pytest.mark.parametrize("validator", [action_validator, actionlint, zizmor])


@VALIDATORS
@pytest.mark.parametrize("path", ours(), ids=lambda path: path.name)
def test_a_validator_accepts(validator: Validator, path: Path) -> None:
    assert validator(path) == ""


def test_zizmor_accepts_how_pins_are_moved() -> None:
    assert zizmor(ROOT / ".github/dependabot.yml") == ""


@VALIDATORS
@pytest.mark.parametrize("source", [of_the_readmes, of_init])
def test_a_validator_accepts_what_we_hand_out(
    validator: Validator, source: Callable[[Path], list[Path]], tmp_path: Path
) -> None:
    paths = source(tmp_path)

    assert paths
    for path in paths:
        (path.parent / "zizmor.yml").write_text(HANDED_OUT, "utf-8")
        assert validator(path) == ""


@VALIDATORS
def test_a_validator_refuses_what_is_wrong(validator: Validator, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yml"
    path.write_text(WRONG, "utf-8")

    assert "wrong.yml" in validator(path) or "/jobs/job" in validator(path)
