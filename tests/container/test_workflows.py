"""Whole workflows, run by act on a real docker engine, with stand-ins for GitHub's services."""

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile

import jsonschema
import pytest
from docker_engine import ROOT, need_engine
from fake_github import REPOSITORY, FakeGithub, serve
from fake_results import FakeResults, serving

pytestmark = pytest.mark.container

RUN_WORKFLOW = ROOT.parent / "shared/harness/run-workflow"
T = TypeVar("T")
HEAD = "a" * 40
FORK_HEAD = "b" * 40
COMMENTED = """\
on: pull_request
jobs:
  compare:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v7
      - uses: ./
        with:
          eval-path: embed_ab/demo/en
          model-a: mock:char3
          model-b: bm25:word
"""
CHECKOUT = "      - uses: actions/checkout@v7\n"


def published() -> str:
    """What `embed-ab init --forks` writes, with this checkout as the action."""
    text = (ROOT / "embed_ab/templates/starter/comment-workflow.yml").read_text("utf-8")
    assert text.count("[[ uses ]][[ note ]]") == 1
    return text.replace("[[ uses ]][[ note ]]", "./").replace("steps:\n", f"steps:\n{CHECKOUT}")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A workflow that ended, and what its steps left behind."""

    code: int
    log: str
    artifacts: dict[str, bytes]
    comments: list[str]


def pull_request(number: int, head: str, repository: str = REPOSITORY) -> dict[str, Any]:
    """The event of a pull request, with what act and the action read."""
    base = {"ref": "main", "sha": "c" * 40, "repo": {"id": 1, "full_name": REPOSITORY}}
    forked = {"id": 2, "full_name": repository}
    repo = base["repo"] if repository == REPOSITORY else forked
    pull = {"number": number, "base": base, "head": {"ref": "topic", "sha": head, "repo": repo}}
    return {
        "action": "synchronize",
        "number": number,
        "pull_request": pull,
        "repository": {"full_name": REPOSITORY, "default_branch": "main"},
    }


def end_of_a_fork_s_run(run: int) -> dict[str, Any]:
    """The event workflow_run after a run in a fork's pull request, which it does not name."""
    return {
        "action": "completed",
        "repository": {"full_name": REPOSITORY, "default_branch": "main"},
        "workflow_run": {
            "id": run,
            "run_attempt": 1,
            "head_sha": FORK_HEAD,
            "head_branch": "topic",
            "event": "pull_request",
            "conclusion": "success",
            "head_repository": {
                "id": 2,
                "full_name": "stranger/octo-repo",
                "owner": {"login": "stranger"},
            },
            "pull_requests": [],
        },
    }


class NotTidiedUp(Exception):
    """act ended before its containers did, which happens; the jobs themselves were done."""


def once_more(run: Callable[[Path], T], folder: Path) -> T:
    """Return what a run gives, from new stand-ins, and again where act did not tidy up."""
    try:
        return run(folder / "first")
    except NotTidiedUp:
        return run(folder / "second")


def act(
    out: Path, workflow: str, event: str, payload: dict[str, Any], *options: str
) -> tuple[int, str]:
    """Run a workflow on this checkout; return the exit code and the log."""
    if not RUN_WORKFLOW.exists():
        pytest.skip("the harness that runs workflows with act does not lie beside this checkout")
    need_engine()
    out.mkdir(parents=True)
    files = out / "workflow.yml", out / "event.json"
    for file, text in zip(files, (workflow, json.dumps(payload)), strict=True):
        file.write_text(text)
    where = ("--out", out, "--repo", ROOT, "--repository", REPOSITORY)
    command = [RUN_WORKFLOW, *where, *options, files[0], event, files[1]]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if ran.returncode and "volume is in use" in ran.stdout:
        raise NotTidiedUp
    return ran.returncode, ran.stdout + ran.stderr


def run_self_test(folder: Path) -> Ran:
    github = FakeGithub(token="fake-github-token")
    github.add_pull(7, sha=HEAD)
    workflow = (ROOT / ".github/workflows/self-test.yml").read_text("utf-8")
    event = ("pull_request", pull_request(7, HEAD))
    with serve(github) as address:
        code, log = act(folder, workflow, *event, "--api-url", address)
    found = {path.stem: path.read_bytes() for path in (folder / "artifacts").rglob("*.zip")}
    return Ran(code=code, log=log, artifacts=found, comments=github.bodies())


