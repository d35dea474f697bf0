"""The report in Chromium, as its readers see it; skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pictures import launch
from playwright.sync_api import sync_playwright

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    with sync_playwright() as driver:
        browser = launch(driver)
        if browser is None:
            pytest.skip("there is no Chromium: apt-get install chromium")
        yield browser
        browser.close()


@pytest.fixture
def open_report(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """What opens a report from a file, and fails the test if the page complains or asks for more.

    The page's own file is the one thing that it may read. scheme: light or dark; anchor: of a
    query; the rest is for the browser's context.
    """
    complaints: list[str] = []
    file = tmp_path / "report.html"

    def on_request(request: Any) -> None:
        if request.url.split("#")[0] != file.as_uri():
            complaints.append(f"request: {request.url}")

    def open_it(
        report: str, *, width: int = 1280, scheme: str = "light", anchor: str = "", **more: Any
    ) -> Any:
        file.write_text(report, "utf-8")
        size = {"width": width, "height": 900}
        page = chromium.new_context(viewport=size, color_scheme=scheme, **more).new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", on_request)
        page.goto(f"{file.as_uri()}#{anchor}")
        return page

    yield open_it
    for context in chromium.contexts:
        context.close()
    assert complaints == []
