"""The inputs of the action: every setting of a comparison, and what to publish where.

The runner hands an input `eval-path` over as the variable `INPUT_EVAL-PATH`, "" when it is not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from embed_ab.errors import InputError
from embed_ab.settings import CONFIG_NAME, Settings, allowed_keys, extra, key_of, resolve

_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")


def _boolean(value: Any) -> Any:
    if value in (*_TRUE, *_FALSE):
        return value in _TRUE
    raise ValueError("Input should be true or false")


Switch = Annotated[bool, BeforeValidator(_boolean)]


class Publishing(BaseModel):
    """What the action does with a comparison; the inputs that the command line does not have."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
        validate_default=False,
    )

    mode: Literal["compare", "publish"] = Field(
        "compare",
        description="compare, or publish: comment a fork's result from a workflow_run workflow.",
    )
    config: str = Field("", description="Settings file; default .embed-ab.yml where it exists.")
    comment: Literal["always", "changes", "failure", "off"] = Field(
        "always",
        description="When to write the pull request's comment: at each run, when the shown result "
        "changes, when a gate fails (an older failing comment is still updated), or never.",
    )
    comment_key: str = Field(
        "",
        description="Tells several uses of the action on one pull request apart.",
        pattern=r"^[\w.-]{0,60}$",
    )
    github_token: str = Field(
        "", description="Token that may write the comment; default the job's.", repr=False
    )
    job_summary: Switch = Field(True, description="Write the job summary.")
    upload_artifact: Switch = Field(True, description="Upload the report as a workflow artifact.")
    artifact_name: str = Field(
        "", description="Name of the artifact; default made of job, matrix leg, key and attempt."
    )
    artifact_archive: Switch = Field(
        True, description="false uploads the bare HTML file instead of a zip of the folder."
    )
    retention_days: int = Field(
        0, description="Days to keep the artifact; 0 is the repository's default.", ge=0, le=400
    )
    fail_on_gate: Switch = Field(True, description="false lets the step pass when a gate fails.")
    strategy_index: str = Field("", description="Internal: the matrix leg's number.")


def publishing(environ: Mapping[str, str]) -> Publishing:
    """Return the publishing inputs. Raises: InputError that names the input."""
    given = {
        key: value
        for key in input_keys(Publishing)
        if (value := environ.get(f"INPUT_{key.upper()}", "").strip())
    }
    try:
        return Publishing.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        key = str(first["loc"][0])
        reason = first["msg"].removeprefix("Value error, ")
        raise InputError(
            f"input {key}: {reason}", hint=Publishing.model_fields[_field(key)].description or ""
        ) from None


def settings(environ: Mapping[str, str], inputs: Publishing, workspace: Path) -> Settings:
    """Return the comparison's settings: inputs over the config file over the defaults.

    Raises: InputError that names the input or the file, and for a path outside the workspace.
    """
    given: dict[str, Any] = {}
    for key in comparison_keys():
        value = environ.get(f"INPUT_{key.upper()}", "")
        if key.endswith("-prompt"):
            value = value.strip("\n")
        elif value := value.strip():
            field = Settings.model_fields[next(n for n in Settings.model_fields if key_of(n) == key)]
            if field.annotation is bool:
                try:
                    given[key] = _boolean(value)
                except ValueError as error:
                    raise InputError(f"input {key}: {error}", hint=field.description or "") from None
                continue
        if value:
            given[key] = value
    config = workspace / (inputs.config or CONFIG_NAME)
    if inputs.config or config.is_file():
        _inside(config, workspace, "config")
    resolved = resolve(given, config=config if inputs.config or config.is_file() else None)
    folder = workspace / resolved.eval_path
    if resolved.eval_path:
        _inside(folder, workspace, "eval-path")
    for label, spec in (("model-a", resolved.model_a), ("model-b", resolved.model_b)):
        if spec is not None and spec.provider == "st" and (workspace / spec.name).exists():
            _inside(workspace / spec.name, workspace, label)
    return resolved


def comparison_keys() -> list[str]:
    """Return the settings that are inputs too; where files go is the action's business."""
    own = {"out", "report", "json", "runs", "quiet"}
    return [key for key in allowed_keys() if key not in own]


def input_keys(model: type[BaseModel]) -> list[str]:
    """Return the spelling of a model's fields as inputs."""
    return [name.replace("_", "-") for name in model.model_fields]


def _field(key: str) -> str:
    return key.replace("-", "_")


def _inside(path: Path, workspace: Path, key: str) -> None:
    if not path.resolve().is_relative_to(workspace.resolve()):
        raise InputError(
            f"{key}: {path} is outside the workspace",
            hint="Give a path relative to the workspace, below it.",
        )


__all__ = ["Publishing", "comparison_keys", "extra", "input_keys", "publishing", "settings"]
