"""Results of another run of a workflow, fetched as data that a stranger may have made.

A pull request from a fork measures with a token that may not comment. A second workflow, of the
event workflow_run, may, and must trust nothing of what the first one left: this reads the one file
of numbers in each artifact and words them again.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Annotated

import httpx
from pydantic import BaseModel, Field, TypeAdapter

from embed_ab import gate, result_json, slices
from embed_ab.action.event import Run
from embed_ab.action.github import ATTEMPTS, Api, Commit, Number, read
from embed_ab.action.results_service import mask_signature
from embed_ab.cautions import CODES, Caution
from embed_ab.errors import GithubError, InputError
from embed_ab.formats import plain, shorten
from embed_ab.metrics import Metric
from embed_ab.outputs import JSON
from embed_ab.result import Comparison, QueryRow, with_names
from embed_ab.settings import Settings

DEFAULT_NAME = "embed-ab"
MAX_ARTIFACTS = 20
MAX_ZIP_BYTES = 64_000_000
MAX_JSON_BYTES = 32_000_000
MAX_BYTES = 2 * MAX_JSON_BYTES
"""Of the JSON of all artifacts together: what is read stays in memory."""

_MAX_CONTENTS = 1_000_000  # bytes of a zip's table of contents: about 20,000 files
_PIECE = 65_536
_TIMEOUT = httpx.Timeout(60, connect=10)  # without progress, not for the whole transfer
_PASSING = (429, 500, 502, 503, 504)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_FROM_A_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OverflowError,  # places beyond what any file has
    ValueError,  # places outside the file, names that are not UTF-8
    RuntimeError,  # kinds of encryption and compression that zipfile does not know
)
_HINT = (
    "The first workflow must upload its report as a zip: leave its inputs upload-artifact and "
    "artifact-archive at true, and give both workflows the same artifact-name."
)


class NoArtifact(GithubError):
    """The run left none, as runs do that were cancelled or had wrong input."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """The result in one artifact, worded again by `restated`.

    key: the artifact's name without the number of the attempt, the same in every run.
    """

    name: str
    key: str
    artifact_id: int
    comparison: Comparison


def fetch_results(
    api: Api,
    run: Run,
    *,
    client: httpx.Client,
    mask: Callable[[str], None],
    name: str = DEFAULT_NAME,
) -> tuple[list[Fetched], list[GithubError]]:
    """Return the results that a run left in its artifacts, in order of name, and what was wrong.

    client: for the store that GitHub redirects to; it carries no token.
    mask: hides a string in the log from then on; it gets the signatures of addresses.
    name: of the artifact, or the start of several names before a dot.
    Raises: NoArtifact; GithubError when there is no list of artifacts.
    """
    path = api.path(f"actions/runs/{run.id}/artifacts")
    listed = (read(_ARTIFACT, item, "An artifact") for item in api.pages(path, {}, field=_LIST))
    chosen = _chosen(listed, run, name)
    if not chosen:
        raise NoArtifact(
            f"run {run.id} left no artifact '{_shown(name)}' of commit {run.commit[:12]}",
            hint=_HINT,
        )
    fetched: list[Fetched] = []
    problems: list[GithubError] = []
    n_bytes = 0
    for artifact in chosen[:MAX_ARTIFACTS]:
        label = f"artifact '{_shown(artifact.name)}'"
        try:
            archive = _download(api, client, artifact.id, mask)
            content = _result_of(archive, min(MAX_JSON_BYTES, MAX_BYTES - n_bytes))
            n_bytes += len(content)
            comparison = restated(result_json.loads(content, JSON))
        except (GithubError, InputError) as error:
            hint = _HINT if isinstance(error, InputError) else error.hint
            problems.append(GithubError(f"{label}: {plain(str(error))}", hint=hint))
            continue
        fetched.append(
            Fetched(
                name=artifact.name,
                key=artifact.key,
                artifact_id=artifact.id,
                comparison=comparison,
            )
        )
    if extra := chosen[MAX_ARTIFACTS:]:
        problems.append(
            GithubError(f"{len(extra)} more artifacts than {MAX_ARTIFACTS} were left out")
        )
    return fetched, problems


def restated(comparison: Comparison) -> Comparison:
    """Return the comparison with outcome, verdict and warnings worded anew from its numbers.

    So that no sentence in our comment is a stranger's. Notices about the files and the command are
    left out, and warnings of kinds that this version does not know; slices whose names are more
    than a word get a number, because they stand in the verdict.
    Raises: GithubError where the numbers contradict each other.
    """
    _refuse_contradictions(comparison)
    comparison = with_names(comparison, _harmless_names(comparison))
    of_metric = {difference.metric: difference for difference in comparison.differences}
    min_queries = comparison.settings.get(*_MIN_QUERIES)
    if not isinstance(min_queries, int) or min_queries < 1:
        min_queries = _MIN_QUERIES[1]
    parts = slices.by_name(comparison.slices)
    verdicts = tuple(
        gate.judge(
            gate.Gate(metric=Metric.parse(old.metric), margin=old.margin, slice=old.slice),
            replace(
                parts[old.slice].of(old.metric) if old.slice else of_metric[old.metric],
                low=old.low,
                high=old.high,
                level=old.level,
            ),
            min_queries=min_queries,
        )
        for old in comparison.gates
    )
    first = verdicts[0].metric if verdicts else comparison.primary
    conclusion = gate.conclude(of_metric[first], verdicts, min_queries=min_queries)
    codes = dict.fromkeys(caution.code for caution in comparison.cautions)
    return replace(
        comparison,
        outcome=conclusion.outcome,
        finding=conclusion.finding,
        verdict=conclusion.sentence,
        primary=conclusion.metric,
        slices=slices.judged(
            comparison.slices, of_metric[conclusion.metric], min_queries=min_queries
        ),
        gates=verdicts,
        cautions=tuple(
            Caution(code=code, message=CODES[code], advice="") for code in codes if code in CODES
        ),
        ignored=tuple(code for code in dict.fromkeys(comparison.ignored) if code in CODES),
        evalset=replace(comparison.evalset, notices=()),
        command="",
    )


def _refuse_contradictions(comparison: Comparison) -> None:
    """Raise GithubError for means, differences and counts that are not those of the queries."""
    rows_of: dict[gate.SliceName, list[QueryRow]] = {}
    for row in comparison.queries:
        for name in row.slice_names:
            rows_of.setdefault(name, []).append(row)
    parts = slices.by_name(comparison.slices)
    for d, rows in [
        *((d, comparison.queries) for d in comparison.differences),
        *((d, rows_of.get(name, ())) for name, part in parts.items() for d in part.differences),
    ]:
        pairs = [(row.a[d.metric], row.b[d.metric]) for row in rows]
        a = [x for x, y in pairs if x is not None and y is not None]
        b = [y for x, y in pairs if x is not None and y is not None]
        said = (d.mean_a, d.mean_b, d.difference)
        mean_a, mean_b = math.fsum(a) / max(len(a), 1), math.fsum(b) / max(len(b), 1)
        true = (mean_a, mean_b, mean_b - mean_a)
        is_same = all(abs(x - y) < 1e-6 for x, y in zip(said, true, strict=True))
        if not is_same or d.n_queries != len(a) or not d.low <= d.difference <= d.high:
            raise GithubError(f"its numbers for {d.metric} contradict each other")
    for old in comparison.gates:
        if not old.low <= old.difference <= old.high:
            raise GithubError(f"its numbers for the gate on {old.metric} contradict each other")


def _harmless_names(comparison: Comparison) -> dict[gate.SliceName, gate.SliceName]:
    """Return other names for slices whose own could be read as a sentence of ours."""
    names = {}
    for number, sliced in enumerate(comparison.slices, start=1):
        field = sliced.field if _WORD.fullmatch(sliced.field) else f"field {number}"
        for place, part in enumerate(sliced.slices, start=1):
            own = gate.SliceName(field=sliced.field, value=part.value)
            is_known = part.value in slices.BUILT_IN.get(sliced.field, ())
            value = own.value if is_known or _WORD.fullmatch(own.value) else f"slice {place}"
            names[own] = gate.SliceName(field=field, value=value)
    return names


_WORD = re.compile(r"[\w.+-]{1,40}")


class _Artifact(BaseModel):
    class Origin(BaseModel):
        id: Number | None = None
        head_sha: Commit | None = None

    id: Number
    name: Annotated[str, Field(min_length=1, max_length=1000)]
    expired: bool
    workflow_run: Origin | None = None

    @property
    def key(self) -> str:
        return re.sub(r"\.attempt-[0-9]{1,18}$", "", self.name)


_LIST = "artifacts"
_ARTIFACT = TypeAdapter(_Artifact)
_MIN_QUERIES = ("min-queries", Settings.model_fields["min_queries"].default)


def _chosen(listed: Iterable[_Artifact], run: Run, name: str) -> list[_Artifact]:
    """Return the run's artifacts of the name, of several attempts the last, in order of name."""
    newest: dict[str, _Artifact] = {}
    for artifact in sorted(listed, key=lambda artifact: artifact.id):
        origin = artifact.workflow_run
        is_of_run = origin and origin.id == run.id and origin.head_sha == run.commit
        is_named = artifact.name == name or artifact.name.startswith(f"{name}.")
        if is_of_run and is_named and not artifact.expired:
            newest[artifact.key] = artifact
    return [newest[key] for key in sorted(newest)]


