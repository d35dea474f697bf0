"""The report as an artifact: its zip, its name, its upload."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from fake_results import FakeResults, Reply, serving
from hypothesis import given
from hypothesis import strategies as st

from embed_ab.action.artifact import artifact_name, check_name, upload_artifact, zip_folder
from embed_ab.action.results_service import Runtime, call, runtime_of
from embed_ab.errors import GithubError

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(params=[False, True], ids=["snake_case", "camelCase"])
def fake(request: pytest.FixtureRequest) -> Iterator[FakeResults]:
    with serving(FakeResults(is_camel_case=request.param, clock=lambda: NOON)) as service:
        yield service


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


def join(fake: FakeResults, job: str = "job-1") -> Runtime:
    environ = fake.job(job=job).environ(fake.address)
    return runtime_of(environ, mask=lambda secret: None, sleep=lambda seconds: None)


@pytest.fixture
def runtime(fake: FakeResults) -> Runtime:
    return join(fake)


# Zip


def test_a_zip_depends_on_names_and_content_alone(tmp_path: Path) -> None:
    """Not on times, rights, or the order in which files were made."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, ["a.html", "b/c.json"]), (second, ["b/c.json", "a.html"])):
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    os.utime(second / "a.html", (0, 0))
    (second / "a.html").chmod(0o600)

    assert zip_folder(first) == zip_folder(second)


