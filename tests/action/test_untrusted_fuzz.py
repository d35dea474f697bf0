"""Whatever an artifact holds, it ends in a comment that GitHub takes, or in our error."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_github import FakeGithub
from hypothesis import event, given, settings
from hypothesis import strategies as st

from embed_ab import render, result_json
from embed_ab.action import untrusted
from embed_ab.action.event import Run
from embed_ab.errors import GithubError, InputError

RUN = Run(id=5, attempt=1, commit="a" * 40)
NUMBERS = st.sampled_from(
    [0, -1, 1, 2, 40, 10**18, 10**19, 10**400, 0.5, 1.0, -1.0, 1.0000001, 1e-320, 1e308, -1e308]
)
TEXTS = st.sampled_from(
    [
        *["", "NaN", "1e999", "q", "A", "BM25", "ndcg@10", "nDCG@10", "ndcg@0", "few_queries"],
        *["| x |\n## x", "@octocat </details> <!--", "`" * 3000, "\x90" * 3000, "\ud800"],
        *["\U0001f600 " * 3000, "\x1b[31m", "::error::x"],
    ]
)
ANYTHING = st.sampled_from([None, True, [], {}, [[]], {"ndcg@10": 1e308}, {"| `": 0.5}])


def wild(old: Any) -> st.SearchStrategy[Any]:
    """Mostly of the type that is expected, so that it is not refused for that alone."""
    if isinstance(old, str):
        return TEXTS | TEXTS | ANYTHING
    if isinstance(old, int | float):
        floats = st.floats(-1.5, 1.5) | st.floats(allow_nan=False, allow_infinity=False)
        return NUMBERS | st.integers(-2, 50) | floats | ANYTHING
    return NUMBERS | TEXTS | ANYTHING


@cache
def small(path: Path) -> dict[str, Any]:
    """A real result with few queries, so that a random place is seldom just another query."""
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    result["details"] = result["details"][:2]
    named = {detail["query"] for detail in result["details"]}
    result["queries"] = [row for row in result["queries"] if row["query"] in named]
    for detail in result["details"]:
        for side in ("relevant", "a", "b"):
            detail[side] = detail[side][:1]
    return result


@st.composite
def damage(draw: st.DrawFn, place: Any) -> None:
    """Replace, repeat or remove one thing somewhere in a value."""
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw(st.integers(0, 4)):
            place = inner
            continue
        match draw(st.sampled_from([*["replace"] * 6, "remove", "repeat", "name"])):
            case "repeat" if isinstance(place, list):
                place.extend([inner] * draw(st.sampled_from([1, 50, 2000])))
            case "name" if isinstance(place, dict):
                place[draw(st.text(max_size=9) | st.just("ndcg@7"))] = place.pop(key)
            case "remove":
                del place[key]
            case _:
                place[key] = copy.deepcopy(draw(wild(inner)))
        return


@settings(max_examples=250, deadline=5_000)
@given(st.data(), st.integers(1, 3))
def test_a_damaged_result_is_a_comment_that_fits_or_our_error(
    report: Path, data: st.DataObject, n_places: int
) -> None:
    result = copy.deepcopy(small(report / "result.json"))
    for _ in range(n_places):
        if result:
            data.draw(damage(result))
    said = ""
    try:
        comparison = result_json.loads(json.dumps(result).encode(), "result.json")
    except InputError as error:
        said = str(error)
    event("refused" if said else "taken")
    if said:
        assert len(said) < 500
        return
    assert len(render.markdown(comparison).encode()) <= render.COMMENT_BYTES
    try:
        again = untrusted.restated(comparison)
    except GithubError:  # numbers that contradict the queries
        return

    assert len(render.markdown(again).encode()) <= render.COMMENT_BYTES
    assert result_json.loads(result_json.dumps(again).encode(), "again") == again


def answer_to(content: bytes) -> str:
    """What is said of an artifact with this content; "" where it is a result."""
    fake = FakeGithub()
    fake.add_artifact(content)
    with httpx.Client(transport=fake.transport()) as client:
        _, problems = untrusted.fetch_results(
            fake.api(), RUN, client=client, mask=lambda secret: None
        )
    return "".join(map(str, problems))


@cache
def a_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("result.json", '{"schema_version": 1}' * 9)
        archive.writestr("한글.html", "<p>")
    return buffer.getvalue()


@settings(max_examples=250, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**4), st.binary(max_size=8) | st.sampled_from([b"\xff" * 4])),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_a_damaged_zip_is_our_error_on_one_line(
    changes: list[tuple[int, bytes]], is_insertion: bool
) -> None:
    content = bytearray(a_zip())
    for place, new in changes:
        place %= len(content)
        content[place : place if is_insertion else place + len(new)] = new

    said = answer_to(bytes(content))

    assert said
    assert said.isprintable()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_our_error(content: bytes) -> None:
    assert "no zip that can be read" in answer_to(content)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_list_is_our_error_or_holds_only_what_is_of_the_run(
    report: Path, data: st.DataObject
) -> None:
    fake = FakeGithub()
    fake.add_artifact(b"")
    answer = {"total_count": 1, "artifacts": copy.deepcopy(fake.artifacts)}
    data.draw(damage(answer))
    try:
        reply = httpx.Response(200, json=answer)
    except (ValueError, UnicodeEncodeError):
        return
    fake.fail("GET", ".*/runs/5/artifacts", reply)
    said = ""
    with httpx.Client(transport=fake.transport()) as client:
        try:
            untrusted.fetch_results(fake.api(), RUN, client=client, mask=lambda secret: None)
        except GithubError as error:
            said = str(error)
    assert said.isprintable()
    for request in fake.requests:
        assert ".." not in request.url.path


def test_the_undamaged_result_is_no_error(report: Path) -> None:
    """So that what the others damage would pass."""
    content = json.dumps(small(report / "result.json")).encode()

    assert result_json.loads(content, "x").queries
    with pytest.raises(InputError):
        result_json.loads(content[:-1], "x")
