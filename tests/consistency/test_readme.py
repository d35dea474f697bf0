"""Both READMEs name every option and caution as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from tables import READMES, with_tables

from embed_ab.cli import main
from embed_ab.settings import file_schema

PLACES = ("report: ", "json: ", "comment: ")


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_tables_are_made_from_the_code(path: Path) -> None:
    """Make them again with `python tests/consistency/tables.py`."""
    text = path.read_text("utf-8")

    assert with_tables(text) == text


@pytest.mark.parametrize(("path", "language"), list(zip(READMES, ("en", "ko"), strict=True)))
def test_the_demo_prints_what_the_readme_shows(
    path: Path, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--lang", language]) == 0

    out = capsys.readouterr().out
    shown = "\n".join(line for line in out.splitlines() if not line.startswith(PLACES))
    assert f"```text\n{shown.strip()}\n```" in path.read_text("utf-8")


@pytest.mark.parametrize(("path", "language"), list(zip(READMES, ("en", "ko"), strict=True)))
def test_check_prints_what_the_readme_shows(
    path: Path,
    language: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    export = "embed-ab demo --export eval"
    if language != "en":
        export = f"embed-ab demo --lang {language} --export eval"
    shown = []
    for command in (export, "embed-ab check eval"):
        assert main(command.split()[1:]) == 0
        shown.append(f"$ {command}\n{capsys.readouterr().out}")

    assert f"```text\n{''.join(shown)}```" in path.read_text("utf-8")


def test_both_readmes_have_the_same_sections() -> None:
    english, korean = (
        [line.split()[0] for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
        for path in READMES
    )

    assert english == korean


def blocks(path: Path, kind: str) -> list[str]:
    return re.findall(rf"^ *```{kind}\n(.*?)```", path.read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_the_settings_files_in_the_readme_fit_their_schema(path: Path) -> None:
    files = [block for block in blocks(path, "yaml") if block.startswith("# .embed-ab.yml\n")]

    assert len(files) == 2
    for text in files:
        jsonschema.validate(yaml.safe_load(text), file_schema())


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_init_writes_and_prints_what_the_readme_shows(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    assert main(["init", "--forks"]) == 0

    assert f"$ embed-ab init --forks\n{capsys.readouterr().out}" in blocks(path, "text")
    settings = (tmp_path / ".embed-ab.yml").read_text("utf-8")
    assert f"# .embed-ab.yml\n{settings}" in blocks(path, "yaml")
    for name in ("embed-ab.yml", "embed-ab-comment.yml"):
        place = f".github/workflows/{name}"
        lines = (tmp_path / place).read_text("utf-8").splitlines(keepends=True)
        shown = "".join(line for line in lines if not line.startswith("#"))
        assert f"# {place}\n{shown}" in blocks(path, "yaml")


def test_the_workflow_to_copy_has_at_most_fifteen_lines() -> None:
    (workflow,) = (b for b in blocks(READMES[0], "yaml") if "pull_request:\n" in b)

    assert len(workflow.splitlines()) <= 16  # with the line that names the file
