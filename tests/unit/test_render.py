from __future__ import annotations

import base64
import hashlib
import io
import os
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from embed_ab import page, render, terminal
from embed_ab.cautions import Caution
from embed_ab.check import Check, Lengths
from embed_ab.gate import GateVerdict
from embed_ab.origin import Truncation
from embed_ab.paired import PairedDifference
from embed_ab.providers.cache import StoreInfo
from embed_ab.readers import Notice
from embed_ab.result import (
    Comparison,
    EvalsetRecord,
    Hit,
    Overlap,
    QueryDetail,
    QueryRow,
    Relevant,
    SystemRecord,
    redacted,
)

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)> {{ 7 * 7 }} {% raw %} @octocat @org/t "
    "#12 owner/repo#1 GH-12 deadbeefcafe ![x](//example.org/x.png) [x](javascript:alert(1)) "
    "www.example.org a@example.org a|b \\| </details> --> <!-- ``` ` \n\n## heading\n| x |\n"
    "::add-mask::x ##[error]x [bold red]x[/] \x1b[31mred\x1b]8;;file:///x\x07"
    "link\x1b]8;;\x07 \u202edlo\x00"
)


def system(label: str, name: str, **changes: Any) -> SystemRecord:
    means = {"A": (0.6, 0.8), "B": (0.475, 0.8), "BM25": (0.5, 0.7)}[label]
    fields: dict[str, Any] = {
        "label": label,
        "system": name,
        "is_mock": False,
        "query_prompt": "query: ",
        "document_prompt": "",
        "revision": "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
        "max_length": 512,
        "dimension": 384,
        "details": {"dtype": "float32", "pooling": "mean"},
        "truncation": Truncation(
            max_length=512,
            n_documents=40,
            n_truncated=4,
            n_relevant_truncated=1,
            tokens_lost=0.034,
            relevant=("d7",),
        ),
        "bytes_per_vector": 1536,
        "corpus_bytes": 1_893_888,
        "means": {"ndcg@10": means[0], "hit@10": means[1]},
        "n_queries": {"ndcg@10": 4, "hit@10": 4},
        "wilson": {"hit@10": (0.301, 0.954)},
    }
    return SystemRecord(**(fields | changes))


def difference(metric: str, value: float, low: float, high: float) -> PairedDifference:
    return PairedDifference(
        metric=metric,
        mean_a=0.6,
        mean_b=0.6 + value,
        difference=value,
        low=low,
        high=high,
        level=0.95,
        p_value=0.0004,
        p_holm=0.0008,
        wins=1,
        losses=2,
        ties=1,
        n_queries=4,
        n_units=4,
        sd=0.3,
        detectable=0.42,
    )


def row(query: str, text: str, a: float | None, b: float | None, **changes: Any) -> QueryRow:
    fields: dict[str, Any] = {
        "query": query,
        "text": text,
        "n_relevant": 0 if a is None else 1,
        "cluster": None,
        "a": {"ndcg@10": a, "hit@10": a and 1.0},
        "b": {"ndcg@10": b, "hit@10": b and 1.0},
        "bm25": None,
        "jaccard": 0.25,
        "rbo": 0.375,
    }
    return QueryRow(**(fields | changes))


def hit(document: str, score: float, grade: int | None, text: str = "a passage") -> Hit:
    return Hit(document=document, score=score, grade=grade, text=text)


def relevant(document: str, grade: int, text: str = "a passage") -> Relevant:
    return Relevant(document=document, grade=grade, rank_a=1, rank_b=None, text=text)


def detail(query: str) -> QueryDetail:
    return QueryDetail(
        query=query,
        relevant=(relevant("d7", 2, "How to descale the kettle."),),
        a=(
            hit("d7", 0.91, 2, "How to descale the kettle."),
            hit("d3", 0.5, 0),
            hit("d4", 0.4, None),
        ),
        b=(hit("d4", 0.8, None, "물이 끓지 않을 때는 전원을 먼저 확인합니다."), hit("d3", 0.7, 0)),
    )


