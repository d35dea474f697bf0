"""The store of vectors in the runner's cache service: kept, found again, and only if sound."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from fake_results import FakeResults, Reply, serving

from embed_ab.action import cache_service
from embed_ab.action.cache_service import (
    check_store,
    restore_store,
    save_store,
    store_key,
    store_version,
)
from embed_ab.action.results_service import Runtime, runtime_of
from embed_ab.errors import GithubError
from embed_ab.providers.base import Embedded, ModelFacts
from embed_ab.providers.cache import FILE_NAME, VectorStore

KEY = store_key(["model a", "model b"], "texts of today", "1-1")
LATER = store_key(["model a", "model b"], "texts of tomorrow", "2-1")


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


@pytest.fixture
def runtime(fake: FakeResults) -> Runtime:
    return join(fake)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one vector and one model's facts."""
    folder = tmp_path / "store"
    with closing(VectorStore.open(folder)) as opened:
        fill(opened)
    return folder / FILE_NAME


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "restored" / FILE_NAME


def fill(store: VectorStore) -> None:
    vectors = np.array([[0.5, -2.0]], dtype=np.float32)
    embedded = Embedded(vectors=vectors, n_tokens=np.array([3], dtype=np.int64))
    store.put("model a", "document", "", ["a text"], embedded)
    store.save_facts("model a", {}, ModelFacts(dimension=2, max_length=512, details={"a": "b"}))


def known(path: Path) -> list[list[float]]:
    """Vectors of the text that `fill` puts into a store, as a comparison reads them."""
    with closing(VectorStore.open(path.parent)) as store:
        found = store.get("model a", "document", "", ["a text"], dimension=2)
        return found.vectors[found.is_found].tolist()


# Kept and found again


def test_a_kept_store_is_restored_with_its_vectors(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path, target: Path
) -> None:
    saved = save_store(client, runtime, KEY.key, store)
    restored = restore_store(client, runtime, KEY, target)

    assert saved.is_saved
    assert (restored.matched_key, restored.is_exact) == (KEY.key, True)
    assert restored.n_bytes == saved.n_bytes == target.stat().st_size
    assert known(target) == [[0.5, -2.0]]
    assert fake.refusals == []


def test_other_texts_start_from_the_newest_store_of_the_models(
    client: httpx.Client, runtime: Runtime, store: Path, target: Path
) -> None:
    save_store(client, runtime, KEY.key, store)

    restored = restore_store(client, runtime, LATER, target)

    assert (restored.matched_key, restored.is_exact) == (KEY.key, False)


def test_other_models_start_from_any_store(
    client: httpx.Client, runtime: Runtime, store: Path, target: Path
) -> None:
    """The one that stays the same keeps its vectors."""
    save_store(client, runtime, KEY.key, store)

    restored = restore_store(client, runtime, store_key(["model a", "model c"], "t", "1"), target)

    assert restored.matched_key == KEY.key


def test_what_another_process_still_writes_is_kept_too(
    client: httpx.Client, runtime: Runtime, tmp_path: Path, target: Path
) -> None:
    """Fresh rows are in a file beside the database until its last reader leaves."""
    with closing(VectorStore.open(tmp_path)) as opened:
        fill(opened)
        save_store(client, runtime, KEY.key, tmp_path / FILE_NAME)

    restore_store(client, runtime, KEY, target)

    assert known(target) == [[0.5, -2.0]]


def test_an_empty_cache_is_no_fault(client: httpx.Client, runtime: Runtime, target: Path) -> None:
    restored = restore_store(client, runtime, KEY, target)

    assert restored.reason == "the cache has nothing of this kind"
    assert not target.parent.exists()


def test_a_pull_request_reads_the_default_branch_and_not_its_sibling(
    fake: FakeResults, client: httpx.Client, store: Path, target: Path
) -> None:
    first, second = (
        join(
            fake,
            job=f"job-{number}",
            reads=(f"refs/pull/{number}/merge", "refs/heads/main"),
            writes=f"refs/pull/{number}/merge",
        )
        for number in (1, 2)
    )
    save_store(client, first, KEY.key, store)

    assert restore_store(client, second, KEY, target).reason
    save_store(client, join(fake, job="push"), LATER.key, store)
    assert restore_store(client, second, KEY, target).matched_key == LATER.key


