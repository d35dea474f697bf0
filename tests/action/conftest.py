"""What the tests of the action share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github import FakeGithub, serve
from fake_results import FakeResults, serving
from workflow import HEAD, Workflow


@pytest.fixture
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workflow]:
    """A pull request with the demo collection, and both services on loopback."""
    github = FakeGithub()
    github.add_pull(sha=HEAD)
    with serve(github) as address, serving(FakeResults()) as results:
        made = Workflow(folder=tmp_path, github=github, results=results, address=address)
        monkeypatch.chdir(made.workspace)
        yield made