def _download(
    api: Api, client: httpx.Client, artifact_id: int, mask: Callable[[str], None]
) -> bytes:
    """Return an artifact's zip. Raises: GithubError."""
    problem = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            api.wait(float(2 ** (attempt - 1)), problem)
        url = _address(api, artifact_id, mask)  # asked for each time: it holds for a minute
        try:
            return _content(client, url)
        except _Passing as error:
            problem = str(error)
    raise GithubError(f"{problem}, {ATTEMPTS} times")


class _Passing(GithubError):
    """The same request may be answered later."""


def _address(api: Api, artifact_id: int, mask: Callable[[str], None]) -> httpx.URL:
    """Return the signed address of a zip, its signature hidden in the log. Raises: GithubError."""
    answer = api.request("GET", api.path(f"actions/artifacts/{artifact_id}/zip"), wanted=(302,))
    text = answer.headers.get("location", "")
    mask_signature(text, mask)
    url = httpx.URL(text)  # the client has read it before: what is none never comes here
    if url.scheme not in ("https", api.scheme) or not url.host:
        raise GithubError("GitHub redirects to no address that can be used")
    return url


def _content(client: httpx.Client, url: httpx.URL) -> bytes:
    """Return what an address of the store holds; no error names the address, which is a key."""
    request = client.build_request(
        "GET", url, headers={"Accept-Encoding": "identity"}, timeout=_TIMEOUT
    )
    request.headers.pop("Authorization", None)
    content = bytearray()
    try:
        sent = client.send(request, auth=None, stream=True, follow_redirects=False)
        with closing(sent) as response:
            if response.status_code in _PASSING:
                raise _Passing(f"the artifact store answered {response.status_code}")
            if response.status_code != 200:
                raise GithubError(f"the artifact store answered {response.status_code}")
            for piece in response.iter_raw():
                content += piece
                if len(content) > MAX_ZIP_BYTES:
                    raise GithubError(f"it has more than {MAX_ZIP_BYTES:,} bytes")
    except httpx.RequestError as error:
        raise _Passing(f"the artifact store: {type(error).__name__}") from None
    return bytes(content)


