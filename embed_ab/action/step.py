"""The step of a job that the action runs in: what is around it, and how it speaks with it."""

from __future__ import annotations

import secrets
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar

import httpx

from embed_ab import __version__
from embed_ab.action import event, files, github, results_service
from embed_ab.action.comment import ReadOnlyToken
from embed_ab.action.inputs import Publishing
from embed_ab.action.log import Log
from embed_ab.errors import EmbedAbError, GithubError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Step:
    """Variables, workspace, log and services.

    seconds: how long each phase took. silent: services that gave no answer.

    clock: seconds since 1970. token: words that nobody can guess. opened: what `close` closes.
    """

    environ: Mapping[str, str]
    workspace: Path
    stdout: TextIO
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    token: Callable[[], str] = lambda: secrets.token_hex(16)
    opened: list[httpx.Client] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)

    @property
    def log(self) -> Log:
        """Return the job's log."""
        return Log(self.stdout, self.token)

    @property
    def event_name(self) -> str:
        """Return what started the workflow."""
        return self.environ.get("GITHUB_EVENT_NAME", "")

    @property
    def repository_page(self) -> str:
        """Return the repository's address for people."""
        return f"{self.server_url}/{self.environ.get('GITHUB_REPOSITORY', '')}"

    @property
    def server_url(self) -> str:
        """Return the address of GitHub, or of an enterprise's own."""
        return (self.environ.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")

    @property
    def client(self) -> httpx.Client:
        """Return the client for all but the REST interface; it carries no key.

        Raises: GithubError where the variables for proxies or certificates are of no use.
        """
        if not self.opened:
            try:
                self.opened.append(httpx.Client())
            except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
                raise github.no_client(error) from None
        return self.opened[0]

    def close(self) -> None:
        """Close what was opened."""
        while self.opened:
            self.opened.pop().close()

    def payload(self) -> Mapping[str, Any]:
        """Return the event. Raises: GithubError."""
        return event.read_payload(Path(self.environ.get("GITHUB_EVENT_PATH", "")))

    def runtime(self) -> results_service.Runtime:
        """Return what the results service needs. Raises: GithubError where there is none."""
        if self.silent:  # each try takes minutes
            raise GithubError("the results service failed before and is not asked again")
        return results_service.runtime_of(self.environ, mask=self.log.mask, sleep=self.sleep)

    @contextmanager
    def api(self, given: Publishing) -> Iterator[github.Api]:
        """Open GitHub's REST interface with the input github-token. Raises: GithubError."""
        address = self.environ.get("GITHUB_API_URL") or "https://api.github.com"
        repository = self.environ.get("GITHUB_REPOSITORY", "")
        with github.connect(address, given.github_token) as client:
            yield github.Api(client, repository, clock=self.clock, sleep=self.sleep)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note how long something takes, and fold its lines in the log."""
        started = time.perf_counter()
        try:
            with self.log.group(name):
                yield
        finally:
            self.seconds[name] = time.perf_counter() - started

    def attempt(self, what: str, act: Callable[[], T]) -> T | None:
        """Return what a surface gives; None, and an annotation, where it is not to be had."""
        try:
            return act()
        except EmbedAbError as error:
            is_permission = isinstance(error, ReadOnlyToken) or (
                isinstance(error, github.Refused) and error.is_permission
            )
            annotate = self.log.notice if is_permission else self.log.warning
            annotate(f"no {what}: {with_hint(error)}")
            if isinstance(error, results_service.ServiceError) and error.is_passing:
                self.silent.append("results service")
        except Exception as fault:
            self.log.warning(f"no {what}: {with_hint(self.bug(fault))}")
        return None

    def bug(self, fault: Exception) -> EmbedAbError:
        """Write the exception that is being handled to the log, and return it as an error."""
        with self.log.inert():
            for line in traceback.format_exc().splitlines():
                self.log.line(f"| {line}")
        return EmbedAbError(
            f"this is a bug in embed-ab {__version__}: {type(fault).__name__}",
            hint="Please report it with the lines of the log.",
        )

    def write_outputs(self, outputs: Mapping[str, str]) -> None:
        """Hand the outputs to the runner."""
        if path := self.environ.get("GITHUB_OUTPUT"):
            self.attempt("outputs", lambda: files.write_outputs(Path(path), outputs, self.token))

    def write_summary(self, markdown: str) -> None:
        """Hand the job summary to the runner. Raises: GithubError."""
        if path := self.environ.get("GITHUB_STEP_SUMMARY"):
            files.write_summary(Path(path), markdown)


def with_hint(error: EmbedAbError) -> str:
    """Return an error with what to do about it."""
    return f"{error}\n{error.hint}".strip()