def sample(**changes: Any) -> Comparison:
    fields: dict[str, Any] = {
        "schema_version": 1,
        "version": "0.1.0",
        "outcome": "fail",
        "verdict": "B is worse than A by more than the margin of 0.02: ndcg@10 B − A = -0.125, 95% "
        "interval [-0.218, -0.033], 4 queries.",
        "finding": "worse",
        "primary": "ndcg@10",
        "metrics": ("ndcg@10", "hit@10"),
        "min_grade": 1,
        "depth": 100,
        "evalset": EvalsetRecord(
            name="kettles",
            digest="ab" * 32,
            n_documents=1234,
            n_empty_documents=1,
            n_queries=5,
            n_evaluated=4,
            n_excluded=1,
            n_judgements=9,
            notices=("queries.jsonl starts with a byte order mark, which was left out.",),
        ),
        "systems": (
            system("A", "st:BAAI/bge-small-en-v1.5"),
            system("B", "st:intfloat/multilingual-e5-small,dim=256"),
            system(
                "BM25",
                "bm25:auto",
                query_prompt=None,
                document_prompt=None,
                revision="",
                max_length=None,
                dimension=None,
                details={},
                truncation=None,
                bytes_per_vector=None,
                corpus_bytes=None,
            ),
        ),
        "differences": (
            difference("ndcg@10", -0.125, -0.218, -0.033),
            difference("hit@10", 0.0, -0.1, 0.1),
        ),
        "gates": (
            GateVerdict(
                gate="ndcg@10:0.02",
                metric="ndcg@10",
                margin=0.02,
                outcome="fail",
                finding="worse",
                why="",
                reason="gate ndcg@10: B-A = -0.125 (95% interval [-0.218, -0.033]), fails when "
                "worse than -0.02 with the whole interval below 0 -> FAIL",
                difference=-0.125,
                low=-0.218,
                high=-0.033,
                level=0.95,
                n_queries=4,
                queries_needed=1766,
            ),
        ),
        "cautions": (
            Caution(
                code="few_queries",
                message="Only 4 queries were evaluated; intervals from so few are rough.",
                advice="Add questions: 100 show a difference of about a third the size that 10 do.",
            ),
        ),
        "ignored": ("tiny_corpus",),
        "overlap": Overlap(k=10, p=0.9, jaccard=0.31, rbo=0.42),
        "queries": (
            row("q1", "why does the kettle smell", 1.0, 0.37),
            row("q2", "주전자에서 소리가 나요", 0.63, 0.5),
            row("q3", "warranty", 0.27, 0.53),
            row("q4", "descale", 0.5, 0.5),
            row("q5", "who are you", None, None),
        ),
        "details": (detail("q1"), detail("q2"), detail("q3")),
        "conventions": {
            "document text": "title and text joined with one space",
            "nDCG": "gain 2^grade − 1, ideal order over all judged documents",
        },
        "settings": {"model-a": "st:BAAI/bge-small-en-v1.5", "gate": ["ndcg@10:0.02"]},
        "command": "embed-ab compare kettles -a st:BAAI/bge-small-en-v1.5 "
        "-b st:intfloat/multilingual-e5-small,dim=256 --fail-if-worse ndcg@10:0.02",
        "versions": {"python": "3.11.7", "numpy": "2.4.6"},
        "measured": {
            "finished": "2026-01-02T03:04:05+00:00",
            "seconds": {"A": 1.25, "B": 2.5},
            "texts_embedded": {"A": 1238, "B": 0, "BM25": 0},
            "texts_cached": {"A": 0, "B": 1238, "BM25": 0},
            "tokens": {"A": 81_234},
            "price": {"A": 0.00162468},
            "embedding_seconds": {"A": 12.5},
            "query_ms": {"A": {"p50": 7.25, "p95": 31.0, "n": 4}},
        },
    }
    return Comparison(**(fields | changes))


@cache
def the_page() -> str:
    return render.html(sample())


def html_of(**changes: Any) -> str:
    return render.html(sample(**changes))


def printed(comparison: Comparison, *, quiet: bool = False, **options: Any) -> str:
    shown = io.StringIO()
    terminal.comparison(comparison, Console(file=shown, width=80, **options), quiet=quiet)
    return shown.getvalue()


