"""Progress where there is no terminal: a line every ten seconds, with the time left."""

from __future__ import annotations

import pytest

from embed_ab.cli import _lines


def test_the_time_left_is_by_the_rate_since_the_stage_began(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """20 of 60 in 12 s leaves 40 at 0.6 s each."""
    moments = iter([0.0, 1.0, 5.0, 13.0, 14.0])
    show = _lines(lambda: next(moments))

    for done in (0, 10, 20, 30):
        show("documents", done, 60)

    assert capsys.readouterr().err == "documents 20 of 60, about 24 s left\n"
