from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from embed_ab import formats


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.12345, "0.123"),
        (-0.126, "−0.126"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (1.0, "1.000"),
        (0.0004, "0.0004"),
        (-0.00004, "−0.00004"),
        (-1e-9, "0.000"),
        (None, "–"),
    ],
)
def test_a_number_has_three_decimals_or_its_first_digit(value: float | None, shown: str) -> None:
    assert formats.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.126, "+0.126"),
        (-0.126, "−0.126"),
        (0.0, "0.000"),
        (0.0002, "+0.0002"),
        (1e-9, "0.000"),
        (None, "–"),
    ],
)
def test_a_difference_has_a_sign_unless_it_is_nothing(value: float | None, shown: str) -> None:
    assert formats.signed(value) == shown


@given(st.floats(min_value=-1, max_value=1))
def test_no_zero_ever_has_a_sign(value: float) -> None:
    shown = formats.signed(value)

    assert (float(shown.replace("−", "-")) != 0) == (shown[0] in "+−")


def test_an_interval_has_two_signed_ends() -> None:
    assert formats.interval(-0.218, 0.033) == "[−0.218, +0.033]"


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.034, "3.4%"),
        (0.0, "0.0%"),
        (0.0004, "<0.1%"),
        (0.9996, ">99.9%"),
        (1.0, "100.0%"),
        (None, "–"),
    ],
)
def test_only_nothing_is_zero_percent_and_only_all_a_hundred(
    share: float | None, shown: str
) -> None:
    assert formats.percent(share) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.0004, "<0.001"), (0.001, "0.001"), (1.0, "1.000")])
def test_a_p_value_is_never_zero(value: float, shown: str) -> None:
    assert formats.p_value(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(1234567, "1,234,567"), (0, "0"), (None, "–")])
def test_a_count_has_its_thousands_apart(value: int | None, shown: str) -> None:
    assert formats.count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (["ndcg@10:0.02", "hit@5:0"], "ndcg@10:0.02, hit@5:0"),
        ({"A": 1.25, "B": None}, "A: 1.25, B: –"),
        (False, "false"),
        (42, "42"),
        ("", ""),
    ],
)
def test_a_setting_is_one_line(value: object, shown: str) -> None:
    assert formats.setting(value) == shown


@pytest.mark.parametrize(("text", "shown"), [("abcdef", "abc…"), ("abcd", "abcd")])
def test_what_is_too_long_ends_in_an_ellipsis(text: str, shown: str) -> None:
    assert formats.shorten(text, 4) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\n\tb\u2028c", "a b c"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]8;;file:///etc\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended", "0;never ended"),
        ("a\x00b\x07", "a\ufffdb\ufffd"),
        ("lone \ud800", "lone \ufffd"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("نمی\u200cخواهم 👩\u200d🔧", "نمی\u200cخواهم 👩\u200d🔧"),
        ("한국어", "한국어"),
    ],
)
def test_plain_text_is_one_line_that_nothing_obeys(text: str, shown: str) -> None:
    assert formats.plain(text) == shown


@given(st.text())
def test_plain_text_can_be_written_and_is_plain_already(text: str) -> None:
    plain = formats.plain(text)

    assert plain.encode().decode() == plain
    assert formats.plain(plain) == plain
    assert not re.search("[\x00-\x1f\x7f-\x9f]", plain)


@pytest.mark.parametrize(
    ("n", "said"), [(0, "0 queries"), (1, "1 query"), (2, "2 queries"), (1234, "1,234 queries")]
)
def test_one_thing_is_no_plural(n: int, said: str) -> None:
    assert formats.counted(n, "query", "queries") == said
    assert formats.counted(1, "text") == "1 text"


def test_an_escape_sequence_that_another_interrupts_is_over() -> None:
    assert formats.plain("a\x90b\x9dc\x07d") == "a\ufffdbd"


def test_starts_of_escape_sequences_without_an_end_take_no_time() -> None:
    """Read from each start to the end of the text, these would take hours."""
    assert formats.plain("\x90" * 300_000) == "\ufffd" * 300_000


