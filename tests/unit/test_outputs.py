"""Results reach their files whole, also where an interrupt comes at the worst moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embed_ab.outputs import replace_file, write_text

_replace = os.replace


@pytest.fixture
def interrupted_after(monkeypatch: pytest.MonkeyPatch) -> None:
    def then_interrupt(source: str, target: Path) -> None:
        _replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", then_interrupt)


@pytest.fixture
def interrupted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(source: str, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)


@pytest.mark.usefixtures("interrupted_after")
def test_an_interrupt_right_after_a_file_is_in_place_stays_an_interrupt(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "labels.tsv", "whole")

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("labels.tsv", "whole")
    ]


@pytest.mark.usefixtures("interrupted_before")
def test_an_interrupt_before_a_file_is_in_place_leaves_the_older_one(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("older")

    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "qrels", b"newer", mode=0o600)

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("qrels", "older")]


def test_a_replaced_file_has_the_permissions_asked_for(tmp_path: Path) -> None:
    replace_file(tmp_path / "qrels", b"1", mode=0o640)

    assert (tmp_path / "qrels").stat().st_mode & 0o777 == 0o640
