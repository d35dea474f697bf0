"""What the runner reads from a step: its log, its outputs, its summary."""

from __future__ import annotations

import io
import itertools
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workflow import parsed

from embed_ab.action import files
from embed_ab.action.log import Log
from embed_ab.errors import GithubError

HOSTILE = [
    "::error::x",
    "  ::set-output name=a::b",
    "x\n::add-mask::a",
    "x\r::stop-commands::t",
    "##[error]x",
    "a ##[add-mask]b",
    "%0A::error::x",
    "\u2028::error::x",
    "\x85::error::x",
    "\x0b::error::x",
    "\x1b[31m::error::x",
    ":\u200b:error::x",
    "#\u200b#[error]x",
]


def written(act: str, *words: str) -> str:
    stream = io.StringIO()
    getattr(Log(stream, lambda: "token"), act)(*words)
    return stream.getvalue()


def obeyed(text: str) -> list[str]:
    """The commands that the runner finds in a log, as ActionCommand.cs does."""
    lines = re.split("\r\n|\n|\r", text)
    found = [m[1] for line in lines if (m := re.match(r"\s*::([\w-]+)[ :]", line))]
    return found + re.findall(r"##\[([\w-]+)", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_of_text_is_a_command(text: str) -> None:
    assert obeyed(written("line", text)) == []


@given(st.text("::#[]%\r\n\x85\u2028\x1b\u200b eror-", max_size=30))
def test_no_text_at_all_is_a_command(text: str) -> None:
    assert obeyed(written("line", text)) == []


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("act", ["notice", "warning", "error"])
def test_an_annotation_is_one_command_whatever_it_says(act: str, text: str) -> None:
    assert obeyed(written(act, text)) == [act]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_file_name_ends_no_property(text: str) -> None:
    stream = io.StringIO()
    Log(stream, lambda: "t").error("x", file=f"a,line=7{text}", line=3)

    assert obeyed(stream.getvalue()) == ["error"]
    properties = stream.getvalue().split("::")[1].partition(" ")[2].split(",")
    assert [p.partition("=")[0] for p in properties] == ["title", "file", "line"]


def test_the_message_of_an_annotation_survives_its_encoding() -> None:
    """Decoded as ActionCommand.cs does: %0D, %0A, then %25."""
    text = "95% of\nall %0A"

    sent = written("error", text).rstrip("\n").split("::", 2)[2]

    assert sent.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%") == text


def test_a_long_message_is_cut_where_the_runner_would() -> None:
    assert len(written("error", "x" * 10_000)) < 4_100


def test_what_libraries_print_inside_is_inert() -> None:
    stream = io.StringIO()
    with Log(stream, lambda: "unguessable").inert():
        stream.write("::error::from a library")

    assert stream.getvalue().split("\n") == [
        "::stop-commands::unguessable",
        "::error::from a library",
        "::unguessable::",
        "",
    ]


def test_a_secret_of_several_lines_is_one_mask() -> None:
    assert written("mask", "a\nb%") == "::add-mask::a%0Ab%25\n"


def test_nothing_is_no_secret() -> None:
    assert written("mask", " ") == ""


@pytest.mark.parametrize(
    "value", ["", "a=b", "x<<END", "two\nlines", "ghadelimiter_0", "한국어", "\r\nwindows"]
)
def test_an_output_arrives_as_it_is(tmp_path: Path, value: str) -> None:
    tokens = map(str, itertools.count(10))

    files.write_outputs(tmp_path / "o", {"first": value, "next": "z"}, lambda: next(tokens))

    text = (tmp_path / "o").read_bytes().decode()
    assert parsed(text) == {"first": value, "next": "z"}


def test_a_guessed_delimiter_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(GithubError, match="delimiter"):
        files.write_outputs(tmp_path / "o", {"a": "x\nghadelimiter_t\nevil=1"}, lambda: "t")

    assert not (tmp_path / "o").exists()


def test_outputs_are_appended(tmp_path: Path) -> None:
    (tmp_path / "o").write_text("before=1\n")

    files.write_outputs(tmp_path / "o", {"a": "b"}, lambda: "t")

    assert (tmp_path / "o").read_text() == "before=1\na<<ghadelimiter_t\nb\nghadelimiter_t\n"


def test_a_summary_stays_below_the_limit_in_bytes(tmp_path: Path) -> None:
    """Korean has three bytes a letter, and the runner counts bytes."""
    files.write_summary(tmp_path / "s", "가나다라마바사\n" * 100_000)

    text = (tmp_path / "s").read_bytes()
    assert len(text) < 1_048_576
    assert text.decode().endswith("The rest is left out; the report has all.\n")


def test_many_summaries_together_stay_below_the_limit(tmp_path: Path) -> None:
    for _ in range(30):
        files.write_summary(tmp_path / "s", "가나다\n" * 6_000)

    assert (tmp_path / "s").stat().st_size < 1_048_576


def test_what_is_in_the_summary_stays(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("before\n")

    files.write_summary(tmp_path / "s", "after")

    assert (tmp_path / "s").read_text() == "before\nafter\n"


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(GithubError, match="s cannot be written"):
        files.write_summary(tmp_path / "no/such/folder/s", "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_belong_to_the_owner_of_the_workspace(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12346)
    made = tmp_path / "made"
    made.write_text("x")

    files.give_to_owner_of(tmp_path, [made])

    assert (made.stat().st_uid, made.stat().st_gid) == (12345, 12346)
