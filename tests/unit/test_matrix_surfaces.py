"""A matrix on the page, in the comment and on a terminal, with texts of strangers in it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import cache

import jsonschema
import pytest
from rich.console import Console
from test_matrix import RANKED, evalset, options
from test_render import HOSTILE, Tags, rendered

from embed_ab import matrix_surfaces, terminal
from embed_ab.matrix import Matrix, compare_all
from embed_ab.origin import Truncation


@cache
def sample() -> Matrix:
    return replace(
        compare_all(evalset(), RANKED, options()),
        settings={"k": 3},
        command="embed-ab matrix eval bm25:auto st:best st:same st:worst -k 3",
        measured={"finished": "2026-01-02T03:04:05+00:00", "seconds": {"A": 0.1}},
    )


@cache
def hostile() -> Matrix:
    """Every text that a stranger can choose is the hostile one."""
    clean = sample()
    return replace(
        clean,
        verdict=HOSTILE,
        evalset=replace(clean.evalset, name=HOSTILE, notices=(HOSTILE,)),
        systems=tuple(
            replace(
                system,
                system=HOSTILE,
                query_prompt=HOSTILE,
                document_prompt=HOSTILE,
                revision=HOSTILE,
                details={HOSTILE: HOSTILE},
                dimension=8,
                bytes_per_vector=8,
                corpus_bytes=96,
            )
            for system in clean.systems
        ),
        cautions=tuple(replace(w, code=HOSTILE, meaning=HOSTILE) for w in clean.cautions),
        ignored=(HOSTILE,),
        notes=(HOSTILE,),
        queries=tuple(replace(q, query=HOSTILE, text=HOSTILE) for q in clean.queries),
        conventions={HOSTILE: HOSTILE},
        settings={HOSTILE: HOSTILE},
        command=HOSTILE,
        versions={HOSTILE: HOSTILE},
        measured={HOSTILE: HOSTILE},  # type: ignore[typeddict-unknown-key]
    )


def printed(matrix: Matrix, *, quiet: bool = False, width: int = 200) -> str:
    shown = io.StringIO()
    terminal.matrix(matrix, Console(file=shown, width=width), quiet=quiet)
    return shown.getvalue()


def test_the_json_validates_against_the_packaged_schema() -> None:
    text = matrix_surfaces.dumps(sample())

    jsonschema.validate(json.loads(text), matrix_surfaces.schema())
    assert text == matrix_surfaces.dumps(sample())


def test_the_comment_has_a_row_for_each_metric_and_system() -> None:
    comment = matrix_surfaces.markdown(sample())
    cells = [line.split(" | ") for line in comment.splitlines() if line.startswith("| `")]

    # two metrics of four systems
    assert [(row[0], row[1]) for row in cells] == [
        (f"| `{metric}`", label) for metric in ("ndcg@3", "hit@3") for label in "ABCD"
    ]
    assert comment.startswith("## embed-ab: 4 systems\n\nCompared with A by `ndcg@3`, better: B;")
    assert "| `ndcg@3` | D | 0.000 | −0.631 |" in comment
    assert "| ✗ worse |" in comment


def test_the_comment_ends_with_the_command() -> None:
    assert matrix_surfaces.markdown(sample()).endswith(
        "Reproduce: `embed-ab matrix eval bm25:auto st:best st:same st:worst -k 3`\n"
    )


def test_the_terminal_shows_one_table_in_ascii() -> None:
    text = printed(sample())

    assert text.startswith("Compared with A by ndcg@3, better: B; worse: D;")
    assert text.isascii()
    lines = [line.split() for line in text.splitlines()]
    assert ["metric", "mean", "-", "A", "interval", "p", "(Holm)", "W/L/T", "verdict"] in lines
    # p = 6 · 2/2^12 = 0.0029
    row = ["ndcg@3", "B", "1.000", "+0.369", "[+0.369,", "+0.369]", "0.003", "12/0/0", "better"]
    assert row in lines


def test_quiet_prints_the_verdict_only() -> None:
    assert printed(sample(), quiet=True).splitlines() == [sample().verdict]


@pytest.mark.parametrize("matrix", [sample(), hostile()], ids=["sample", "hostile"])
def test_the_page_has_no_script_no_inline_style_and_loads_nothing(matrix: Matrix) -> None:
    tags = Tags(matrix_surfaces.html(matrix)).tags

    assert {tag for tag, _ in tags} & {"script", "img", "link", "iframe", "object", "svg"} == set()
    names = {name for _, attributes in tags for name in attributes}
    assert {name for name in names if name.startswith("on")} | names & {"src", "style"} == set()
    assert all(a["href"].startswith("#") for t, a in tags if t == "a" and a["href"])
    assert all(attributes.get("scope") for tag, attributes in tags if tag == "th")


def test_the_page_counts_what_a_model_never_read() -> None:
    cut = Truncation(
        max_length=256,
        n_documents=12,
        n_truncated=3,
        n_relevant_truncated=2,
        tokens_lost=0.125,
        relevant=("d01", "d02"),
    )
    first, *others = sample().systems

    page = matrix_surfaces.html(
        replace(sample(), systems=(replace(first, truncation=cut), *others))
    )

    assert (
        "3 of 12 documents; 12.5% of all tokens never read; relevant documents among them: 2"
        in page
    )


def test_hostile_texts_are_text_on_the_page() -> None:
    page = matrix_surfaces.html(hostile())

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search("[\x00\x1b\u202d]", page)


def test_a_hostile_comment_has_no_link_image_or_html() -> None:
    found = rendered(matrix_surfaces.markdown(hostile()))

    assert {tag for tag, _ in found.tags} <= {
        *("h2", "ul", "li", "p", "strong", "code"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert found.comments == []
    assert not re.search(
        r"[@#<>\[\]]|://|www\.|GH-\d|[0-9a-f]{7}",
        re.sub(r"\[[−+0-9., ]*\]", "", found.outside_code),
    )


def test_a_hostile_matrix_sends_no_command_to_a_log() -> None:
    text = printed(hostile())

    assert "::" not in text
    assert "##[" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202d]", text)


def test_a_comment_that_is_too_long_gives_up_warnings_first_and_keeps_the_verdict() -> None:
    short = matrix_surfaces.markdown(sample(), max_bytes=1_000)

    assert len(short.encode()) <= 1_000
    assert sample().verdict.split(",")[0].split(" by ")[0] in short
    assert "warnings left out to keep this comment short" in short


def test_a_matrix_shows_what_reranking_takes() -> None:
    waits = {"B": {"p50": 110.0, "p95": 240.0, "n": 20}}
    shown = replace(sample(), measured={**sample().measured, "rerank_ms": waits})

    for surface in (matrix_surfaces.html(shown), matrix_surfaces.markdown(shown), printed(shown)):
        assert "ms to rerank one query, p50 / p95" in surface
        assert "110.00 / 240.00" in surface
