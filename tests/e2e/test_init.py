"""`embed-ab init` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from embed_ab.cli import main

MOCKS = ["-a", "mock:char3", "-b", "mock:word"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_after_init_compare_needs_no_argument(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--export", "eval"]) == 0
    assert main(["init", *MOCKS]) == 0
    assert main(["check"]) == 0
    capsys.readouterr()

    assert main(["compare"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert {"A: mock:char3", "B: mock:word"} < set(lines)
    assert any(line.startswith("gate ndcg@10: ") for line in lines)


def test_init_says_what_it_wrote_and_what_to_do_next(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init"]) == 0

    assert capsys.readouterr().out == (
        ".embed-ab.yml\n"
        ".github/workflows/embed-ab.yml\n"
        "\n"
        "Next:\n"
        "1. Put your evaluation set into eval; "
        "`embed-ab demo --export eval` writes one to look at.\n"
        "2. Validate the evaluation set: `embed-ab check eval`.\n"
        "3. Replace OWNER in .github/workflows with the account that publishes the action.\n"
        "4. Commit .embed-ab.yml, .github and eval, and open a pull request.\n"
    )


def test_the_files_can_go_to_another_folder(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--dir", "other", "--forks", "--uses", "me/embed-ab-action@v1"]) == 0

    out = capsys.readouterr().out
    assert out.splitlines()[:3] == [
        "other/.embed-ab.yml",
        "other/.github/workflows/embed-ab.yml",
        "other/.github/workflows/embed-ab-comment.yml",
    ]
    assert "Next, in other:" in out
    assert "OWNER" not in out


def test_a_second_init_is_exit_2_and_changes_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["init"])
    before = (repository / ".embed-ab.yml").read_bytes()

    assert main(["init", *MOCKS]) == 2

    assert (repository / ".embed-ab.yml").read_bytes() == before
    assert ".embed-ab.yml, .github/workflows/embed-ab.yml: already there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-a", "nothing:x"], "unknown provider"),
        (["-b", "mock:nothing"], "unknown name"),
        (["--gate", "ndcg@10"], "has no margin"),
        (["--gate", "ndcg@10:0.1", "--gate", "ndcg@10:0.2"], "two gates on"),
        (["--uses", "somewhere"], "is not an action"),
        (["../eval"], "not a path inside"),
        (["a\nb"], "EVAL: Input should be text on one line"),
    ],
)
def test_a_wrong_value_is_exit_2_and_nothing_is_written(
    repository: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words]) == 2

    assert said in capsys.readouterr().err
    assert [path.name for path in repository.iterdir()] == [".git"]
