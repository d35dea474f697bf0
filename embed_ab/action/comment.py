"""One comment on a pull request, kept up to date."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import BaseModel, Field, TypeAdapter

from embed_ab import formats
from embed_ab.action.event import PullRequest, Run
from embed_ab.action.github import Api, Number, Refused, Unanswered, read
from embed_ab.errors import GithubError
from embed_ab.render import COMMENT_BYTES

Mode = Literal["always", "changes", "failure", "off"]
What = Literal["created", "edited", "left", "off"]

DEFAULT_AUTHOR = "github-actions[bot]"
ROUNDS = 4
SHARED = "another use of the action in this run wrote it"
_MAX_DELETED = 2
_GONE = (404, 410)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The hidden first line of a comment: whose it is and what it shows."""

    key: str
    run: int
    attempt: int
    head: str
    is_failure: bool
    shown: str
    """A digest of the text, without what changes from run to run."""

    @property
    def order(self) -> tuple[int, int]:
        """Return what a newer run has more of."""
        return self.run, self.attempt

    def __str__(self) -> str:
        failed = "yes" if self.is_failure else "no"
        return (
            f"<!-- embed-ab-action:{_encoded(self.key)} run={self.run} attempt={self.attempt} "
            f"head={self.head} failed={failed} shown={self.shown} -->"
        )

    @classmethod
    def read(cls, body: str, key: str) -> Mark | None:
        """Return the mark of a comment's text if it is there and has this key."""
        line = body[:1000].partition("\n")[0].rstrip("\r")
        start = f"<!-- embed-ab-action:{_encoded(key)} "
        if not line.startswith(start) or not line.endswith(" -->"):
            return None
        fields = dict(re.findall(r"([a-z]+)=([0-9a-z]{1,64})(?= )", line[len(start) :]))
        numbers = [
            int(fields.get(n, "")) if fields.get(n, "").isdigit() else 0 for n in ("run", "attempt")
        ]
        return cls(
            key=key,
            run=numbers[0],
            attempt=numbers[1],
            head=fields.get("head", ""),
            is_failure=fields.get("failed") == "yes",
            shown=fields.get("shown", ""),
        )


