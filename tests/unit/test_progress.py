"""Progress where there is no terminal: a line every ten seconds, with the time left."""

from __future__ import annotations

from embed_ab.terminal import progress_lines


def test_the_time_left_is_by_the_rate_since_the_stage_began() -> None:
    """20 of 60 in 12 s leaves 40 at 0.6 s each."""
    moments = iter([0.0, 1.0, 5.0, 13.0, 14.0])
    said: list[str] = []
    show = progress_lines(said.append, lambda: next(moments))

    for done in (0, 10, 20, 30):
        show("documents", done, 60)

    assert said == ["documents 20 of 60, about 24 s left"]
