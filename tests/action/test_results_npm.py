"""The stand-in serves the official npm clients, and what we send is what they send.

`npm ci --prefix tests/action/npm` installs them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from fake_results import FakeResults, Job, Request, serving
from npm_packages import node_modules

from embed_ab.action.artifact import upload_artifact, zip_folder
from embed_ab.action.cache_service import restore, save
from embed_ab.action.results_service import Runtime, runtime_of

CLIENTS = Path(__file__).parent / "npm"

Node = Callable[..., Any]


@pytest.fixture
def fake() -> Iterator[FakeResults]:
    with serving(FakeResults()) as service:
        yield service


@pytest.fixture
def job(fake: FakeResults) -> Job:
    return fake.job()


@pytest.fixture
def node(fake: FakeResults, job: Job, tmp_path: Path) -> Node:
    """Run a verb of an official client as a job; return its result, or raise its error."""
    node_modules()

    def run(script: str, *words: str, job: Job = job) -> Any:
        ran = subprocess.run(
            ["node", "--no-deprecation", str(CLIENTS / script), *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "RUNNER_TEMP": str(tmp_path),
                "GITHUB_WORKSPACE": str(tmp_path),
                "ACTIONS_CACHE_SERVICE_V2": "1",
                **job.environ(fake.address),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        found = re.search(r"^RESULT (.*)$", ran.stdout, re.MULTILINE)
        assert found, ran.stdout + ran.stderr
        answer = json.loads(found[1])
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    return run


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "report"
    (folder / "more").mkdir(parents=True)
    (folder / "report.html").write_text("<!doctype html><p>보고서")
    (folder / "more/big.bin").write_bytes(os.urandom(9 * 1024 * 1024))  # two blocks
    return folder


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


def ours(fake: FakeResults, job: Job) -> Runtime:
    def no_sleep(seconds: float) -> None:
        raise AssertionError("nothing should be tried again")

    return runtime_of(job.environ(fake.address), mask=lambda secret: None, sleep=no_sleep)


def shape(request: Request) -> dict[str, Any]:
    """Return what must be alike in two clients' requests, without what names this upload."""
    headers = request.headers
    scheme = headers.get("authorization", "").partition(" ")[0]
    found: dict[str, Any] = {
        "call": request.call,
        "path": re.sub(r"/\d+\.bin$", "/N.bin", request.path),
        "authorization": scheme,
        "content-type": headers.get("content-type"),
        "x-ms": sorted(n for n in headers if n.startswith("x-ms") and "request-id" not in n),
        "x-ms-blob-content-type": headers.get("x-ms-blob-content-type"),
        "query": [name for name, _ in request.query],
    }
    if request.call == "PUT blocklist":
        found["list"] = [item.tag for item in ElementTree.fromstring(request.body)]
    elif request.call == "PUT block":
        found["body"] = request.body
    elif request.path.startswith("/twirp/"):
        found["fields"] = request.fields
    return found


@pytest.mark.parametrize("is_camel_case", [False, True])
def test_an_official_upload_is_downloaded_whole(
    fake: FakeResults, node: Node, report: Path, tmp_path: Path, is_camel_case: bool
) -> None:
    """Upload, list, download with digest check, delete: the stand-in refuses nothing."""
    fake.is_camel_case = is_camel_case
    files = [str(report / "report.html"), str(report / "more/big.bin")]

    uploaded = node("artifact.mjs", "upload", "r", str(report), "5", *files)
    listed = node("artifact.mjs", "list")["artifacts"]
    digest = f"sha256:{uploaded['digest']}"
    fetched = node("artifact.mjs", "download", str(uploaded["id"]), str(tmp_path / "d"), digest)
    deleted = node("artifact.mjs", "delete", "r")

    assert [(a["name"], a["id"], a["digest"]) for a in listed] == [("r", uploaded["id"], digest)]
    assert fetched["digestMismatch"] is False
    assert (tmp_path / "d/report.html").read_bytes() == (report / "report.html").read_bytes()
    assert (tmp_path / "d/more/big.bin").read_bytes() == (report / "more/big.bin").read_bytes()
    assert deleted == {"id": uploaded["id"]}
    assert fake.artifacts == []
    assert fake.refusals == []


