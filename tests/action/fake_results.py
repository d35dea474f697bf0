"""A strict stand-in for the runner's results service: artifacts, cache entries, blob store.

It refuses what the real service is known to refuse, and everything that the official clients do not
send: unknown fields, wrong types, a token on the wrong address. `tests/action/npm` proves it with
those clients. Where the real service's answer is not known, the strictest one is given.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

MAX_BLOCK = 100 * 1024 * 1024
PREFIX = "/twirp/github.actions.results.api.v1."


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a run and what its token allows."""

    run_id: str
    job_id: str
    token: str
    reads: tuple[str, ...]  # scopes of the cache, in the order they are searched
    writes: str  # scope of the cache, "" for a read-only token

    def environ(self, address: str) -> dict[str, str]:
        return {
            "ACTIONS_RESULTS_URL": f"{address}/",
            "ACTIONS_RUNTIME_TOKEN": self.token,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": "octo/reports",
            "GITHUB_RUN_ID": "77",
            "GITHUB_RETENTION_DAYS": "90",
        }


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as it arrived; header names in lower case, `target` as on the wire."""

    method: str
    target: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes

    @property
    def call(self) -> str:
        """Name of the service's method, or what was asked of the blob store."""
        if self.path.startswith(PREFIX):
            return self.path.rpartition("/")[2]
        return f"{self.method} {dict(self.query).get('comp', 'blob')}"

    @property
    def fields(self) -> Any:
        return json.loads(self.body)


