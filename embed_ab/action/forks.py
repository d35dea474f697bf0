"""Mode publish: what a fork's own run found, commented from a workflow that may comment."""

from __future__ import annotations

from embed_ab import formats, render
from embed_ab.action import event, inputs, publish
from embed_ab.action.comment import upsert_comment
from embed_ab.action.inputs import Publishing
from embed_ab.action.step import Step, whole
from embed_ab.action.surfaces import OUTPUTS, Failed
from embed_ab.errors import EmbedAbError, InputError
from embed_ab.result import redacted

UNVERIFIED = (
    "The figures were computed by the pull request's own run, with what the pull request changed, "
    "and are not verified."
)


def publish_results(step: Step, given: Publishing) -> int:
    """Comment what another run of this repository found; return the exit code.

    Nothing of that run is trusted: neither its words nor the pull request it may name. A gate that
    failed there fails nothing here, and no status or check is set.
    """
    outputs = dict.fromkeys(OUTPUTS, "")
    try:
        with step.phase("publishing"):
            outputs |= _publish(step, given)
        code = 0
    except EmbedAbError as error:
        failed = Failed(error=error)
        step.log.error(whole(error))
        outputs |= failed.outputs
        code = failed.exit_code
    step.write_outputs(outputs)
    return code


def _publish(step: Step, given: Publishing) -> dict[str, str]:
    """Write a comment for each result; return the outputs of the first. Raises: EmbedAbError."""
    if step.event_name != "workflow_run":
        raise InputError(
            f"mode publish is for the event workflow_run, not {formats.plain(step.event_name)}",
            hint="See `Pull requests from forks` in the README.",
        )
    is_redacted = inputs.is_redacted(step.environ)
    payload = step.payload()
    run = event.triggering_run(payload)
    with step.api(given) as api:
        fetched, problems = publish.fetch_results(
            api,
            run,
            client=step.client,
            mask=step.log.mask,
            name=given.artifact_name or publish.DEFAULT_NAME,
        )
        for problem in problems if fetched else problems[1:]:
            step.log.warning(whole(problem))
        if not fetched:
            raise problems[0]
        pull = event.pull_request_of(step.event_name, payload, api, run.commit)
        if isinstance(pull, event.NoPullRequest):
            step.log.line(f"no comment: {pull.reason}")
            return {}
        outputs: dict[str, str] = {}
        for number, result in enumerate(fetched, 1):
            page = f"{step.repository_page}/actions/runs/{run.id}/artifacts/{result.artifact_id}"
            # The first run did as the fork's own settings said.
            found = redacted(result.comparison) if is_redacted else result.comparison
            markdown = render.markdown(found)
            posted = upsert_comment(
                api,
                pull,
                markdown,
                # Never the key of a comment about a measurement of our own, and no name of the
                # fork's choice: each new name would be a new comment.
                " ".join(filter(None, ("publish", given.comment_key, str(number)))),
                run,
                mode=given.comment,
                is_failure=result.comparison.outcome == "fail",
                server_url=step.server_url,
                report_url=page,
                note=UNVERIFIED,
            )
            step.log.line(f"comment {posted.what}: {posted.why} {posted.url}")
            if given.job_summary:
                step.write_summary(f"> {UNVERIFIED}\n\n{markdown}")
            outputs = outputs or {
                "outcome": result.comparison.outcome,
                "verdict": formats.plain(result.comparison.verdict),
                "comment-url": posted.url,
            }
    return outputs
