"""What the tests of the action share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_github import FakeGithub, serve
from fake_results import FakeResults, serving
from workflow import HEAD, Workflow

from embed_ab import commands
from embed_ab.settings import resolve


@pytest.fixture
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workflow]:
    """A pull request with the demo collection, and both services on loopback."""
    github = FakeGithub()
    github.add_pull(sha=HEAD)
    with serve(github) as address, serving(FakeResults()) as results:
        made = Workflow(folder=tmp_path, github=github, results=results, address=address)
        monkeypatch.chdir(made.workspace)
        yield made


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report folder of a comparison with two gates, as an action leaves it."""
    folder = tmp_path_factory.mktemp("report")
    settings = resolve(
        {"out": str(folder), "gate": ["ndcg@10:0.5", "hit@10:0.01"], "min-queries": 12},
        config=None,
    )
    commands.demo("en", settings, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    return folder