def hostile() -> Comparison:
    """Every text that a stranger can choose is the hostile one."""
    clean = sample()
    return sample(
        verdict=HOSTILE,
        evalset=replace(clean.evalset, name=HOSTILE, notices=(HOSTILE,)),
        systems=tuple(
            replace(
                s,
                system=HOSTILE,
                query_prompt=HOSTILE,
                document_prompt=HOSTILE,
                revision=HOSTILE,
                details={HOSTILE: HOSTILE},
                truncation=replace(s.truncation, relevant=(HOSTILE,)) if s.truncation else None,
            )
            for s in clean.systems
        ),
        gates=tuple(replace(g, gate=HOSTILE, reason=HOSTILE) for g in clean.gates),
        cautions=(Caution(code="few_queries", message=HOSTILE, advice=HOSTILE),),
        queries=tuple(replace(q, query=HOSTILE + q.query, text=HOSTILE) for q in clean.queries),
        details=tuple(
            replace(
                d,
                query=HOSTILE + d.query,
                relevant=(relevant(HOSTILE, 1, HOSTILE),),
                a=(hit(HOSTILE, 0.5, None, HOSTILE),),
            )
            for d in clean.details
        ),
        conventions={HOSTILE: HOSTILE},
        settings={HOSTILE: HOSTILE},
        command=HOSTILE,
        versions={HOSTILE: HOSTILE},
        measured={HOSTILE: {HOSTILE: HOSTILE}},
        ignored=(HOSTILE,),
    )


