"""A module imports only from lower layers: the core never sees files, models or settings."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from tables import READMES

PACKAGE = Path(__file__).parents[2] / "embed_ab"

LAYERS: list[set[str]] = [
    {"errors"},
    {"providers.addresses"},
    {"providers.threads"},
    {"providers.http"},
    {"readers", "providers.base", "formats", "resampling", "search"},
    {"records"},
    {"judgements", "scored_rows"},
    {"evalset"},
    {"quantise", "runs", "providers.prompts", "providers.mock"},
    {"system_spec"},
    {
        "metrics",
        "overlap",
        "bm25",
        "fusion",
        "origin",
        "providers.batching",
        "providers.cache",
        "providers.model_files",
        "providers.score_file",
    },
    {"providers.served"},
    {
        "paired",
        "check",
        "providers.embed",
        "providers.http_reranker",
        "providers.model_source",
        "providers.measure",
        "providers.ollama",
        "providers.openai",
    },
    {
        "gate",
        "cautions",
        "rerank",
        "providers.cross_encoder",
        "providers.sentence_transformer",
        "providers.vectors",
    },
    {"slices"},
    {"plots"},
    {"result", "rerank_fixture", "rerankers"},
    {"labels.pool", "page"},
    {"comparison", "result_json", "render", "parity"},
    {"matrix"},
    {"registry", "retrieved", "matrix_surfaces"},
    {"systems"},
    {"parity_systems"},
    {"settings"},
    {"outputs", "starter"},
    {"llm"},
    {
        "buildset.filters",
        "buildset.html_text",
        "buildset.journal",
        "buildset.languages",
        "buildset.options",
    },
    {"buildset.documents"},
    {"buildset.chunks"},
    {"buildset.questions"},
    {"buildset.asking", "buildset.files", "buildset.queries"},
    {"buildset.build"},
    {"buildset.summary"},
    {"labels.file"},
    {"labels.judge", "labels.merge"},
    {"action.results_service"},
    {"action.artifact", "action.cache_service"},
    {"action.models"},
    {"terminal", "commands"},
    {"cli"},
    {"action.github"},
    {"action.event"},
    {"action.comment"},
    {"action.inputs", "action.log", "action.files", "action.untrusted"},
    {"action.step"},
    {"action.kept", "action.surfaces"},
    {"action.publish"},
    {"action.main"},
    {"__main__", "__init__"},
]

ALLOWED_UPWARDS = {
    # A comparison shows itself in a notebook; the import waits until it is asked to.
    ("result", "render"),
    ("comparison", "__init__"),  # the version
    ("buildset.files", "__init__"),
    ("cli", "__init__"),
    ("action.results_service", "__init__"),
    ("action.main", "__init__"),
    ("action.step", "__init__"),
    ("action.kept", "__init__"),
}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("embed_ab"):
            base = node.module.removeprefix("embed_ab").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                found.add(inner if module_path(inner).is_file() else base or "__init__")
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("embed_ab") for alias in node.names), path
    return found


def module_path(name: str) -> Path:
    return PACKAGE / (name.replace(".", "/") + ".py")


def modules() -> dict[str, Path]:
    return {
        path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" or path.parent == PACKAGE
    }


def test_every_module_has_a_layer() -> None:
    assert set(modules()) == set().union(*LAYERS)


def test_imports_point_downwards() -> None:
    layer_of = {name: number for number, names in enumerate(LAYERS) for name in names}

    upwards = {
        (name, imported)
        for name, path in modules().items()
        for imported in imports(path)
        if layer_of[imported] >= layer_of[name]
    }

    assert upwards - ALLOWED_UPWARDS == set()


def rows_of(readme: str) -> list[set[str]]:
    """The modules of each row of "How it works", from `action/main.py` and `providers/`."""
    section = readme[readme.rindex("\n| `errors.py`") :].split("\n\n")[0]
    rows = []
    for line in section.strip().splitlines():
        found, folder = set(), ""
        for name in re.findall(r"`([\w/]+?)(?:\.py)?`", line.split("|")[1]):
            folder = "action." if name.startswith("action/") else folder
            pattern = name.replace("/", ".") if "/" in name else folder + name
            pattern += "*" if pattern.endswith(".") else ""
            found |= {module for module in modules() if fnmatchcase(module, pattern)}
        rows.append(found)
    return rows


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_the_readme_names_each_module_once_and_below_what_it_imports(path: Path) -> None:
    rows = rows_of(path.read_text("utf-8"))
    named = [module for row in rows for module in sorted(row)]
    row_of = {module: number for number, row in enumerate(rows) for module in row}

    assert sorted(named) == sorted(set(modules()) - {"__init__", "__main__"})
    assert {
        (name, imported)
        for name in named
        for imported in imports(modules()[name])
        if (name, imported) not in ALLOWED_UPWARDS and row_of[imported] > row_of[name]
    } == set()
