"""What became of the comparison, on each of GitHub's surfaces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from embed_ab import commands, formats, outputs, render
from embed_ab.action import artifact, event, files
from embed_ab.action.comment import SHARED, upsert_comment
from embed_ab.action.inputs import Publishing
from embed_ab.action.log import Log
from embed_ab.action.step import Step, with_hint
from embed_ab.errors import EmbedAbError, InputError
from embed_ab.result import Comparison
from embed_ab.settings import Settings

OUTPUTS = {
    "outcome": "pass, fail, inconclusive, input-error or error.",
    "verdict": "What was found, in one sentence.",
    "difference": "B − A of the metric that the verdict is about, over all queries.",
    "low": "Lower end of its interval.",
    "high": "Upper end of its interval.",
    "report-path": "The HTML report, relative to the workspace.",
    "json-path": "The result as JSON, relative to the workspace.",
    "comment-path": "The comment's text, relative to the workspace.",
    "artifact-id": "Number of the uploaded artifact.",
    "artifact-url": "Its address, for people who are signed in.",
    "comment-url": "Address of the comment on the pull request.",
}
ANNOTATED_CAUTIONS = (
    "mock_models",
    "few_queries",
    "identical_rankings",
    "near_random_model",
    "missing_prompt",
    "truncated_documents",
)
"""The heaviest; the runner shows ten annotations of a kind in a step."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A comparison that did not finish."""

    error: EmbedAbError
    name: str = ""

    @property
    def exit_code(self) -> int:
        """Return 2 for wrong input, 3 for the rest."""
        return self.error.exit_code

    def measured_folder(self, step: Step) -> Path:
        """Return the workspace: there is nothing else to go by."""
        return step.workspace

    @property
    def outputs(self) -> dict[str, str]:
        """Return the outputs that are known."""
        outcome = "input-error" if self.exit_code == 2 else "error"
        return {"outcome": outcome, "verdict": _sentence(str(self.error))}

    @property
    def is_failure(self) -> bool:
        """Return True: the comment says that there is no result."""
        return True

    def markdown(self, report_url: str = "") -> str:
        """Return the text for comment and summary."""
        return render.unfinished(str(self.error), self.error.hint, self.name)

    def annotate(self, log: Log) -> None:
        """Annotate the error, at the line of the file where there is one."""
        error = self.error
        if isinstance(error, InputError) and error.path is not None:
            log.error(with_hint(error), file=error.path.as_posix(), line=error.line)
        else:
            log.error(with_hint(error))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A finished comparison; places in its settings are relative to the workspace."""

    finished: commands.Finished
    settings: Settings
    name: str = ""

    @property
    def folder(self) -> Path:
        """Return the report folder."""
        return Path(self.settings.out)

    @property
    def files(self) -> list[Path]:
        """Return what the comparison has written."""
        runs = Path(self.settings.runs) if self.settings.runs else None
        places = self.finished.places
        written = [places.report, places.json, places.comment]
        return written + [path for name in outputs.RUN_FILES if runs and (path := runs / name)]

    @property
    def comparison(self) -> Comparison:
        """Return the comparison."""
        return self.finished.comparison

    @property
    def exit_code(self) -> int:
        """Return 1 for a failed gate, else 0."""
        return self.finished.exit_code

    def measured_folder(self, step: Step) -> Path:
        """Return the folder of the evaluation set, which tells what was measured."""
        return step.workspace / self.settings.eval_path

    @property
    def outputs(self) -> dict[str, str]:
        """Return the outputs of the comparison itself."""
        comparison, places = self.comparison, self.finished.places
        primary = next(d for d in comparison.differences if d.metric == comparison.primary)
        return {
            "outcome": comparison.outcome,
            "verdict": _sentence(comparison.verdict),
            "difference": repr(primary.difference),
            "low": repr(primary.low),
            "high": repr(primary.high),
            "report-path": places.report.as_posix(),
            "json-path": places.json.as_posix(),
            "comment-path": places.comment.as_posix(),
        }

    @property
    def is_failure(self) -> bool:
        """Return whether a gate failed, or counts as failed."""
        return self.comparison.outcome == "fail" or self.exit_code != 0

    def markdown(self, report_url: str = "") -> str:
        """Return the text for comment and summary."""
        return render.markdown(self.comparison, report_url=report_url, name=self.name)

    def annotate(self, log: Log) -> None:
        """Annotate the heaviest cautions and the verdict."""
        for caution in self.comparison.cautions:
            if caution.code in ANNOTATED_CAUTIONS:
                log.warning(f"{caution.message} {caution.advice}", title=f"embed-ab {caution.code}")
        if self.is_failure:
            log.error(self.comparison.verdict)
        elif self.comparison.outcome == "inconclusive":
            log.warning(self.comparison.verdict)
        else:
            log.notice(self.comparison.verdict)


def give_to_owner(step: Step, measured: Measured) -> None:
    """Give what was written to the owner of the workspace. Raises: GithubError."""
    written = {step.workspace / path for path in measured.files}
    paths = written | {path.parent for path in written} - {step.workspace}
    files.give_to_owner_of(step.workspace, (path for path in sorted(paths) if path.exists()))


def upload(step: Step, given: Publishing, measured: Measured) -> artifact.Artifact:
    """Upload the report as an artifact of the run. Raises: GithubError."""
    folder = step.workspace / measured.folder
    # Whatever else lies in the folder is not the report's.
    only = {Path(os.path.relpath(path, measured.folder)).as_posix() for path in measured.files}
    is_zip = given.artifact_archive
    name = artifact.artifact_name(
        given.artifact_name,
        job=step.environ.get("GITHUB_JOB", ""),
        leg=given.leg,
        key=given.comment_key,
        attempt=step.environ.get("GITHUB_RUN_ATTEMPT", ""),
        suffix="" if is_zip else ".html",
    )
    uploaded = artifact.upload_artifact(
        step.client,
        step.runtime(),
        name,
        artifact.zip_folder(folder, only) if is_zip else (folder / outputs.REPORT).read_bytes(),
        mime_type=artifact.ZIP if is_zip else "text/html",
        retention_days=given.retention_days,
    )
    step.log.line(f"artifact {uploaded.name}: {uploaded.n_bytes:,} bytes, {uploaded.digest}")
    if uploaded.warning:
        step.log.warning(uploaded.warning)
    return uploaded


def comment(step: Step, given: Publishing, result: Measured | Failed, report_url: str) -> str:
    """Write the comment; return its address, "" where there is none. Raises: GithubError."""
    payload = step.payload()
    run = event.run_of(
        step.event_name,
        payload,
        step.environ,
        checked_out=event.checked_out_commit(step.workspace, result.measured_folder(step)),
    )
    with step.api(given) as api:
        pull = event.pull_request_of(
            step.event_name, payload, api, run.commit, number=given.pull_request or None
        )
        if isinstance(pull, event.NoPullRequest):
            step.log.line(f"no comment: {pull.reason}")
            return ""
        posted = upsert_comment(
            api,
            pull,
            result.markdown(),
            comment_key(step, given),
            run,
            mode=given.comment,
            is_failure=result.is_failure,
            server_url=step.server_url,
            report_url=report_url,
        )
    step.log.line(f"comment {posted.what}: {posted.why} {posted.url}")
    if posted.why == SHARED:
        step.log.warning(
            "another use of the action in this run has the same comment, and this one replaced it\n"
            "Give each use a comment-key of its own."
        )
    return posted.url


def comment_key(step: Step, given: Publishing) -> str:
    """Return what tells the comment from those of other workflows, jobs, legs and uses."""
    if given.comment_key:
        return given.key
    names = (step.environ.get("GITHUB_WORKFLOW", ""), step.environ.get("GITHUB_JOB", ""), given.key)
    return "/".join(filter(None, names))


def _sentence(text: str) -> str:
    # An output can become a variable of another step, which has a limit.
    return formats.shorten(formats.plain(text), 2_000)
