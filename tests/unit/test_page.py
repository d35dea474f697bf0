"""What the report says beside the comparison: what speaks loudest, is marked, leads where."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_render import detail, difference, hit, row, sample

from embed_ab import page, render
from embed_ab.bm25 import find_tokens, tokenize
from embed_ab.cautions import CODES


def test_every_caution_has_its_strength() -> None:
    assert sorted(page.STRONGEST) == sorted(CODES)


def test_a_verdict_is_words_and_numbers() -> None:
    verdict = (
        "B is worse than A where language=ko: ndcg@10 B − A = −0.2, 95% interval [−0.3, −0.1]."
    )

    assert page.headline(sample(verdict=verdict)) == (
        "B is worse than A where language=ko.",
        "ndcg@10 B − A = −0.2, 95% interval [−0.3, −0.1].",
    )


def test_a_bar_of_neighbours_leads_to_the_one_that_changed_most() -> None:
    """401 queries on 200 bars: the first bar holds 2 of them, q0 with −0.8 and q1 with −0.798."""
    rows = tuple(row(f"q{n}", "", 0.8, n * 0.002) for n in range(401))
    plots = page.difference_plots(sample(queries=rows), page.rows(sample(queries=rows, details=())))

    assert len(plots["bars"]) == 200
    first = plots["bars"][0]
    assert (first.anchor, first.kind) == ("q0", "loss")
    assert first.title == "2 queries, −0.800 to −0.798; q0 −0.800 (A 0.800, B 0.000)"


def test_a_query_without_a_row_has_a_bar_without_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_ROWS", 1)
    plots = page.difference_plots(sample(), page.rows(sample()))

    assert [bar.anchor for bar in plots["bars"]] == ["q0", "", "", ""]


def test_a_point_of_several_queries_says_how_many() -> None:
    rows = tuple(row(f"q{n}", "why", 0.5, 1.0) for n in range(3))
    (point,) = page.difference_plots(
        sample(queries=rows), page.rows(sample(queries=rows, details=()))
    )["points"]

    assert point.title == "3 queries, among them q0 +0.500 (A 0.500, B 1.000): why"


def test_a_result_of_an_older_version_has_no_plot_of_ranks() -> None:
    assert page.difference_plots(sample(), page.rows(sample()))["moved"] is None


def test_costs_that_only_one_system_has_are_not_drawn() -> None:
    """Of the sample only A has a price and a time of a query."""
    assert [plot.cost for plot in page.tradeoffs(sample())] == ["bytes per vector"]


def test_costs_of_both_are_drawn_but_no_times_of_practice_vectors() -> None:
    waits = {label: {"p50": 7.0, "p95": 9.0, "n": 4} for label in "AB"}
    both = sample(measured={"query_ms": waits, "price": {"A": 0.1, "B": 0.2}})
    mock = replace(both, systems=tuple(replace(s, is_mock=True) for s in both.systems))

    assert [plot.cost for plot in page.tradeoffs(both)] == [
        "bytes per vector",
        "ms for one query, median",
        "price of embedding",
    ]
    assert [plot.cost for plot in page.tradeoffs(mock)] == ["bytes per vector"]


def test_a_price_of_nothing_because_the_store_had_all_is_not_drawn() -> None:
    warm = sample(measured={"price": {"A": 0.1, "B": 0.0}})

    assert [plot.cost for plot in page.tradeoffs(warm)] == ["bytes per vector"]


def test_the_wait_for_a_reranker_is_part_of_the_wait_for_a_query() -> None:
    """B: 7 ms to embed a query and 110 to rerank."""
    waits = {label: {"p50": 7.0, "p95": 9.0, "n": 4} for label in "AB"}
    reranking = {"B": {"p50": 110.0, "p95": 240.0, "n": 20}}
    plot = page.tradeoffs(sample(measured={"query_ms": waits, "rerank_ms": reranking}))[1]

    assert plot.cost == "ms for one query and reranking, median"
    a, b = (spot.x - page._SMALL["left"] for spot in plot.spots)
    assert b / a == pytest.approx(117 / 7, rel=0.01)  # rounded for the page


def test_words_of_many_passages_are_not_marked() -> None:
    """Of 30 passages all have "the" and one "kettle"; a fifth of 30 is 6."""
    hits = tuple(hit(f"d{n}", 0.5, None, f"the number {n}") for n in range(29))
    shown = replace(detail("q1"), relevant=(), a=hits, b=(hit("d30", 0.5, None, "the kettle"),))
    marked = page.highlighter(sample(details=(shown,)))

    assert marked("the kettle", "the kettle") == "the <mark>kettle</mark>"


def test_words_are_compared_as_they_are_shown() -> None:
    """A zero-width space and a direction override are not."""
    marked = page.highlighter(sample())

    assert marked("a ket\u200btle", "\u202ekettle") == "a <mark>kettle</mark>"


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("Why does the KETTLE smell?", "kettle smells", ["KETTLE"]),
        ("kettles are no kettle", "kettle", ["kettle"]),
        (
            "주전자에서 소리가",
            "주전자 소리",
            ["주전자", "소리"],
        ),  # two bigrams side by side are one
        ("GPU가 없는 PC", "gpu pc", ["GPU", "PC"]),
        ("Ｋｅｔｔｌｅ", "kettle", ["Ｋｅｔｔｌｅ"]),
        ("cafe\u0301 au lait", "café", ["cafe\u0301"]),
        ("nothing here", "", []),
        ("", "kettle", []),
    ],
)
def test_tokens_are_found_where_they_stand(text: str, query: str, found: list[str]) -> None:
    spans = find_tokens(text, {*tokenize(query, "auto")})

    assert [text[start:end] for start, end in spans] == found


def test_the_headline_of_a_gate_on_a_slice_counts_the_slice() -> None:
    assert page.hero(sample()).of == sample().differences[0]
    assert page.hero(sample(gates=(), differences=(difference("ndcg@10", 0.1, 0.0, 0.2),))).low == 0


def test_a_result_of_a_stranger_without_values_or_with_endless_costs_can_be_drawn() -> None:
    """No comparison writes these, and no check refuses them."""
    none = tuple(row(f"q{n}", "", None, None, rank_a=10**18) for n in range(3))
    cost = {"price": {"A": 1.7e308, "B": 1.7e308}}

    shown = render.html(sample(queries=none, details=(), measured=cost))

    assert shown.count("– excluded") == 3
    assert "price of embedding" not in shown