def test_an_official_upload_of_a_taken_name_is_a_conflict(node: Node, report: Path) -> None:
    node("artifact.mjs", "upload", "r", str(report), "0", str(report / "report.html"))

    with pytest.raises(RuntimeError, match="409"):
        node("artifact.mjs", "upload", "r", str(report), "0", str(report / "report.html"))


def test_an_official_upload_to_a_full_account_fails(
    fake: FakeResults, node: Node, report: Path
) -> None:
    fake.is_full = True

    with pytest.raises(RuntimeError, match="quota"):
        node("artifact.mjs", "upload", "r", str(report), "0", str(report / "report.html"))
    assert fake.calls() == ["CreateArtifact"]


def test_the_official_client_downloads_our_zip(
    fake: FakeResults, job: Job, client: httpx.Client, node: Node, report: Path, tmp_path: Path
) -> None:
    made = upload_artifact(client, ours(fake, job), "ours", zip_folder(report))

    got = node("artifact.mjs", "download", str(made.id), str(tmp_path / "d"), made.digest)

    assert got["digestMismatch"] is False
    assert (tmp_path / "d/report.html").read_bytes() == (report / "report.html").read_bytes()
    assert (tmp_path / "d/more/big.bin").read_bytes() == (report / "more/big.bin").read_bytes()
    assert fake.refusals == []


def test_the_official_client_downloads_our_bare_file(
    fake: FakeResults, job: Job, client: httpx.Client, node: Node, tmp_path: Path
) -> None:
    made = upload_artifact(
        client, ours(fake, job), "r.html", b"<!doctype html>", mime_type="text/html"
    )

    got = node("artifact.mjs", "download", str(made.id), str(tmp_path / "d"), made.digest)

    assert got["digestMismatch"] is False
    assert (tmp_path / "d/r.html").read_bytes() == b"<!doctype html>"


def test_the_official_client_finds_our_name_taken(
    fake: FakeResults, job: Job, client: httpx.Client, node: Node, report: Path
) -> None:
    upload_artifact(client, ours(fake, job), "ours", b"PK")

    with pytest.raises(RuntimeError, match="409"):
        node("artifact.mjs", "upload", "ours", str(report), "0", str(report / "report.html"))


def test_a_bare_file_is_uploaded_with_the_same_requests(
    fake: FakeResults, client: httpx.Client, node: Node, report: Path
) -> None:
    """Field by field: name, version, type, size, hash, blocks, lists, headers, tokens."""
    page = report / "report.html"
    node("artifact.mjs", "uploadFile", str(report), str(page))
    theirs = [shape(request) for request in fake.requests]
    fake.requests.clear()
    fake.artifacts.clear()

    upload_artifact(
        client,
        ours(fake, next(iter(fake.jobs.values()))),
        "report.html",
        page.read_bytes(),
        mime_type="text/html",
    )

    assert [shape(request) for request in fake.requests] == theirs


def test_a_zip_is_uploaded_with_the_same_requests_but_for_the_version(
    fake: FakeResults, job: Job, client: httpx.Client, node: Node, report: Path
) -> None:
    """Theirs say version 7 and mime_type; ours version 4, which older servers take too."""
    files = [str(report / "report.html"), str(report / "more/big.bin")]
    node("artifact.mjs", "upload", "r", str(report), "5", *files)
    theirs = [shape(request) for request in fake.requests]
    fake.requests.clear()
    fake.artifacts.clear()

    upload_artifact(client, ours(fake, job), "r", zip_folder(report), retention_days=5)

    sent = [shape(request) for request in fake.requests]
    for found in (*theirs, *sent):
        found.pop("body", None)  # two zip writers
    create, finish = theirs[0]["fields"], theirs[-1]["fields"]
    assert (create.pop("version"), create.pop("mime_type")) == (7, "application/zip")
    assert sent[0]["fields"].pop("version") == 4
    assert sent[0]["fields"].pop("expires_at")[:10] == create.pop("expires_at")[:10]
    for fields in (finish, sent[-1]["fields"]):
        assert re.fullmatch(r"\d+", fields.pop("size"))
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", fields.pop("hash"))
    theirs.sort(key=lambda found: found["call"])  # their blocks race
    sent.sort(key=lambda found: found["call"])
    assert sent == theirs


