"""Shared by the tests of the action."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from embed_ab import commands
from embed_ab.settings import resolve


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