class Tags(HTMLParser):
    """The tags of a page with their attributes, and the text outside code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.depth_of_code = 0
        self.outside_code = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self.depth_of_code += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self.depth_of_code -= tag == "code"

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if not self.depth_of_code:
            self.outside_code += data


def rendered(comment: str) -> Tags:
    """The comment as a CommonMark reader with tables and raw HTML sees it."""
    return Tags(MarkdownIt("commonmark", {"html": True}).enable("table").render(comment))


# Golden files: EMBED_AB_WRITE_GOLDEN=1 writes them anew; read the change before committing it.


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("report.html", lambda: render.html(sample())),
        (
            "comment.md",
            lambda: render.markdown(sample(), report_url="https://example.org/artifacts/1"),
        ),
        ("terminal.txt", lambda: printed(sample())),
    ],
)
def test_the_surface_is_the_golden_file(name: str, text: Any) -> None:
    golden = GOLDEN / "render" / name
    if os.environ.get("EMBED_AB_WRITE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text(), encoding="utf-8", newline="\n")

    assert text() == golden.read_text(encoding="utf-8")


# The page


def test_the_page_starts_with_the_verdict() -> None:
    """Mark, words, numbers; the numbers of a verdict that has none are not made up."""
    body = the_page().split("<body>")[1]
    shown = [line for line in re.sub(r"<[^>]+>", "", body).splitlines() if line]

    assert shown[:3] == [
        "✗",
        "B is worse than A by more than the margin of 0.02.",
        "ndcg@10 B − A = -0.125, 95% interval [-0.218, -0.033], 4 queries.",
    ]
    assert '<h1 dir="auto">Nothing: said.</h1>\n</div>' in html_of(verdict="Nothing: said.")


@pytest.mark.parametrize(
    ("finding", "mark"),
    [
        ("better", "good"),
        ("not worse than the margin", "good"),
        ("worse", "bad"),
        ("no difference shown", "open"),
        ("inconclusive", "open"),
    ],
)
def test_the_verdict_has_one_of_three_marks(finding: str, mark: str) -> None:
    symbol = {"good": "✓", "bad": "✗", "open": "?"}[mark]

    assert (
        f'<div class="verdict {mark}"><span class="mark" aria-hidden="true">{symbol}</span>'
        in html_of(finding=finding)
    )


def test_the_first_screen_draws_the_interval_of_the_gate_that_decides() -> None:
    assert (
        'aria-label="B − A of ndcg@10 is −0.125, 95% interval from −0.218 to −0.033. 0 lies '
        'outside the interval; the margin is at −0.020."' in the_page()
    )


def test_the_first_screen_says_the_strongest_caution_and_where_the_others_are() -> None:
    cautions = [
        Caution(code=code, message=f"This is {code}.", advice="")
        for code in ("mock_models", "not_significant", "unjudged_gap", "few_queries")
    ]
    page = html_of(cautions=tuple(cautions))

    assert '<span dir="auto">This is unjudged_gap.</span> <a href="#warnings">All 4' in page


def test_the_sections_come_in_their_order() -> None:
    assert re.findall(r"<h2>(.*?)</h2>", the_page()) == [
        "What speaks against trusting this",
        "Difference B − A",
        "Where B loses and wins",
        "What it costs",
        "Systems and evaluation set",
        "Reproduction",
    ]


def test_the_navigation_names_the_sections_in_their_order() -> None:
    page = the_page()
    links = re.findall(r'<li><a href="#(\w+)">(.*?)</a>', page)

    assert links == re.findall(r'<section id="(\w+)"><h2>(.*?)</h2>', page)


def test_the_policy_allows_exactly_the_style_and_the_script_in_the_page() -> None:
    page = the_page()
    style, script = (
        base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        for tag in ("style", "script")
        for found in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    )

    assert (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'" in page
    )


@pytest.mark.parametrize("comparison", [sample(), hostile()], ids=["sample", "hostile"])
def test_the_page_has_one_script_no_inline_style_and_loads_nothing(comparison: Comparison) -> None:
    tags = Tags(render.html(comparison)).tags

    assert [attributes for tag, attributes in tags if tag == "script"] == [{}]
    assert {tag for tag, _ in tags} & {"img", "image", "use", "link", "iframe", "object"} == set()
    names = {name for _, attributes in tags for name in attributes}
    assert {name for name in names if name.startswith("on")} | names & {"src", "style"} == set()
    assert all(a["href"].startswith("#") for t, a in tags if t == "a" and a["href"])


def test_the_page_names_no_address() -> None:
    assert "http:" not in the_page()
    assert "https:" not in the_page()
    assert "url(" not in the_page()


def test_hostile_texts_are_text_on_the_page() -> None:
    page = render.html(hostile())

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert not re.search("[\x00\x1b\u202d]", page)


def test_every_heading_cell_has_a_scope_and_every_table_a_caption() -> None:
    page = the_page()
    tags = Tags(page).tags

    assert all(attributes.get("scope") for tag, attributes in tags if tag == "th")
    assert page.count("<caption>") == page.count("<table")


def test_a_document_is_marked_by_its_judgement_in_words() -> None:
    page = the_page()

    assert "✓ relevant, grade 2" in page
    assert "✗ judged not relevant, grade 0" in page
    assert "? unjudged" in page


def test_a_grade_below_the_least_relevant_one_is_not_marked_relevant() -> None:
    page = html_of(min_grade=3)

    assert "✗ judged not relevant, grade 2" in page
    assert "✓ relevant" not in page


def test_a_relevant_document_is_followed_through_both_rankings() -> None:
    assert ", grade 2: A rank 1, B not in the first 100" in the_page()


def rows_of(page: str) -> list[str]:
    """The query and the change in each row of the table of queries."""
    table = page.split('aria-label="Every query"')[1].split("</table>")[0]
    found = re.findall(r'<th scope="row"><bdi>(.*?)</bdi></th><td class="\w+">(.*?)</td>', table)
    return [" ".join(pair) for pair in found]


def test_every_query_has_a_row_losses_first_and_excluded_last() -> None:
    # 0.37 − 1.00, 0.50 − 0.63, 0.50 − 0.50, 0.53 − 0.27
    assert rows_of(the_page()) == [
        "q1 ↓ −0.630 B loses",
        "q2 ↓ −0.130 B loses",
        "q4 = tie",
        "q3 ↑ +0.260 B wins",
        "q5 – excluded",
    ]


def test_queries_beyond_the_limit_are_counted_and_the_largest_differences_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "MAX_ROWS", 2)
    shown = render.html(sample())

    assert "The 3 queries with the smallest differences have no row here" in shown
    assert rows_of(shown) == ["q1 ↓ −0.630 B loses", "q3 ↑ +0.260 B wins"]


def test_the_page_says_how_many_queries_open_and_where_the_others_are() -> None:
    """q1 to q3 have lists; the row of q4 has its text only."""
    assert (
        "3 of 5 queries open to the lists of A and B: those that changed most. The rankings of the "
        "others are in the files of <code>embed-ab compare --runs DIR</code>." in the_page()
    )
    assert the_page().count("<details>") == 3
    assert '<td colspan="7" dir="auto">descale</td>' in the_page()


def test_a_row_carries_what_filters_find_it_by() -> None:
    rows = (
        row("q1", "x", 1.0, 0.5, unjudged_b=2, truncated=("A",)),
        row("q2", "y", 0.5, 0.5, unjudged_a=0),
    )

    found = re.findall(r'<tbody id="(\w+)" data-is="(.*?)">', html_of(queries=rows, details=()))
    assert found == [("q0", "loss unjudged truncated"), ("q1", "tie")]


def test_a_hit_says_where_the_other_list_has_it() -> None:
    """A has d7, d3 and d4, B has d4 and d3: d4 rose from 3 to 1, d3 stayed, d7 is gone."""
    said = re.findall(r"<bdi>(d\d)</bdi> <span class=\"quiet\">[\d.]+ · (.*?)</span>", the_page())

    assert said[:5] == [
        ("d7", "not in B's"),
        ("d3", "B rank 2 ="),
        ("d4", "B rank 1 ↑"),
        ("d4", "A rank 3 ↑"),
        ("d3", "A rank 2 ="),
    ]


def test_a_hit_says_what_bm25_makes_of_it_and_whose_twin_it_is() -> None:
    one = replace(hit("d9", 0.4, None), rank_bm25=3, twin_of="d7")
    page = html_of(details=(replace(detail("q1"), a=(one,)),))

    assert "not in B's · BM25 rank 3</span>" in page
    assert '<span class="twin">twin of <bdi>d7</bdi>, which is relevant</span>' in page


def test_words_that_a_passage_shares_with_its_query_are_marked() -> None:
    found = replace(detail("q1"), a=(hit("d7", 0.9, 1, "The KETTLE's smell & <steam>"),))
    page = html_of(details=(found,))

    assert (
        "<mark>The</mark> <mark>KETTLE</mark>&#39;s <mark>smell</mark> &amp; &lt;steam&gt;" in page
    )


def test_prompts_show_their_blanks_and_bm25_has_none() -> None:
    page = the_page()

    assert '<dt>query prompt</dt><dd><code dir="auto">query:␣</code></dd>' in page
    assert "<dt>document prompt</dt><dd>none</dd>" in page
    assert "<dt>query prompt</dt><dd>does not apply</dd>" in page


def test_the_command_is_shown_letter_for_letter() -> None:
    page = html_of(command="embed-ab compare set --a-query-prompt 'find:  \n<q>'")

    assert "--a-query-prompt &#39;find:  \n&lt;q&gt;&#39;</code></pre>" in page


def test_a_page_of_a_thousand_long_queries_stays_below_two_megabytes() -> None:
    """A syllable has three bytes: 200 queries with 20 passages of 300 are 3.6 MB by themselves."""
    text = "한" * 100_000
    rows = tuple(row(f"q{n:04}", text, 0.9, n / 1000) for n in range(1000))
    details = tuple(
        QueryDetail(
            query=f"q{n:04}",
            relevant=(relevant("d0", 1, "한" * 300),),
            a=tuple(hit(f"a{m}", 0.5, None, "한" * 300) for m in range(10)),
            b=tuple(hit(f"b{m}", 0.5, None, "한" * 300) for m in range(10)),
        )
        for n in [*range(100), *range(900, 1000)]
    )

    page = html_of(queries=rows, details=details)

    assert len(page.encode()) < 2_000_000
    assert len(rows_of(page)) == 1000
    assert page.count("<details>") == 200


def test_the_notebook_shows_the_page_in_a_closed_frame() -> None:
    ((tag, attributes),) = Tags(render.notebook(sample())).tags

    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == render.html(sample())


@pytest.mark.parametrize("surface", [render.html, render.markdown, printed])
def test_mock_vectors_are_named_on_every_surface(surface: Any) -> None:
    mock = sample(
        systems=(system("A", "mock:char3", is_mock=True, truncation=None), *sample().systems[1:])
    )

    assert render.MOCK_NOTICE in surface(mock)
    assert render.MOCK_NOTICE not in surface(sample())


@pytest.mark.parametrize("surface", [render.html, render.markdown, printed])
def test_a_comparison_without_gate_baseline_caution_or_loss_can_be_shown(surface: Any) -> None:
    bare = sample(
        outcome="pass",
        verdict="No difference shown.",
        finding="no difference shown",
        systems=sample().systems[:2],
        gates=(),
        cautions=(),
        ignored=(),
        details=(),
        settings={},
        command="",
        versions={},
        measured={},
        differences=(replace(difference("ndcg@10", 0.0, 0.0, 0.0), detectable=None),),
    )

    text = surface(bare)

    assert "No difference shown." in text
    assert "BM25" not in text
    assert "None" not in text.replace("<p>None", "").replace('<p class="quiet">None', "")


# The comment


def test_a_hostile_comment_has_no_link_image_or_html_but_its_own_fold() -> None:
    tags = rendered(render.markdown(hostile())).tags

    assert {tag for tag, _ in tags} <= {
        *("h2", "ul", "li", "p", "strong", "code", "details", "summary"),
        *("table", "thead", "tbody", "tr", "th", "td", "pre"),
    }
    assert [tag for tag, _ in tags].count("details") == 1
    assert [tag for tag, _ in tags].count("h2") == 1


def test_a_hostile_comment_mentions_and_links_nobody() -> None:
    """GitHub links names, numbers, commits and addresses wherever they are not code."""
    seen = rendered(render.markdown(hostile())).outside_code

    assert "alert" in render.markdown(hostile())
    assert not re.search(
        r"[@#<>\[\]]|://|www\.|GH-\d|[0-9a-f]{7}", re.sub(r"\[[−+0-9., ]*\]", "", seen)
    )


def test_a_hostile_comment_keeps_its_tables_whole() -> None:
    """Metric, B is, B − A, three means, W/L/T, n; then the queries, five wide; then the costs."""
    comment = render.markdown(hostile())
    body = Tags(MarkdownIt("commonmark", {"html": True}).enable("table").render(comment)).tags
    rows = "".join({"tr": "|", "td": "d", "th": "h"}.get(tag, "") for tag, _ in body).split("|")[1:]

    assert rows == [
        "h" * 8,
        "d" * 8,
        "d" * 8,
        "h" * 5,
        "d" * 5,
        "d" * 5,
        "hhh",
        "ddd",
        "ddd",
        "ddd",
    ]


def test_a_hostile_comment_opens_no_html_comment() -> None:
    assert rendered(render.markdown(hostile())).comments == []


def test_the_comment_links_the_report() -> None:
    comment = render.markdown(sample(), report_url="https://example.org/a_(1)?b=2")

    assert "[Full report](<https://example.org/a_(1)?b=2>)" in comment


def test_a_long_comment_gives_up_queries_first_and_keeps_verdict_and_link() -> None:
    """😀 has four bytes in UTF-8, so a row of a query has about 120 × 4 + 40 bytes."""
    text = "😀" * 1_000
    rows = tuple(row(f"q{n}", text, 1.0, n / 1000) for n in range(300))
    details = tuple(detail(f"q{n}") for n in range(300))
    long = sample(queries=rows, details=details)

    comment = render.markdown(long, report_url="https://example.org/1", max_bytes=6_000)

    # At most 10 rows, about 5,200 bytes beside about 2,500; then 5, about 2,600.
    assert "290 of 300 queries left out to keep this comment short" in render.markdown(long)
    assert len(comment.encode()) <= 6_000
    assert "295 of 300 queries left out to keep this comment short" in comment
    assert comment.startswith("## ✗ embed-ab: B is worse\n\nB is worse than A")
    assert "few_queries" in comment
    assert "[Full report](<https://example.org/1>)" in comment


def test_a_comment_of_nothing_but_too_much_still_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "COMMENT_BYTES", 8_000)  # fewer rows are too much, and faster
    long = "😀 @" * 1_000
    comment = render.markdown(
        sample(
            verdict=long,
            systems=tuple(replace(s, system=long, revision=long) for s in sample().systems),
            evalset=replace(sample().evalset, name=long),
            gates=tuple(replace(sample().gates[0], reason=long) for _ in range(100)),
            cautions=tuple(Caution(code=long, message=long, advice=long) for _ in range(20)),
            ignored=(),
            differences=tuple(difference(f"ndcg@{k}", 0.1, 0.0, 0.2) for k in range(1, 200)),
            queries=tuple(replace(q, a=q.a | {"ndcg@1": 0.0}) for q in sample().queries),
        ),
        report_url="https://example.org/1",
    )

    assert len(comment.encode()) <= 8_000
    assert "[Full report](<https://example.org/1>)" in comment


def test_a_comment_on_too_many_things_counts_what_is_left_out() -> None:
    """A stranger's result may have any number; each section shows at most 300."""
    comment = render.markdown(
        sample(
            gates=sample().gates * 5_000,
            cautions=sample().cautions * 5_000,
            ignored=("tiny_corpus",) * 5_000,
            details=(),
        )
    )

    left_out = re.findall(r"(\d+) of (\d+) ([a-z ]+) left out", comment)
    assert [(total, what) for _, total, what in left_out] == [
        ("5000", "gates"),
        ("5000", "warnings"),
        ("5000", "ignored warnings"),
    ]
    assert all(int(number) >= 4_700 for number, _, _ in left_out)
    assert len(comment.encode()) <= 60_000


