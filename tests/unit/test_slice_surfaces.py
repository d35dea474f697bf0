"""Slices and drawn intervals on terminal, comment and page."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from test_render import HOSTILE, Tags, difference, rendered, sample

from embed_ab import formats, render, terminal
from embed_ab.gate import SliceName
from embed_ab.result import Comparison
from embed_ab.slices import Slice, Sliced


def part(value: str, middle: float, **changes: Any) -> Slice:
    fields: dict[str, Any] = {
        "value": value,
        "range": None,
        "finding": "no difference shown",
        "is_reversal": False,
        "differences": tuple(
            replace(d, losses=1, n_queries=3, n_units=3)  # of the four queries
            for d in (
                difference("ndcg@10", middle, middle - 0.1, middle + 0.1),
                difference("hit@10", 0.0, -0.1, 0.1),
            )
        ),
    }
    return Slice(**(fields | changes))


def by(field: str, *parts: Slice, **changes: int) -> Sliced:
    counts = {"n_slices_left_out": 0, "n_queries_left_out": 0, "n_queries_without": 0}
    return Sliced(field=field, slices=parts, **(counts | changes))


SLICES = (
    by(
        "language",
        part("ko", -0.3, finding="worse"),
        part("en", 0.05),
        part("de", 0.2, is_reversal=True),
        part("fr", 0.9, finding="too few queries"),
        n_slices_left_out=3,
        n_queries_left_out=5,
        n_queries_without=2,
    ),
    by("query-length", part("short", 0.0, range=(3.0, 41.0))),
)


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(comparison: Comparison, width: int, *, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = Terminal(raw, encoding=encoding, write_through=True)
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    terminal.comparison(comparison, console)
    return raw.getvalue().decode(encoding)


def comment(**changes: Any) -> str:
    return render.markdown(sample(slices=SLICES, **changes))


# An interval as letters: 15 of them, 0 at the eighth, 7 for the scale on each side


@pytest.mark.parametrize(
    ("low", "value", "high", "drawn"),
    [
        (-0.7, 0.0, 0.7, "├──────●──────┤"),
        (-0.3, -0.1, 0.2, "····├─●│─┤·····"),
        (0.1, 0.3, 0.5, "·······│├─●─┤··"),
        (-0.5, -0.3, -0.1, "··├─●─┤│·······"),
        (0.0, 0.0, 0.0, "·······●·······"),
        (0.0, 0.2, 0.4, "·······│─●─┤···"),
        (0.2, 0.2, 0.2, "·······│·●·····"),
        (-9.0, -8.0, 9.0, "●──────│──────┤"),
    ],
)
def test_an_interval_is_drawn_around_zero(
    low: float, value: float, high: float, drawn: str
) -> None:
    assert formats.bar(low, value, high, 0.7) == drawn


def test_an_interval_that_ends_just_beside_zero_is_not_drawn_to_it() -> None:
    assert formats.bar(1e-9, 0.2, 0.4, 0.7) == "·······│├●─┤···"
    assert formats.bar(-0.4, -0.2, -1e-9, 0.7) == "···├─●┤│·······"
    assert formats.bar(-1e-9, 0.2, 0.4, 0.7) == "······├│─●─┤···"


def test_no_difference_anywhere_has_no_scale() -> None:
    assert formats.bar(0.0, 0.0, 0.0, 0.0) == "·······●·······"


# The terminal


def test_a_wide_terminal_draws_the_intervals() -> None:
    """ndcg@10 is -0.125 [-0.218, -0.033], and 0.218 is the scale: 7 letters, so 4, 7 and 1."""
    lines = printed(sample(), 100).splitlines()

    (line,) = (line for line in lines if re.match(r"ndcg@10 +-0\.125", line))
    assert line.rstrip().endswith("├──●──┤│·······")
    assert any("worse 0 better" in line for line in lines)


def test_a_terminal_without_those_letters_gets_others() -> None:
    assert "[--o--]|......." in printed(sample(), 100, encoding="ascii")


def test_a_narrow_terminal_and_a_log_draw_nothing() -> None:
    log = io.StringIO()
    terminal.comparison(sample(), Console(file=log, width=200))

    assert "worse 0 better" not in printed(sample(), 99) + log.getvalue()


def test_with_its_intervals_a_table_fits_a_hundred_columns() -> None:
    counts = {"wins": 1234, "losses": 1111, "ties": 2655, "n_queries": 5000}
    wide = tuple(replace(d, metric="precision@100", **counts) for d in sample().differences)

    text = printed(sample(differences=wide), 100)

    assert any("1234/1111/2655" in line and "│" in line for line in text.splitlines())


def test_the_terminal_lists_every_slice_in_words() -> None:
    table = [" ".join(line.split()) for line in printed(sample(slices=SLICES), 99).splitlines()]

    start = table.index("slice B - A interval p (Holm) n B is")
    assert table[start + 1 : start + 8] == [
        "language=ko -0.300 [-0.400, -0.200] <0.001 3 worse",
        "language=en +0.050 [-0.050, +0.150] <0.001 3 not shown",
        "language=de +0.200 [+0.100, +0.300] <0.001 3 not shown, reversal",
        "language=fr +0.900 [+0.800, +1.000] - 3 too few",
        "query-length=short (3 to 41) 0.000 [-0.100, +0.100] <0.001 3 not shown",
        "slices: ndcg@10, intervals not adjusted for their number",
        "reversal: the interval lies on the other side of 0 than the whole",
    ]


def test_the_terminal_says_what_is_in_no_slice() -> None:
    assert (
        "slices by language: 3 smaller slices, 5 queries in all, are left out; queries without a "
        "value: 2"
    ) in " ".join(printed(sample(slices=SLICES), 200).split())


def test_a_slice_too_small_to_judge_has_no_bar_and_does_not_set_the_scale() -> None:
    """The scale is the 0.4 of ko: -0.3 is at 5 of 7 letters."""
    lines = printed(sample(slices=SLICES), 120).splitlines()

    (ko,) = (line for line in lines if line.startswith("language=ko"))
    (fr,) = (line for line in lines if line.startswith("language=fr"))
    assert "├─●─┤··│·······" in ko
    assert "●" not in fr


# The comment


def test_the_comment_lists_the_slices_that_matter_only() -> None:
    text = comment()

    assert "| `language=ko` | ✗ worse | −0.300 [−0.400, −0.200] `├─●─┤··│·······` | 3 |" in text
    assert "| `language=de` | ? no difference shown, against the whole | +0.200 [" in text
    assert "language=en" not in text
    assert "language=fr" not in text
    assert (
        "Slices by `language`, `query-length`: 2 of 5 differ in `ndcg@10` (p below 0.05, adjusted, "
        "or against the whole); 1 with too few queries." in text
    )


def test_a_slice_of_all_queries_repeats_the_whole_and_is_not_in_the_comment() -> None:
    ko = part("ko", -0.3, finding="worse")
    all_four = tuple(replace(d, losses=2, n_queries=4) for d in ko.differences)
    text = render.markdown(sample(slices=(by("language", replace(ko, differences=all_four)),)))

    assert "0 of 1 differ" in text


def test_a_comment_where_no_slice_matters_says_so_in_a_line() -> None:
    text = render.markdown(sample(slices=SLICES[1:]))

    assert "Slices that differ" not in text
    assert "Slices by `query-length`: 0 of 1 differ in `ndcg@10`" in text


def test_a_comment_without_slices_does_not_speak_of_them() -> None:
    assert "lices" not in render.markdown(sample())


def test_the_comment_draws_the_interval_of_every_metric() -> None:
    assert (
        "```text\n"
        "ndcg@10 ├──●──┤│······· [−0.218, −0.033]\n"
        "hit@10  ····├──●──┤···· [−0.100, +0.100]\n"
        "```\n"
    ) in render.markdown(sample())


def test_the_heading_names_the_slice_that_decides() -> None:
    gate = replace(sample().gates[0], slice=SliceName(field="language", value="ko"))
    text = comment(gates=(gate,))

    assert text.startswith("## ✗ embed-ab: B is worse where `language=ko`\n")


def test_the_finding_of_a_metric_is_not_that_of_a_gate_on_a_slice() -> None:
    gate = replace(
        sample().gates[0], slice=SliceName(field="language", value="ko"), finding="inconclusive"
    )

    assert "| `ndcg@10` | ✗ worse |" in comment(gates=(gate,))


def hostile_slices() -> tuple[Sliced, ...]:
    return (
        by(
            HOSTILE,
            part(HOSTILE, -0.3, finding="worse"),
            part(HOSTILE + "2", 0.2, is_reversal=True),
            n_queries_without=1,
        ),
    )


def test_hostile_slices_are_code_in_the_comment() -> None:
    text = render.markdown(
        sample(
            slices=hostile_slices(),
            gates=(replace(sample().gates[0], slice=SliceName(field=HOSTILE, value=HOSTILE)),),
        )
    )
    page = rendered(text)

    assert "alert" in text
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "a"})
    assert [tag for tag, _ in page.tags].count("h2") == 1
    assert page.comments == []
    seen = re.sub(r"\[[−+0-9., -]*\]", "", page.outside_code)
    assert not re.search(r"[@#<>\[\]]|://|www\.|GH-\d|[0-9a-f]{7}", seen)


def test_hostile_slices_are_text_on_the_page() -> None:
    clean = Tags(render.html(sample(slices=SLICES)))
    page = Tags(render.html(sample(slices=hostile_slices())))

    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in clean.tags}


def test_hostile_slices_send_nothing_to_the_terminal() -> None:
    text = printed(sample(slices=hostile_slices()), 120)

    assert "\x1b" not in text
    assert "\u202e" not in text


def test_slices_give_way_when_the_comment_is_too_long() -> None:
    many = tuple(part("😀" * 60 + str(n), -0.3, finding="worse") for n in range(300))
    text = render.markdown(sample(slices=(by("f", *many),)), max_bytes=8_000)

    assert len(text.encode()) <= 8_000
    assert re.search(r"\d+ of 300 slices left out to keep this comment short", text)
    assert "B is worse than A by more than the margin" in text


# The page


def test_the_page_has_a_section_of_slices_where_there_are_any() -> None:
    page = render.html(sample(slices=SLICES))

    assert '<li><a href="#slices">Slices</a></li>' in page
    assert '<th scope="row" class="text" dir="auto">query-length=short (3 to 41)</th>' in page
    assert "? no difference shown, against the whole" in page
    assert '<tr class="quiet"><th scope="row" class="text" dir="auto">language=fr</th>' in page
    assert "– too few queries" in page
    assert 'id="slices"' not in render.html(sample())
