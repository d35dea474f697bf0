"""The files of `embed-ab init`: what they say, and what they must not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from embed_ab import starter
from embed_ab.errors import InputError
from embed_ab.settings import CONFIG_NAME, Settings, file_schema, read_config, resolve

WORKFLOW = ".github/workflows/embed-ab.yml"
COMMENT_WORKFLOW = ".github/workflows/embed-ab-comment.yml"
COMMIT = "0123456789" * 4
LOCAL = "st:모델 #1: $HOME/${{ github.token }}"


def settings(**changed: Any) -> Settings:
    return resolve(starter.DEFAULTS | changed, config=None)


def written(folder: Path, name: str, **options: Any) -> str:
    starter.write(folder, settings(), **options)
    return (folder / name).read_text("utf-8")


def files_of(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()]


def test_the_settings_file_fits_its_schema(tmp_path: Path) -> None:
    jsonschema.validate(yaml.safe_load(written(tmp_path, CONFIG_NAME)), file_schema())


@pytest.mark.parametrize(
    "eval_path",
    [
        "評価 セット/한국어",
        "a: b",
        "a #b",
        "$HOME",
        "${{ github.token }}",
        "[[ 7 * 7 ]]",
        "[% raw %]",
        "&a",
        "yes",
        "1e3",
        "2026-01-01",
        "'",
        '"',
        " eval ",
        "<<",
        "-",
    ],
)
def test_a_folder_is_read_as_it_was_given(tmp_path: Path, eval_path: str) -> None:
    starter.write(tmp_path, settings(**{"eval-path": eval_path, "model-a": LOCAL}))

    read = resolve({}, config=tmp_path / CONFIG_NAME)

    assert (read.eval_path, str(read.model_a)) == (eval_path, LOCAL)


@given(
    name=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1)
)
def test_any_name_survives_the_settings_file(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = tmp_path_factory.mktemp("repository")
    starter.write(folder, settings(**{"eval-path": f"x{name.replace('/', '')}"}))

    assert read_config(folder / CONFIG_NAME)["eval-path"] == f"x{name.replace('/', '')}"


def test_a_model_of_a_known_family_gets_its_prompts(tmp_path: Path) -> None:
    starter.write(tmp_path, settings(**{"model-a": "st:intfloat/e5-base", "model-b": "bm25:auto"}))

    prompts = {k: v for k, v in read_config(tmp_path / CONFIG_NAME).items() if "prompt" in k}

    assert prompts == {"a-query-prompt": "query: ", "a-doc-prompt": "passage: "}


def test_several_gates_are_a_list(tmp_path: Path) -> None:
    starter.write(tmp_path, settings(gate=["ndcg@10:0.02", "recall@100:0"]))

    assert read_config(tmp_path / CONFIG_NAME)["gate"] == ["ndcg@10:0.02", "recall@100:0"]


def test_a_wrong_gate_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no margin"):
        starter.write(tmp_path, settings(gate=["ndcg@10"]))

    assert files_of(tmp_path) == []


@pytest.mark.parametrize("name", [CONFIG_NAME, WORKFLOW, COMMENT_WORKFLOW])
def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")

    written = starter.write(tmp_path, settings(), forks=True)

    assert (tmp_path / name).read_text() == "mine"
    assert {str(path.relative_to(tmp_path)) for path in written} == {
        CONFIG_NAME,
        WORKFLOW,
        COMMENT_WORKFLOW,
    } - {name}


def test_the_workflow_for_forks_can_come_later(tmp_path: Path) -> None:
    starter.write(tmp_path, settings())

    assert starter.write(tmp_path, settings(), forks=True) == [tmp_path / COMMENT_WORKFLOW]


def test_with_everything_there_nothing_is_done(tmp_path: Path) -> None:
    starter.write(tmp_path, settings())

    with pytest.raises(InputError, match="already there"):
        starter.write(tmp_path, settings())


def test_a_link_to_nowhere_counts_as_a_file(tmp_path: Path) -> None:
    (tmp_path / CONFIG_NAME).symlink_to(tmp_path / "elsewhere")

    starter.write(tmp_path, settings())

    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file")

    with pytest.raises(InputError, match="Not a directory"):
        starter.write(tmp_path, settings())

    assert files_of(tmp_path) == [".github"]


@pytest.mark.parametrize("eval_path", ["/eval", "..", "a/../../b", "out/set"])
def test_an_evaluation_set_outside_the_repository_is_refused(
    tmp_path: Path, eval_path: str
) -> None:
    """A checkout would not hold it; `out` is a link to the folder above."""
    (tmp_path / "out").symlink_to(tmp_path.parent)

    with pytest.raises(InputError, match="not a path inside"):
        starter.write(tmp_path, settings(**{"eval-path": eval_path}))


@pytest.mark.parametrize("uses", ["me/embed-ab-action@v1", f"a-b/c.d_e@{COMMIT}", "a/b@x/y-1.2"])
def test_another_action_can_be_named(tmp_path: Path, uses: str) -> None:
    for name in (WORKFLOW, COMMENT_WORKFLOW):
        (tmp_path / name).unlink(missing_ok=True)
    starter.write(tmp_path, settings(), uses=uses, forks=True)

    for name in (WORKFLOW, COMMENT_WORKFLOW):
        (job,) = yaml.safe_load((tmp_path / name).read_text("utf-8"))["jobs"].values()
        assert job["steps"][-1]["uses"] == uses


@pytest.mark.parametrize(
    "uses",
    [
        "",
        "me/action",
        "action@v1",
        "me/action@",
        "./",
        "me/..@v1",
        "docker://image@v1",
        "me/action@v1\n",
        "me/action@v1 # x",
        "me/a@${{ github.ref }}",
        "나/action@v1",
    ],
)
def test_what_is_no_action_is_refused(tmp_path: Path, uses: str) -> None:
    with pytest.raises(InputError, match="is not an action"):
        starter.write(tmp_path, settings(), uses=uses)

    assert files_of(tmp_path) == []


def test_a_pinned_action_needs_no_excuse(tmp_path: Path) -> None:
    assert "zizmor" not in written(tmp_path, WORKFLOW, uses=f"me/embed-ab-action@{COMMIT}")


def test_the_workflow_fits_a_screen(tmp_path: Path) -> None:
    assert len(written(tmp_path, WORKFLOW).splitlines()) <= 15


def test_the_workflow_has_the_least_permissions(tmp_path: Path) -> None:
    workflow = yaml.safe_load(written(tmp_path, WORKFLOW))

    assert workflow["permissions"] == {}
    assert workflow["jobs"]["compare"]["permissions"] == {
        "contents": "read",
        "pull-requests": "write",
    }


def test_the_workflow_checks_out_a_pinned_commit_of_the_action_without_the_token(
    tmp_path: Path,
) -> None:
    checkout = yaml.safe_load(written(tmp_path, WORKFLOW))["jobs"]["compare"]["steps"][0]

    assert re.fullmatch("actions/checkout@[0-9a-f]{40}", checkout["uses"])
    assert checkout["with"] == {"persist-credentials": False}


def test_no_text_of_the_user_reaches_a_workflow(tmp_path: Path) -> None:
    """An expression in one would be evaluated by the runner."""
    starter.write(tmp_path, settings(**{"eval-path": "SENTINEL", "model-a": LOCAL}), forks=True)

    for name in (WORKFLOW, COMMENT_WORKFLOW):
        text = (tmp_path / name).read_text("utf-8")
        assert "SENTINEL" not in text
        assert re.findall(r"\$\{\{(.*?)\}\}", text) in ([" github.ref "], [])


def test_the_second_workflow_follows_the_first_by_its_name(tmp_path: Path) -> None:
    second = yaml.safe_load(written(tmp_path, COMMENT_WORKFLOW, forks=True))
    first = yaml.safe_load((tmp_path / WORKFLOW).read_text("utf-8"))

    # YAML 1.1 reads the key `on` as true.
    assert second[True]["workflow_run"] == {"workflows": [first["name"]], "types": ["completed"]}


def test_the_second_workflow_checks_nothing_out_and_only_publishes(tmp_path: Path) -> None:
    job = yaml.safe_load(written(tmp_path, COMMENT_WORKFLOW, forks=True))["jobs"]["comment"]

    assert job["steps"] == [{"uses": starter.USES, "with": {"mode": "publish"}}]
    assert job["permissions"] == {"actions": "read", "pull-requests": "write"}


def test_without_forks_there_is_no_second_workflow(tmp_path: Path) -> None:
    starter.write(tmp_path, settings())

    assert sorted(files_of(tmp_path)) == [CONFIG_NAME, WORKFLOW]


def test_the_steps_in_a_new_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()

    assert starter.next_steps(tmp_path, settings(**{"eval-path": "my set"})) == [
        "Put your evaluation set into 'my set'; "
        "`embed-ab demo --export 'my set'` writes one to look at.",
        "Validate the evaluation set: `embed-ab check 'my set'`.",
        "Replace OWNER in .github/workflows with the account that publishes the action.",
        "Commit .embed-ab.yml, .github and 'my set', and open a pull request.",
    ]


def test_the_steps_where_an_evaluation_set_and_an_owner_are_there(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "eval").mkdir()

    assert starter.next_steps(tmp_path, settings(), uses="me/embed-ab-action@v1") == [
        "Validate the evaluation set: `embed-ab check eval`.",
        "Commit .embed-ab.yml, .github and eval, and open a pull request.",
    ]


def test_a_folder_that_is_no_root_of_a_repository_is_said(tmp_path: Path) -> None:
    assert any("there is no .git" in step for step in starter.next_steps(tmp_path, settings()))
