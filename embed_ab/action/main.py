"""The action: inputs to a comparison, the comparison to every surface, the verdict last."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from rich.console import Console

from embed_ab import __version__, commands, formats, terminal
from embed_ab.action import event, inputs, surfaces
from embed_ab.action.inputs import Publishing
from embed_ab.action.kept import Kept
from embed_ab.action.publish import publish_results
from embed_ab.action.step import Step
from embed_ab.action.surfaces import OUTPUTS, Failed, Measured
from embed_ab.errors import EmbedAbError, InputError
from embed_ab.settings import Settings

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
    try:
        os.chdir(workspace)
    except OSError as error:
        sys.stderr.write(f"error: the workspace cannot be entered: {error.strerror}\n")
        return InputError.exit_code
    step = Step(environ=dict(os.environ), workspace=Path(workspace), stdout=sys.stdout)
    step.seconds["start"] = _age_of_this_process()
    return run(step)


def run(step: Step) -> int:
    """Run the action in its step, whose workspace is the current folder; return the exit code."""
    started = time.perf_counter()
    step.log.line(f"embed-ab {__version__}")
    for name in _SECRETS:
        step.log.mask(step.environ.get(name, ""))
    try:
        code = _act(step)
    except Exception as fault:
        # Whatever it is, it is no failed gate, and its text must not act in the log.
        failed = Failed(error=step.bug(fault))
        failed.annotate(step.log)
        step.write_outputs(dict.fromkeys(OUTPUTS, "") | failed.outputs)
        code = failed.exit_code
    finally:
        step.close()
    shown = "".join(f"{name} {seconds:.1f} s, " for name, seconds in step.seconds.items())
    step.log.line(f"times: {shown}all after the start {time.perf_counter() - started:.1f} s")
    return code


def _act(step: Step) -> int:
    try:
        for key in inputs.unknown(step.environ):
            step.log.warning(f"there is no input {key}; it is ignored")
        given = inputs.publishing(step.environ)
    except InputError as error:
        given = inputs.readable(step.environ)
        return finish(step, given, Failed(error=error, name=given.key))
    return publish_results(step, given) if given.mode == "publish" else compare(step, given)


def compare(step: Step, given: Publishing) -> int:
    """Compare, publish on every surface, keep what is new; return the exit code."""
    kept = Kept(step)
    result = measure(step, given, kept)
    code = finish(step, given, result)
    if isinstance(result, Measured):
        with step.phase("saving the cache"):
            kept.save(result.comparison)
    if code == GATE_EXIT_CODE and not given.fail_on_gate:
        step.log.line("the gate failed; the step passes, because fail-on-gate is false")
        return 0
    return code


def measure(step: Step, given: Publishing, kept: Kept) -> Measured | Failed:
    """Return what the comparison found, or why there is none; nothing is raised."""
    log = step.log
    try:
        settings = inputs.settings(step.environ, given, step.workspace)
        _refuse_strangers_files(step, settings)
        for key, value in settings.changed().items():
            log.line(f"{key}: {formats.shorten(formats.setting(value), 200)}")
        with step.phase("cache"):
            prepared = kept.restore(settings)
        try:
            finished = _compare(step, prepared)
        except InputError:
            raise
        except EmbedAbError as error:
            if not kept.brought:
                raise
            # An entry of the cache can be anybody's, and a bad one must not last.
            log.warning(f"failed with what the cache brought; once more without: {error}")
            finished = _compare(step, kept.discard(settings))
        with log.inert():
            # In a log a row of a table should be one line.
            console = Console(file=step.stdout, width=200)
            terminal.comparison(finished.comparison, console)
        if finished.unpublished is not None:
            raise finished.unpublished
    except EmbedAbError as error:
        return Failed(error=error, name=given.key)
    except Exception as fault:
        return Failed(error=step.bug(fault), name=given.key)
    return Measured(finished=finished, settings=settings, name=given.key)


def _compare(step: Step, settings: Settings) -> commands.Finished:
    with step.phase("comparison"), step.log.inert():
        progress = terminal.progress_lines(step.log.line)
        with terminal.heard(step.log.line):
            return commands.compare(settings, on_progress=progress)


def finish(step: Step, given: Publishing, result: Measured | Failed) -> int:
    """Publish on every surface, each as far as it goes; return the exit code."""
    outputs = dict.fromkeys(OUTPUTS, "") | result.outputs
    with step.phase("publishing"):
        report_url = ""
        if isinstance(result, Measured):
            step.attempt("report", lambda: surfaces.give_to_owner(step, result))
            if given.upload_artifact:
                uploaded = step.attempt("artifact", lambda: surfaces.upload(step, given, result))
                if uploaded:
                    report_url = uploaded.url
                    outputs |= {"artifact-id": str(uploaded.id), "artifact-url": report_url}
        if given.comment != "off":
            url = step.attempt("comment", lambda: surfaces.comment(step, given, result, report_url))
            outputs["comment-url"] = url or ""
        if given.job_summary:
            step.attempt("summary", lambda: step.write_summary(result.markdown(report_url)))
        step.write_outputs(outputs)
    result.annotate(step.log)
    return result.exit_code


def _refuse_strangers_files(step: Step, settings: Settings) -> None:
    """Refuse to read a stranger's files with the rights of the repository they are meant for."""
    if step.event_name != "pull_request_target":
        return
    base = step.environ.get("GITHUB_SHA", "")
    for folder in (step.workspace, step.workspace / settings.eval_path):
        commit = event.checked_out_commit(step.workspace, folder)
        if not commit or commit != base:
            raise InputError(
                "pull_request_target without the base's own commit checked out: a stranger's files "
                "would be read with the rights of this repository",
                hint="Use the event pull_request, and for forks a second workflow: see `Pull "
                "requests from forks` in the README.",
            )


def _age_of_this_process() -> float:
    """Return the seconds since the container's process was started, 0 where nobody can tell."""
    try:
        after_boot = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        uptime = Path("/proc/uptime").read_text().split()[0]
        return float(uptime) - int(after_boot) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
