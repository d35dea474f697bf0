"""Make the pictures of the READMEs: python .github/pictures.py RESULT.json, with Chromium at hand.

The comment is drawn in a style close to GitHub's, the report as it is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt

from embed_ab import render, result_json

HERE = Path(__file__).parent
STYLE = """
body{margin:24px;background:#fff;color:#1f2328;font:14px/1.5 Helvetica,Arial,sans-serif}
article{border:1px solid #d1d9e0;border-radius:6px;overflow:hidden}
header{background:#f6f8fa;border-bottom:1px solid #d1d9e0;padding:8px 16px;color:#59636e}
main{padding:4px 16px 12px}
h2{font-size:21px;border-bottom:1px solid #d1d9e0b3;padding-bottom:6px}
code{background:#818b981f;border-radius:6px;padding:.2em .4em;font:12px ui-monospace,monospace}
table{border-collapse:collapse}td,th{border:1px solid #d1d9e0;padding:6px 13px}
tr:nth-child(2n){background:#f6f8fa}a{color:#0969da}ul{padding-left:2em}
"""


def main() -> None:
    """Write comment.png and report.png beside this file."""
    comparison = result_json.load(Path(sys.argv[1]))
    markdown = render.markdown(comparison, report_url="https://github.com")
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    header = "<strong>github-actions</strong> <small>bot</small> commented, last edited just now"
    comment = (
        f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>"
        f"<article><header>{header}</header><main>{body}</main></article>"
    )
    shoot(comment, HERE / "comment.png", "1000,880")
    shoot(render.html(comparison), HERE / "report.png", "1200,1300")


def shoot(page: str, target: Path, size: str) -> None:
    """Draw a page to a file."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        source.write_text(page, "utf-8")
        command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars"]
        command += [f"--window-size={size}", f"--screenshot={target}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
