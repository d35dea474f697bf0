"""The two files a repository starts with: `.embed-ab.yml` and the workflow for pull requests."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from embed_ab.errors import InputError
from embed_ab.providers.prompts import expected_prompts
from embed_ab.settings import CONFIG_NAME, Settings

USES = "OWNER/embed-ab-action@v1"
DEFAULTS: dict[str, Any] = {
    "eval-path": "eval",
    "model-a": "st:sentence-transformers/all-MiniLM-L6-v2",
    "model-b": "st:intfloat/multilingual-e5-small",
    "gate": ["ndcg@10:0.02"],
}
"""What stands in the files where nothing was given, by the setting's key."""

_FOLDER = Path(".github/workflows")
_WORKFLOW = _FOLDER / "embed-ab.yml"
_COMMENT_WORKFLOW = _FOLDER / "embed-ab-comment.yml"
_USES = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}@)[\w.-]{1,100}@\w[\w./-]{0,199}", re.ASCII
)
# Whoever audits the workflow with zizmor should see that this is meant.
_TAG_NOTE = "  # zizmor: ignore[unpinned-uses] a moving tag brings fixes"


def write(folder: Path, settings: Settings, *, uses: str = USES, forks: bool = False) -> list[Path]:
    """Write the files below a folder and return the paths of those that were not there.

    settings: with evaluation set, systems and gates.
    forks: also write the workflow that comments on pull requests from forks.
    Raises: InputError, and then nothing was written, where all are there already.
    """
    settings.options()
    if not _USES.fullmatch(uses):
        raise InputError(
            f"--uses {uses!r} is not an action", hint=f"Write OWNER/REPO@REF, for example {USES}."
        )
    _check_place(folder, settings.eval_path)
    action = {"uses": uses, "note": "" if _is_commit(uses) else _TAG_NOTE}
    files = {
        folder / CONFIG_NAME: _render("settings.yml", _context(settings)),
        folder / _WORKFLOW: _render("workflow.yml", action),
    }
    if forks:
        files[folder / _COMMENT_WORKFLOW] = _render("comment-workflow.yml", action)
    missing = {path: text for path, text in files.items() if not os.path.lexists(path)}
    if not missing:
        raise InputError(
            f"{', '.join(map(str, files))}: already there",
            hint="Nothing was written. With --dir the files go to another folder, to copy from.",
        )
    _create(missing)
    return list(missing)


def next_steps(
    folder: Path, settings: Settings, *, uses: str = USES, forks: bool = False
) -> list[str]:
    """Return what is left to do in the folder until a pull request shows a comparison."""
    evalset = shlex.quote(settings.eval_path)
    steps = [f"Validate the evaluation set: `embed-ab check {evalset}`."]
    if not os.path.isdir(folder / settings.eval_path):
        export = f"embed-ab demo --export {evalset}"
        steps.insert(
            0, f"Put your evaluation set into {evalset}; `{export}` writes one to look at."
        )
    if not os.path.exists(folder / ".git"):
        steps.append("Move the files to the root of the repository; there is no .git here.")
    if uses.startswith("OWNER/"):
        steps.append(f"Replace OWNER in {_FOLDER} with the account that publishes the action.")
    steps.append(f"Commit {CONFIG_NAME}, .github and {evalset}, and open a pull request.")
    if forks:
        steps.append("Pull requests from forks get their comment once this is merged.")
    return steps


def _is_commit(uses: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}", uses.partition("@")[2]) is not None


def _check_place(folder: Path, eval_path: str) -> None:
    """Raise InputError for an evaluation set that a checkout of the repository would not hold."""
    root, place = os.path.realpath(folder), os.path.realpath(folder / eval_path)
    if Path(eval_path).is_absolute() or not Path(place).is_relative_to(root):
        raise InputError(
            f"EVAL: {eval_path} is not a path inside the repository",
            hint="Give the folder relative to the repository's root, for example eval.",
        )


def _context(settings: Settings) -> dict[str, Any]:
    prompts = []
    for label, spec in (("a", settings.model_a), ("b", settings.model_b)):
        models = spec.models if spec else ()
        # A prompt of the settings is for one model.
        family = expected_prompts(models[0].name) if len(models) == 1 else None
        if family:
            expected = {"query": family.query, "doc": family.document}
            entries = [(f"{label}-{role}-prompt", text) for role, text in expected.items() if text]
            prompts.append((family.title, entries))
    return {
        "eval_path": settings.eval_path,
        "model_a": str(settings.model_a),
        "model_b": str(settings.model_b),
        "prompts": [(title, entries) for title, entries in prompts if entries],
        "gate": settings.gate[0] if len(settings.gate) == 1 else list(settings.gate),
    }


def _render(name: str, context: dict[str, Any]) -> str:
    environment = Environment(
        loader=PackageLoader("embed_ab", "templates/starter"),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        # What jinja has by default would be an expression of the workflow.
        variable_start_string="[[",
        variable_end_string="]]",
        block_start_string="[%",
        block_end_string="%]",
    )
    environment.filters["yaml"] = _entry
    return environment.get_template(name).render(context)


def _entry(key: str, value: Any) -> str:
    return yaml.safe_dump({key: value}, allow_unicode=True, width=float("inf")).rstrip("\n")


def _create(files: dict[Path, str]) -> None:
    """Create all files or none."""
    hint = "Nothing was written. With --dir the files go to another folder, to copy from."
    written: list[Path] = []
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise InputError(f"{path}: {error.strerror}", hint=hint) from None
