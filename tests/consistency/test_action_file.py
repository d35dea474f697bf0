"""action.yml, the settings and the publishing inputs say the same."""

from __future__ import annotations

from action_file import PATH, action_text


def test_action_yml_is_made_from_the_code() -> None:
    """Make it again with `python tests/consistency/action_file.py`."""
    assert PATH.read_text("utf-8") == action_text()
