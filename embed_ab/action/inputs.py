"""The inputs of the action: every setting of a comparison, and what to publish where.

The runner hands an input `eval-path` over as the variable `INPUT_EVAL-PATH`, "" when it is not
given.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from embed_ab import formats
from embed_ab.errors import InputError
from embed_ab.providers import vectors
from embed_ab.settings import CONFIG_NAME, Settings, key_of, resolve
from embed_ab.system_spec import PROVIDERS, SystemSpec

REPORT_FOLDER = "embed-ab-report"
_NOT_INPUTS = {"report", "json", "quiet"}  # files have fixed names in the report folder
_PATHS = ("eval-path", "out", "runs")
ALIASES = {"fail-if-worse": "gate"}  # the command line has both spellings
_OF_THE_RUNNER = ("args", "entrypoint")  # keys of `with` that it reads itself


def _switch(value: Any) -> Any:
    # Source: the boolean inputs of GitHub's own actions know these words alone.
    if value in ("true", "True", "TRUE", True):
        return True
    if value in ("false", "False", "FALSE", False):
        return False
    raise ValueError("Input should be true or false")


Switch = Annotated[bool, BeforeValidator(_switch)]


class Publishing(BaseModel):
    """What the action does with a comparison; the inputs that the command line does not have."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
    )

    mode: Literal["compare", "publish"] = Field(
        "compare",
        description="compare; or publish, in a workflow on workflow_run: comment on a fork's pull "
        "request what its own run found.",
    )
    config: str = Field(
        "",
        description="Settings file; default .embed-ab.yml where it exists. none reads no file, so "
        "that inputs alone decide.",
    )
    comment: Literal["always", "changes", "failure", "off"] = Field(
        "always",
        description="When to write the pull request's comment: always; on changes of the result "
        "shown; on a failure (an older failing comment is still updated); or off.",
    )
    comment_key: str = Field(
        "",
        description="Tells several uses of the action on one pull request apart.",
        pattern=r"^[\w-]{0,60}$",
    )
    pull_request: int = Field(
        0,
        description="Number of the pull request to comment on, where the event names none.",
        ge=0,
    )
    github_token: str = Field(
        "", description="Token that may write the comment; default the job's.", repr=False
    )
    job_summary: Switch = Field(True, description="Write the job summary.")
    upload_artifact: Switch = Field(True, description="Upload the report as a workflow artifact.")
    artifact_name: str = Field(
        "",
        description="First part of the artifact's name, default embed-ab; job, matrix leg, "
        "comment-key and attempt follow. With mode publish: which artifacts to show.",
        pattern=r"^[\w-]{0,40}$",
    )
    artifact_archive: Switch = Field(
        True, description="false uploads the bare HTML file instead of a zip of the report folder."
    )
    retention_days: int = Field(
        0, description="Days to keep the artifact; 0 is what the repository says.", ge=0, le=400
    )
    fail_on_gate: Switch = Field(True, description="false lets the step pass when a gate fails.")
    strategy_index: str = Field("", description="Internal: the number of the matrix leg.")

    @property
    def leg(self) -> str:
        """Return the number of the matrix leg, "" for the first and where there is no matrix."""
        return self.strategy_index if self.strategy_index != "0" else ""

    @property
    def key(self) -> str:
        """Return what tells this use of the action apart on a pull request."""
        # A comment-key has no dot in it, so that no key equals that of a leg.
        return ".".join(filter(None, (self.comment_key, self.leg and f"leg.{self.leg}")))


def unknown(environ: Mapping[str, str]) -> list[str]:
    """Return the inputs that there are none of, as the runner hands over what it does not know.

    Raises: InputError for one that is nearly an input: a misspelt gate would be no gate.
    """
    known = [*publishing_keys(), *comparison_keys(), *ALIASES, *_OF_THE_RUNNER]
    given = [name.removeprefix("INPUT_").lower() for name in environ if name.startswith("INPUT_")]
    strange = [key for key in given if key not in known and environ[f"INPUT_{key.upper()}"]]
    for key in strange:
        if close := difflib.get_close_matches(key.replace("_", "-"), known, n=1, cutoff=0.75):
            raise InputError(
                f"there is no input {formats.plain(key)}; did you mean {close[0]}?",
                hint="The README has a table of all inputs.",
            )
    return strange


def publishing(environ: Mapping[str, str]) -> Publishing:
    """Return the publishing inputs. Raises: InputError that names the input."""
    try:
        return Publishing.model_validate(dict(_given(environ, publishing_keys())))
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        key = str(first["loc"][0])
        reason = first["msg"].removeprefix("Value error, ")
        description = Publishing.model_fields[key.replace("-", "_")].description or ""
        raise InputError(f"input {key}: {reason}", hint=description) from None


def readable(environ: Mapping[str, str]) -> Publishing:
    """Return the publishing inputs that are right, for saying elsewhere that others are wrong."""
    given = dict(_given(environ, publishing_keys()))
    for key in list(given):
        try:
            Publishing.model_validate({key: given[key]})
        except ValidationError:
            del given[key]
    return Publishing.model_validate(given)


