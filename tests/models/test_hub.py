"""Hub names against a loopback server that speaks the hub's protocol."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SCRIPT = """
import json, sys
from embed_ab.errors import EmbedAbError
from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder

name, options = sys.argv[1], json.loads(sys.argv[2])
try:
    embedder = SentenceTransformerEmbedder(name, **options)
    vectors = embedder.embed(["pump", "tank"], "document").vectors
    print(json.dumps([embedder.facts().revision, vectors.astype(float).round(3).tolist()]))
except EmbedAbError as error:
    print(json.dumps([type(error).__name__, str(error), error.hint]))
"""


class Hub:
    """A model repository `owner/model` with the files of a folder; others fail as on the hub."""

    def __init__(self, folder: Path) -> None:
        self.files = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in folder.rglob("*")
            if file.is_file()
        }
        self.asked: list[str] = []

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        path = path.split("?")[0]
        for name, status, code in (
            ("owner/unknown", 404, "RepoNotFound"),
            ("owner/gated", 403, "GatedRepo"),
            ("no-such-branch", 404, "RevisionNotFound"),
        ):
            if name in path:
                return status, {"X-Error-Code": code}, b""
        if path.startswith("/api/models/owner/model/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": etag(content)}
                for name, content in self.files.items()
            ]
            return 200, {}, json.dumps(tree).encode()
        if path.startswith("/api/models/owner/model"):
            siblings = [{"rfilename": name} for name in self.files]
            about = {"id": "owner/model", "sha": COMMIT, "siblings": siblings}
            return 200, {}, json.dumps(about).encode()
        content = self.files.get(path.removeprefix(f"/owner/model/resolve/{COMMIT}/"))
        if content is None:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        return 200, {"ETag": f'"{etag(content)}"', "X-Repo-Commit": COMMIT}, content


def etag(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub(static_model: Path) -> Iterator[tuple[Hub, str]]:
    """The static model on a hub, and the hub's address."""
    (static_model / "custom.py").write_text("raise SystemExit('the code ran')")
    (static_model / "pytorch_model.bin").write_bytes(b"a pickle")
    served = Hub(static_model)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = served.answer(self.path)
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(address: str, cache: Path, name: str, **options: object) -> list[Any]:
    """What the script prints; in a process of its own, as the client reads its settings once."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environ |= {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HF_ENDPOINT": address,
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_DISABLE_XET": "1",
    }
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, json.dumps(options)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    result: list[Any] = json.loads(printed.stdout)
    return result


def test_a_model_is_fetched_without_code_and_pickles_and_then_found_offline(
    hub: tuple[Hub, str], tmp_path: Path
) -> None:
    served, address = hub
    right = [COMMIT, [[0.6, 0.8], [1.0, 0.0]]]

    assert run(address, tmp_path / "cache", "owner/model") == right
    assert not [path for path in served.asked if path.endswith((".py", ".bin"))]
    served.asked.clear()
    assert run(address, tmp_path / "cache", "owner/model", offline=True) == right
    assert served.asked == []


def test_a_model_already_fetched_needs_no_network(hub: tuple[Hub, str], tmp_path: Path) -> None:
    """Port 9 of this machine refuses every connection."""
    _, address = hub
    fetched = run(address, tmp_path / "cache", "owner/model")

    assert run("http://127.0.0.1:9", tmp_path / "cache", "owner/model") == fetched


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        ("owner/unknown", {}, "is not on the hub, or it is private", "Check the spelling"),
        ("owner/gated", {}, "is gated on the hub", "HF_TOKEN"),
        ("owner/model", {"revision": "no-such-branch"}, "has no revision", "Give a branch"),
    ],
)
def test_what_the_hub_refuses_is_a_provider_error_that_says_what_to_do(
    hub: tuple[Hub, str],
    tmp_path: Path,
    name: str,
    options: dict[str, str],
    message: str,
    hint: str,
) -> None:
    kind, said, advice = run(hub[1], tmp_path / "cache", name, **options)

    assert kind == "ProviderError"
    assert message in said
    assert hint in advice
