"""Models of the hub in the runner's cache service, so that a run need not ask the hub for them.

An entry is one file: a line of JSON that lists what follows, then the bytes of the model's files,
end to end. A file's name in the hub's cache folder is the hash of its bytes, as the hub has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO

import httpx
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from embed_ab.action.cache_service import Restored, Saved, forbidden, restore, save
from embed_ab.action.results_service import Runtime
from embed_ab.errors import GithubError, InputError
from embed_ab.formats import plain, shorten
from embed_ab.providers.cross_encoder import CrossEncoderReranker
from embed_ab.providers.model_files import hub_place, is_commit, not_fetched
from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder
from embed_ab.settings import Settings

MAX_BYTES = 4 * 1024**3
HERE = "the model is here already"
_PREFIX = "embed-ab-model-v1-"
_FORMAT = "list of files, then their bytes, 1"
_MAX_FILES, _MAX_LIST_BYTES, _MAX_PATH = 1_000, 1_000_000, 300
_PIECE = 1024 * 1024
_PRIVATE = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH",
    "HF_OIDC_RESOURCE",
    "HF_ENDPOINT",
)
# Nothing that came from a cache may run code, whatever the user allows the hub's files to do.
_NOT_KEPT = not_fetched(remote_code=False, pickle=False)


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """A model of the hub. reason: why it is not kept, or "".

    revisions: all that a comparison asks for, because they share files.
    """

    name: str
    revisions: tuple[str, ...]
    reason: str = ""

    @property
    def is_pinned(self) -> bool:
        """Return whether only commits are asked for, which never mean something else later."""
        return all(map(is_commit, self.revisions))


_Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
_Hash = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]


class _Listed(BaseModel):
    """What an entry holds: `blobs` are the files by hash, with their sizes, as they follow."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    commits: dict[str, _Commit]
    snapshots: dict[_Commit, dict[str, _Hash]]
    blobs: dict[_Hash, Annotated[int, Field(ge=0)]]


_MODELS: dict[str, type[SentenceTransformerEmbedder] | type[CrossEncoderReranker]] = {
    "st": SentenceTransformerEmbedder,
    "ce": CrossEncoderReranker,
}


def models_of(settings: Settings, environ: Mapping[str, str]) -> list[HubModel]:
    """Return the models of the hub that a comparison uses, each once."""
    revisions: dict[str, set[str]] = {}
    reasons: dict[str, str] = {}
    # Pull requests from forks read the repository's caches.
    private = next((key for key in _PRIVATE if environ.get(key)), "")
    sides = (("A", settings.model_a), ("B", settings.model_b))
    for label, spec in ((label, leaf) for label, side in sides if side for leaf in side.leaves):
        make = _MODELS.get(spec.provider)
        if make is None:
            continue
        revision = spec.options.get("revision")
        try:
            name = make(spec.name, revision=revision).hub_name
        except (InputError, OSError):  # the comparison will say so
            continue
        if not name:
            continue
        revisions.setdefault(name, set()).add(revision or "main")
        side = settings.side(label)
        if private:
            reasons[name] = f"with {private} a model may be one that not everybody may have"
        elif str(spec) in (*side.trust_remote_code, *side.allow_pickle):
            reasons[name] = "a model that may run code comes from the hub alone"
        elif not _is_path(revision or "main"):
            reasons[name] = "its revision is no name of a branch, tag or commit"
    return [
        HubModel(name=name, revisions=tuple(sorted(found)), reason=reasons.get(name, ""))
        for name, found in revisions.items()
    ]


def restore_model(
    client: httpx.Client,
    runtime: Runtime,
    model: HubModel,
    *,
    folder: Path,
    clock: Callable[[], datetime],
    max_bytes: int = MAX_BYTES,
) -> Restored:
    """Bring a model into the hub's cache folder, where it is not yet; all of it or nothing.

    After an exact hit the model can be loaded offline. An entry of an earlier week brings files,
    but not which of them are the model's: the hub says that, and need not send those again.
    Raises: GithubError if the service fails or the folder cannot be written.
    """
    place = folder / hub_place(model.name)
    if model.reason:
        return Restored(reason=model.reason)
    key, restore_keys = _keys(model, clock())
    try:
        if place.exists():
            return Restored(reason=HERE)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".embed-ab-") as scratch:
            packed, stage = Path(scratch) / "model", Path(scratch) / "stage"
            restored = restore(
                client,
                runtime,
                key,
                restore_keys,
                _version(),
                packed,
                max_bytes=max_bytes,
                check=lambda arrived: _fault(arrived, model),
            )
            if restored.matched_key:
                _unpack(packed, stage, is_whole=restored.is_exact)
                stage.rename(place)
    except OSError as error:
        raise GithubError(f"{_shown(model)} cannot be restored: {error.strerror}") from None
    return restored


