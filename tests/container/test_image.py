"""What the image holds, what it weighs, and what it does for a person with docker."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from docker_engine import ROOT, Run, docker, inside

pytestmark = pytest.mark.container

STRANGER = "12345:12345"  # a user that the image does not know
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
SITE_PACKAGES = "/opt/embed-ab/lib/python3.11/site-packages"


def layers(tag: str) -> int:
    """Bytes of an image's layers, unpacked."""
    history = docker("history", "--human=false", "--format", "{{.Size}}", tag)
    assert history.returncode == 0, history.stderr
    return sum(int(size) for size in history.stdout.split())


@pytest.fixture
def base() -> str:
    """The base image, which BuildKit uses without keeping it by name."""
    name = DOCKERFILE.partition("ARG PYTHON_IMAGE=")[2].split()[0]
    if docker("image", "inspect", name).returncode != 0:
        docker("pull", "--quiet", name)
    return name


def test_the_slim_image_adds_less_than_150_mb_to_its_base(slim: str, base: str) -> None:
    assert 0 < layers(slim) - layers(base) < 150e6


def test_the_full_image_adds_less_than_1150_mb_to_its_base(full: str, base: str) -> None:
    assert 0 < layers(full) - layers(base) < 1_150e6


def test_the_default_target_is_the_full_image() -> None:
    assert re.findall(r"^FROM .* AS (\S+)$", DOCKERFILE, re.M)[-1] == "full"


@pytest.mark.parametrize(
    "words",
    [
        ("-type", "d", "-name", "test*", "-path", "*/torch/test*"),
        ("-type", "d", "-name", "tests"),
        ("-type", "d", "-path", "*/torch/include"),
        ("-type", "f", "-path", "*/torch/bin/*", "!", "-name", "torch_shm_manager"),
        ("-iname", "nvidia*", "-maxdepth", "1"),
    ],
    ids=["torch's tests", "tests", "headers", "torch's tools", "CUDA"],
)
def test_what_no_comparison_needs_is_left_out(full: str, words: tuple[str, ...]) -> None:
    found = inside(full, "find", SITE_PACKAGES, *words).split()

    assert [path for path in found if "/torch/testing" not in path] == []


def test_no_compiler_cache_or_leftover_of_the_build_is_inside(image: str) -> None:
    script = "ls -d /root/.cache /requirements /source /wheels /package; command -v cc gcc g++"

    assert inside(image, "sh", "-c", f"({script}) 2>/dev/null; true") == ""


def test_every_module_has_its_bytecode(image: str) -> None:
    script = r"""
import pathlib, sys
from importlib.util import cache_from_source
for path in pathlib.Path(sys.prefix, "lib").rglob("*.py"):
    if not pathlib.Path(cache_from_source(path)).exists() and "torch/testing" not in str(path):
        print(path)
"""
    assert inside(image, "/opt/embed-ab/bin/python", "-I", "-c", script) == ""


def test_the_packages_fit_together(image: str) -> None:
    """As pip of the base image sees it: nothing missing, no version out of range."""
    said = inside(image, "pip", "--python", "/opt/embed-ab/bin/python", "check")

    assert said == "No broken requirements found.\n"


def test_torch_is_the_cpu_build(full: str) -> None:
    script = "from importlib.metadata import version; print(version('torch'))"

    assert inside(full, "/opt/embed-ab/bin/python", "-I", "-c", script).endswith("+cpu\n")


def test_the_image_says_what_it_is(image: str) -> None:
    label = '{{index .Config.Labels "org.opencontainers.image.title"}}'

    assert docker("image", "inspect", "--format", label, image).stdout == "embed-ab-action\n"


def test_the_demo_needs_nothing_but_the_image(image: str) -> None:
    finished = docker("run", "--rm", "--network", "none", image, "demo")

    assert finished.returncode == 0
    assert "ndcg@10 B - A = " in finished.stdout.splitlines()[0]


def test_the_demo_runs_for_a_user_that_the_image_does_not_know(image: str) -> None:
    finished = docker("run", "--rm", "--user", STRANGER, image, "demo", "--quiet")

    assert (finished.returncode, finished.stderr) == (0, "")


def test_files_go_to_the_mounted_folder(slim: str, run: Run, evalset: str, tmp_path: Path) -> None:
    words = ("compare", evalset, "-a", "mock:char3", "-b", "bm25:word", "--out", "report")

    finished = run(slim, *words)

    assert finished.returncode == 0, finished.stderr
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {"report.html", "result.json", "comment.md"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ("compare", "eval", "-a", "bm25:word", "-b", "bm25:word")),
        (1, ("compare", "eval", "-a", "bm25:word", "-b", "mock:char3", "--gate", "ndcg@10:0.02")),
        (2, ("compare", "nowhere", "-a", "bm25:word", "-b", "mock:char3")),
        (3, ("compare", "eval", "-a", "bm25:word", "-b", "st:owner/name")),
    ],
    ids=["pass", "failed gate", "wrong input", "no such package"],
)
def test_exit_codes_reach_the_caller(
    slim: str, run: Run, evalset: str, code: int, words: tuple[str, ...]
) -> None:
    assert run(slim, *words, "--quiet").returncode == code


def test_vectors_survive_another_home(slim: str, run: Run, evalset: str, tmp_path: Path) -> None:
    """As the runner has it: HOME is a mounted folder, which must not hide the cache."""
    (tmp_path / "cache").mkdir()
    cache = f"{tmp_path / 'cache'}:/var/cache/embed-ab"
    options = ("--env", "HOME=/github/home", "--volume", cache)
    words = ("compare", evalset, "-a", "mock:char3", "-b", "mock:word", "--json", "result.json")

    for _ in range(2):
        assert run(slim, *words, options=options).returncode == 0

    measured = json.loads((tmp_path / "result.json").read_text("utf-8"))["measured"]
    assert measured["texts_embedded"] == {"A": 0, "B": 0, "BM25": 0}


def test_the_workspace_cannot_slip_a_module_in(slim: str, run: Run, tmp_path: Path) -> None:
    for name in ("json.py", "embed_ab.py", "sitecustomize.py"):
        (tmp_path / name).write_text("raise SystemExit(99)")

    finished = run(slim, "--version", options=("--env", "PYTHONPATH=/github/workspace"))

    assert finished.returncode == 0
    assert re.fullmatch(r"embed-ab [\d.]+\n", finished.stdout)


@pytest.mark.parametrize("user", ["0:0", STRANGER], ids=["root", "a stranger"])
def test_a_real_model_beats_bm25_without_a_network(full: str, minilm: Path, user: str) -> None:
    """all-MiniLM on the English demo collection: a known result, 0.857 against 0.655."""
    finished = docker(
        *("run", "--rm", "--network", "none", "--user", user, "--env", "HOME=/github/home"),
        *("--volume", f"{minilm}:/models/minilm:ro"),
        *("--volume", f"{ROOT / 'embed_ab/demo/en'}:/github/workspace/eval:ro"),
        *(full, "compare", "eval", "-a", "bm25:word", "-b", "st:/models/minilm", "--quiet"),
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("B is better than A: ndcg@10 B - A = +0.202")
