"""A model's files are looked at before anything of it is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embed_ab.errors import ProviderError
from embed_ab.providers.model_files import check_files, digest_of

TRANSFORMER = "sentence_transformers.models.Transformer"
DENSE = "sentence_transformers.models.Dense"


def model(folder: Path, modules: list[tuple[str, str]], **dense: object) -> Path:
    """A folder with these modules (type, path); `dense` is the config of one in 2_Dense."""
    described = [{"type": kind, "path": path} for kind, path in modules]
    (folder / "modules.json").write_text(json.dumps(described), "utf-8")
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "config.json").write_text(json.dumps(dense), "utf-8")
    return folder


@pytest.mark.parametrize("path", ["/", "..", "2_Dense/../..", "/proc/self"])
def test_a_module_outside_the_folder_is_refused_before_it_is_read(
    tmp_path: Path, path: str
) -> None:
    folder = model(tmp_path, [(TRANSFORMER, ""), (DENSE, path)])

    for look in (lambda: digest_of(folder, False), lambda: check(folder)):
        with pytest.raises(ProviderError, match="leads out of the model's folder"):
            look()


def test_an_activation_that_is_not_torchs_counts_as_code(tmp_path: Path) -> None:
    """sentence-transformers would put Tanh in its place with a warning: another model."""
    folder = model(
        tmp_path, [(TRANSFORMER, ""), (DENSE, "2_Dense")], activation_function="mine.Swish"
    )

    with pytest.raises(ProviderError, match=r"code of its own \(mine\.Swish\)"):
        check(folder)


def test_an_activation_of_torch_is_fine(tmp_path: Path) -> None:
    check(
        model(
            tmp_path,
            [(TRANSFORMER, ""), (DENSE, "2_Dense")],
            activation_function="torch.nn.modules.activation.Tanh",
        )
    )


def test_modules_nested_too_deeply_are_a_fault_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[" * 100_000, "utf-8")

    with pytest.raises(ProviderError, match="not a list of modules"):
        check(tmp_path)


def check(folder: Path) -> None:
    check_files("model", folder, remote_code=False, pickle=False)


def test_the_folders_of_a_router_in_the_root_count(tmp_path: Path) -> None:
    """sentence-transformers saves a router's parts beside its config, not under modules.json."""
    folder = model(tmp_path, [("sentence_transformers.models.Router", "")])
    part = folder / "document_0_StaticEmbedding"
    part.mkdir()
    types = {part.name: "sentence_transformers.models.StaticEmbedding"}
    (folder / "router_config.json").write_text(json.dumps({"types": types}), "utf-8")
    weights = part / "model.safetensors"
    weights.write_bytes(b"one")
    before = digest_of(folder, False)

    weights.write_bytes(b"two")

    assert digest_of(folder, False) != before
    weights.rename(part / "pytorch_model.bin")
    with pytest.raises(ProviderError, match="pickle"):
        check(folder)