def run_four_times(folder: Path) -> list[Ran]:
    github = FakeGithub(token="fake-github-token")
    github.add_pull(7, sha=HEAD)
    github.add_pull(8, sha=FORK_HEAD, owner="stranger", repository_id=2)
    results = FakeResults()
    ran: list[Ran] = []
    with serve(github) as api, serving(results):
        for run, workflow, event, payload in [
            (101, COMMENTED, "pull_request", pull_request(7, HEAD)),
            (102, COMMENTED, "pull_request", pull_request(7, HEAD)),
            (103, COMMENTED, "pull_request", pull_request(8, FORK_HEAD, "stranger/octo-repo")),
            (104, published(), "workflow_run", end_of_a_fork_s_run(103)),
        ]:
            github.is_read_only = run == 103
            before = len(results.artifacts)
            services = ("--api-url", api, "--results-url", f"{results.address}/")
            job = ("--runtime-token", results.job(run=f"{run}").token, "--run-id", f"{run}")
            code, log = act(folder / f"{run}", workflow, event, payload, *services, *job)
            assert results.refusals == []
            made = {a.name: a.content for a in results.artifacts[before:]}
            for name, content in made.items():
                github.add_artifact(
                    content, name, run=run, sha=payload["pull_request"]["head"]["sha"]
                )
            ran.append(Ran(code=code, log=log, artifacts=made, comments=github.bodies()))
    return ran


@pytest.fixture(scope="module")
def self_test(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Our own workflow in a pull request, with the artifact service that act brings along."""
    return once_more(run_self_test, tmp_path_factory.mktemp("self-test"))


@pytest.fixture(scope="module")
def commented(tmp_path_factory: pytest.TempPathFactory) -> list[Ran]:
    """Two runs in a pull request, one in a fork's and the one that publishes its result.

    The services are strict; the token of the fork's run may not write.
    """
    return once_more(run_four_times, tmp_path_factory.mktemp("commented"))


def test_the_self_test_passes(self_test: Ran) -> None:
    """Its last step looks at the outputs of the three uses."""
    assert self_test.code == 0, self_test.log[-5000:]


def test_each_comparison_uploads_its_report_and_wrong_input_none(self_test: Ran) -> None:
    names = {name.rpartition("-")[2] for name in self_test.artifacts}

    assert names == {"passes", "fails"}


@pytest.mark.parametrize(("key", "outcome"), [("passes", "pass"), ("fails", "fail")])
def test_an_artifact_holds_report_result_and_comment(
    self_test: Ran, key: str, outcome: str
) -> None:
    name = next(name for name in self_test.artifacts if name.endswith(key))
    schema = json.loads((ROOT / "embed_ab/result.schema.json").read_text("utf-8"))

    with ZipFile(io.BytesIO(self_test.artifacts[name])) as archive:
        assert archive.testzip() is None
        files = {item: archive.read(item).decode() for item in archive.namelist()}

    assert set(files) == {"report.html", "result.json", "comment.md"}
    assert files["report.html"].lower().startswith("<!doctype html")
    result = json.loads(files["result.json"])
    jsonschema.validate(result, schema)
    assert result["outcome"] == outcome
    assert files["comment.md"].startswith("## ")


def test_each_use_has_a_comment_of_its_own(self_test: Ran) -> None:
    keys = [re.match(r"<!-- embed-ab-action:(\S+) ", body) for body in self_test.comments]

    assert [found and found[1] for found in keys] == ["passes", "fails", "wrong"]


def test_the_first_run_creates_one_comment_with_mark_and_verdict(commented: list[Ran]) -> None:
    first = commented[0]
    assert first.code == 0, first.log[-5000:]

    (body,) = first.comments

    assert re.match(rf"<!-- embed-ab-action:\S* run=101 attempt=1 head={HEAD} ", body)
    assert "B is better than A: `ndcg@10`" in body


def test_a_later_run_edits_that_comment(commented: list[Ran]) -> None:
    second = commented[1]
    assert second.code == 0, second.log[-5000:]

    (body,) = second.comments

    assert re.match(rf"<!-- embed-ab-action:\S* run=102 attempt=1 head={HEAD} ", body)


def test_a_later_run_embeds_nothing_again(commented: list[Ran]) -> None:
    """The strict service keeps the vectors of the first run."""
    counts = []
    for ran in commented[:2]:
        (content,) = ran.artifacts.values()
        with ZipFile(io.BytesIO(content)) as archive:
            counts.append(json.loads(archive.read("result.json"))["measured"]["texts_embedded"])

    assert [count["A"] > 0 for count in counts] == [True, False]


def test_a_fork_gets_its_artifact_but_no_comment_and_passes(commented: list[Ran]) -> None:
    second, fork = commented[1:3]

    assert fork.code == 0, fork.log[-5000:]
    assert len(fork.artifacts) == 1
    assert fork.comments == second.comments


def test_a_fork_is_told_why_there_is_no_comment(commented: list[Ran]) -> None:
    notices = [line for line in commented[2].log.splitlines() if "::notice" in line]

    assert any("no comment" in line and "from a fork" in line for line in notices)


def test_a_second_workflow_comments_the_fork_s_result(commented: list[Ran]) -> None:
    fork, published = commented[2:]
    assert published.code == 0, published.log[-5000:]

    *others, body = published.comments

    assert others == fork.comments
    assert re.match(rf"<!-- embed-ab-action:\S* run=103 attempt=1 head={FORK_HEAD} ", body)
    assert "B is better than A: `ndcg@10`" in body
    assert "are not verified" in body
