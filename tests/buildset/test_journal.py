"""The journal of build-set: one run at a time, and a disk that gets full."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from embed_ab.buildset.journal import Journal
from embed_ab.errors import InputError


@contextmanager
def room_for(n_bytes: int) -> Iterator[None]:
    """Let no file grow beyond this, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_second_run_in_the_same_folder_is_an_input_error(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)), pytest.raises(InputError, match="another run is at work in"):
        Journal(tmp_path)

    Journal(tmp_path).close()


def test_a_full_disk_names_the_file_and_leaves_whole_lines(tmp_path: Path) -> None:
    """The first line has 24 bytes, and the second would not fit."""
    journal = Journal(tmp_path)
    with room_for(100):
        journal.put("a", text="one")
        with pytest.raises(InputError, match=r"journal\.jsonl: File too large") as caught:
            journal.put("b", text="x" * 200)
    journal.close()

    assert "Make room there" in caught.value.hint
    lines = (tmp_path / "journal.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"key": "a", "text": "one"}]


def test_a_shorter_answer_after_a_full_disk_stands_in_a_line_of_its_own(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with room_for(100):
        with pytest.raises(InputError):
            journal.put("a", text="x" * 200)
        journal.put("b", text="one")
    journal.close()

    assert (tmp_path / "journal.jsonl").read_text("utf-8") == '{"key": "b", "text": "one"}\n'
