"""Shared by all tests: no hub, no cache of the user's, and no skips where CI forbids them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# A shell that starts a job in the background lets it ignore interrupts, and its children with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("untimed", deadline=None)  # a busy machine is no fault
settings.load_profile("untimed")
os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports the hub's client


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    folder = tmp_path / "embed-ab-cache"
    monkeypatch.setenv("EMBED_AB_CACHE_DIR", str(folder))
    return folder


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which something was skipped, where EMBED_AB_NO_SKIPS is set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("EMBED_AB_NO_SKIPS") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
