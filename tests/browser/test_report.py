"""What a reader sees of the report, and does with it."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reports
from npm_packages import node_modules
from PIL import Image

from embed_ab import render
from embed_ab.page import difference_of as change_of
from embed_ab.page import kind_of
from embed_ab.result import Comparison, redacted

GOLDEN = Path(__file__).parents[1] / "golden" / "browser"
WIDTHS = (360, 768, 1280)
SCHEMES = ("light", "dark")

Open = Callable[..., Any]

MAKERS: dict[str, Callable[[Path], Comparison]] = {
    "sample": lambda folder: reports.sample(),
    "redacted": lambda folder: redacted(reports.sample()),
    "hostile": lambda folder: reports.hostile(),
    "strange": lambda folder: reports.strange(),
    "en": lambda folder: reports.demo("en", folder),
    "ko": lambda folder: reports.demo("ko", folder),
    "3": lambda folder: reports.synthetic(3),
    "1000": lambda folder: reports.synthetic(1_000),
    "10000": lambda folder: reports.synthetic(10_000),
    "scifact": lambda folder: reports.collection("scifact", "minilm-l6", "l3", folder),
    "belebele-ko": lambda folder: reports.collection("belebele-ko", "minilm-l6", "e5q4", folder),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_opens_without_a_complaint_or_a_request_and_fits_its_window(
    name: str, open_report: Open, tmp_path: Path
) -> None:
    """`open_report` fails for the first two."""
    report = render.html(MAKERS[name](tmp_path))

    for width in WIDTHS:
        page = open_report(report, width=width)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")

        assert page.locator("h1").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(
    "planted",
    [
        "<script>document.title = 'ran'</script>",
        "<img src=x onerror=\"document.title = 'ran'\">",
        "<svg onload=\"document.title = 'ran'\"></svg>",
        "<iframe srcdoc=\"<script>parent.document.title = 'ran'</script>\"></iframe>",
        "<style>h1 { display: none }</style>",
    ],
)
def test_what_would_break_out_of_a_text_is_stopped_by_the_policy(
    planted: str, chromium: Any, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    report = render.html(reports.sample())
    file.write_text(report.replace("<main>", f"<main>{planted}", 1), "utf-8")
    page = chromium.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(file.as_uri())

    assert page.title() != "ran"
    assert page.locator("h1").is_visible()
    assert any("Content Security Policy" in text for text in said)
    page.close()


def shown(page: Any) -> list[str]:
    """The ids of the queries whose rows can be seen, in their order."""
    ids: list[str] = page.locator("table.queries tbody:visible th").all_inner_texts()
    return ids


def test_a_search_finds_queries_by_all_its_words_and_by_id(open_report: Open) -> None:
    page = open_report(render.html(reports.sample()))

    page.fill("#search", "KETTLE why")
    assert (shown(page), page.inner_text("#count")) == (["q1"], "1 of 5 queries")
    page.fill("#search", "kettle warranty")  # of q1 and of q3
    assert shown(page) == []
    page.fill("#search", "q3")
    assert shown(page) == ["q3"]
    page.fill("#search", unicodedata.normalize("NFD", "주전자"))  # as some keyboards type it
    assert shown(page) == ["q2"]
    page.fill("#search", "")
    assert page.inner_text("#count") == "5 of 5 queries"


def test_filters_hold_together(open_report: Open) -> None:
    rows = (
        reports.row("q1", "a", 1.0, 0.5, unjudged_b=1),
        reports.row("q2", "b", 1.0, 0.4),
        reports.row("q3", "c", 0.5, 1.0, unjudged_a=1, truncated=("A",)),
        reports.row("q4", "d", 0.5, 0.5),
        reports.row("q5", "e", None, None),
    )
    page = open_report(render.html(reports.sample(queries=rows, details=())))

    def kinds(kind: str) -> list[str]:
        page.select_option("#kind", kind)
        return shown(page)

    assert {kind: kinds(kind) for kind in ("loss", "win", "tie", "excluded", "")} == {
        "loss": ["q2", "q1"],
        "win": ["q3"],
        "tie": ["q4"],
        "excluded": ["q5"],
        "": ["q2", "q1", "q4", "q3", "q5"],
    }
    page.check("text=unjudged above")
    assert shown(page) == ["q1", "q3"]
    page.check("text=relevant document cut")
    assert shown(page) == ["q3"]


def test_filters_of_a_real_report_show_as_many_as_the_result_has(
    open_report: Open, tmp_path: Path
) -> None:
    """Two models on SciFact, by a slice as well."""
    compared = reports.collection("scifact", "minilm-l6", "l3", tmp_path, slices="query-length")
    page = open_report(render.html(compared))
    kinds = Counter(kind_of(change_of(row, compared.primary)) for row in compared.queries)
    values = Counter(row.slices["query-length"] for row in compared.queries)
    n = len(compared.queries)

    assert kinds.keys() >= {"loss", "win", "tie"}
    for kind in ("loss", "win", "tie", "excluded"):
        page.select_option("#kind", kind)
        assert page.inner_text("#count") == f"{kinds[kind]} of {n} queries"
        assert len(shown(page)) == kinds[kind]
    page.select_option("#kind", "")
    page.check("text=unjudged above")
    n_unjudged = sum(bool(row.unjudged_a or row.unjudged_b) for row in compared.queries)
    assert page.inner_text("#count") == f"{n_unjudged} of {n} queries"
    page.uncheck("text=unjudged above")
    (sliced,) = compared.slices
    for number, part in enumerate(sliced.slices):
        page.select_option("#slice", str(number))
        assert page.inner_text("#count") == f"{values[part.value]} of {n} queries"


def test_queries_of_a_slice_are_found(open_report: Open) -> None:
    page = open_report(render.html(reports.sliced()))

    page.select_option("#slice", label="language=ko")

    assert shown(page) == ["q2"]


def test_a_heading_sorts_its_column_up_and_down_with_what_has_no_value_last(
    open_report: Open,
) -> None:
    """Of A: q1 1.0, q2 0.63, q3 0.27, q4 0.5, q5 none."""
    page = open_report(render.html(reports.sample()))
    heading = page.locator("table.queries thead th").nth(2)

    heading.locator("button").click()
    assert (shown(page), heading.get_attribute("aria-sort")) == (
        ["q3", "q4", "q2", "q1", "q5"],
        "ascending",
    )
    heading.locator("button").click()
    assert (shown(page), heading.get_attribute("aria-sort")) == (
        ["q1", "q2", "q4", "q3", "q5"],
        "descending",
    )


def test_minus_signs_sort_as_numbers(open_report: Open) -> None:
    page = open_report(render.html(reports.sample()))
    page.locator("table.queries thead button", has_text="B − A").dblclick()

    assert shown(page) == ["q3", "q4", "q2", "q1", "q5"]  # +0.26, 0, −0.13, −0.63


def test_a_bar_leads_to_its_query_and_opens_it_even_where_a_filter_hid_it(
    open_report: Open,
) -> None:
    page = open_report(render.html(reports.sample()))
    page.fill("#search", "warranty")

    page.locator("svg a:has(title:text-matches('^q1 '))").first.click()

    assert page.evaluate("document.activeElement.textContent") == "why does the kettle smell"
    assert page.locator("#q0 details").get_attribute("open") is not None
    assert len(shown(page)) == 5


def test_a_link_from_outside_opens_its_query(open_report: Open) -> None:
    page = open_report(render.html(reports.sample()), anchor="q1")

    assert page.locator("details[open] summary").all_inner_texts() == ["주전자에서 소리가 나요"]


def test_the_keyboard_alone_reaches_everything(open_report: Open) -> None:
    """Tab goes through links, filters, headings and queries once each; plots are no stops."""
    page = open_report(render.html(reports.sample()))
    stops: list[str] = []
    while "everything" not in stops and len(stops) < 60:
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate(
                "(e => e === document.body ? '' : e.id || e.dataset.copy || e.value || "
                "e.getAttribute('aria-label') || e.textContent)(document.activeElement)"
            )
        )
        if stops[-1] == "search":
            page.keyboard.type("kettle")
        if stops[-1] == "why does the kettle smell":
            page.keyboard.press("Enter")
    seen = [stop.replace(" ↕", "") for stop in stops]
    sections = re.findall(r"<h2>(.*?)</h2>", render.html(reports.sample()))

    assert seen[: len(sections)] == sections
    assert seen[len(sections) :] == [
        *("Differences", "Means", "search", "kind", "unjudged", "truncated", "Every query"),
        *("query", "B − A", "A", "B", "BM25", "first relevant", "Jaccard"),
        *("why does the kettle smell", "What it costs", "command", "everything"),
    ]
    assert page.locator("#q0 details").get_attribute("open") is not None


def test_the_command_is_copied_letter_for_letter(open_report: Open) -> None:
    command = "embed-ab compare set --a-query-prompt 'find:  <q>'"
    page = open_report(
        render.html(reports.sample(command=command)),
        permissions=["clipboard-read", "clipboard-write"],
    )

    page.click("text=Copy the command")

    page.locator("text=Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_without_a_script_everything_can_be_read(open_report: Open) -> None:
    page = open_report(render.html(reports.sample()), java_script_enabled=False)

    assert shown(page) == ["q1", "q2", "q4", "q3", "q5"]
    assert page.locator("svg rect:visible").count() > 3
    assert page.locator("input:visible, select:visible, button:visible").count() == 0
    page.click("summary >> nth=0")
    assert page.locator("text=A's first 3").first.is_visible()


def test_on_paper_there_are_no_controls_and_the_table_is_whole(open_report: Open) -> None:
    page = open_report(render.html(reports.synthetic()))
    page.emulate_media(media="print")

    assert page.locator("input:visible, select:visible, nav:visible").count() == 0
    assert page.evaluate(
        "(e => e.clientHeight === e.scrollHeight)(document.querySelector('.tall'))"
    )


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["sample", "strange", "en", "ko", "scifact"])
def test_axe_finds_nothing(
    name: str, scheme: str, width: int, open_report: Open, tmp_path: Path
) -> None:
    """What axe cannot decide is the contrast of words in plots, and of those out of sight."""
    axe = (node_modules() / "axe-core" / "axe.min.js").read_text("utf-8")
    page = open_report(
        render.html(MAKERS[name](tmp_path)),
        width=width,
        scheme=scheme,
        anchor="q0",
        bypass_csp=True,
    )
    page.evaluate(axe)
    found = page.evaluate("axe.run()")

    assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == []
    assert len(found["passes"]) > 30
    assert {v["id"] for v in found["incomplete"]} <= {"color-contrast"}


# Golden pictures: EMBED_AB_WRITE_GOLDEN=1 takes them anew; look at them before committing them.

FONT = "DejaVu Sans"
BLOCK = 8  # pixels to a side of what is compared: half a letter at full size


def picture(png: bytes) -> Image.Image:
    """At half size in few colours, which is small and can still be read."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    half = image.resize((image.width // 2, image.height // 2), Image.Resampling.BOX)
    return half.quantize(128)


