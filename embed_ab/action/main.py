"""The action: inputs to a comparison, the comparison to every surface, the verdict last."""

from __future__ import annotations

import os
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar

import httpx
from rich.console import Console

from embed_ab import __version__, commands, formats, render, terminal
from embed_ab import outputs as places
from embed_ab.action import artifact, caches, event, files, github, inputs, results
from embed_ab.action.comment import ReadOnlyToken, upsert_comment
from embed_ab.action.inputs import Publishing
from embed_ab.action.log import Log
from embed_ab.errors import EmbedAbError, EvalsetError, GithubError, InputError
from embed_ab.providers.cache import cache_folder
from embed_ab.result import Comparison
from embed_ab.settings import Settings

OUTPUTS = {
    "outcome": "pass, fail, inconclusive, input-error or error.",
    "verdict": "What was found, in one sentence.",
    "difference": "B − A of the metric that the verdict is about.",
    "low": "Lower end of its interval.",
    "high": "Upper end of its interval.",
    "report-path": "The HTML report, relative to the workspace.",
    "json-path": "The result as JSON, relative to the workspace.",
    "comment-path": "The comment's text, relative to the workspace.",
    "artifact-id": "Number of the uploaded artifact.",
    "artifact-url": "Its address, for people who are signed in.",
    "comment-url": "Address of the comment on the pull request.",
}
GATE_EXIT_CODE, BUG_EXIT_CODE = 1, 3
HEAVY = (
    "mock_models",
    "few_queries",
    "identical_rankings",
    "near_random_model",
    "missing_prompt",
    "truncated_documents",
)
"""Cautions that are annotations too; the runner shows ten of a kind in a step."""
_SECRETS = ("INPUT_GITHUB-TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a job: what the action finds around it.

    clock: seconds since 1970. token: words that nobody can guess.
    """

    environ: Mapping[str, str]
    workspace: Path
    stdout: TextIO
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    token: Callable[[], str] = lambda: secrets.token_hex(16)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def log(self) -> Log:
        """Return the job's log."""
        return Log(self.stdout, self.token)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note how long something takes, and fold its lines in the log."""
        started = time.perf_counter()
        try:
            with self.log.group(name):
                yield
        finally:
            self.seconds[name] = time.perf_counter() - started


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What became of the comparison: one of `finished` and `error` is there."""

    outcome: str
    exit_code: int
    finished: commands.Finished | None = None
    error: EmbedAbError | None = None
    folder: Path | None = None
    vectors: caches.Vectors | None = None

    @property
    def comparison(self) -> Comparison | None:
        """Return the comparison, where there is one."""
        return self.finished.comparison if self.finished else None


def main() -> int:
    """Run the action as the runner starts it, and return the exit code."""
    environ = dict(os.environ)
    workspace = environ.get("GITHUB_WORKSPACE", "")
    if environ.get("GITHUB_ACTIONS") != "true" or not workspace:
        sys.stderr.write(
            "error: without a command this is the GitHub Action, and there is no workflow here\n"
            "hint: to compare here, give a command: docker run --rm "
            '-v "$PWD:/github/workspace" IMAGE compare EVAL -a SYSTEM -b SYSTEM; `IMAGE demo` '
            "shows a comparison, `IMAGE --help` every command.\n"
        )
        return InputError.exit_code
    os.chdir(workspace)
    return run(Step(environ=environ, workspace=Path(workspace), stdout=sys.stdout))


def run(step: Step) -> int:
    """Run the action in its step, whose workspace is the current folder; return the exit code."""
    log = step.log
    log.line(f"embed-ab {__version__}")
    for name in _SECRETS:
        log.mask(step.environ.get(name, ""))
    started = time.perf_counter()
    try:
        given = inputs.publishing(step.environ)
    except InputError as error:
        given = Publishing.model_validate({})
        code = _finish(step, given, Measured(outcome="input-error", exit_code=2, error=error))
    else:
        code = _finish(step, given, measure(step, given))
    shown = "".join(f"{name} {seconds:.1f} s, " for name, seconds in step.seconds.items())
    log.line(f"times: {shown}all {time.perf_counter() - started:.1f} s")
    return code


def measure(step: Step, given: Publishing) -> Measured:
    """Return what the comparison found, or why there is none; nothing is raised."""
    log = step.log
    try:
        _refuse_strangers_code(step)
        settings = inputs.settings(step.environ, given, step.workspace)
        for key, value in settings.changed().items():
            log.line(f"{key}: {formats.shorten(formats.setting(value), 200)}")
        with step.phase("cache"):
            vectors = _restored(step, settings)
        with step.phase("comparison"), log.inert():
            progress = terminal.progress_lines(log.line)
            finished = commands.compare(settings, on_progress=progress)
        with log.inert():
            _show(step, finished)
        if finished.unpublished is not None:
            raise finished.unpublished
    except InputError as error:
        return Measured(outcome="input-error", exit_code=error.exit_code, error=error)
    except EmbedAbError as error:
        return Measured(outcome="error", exit_code=error.exit_code, error=error)
    except Exception as fault:
        with log.inert():
            for line in traceback.format_exc().splitlines():
                log.line(f"| {line}")
        bug = EmbedAbError(
            f"this is a bug in embed-ab {__version__}: {type(fault).__name__}",
            hint="Please report it with the lines of the log.",
        )
        return Measured(outcome="error", exit_code=BUG_EXIT_CODE, error=bug)
    return Measured(
        outcome=finished.comparison.outcome,
        exit_code=finished.exit_code,
        finished=finished,
        folder=Path(settings.out),
        vectors=vectors,
    )


def _finish(step: Step, given: Publishing, measured: Measured) -> int:
    """Publish on every surface, each as far as it goes; return the exit code."""
    log = step.log
    outputs = dict.fromkeys(OUTPUTS, "") | outputs_of(measured)
    with step.phase("publishing"):
        if measured.finished and measured.finished.unpublished is None:
            _attempt(log, "report", lambda: _give_away(step, measured))
        uploaded = None
        if measured.finished and given.upload_artifact:
            uploaded = _attempt(log, "artifact", lambda: _upload(step, given, measured))
        if uploaded:
            outputs |= {"artifact-id": str(uploaded.id), "artifact-url": uploaded.url}
        report_url = uploaded.url if uploaded else ""
        if given.comment != "off":
            url = _attempt(log, "comment", lambda: _comment(step, given, measured, report_url))
            outputs["comment-url"] = url or ""
        summary = step.environ.get("GITHUB_STEP_SUMMARY")
        if given.job_summary and summary:
            text = text_of(measured, report_url)
            _attempt(log, "summary", lambda: files.write_summary(Path(summary), text))
        if path := step.environ.get("GITHUB_OUTPUT"):
            _attempt(log, "outputs", lambda: files.write_outputs(Path(path), outputs, step.token))
    annotate(log, measured)
    if measured.vectors and measured.finished:
        with step.phase("saving vectors"):
            _attempt(log, "cache", lambda: _save(step, measured))
    if measured.exit_code == GATE_EXIT_CODE and not given.fail_on_gate:
        log.line("the gate failed; the step passes, because fail-on-gate is false")
        return 0
    return measured.exit_code


def outputs_of(measured: Measured) -> dict[str, str]:
    """Return the outputs that the comparison gives."""
    found = {"outcome": measured.outcome}
    if measured.error is not None:
        return found | {"verdict": formats.plain(str(measured.error))}
    assert measured.finished is not None
    comparison, files_of = measured.finished.comparison, measured.finished.places
    primary = next(d for d in comparison.differences if d.metric == comparison.primary)
    return found | {
        "verdict": formats.plain(comparison.verdict),
        "difference": repr(primary.difference),
        "low": repr(primary.low),
        "high": repr(primary.high),
        "report-path": files_of.report.as_posix(),
        "json-path": files_of.json.as_posix(),
        "comment-path": files_of.comment.as_posix(),
    }


def text_of(measured: Measured, report_url: str = "") -> str:
    """Return the markdown for comment and summary."""
    if measured.comparison is not None:
        return render.markdown(measured.comparison, report_url=report_url)
    assert measured.error is not None
    return render.unfinished(str(measured.error), measured.error.hint)


def annotate(log: Log, measured: Measured) -> None:
    """Write the annotations: what failed, or the verdict, and the heaviest cautions."""
    error, comparison = measured.error, measured.comparison
    if error is not None:
        place = (str(error.path), error.line) if isinstance(error, EvalsetError) else ("", None)
        log.error(f"{error}\n{error.hint}".strip(), file=place[0], line=place[1])
        return
    assert comparison is not None
    for caution in comparison.cautions:
        if caution.code in HEAVY:
            log.warning(f"{caution.message} {caution.advice}", title=f"embed-ab {caution.code}")
    if comparison.outcome == "fail":
        log.error(comparison.verdict)
    elif comparison.outcome == "inconclusive":
        log.warning(comparison.verdict)
    else:
        log.notice(comparison.verdict)


def _refuse_strangers_code(step: Step) -> None:
    """Refuse what a stranger's pull request could use to speak with the base's rights."""
    if step.environ.get("GITHUB_EVENT_NAME") != "pull_request_target":
        return
    with suppress(GithubError):
        payload = event.read_payload(Path(step.environ.get("GITHUB_EVENT_PATH", "")))
        if event.is_of_pull_request(payload, event.checked_out_commit(step.workspace)):
            raise InputError(
                "pull_request_target with the pull request's own files checked out: a stranger's "
                "files would be read with the rights of this repository",
                hint="Use the event pull_request, and for forks a second workflow: see `Pull "
                "requests from forks` in the README.",
            )


def _restored(step: Step, settings: Settings) -> caches.Vectors | None:
    if not caches.uses_vectors(settings) or results.unavailable(step.environ):
        return None

    def restore() -> caches.Vectors:
        folder = cache_folder(step.environ)
        client = httpx.Client()
        return caches.restore_vectors(client, _runtime(step), settings, folder, step.log.line)

    return _attempt(step.log, "cache", restore)


def _save(step: Step, measured: Measured) -> None:
    assert measured.vectors is not None
    assert measured.comparison is not None
    n_embedded = sum(measured.comparison.measured["texts_embedded"].values())
    step.log.line(measured.vectors.save(n_embedded))


def _show(step: Step, finished: commands.Finished) -> None:
    # In a log a row of a table should be one line.
    console = Console(file=step.stdout, width=200)
    terminal.comparison(finished.comparison, console)
    if finished.unpublished is None:
        terminal.places(finished.places, console)


def _give_away(step: Step, measured: Measured) -> None:
    assert measured.folder is not None
    folder = step.workspace / measured.folder
    files.give_to_owner_of(step.workspace, (folder, *folder.rglob("*")))


def _runtime(step: Step) -> results.Runtime:
    return results.runtime_of(step.environ, mask=step.log.mask, sleep=step.sleep)


def _upload(step: Step, given: Publishing, measured: Measured) -> artifact.Artifact:
    assert measured.folder is not None
    runtime = _runtime(step)
    environ = step.environ
    suffix, mime_type = ("", artifact.ZIP) if given.artifact_archive else (".html", "text/html")
    name = artifact.artifact_name(
        given.artifact_name,
        job=environ.get("GITHUB_JOB", ""),
        leg=given.leg,
        key=given.comment_key,
        attempt=environ.get("GITHUB_RUN_ATTEMPT", ""),
        suffix=suffix,
    )
    if given.artifact_archive:
        content = artifact.zip_folder(step.workspace / measured.folder)
    else:
        content = (step.workspace / measured.folder / places.REPORT).read_bytes()
    with httpx.Client() as client:
        uploaded = artifact.upload_artifact(
            client,
            runtime,
            name,
            content,
            mime_type=mime_type,
            retention_days=given.retention_days,
        )
    step.log.line(f"artifact {uploaded.name}: {uploaded.n_bytes:,} bytes, {uploaded.digest}")
    if uploaded.warning:
        step.log.warning(uploaded.warning)
    return uploaded


def _comment(step: Step, given: Publishing, measured: Measured, report_url: str) -> str:
    """Write the comment; return its address, "" where there is none."""
    environ, log = step.environ, step.log
    name = environ.get("GITHUB_EVENT_NAME", "")
    payload = event.read_payload(Path(environ.get("GITHUB_EVENT_PATH", "")))
    run = event.run_of(name, payload, environ, checked_out=event.checked_out_commit(step.workspace))
    with _github(step, given) as client:
        api = github.Api(
            client, environ.get("GITHUB_REPOSITORY", ""), clock=step.clock, sleep=step.sleep
        )
        pull = event.pull_request_of(
            name, payload, api, run.commit, number=given.pull_request or None
        )
        if isinstance(pull, event.NoPullRequest):
            log.line(f"no comment: {pull.reason}")
            return ""
        posted = upsert_comment(
            api,
            pull,
            text_of(measured),
            given.key,
            run,
            mode=given.comment,
            is_failure=measured.outcome == "fail" or measured.exit_code != 0,
            server_url=_server(step),
            report_url=report_url,
        )
    log.line(f"comment {posted.what}: {posted.why} {posted.url}")
    return posted.url


def _github(step: Step, given: Publishing) -> httpx.Client:
    address = step.environ.get("GITHUB_API_URL") or "https://api.github.com"
    return github.connect(address, given.github_token)


def _server(step: Step) -> str:
    return step.environ.get("GITHUB_SERVER_URL") or "https://github.com"


def _attempt(log: Log, what: str, act: Callable[[], T]) -> T | None:
    """Return what a surface gives; None, and a line in the log, where it is not to be had."""
    try:
        return act()
    except ReadOnlyToken as refusal:
        log.notice(f"no {what}: {refusal}\n{refusal.hint}".strip())
    except EmbedAbError as error:
        log.warning(f"no {what}: {error}\n{error.hint}".strip())
    except Exception:
        with log.inert():
            for line in traceback.format_exc().splitlines():
                log.line(f"| {line}")
        log.warning(f"no {what}: this is a bug in embed-ab {__version__}; please report it")
    return None
