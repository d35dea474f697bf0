"""Tables of both READMEs, made from the code; run this file to write them."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic.fields import FieldInfo

from embed_ab.action.inputs import Publishing
from embed_ab.action.surfaces import OUTPUTS
from embed_ab.cautions import CODES
from embed_ab.cli import _VERBS, _literals, _parser
from embed_ab.settings import Settings, allowed_keys, extra, flags_of, key_of

ROOT = Path(__file__).parents[2]
READMES = (ROOT / "README.md", ROOT / "README.ko.md")


def choices(field: FieldInfo) -> str:
    """What a setting of few values takes, to go after its meaning."""
    values = [v for v in _literals(field.annotation) if v is not None]
    return f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""


def options_table() -> str:
    """A row for each setting: flags, default, meaning."""
    rows = ["| option | default | meaning |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        key = key_of(name)
        flags = ", ".join(f"`{flag}`" for flag in flags_of(key))
        default = field.default
        if isinstance(default, tuple):
            default = ",".join(default)
        elif isinstance(default, bool):
            default = "on" if default else "off"
        shown = f"`{default}`" if default not in (None, "") else ""
        meaning = field.description.replace("|", "\\|") + choices(field)
        note = " Not read from a file." if extra(field)["not_in_file"] else ""
        rows.append(f"| {flags} | {shown} | {meaning}{note} |")
    return "\n".join(rows)


def cautions_table() -> str:
    """A row for each caution."""
    return "\n".join(
        ["| code | meaning |", "| --- | --- |"]
        + [f"| `{code}` | {meaning} |" for code, meaning in CODES.items()]
    )


def commands_table() -> str:
    """A row for each command, with what it takes beside settings."""
    keys = set(allowed_keys())
    rows = ["| command | does | takes beside options |", "| --- | --- | --- |"]
    (verbs,) = (a for a in _parser(list(_VERBS))._actions if isinstance(a.choices, dict))
    for verb, parser in verbs.choices.items():
        taken = []
        for action in parser._actions:
            if action.dest in keys or action.dest == "help":
                continue
            values = " or ".join(map(str, action.choices or ())) or action.metavar
            value = [] if action.nargs == 0 else [str(values or action.dest.upper())]
            name = " ".join([*action.option_strings[:1], *value])
            taken.append(f"`{name}`" + (f": {action.help}" if action.help else ""))
        rows.append(f"| `{verb}` | {parser.description} | {' '.join(taken)} |")
    return "\n".join(rows)


def inputs_table() -> str:
    """A row for each input that is not an option of the command line."""
    rows = ["| input | default | meaning |", "| --- | --- | --- |"]
    for name, field in Publishing.model_fields.items():
        if name == "strategy_index":
            continue  # the runner's business
        default = str(field.default).lower() if isinstance(field.default, bool) else field.default
        shown = f"`{default}`" if default not in (None, "") else ""
        meaning = f"{field.description}{choices(field)}"
        rows.append(f"| `{name.replace('_', '-')}` | {shown} | {meaning} |")
    return "\n".join(rows)


def outputs_table() -> str:
    """A row for each output."""
    return "\n".join(
        ["| output | meaning |", "| --- | --- |"]
        + [f"| `{name}` | {meaning} |" for name, meaning in OUTPUTS.items()]
    )


TABLES = {
    "inputs": inputs_table,
    "outputs": outputs_table,
    "commands": commands_table,
    "options": options_table,
    "cautions": cautions_table,
}


def with_tables(text: str) -> str:
    """Return a README's text with every table between its two marks made anew."""
    for name, table in TABLES.items():
        pattern = rf"(<!-- {name}: made from the code -->\n)(?:.*?\n)??(<!-- end -->)"
        text, n = re.subn(pattern, lambda m, t=table: f"{m[1]}{t()}\n{m[2]}", text, flags=re.DOTALL)
        assert n == 1, f"one place for {name}"
    return text


if __name__ == "__main__":
    for path in READMES:
        path.write_text(with_tables(path.read_text("utf-8")), "utf-8")