def blocks(image: Image.Image, height: int) -> np.ndarray[Any, Any]:
    """The mean colour of each block, as far down as `height`."""
    size = (image.width // BLOCK, height // BLOCK)
    cut = image.convert("RGB").crop((0, 0, size[0] * BLOCK, size[1] * BLOCK))
    return np.asarray(cut.resize(size, Image.Resampling.BOX), dtype=np.float64)


def difference_of(found: Image.Image, golden: Image.Image) -> float:
    """The share of blocks that another Chromium would not draw so."""
    height = min(found.height, golden.height)
    change = np.abs(blocks(found, height) - blocks(golden, height)).max(axis=2)
    return float((change > 16).mean())


@pytest.fixture
def pictured(open_report: Open, tmp_path: Path) -> Callable[..., Image.Image]:
    """What takes a picture of the demo's report, in a font that is the same everywhere."""
    listed = shutil.which("fc-list") and subprocess.run(
        ["fc-list", FONT], check=True, capture_output=True, text=True
    )
    if not listed or not listed.stdout:
        pytest.skip(f"the font {FONT} is absent: apt-get install fontconfig fonts-dejavu-core")
    report = render.html(replace(reports.demo("en", tmp_path), measured={}, versions={}))

    def take(width: int, scheme: str, style: str = "") -> Image.Image:
        page = open_report(report, width=width, scheme=scheme, anchor="q7", bypass_csp=True)
        page.add_style_tag(content=f"* {{ font-family: '{FONT}' !important }} {style}")
        page.evaluate("document.activeElement.blur()")
        return picture(page.screenshot(full_page=True, animations="disabled"))

    return take


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_looks_as_it_did(width: int, scheme: str, pictured: Callable[..., Image.Image]) -> None:
    found = pictured(width, scheme)
    path = GOLDEN / f"{width}-{scheme}.png"
    if os.environ.get("EMBED_AB_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        found.save(path, optimize=True)

    golden = Image.open(path)

    assert found.width == golden.width
    assert found.height == pytest.approx(golden.height, rel=0.01)
    assert difference_of(found, golden) < 0.005


@pytest.mark.parametrize(
    "style",
    [
        ".plot rect { opacity: 0 }",
        ":root { --win: #f00 !important }",
        ".caution { background: none !important }",
        ".facts { display: none !important }",
    ],
)
def test_a_page_that_looks_otherwise_is_seen(
    style: str, pictured: Callable[..., Image.Image]
) -> None:
    """Without bars, in another colour, without a background, with a gap closed."""
    golden = Image.open(GOLDEN / "1280-light.png")

    assert difference_of(pictured(1280, "light", style), golden) > 0.005
