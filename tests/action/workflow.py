"""A job with the action in it: workspace, event, variables, and the services it speaks with."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_github import NOW, REPOSITORY, FakeGithub, Waits
from fake_results import FakeResults

from embed_ab.action import main
from embed_ab.action.step import Step
from embed_ab.commands import demo_folder

HEAD = "a" * 40
PASSES = {"eval_path": "eval", "model_a": "mock:word", "model_b": "bm25:word"}
FAILS = {**PASSES, "model_a": "bm25:word", "model_b": "mock:word", "gate": "ndcg@10:0.02"}


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What the runner sees of a step."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str

    def annotations(self, level: str) -> list[str]:
        """Messages that are not about the comparison's own cautions."""
        return re.findall(rf"^::{level} title=embed-ab(?:,[^:]*)?::(.*)$", self.log, re.M)


@dataclass(kw_only=True)
class Workflow:
    """A repository whose pull request 7 runs the action; each `run` is a run of the workflow."""

    folder: Path
    github: FakeGithub
    results: FakeResults
    address: str
    event: str = "pull_request"
    number: int = 7
    payload: dict[str, Any] | None = None
    run_id: int = 100
    attempt: int = 1
    environ: dict[str, str] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)
    n_steps: int = 0

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def vectors(self) -> Path:
        """The store of vectors of the container, which ends with the job."""
        return self.folder / "embed-ab-cache"  # where every test has its cache

    def __post_init__(self) -> None:
        shutil.copytree(demo_folder("en"), self.workspace / "eval")

    def run(self, *, is_same_run: bool = False, **inputs: str) -> Ran:
        """Run the action with inputs (`_` for `-`) in a fresh container, by default in a run."""
        self.run_id += not is_same_run
        shutil.rmtree(self.vectors, ignore_errors=True)
        self.n_steps += 1
        runner = self.folder / f"step-{self.n_steps}"
        runner.mkdir()
        job = self.results.job(run=f"run-{self.run_id}")
        head = {"sha": HEAD, "repo": {"id": 1, "full_name": REPOSITORY}}
        payload = self.payload or {"pull_request": {"number": self.number, "head": head}}
        (runner / "event.json").write_text(json.dumps(payload))
        given = {"github-token": self.github.token, "resamples": "200"} | {
            name.replace("_", "-"): value for name, value in inputs.items()
        }
        environ = (
            job.environ(self.results.address)
            | {
                "GITHUB_ACTIONS": "true",
                "GITHUB_API_URL": self.address,
                "GITHUB_SERVER_URL": "https://github.com",
                "GITHUB_REPOSITORY": REPOSITORY,
                "GITHUB_EVENT_NAME": self.event,
                "GITHUB_EVENT_PATH": str(runner / "event.json"),
                "GITHUB_OUTPUT": str(runner / "output"),
                "GITHUB_STEP_SUMMARY": str(runner / "summary"),
                "GITHUB_RUN_ID": str(self.run_id),
                "GITHUB_RUN_ATTEMPT": str(self.attempt),
                "GITHUB_SHA": "b" * 40,
                "GITHUB_JOB": "quality",
                "EMBED_AB_CACHE_DIR": str(self.vectors),
            }
            | {f"INPUT_{name.upper()}": value for name, value in given.items()}
            | self.environ
        )
        log = io.StringIO()
        step = Step(
            environ={name: value for name, value in environ.items() if value},
            workspace=self.workspace,
            stdout=log,
            clock=lambda: NOW,
            sleep=self.waits,
        )
        code = main.run(step)
        output, summary = runner / "output", runner / "summary"
        return Ran(
            code=code,
            log=log.getvalue(),
            outputs=parsed(output.read_text("utf-8")) if output.exists() else {},
            summary=summary.read_text("utf-8") if summary.exists() else "",
        )


def parsed(text: str) -> dict[str, str]:
    """The outputs of a file, as the runner reads it."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, end = line.split("<<", 1)
        value = []
        while (inner := next(lines)) != end:
            value.append(inner)
        found[name] = "\n".join(value)
    return found