def test_a_prompt_shows_its_blanks() -> None:
    assert formats.visible_spaces("query: \t\n") == "query:␣⇥↵"


def test_a_log_gets_no_commands_and_a_terminal_the_text_as_it_is() -> None:
    assert formats.printable("::error::x ##[group]", "utf-8", False) == ": :error: :x ## [group]"
    assert formats.printable("std::vector", "utf-8", True) == "std::vector"


@given(st.text(alphabet=":#[ a"))
def test_no_log_command_survives(text: str) -> None:
    shown = formats.printable(text, "utf-8", False)

    assert "::" not in shown
    assert "##[" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("d7", "`d7`"),
        ("a`b", "``a`b``"),
        ("``", "``` `` ```"),
        ("  a\nb  ", "`a b`"),
        ("", ""),
        ("a|b", "`a|b`"),
    ],
)
def test_a_code_span_has_a_fence_longer_than_its_backticks(text: str, shown: str) -> None:
    assert formats.code(text) == shown


def test_a_bar_is_escaped_in_a_table() -> None:
    assert formats.cell("a|b") == "`a\\|b`"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            "Only 4 queries; B − A is [-0.218, +0.033], (95%).",
            "Only 4 queries; B − A is [-0.218, +0.033], (95%).",
        ),
        ("B (st:a/b) and d_7, d8.", "B (st:a/b) and `d_7`, d8."),
        ("@octocat, see #12", "`@octocat`, see `#12`"),
        ("GH-12 www.example.org", "`GH-12` `www.example.org`"),
        ("(https://example.org)", "(`https://example.org`)"),
        ("commit deadbeef.", "commit `deadbeef`."),
        ("[x](y) <b> *c* ~d~ $e$ \\f", "`[x](y`) `<b>` `*c*` `~d~` `$e$` `\\f`"),
        ("질의 4개", "질의 4개"),
    ],
)
def test_only_harmless_words_stay_outside_code(sentence: str, shown: str) -> None:
    assert formats.prose(sentence) == shown


MARKDOWN = st.text(alphabet="`|\\ ab7<>&\n*_~[](){}!@#:/.$\u202e\x1b", max_size=40)


def seen(markdown: str) -> tuple[set[str], str]:
    """The tags and the text that a reader of the markdown gets."""
    page = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    shown = page.render(markdown)
    return set(re.findall(r"<(\w+)", shown)), unescape(re.sub(r"<[^>]*>", "", shown)).strip()


@given(MARKDOWN)
def test_a_cell_shows_its_text_and_nothing_else(text: str) -> None:
    tags, shown = seen(f"| x |\n|---|\n| {formats.cell(text)} |")
    expected = formats.plain(text).strip()

    assert tags == {"table", "thead", "tbody", "tr", "th", "td"} | ({"code"} if expected else set())
    assert shown.split("x", 1)[1].strip() == expected


@given(MARKDOWN)
def test_prose_shows_its_text_and_nothing_else(text: str) -> None:
    tags, shown = seen(f"x {formats.prose(text)}")

    assert tags <= {"p", "code"}
    assert shown == f"x {formats.plain(text).strip()}".strip()


def test_a_link_cannot_leave_its_brackets() -> None:
    assert formats.link("https://example.org/a b>\n<c") == "<https://example.org/abc>"


@pytest.mark.parametrize(
    ("n_bytes", "shown"),
    [(0, "0 B"), (999, "999 B"), (1536, "1.5 kB"), (999_960, "1.0 MB"), (3e15, "3,000.0 TB")],
)
def test_a_size_is_in_decimal_units(n_bytes: int, shown: str) -> None:
    assert formats.size(n_bytes) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0.00"), (1234.5, "1,234.50"), (0.0000123, "0.000012"), (0.5, "0.5"), (None, "–")],
)
def test_an_amount_keeps_two_digits_however_small(value: float | None, shown: str) -> None:
    assert formats.amount(value) == shown
