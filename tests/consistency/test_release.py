"""The parts of the release workflow that are git: what may be released, and the tags it makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from embed_ab import __version__

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".github/release"
MAJOR = f"v{__version__.partition('.')[0]}"
IMAGE = f"ghcr.io/octo-org/embed-ab-action:{__version__}"


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@localhost")
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = folder / ".github/release"
    return subprocess.run([str(script), *words], capture_output=True, text=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository that holds this version's files; its origin lies beside it."""
    folder = tmp_path / "clone"
    (folder / ".github").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / ".github")
    shutil.copy(ROOT / "action.yml", folder)
    (folder / "embed_ab").mkdir()
    shutil.copy(ROOT / "embed_ab/__init__.py", folder / "embed_ab")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__} - 2026-01-31\n")
    git(tmp_path, "init", "--quiet", "--bare", "origin")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "All")
    git(folder, "remote", "add", "origin", str(tmp_path / "origin"))
    git(folder, "push", "--quiet", "origin", "main")
    return folder


def test_the_tag_runs_the_image_of_its_version(clone: Path) -> None:
    assert release(clone, "tag", __version__, IMAGE).returncode == 0

    origin = clone.parent / "origin"
    changed = git(origin, "diff", "--unified=0", "main", f"v{__version__}").splitlines()[4:]
    assert changed[1:] == ["-  image: Dockerfile", f"+  image: docker://{IMAGE}"]


def test_the_major_tag_moves_to_the_release(clone: Path) -> None:
    git(clone, "push", "--quiet", "origin", f"main:refs/tags/{MAJOR}")

    assert release(clone, "tag", __version__, IMAGE).returncode == 0

    origin = clone.parent / "origin"
    tagged = [git(origin, "rev-parse", tag) for tag in (MAJOR, f"v{__version__}")]
    assert tagged[0] == tagged[1] != git(origin, "rev-parse", "main")


def test_a_mend_of_an_older_version_does_not_take_the_major_tag_back(clone: Path) -> None:
    newer = f"v{__version__.partition('.')[0]}.999.0"
    git(clone, "tag", newer)
    git(clone, "push", "--quiet", "origin", f"main:refs/tags/{MAJOR}", newer)

    assert release(clone, "tag", __version__, IMAGE).returncode == 0

    origin = clone.parent / "origin"
    assert git(origin, "rev-parse", MAJOR) == git(origin, "rev-parse", "main")
    assert git(origin, "rev-parse", f"v{__version__}") != git(origin, "rev-parse", "main")


def test_the_branch_stays_where_it_was(clone: Path) -> None:
    before = git(clone.parent / "origin", "rev-parse", "main")

    release(clone, "tag", __version__, IMAGE)

    assert git(clone.parent / "origin", "rev-parse", "main") == before


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("9.9.9", "has another version than 9.9.9"),
        ("1.0", "'1.0' is not like 1.2.3"),
        ("v1.0.0", "'v1.0.0' is not like 1.2.3"),
        ("1.0.0; id", "'1.0.0; id' is not like 1.2.3"),
        ("", "'' is not like 1.2.3"),
    ],
)
def test_another_version_is_refused(clone: Path, version: str, reason: str) -> None:
    refused = release(clone, "check", version)

    assert refused.returncode == 1
    assert reason in refused.stderr


def test_a_version_without_its_changes_is_refused(clone: Path) -> None:
    (clone / "CHANGELOG.md").write_text(f"## Unreleased\n\n## {__version__}1\n")

    assert f"CHANGELOG.md has no {__version__}" in release(clone, "check", __version__).stderr


def test_a_version_is_released_once(clone: Path) -> None:
    release(clone, "tag", __version__, IMAGE)
    git(clone, "fetch", "--quiet", "--tags", "--force")

    refused = release(clone, "tag", __version__, IMAGE)

    assert refused.returncode == 1
    assert "is there already" in refused.stderr


def test_a_release_that_another_run_made_meanwhile_stays(clone: Path) -> None:
    """This clone does not know the tag yet; the push is refused whole."""
    origin = clone.parent / "origin"
    git(clone, "push", "--quiet", "origin", f"main:refs/tags/v{__version__}")
    before = git(origin, "for-each-ref")

    assert release(clone, "tag", __version__, IMAGE).returncode != 0
    assert git(origin, "for-each-ref") == before