@dataclass(kw_only=True)
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """An answer that is an error; the reason is for the test's reader too."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.code, self.reason = status, code, reason


@dataclass(kw_only=True)
class Blob:
    """One place of the blob store and its two signatures."""

    path: str
    content_type: str
    upload_signature: str
    download_signature: str
    blocks: dict[str, bytes] = field(default_factory=dict)  # not yet listed
    listed: dict[str, bytes] = field(default_factory=dict)
    content: bytes | None = None
    is_sealed: bool = False


@dataclass(kw_only=True)
class Artifact:
    id: int
    run_id: str
    job_id: str
    name: str
    expires_at: str | None
    blob: Blob
    digest: str | None = None

    @property
    def content(self) -> bytes:
        assert self.blob.content is not None
        return self.blob.content


@dataclass(kw_only=True)
class Entry:
    id: int
    scope: str
    key: str
    version: str
    blob: Blob
    is_final: bool = False


@dataclass(kw_only=True)
class Fault:
    """A fault for the next request of a kind, in its place or after it was carried out."""

    call: str
    reply: Reply | None  # None cuts the connection
    is_carried_out: bool


class FakeResults:
    """The service's state; `address` is where it listens inside `serving`."""

    def __init__(
        self,
        *,
        is_camel_case: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.address = ""
        self.clock = clock
        self.is_camel_case = is_camel_case
        self.is_full = False
        self.max_days = 90
        self.jobs: dict[str, Job] = {}
        self.artifacts: list[Artifact] = []
        self.entries: list[Entry] = []
        self.blobs: dict[str, Blob] = {}
        self.requests: list[Request] = []
        self.refusals: list[str] = []
        self.faults: list[Fault] = []
        self._last_id = 1000
        self._lock = threading.Lock()

    def job(
        self,
        *,
        run: str = "run-1",
        job: str = "job-1",
        reads: tuple[str, ...] = ("refs/heads/main",),
        writes: str = "refs/heads/main",
    ) -> Job:
        """A job whose token the service knows."""
        claims = {
            "scp": f"Actions.GenericRead:x Actions.Results:{run}:{job} Actions.UploadArtifacts:y",
            "ac": json.dumps([{"Scope": scope, "Permission": 3} for scope in reads]),
            # Bytes that base64 writes as - and _, without padding.
            "nbf": "~~~???>>>",
        }
        parts = ({"alg": "RS256", "typ": "JWT"}, claims)
        token = ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
            for part in parts
        )
        made = Job(run_id=run, job_id=job, token=f"{token}.c2ln", reads=reads, writes=writes)
        self.jobs[made.token] = made
        return made

    def fail(self, call: str, reply: Reply | None = None, *, is_carried_out: bool = False) -> None:
        """Let the next request of a kind fail; without a reply the connection is cut."""
        self.faults.append(Fault(call=call, reply=reply, is_carried_out=is_carried_out))

    def calls(self) -> list[str]:
        return [request.call for request in self.requests]

    def handle(self, request: Request) -> Reply | None:
        """Answer a request; None cuts the connection."""
        with self._lock:
            self.requests.append(request)
            fault = next((f for f in self.faults if f.call == request.call), None)
            if fault:
                self.faults.remove(fault)
                if not fault.is_carried_out:
                    return fault.reply
            is_call = request.path.startswith("/twirp/")
            try:
                reply = self._call(request) if is_call else self._store(request)
            except Refused as refused:
                self.refusals.append(f"{request.call}: {refused.reason}")
                reply = _twirp_error(refused) if is_call else _azure_error(refused)
            return fault.reply if fault else reply

    # Calls

    def _call(self, request: Request) -> Reply:
        _need(request.method == "POST", 404, "bad_route", "calls are POST")
        _need(not request.query, 404, "bad_route", "calls have no query")
        service, _, method = request.path.removeprefix(PREFIX).partition("/")
        handler = _METHODS.get((service, method))
        if not request.path.startswith(PREFIX) or handler is None:
            raise Refused(404, "bad_route", f"no handler for {request.path}")
        content_type = request.headers.get("content-type")
        _need(content_type == "application/json", 404, "bad_route", f"{content_type}")
        _need(bool(request.headers.get("user-agent")), 403, "permission_denied", "no user agent")
        _need("content-length" in request.headers, 411, "malformed", "no length")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        job = self.jobs.get(token)
        if scheme != "Bearer" or job is None:
            raise Refused(401, "unauthenticated", "the token is not known")
        try:
            fields = json.loads(request.body)
        except ValueError:
            raise Refused(400, "malformed", "the body is not JSON") from None
        _need(isinstance(fields, dict), 400, "malformed", "the body is not an object")
        answer = handler(self, job, fields)
        if self.is_camel_case:
            answer = _camel(answer)
        return Reply(
            status=200,
            body=json.dumps(answer).encode(),
            headers={"Content-Type": "application/json"},
        )

    def _create_artifact(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(
            fields, required={**_IDS, "name": _name, "version": _version},
            optional={"expires_at": _moment, "mime_type": _mime_type},
        )  # fmt: skip
        _check_ids(job, fields)
        version, mime_type = fields["version"], fields.get("mime_type")
        _need((version == 7) == (mime_type is not None), 400, "invalid_argument",
              f"version {version} with mime_type {mime_type}")  # fmt: skip
        if self.is_full:
            raise Refused(
                429, "resource_exhausted",
                "insufficient usage to create artifact: storage quota has been hit",
            )  # fmt: skip
        if expiry := fields.get("expires_at"):
            now = self.clock()
            latest = now + timedelta(days=self.max_days, hours=2)  # days may have 25 hours
            is_fit = now < datetime.fromisoformat(expiry) <= latest
            _need(is_fit, 400, "invalid_argument", f"expires_at {expiry}")
        if any(a.name == fields["name"] and a.run_id == job.run_id for a in self.artifacts):
            raise Refused(
                409, "already_exists",
                "Conflict: an artifact with this name already exists on the workflow run",
            )  # fmt: skip
        number = self._next_id()
        blob = self._new_blob(f"artifacts/{number}", mime_type or "application/zip")
        self.artifacts.append(
            Artifact(
                id=number,
                run_id=job.run_id,
                job_id=job.job_id,
                name=fields["name"],
                expires_at=expiry,
                blob=blob,
            )
        )
        return {"ok": True, "signed_upload_url": self._upload_url(blob)}

    def _finalize_artifact(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(
            fields, required={**_IDS, "name": _name, "size": _int64, "hash": _digest}, optional={}
        )
        _check_ids(job, fields)
        found = self._own(job, fields["name"])
        if found.blob.is_sealed:
            raise Refused(409, "already_exists", "the artifact was finalized before")
        content = found.blob.content
        if content is None:
            raise Refused(400, "failed_precondition", "nothing was uploaded")
        _need(int(fields["size"]) == len(content), 400, "invalid_argument",
              f"size {fields['size']}, but {len(content)} bytes were uploaded")  # fmt: skip
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        _need(fields["hash"] == digest, 400, "invalid_argument", "the hash is another one")
        found.digest, found.blob.is_sealed = digest, True
        return {"ok": True, "artifact_id": str(found.id)}

    def _list_artifacts(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(fields, required=_IDS, optional={"name_filter": _name, "id_filter": _int64})
        _check_ids(job, fields)
        shown = [
            {
                "workflow_run_backend_id": found.run_id,
                "workflow_job_run_backend_id": found.job_id,
                "database_id": str(found.id),
                "name": found.name,
                "size": str(len(found.content)),
                "created_at": self.clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                "digest": found.digest,
            }
            for found in self.artifacts
            if found.run_id == job.run_id
            and found.blob.is_sealed
            and fields.get("name_filter") in (None, found.name)
            and fields.get("id_filter") in (None, str(found.id))
        ]
        return {"artifacts": shown}

    def _signed_artifact_url(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(fields, required={**_IDS, "name": _name}, optional={})
        _need(fields["workflow_run_backend_id"] == job.run_id, 403, "permission_denied", "run")
        found = self._artifact(fields)
        _need(found.blob.is_sealed, 404, "not_found", "the artifact is not finalized")
        return {"signed_url": self._download_url(found.blob)}

    def _delete_artifact(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(fields, required={**_IDS, "name": _name}, optional={})
        _need(fields["workflow_run_backend_id"] == job.run_id, 403, "permission_denied", "run")
        found = self._artifact(fields)
        self.artifacts.remove(found)
        del self.blobs[found.blob.path]
        return {"ok": True, "artifact_id": str(found.id)}

    def _cache_url(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(
            fields,
            required={"key": _cache_key, "version": _text},
            optional={"restore_keys": _cache_keys},
        )
        if not job.reads:
            raise Refused(403, "permission_denied", "cache read denied: no readable scope")
        for scope in job.reads:
            for wanted in (fields["key"], *fields.get("restore_keys", ())):
                fitting = [
                    entry
                    for entry in self.entries
                    if entry.is_final
                    and entry.scope == scope
                    and entry.version == fields["version"]
                    and entry.key.startswith(wanted)
                ]
                if fitting:
                    # The very key wins over a newer entry that begins with it.
                    best = max(fitting, key=lambda entry: (entry.key == wanted, entry.id))
                    url = self._download_url(best.blob)
                    return {"ok": True, "signed_download_url": url, "matched_key": best.key}
        return {"ok": False, "signed_download_url": "", "matched_key": ""}

    def _create_entry(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(fields, required={"key": _cache_key, "version": _text}, optional={})
        if not job.writes:
            return {
                "ok": False,
                "signed_upload_url": "",
                "message": "cache write denied: the token is read-only",
            }
        if self._find_entry(job, fields):
            raise Refused(
                409, "already_exists",
                "cache entry with the same key, version, and scope already exists",
            )  # fmt: skip
        number = self._next_id()
        blob = self._new_blob(f"cache/{number}", "application/octet-stream")
        self.entries.append(
            Entry(
                id=number,
                scope=job.writes,
                key=fields["key"],
                version=fields["version"],
                blob=blob,
            )
        )
        return {"ok": True, "signed_upload_url": self._upload_url(blob)}

    def _finalize_entry(self, job: Job, fields: dict[str, Any]) -> dict[str, Any]:
        _check_fields(
            fields,
            required={"key": _cache_key, "version": _text, "size_bytes": _int64},
            optional={},
        )
        found = self._find_entry(job, fields)
        if found is None:
            raise Refused(404, "not_found", "no such entry was created")
        _need(not found.is_final, 409, "already_exists", "the entry was finalized before")
        content = found.blob.content
        if content is None:
            raise Refused(400, "failed_precondition", "nothing was uploaded")
        _need(int(fields["size_bytes"]) == len(content), 400, "invalid_argument",
              f"size {fields['size_bytes']}, but {len(content)} bytes were uploaded")  # fmt: skip
        found.is_final = found.blob.is_sealed = True
        return {"ok": True, "entry_id": str(found.id)}

    def _own(self, job: Job, name: str) -> Artifact:
        ids = {"workflow_run_backend_id": job.run_id, "workflow_job_run_backend_id": job.job_id}
        return self._artifact({**ids, "name": name})

    def _artifact(self, fields: dict[str, Any]) -> Artifact:
        for found in self.artifacts:
            if (found.run_id, found.job_id, found.name) == tuple(
                fields[name] for name in (*_IDS, "name")
            ):
                return found
        raise Refused(404, "not_found", "no such artifact")

    def _find_entry(self, job: Job, fields: dict[str, Any]) -> Entry | None:
        wanted = (job.writes, fields["key"], fields["version"])
        return next((e for e in self.entries if (e.scope, e.key, e.version) == wanted), None)

    # Blob store

    def _new_blob(self, name: str, content_type: str) -> Blob:
        blob = Blob(
            path=f"/account/container/{name}.bin",
            content_type=content_type,
            # Base64 with each of / + = in it, as real signatures have.
            upload_signature=base64.b64encode(b"\xff\xef\xbe up " + name.encode() + b"!").decode(),
            download_signature=base64.b64encode(b"\xff\xef\xbe down " + name.encode()).decode(),
        )
        self.blobs[blob.path] = blob
        return blob

    def _upload_url(self, blob: Blob) -> str:
        return self._signed(blob, "cw", blob.upload_signature)

    def _download_url(self, blob: Blob) -> str:
        return self._signed(blob, "r", blob.download_signature)

    def _signed(self, blob: Blob, permission: str, signature: str) -> str:
        return (
            f"{self.address}{blob.path}?se=2026-06-01T13%3A00%3A00Z&sp={permission}"
            f"&sr=b&sig={quote(signature, safe='')}"
        )

    def _store(self, request: Request) -> Reply:
        blob = self.blobs.get(request.path)
        if blob is None:
            raise Refused(404, "BlobNotFound", "no such blob")
        _need("authorization" not in request.headers, 400, "InvalidAuthenticationInfo",
              "a token was sent along with the signature")  # fmt: skip
        query = dict(request.query)
        _need(len(query) == len(request.query), 400, "InvalidQueryParameterValue", "twice")
        comp, block_id = query.pop("comp", ""), query.pop("blockid", "")
        is_reading = request.method in ("GET", "HEAD")
        signature = blob.download_signature if is_reading else blob.upload_signature
        expected = dict(parse_qsl(urlsplit(self._signed(blob, "r" if is_reading else "cw",
                                                         signature)).query))  # fmt: skip
        _need(query == expected, 403, "AuthenticationFailed", f"the signature is not for {query}")
        if is_reading:
            return self._read(request, blob)
        _need(request.method == "PUT", 405, "UnsupportedHttpVerb", request.method)
        _need(not blob.is_sealed, 403, "BlobImmutableDueToPolicy", "the blob is finalized")
        _need(re.fullmatch(r"\d{4}-\d\d-\d\d", request.headers.get("x-ms-version", "")) is not None,
              400, "MissingRequiredHeader", "x-ms-version")  # fmt: skip
        length = request.headers.get("content-length", "")
        _need(length == str(len(request.body)), 411, "MissingContentLengthHeader", length)
        if comp == "block":
            self._put_block(request, blob, block_id)
        elif comp == "blocklist":
            self._put_list(request, blob)
        elif not comp:
            _need(request.headers.get("x-ms-blob-type") == "BlockBlob", 400,
                  "MissingRequiredHeader", "x-ms-blob-type")  # fmt: skip
            blob.content, blob.listed, blob.blocks = request.body, {}, {}
        else:
            raise Refused(400, "InvalidQueryParameterValue", f"comp={comp}")
        return Reply(status=201, headers={"ETag": '"0x1"', "x-ms-request-server-encrypted": "true"})

    def _put_block(self, request: Request, blob: Blob, block_id: str) -> None:
        _need("x-ms-blob-content-type" not in request.headers, 400, "UnsupportedHeader", "type")
        content_type = request.headers.get("content-type")
        _need(content_type == "application/octet-stream", 400, "InvalidHeaderValue",
              f"{content_type}")  # fmt: skip
        _need(0 < len(request.body) <= MAX_BLOCK, 413, "RequestBodyTooLarge", "block size")
        try:
            raw = base64.b64decode(block_id, validate=True)
        except ValueError:
            raise Refused(400, "InvalidQueryParameterValue", "blockid is not base64") from None
        _need(0 < len(raw) <= 64, 400, "InvalidBlobOrBlock", "blockid has 1 to 64 bytes")
        _need(all(len(other) == len(block_id) for other in blob.blocks), 400,
              "InvalidBlobOrBlock", "block ids are of several lengths")  # fmt: skip
        blob.blocks[block_id] = request.body

    def _put_list(self, request: Request, blob: Blob) -> None:
        content_type = request.headers.get("content-type", "").partition(";")[0]
        _need(content_type == "application/xml", 400, "InvalidHeaderValue", content_type)
        if blob.path.startswith("/account/container/artifacts/"):
            stored = request.headers.get("x-ms-blob-content-type")
            _need(stored == blob.content_type, 400, "InvalidHeaderValue", f"type {stored}")
        try:
            listed = ElementTree.fromstring(request.body)
        except ElementTree.ParseError:
            raise Refused(400, "InvalidXmlDocument", "the list is not XML") from None
        _need(listed.tag == "BlockList", 400, "InvalidXmlDocument", listed.tag)
        ids = []
        for item in listed:
            _need(item.tag in ("Latest", "Uncommitted"), 400, "InvalidXmlDocument", item.tag)
            ids.append(item.text or "")
        _need(bool(ids), 400, "InvalidBlockList", "the list is empty")
        # "Latest" finds a block of the last list too, so that a list can be sent again.
        known = blob.listed | blob.blocks
        _need(set(ids) <= set(known), 400, "InvalidBlockList",
              "the list names a block that was not uploaded")  # fmt: skip
        _need(set(ids) >= set(blob.blocks), 400, "InvalidBlockList",
              "a block that was uploaded is not in the list")  # fmt: skip
        blob.content = b"".join(known[name] for name in ids)
        blob.listed, blob.blocks = {name: known[name] for name in ids}, {}

    def _read(self, request: Request, blob: Blob) -> Reply:
        content = blob.content or b""
        headers = {"Content-Type": blob.content_type, "ETag": '"0x1"', "Accept-Ranges": "bytes"}
        if blob.content_type != "application/octet-stream":
            owner = next(a for a in self.artifacts if a.blob is blob)
            suffix = ".zip" if blob.content_type == "application/zip" else ""
            headers["Content-Disposition"] = f'attachment; filename="{owner.name}{suffix}"'
        wanted = re.fullmatch(
            r"bytes=(\d+)-(\d*)",
            request.headers.get("range", request.headers.get("x-ms-range", "")),
        )
        if wanted and request.method == "GET":
            first, last = int(wanted[1]), int(wanted[2] or len(content) - 1)
            last = min(last, len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            return Reply(status=206, body=content[first : last + 1], headers=headers)
        return Reply(status=200, body=content, headers=headers)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id


_METHODS: dict[tuple[str, str], Callable[[FakeResults, Job, dict[str, Any]], dict[str, Any]]] = {
    ("ArtifactService", "CreateArtifact"): FakeResults._create_artifact,
    ("ArtifactService", "FinalizeArtifact"): FakeResults._finalize_artifact,
    ("ArtifactService", "ListArtifacts"): FakeResults._list_artifacts,
    ("ArtifactService", "GetSignedArtifactURL"): FakeResults._signed_artifact_url,
    ("ArtifactService", "DeleteArtifact"): FakeResults._delete_artifact,
    ("CacheService", "GetCacheEntryDownloadURL"): FakeResults._cache_url,
    ("CacheService", "CreateCacheEntry"): FakeResults._create_entry,
    ("CacheService", "FinalizeCacheEntryUpload"): FakeResults._finalize_entry,
}


def _need(is_met: bool, status: int, code: str, reason: str) -> None:
    if not is_met:
        raise Refused(status, code, reason)


def _check_fields(
    fields: dict[str, Any],
    *,
    required: Mapping[str, Callable[[Any], bool]],
    optional: Mapping[str, Callable[[Any], bool]],
) -> None:
    known = {**required, **optional}
    for name, value in fields.items():
        _need(name in known, 400, "malformed", f"unknown field {name}")
        _need(known[name](value), 400, "invalid_argument", f"{name} must not be {value!r}")
    for name in required:
        _need(name in fields, 400, "invalid_argument", f"{name} is missing")


def _check_ids(job: Job, fields: dict[str, Any]) -> None:
    sent = (fields["workflow_run_backend_id"], fields["workflow_job_run_backend_id"])
    _need(sent == (job.run_id, job.job_id), 403, "permission_denied", f"ids {sent} of another job")


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _name(value: Any) -> bool:
    return _text(value) and not re.search(r'["<>|*?:\r\n\\/]', value)


def _version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in (4, 7)


def _int64(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"0|[1-9]\d{0,18}", value) is not None


def _digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value) is not None


def _moment(value: Any) -> bool:
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z"
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _mime_type(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", value) is not None


def _cache_key(value: Any) -> bool:
    return _text(value) and len(value) <= 512 and "," not in value


def _cache_keys(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= 9 and all(map(_cache_key, value))


_IDS = {"workflow_run_backend_id": _text, "workflow_job_run_backend_id": _text}


def _twirp_error(refused: Refused) -> Reply:
    return Reply(
        status=refused.status,
        body=json.dumps({"code": refused.code, "msg": refused.reason}).encode(),
        headers={"Content-Type": "application/json"},
    )


def _azure_error(refused: Refused) -> Reply:
    return Reply(
        status=refused.status,
        body=f'<?xml version="1.0"?><Error><Code>{refused.code}</Code></Error>'.encode(),
        headers={"Content-Type": "application/xml", "x-ms-error-code": refused.code},
    )


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if isinstance(value, dict):
        return {
            re.sub("_(.)", lambda found: found[1].upper(), name): _camel(item)
            for name, item in value.items()
        }
    return value


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no news."""


@contextmanager
def serving(fake: FakeResults) -> Iterator[FakeResults]:
    """Let the service listen on a loopback address while inside."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

        def _answer(self) -> None:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                body = b""  # has no length, which every route refuses
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            address = urlsplit(self.path)
            reply = fake.handle(
                Request(
                    method=self.command,
                    target=self.path,
                    path=unquote(address.path),
                    query=tuple(parse_qsl(address.query, keep_blank_values=True)),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=body,
                )
            )
            if reply is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in reply.headers:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """The requests are kept; nothing is printed."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
