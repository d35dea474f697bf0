"""action.yml, made from the code; run this file to write it."""

from __future__ import annotations

import json
from pathlib import Path

from embed_ab.action.inputs import ALIASES, Publishing, comparison_keys
from embed_ab.action.surfaces import OUTPUTS
from embed_ab.settings import Settings, key_of

PATH = Path(__file__).parents[2] / "action.yml"

HEAD = """\
# Made from the code: python tests/consistency/action_file.py
name: embed-ab
description: Compare two embedding models on your own documents and questions, in a pull request
author: The embed-ab-action developers
branding:
  icon: bar-chart-2
  color: blue
inputs:
"""
# A default here would always arrive and silently beat the settings file, so only what the file
# cannot hold has one.
DEFAULTS = {"github-token": "${{ github.token }}", "strategy-index": "${{ strategy.job-index }}"}


def action_text() -> str:
    descriptions = {
        key_of(name): field.description or "" for name, field in Settings.model_fields.items()
    }
    inputs = {key: descriptions[key] for key in comparison_keys()}
    inputs |= {alias: f"The same as {key}." for alias, key in ALIASES.items()}
    inputs |= {
        name.replace("_", "-"): field.description or ""
        for name, field in Publishing.model_fields.items()
    }
    lines = [HEAD]
    for key, description in inputs.items():
        lines.append(f"  {key}:\n    description: {json.dumps(description, ensure_ascii=False)}\n")
        if key in DEFAULTS:
            lines.append(f"    default: {DEFAULTS[key]}\n")
    lines.append("outputs:\n")
    for key, description in OUTPUTS.items():
        lines.append(f"  {key}:\n    description: {json.dumps(description, ensure_ascii=False)}\n")
    lines.append("runs:\n  using: docker\n  image: Dockerfile\n")
    return "".join(lines)


if __name__ == "__main__":
    PATH.write_text(action_text(), "utf-8")