@dataclass(frozen=True, kw_only=True)
class Existing:
    """A comment of ours that is there."""

    id: int
    mark: Mark


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do about the comments that are there; `extra` are to be deleted."""

    do: Literal["create", "edit", "leave"]
    why: str
    target: int | None = None
    extra: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Posted:
    """What became of the comment; `url` is empty where there is none."""

    what: What
    why: str
    url: str


class ReadOnlyToken(GithubError):
    """The token may not comment, as in every pull request from a fork."""


def decide(existing: Sequence[Existing], ours: Mark, mode: Mode) -> Plan:
    """Return what to do, given every comment of ours with this key.

    The oldest comment is the one that stays: two runs that create at once agree on it without
    talking. A run never touches what a newer one wrote.
    """
    if not existing:
        if mode == "failure" and not ours.is_failure:
            return Plan(do="leave", why="nothing failed")
        return Plan(do="create", why="there is no comment yet")
    first = min(existing, key=lambda comment: comment.id)
    newest = max(comment.mark.order for comment in existing)
    others = sorted((c for c in existing if c is not first), key=lambda c: -c.id)
    extra = tuple(c.id for c in others if c.mark.order <= ours.order)[:_MAX_DELETED]

    def leave(why: str) -> Plan:
        return Plan(do="leave", why=why, target=first.id, extra=extra)

    if newest > ours.order:
        return leave(f"run {newest[0]}, which is newer, has written it")
    if first.mark == ours:
        return leave("it shows this run")
    if mode == "changes" and first.mark.shown == ours.shown:
        return leave("the result shown there is the same")
    if mode == "failure" and not ours.is_failure and not first.mark.is_failure:
        return leave("nothing failed")
    why = SHARED if first.mark.order == ours.order else f"it was of run {first.mark.run}"
    return Plan(do="edit", why=why, target=first.id, extra=extra)


def compose(body: str, mark: Mark, *, report_url: str, run_url: str, note: str = "") -> str:
    """Return the whole text: mark, body with the note under its heading, and the links.

    body, note: markdown that is safe already. Within GitHub's 65,536 characters whatever the body,
    as long as note and addresses together stay below 4,000 bytes.
    """
    heading, _, rest = _cut(body).partition("\n")
    parts = [heading, f"> {note}" if note else "", rest.strip()]
    links = [f"[run {mark.run}]({formats.link(run_url)})", f"commit {formats.code(mark.head[:12])}"]
    if report_url:
        links.insert(0, f"[Full report]({formats.link(report_url)})")
    text = "\n\n".join(part for part in parts if part)
    return f"{mark}\n{text}\n\n<sub>{' · '.join(links)}</sub>\n"


def upsert_comment(
    api: Api,
    pull: PullRequest,
    body: str,
    key: str,
    run: Run,
    *,
    mode: Mode,
    is_failure: bool,
    server_url: str,
    report_url: str = "",
    note: str = "",
) -> Posted:
    """Create our comment on the pull request, or edit the one made before.

    body: what `render.markdown` makes, without the report's address, which differs in every run.
    is_failure: the run ends red; for the mode `failure`.
    Raises: ReadOnlyToken, GithubError.
    """
    if mode == "off":
        return Posted(what="off", why="comments are switched off", url="")
    page = f"{server_url.rstrip('/')}/{api.repository}"
    digest = hashlib.sha256(f"{note}\n{body}".encode()).hexdigest()[:32]
    mark = Mark(
        key=key,
        run=run.id,
        attempt=run.attempt,
        head=pull.head,
        is_failure=is_failure,
        shown=digest,
    )
    text = compose(
        body,
        mark,
        report_url=report_url,
        run_url=f"{page}/actions/runs/{run.id}/attempts/{run.attempt}",
        note=note,
    )
    try:
        posted, what, why = _upsert(api, pull, text, mark, mode)
    except Refused as refusal:
        if not refusal.is_permission:
            raise
        raise _read_only(refusal, pull) from refusal
    url = f"{page}/pull/{pull.number}#issuecomment-{posted}" if posted else ""
    return Posted(what=what, why=why, url=url)


def own_login(api: Api) -> str:
    """Return whose comments are ours: the user or app that the token speaks for.

    A token of an app, and the job's own is one, may not ask for its user; GraphQL tells it.
    Raises: GithubError.
    """
    try:
        user = api.request("GET", "/user").content
        return read(_USER, user, "The user").login
    except Refused as refusal:
        if refusal.status == 401:
            raise
    for _ in range(2):
        try:
            answer = api.request("POST", api.graphql(), body={"query": "query{viewer{login}}"})
            return read(_VIEWER, answer.content, "The viewer").data.viewer.login
        except Unanswered:
            continue
        except GithubError:
            break
    return DEFAULT_AUTHOR


class _User(BaseModel):
    login: Annotated[str, Field(min_length=1, max_length=200)]


class _Viewer(BaseModel):
    class Data(BaseModel):
        viewer: _User

    data: Data


class _Comment(BaseModel):
    id: Number
    user: _User | None = None
    body: str | None = None


_USER = TypeAdapter(_User)
_VIEWER = TypeAdapter(_Viewer)
_COMMENT = TypeAdapter(_Comment)


def _upsert(
    api: Api, pull: PullRequest, text: str, mark: Mark, mode: Mode
) -> tuple[int | None, What, str]:
    """Look, decide, write, and look again after creating and after a lost reply.

    Another run may have created a comment too, or written a newer text while we waited.
    """
    author = own_login(api)
    created: int | None = None
    problem = why = ""
    for _ in range(ROUNDS):
        plan = decide(_own_comments(api, pull, mark.key, author), mark, mode)
        try:
            if plan.do == "create":
                if created is not None:  # the list does not show it yet
                    return created, "created", why
                why = plan.why
                created = _create(api, pull, text)
                continue
            if plan.do == "edit":
                api.request("PATCH", _address(api, plan.target), body={"body": text})
        except Unanswered as lost:
            problem = str(lost)
            continue
        except Refused as refusal:
            if plan.do == "create" or refusal.status not in _GONE:
                raise
            problem = f"the comment on #{pull.number} was gone before it was written"
            continue
        for comment in plan.extra:
            with suppress(GithubError):  # gone already, or the next run deletes it
                api.request("DELETE", _address(api, comment))
        if plan.do == "edit":
            return plan.target, "edited", plan.why
        if created is not None and created == plan.target:
            return created, "created", why
        return plan.target, "left", plan.why
    raise GithubError(f"{problem}, {ROUNDS} times")


def _own_comments(api: Api, pull: PullRequest, key: str, author: str) -> list[Existing]:
    """Return our comments of this key; the author counts, because anyone can paste a mark."""
    found = []
    for item in api.pages(_comments(api, pull), {}):
        comment = read(_COMMENT, item, "A comment")
        if comment.user is not None and comment.user.login == author:
            mark = Mark.read(comment.body or "", key)
            if mark is not None:
                found.append(Existing(id=comment.id, mark=mark))
    return found


def _create(api: Api, pull: PullRequest, text: str) -> int:
    answer = api.request("POST", _comments(api, pull), body={"body": text})
    return read(_COMMENT, answer.content, "A comment").id


def _comments(api: Api, pull: PullRequest) -> str:
    return api.path(f"issues/{pull.number}/comments")


def _address(api: Api, comment: int | None) -> str:
    return api.path(f"issues/comments/{comment}")


def _read_only(refusal: Refused, pull: PullRequest) -> ReadOnlyToken:
    who = "in a pull request from a fork" if pull.is_fork else "here"
    hint = refusal.hint or "The token needs issues: write or pull-requests: write."
    if pull.is_fork:
        hint += " A fork's run never gets it: see `Pull requests from forks` in the README."
    else:
        hint += (
            " Write it under `permissions:` of the job; runs that Dependabot starts never get it."
        )
    return ReadOnlyToken(f"the token may not comment {who}: {refusal}", hint=hint)


def _encoded(key: str) -> str:
    """Return the key in letters that end no HTML comment; a long one as its digest."""
    text = quote(key, safe="", errors="backslashreplace")
    return text if len(text) <= 200 else hashlib.sha256(text.encode()).hexdigest()


def _cut(body: str) -> str:
    """Return the body, cut at a line's end where it is longer than `render.markdown` makes any."""
    if len(body.encode()) <= COMMENT_BYTES:
        return body.strip()
    kept = body.encode()[:COMMENT_BYTES].decode("utf-8", "ignore").rpartition("\n")[0]
    return f"{kept.strip()}\n\n…"