def test_an_official_cache_entry_is_restored_by_a_prefix_of_its_key(
    fake: FakeResults, node: Node, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("vectors")

    number = node("cache.mjs", "save", "k-1", "kept")
    shutil.rmtree(tmp_path / "kept")
    matched = node("cache.mjs", "restore", "k-2", "kept", "other-", "k-")

    assert number == fake.entries[0].id
    assert matched == "k-1"
    assert (tmp_path / "kept/file").read_text() == "vectors"
    assert fake.refusals == []


def test_an_official_cache_key_is_written_once(
    fake: FakeResults, node: Node, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("vectors")
    node("cache.mjs", "save", "k-1", "kept")

    assert node("cache.mjs", "save", "k-1", "kept") == -1
    assert len(fake.entries) == 1


def test_an_official_cache_of_another_pull_request_is_not_seen(
    fake: FakeResults, node: Node, tmp_path: Path
) -> None:
    first, second = (
        fake.job(
            job=f"job-{number}",
            reads=(f"refs/pull/{number}/merge", "refs/heads/main"),
            writes=f"refs/pull/{number}/merge",
        )
        for number in (1, 2)
    )
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("vectors")
    node("cache.mjs", "save", "k-1", "kept", job=first)

    assert node("cache.mjs", "restore", "k-1", "kept", job=second) is None
    assert node("cache.mjs", "restore", "k-1", "kept", job=first) == "k-1"


def test_an_official_cache_write_with_a_read_only_token_is_refused(
    fake: FakeResults, node: Node, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("vectors")

    assert node("cache.mjs", "save", "k", "kept", job=fake.job(writes="")) == -1
    assert fake.calls() == ["CreateCacheEntry"]


def test_a_cache_is_kept_and_restored_with_the_same_requests_but_for_blocks(
    fake: FakeResults, job: Job, client: httpx.Client, node: Node, tmp_path: Path
) -> None:
    """Theirs put small files in one request, which another server takes and does not store."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("vectors")
    node("cache.mjs", "save", "k-1", "kept")
    node("cache.mjs", "restore", "k-1", "kept", "k-")
    theirs = [shape(request) for request in fake.requests]
    version = theirs[0]["fields"]["version"]
    size = fake.requests[2].fields["size_bytes"]
    fake.requests.clear()
    fake.entries.clear()

    runtime = ours(fake, job)
    file = tmp_path / "file"
    file.write_bytes(b"v" * int(size))
    save(client, runtime, "k-1", version, file, max_bytes=10**9)
    restore(
        client, runtime, "k-1", ["k-"], version, tmp_path / "back", max_bytes=10**9,
        check=lambda path: "",
    )  # fmt: skip

    sent = [shape(request) for request in fake.requests]
    assert [found["call"] for found in theirs] == [
        "CreateCacheEntry",
        "PUT blob",
        "FinalizeCacheEntryUpload",
        "GetCacheEntryDownloadURL",
        "GET blob",
    ]
    assert [found["call"] for found in sent] == [
        "CreateCacheEntry",
        "PUT block",
        "PUT blocklist",
        "FinalizeCacheEntryUpload",
        "GetCacheEntryDownloadURL",
        "GET blob",
    ]
    assert [f for f in sent if "PUT" not in f["call"]] == [
        f for f in theirs if "PUT" not in f["call"]
    ]
