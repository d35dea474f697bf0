"""Mode publish: what a fork's own run found, commented from a workflow that may comment."""

from __future__ import annotations

from embed_ab import commands, formats, render
from embed_ab.action import event, inputs, untrusted
from embed_ab.action.comment import upsert_comment
from embed_ab.action.inputs import Publishing
from embed_ab.action.step import Step, with_hint
from embed_ab.action.surfaces import OUTPUTS, Failed
from embed_ab.action.untrusted import Fetched
from embed_ab.errors import EmbedAbError, InputError
from embed_ab.result import redacted

_OUTCOMES = ("pass", "inconclusive", "fail")  # the worst last
UNVERIFIED = (
    "The figures were computed by the pull request's own run, with what the pull request changed, "
    "and are not verified."
)


def publish_results(step: Step, given: Publishing) -> int:
    """Comment what another run of this repository found; return the exit code.

    Nothing of that run is trusted: neither its words nor the pull request it may name. A gate that
    failed there fails nothing here, no status or check is set, and what the run left out or left
    broken is a warning: a stranger must not make the default branch red.
    """
    outputs = dict.fromkeys(OUTPUTS, "")
    try:
        with step.phase("publishing"):
            outputs |= _publish(step, given)
        code = 0
    except EmbedAbError as error:
        failed = Failed(error=error)
        failed.annotate(step.log)
        outputs |= failed.outputs
        code = failed.exit_code
    step.write_outputs(outputs)
    return code


def _publish(step: Step, given: Publishing) -> dict[str, str]:
    """Write one comment with every result; return the outputs of the worst.

    Raises: InputError, GithubError.
    """
    if step.event_name != "workflow_run":
        raise InputError(
            f"mode publish is for the event workflow_run, not {formats.plain(step.event_name)}",
            hint="See `Pull requests from forks` in the README.",
        )
    is_redacted = inputs.is_redacted(step.environ)
    payload = step.payload()
    run = event.triggering_run(payload)
    with step.api(given) as api:
        try:
            fetched, problems = untrusted.fetch_results(
                api,
                run,
                client=step.client,
                mask=step.log.mask,
                name=given.artifact_name or untrusted.DEFAULT_NAME,
            )
        except untrusted.NoArtifact as error:
            fetched, problems = [], [error]
        for problem in problems:
            step.log.warning(with_hint(problem))
        pull = event.pull_request_of(step.event_name, payload, api, run.commit)
        if isinstance(pull, event.NoPullRequest):
            step.log.line(f"no comment: {pull.reason}")
            return {}
        page = f"{step.repository_page}/actions/runs/{run.id}"
        if fetched:
            markdown = _markdown(fetched, given, is_redacted=is_redacted)
        else:
            # What an older commit's comment says must not stand as if it were this commit's.
            text = "The run of the pull request left no result that can be shown."
            markdown = render.unfinished(text, "Its page has the reason.", given.comment_key)
        posted = upsert_comment(
            api,
            pull,
            markdown,
            # One comment for all that a run left, whatever a fork calls its artifacts.
            f"publish {given.comment_key}".strip(),
            run,
            mode=given.comment,
            is_failure=not fetched or any(map(_is_failure, fetched)),
            server_url=step.server_url,
            report_url=f"{page}/artifacts/{fetched[0].artifact_id}" if len(fetched) == 1 else page,
            note=UNVERIFIED if fetched else "",
        )
    step.log.line(f"comment {posted.what}: {posted.why} {posted.url}")
    if given.job_summary:
        note = f"> {UNVERIFIED}\n\n" if fetched else ""
        step.attempt("summary", lambda: step.write_summary(note + markdown))
    if not fetched:
        return {"outcome": "error", "comment-url": posted.url}
    worst = max(fetched, key=lambda result: _OUTCOMES.index(result.comparison.outcome)).comparison
    return {
        "outcome": worst.outcome,
        "verdict": formats.plain(worst.verdict),
        "comment-url": posted.url,
    }


def _markdown(fetched: list[Fetched], given: Publishing, *, is_redacted: bool) -> str:
    """Return the text for all results, each with its share of the room."""
    return "\n".join(
        render.markdown(
            # The first run did as the fork's own settings said.
            redacted(result.comparison) if is_redacted else result.comparison,
            name=given.comment_key if len(fetched) == 1 else result.key,
            max_bytes=render.COMMENT_BYTES // len(fetched) - 1,
        )
        for result in fetched
    )


def _is_failure(result: Fetched) -> bool:
    on_inconclusive = str(result.comparison.settings.get("on-inconclusive", "pass"))
    return commands.exit_code(result.comparison.outcome, on_inconclusive) != 0
