"""The client of the results service: who we are, calls, retries, uploads and downloads."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fake_results import FakeResults, Reply, serving

from embed_ab.action import results_service
from embed_ab.action.results_service import (
    BLOCK_BYTES,
    Runtime,
    ServiceError,
    runtime_of,
    unavailable,
)
from embed_ab.errors import GithubError

LIST = ("ArtifactService", "ListArtifacts")


@pytest.fixture
def fake() -> Iterator[FakeResults]:
    with serving(FakeResults()) as service:
        yield service


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


@pytest.fixture
def waits() -> list[float]:
    """Seconds that the client would have slept."""
    return []


@pytest.fixture
def masked() -> list[str]:
    return []


@pytest.fixture
def runtime(fake: FakeResults, waits: list[float], masked: list[str]) -> Runtime:
    environ = fake.job().environ(fake.address)
    return runtime_of(environ, mask=masked.append, sleep=waits.append, jitter=lambda: 0.5)


@pytest.fixture
def ids(runtime: Runtime) -> dict[str, Any]:
    return {
        "workflow_run_backend_id": runtime.run_id,
        "workflow_job_run_backend_id": runtime.job_id,
    }


def environ(**changes: str) -> dict[str, str]:
    given = {
        "ACTIONS_RESULTS_URL": "https://results.example/some/path/",
        "ACTIONS_RUNTIME_TOKEN": token({"scp": "A:b Actions.Results:run-1:job-1"}),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "octo/reports",
        "GITHUB_RUN_ID": "77",
    }
    return given | changes


def token(claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def read(**changes: str) -> Runtime:
    return runtime_of(environ(**changes), mask=lambda secret: None)


def blob_url(fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any]) -> str:
    fields = ids | {"name": "r", "version": 4}
    reply = results_service.call(client, runtime, "ArtifactService", "CreateArtifact", fields)
    return results_service.signed_url(runtime, reply, "signed_upload_url")


# Who we are


def test_the_ids_of_run_and_job_come_from_the_token() -> None:
    assert (read().run_id, read().job_id) == ("run-1", "job-1")


def test_only_the_origin_of_the_address_is_used() -> None:
    assert read().origin == "https://results.example"


def test_the_run_has_a_page() -> None:
    assert read().run_page == "https://github.com/octo/reports/actions/runs/77"


def test_a_run_without_a_repository_has_no_page() -> None:
    assert read(GITHUB_REPOSITORY="").run_page == ""


@pytest.mark.parametrize(("days", "most"), [("90", 90), ("", None), ("0", None), ("x", None)])
def test_the_longest_retention_is_the_repository_s(days: str, most: int | None) -> None:
    assert read(GITHUB_RETENTION_DAYS=days).max_retention_days == most


@pytest.mark.parametrize(
    "wrong",
    [
        "secret",
        "a.b.c",
        "a.é.c",
        token([]),
        token({}),
        token({"scp": 1}),
        token({"scp": "Actions.Other:a:b"}),
        token({"scp": "Actions.Results:a"}),
        token({"scp": "Actions.Results:a:b:c"}),
        token({"scp": "Actions.Results::b"}),
    ],
)
def test_a_token_without_the_ids_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(GithubError, match="does not name the run and the job") as caught:
        read(ACTIONS_RUNTIME_TOKEN=wrong)

    assert wrong not in f"{caught.value} {caught.value.hint}"


def test_the_token_is_not_in_the_runtime_s_text() -> None:
    assert read().token not in repr(read())


@pytest.mark.parametrize(
    "server",
    [
        "https://github.com",
        "https://GitHub.com/",
        "https://octo.ghe.com",
        "http://gh.localhost",
        "",
    ],
)
def test_the_service_is_there_on(server: str) -> None:
    assert unavailable(environ(GITHUB_SERVER_URL=server)) == ""


@pytest.mark.parametrize(
    "server",
    [
        "https://ghe.company.example",
        "https://codeberg.org",
        "https://github.com.evil.example",
        "https://notgithub.com",
        "http://[broken",
        "nonsense",
    ],
)
def test_the_service_is_not_on(server: str) -> None:
    assert "is not GitHub.com" in unavailable(environ(GITHUB_SERVER_URL=server))


@pytest.mark.parametrize("name", ["ACTIONS_RESULTS_URL", "ACTIONS_RUNTIME_TOKEN"])
def test_outside_a_job_the_missing_variable_is_named(name: str) -> None:
    assert name in unavailable(environ(**{name: ""}))


def test_a_missing_service_says_what_to_do_instead() -> None:
    with pytest.raises(GithubError) as caught:
        read(GITHUB_SERVER_URL="https://ghe.company.example")

    assert "report-path" in caught.value.hint


@pytest.mark.parametrize("address", ["file:///etc", "results.example", "https://"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(GithubError, match="not an address"):
        read(ACTIONS_RESULTS_URL=address)


# Calls


def test_a_call_is_answered(client: httpx.Client, runtime: Runtime, ids: dict[str, Any]) -> None:
    assert results_service.call(client, runtime, *LIST, ids) == {"artifacts": []}


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_error_is_tried_again(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    ids: dict[str, Any],
    waits: list[float],
    status: int,
) -> None:
    fake.fail("ListArtifacts", Reply(status=status, body=b'{"code":"unavailable","msg":"busy"}'))

    assert results_service.call(client, runtime, *LIST, ids) == {"artifacts": []}
    assert waits == [3.0]


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"ok": tru', b"\xff"])
def test_an_answer_that_is_no_json_object_is_asked_for_again(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any], body: bytes
) -> None:
    fake.fail("ListArtifacts", Reply(status=200, body=body))

    assert results_service.call(client, runtime, *LIST, ids) == {"artifacts": []}


def test_a_cut_connection_is_tried_again(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any]
) -> None:
    fake.fail("ListArtifacts")

    assert results_service.call(client, runtime, *LIST, ids) == {"artifacts": []}


def test_five_tries_wait_longer_each_time(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    ids: dict[str, Any],
    waits: list[float],
) -> None:
    """3 s, then the middle of 4.5 to 6.75, 6.75 to 10.125 and 10.125 to 15.1875."""
    for _ in range(6):
        fake.fail("ListArtifacts", Reply(status=503, body=b'{"msg":"down"}'))

    with pytest.raises(ServiceError, match="ListArtifacts: the results service answered 503: down"):
        results_service.call(client, runtime, *LIST, ids)
    assert len(fake.requests) == 5
    assert waits == pytest.approx([3.0, 5.625, 8.4375, 12.65625])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412])
def test_another_error_is_final(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any], status: int
) -> None:
    fake.fail("ListArtifacts", Reply(status=status, body=b'{"code":"no","msg":"no"}'))

    with pytest.raises(ServiceError) as caught:
        results_service.call(client, runtime, *LIST, ids)
    assert (caught.value.status, caught.value.code) == (status, "no")
    assert len(fake.requests) == 1


def test_the_wait_that_the_server_asks_for_is_kept(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    ids: dict[str, Any],
    waits: list[float],
) -> None:
    fake.fail("ListArtifacts", Reply(status=429, body=b"{}", headers={"Retry-After": "17"}))

    results_service.call(client, runtime, *LIST, ids)

    assert waits == [17.0]


def test_a_long_wait_is_not_waited(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    ids: dict[str, Any],
    waits: list[float],
) -> None:
    fake.fail("ListArtifacts", Reply(status=429, body=b"{}", headers={"Retry-After": "3600"}))

    with pytest.raises(ServiceError, match="429"):
        results_service.call(client, runtime, *LIST, ids)
    assert waits == []


def test_a_redirect_is_not_followed(
    fake: FakeResults, runtime: Runtime, ids: dict[str, Any]
) -> None:
    """The token goes to the service that the runner named, and nowhere else."""
    headers = {"Location": f"{fake.address}/elsewhere"}
    fake.fail("ListArtifacts", Reply(status=307, headers=headers))

    with httpx.Client(follow_redirects=True) as client, pytest.raises(ServiceError, match="307"):
        results_service.call(client, runtime, *LIST, ids)
    assert fake.calls() == ["ListArtifacts"]


def test_an_error_shows_neither_token_nor_line_ends(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any]
) -> None:
    fake.fail("ListArtifacts", Reply(status=400, body=json.dumps({"msg": "a\n::x::b"}).encode()))

    with pytest.raises(ServiceError) as caught:
        results_service.call(client, runtime, *LIST, ids)
    assert str(caught.value) == "ListArtifacts: the results service answered 400: a ::x::b"


def test_a_server_that_is_not_there_says_so(
    fake: FakeResults, client: httpx.Client, waits: list[float]
) -> None:
    environ = fake.job().environ("http://127.0.0.1:1")
    gone = runtime_of(environ, mask=lambda secret: None, sleep=waits.append)

    with pytest.raises(ServiceError, match="the connection failed"):
        results_service.call(client, gone, *LIST, {})
    assert len(waits) == 4


@pytest.mark.parametrize("reply", [{"signed_url": "u"}, {"signedUrl": "u"}])
def test_a_field_is_read_in_both_spellings(reply: dict[str, Any]) -> None:
    assert results_service.text_of(reply, "signed_url") == "u"


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}])
def test_a_field_of_another_type_counts_as_absent(value: Any) -> None:
    assert results_service.text_of({"name": value}, "name") == ""


# Signatures


def test_a_signature_is_hidden_in_each_spelling(runtime: Runtime, masked: list[str]) -> None:
    url = "https://blob.example/a/b?se=1&sig=a%2Fb%2Bc%3D"

    assert results_service.signed_url(runtime, {"signed_url": url}, "signed_url") == url
    assert masked == ["a%2Fb%2Bc%3D", "a/b+c="]


def test_a_bare_signature_is_hidden_encoded_too(runtime: Runtime, masked: list[str]) -> None:
    results_service.signed_url(
        runtime, {"signed_url": "http://b.example/a?sig=a/cdefg="}, "signed_url"
    )

    assert masked == ["a/cdefg=", "a%2Fcdefg%3D"]


def test_a_short_signature_is_not_hidden(runtime: Runtime, masked: list[str]) -> None:
    """Every line that holds it would be hidden, too; and no signature is short."""
    results_service.signed_url(runtime, {"signed_url": "http://b.example/a?sig=ab"}, "signed_url")

    assert masked == []


@pytest.mark.parametrize(
    "url",
    ["", "ftp://h/x", "/etc/passwd", "http://", "http://[x", "http://h:99999x/", "http://h/\n"],
)
def test_a_signed_address_that_is_none_is_refused(runtime: Runtime, url: str) -> None:
    with pytest.raises(ServiceError, match="no signed url"):
        results_service.signed_url(runtime, {"signed_url": url}, "signed_url")


# Uploads


def test_a_blob_is_uploaded_in_blocks_and_in_order(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any]
) -> None:
    content = b"".join(bytes([number]) * BLOCK_BYTES for number in range(2)) + b"end"
    url = blob_url(fake, client, runtime, ids)

    blob = results_service.upload(client, runtime, url, io.BytesIO(content), "application/zip")

    assert fake.calls()[1:] == ["PUT block", "PUT block", "PUT block", "PUT blocklist"]
    assert fake.artifacts[0].content == content
    assert blob.n_bytes == len(content)
    assert blob.sha256 == hashlib.sha256(content).hexdigest()


def test_the_signed_address_is_sent_letter_by_letter(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any]
) -> None:
    url = blob_url(fake, client, runtime, ids)

    results_service.upload(client, runtime, url, io.BytesIO(b"x"), "application/zip")

    signed = url.removeprefix(fake.address)
    assert all(request.target.startswith(f"{signed}&comp=") for request in fake.requests[1:])


def test_a_bare_equals_sign_in_a_signature_stays(runtime: Runtime) -> None:
    """A server that compares letters answers 401 to %3D where it wrote an equals sign."""
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path)
        return httpx.Response(201)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        url = "http://blob.example/upload?sig=a-b_c=&expires=2026-01-01"
        results_service.upload(client, runtime, url, io.BytesIO(b"x"), "text/html")

    assert seen[1] == b"/upload?sig=a-b_c=&expires=2026-01-01&comp=blocklist"


def test_no_token_goes_to_the_blob_store(
    fake: FakeResults, runtime: Runtime, ids: dict[str, Any]
) -> None:
    """Even from a client that sends one to every address."""
    with httpx.Client(headers={"Authorization": "Bearer github"}, auth=("a", "b")) as client:
        url = blob_url(fake, client, runtime, ids)
        results_service.upload(client, runtime, url, io.BytesIO(b"x"), "application/zip")

    assert "authorization" in fake.requests[0].headers
    assert not any("authorization" in request.headers for request in fake.requests[1:])
    assert fake.refusals == []


@pytest.mark.parametrize("fault", [None, Reply(status=503), Reply(status=500)])
@pytest.mark.parametrize("call", ["PUT block", "PUT blocklist"])
@pytest.mark.parametrize("is_carried_out", [False, True])
def test_a_failed_part_of_an_upload_is_sent_again(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    ids: dict[str, Any],
    fault: Reply | None,
    call: str,
    is_carried_out: bool,
) -> None:
    url = blob_url(fake, client, runtime, ids)
    fake.fail(call, fault, is_carried_out=is_carried_out)

    results_service.upload(client, runtime, url, io.BytesIO(b"x"), "application/zip")

    assert fake.artifacts[0].content == b"x"


def test_a_refused_signature_is_final(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, ids: dict[str, Any]
) -> None:
    url = blob_url(fake, client, runtime, ids).replace("sp=cw", "sp=r")

    with pytest.raises(ServiceError, match=r"blob store answered 403 \(AuthenticationFailed\)"):
        results_service.upload(client, runtime, url, io.BytesIO(b"x"), "application/zip")
    assert fake.calls()[1:] == ["PUT block"]


# Downloads


def serve(*bodies: httpx.SyncByteStream, **headers: str) -> httpx.Client:
    """A blob store that gives these answers, in order; headers are those of the first one."""
    queue = [httpx.Response(200, stream=body) for body in bodies]
    queue[0].headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return httpx.Client(transport=httpx.MockTransport(lambda request: queue.pop(0)))


def test_a_download_that_breaks_off_starts_again(runtime: Runtime) -> None:
    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"half"
            raise httpx.ReadError("cut")

    target = io.BytesIO()
    with serve(Broken(), httpx.ByteStream(b"all")) as client:
        n_bytes = results_service.download(client, runtime, "http://b.example/x", target, 100)

    assert (n_bytes, target.getvalue()) == (3, b"all")


def test_a_download_that_is_too_short_starts_again(runtime: Runtime) -> None:
    target = io.BytesIO()
    with serve(httpx.ByteStream(b"al"), httpx.ByteStream(b"all"), Content_Length="3") as client:
        results_service.download(client, runtime, "http://b.example/x", target, 100)

    assert target.getvalue() == b"all"


def test_a_download_above_its_limit_is_given_up(runtime: Runtime) -> None:
    with (
        serve(httpx.ByteStream(b"x" * 101)) as client,
        pytest.raises(ServiceError, match="more than 100 bytes"),
    ):
        results_service.download(client, runtime, "http://b.example/x", io.BytesIO(), 100)


def test_a_compressed_download_stays_as_it_is(runtime: Runtime) -> None:
    """So that nothing grows while it arrives."""
    target = io.BytesIO()
    with serve(httpx.ByteStream(b"\x1f\x8b"), Content_Encoding="gzip") as client:
        results_service.download(client, runtime, "http://b.example/x", target, 100)

    assert target.getvalue() == b"\x1f\x8b"
