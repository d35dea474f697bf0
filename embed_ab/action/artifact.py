"""The report as an artifact of the workflow run."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from embed_ab.action.results_service import (
    INSTEAD,
    Blob,
    Runtime,
    ServiceError,
    call,
    signed_url,
    text_of,
    upload,
)
from embed_ab.errors import GithubError
from embed_ab.formats import plain, shorten

ZIP = "application/zip"
_SERVICE = "ArtifactService"
_NOT_IN_PATHS = re.compile(r'["<>|*?:\r\n]')
_NOT_IN_NAMES = re.compile(r'["<>|*?:\r\n\\/]')
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip can hold
_LONGEST_NAME = 200  # of a file on the reader's disk, with room for .zip


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact of this run.

    url: for people who are signed in, "" where the run's address is unknown.
    digest: "sha256:…" of the bytes that were uploaded; the page of the run shows it.
    warning: what is not as the user wished, or "".
    """

    name: str
    id: int
    url: str
    digest: str
    n_bytes: int
    warning: str = ""


def zip_folder(folder: Path, only: Container[str] | None = None) -> bytes:
    """Return the files of a folder as a zip whose bytes depend on names and content alone.

    only: paths below the folder; others are left out.
    Links are left out: what they lead to is not the report's.
    Raises: GithubError for a folder without files, and for names that the service refuses.
    """
    files: dict[str, Path] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not (Path(parent) / name).is_symlink()]
        for name in names:
            path = Path(parent) / name
            inside = path.relative_to(folder).as_posix()
            if path.is_file() and not path.is_symlink() and (only is None or inside in only):
                files[inside] = path
    if not files:
        raise GithubError(f"{folder.name}: no files to upload")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            if _NOT_IN_PATHS.search(name) or not _is_text(name):
                raise GithubError(
                    f"an artifact cannot hold the file {shorten(plain(name), 100)}",
                    hint='Names must not contain " : < > | * ? or line ends.',
                )
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, _read(files[name]))
    return buffer.getvalue()


def artifact_name(
    base: str, *, job: str, leg: str = "", key: str = "", attempt: str = "", suffix: str = ""
) -> str:
    """Return a name that no other job, matrix leg, use or attempt of the run gives its artifact.

    leg: the number of the matrix leg; 0 and "" are left out, and so is attempt 1.
    suffix: a file's extension, for an artifact that is a bare file.
    """
    parts = [_part(base or "embed-ab"), _part(job or "job")]
    if leg not in ("", "0"):
        parts.append(f"leg-{_part(leg)}")
    if key:
        parts.append(f"key-{_part(key)}")
    if attempt not in ("", "1"):
        parts.append(f"attempt-{_part(attempt)}")
    # No part holds a dot, so that parts cannot run into each other.
    return ".".join(parts) + suffix


def check_name(name: str) -> None:
    """Raise GithubError for a name that the service refuses."""
    if not name or _NOT_IN_NAMES.search(name) or not _is_text(name) or len(name) > _LONGEST_NAME:
        raise GithubError(
            f"an artifact cannot be named '{shorten(plain(name), 100)}'",
            hint=f'Give at most {_LONGEST_NAME} characters, none of " : < > | * ? \\ / or line '
            "ends, as artifact-name.",
        )


