"""The frozen-candidate toy, to its last digit: every name and every number of its answer."""

import json
from pathlib import Path

import pytest

from embed_ab.cli import main

pytestmark = pytest.mark.reference


def test_the_toy_gives_its_expected_values(
    reference_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = reference_data / "toy-frozen"
    files = [str(folder / "fixture.json"), "--expect", str(folder / "expected.json")]

    assert main(["rerank", "--fixture", *files]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((folder / "expected.json").read_text("utf-8"))
    assert list(found)[:3] == ["evaluatedQueries", "excludedNoPositiveQueries", "candidateRecall"]
    assert (found["baselineNdcg"], found["challengerNdcg"]) == (0.289382, 0.45866)