# The terminal


def test_the_terminal_starts_with_the_verdict_in_ascii() -> None:
    first = printed(sample()).splitlines()[0]

    assert first.startswith("B is worse than A by more than the margin of 0.02: ndcg@10 B - A")


def test_quiet_prints_the_verdict_and_the_gates_only() -> None:
    lines = printed(sample(), quiet=True).splitlines()

    assert [line[:12] for line in lines] == ["B is worse t", "gate ndcg@10"]


def test_a_pipe_gets_plain_ascii_lines_and_whole_gate_lines() -> None:
    text = printed(sample())

    assert text.isascii()
    assert "\x1b" not in text
    assert sample().gates[0].reason in text.splitlines()


def test_the_tables_fit_eighty_columns() -> None:
    counts = {"wins": 1234, "losses": 1111, "ties": 2655, "n_queries": 5000}
    wide = tuple(replace(d, metric="precision@100", **counts) for d in sample().differences)
    text = printed(sample(differences=wide))

    assert any(
        "1234/1111/2655" in line and "[-0.218, -0.033]" in line for line in text.splitlines()
    )


def test_a_hostile_text_sends_nothing_to_the_terminal() -> None:
    text = printed(hostile(), force_terminal=True, color_system=None)

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202d]", text)
    assert "[bold red]x[/]" in text.replace("\n", " ")


