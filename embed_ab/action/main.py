"""The action: inputs to a comparison, the comparison to every surface, the verdict last."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from embed_ab import __version__, commands, formats, terminal
from embed_ab.action import caches, event, inputs, surfaces
from embed_ab.action.forks import publish_results
from embed_ab.action.inputs import Publishing
from embed_ab.action.step import Step
from embed_ab.action.surfaces import OUTPUTS, Failed, Measured
from embed_ab.errors import EmbedAbError, GithubError, InputError

GATE_EXIT_CODE = 1
_SECRETS = ("INPUT_GITHUB-TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def main() -> int:
    """Run the action as the runner starts it, and return the exit code."""
    workspace = os.environ.get("GITHUB_WORKSPACE", "")
    if os.environ.get("GITHUB_ACTIONS") != "true" or not workspace:
        sys.stderr.write(
            "error: without a command this is the GitHub Action, and there is no workflow here\n"
            "hint: to compare here, give a command: docker run --rm "
            '-v "$PWD:/github/workspace" IMAGE compare EVAL -a SYSTEM -b SYSTEM; `IMAGE demo` '
            "shows a comparison, `IMAGE --help` every command.\n"
        )
        return InputError.exit_code
    os.chdir(workspace)
    return run(Step(environ=dict(os.environ), workspace=Path(workspace), stdout=sys.stdout))


def run(step: Step) -> int:
    """Run the action in its step, whose workspace is the current folder; return the exit code."""
    started = time.perf_counter()
    step.log.line(f"embed-ab {__version__}")
    for name in _SECRETS:
        step.log.mask(step.environ.get(name, ""))
    with step.client:
        try:
            given = inputs.publishing(step.environ)
        except InputError as error:
            code = finish(step, Publishing.model_validate({}), Failed(error=error))
        else:
            is_publish = given.mode == "publish"
            code = publish_results(step, given) if is_publish else compare(step, given)
    shown = "".join(f"{name} {seconds:.1f} s, " for name, seconds in step.seconds.items())
    step.log.line(f"times: {shown}all {time.perf_counter() - started:.1f} s")
    return code


def compare(step: Step, given: Publishing) -> int:
    """Compare, publish on every surface, keep what is new; return the exit code."""
    kept = caches.Kept(step)
    result = measure(step, given, kept)
    code = finish(step, given, result)
    if isinstance(result, Measured):
        with step.phase("saving the cache"):
            kept.save(result.comparison)
    if code == GATE_EXIT_CODE and not given.fail_on_gate:
        step.log.line("the gate failed; the step passes, because fail-on-gate is false")
        return 0
    return code


def measure(step: Step, given: Publishing, kept: caches.Kept) -> Measured | Failed:
    """Return what the comparison found, or why there is none; nothing is raised."""
    log = step.log
    try:
        _refuse_strangers_files(step)
        settings = inputs.settings(step.environ, given, step.workspace)
        for key, value in settings.changed().items():
            log.line(f"{key}: {formats.shorten(formats.setting(value), 200)}")
        if caches.is_useful(step, settings):
            with step.phase("cache"):
                settings = kept.restore(settings)
        with step.phase("comparison"), log.inert():
            progress = terminal.progress_lines(log.line)
            finished = commands.compare(settings, on_progress=progress)
        with log.inert():
            # In a log a row of a table should be one line.
            console = Console(file=step.stdout, width=200)
            terminal.comparison(finished.comparison, console)
        if finished.unpublished is not None:
            raise finished.unpublished
    except EmbedAbError as error:
        return Failed(error=error)
    except Exception as fault:
        step.trace()
        bug = EmbedAbError(
            f"this is a bug in embed-ab {__version__}: {type(fault).__name__}",
            hint="Please report it with the lines of the log.",
        )
        return Failed(error=bug)
    return Measured(finished=finished, folder=Path(settings.out))


def finish(step: Step, given: Publishing, result: Measured | Failed) -> int:
    """Publish on every surface, each as far as it goes; return the exit code."""
    outputs = dict.fromkeys(OUTPUTS, "") | result.outputs
    with step.phase("publishing"):
        report_url = ""
        if isinstance(result, Measured):
            step.attempt("report", lambda: surfaces.give_away(step, result))
            if given.upload_artifact:
                uploaded = step.attempt("artifact", lambda: surfaces.upload(step, given, result))
                if uploaded:
                    report_url = uploaded.url
                    outputs |= {"artifact-id": str(uploaded.id), "artifact-url": report_url}
        if given.comment != "off":
            url = step.attempt("comment", lambda: surfaces.comment(step, given, result, report_url))
            outputs["comment-url"] = url or ""
        if given.job_summary:
            step.write_summary(result.markdown(report_url))
        step.write_outputs(outputs)
    result.annotate(step.log)
    return result.exit_code


def _refuse_strangers_files(step: Step) -> None:
    """Refuse to read a stranger's files with the rights of the repository they are meant for."""
    if step.event_name != "pull_request_target":
        return
    is_theirs = False
    with suppress(GithubError):
        commit = event.checked_out_commit(step.workspace)
        is_theirs = event.is_of_pull_request(step.payload(), commit)
    if is_theirs:
        raise InputError(
            "pull_request_target with the pull request's own files checked out: a stranger's files "
            "would be read with the rights of this repository",
            hint="Use the event pull_request, and for forks a second workflow: see `Pull requests "
            "from forks` in the README.",
        )
