"""Make the pictures of the READMEs: python .github/pictures.py RESULT.json, with Chromium at hand.

The comment is drawn in a style close to GitHub's, the report as it is. The tests in tests/browser
start Chromium by this, too.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import Browser, Playwright, sync_playwright

from embed_ab import render, result_json

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)
STYLE = """
body{margin:24px;background:#fff;color:#1f2328;font:14px/1.5 Helvetica,Arial,sans-serif}
article{border:1px solid #d1d9e0;border-radius:6px;overflow:hidden}
header{background:#f6f8fa;border-bottom:1px solid #d1d9e0;padding:8px 16px;color:#59636e}
main{padding:4px 16px 12px}
h2{font-size:21px;border-bottom:1px solid #d1d9e0b3;padding-bottom:6px}
code{background:#818b981f;border-radius:6px;padding:.2em .4em;font:12px ui-monospace,monospace}
pre{background:#f6f8fa;border-radius:6px;padding:12px 16px}pre code{background:none;padding:0}
table{border-collapse:collapse}td,th{border:1px solid #d1d9e0;padding:6px 13px}
tr:nth-child(2n){background:#f6f8fa}a{color:#0969da}ul{padding-left:2em}
"""


def launch(driver: Playwright) -> Browser | None:
    """Return the Chromium of this machine, started; None where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        return None
    return driver.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))


def main() -> None:
    """Write the pictures beside this file."""
    comparison = result_json.load(Path(sys.argv[1]))
    markdown = render.markdown(comparison, report_url="https://github.com")
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    header = "<strong>github-actions</strong> <small>bot</small> commented, last edited just now"
    comment = (
        f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>"
        f"<article><header>{header}</header><main>{body}</main></article>"
    )
    report = render.html(comparison)
    with sync_playwright() as driver:
        browser = launch(driver)
        if browser is None:
            raise SystemExit("there is no Chromium: apt-get install chromium")
        for name, text, size, start in (
            ("comment", comment, (1000, 880), ""),
            ("report", report, (1200, 1050), ""),
            ("queries", report, (1200, 1600), "#queries"),
        ):
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            page.set_content(text)
            if start:
                page.locator("table.queries summary").first.click()
                page.locator(start).scroll_into_view_if_needed()
                page.evaluate("id => document.querySelector(id).scrollIntoView()", start)
            page.screenshot(path=HERE / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