def test_a_log_of_a_runner_finds_no_command_in_a_hostile_text() -> None:
    text = printed(hostile())

    assert "::" not in text
    assert "##[" not in text


def test_an_old_code_page_gets_escapes_instead_of_a_crash() -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    terminal.comparison(sample(verdict="B는 나쁩니다"), console)
    console.file.flush()

    assert raw.getvalue().startswith(rb"B\ub294 ")


# The other commands


def checked(**changes: Any) -> list[str]:
    fields: dict[str, Any] = {
        "name": "kettles",
        "digest": "ab" * 32,
        "n_documents": 1234,
        "n_queries": 5,
        "n_evaluated": 4,
        "n_judgements": 9,
        "n_unjudged_documents": 1230,
        "grades": {0: 4, 1: 5},
        "relevant_per_query": {0: 1, 1: 3, 2: 1},
        "median_relevant": 1.0,
        "duplicate_documents": (("d1", "d2"), ("d5", "d6", "d7")),
        "near_duplicates": (),
        "duplicate_queries": (),
        "missing_documents": (),
        "empty_documents": tuple(f"e{n}" for n in range(7)),
        "document_lengths": Lengths(minimum=0, median=80.5, p95=1200.0, maximum=3000),
        "query_lengths": Lengths(minimum=4, median=20.0, p95=40.0, maximum=41),
        "document_metadata": {"source": 1234},
        "query_metadata": {},
        "notices": (Notice(code="bom_stripped", message="A byte order mark was left out."),),
    }
    shown = io.StringIO()
    terminal.check(Check(**(fields | changes)), Console(file=shown, width=80))
    return shown.getvalue().splitlines()