def test_an_entry_of_another_version_is_not_found(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path, target: Path
) -> None:
    save_store(client, runtime, KEY.key, store)
    fake.entries[0].version = "0" * 64

    assert restore_store(client, runtime, KEY, target).matched_key == ""


def test_a_store_that_is_there_is_left_alone(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path
) -> None:
    restored = restore_store(client, runtime, KEY, store)

    assert restored.reason == "there is a store of vectors here already"
    assert fake.requests == []


def test_nothing_is_restored_beside_an_older_journal(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, target: Path
) -> None:
    """SQLite would play it into the store that arrives."""
    target.parent.mkdir()
    target.with_name(f"{FILE_NAME}-wal").write_bytes(b"old")

    assert restore_store(client, runtime, KEY, target).reason
    assert fake.requests == []


def test_a_store_that_cannot_be_copied_is_an_error(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).write_text("no database, and long enough to be seen as none" * 99)

    with pytest.raises(GithubError, match="cannot be copied"):
        save_store(client, runtime, KEY.key, tmp_path / FILE_NAME)
    assert fake.requests == []


def test_without_a_store_nothing_is_kept(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, tmp_path: Path
) -> None:
    saved = save_store(client, runtime, KEY.key, tmp_path / "absent")

    assert saved.reason == "there is no store of vectors to keep"
    assert fake.requests == []


# Keys


def test_keys_depend_on_the_models_in_any_order() -> None:
    assert store_key(["a", "b"], "t", "1") == store_key(["b", "a"], "t", "1")


def test_keys_depend_on_the_texts() -> None:
    assert KEY.key != LATER.key
    assert KEY.restore_keys[0] != LATER.restore_keys[0]
    assert KEY.restore_keys[1:] == LATER.restore_keys[1:]


def test_the_restore_keys_begin_the_key() -> None:
    assert all(KEY.key.startswith(beginning) for beginning in KEY.restore_keys)


def test_the_version_is_a_hash() -> None:
    assert len(store_version()) == 64
    assert store_version() == store_version()


@pytest.mark.parametrize("key", ["", "a,b", "x" * 513])
def test_a_key_that_the_service_refuses_is_not_sent(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path, key: str
) -> None:
    with pytest.raises(GithubError, match="cannot be a key"):
        save_store(client, runtime, key, store)
    assert fake.requests == []


# What is normal


def test_a_key_that_another_job_wrote_is_no_fault(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path
) -> None:
    save_store(client, runtime, KEY.key, store)

    saved = save_store(client, runtime, KEY.key, store)

    assert (saved.is_saved, saved.reason) == (False, "another job keeps the same already")
    assert len(fake.entries) == 1


def test_a_read_only_token_is_no_fault(
    fake: FakeResults, client: httpx.Client, store: Path
) -> None:
    saved = save_store(client, join(fake, writes=""), KEY.key, store)

    assert not saved.is_saved
    assert "cache write denied: the token is read-only" in saved.reason


def test_a_token_that_may_not_read_is_no_fault(
    fake: FakeResults, client: httpx.Client, target: Path
) -> None:
    restored = restore_store(client, join(fake, reads=()), KEY, target)

    assert "cache read denied: no readable scope" in restored.reason


@pytest.mark.parametrize(
    ("mode", "reads", "writes"),
    [
        ("", True, True),
        ("write", True, True),
        ("read", True, False),
        ("write-only", False, True),
        ("none", False, False),
        ("of tomorrow", True, True),
    ],
)
def test_the_runner_s_mode_is_kept(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    store: Path,
    target: Path,
    mode: str,
    reads: bool,
    writes: bool,
) -> None:
    runtime = replace(runtime, cache_mode=mode)

    saved = save_store(client, runtime, KEY.key, store)
    restore_store(client, runtime, KEY, target)

    assert saved.is_saved == writes
    assert ("GetCacheEntryDownloadURL" in fake.calls()) == reads


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"404 page not found"),
        (405, b""),
        (501, b"<html>"),
        (404, b'{"code": "bad_route", "msg": "no handler"}'),
        (501, b'{"code": "unimplemented", "msg": "no such method"}'),
    ],
)
def test_a_server_without_a_cache_service_is_no_fault(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    store: Path,
    target: Path,
    status: int,
    body: bytes,
) -> None:
    for call in ("CreateCacheEntry", "GetCacheEntryDownloadURL"):
        fake.fail(call, Reply(status=status, body=body))

    saved = save_store(client, runtime, KEY.key, store)
    restored = restore_store(client, runtime, KEY, target)

    assert saved.reason == restored.reason == "there is no cache service here"
    assert len(fake.requests) == 2