def save_model(
    client: httpx.Client,
    runtime: Runtime,
    model: HubModel,
    restored: Restored,
    *,
    folder: Path,
    clock: Callable[[], datetime],
    max_bytes: int = MAX_BYTES,
) -> Saved:
    """Keep what the hub's client has downloaded of a model; call it once the model has been used.

    restored: what `restore_model` said; it decides whether there is anything new to keep.
    Raises: GithubError if the service fails or the model cannot be read.
    """
    if restored.is_exact:
        return Saved(reason="the cache has it already")
    # What was here before may be incomplete, or older than this week.
    reason = model.reason or (HERE if restored.reason == HERE else "")
    if reason := reason or forbidden(runtime, {"read", "none"}):
        return Saved(reason=reason)
    place = folder / hub_place(model.name)
    try:
        listed, fault = _list(place, model)
        if listed is None:
            return Saved(reason=fault)
        n_bytes = sum(listed.blobs.values())
        if n_bytes > max_bytes:
            return Saved(reason=f"{n_bytes:,} bytes are more than the {max_bytes:,} to keep")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".embed-ab-") as scratch:
            packed = Path(scratch) / "model"
            _pack(place, listed, packed)
            if fault := _fault(packed, model):
                return Saved(reason=fault)
            key, _ = _keys(model, clock())
            return save(client, runtime, key, _version(), packed, max_bytes=max_bytes)
    except OSError as error:
        raise GithubError(f"{_shown(model)} cannot be kept: {error.strerror}") from None


def _keys(model: HubModel, now: datetime) -> tuple[str, tuple[str, ...]]:
    """Return the key of a model, and beginnings of others that help.

    A branch or tag can move, so what it is counts for a week.
    """
    chosen = hashlib.sha256(json.dumps([model.name, model.revisions]).encode()).hexdigest()[:32]
    key = f"{_PREFIX}{chosen}"
    if model.is_pinned:
        return key, ()
    year, week, _ = now.isocalendar()
    return f"{key}-{year}-W{week:02}", (f"{key}-",)


def _version() -> str:
    """Return the version of the cache's entries: a hash of the format and of what is left out."""
    return hashlib.sha256(json.dumps([_FORMAT, _NOT_KEPT]).encode()).hexdigest()


def _list(place: Path, model: HubModel) -> tuple[_Listed | None, str]:
    """Return what the hub's client has of a model, or why that cannot be kept."""
    if any((place / "blobs").glob("*.incomplete")):
        return None, "a download of it was not finished"
    commits = {}
    for revision in model.revisions:
        ref = place / "refs" / revision
        commit = ref.read_text("utf-8", "replace").strip() if ref.is_file() else revision
        if not is_commit(commit) or not (place / "snapshots" / commit).is_dir():
            return None, "there is nothing to keep"
        commits[revision] = commit
    snapshots: dict[str, dict[str, str]] = {commit: {} for commit in commits.values()}
    blobs = {}
    for commit, files in snapshots.items():
        for path, link in _files(place / "snapshots" / commit):
            if any(fnmatchcase(path, pattern) for pattern in _NOT_KEPT):
                continue
            blob = _blob_of(link, place)
            if blob is None:
                return None, "its files are not links to files of the hub's cache folder"
            files[path] = blob.name
            blobs[blob.name] = blob.stat().st_size
    try:
        return _Listed(commits=commits, snapshots=snapshots, blobs=blobs), ""
    except ValidationError:
        return None, "the hub's names for its files are no hashes"


def _files(snapshot: Path) -> Iterator[tuple[str, Path]]:
    """Yield path and place of all files; folders that are links are not entered."""
    for parent, _, names in os.walk(snapshot):
        for name in names:
            file = Path(parent) / name
            yield file.relative_to(snapshot).as_posix(), file


def _blob_of(link: Path, place: Path) -> Path | None:
    """Return the file in the model's blobs that a link names, if its bytes are the hub cache's."""
    if not link.is_symlink():
        return None
    blob = Path(os.path.normpath(link.parent / os.readlink(link)))
    # A blob can itself be a link to one that several models share, beside the models' folders.
    homes = [place / "blobs", place.parent / "blobs"]
    is_ours = any(blob.resolve().is_relative_to(home.resolve()) for home in homes)
    is_named = blob.parent == Path(os.path.normpath(place / "blobs"))
    return blob if is_named and is_ours and blob.is_file() else None


