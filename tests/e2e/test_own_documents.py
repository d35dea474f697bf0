"""A real folder, this project's own documents, through build-set, compare and report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from embed_ab.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "README.ko.md", "CHANGELOG.md", "bench/README.md")


def test_own_documents_become_a_set_a_comparison_and_a_report(tmp_path: Path) -> None:
    for name in DOCUMENTS:
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "docs" / name)
    built, out = tmp_path / "set", tmp_path / "report"

    assert main(["build-set", str(tmp_path / "docs"), "--out", str(built), "--quiet"]) == 0
    assert main(["check", str(built)]) == 0
    systems = ["-a", "mock:char3", "-b", "bm25:auto", "--bm25", "none"]
    assert main(["compare", str(built), *systems, "--out", str(out), "--quiet"]) == 0

    chunks = [json.loads(line) for line in (built / "corpus.jsonl").read_text("utf-8").splitlines()]
    sources = {name: (ROOT / name).read_text("utf-8") for name in DOCUMENTS}
    assert {chunk["metadata"]["source"] for chunk in chunks} == set(DOCUMENTS)
    for chunk in chunks:
        place = chunk["metadata"]
        assert sources[place["source"]][place["start"] : place["end"]] == chunk["text"]
    result = json.loads((out / "result.json").read_text("utf-8"))
    # Copied sentences lead both systems back to their chunks, so something was really searched.
    assert all(system["means"]["recall@10"] > 0.9 for system in result["systems"])
    assert "README.ko.md#" in (out / "report.html").read_text("utf-8")