def test_a_rate_limit_is_not_waited_for(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, target: Path
) -> None:
    fake.fail("GetCacheEntryDownloadURL", Reply(status=429, body=b"{}"))

    assert "limits the rate" in restore_store(client, runtime, KEY, target).reason
    assert len(fake.requests) == 1


def test_a_service_that_stays_down_is_an_error(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, target: Path
) -> None:
    for _ in range(5):
        fake.fail("GetCacheEntryDownloadURL", Reply(status=503, body=b"{}"))

    with pytest.raises(GithubError, match="503"):
        restore_store(client, runtime, KEY, target)
    assert not target.exists()


def test_an_entry_that_was_not_asked_for_is_refused(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, target: Path
) -> None:
    body = b'{"ok": true, "matched_key": "other", "signed_download_url": "http://b.example/x"}'
    fake.fail("GetCacheEntryDownloadURL", Reply(status=200, body=body))

    with pytest.raises(GithubError, match="not asked for"):
        restore_store(client, runtime, KEY, target)


@pytest.mark.parametrize("call", ["CreateCacheEntry", "FinalizeCacheEntryUpload"])
def test_a_lost_answer_while_keeping_ends_well_or_with_a_reason(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path, call: str
) -> None:
    fake.fail(call, is_carried_out=True)

    assert save_store(client, runtime, KEY.key, store).reason == (
        "another job keeps the same already"
    )


# Sizes


def test_a_large_store_is_not_kept(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path
) -> None:
    saved = save_store(client, runtime, KEY.key, store, max_bytes=1000)

    assert "more than the 1,000 to keep" in saved.reason
    assert fake.requests == []


def test_a_large_entry_is_not_restored_and_leaves_nothing(
    client: httpx.Client, runtime: Runtime, store: Path, target: Path
) -> None:
    save_store(client, runtime, KEY.key, store)

    with pytest.raises(GithubError, match="more than 1,000 bytes"):
        restore_store(client, runtime, KEY, target, max_bytes=1000)
    assert list(target.parent.iterdir()) == []


def test_keeping_leaves_nothing_behind(client: httpx.Client, runtime: Runtime, store: Path) -> None:
    save_store(client, runtime, KEY.key, store)

    assert [path.name for path in store.parent.iterdir()] == [FILE_NAME]


# Trust: any workflow that can write to the branch may have written the entry


def sql(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return change


def overwrite(offset: int, content: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(content)

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9000])