def test_a_check_prints_one_fact_a_line() -> None:
    assert checked() == [
        "kettles",
        "set: 1,234 documents, 5 queries, 9 judgements",
        f"digest: sha256 {'ab' * 32}",
        "queries evaluated: 4",
        "relevant documents per query: 0 (1 query), 1 (3 queries), 2 (1 query); median 1",
        "grades: 0 (4 judgements), 1 (5 judgements)",
        "documents never judged: 1,230",
        "documents without text: 7 (e0, e1, e2, e3, e4, ...)",
        "documents with equal texts: 5 (d1 = d2, d5 = d6 = d7)",
        "documents equal in letters and digits: 0",
        "queries with equal texts: 0",
        "judged documents that do not exist: 0",
        "document length in characters: 0 to 3,000, median 80.5, 95% have at most 1,200",
        "query length in characters: 4 to 41, median 20, 95% have at most 40",
        "more fields of documents: source (1,234)",
        "more fields of queries: none",
        "note: A byte order mark was left out.",
    ]


def test_a_check_of_hostile_ids_sends_no_command() -> None:
    text = "\n".join(checked(name=HOSTILE, missing_documents=(HOSTILE,)))

    assert not re.search("[\x00\x1b\u202d]|::|##\\[", text)


def test_the_store_is_described_in_one_line() -> None:
    shown = io.StringIO()
    info = StoreInfo(path=Path("cache/vectors.sqlite3"), n_vectors=10_000, n_bytes=16_400_000)
    terminal.cache_info(info, Console(file=shown, width=80))

    assert shown.getvalue() == "cache/vectors.sqlite3: 10,000 vectors, 16.4 MB\n"


