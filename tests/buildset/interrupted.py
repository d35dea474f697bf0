"""A command that is interrupted while it waits for a server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def interrupt(arguments: list[str], reached: threading.Event, release: threading.Event) -> None:
    """Run embed-ab, interrupt it when the server was reached, and expect it to end at once.

    release: set afterwards, for a server that waits for it. A process that does not end prints
    where its threads stand.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "embed_ab", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
    ) as process:
        try:
            assert reached.wait(60)
            process.send_signal(signal.SIGINT)
            try:
                _, err = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                _, err = process.communicate()
            assert process.returncode == 130, err
        finally:
            release.set()