WRONG: dict[str, Callable[[Path], None]] = {
    "a text": lambda path: path.write_text("vectors") and None,
    "nothing": lambda path: path.write_bytes(b"") and None,
    "a header alone": lambda path: path.write_bytes(b"SQLite format 3\0") and None,
    "another program's": sql("PRAGMA application_id = 1"),
    "another version's": sql("PRAGMA user_version = 2"),
    "one with another table": sql("CREATE TABLE more (a)"),
    "one with a trigger": sql(
        "CREATE TRIGGER t AFTER UPDATE ON vectors BEGIN DELETE FROM facts; END"
    ),
    "one with a view in a table's place": sql(
        "DROP TABLE facts", "CREATE VIEW facts AS SELECT key, 'x' AS facts FROM vectors"
    ),
    "one without a table": sql("DROP TABLE facts"),
    "one that is cut": cut,
    "one with a damaged page": overwrite(4096, b"\xff" * 4096),
    "one with a wrong list of free pages": overwrite(36, b"\0\0\0\5"),
    "one whose key is a text": sql("UPDATE vectors SET key = 'k'"),
    "one whose key is null": sql("UPDATE vectors SET key = NULL"),
    "one whose vector is a text": sql("UPDATE vectors SET vector = '12345678'"),
    "one whose vector is a number": sql("UPDATE vectors SET vector = 12345678"),
    "one whose vector is empty": sql("UPDATE vectors SET vector = x''"),
    "one whose vector is no whole number of floats": sql("UPDATE vectors SET vector = x'0011'"),
    "one whose vector is NaN": sql("UPDATE vectors SET vector = x'0000c07f0000803f'"),
    "one whose vector is infinite": sql("UPDATE vectors SET vector = x'0000807f0000803f'"),
    "one whose vector is zero": sql("UPDATE vectors SET vector = zeroblob(8)"),
    "one whose count is a text": sql("UPDATE vectors SET n_tokens = 'many'"),
    "one whose count is negative": sql("UPDATE vectors SET n_tokens = -5"),
    "one whose checksum is a text": sql("UPDATE vectors SET checksum = 'x'"),
    "one whose day is a text": sql("UPDATE vectors SET used_on = 'today'"),
    "one whose facts are no JSON": sql("UPDATE facts SET facts = 'x'"),
    "one whose facts are a blob": sql("UPDATE facts SET facts = CAST(facts AS BLOB)"),
    "one whose dimension is a text": sql(
        """UPDATE facts SET facts = '{"dimension": "2", "details": {}}'"""
    ),
    "one whose dimension is 0": sql("""UPDATE facts SET facts = '{"dimension":0,"details":{}}'"""),
    "one whose dimension is huge": sql(
        """UPDATE facts SET facts = '{"dimension":99999999999,"details":{}}'"""
    ),
    "one whose facts lack a field": sql("UPDATE facts SET facts = '{}'"),
    "one whose facts are deep": sql(
        "UPDATE facts SET facts = replace(hex(zeroblob(50000)), '0', '[')"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_store_that_is_not_sound_is_dropped(
    fake: FakeResults,
    client: httpx.Client,
    runtime: Runtime,
    store: Path,
    target: Path,
    name: str,
) -> None:
    save_store(client, runtime, KEY.key, store)
    WRONG[name](store)
    fake.entries[0].blob.content = store.read_bytes()

    restored = restore_store(client, runtime, KEY, target)

    assert restored.matched_key == ""
    assert f"the cache's entry {KEY.key} is not used: " in restored.reason
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_store_is_dropped_or_can_be_read(store: Path, seed: int) -> None:
    """Whatever bytes change, neither the check nor a later reader crashes."""
    draw = np.random.default_rng(seed)
    content = bytearray(store.read_bytes())
    for place in draw.integers(0, len(content), size=draw.integers(1, 40)):
        content[place] = draw.integers(0, 256)
    store.write_bytes(content)

    if not check_store(store):
        with closing(VectorStore.open(store.parent)) as opened:
            opened.get("model a", "document", "", ["a text"], dimension=2)
            opened.facts("model a", {})


def test_what_a_bad_entry_says_stays_on_one_line(
    fake: FakeResults, client: httpx.Client, runtime: Runtime, store: Path, target: Path
) -> None:
    """Its key ends in what its writer chose."""
    hostile = f"{KEY.restore_keys[0]}x\n::error::y"
    save_store(client, runtime, hostile, store)
    fake.entries[0].blob.content = b"no store"

    reason = restore_store(client, runtime, KEY, target).reason

    assert reason.endswith("x ::error::y is not used: it is not an SQLite database")


def test_a_sound_store_passes(store: Path) -> None:
    assert check_store(store) == ""


def test_a_check_changes_nothing_and_leaves_nothing(store: Path) -> None:
    before = store.read_bytes()

    check_store(store)

    assert store.read_bytes() == before
    assert [path.name for path in store.parent.iterdir()] == [FILE_NAME]


def test_any_file_can_be_kept(client: httpx.Client, runtime: Runtime, tmp_path: Path) -> None:
    """Other things than stores of vectors bring their own version and check."""
    (tmp_path / "file").write_bytes(b"weights")

    cache_service.save(client, runtime, "model-1", "v1", tmp_path / "file", max_bytes=100)
    restored = cache_service.restore(
        client, runtime, "model-1", [], "v1", tmp_path / "back", max_bytes=100,
        check=lambda path: "" if path.read_bytes() == b"weights" else "other weights",
    )  # fmt: skip

    assert restored.is_exact
    assert (tmp_path / "back").read_bytes() == b"weights"
