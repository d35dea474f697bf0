"""Seconds that the action costs beside the comparison: the container as the runner starts it.

usage: python bench/action_overhead.py IMAGE [RUNS]

The demo collection, a mock model and BM25, with the stand-ins of the results service and of GitHub
on loopback. The first run fills the cache and is not counted. Needs docker, on the host's network.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/action"))

from fake_github import REPOSITORY, FakeGithub, serve  # noqa: E402
from fake_results import FakeResults, serving  # noqa: E402

HEAD = "a" * 40
COMPARISON = "::group::comparison"


def run(image: str, folder: Path, environ: dict[str, str]) -> tuple[float, float, float, str]:
    """Return the seconds to the comparison, of it, and after it, and what the action says of it."""
    mounts = ("--volume", f"{folder / 'workspace'}:/github/workspace", "--volume", f"{folder}:/job")
    names = [word for name in environ for word in ("--env", name)]
    command = ["docker", "run", "--rm", "--network", "host", *mounts, *names, image]
    moments = [time.perf_counter()]
    said = ""
    with subprocess.Popen(
        command, env=os.environ | environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            is_start = len(moments) == 1 and line.startswith(COMPARISON)
            is_end = len(moments) == 2 and line.startswith("::endgroup::")
            if is_start or is_end:
                moments.append(time.perf_counter())
            if line.startswith("times: "):
                said = line.strip()
    moments.append(time.perf_counter())
    if process.returncode or len(moments) != 4:
        raise SystemExit(f"the action ended with {process.returncode}")
    start, begun, compared, end = moments
    return begun - start, compared - begun, end - compared, said


def main() -> None:
    image = sys.argv[1]
    n_runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    github, results = FakeGithub(), FakeResults()
    github.add_pull(sha=HEAD)
    measured = []
    with (
        tempfile.TemporaryDirectory() as name,
        serve(github) as address,
        serving(results),
    ):
        folder = Path(name)
        shutil.copytree(ROOT / "embed_ab/demo/en", folder / "workspace/eval")
        head = {"sha": HEAD, "repo": {"id": 1, "full_name": REPOSITORY}}
        event = {"pull_request": {"number": 7, "head": head}}
        (folder / "event.json").write_text(json.dumps(event))
        for number in range(n_runs + 1):
            inputs = {
                "EVAL-PATH": "eval",
                "MODEL-A": "mock:char3",
                "MODEL-B": "bm25:word",
                "GITHUB-TOKEN": github.token,
            }
            environ = results.job(run=f"run-{number}").environ(results.address)
            environ |= {f"INPUT_{key}": value for key, value in inputs.items()}
            environ |= {
                "GITHUB_ACTIONS": "true",
                "GITHUB_API_URL": address,
                "GITHUB_EVENT_NAME": "pull_request",
                "GITHUB_EVENT_PATH": "/job/event.json",
                "GITHUB_JOB": "bench",
                "GITHUB_OUTPUT": "/job/output",
                "GITHUB_REPOSITORY": REPOSITORY,
                "GITHUB_RUN_ATTEMPT": "1",
                "GITHUB_RUN_ID": str(100 + number),
                "GITHUB_STEP_SUMMARY": "/job/summary",
                "GITHUB_WORKSPACE": "/github/workspace",
                "HOME": "/github/home",
            }
            *seconds, said = run(image, folder, environ)
            print(f"run {number}: {said}")
            measured.append(seconds)
    for row, what in enumerate(("docker run to comparison", "comparison", "after it, to the end")):
        values = [seconds[row] for seconds in measured[1:]]
        print(f"{what:25} median {statistics.median(values):.2f} s, greatest {max(values):.2f} s")
    print(f"{len(github.comments)} comment, {len(results.artifacts)} artifacts, "
          f"{len(results.entries)} cache entries, refused: {results.refusals}")  # fmt: skip


if __name__ == "__main__":
    main()