class _Zip(io.BytesIO):
    """A zip in memory, whose table of contents is not read whole however long it is."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _MAX_CONTENTS:
            raise zipfile.BadZipFile("its table of contents is too long")
        return super().read(size)


def _result_of(archive: bytes, max_bytes: int) -> bytes:
    """Return the one result file at the top of a zip; nothing else in it is looked at.

    Raises: GithubError.
    """
    try:
        with zipfile.ZipFile(_Zip(archive)) as opened:
            found = [entry for entry in opened.infolist() if entry.filename == JSON]
            if len(found) != 1:
                raise GithubError(f"it holds {len(found)} files named {JSON}, not one", hint=_HINT)
            if found[0].flag_bits & _ENCRYPTED or found[0].compress_type not in _METHODS:
                raise GithubError(f"{JSON} is encrypted or compressed in another way than Deflate")
            content = bytearray()
            with opened.open(found[0]) as file:
                while piece := file.read(_PIECE):
                    content += piece
                    if len(content) > max_bytes:
                        raise GithubError(f"{JSON} has more than {max_bytes:,} bytes")
            return bytes(content)
    except _FROM_A_ZIP as error:
        reason = shorten(plain(str(error)), 100) or "it ends too soon"
        raise GithubError(f"it is no zip that can be read: {reason}", hint=_HINT) from None


def _shown(name: str) -> str:
    return shorten(plain(name), 100)