def settings(environ: Mapping[str, str], inputs: Publishing, workspace: Path) -> Settings:
    """Return the comparison's settings: inputs over the config file over the defaults.

    Everything that is read or written lies inside the workspace, links followed: a pull request
    chooses names and files, and the container sees more than the workspace.
    Raises: InputError that names the input or the file.
    """
    given = _switches(dict(_given(environ, comparison_keys())))
    for other, key in ALIASES.items():
        for _, value in _given(environ, [other]):
            if key in given:
                raise InputError(f"inputs {key} and {other} are one input, given twice")
            given[key] = value
    config = workspace / (inputs.config or CONFIG_NAME)
    is_named = inputs.config != "none" and (bool(inputs.config) or config.is_file())
    if is_named:
        _refuse_outside(config, workspace, "config")
    # As a name in messages, the file is below the workspace, where the step runs.
    found = resolve(
        given,
        config=_below(config, workspace) if is_named else None,
        spelling=lambda key: f"input {key}",
    )
    folder = f"{REPORT_FOLDER}-{inputs.key}" if inputs.key else REPORT_FOLDER
    paths = {key: getattr(found, key.replace("-", "_")) for key in _PATHS}
    paths["out"] = paths["out"] or folder
    for key, path in paths.items():
        if path:
            _refuse_outside(workspace / path, workspace, f"input {key}")
            paths[key] = str(_below(workspace / path, workspace))
    if paths["eval-path"]:
        _refuse_links(workspace / paths["eval-path"], workspace, "input eval-path")
    for key in ("out", "runs"):
        if paths[key]:
            _refuse_links(workspace / paths[key], workspace, f"input {key}", even_inside=True)
            if (workspace / paths[key]).resolve() == workspace.resolve():
                raise InputError(f"input {key}: the workspace itself", hint="Name a folder in it.")
    for key, spec in (("model-a", found.model_a), ("model-b", found.model_b)):
        for leaf in spec.leaves if spec else ():
            _check_place(f"input {key}", leaf, workspace)
    return found.model_copy(update={key.replace("-", "_"): path for key, path in paths.items()})


def _check_place(what: str, leaf: SystemSpec, workspace: Path) -> None:
    """Raise InputError where a system's file or folder is not the workspace's own."""
    reads_file = PROVIDERS[leaf.provider].reads_file
    if not reads_file and leaf.provider not in ("st", "ce"):
        return
    place = vectors.path_of(leaf.name) if reads_file else Path(leaf.name)
    if str(place).startswith("~"):
        raise InputError(f"{what}: {leaf.name} leads out of the workspace")
    if reads_file or os.path.lexists(workspace / place):
        _refuse_outside(workspace / place, workspace, what)
        _refuse_links(workspace / place, workspace, what)


def is_redacted(environ: Mapping[str, str]) -> bool:
    """Return what the input redact says. Raises: InputError."""
    given = dict(_given(environ, ["redact"]))
    return bool(_switches(given).get("redact", False))


def comparison_keys() -> list[str]:
    """Return the settings that are inputs too."""
    return [key for key in _fields() if key not in _NOT_INPUTS]


def publishing_keys() -> list[str]:
    """Return the publishing inputs."""
    return [name.replace("_", "-") for name in Publishing.model_fields]


def _fields() -> dict[str, Any]:
    return {key_of(name): field for name, field in Settings.model_fields.items()}


def _given(environ: Mapping[str, str], keys: list[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        value = environ.get(f"INPUT_{key.upper()}", "")
        # A prompt may end in a blank, and often does.
        value = value.strip("\r\n") if key.endswith("-prompt") else value.strip()
        if value:
            yield key, value


def _switches(given: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs with those that are yes or no read strictly."""
    read = dict(given)
    for key, field in _fields().items():
        if key in given and field.annotation is bool:
            try:
                read[key] = _switch(given[key])
            except ValueError as error:
                raise InputError(f"input {key}: {error}", hint=field.description or "") from None
    return read


def _below(path: Path, workspace: Path) -> Path:
    return Path(os.path.relpath(path, workspace))


def _refuse_outside(path: Path, workspace: Path, what: str) -> None:
    try:
        is_inside = path.resolve().is_relative_to(workspace.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a null byte
        is_inside = False
    if not is_inside:
        raise InputError(
            f"{what}: {_below(path, workspace)} leads out of the workspace",
            hint="Give a path below the workspace that no link leads away from.",
        )


def _refuse_links(folder: Path, workspace: Path, what: str, *, even_inside: bool = False) -> None:
    """Refuse links below a folder that lead out of the workspace; for places to write, all.

    A link to a folder inside is followed, because there can be links in it, too.
    """
    waiting, seen = [folder], set()
    while waiting:
        place = waiting.pop()
        if not place.is_dir() or (real := place.resolve()) in seen:
            continue
        seen.add(real)
        for path in place.iterdir():
            if path.is_symlink():
                if even_inside:
                    raise InputError(
                        f"{what}: {_below(path, workspace)} is a link",
                        hint="Choose another folder.",
                    )
                _refuse_outside(path, workspace, what)
            if path.is_dir():
                waiting.append(path)
    if even_inside and folder.resolve() != workspace.resolve() / _below(folder, workspace):
        raise InputError(
            f"{what}: {_below(folder, workspace)} is reached through a link",
            hint="Choose another folder.",
        )