def upload_artifact(
    client: httpx.Client,
    runtime: Runtime,
    name: str,
    content: bytes,
    *,
    mime_type: str = ZIP,
    retention_days: int = 0,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Artifact:
    """Upload bytes as an artifact of this run.

    mime_type: other than a zip's for a bare file, whose artifact must have the file's name.
    retention_days: 0 for what the repository says.
    Raises: GithubError if the name is taken or refused, or the service does not do its part.
    """
    check_name(name)
    if not content:
        raise GithubError(f"{name}: nothing to upload")
    days, warning = _kept_days(retention_days, runtime.max_retention_days)
    expiry = {"expires_at": _timestamp(clock() + timedelta(days=days))} if days else {}
    try:
        number, blob = _send(client, runtime, name, content, mime_type, expiry)
    except ServiceError as error:
        error.hint = error.hint or INSTEAD
        raise
    return Artifact(
        name=name,
        id=number,
        url=f"{runtime.run_page}/artifacts/{number}" if runtime.run_page else "",
        digest=f"sha256:{blob.sha256}",
        n_bytes=blob.n_bytes,
        warning=warning,
    )


def _send(
    client: httpx.Client,
    runtime: Runtime,
    name: str,
    content: bytes,
    mime_type: str,
    expiry: dict[str, str],
) -> tuple[int, Blob]:
    ids = {
        "workflow_run_backend_id": runtime.run_id,
        "workflow_job_run_backend_id": runtime.job_id,
        "name": name,
    }
    # Servers that know only archives refuse the field mime_type, so archives do without.
    kind = {"version": 4} if mime_type == ZIP else {"version": 7, "mime_type": mime_type}
    created = _create(client, runtime, ids | kind | expiry)
    url = signed_url(runtime, created, "signed_upload_url")
    blob = upload(client, runtime, url, io.BytesIO(content), mime_type)
    return _finalize(client, runtime, ids, blob), blob


def _create(client: httpx.Client, runtime: Runtime, fields: dict[str, Any]) -> dict[str, Any]:
    try:
        created = call(client, runtime, _SERVICE, "CreateArtifact", fields)
    except ServiceError as error:
        if error.status != 409:
            raise
        taken = _taken(fields["name"])
        # The name can only be this upload's own if an answer to it was lost.
        if not error.is_unsure or not _delete_unfinished(client, runtime, fields):
            raise taken from None
        try:
            created = call(client, runtime, _SERVICE, "CreateArtifact", fields)
        except ServiceError as again:
            raise (taken if again.status == 409 else again) from None
    if created.get("ok") is not True:
        raise ServiceError("CreateArtifact: the results service refused without a reason")
    return created


def _delete_unfinished(client: httpx.Client, runtime: Runtime, fields: dict[str, Any]) -> bool:
    """Delete what this job created under the name and never filled; False for anything else."""
    if any(
        found.n_bytes or found.job_id != runtime.job_id for found in _named(client, runtime, fields)
    ):
        return False
    ids = {name: fields[name] for name in (*_IDS, "name")}
    try:
        call(client, runtime, _SERVICE, "DeleteArtifact", ids)
    except ServiceError as error:
        if error.status != 404:
            raise
    return True


def _finalize(client: httpx.Client, runtime: Runtime, fields: dict[str, Any], blob: Blob) -> int:
    sums = {"size": str(blob.n_bytes), "hash": f"sha256:{blob.sha256}"}
    try:
        reply = call(client, runtime, _SERVICE, "FinalizeArtifact", fields | sums)
    except ServiceError as error:
        if not error.is_unsure or error.is_passing:
            raise
        # The answer to the first try was lost, and the second found the work done.
        for found in _named(client, runtime, fields):
            same_digest = found.digest in ("", sums["hash"])
            if found.job_id == runtime.job_id and found.n_bytes == blob.n_bytes and same_digest:
                return found.id
        raise
    number = text_of(reply, "artifact_id")
    if reply.get("ok") is not True or not _is_number(number):
        raise ServiceError("FinalizeArtifact: the results service did not take the artifact")
    return int(number)


@dataclass(frozen=True, kw_only=True)
class _Listed:
    id: int
    job_id: str
    n_bytes: int
    digest: str


def _named(client: httpx.Client, runtime: Runtime, fields: dict[str, Any]) -> list[_Listed]:
    """Return the run's artifacts of a name, the newest first."""
    query = {name: fields[name] for name in _IDS} | {"name_filter": fields["name"]}
    reply = call(client, runtime, _SERVICE, "ListArtifacts", query)
    items = reply.get("artifacts")
    found = []
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict) or text_of(item, "name") != fields["name"]:
            continue
        number, size = text_of(item, "database_id"), text_of(item, "size")
        found.append(
            _Listed(
                id=int(number) if _is_number(number) else 0,
                job_id=text_of(item, "workflow_job_run_backend_id"),
                n_bytes=int(size) if _is_number(size) else 0,
                digest=text_of(item, "digest"),
            )
        )
    return sorted(found, key=lambda listed: -listed.id)


_IDS = ("workflow_run_backend_id", "workflow_job_run_backend_id")


def _taken(name: str) -> GithubError:
    return GithubError(
        f"this run has an artifact named '{shorten(plain(name), 100)}' already",
        hint="Give each use of the action in a run an artifact-name or a comment-key of its own.",
    )


def _kept_days(wished: int, most: int | None) -> tuple[int, str]:
    """Return for how many days to keep an artifact, 0 for the default, and a warning or ""."""
    if wished <= 0:
        return 0, ""
    if most is not None and wished > most:
        return most, f"retention-days {wished} is above the repository's {most}; it is kept {most}"
    return wished, ""


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _part(text: str) -> str:
    """Return a part of a name, of letters, digits, - and _; a hash tells apart what was cut."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:40]
    if safe == text:
        return text
    return f"{safe}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise GithubError(f"{path.name}: cannot be read: {error.strerror}") from None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19