def test_a_zip_holds_the_files_by_relative_names_with_slashes(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/보고.trec").write_text("q1")
    (tmp_path / "report.html").write_bytes(b"<p>\r\n")

    with zipfile.ZipFile(io.BytesIO(zip_folder(tmp_path))) as archive:
        assert archive.namelist() == ["report.html", "runs/보고.trec"]
        assert archive.read("report.html") == b"<p>\r\n"
        assert archive.testzip() is None


def test_unzipped_files_can_be_read_by_all(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<p>")
    (tmp_path / "report.html").chmod(0o600)

    with zipfile.ZipFile(io.BytesIO(zip_folder(tmp_path))) as archive:
        assert archive.getinfo("report.html").external_attr >> 16 == 0o100644


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A report folder must not bring along what a link in it leads to."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "report.html").write_text("<p>")
    (folder / "file").symlink_to(tmp_path / "outside/secret")
    (folder / "folder").symlink_to(tmp_path / "outside")

    with zipfile.ZipFile(io.BytesIO(zip_folder(folder))) as archive:
        assert archive.namelist() == ["report.html"]


def test_an_empty_folder_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(GithubError, match="no files to upload"):
        zip_folder(tmp_path)


def test_a_folder_that_is_not_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(GithubError, match="no files to upload"):
        zip_folder(tmp_path / "absent")


@pytest.mark.parametrize("name", ["a:b", "a?", "a\nb", b"a\xff"])
def test_a_file_s_name_that_the_service_refuses_is_named(tmp_path: Path, name: str | bytes) -> None:
    Path(tmp_path / os.fsdecode(name)).write_text("x")

    with pytest.raises(GithubError, match="cannot hold the file a"):
        zip_folder(tmp_path)


# Names

FIELDS = st.fixed_dictionaries(
    {
        "base": st.sampled_from(["", "embed-ab", "report", "a.b", "a/b", "a b"]),
        "job": st.text(min_size=1, max_size=50) | st.sampled_from(["a", "leg-1", "a.leg-1"]),
        "leg": st.sampled_from(["", "0", "1", "2", "10"]),
        "key": st.text(max_size=50) | st.sampled_from(["a", "1", "leg-1", "key-a"]),
        "attempt": st.sampled_from(["", "1", "2", "3"]),
    }
)


def identity(fields: dict[str, str]) -> tuple[str, ...]:
    """What two uses must share to be the same one."""
    return (
        fields["base"] or "embed-ab",
        fields["job"],
        fields["leg"] or "0",
        fields["key"],
        fields["attempt"] or "1",
    )


def test_a_plain_name_reads_as_what_it_is() -> None:
    assert artifact_name("embed-ab-report", job="compare") == "embed-ab-report.compare"


def test_a_name_holds_what_tells_uses_apart() -> None:
    name = artifact_name("embed-ab-report", job="compare", leg="2", key="ko", attempt="3")

    assert name == "embed-ab-report.compare.leg-2.key-ko.attempt-3"


def test_a_name_for_a_bare_file_ends_as_the_file() -> None:
    assert artifact_name("report", job="j", suffix=".html") == "report.j.html"


@given(FIELDS)
def test_a_name_is_always_allowed(fields: dict[str, str]) -> None:
    check_name(artifact_name(**fields))


@given(FIELDS, FIELDS)
def test_two_uses_never_share_a_name(one: dict[str, str], other: dict[str, str]) -> None:
    is_same = identity(one) == identity(other)

    assert (artifact_name(**one) == artifact_name(**other)) == is_same


@pytest.mark.parametrize("name", ["", *(f"a{c}b" for c in '":<>|*?\r\n\\/'), "x" * 201, "a\udcff"])
def test_a_name_that_the_service_refuses_is_not_sent(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, name: str
) -> None:
    with pytest.raises(GithubError, match="cannot be named"):
        upload_artifact(client, runtime, name, b"x")
    assert fake.requests == []


# Upload


def test_a_report_arrives_as_it_is(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, tmp_path: Path
) -> None:
    (tmp_path / "report.html").write_text("<p>보고서")
    content = zip_folder(tmp_path)

    made = upload_artifact(client, runtime, "report", content)

    kept = fake.artifacts[0]
    assert (kept.name, kept.content, kept.id) == ("report", content, made.id)
    assert made.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert made.n_bytes == len(content)
    assert made.url == f"https://github.com/octo/reports/actions/runs/77/artifacts/{made.id}"
    assert fake.refusals == []


def test_an_archive_is_created_as_older_servers_know_it(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    """Some servers answer 500 to the field mime_type."""
    upload_artifact(client, runtime, "report", b"PK")

    assert fake.requests[0].fields == {
        "workflow_run_backend_id": "run-1",
        "workflow_job_run_backend_id": "job-1",
        "name": "report",
        "version": 4,
    }


def test_a_bare_file_has_its_type(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    upload_artifact(client, runtime, "report.html", b"<p>", mime_type="text/html")

    assert fake.requests[0].fields["version"] == 7
    assert fake.requests[0].fields["mime_type"] == "text/html"
    assert fake.artifacts[0].blob.content_type == "text/html"


def test_nothing_is_not_uploaded(fake: FakeResults, client: httpx.Client, runtime: Runtime) -> None:
    with pytest.raises(GithubError, match="nothing to upload"):
        upload_artifact(client, runtime, "report", b"")
    assert fake.requests == []


@pytest.mark.parametrize(
    ("days", "expiry"), [(0, None), (5, "2026-06-06T12:00:00Z"), (90, "2026-08-30T12:00:00Z")]
)
def test_an_artifact_expires_after_the_days_that_were_asked_for(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, days: int, expiry: str | None
) -> None:
    made = upload_artifact(
        client, runtime, "report", b"PK", retention_days=days, clock=lambda: NOON
    )

    assert fake.artifacts[0].expires_at == expiry
    assert made.warning == ""


def test_a_retention_above_the_repository_s_is_cut_with_a_warning(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    made = upload_artifact(client, runtime, "report", b"PK", retention_days=400, clock=lambda: NOON)

    assert fake.artifacts[0].expires_at == "2026-08-30T12:00:00Z"
    assert made.warning == "retention-days 400 is above the repository's 90; it is kept 90"


def test_a_taken_name_is_left_alone(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    """The artifact may be another job's: nothing is deleted, and the user is told what to do."""
    upload_artifact(client, join(fake, "job-2"), "report", b"theirs")

    with pytest.raises(GithubError, match="has an artifact named 'report' already") as caught:
        upload_artifact(client, runtime, "report", b"ours")
    assert "comment-key" in caught.value.hint
    assert [artifact.content for artifact in fake.artifacts] == [b"theirs"]
    assert "DeleteArtifact" not in fake.calls()


def test_an_upload_under_way_is_left_alone(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    """Without a lost answer a name of this job's is another use's, finished or not."""
    ids = {"workflow_run_backend_id": "run-1", "workflow_job_run_backend_id": "job-1"}
    fields = ids | {"name": "report", "version": 4}
    call(client, runtime, "ArtifactService", "CreateArtifact", fields)

    with pytest.raises(GithubError, match="already"):
        upload_artifact(client, runtime, "report", b"ours")
    assert len(fake.artifacts) == 1
    assert "DeleteArtifact" not in fake.calls()


@pytest.mark.parametrize("reply", [None, Reply(status=502, body=b"<html>"), Reply(status=200)])
def test_a_lost_answer_to_create_is_made_good_once(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, reply: Reply | None
) -> None:
    """The second try meets the first one's artifact: it is deleted, and made again."""
    fake.fail("CreateArtifact", reply, is_carried_out=True)

    made = upload_artifact(client, runtime, "report", b"PK")

    assert [(a.id, a.content) for a in fake.artifacts] == [(made.id, b"PK")]
    assert fake.calls()[:5] == [
        "CreateArtifact",
        "CreateArtifact",
        "ListArtifacts",
        "DeleteArtifact",
        "CreateArtifact",
    ]


def test_a_lost_answer_does_not_cost_another_job_its_report(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    upload_artifact(client, join(fake, "job-2"), "report", b"theirs")
    fake.fail("CreateArtifact", is_carried_out=True)

    with pytest.raises(GithubError, match="already"):
        upload_artifact(client, runtime, "report", b"ours")
    assert [artifact.content for artifact in fake.artifacts] == [b"theirs"]


def test_a_lost_answer_does_not_cost_this_job_an_earlier_report(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    """Two uses in one job with one name: what is finished is not the lost one."""
    upload_artifact(client, runtime, "report", b"first")
    fake.fail("CreateArtifact", is_carried_out=True)

    with pytest.raises(GithubError, match="already"):
        upload_artifact(client, runtime, "report", b"second")
    assert [artifact.content for artifact in fake.artifacts] == [b"first"]


def test_a_second_conflict_is_final(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    conflict = Reply(status=409, body=b'{"code":"already_exists","msg":"Conflict"}')
    fake.fail("CreateArtifact", is_carried_out=True)
    fake.fail("CreateArtifact", conflict)
    fake.fail("CreateArtifact", conflict)

    with pytest.raises(GithubError, match="already"):
        upload_artifact(client, runtime, "report", b"PK")
    assert fake.calls().count("DeleteArtifact") == 1
    assert fake.calls().count("CreateArtifact") == 3


def test_a_lost_answer_to_finalize_is_found_in_the_list(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    fake.fail("FinalizeArtifact", is_carried_out=True)

    made = upload_artifact(client, runtime, "report", b"PK")

    assert made.id == fake.artifacts[0].id


def test_a_refused_finalize_is_an_error(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    reply = Reply(status=400, body=b'{"code":"invalid_argument","msg":"size"}')
    fake.fail("FinalizeArtifact", reply)

    with pytest.raises(GithubError, match="FinalizeArtifact: the results service answered 400"):
        upload_artifact(client, runtime, "report", b"PK")


@pytest.mark.parametrize("call", ["CreateArtifact", "FinalizeArtifact"])
@pytest.mark.parametrize("body", [b'{"ok": false}', b"{}", b'{"ok": "true"}'])
def test_an_answer_that_is_not_ok_is_an_error(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, call: str, body: bytes
) -> None:
    fake.fail(call, Reply(status=200, body=body))

    with pytest.raises(GithubError, match=call):
        upload_artifact(client, runtime, "report", b"PK")


@pytest.mark.parametrize("number", [b"-1", b'"x"', b"null", b'"1/../2"', b"true"])
def test_an_id_that_is_no_number_is_an_error(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, number: bytes
) -> None:
    """It becomes part of an address."""
    body = b'{"ok": true, "artifact_id": ' + number + b"}"
    fake.fail("FinalizeArtifact", Reply(status=200, body=body))

    with pytest.raises(GithubError, match="did not take the artifact"):
        upload_artifact(client, runtime, "report", b"PK")


def test_a_full_account_is_told_and_not_asked_again(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    fake.is_full = True

    with pytest.raises(GithubError, match="storage for artifacts is full") as caught:
        upload_artifact(client, runtime, "report", b"PK")
    assert "Delete old artifacts" in caught.value.hint
    assert fake.calls() == ["CreateArtifact"]


def test_a_server_of_another_kind_is_told(
    fake: FakeResults, client: httpx.Client, runtime: Runtime
) -> None:
    fake.fail("CreateArtifact", Reply(status=404, body=b"<html>no such page"))

    with pytest.raises(GithubError, match="answered 404: no message") as caught:
        upload_artifact(client, runtime, "report", b"PK")
    assert "report-path" in caught.value.hint
    assert len(fake.requests) == 1


def test_two_jobs_upload_side_by_side(fake: FakeResults, client: httpx.Client) -> None:
    for leg in ("0", "1"):
        name = artifact_name("report", job="compare", leg=leg)
        upload_artifact(client, join(fake, f"job-{leg}"), name, leg.encode())

    assert [artifact.name for artifact in fake.artifacts] == [
        "report.compare",
        "report.compare.leg-1",
    ]
    assert all(re.fullmatch(r"run-1", artifact.run_id) for artifact in fake.artifacts)
