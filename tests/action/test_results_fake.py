"""The stand-in for the results service refuses what the real one or its clients would not have."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fake_results import PREFIX, FakeResults, Job, serving

IDS = {"workflow_run_backend_id": "run-1", "workflow_job_run_backend_id": "job-1"}
CREATE = IDS | {"name": "report", "version": 4}
ENTRY = {"key": "k-1", "version": "v"}
HELLO = hashlib.sha256(b"hello").hexdigest()


@pytest.fixture
def fake() -> Iterator[FakeResults]:
    with serving(FakeResults()) as service:
        yield service


@pytest.fixture
def job(fake: FakeResults) -> Job:
    return fake.job()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


class Caller:
    """Sends what a test says, and no more."""

    def __init__(self, fake: FakeResults, job: Job, client: httpx.Client) -> None:
        self.fake, self.job, self.client = fake, job, client

    def call(self, method: str, fields: Any, **headers: str) -> httpx.Response:
        service = "CacheService" if "Cache" in method else "ArtifactService"
        return self.client.post(
            f"{self.fake.address}{PREFIX}{service}/{method}",
            json=fields,
            headers={"Authorization": f"Bearer {self.job.token}", **headers},
        )

    def create(self, **fields: Any) -> str:
        reply = self.call("CreateArtifact", CREATE | fields)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["signed_upload_url"])

    def block(self, url: str, name: str, content: bytes, **headers: str) -> httpx.Response:
        return self.client.put(
            f"{url}&comp=block&blockid={quote(base64.b64encode(name.encode()), safe='')}",
            content=content,
            headers={
                "Content-Type": "application/octet-stream",
                "x-ms-version": "2021-08-06",
                **headers,
            },
        )

    def list(self, url: str, *names: str, content_type: str = "application/zip") -> httpx.Response:
        items = "".join(
            f"<Latest>{base64.b64encode(name.encode()).decode()}</Latest>" for name in names
        )
        return self.client.put(
            f"{url}&comp=blocklist",
            content=f"<BlockList>{items}</BlockList>",
            headers={
                "Content-Type": "application/xml",
                "x-ms-version": "2021-08-06",
                "x-ms-blob-content-type": content_type,
            },
        )

    def finalize(self, **fields: Any) -> httpx.Response:
        sums = {"size": "5", "hash": f"sha256:{HELLO}"}
        return self.call("FinalizeArtifact", IDS | {"name": "report"} | sums | fields)


@pytest.fixture
def caller(fake: FakeResults, job: Job, client: httpx.Client) -> Caller:
    return Caller(fake, job, client)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": 1},
        {"version": "4"},
        {"version": 5},
        {"version": 4, "mime_type": "application/zip"},
        {"version": 7},
        {"version": 7, "mime_type": {"value": "text/html"}},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"expires_at": "9999-01-01T00:00:00Z"},
        {"expires_at": "2030-01-01 00:00:00"},
        {"expires_at": 5},
        {"workflow_run_backend_id": "run-2"},
        {"workflow_job_run_backend_id": ""},
        {"more": 1},
        {"mimeType": "text/html"},
    ],
)
def test_an_artifact_with_a_wrong_field_is_not_created(
    fake: FakeResults, caller: Caller, fields: dict[str, Any]
) -> None:
    assert caller.call("CreateArtifact", CREATE | fields).status_code in (400, 403)
    assert fake.artifacts == []


@pytest.mark.parametrize("name", CREATE)
def test_an_artifact_without_a_field_is_not_created(caller: Caller, name: str) -> None:
    fields = {key: value for key, value in CREATE.items() if key != name}

    assert caller.call("CreateArtifact", fields).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ""},
        {"Authorization": "Bearer x"},
        {"Authorization": "token x"},
        {"Content-Type": "text/plain"},
        {"User-Agent": ""},
    ],
)
def test_a_call_with_a_wrong_header_is_refused(caller: Caller, headers: dict[str, str]) -> None:
    assert caller.call("CreateArtifact", CREATE, **headers).status_code >= 400


def test_a_call_that_is_not_known_is_refused(caller: Caller) -> None:
    assert caller.call("Create", {}).json()["code"] == "bad_route"


def test_a_name_is_taken_from_its_creation_on(caller: Caller) -> None:
    caller.create()

    assert caller.call("CreateArtifact", CREATE).status_code == 409


def test_an_upload_is_put_together_by_its_list(fake: FakeResults, caller: Caller) -> None:
    """Not in the order in which blocks arrive."""
    url = caller.create()
    caller.block(url, "2", b"lo")
    caller.block(url, "1", b"hel")
    caller.list(url, "1", "2")

    assert caller.finalize().status_code == 200
    assert fake.artifacts[0].content == b"hello"


@pytest.mark.parametrize(
    "fields",
    [
        {"size": "6"},
        {"size": 5},
        {"size": "05"},
        {"hash": f"sha256:{'0' * 64}"},
        {"hash": HELLO},
        {"hash": {"value": f"sha256:{HELLO}"}},
        {"name": "other"},
    ],
)
def test_wrong_sums_do_not_finalize(caller: Caller, fields: dict[str, Any]) -> None:
    url = caller.create()
    caller.block(url, "1", b"hello")
    caller.list(url, "1")

    assert caller.finalize(**fields).status_code in (400, 404)


def test_blocks_without_a_list_do_not_finalize(caller: Caller) -> None:
    caller.block(caller.create(), "1", b"hello")

    assert caller.finalize().status_code == 400


@pytest.mark.parametrize("names", [("1",), ("1", "2", "3"), ()])
def test_a_list_must_name_the_blocks(caller: Caller, names: tuple[str, ...]) -> None:
    url = caller.create()
    caller.block(url, "1", b"hel")
    caller.block(url, "2", b"lo")

    assert caller.list(url, *names).status_code == 400


def test_a_list_must_have_the_artifact_s_type(caller: Caller) -> None:
    url = caller.create()
    caller.block(url, "1", b"hello")

    assert caller.list(url, "1", content_type="text/html").status_code == 400


def test_block_ids_are_of_one_length(caller: Caller) -> None:
    url = caller.create()
    caller.block(url, "1", b"hel")

    assert caller.block(url, "four", b"lo").status_code == 400


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer x"}, {"x-ms-version": ""}, {"Content-Type": "text/plain"}],
)
def test_a_block_with_a_wrong_header_is_refused(caller: Caller, headers: dict[str, str]) -> None:
    assert caller.block(caller.create(), "1", b"hello", **headers).status_code == 400


def test_an_empty_block_is_refused(caller: Caller) -> None:
    assert caller.block(caller.create(), "1", b"").status_code == 413


def test_another_signature_is_refused(caller: Caller) -> None:
    assert caller.block(caller.create().replace("sig=", "sig=x"), "1", b"hello").status_code == 403


def test_a_finalized_artifact_stays_as_it_is(fake: FakeResults, caller: Caller) -> None:
    url = caller.create()
    caller.block(url, "1", b"hello")
    caller.list(url, "1")
    caller.finalize()

    assert caller.block(url, "1", b"other").status_code == 403
    assert caller.list(url, "1").status_code == 403
    assert caller.finalize().status_code == 409
    assert fake.artifacts[0].content == b"hello"


def test_an_upload_s_signature_does_not_read(caller: Caller, client: httpx.Client) -> None:
    assert client.get(caller.create()).status_code == 403


@pytest.mark.parametrize(
    "fields",
    [
        {"key": ""},
        {"key": "a,b"},
        {"key": "x" * 513},
        {"version": ""},
        {"version": 1},
        {"metadata": {}},
    ],
)
def test_a_cache_entry_with_a_wrong_field_is_not_created(
    fake: FakeResults, caller: Caller, fields: dict[str, Any]
) -> None:
    assert caller.call("CreateCacheEntry", ENTRY | fields).status_code == 400
    assert fake.entries == []


@pytest.mark.parametrize("keys", [[], ["k"] * 10, "k", [1], [""]])
def test_wrong_restore_keys_are_refused(caller: Caller, keys: Any) -> None:
    fields = ENTRY | {"restore_keys": keys}

    assert caller.call("GetCacheEntryDownloadURL", fields).status_code == 400


@pytest.mark.parametrize("size", ["4", 5, "-5"])
def test_a_cache_entry_of_another_size_is_not_finalized(caller: Caller, size: Any) -> None:
    url = caller.call("CreateCacheEntry", ENTRY).json()["signed_upload_url"]
    caller.block(url, "1", b"hello")
    caller.list(url, "1")

    reply = caller.call("FinalizeCacheEntryUpload", ENTRY | {"size_bytes": size})

    assert reply.status_code == 400


def test_a_cache_entry_is_found_only_when_finalized(caller: Caller) -> None:
    caller.call("CreateCacheEntry", ENTRY)

    assert caller.call("GetCacheEntryDownloadURL", ENTRY).json()["ok"] is False