# Without texts


EMPTY_ELEMENT = re.compile(r"<(p|td|th|span|code|small|li|dd)[^>]*>\s*</\1>")


def test_a_redacted_page_names_queries_by_id_and_leaves_nothing_empty() -> None:
    page = render.html(redacted(sample()))

    assert not EMPTY_ELEMENT.search(page)
    assert rows_of(page)[0] == "q1 ↓ −0.630 B loses"
    assert page.count('<summary dir="auto">documents</summary>') == 3
    assert page.count("texts are left out") == 1


def test_a_document_without_text_leaves_no_empty_paragraph() -> None:
    bare = replace(detail("q1"), relevant=(relevant("d7", 2, ""),), a=(), b=())

    assert not EMPTY_ELEMENT.search(html_of(details=(bare,)))


def test_a_redacted_comment_has_no_column_of_texts() -> None:
    comment = render.markdown(redacted(sample()))

    assert "| query | A: `ndcg@10` | B | B − A |\n|---|--:|--:|--:|\n| `q1` | 1.000 |" in comment
    assert "- texts are left out\n" in comment
    assert "``" not in comment.replace("```", "")


def test_a_redacted_result_says_so_on_a_terminal() -> None:
    assert "\ntexts are left out\n" in printed(redacted(sample()))
    assert "redact" not in printed(sample())


def test_redacting_twice_changes_nothing_more() -> None:
    once = redacted(sample())

    assert once.command == f"{sample().command} --redact"
    assert redacted(once) == once


def test_a_result_without_a_command_gets_none() -> None:
    assert redacted(sample(command="")).command == ""


def test_reranking_is_a_row_of_the_costs_and_has_no_price() -> None:
    """Also of a system without vectors, and of practice vectors: the reranker is neither."""
    measured = sample().measured | {
        "rerank_ms": {
            "A": {"p50": 110.0, "p95": 240.0, "n": 20},
            "B": {"p50": 0.75, "p95": 1.25, "n": 300},
        }
    }
    a, b, bm25 = sample().systems
    by_words = replace(b, dimension=None, bytes_per_vector=None, corpus_bytes=None)
    systems = (replace(a, is_mock=True), by_words, bm25)

    table = render.cost_table(systems, measured)

    assert table is not None
    assert table.headings == ("costs", "A", "B")
    assert table.rows[-1] == (
        "ms to rerank one query, p50 / p95",
        "110.00 / 240.00",
        "0.75 / 1.25",
    )
    priced = render.cost_table(sample().systems, measured)
    assert priced is not None
    assert priced.note == (
        "One query: 4 asked for one at a time, after the ranking. "
        "Reranking: all candidates of a query, 300 queries one at a time. "
        "Reranker not priced: the price is of embedding alone."
    )


def test_all_surfaces_show_what_reranking_takes() -> None:
    measured = sample().measured | {"rerank_ms": {"B": {"p50": 110.0, "p95": 240.0, "n": 20}}}
    shown = sample(measured=measured)

    for surface in (render.html(shown), render.markdown(shown), printed(shown)):
        assert "ms to rerank one query, p50 / p95" in surface
        assert "110.00 / 240.00" in surface
        assert "Reranker not priced" in surface