def _pack(place: Path, listed: _Listed, packed: Path) -> None:
    with packed.open("wb") as file:
        file.write(listed.model_dump_json().encode() + b"\n")
        for name in listed.blobs:
            with (place / "blobs" / name).open("rb") as blob:
                shutil.copyfileobj(blob, file, _PIECE)


def _unpack(packed: Path, place: Path, *, is_whole: bool) -> None:
    """Lay out a sound entry as the hub's client does, with or without what says which files count.

    Each blob becomes a file of its own; all names were checked before.
    """
    with packed.open("rb") as file:
        listed = _Listed.model_validate_json(file.readline())
        (place / "blobs").mkdir(parents=True)
        for name, n_bytes in listed.blobs.items():
            with (place / "blobs" / name).open("xb") as blob:
                for piece in _pieces(file, n_bytes):
                    blob.write(piece)
    if not is_whole:
        return
    for commit, files in listed.snapshots.items():
        for path, blob_name in files.items():
            link = place / "snapshots" / commit / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(place / "blobs" / blob_name, link.parent))
    for revision, commit in listed.commits.items():
        if revision != commit:
            ref = place / "refs" / revision
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(commit)


def _fault(packed: Path, model: HubModel) -> str:
    """Return what is wrong with an entry, or "": any workflow may have written it."""
    with packed.open("rb") as file:
        line = file.readline(_MAX_LIST_BYTES)
        try:
            listed = _Listed.model_validate_json(line)
        except ValidationError:
            return "it is no packed model"
        if not line.endswith(b"\n"):
            return "its list of files is too long"
        if fault := _wrong_list(listed, model):
            return fault
        if len(line) + sum(listed.blobs.values()) != packed.stat().st_size:
            return "its size is not that of its files"
        for name, n_bytes in listed.blobs.items():
            # As git names a small file, and as its large file storage does.
            digest = hashlib.sha256() if len(name) == 64 else _git_digest(n_bytes)
            for piece in _pieces(file, n_bytes):
                digest.update(piece)
            if digest.hexdigest() != name:
                return "the bytes of a file are not those that its name says"
    return ""


def _wrong_list(listed: _Listed, model: HubModel) -> str:
    """Return what is wrong with a list of files, or ""."""
    if set(listed.commits) != set(model.revisions) or any(
        is_commit(revision) and commit != revision for revision, commit in listed.commits.items()
    ):
        return "it is of other revisions"
    if set(listed.snapshots) != set(listed.commits.values()):
        return "its commits are not those of its revisions"
    if set(chain(*(files.values() for files in listed.snapshots.values()))) != set(listed.blobs):
        return "its list names other files than those that follow"
    if sum(map(len, listed.snapshots.values())) > _MAX_FILES:
        return f"it has more than {_MAX_FILES:,} files"
    for files in listed.snapshots.values():
        if not all(map(_is_path, files)):
            return "a file's name is not one of a model's file"
        # Neither twice where case does not count, nor as file and folder at once.
        names = [path.casefold() for path in files]
        folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
        if len(set(names)) < len(names) or folders & set(names):
            return "two files have one name"
        if any(fnmatchcase(name, pattern) for name in names for pattern in _NOT_KEPT):
            return "it holds code, pickles or files for other runtimes"
        if any(name.endswith("adapter_config.json") for name in names):
            return "it is an adapter, which needs another model beside it"
    return ""


def _is_path(text: str) -> bool:
    """Return whether a text is a plain relative path."""
    return len(text) <= _MAX_PATH and all(
        part not in ("", ".", "..") and part.isprintable() and not set(part) & set('\\:"<>|*?')
        for part in text.split("/")
    )


def _git_digest(n_bytes: int) -> hashlib._Hash:
    return hashlib.sha1(f"blob {n_bytes}\0".encode(), usedforsecurity=False)


def _pieces(file: BinaryIO, n_bytes: int) -> Iterator[bytes]:
    """Yield the next bytes of a file, a bounded piece at a time; fewer where it ends."""
    while n_bytes and (piece := file.read(min(n_bytes, _PIECE))):
        n_bytes -= len(piece)
        yield piece


def _shown(model: HubModel) -> str:
    return f"model '{shorten(plain(model.name), 100)}'"
