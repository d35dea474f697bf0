"""Both READMEs name every option and caution as the code has them."""

from __future__ import annotations

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


def test_the_settings_file_in_the_readme_fits_its_schema() -> None:
    for path in READMES:
        text = path.read_text("utf-8").split("```yaml\n")[1].split("```")[0]
        jsonschema.validate(yaml.safe_load(text), file_schema())
