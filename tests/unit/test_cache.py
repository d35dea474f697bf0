"""The store of vectors, and embedding through it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab.errors import EmbedAbError, InputError, ProviderError
from embed_ab.providers.base import Embedded, ModelFacts, Role, Vectors
from embed_ab.providers.cache import (
    FILE_NAME,
    VectorStore,
    cache_folder,
    clear_store,
)
from embed_ab.providers.embed import embed_cached, known_facts, normalised
from embed_ab.providers.mock import MockEmbedder

DAY = 86400.0


@dataclass
class Scripted:
    """A provider that gives the vectors it was told to give, and notes what it was asked."""

    vectors: dict[str, list[float]]
    name: str = "scripted"
    fingerprint: str = "scripted"
    prompts: Mapping[Role, str] = field(default_factory=dict)
    n_tokens: dict[str, int] | None = None
    dimension: int = 2
    asked: list[list[str]] = field(default_factory=list)
    n_facts: int = 0

    def facts(self) -> ModelFacts:
        self.n_facts += 1
        return ModelFacts(
            dimension=self.dimension,
            query_prompt=self.prompts.get("query", "q: "),
            document_prompt=self.prompts.get("document", ""),
            details={"dtype": "float32"},
        )

    def embed(self, texts: Sequence[str], role: Role) -> Embedded:
        self.asked.append(list(texts))
        counts = None
        if self.n_tokens is not None:
            counts = np.array([self.n_tokens[text] for text in texts], dtype=np.int64)
        rows = [self.vectors[text] for text in texts if text in self.vectors]
        return Embedded(vectors=np.array(rows, dtype=np.float32), n_tokens=counts)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VectorStore]:
    opened = VectorStore.open(tmp_path)
    yield opened
    opened.close()


def put(store: VectorStore, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
    embedded = Embedded(vectors=np.array(vectors, dtype=np.float32))
    store.put("m", "document", "", texts, embedded)


def known(store: VectorStore, *texts: str, dimension: int = 2) -> list[bool]:
    return store.get("m", "document", "", texts, dimension=dimension).is_found.tolist()


def embed(
    embedder: Scripted | MockEmbedder, store: VectorStore, *texts: str, dim: int | None = None
) -> Vectors:
    ids = [f"d{row}" for row in range(1, len(texts) + 1)]
    return embed_cached(embedder, store, texts, ids, "document", dim=dim).vectors


# --- the store ---


def test_a_stored_vector_comes_back_bit_by_bit(store: VectorStore) -> None:
    vector = [0.1, -1e-38]
    store.put(
        "m",
        "query",
        "",
        ["pump"],
        Embedded(vectors=np.array([vector], np.float32), n_tokens=np.array([7])),
    )
    found = store.get("m", "query", "", ["tank", "pump"], dimension=2)

    assert found.is_found.tolist() == [False, True]
    assert found.vectors[1].tobytes() == np.array(vector, np.float32).tobytes()
    assert found.n_tokens.tolist() == [-1, 7]


@pytest.mark.parametrize(
    ("fingerprint", "role", "prompt", "text"),
    [
        ("m2", "document", "", "pump"),
        ("m", "query", "", "pump"),
        ("m", "document", "passage: ", "pump"),
        ("m", "document", "", "pumps"),
        ("m", "document", "pu", "mp"),
    ],
)
def test_model_role_prompt_and_text_are_all_part_of_the_key(
    store: VectorStore, fingerprint: str, role: Role, prompt: str, text: str
) -> None:
    put(store, ["pump"], [[1, 2]])

    assert not store.get(fingerprint, role, prompt, [text], dimension=2).is_found.any()


def test_more_texts_than_one_query_takes_are_all_found(store: VectorStore) -> None:
    texts = [f"t{number}" for number in range(1203)]
    put(store, texts, [[number, 1] for number in range(1203)])
    found = store.get("m", "document", "", texts[::-1], dimension=2)

    assert found.vectors[:, 0].tolist() == list(range(1202, -1, -1))


def test_a_store_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = VectorStore.open(None)
    put(store, ["pump"], [[1, 2]])

    assert known(store, "pump") == [True]
    assert list(tmp_path.iterdir()) == []
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "vector = zeroblob(8)",
        "vector = substr(vector, 1, 4)",
        "n_tokens = 3",
        "checksum = checksum + 1",
    ],
)
def test_a_row_that_was_changed_counts_as_missing(store: VectorStore, change: str) -> None:
    put(store, ["pump", "tank"], [[1, 2], [3, 4]])
    key = store._connection.execute("SELECT key FROM vectors ORDER BY rowid").fetchone()[0]
    store._connection.execute(f"UPDATE vectors SET {change} WHERE key = ?", (key,))

    assert known(store, "pump", "tank") == [False, True]


def test_a_vector_under_another_texts_key_counts_as_missing(store: VectorStore) -> None:
    put(store, ["pump"], [[1, 2]])
    put(store, ["tank"], [[3, 4]])
    rows = store._connection.execute("SELECT key FROM vectors ORDER BY rowid").fetchall()
    store._connection.execute("DELETE FROM vectors WHERE key = ?", rows[1])
    store._connection.execute("UPDATE vectors SET key = ? WHERE key = ?", rows[1] + rows[0])

    assert known(store, "pump", "tank") == [False, False]


def test_vectors_of_another_dimension_count_as_missing(store: VectorStore) -> None:
    put(store, ["pump"], [[1, 2]])

    assert known(store, "pump", dimension=3) == [False]


def test_facts_come_back_equal_and_only_under_the_same_prompts(store: VectorStore) -> None:
    facts = ModelFacts(dimension=2, query_prompt="q: ", max_length=9, details={"dtype": "float16"})
    store.save_facts("m", {"query": "q: "}, facts)

    assert store.facts("m", {"query": "q: "}) == facts
    assert store.facts("m", {}) is None
    assert store.facts("m2", {"query": "q: "}) is None


def test_facts_written_by_another_version_count_as_unknown(store: VectorStore) -> None:
    store.save_facts("m", {}, ModelFacts(dimension=2, details={}))
    store._connection.execute("""UPDATE facts SET facts = '{"dimension": 2, "new": 1}'""")

    assert store.facts("m", {}) is None


def test_info_counts_vectors_models_and_bytes(store: VectorStore, tmp_path: Path) -> None:
    put(store, ["pump", "tank"], [[1, 2], [3, 4]])
    store.save_facts("m", {}, ModelFacts(dimension=2, details={}))
    info = store.info()

    assert (info.path, info.n_vectors) == (tmp_path / FILE_NAME, 2)
    assert info.n_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_clear_empties_the_store(store: VectorStore) -> None:
    put(store, ["pump", "tank"], [[1, 2], [3, 4]])

    assert store.clear() == 2
    assert known(store, "pump", "tank") == [False, False]


def test_prune_deletes_what_was_not_used_for_so_many_days(tmp_path: Path) -> None:
    """Stored on day 100; "tank" is used on day 105; on day 110 those of day 100 were
    not used for 10 days."""
    now = [100 * DAY]
    store = VectorStore.open(tmp_path, clock=lambda: now[0])
    put(store, ["pump", "tank"], [[1, 2], [3, 4]])
    now[0] = 105 * DAY
    known(store, "tank")
    now[0] = 109 * DAY
    n_deleted_on_day_109 = store.prune(older_than_days=10)
    now[0] = 110 * DAY
    n_deleted_on_day_110 = store.prune(older_than_days=10)

    assert (n_deleted_on_day_109, n_deleted_on_day_110) == (0, 1)
    assert known(store, "pump", "tank") == [False, True]
    store.close()


# --- files that are not what they should be ---


def test_a_file_that_is_no_database_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(EmbedAbError, match="damaged") as caught:
        VectorStore.open(tmp_path)

    assert "embed-ab cache clear" in caught.value.hint
    assert "--no-cache" in caught.value.hint


def test_a_file_damaged_in_the_middle_is_an_error_or_a_miss_never_a_wrong_vector(
    tmp_path: Path,
) -> None:
    texts = [f"t{number}" for number in range(400)]
    store = VectorStore.open(tmp_path)
    put(store, texts, [[number, 1] for number in range(400)])
    store.close()
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    for place in range(4096, len(content), 1024):
        content[place : place + 16] = b"\xff" * 16
    path.write_bytes(content)

    store = VectorStore.open(tmp_path)
    with pytest.raises(EmbedAbError, match="damaged") as caught:
        store.get("m", "document", "", texts, dimension=2)
    store.close()

    assert "embed-ab cache clear" in caught.value.hint


def test_clear_store_makes_a_damaged_store_usable(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)

    assert clear_store(tmp_path) == 2100
    store = VectorStore.open(tmp_path)
    put(store, ["pump"], [[1, 2]])
    assert known(store, "pump") == [True]
    store.close()


def test_clear_store_of_a_folder_without_store_frees_nothing(tmp_path: Path) -> None:
    assert clear_store(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()

    for action in (VectorStore.open, clear_store):
        with pytest.raises(EmbedAbError, match="another program"):
            action(tmp_path)
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    assert connection.execute("SELECT count(*) FROM songs").fetchone() == (0,)
    connection.close()


def test_a_store_of_another_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    store = VectorStore.open(tmp_path)
    store._connection.execute("PRAGMA user_version = 99")
    store.close()

    with pytest.raises(EmbedAbError, match="99") as caught:
        VectorStore.open(tmp_path)
    assert "embed-ab cache clear" in caught.value.hint


def test_a_cache_folder_that_is_a_file_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "occupied"
    path.write_text("")
    with pytest.raises(InputError, match="cache folder") as caught:
        VectorStore.open(path)

    assert "--no-cache" in caught.value.hint


def test_a_full_disk_is_an_error_and_the_batches_before_it_stay(tmp_path: Path) -> None:
    store = VectorStore.open(tmp_path)
    put(store, ["pump"], [[1, 2]])
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    texts = [f"t{number}" for number in range(500)]

    with pytest.raises(EmbedAbError, match="full") as caught:
        put(store, texts, [[number, 1] for number in range(500)])
    assert "--no-cache" in caught.value.hint
    assert known(store, "pump", *texts) == [True] + [False] * 500
    store.close()


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"EMBED_AB_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"EMBED_AB_CACHE_DIR": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/embed-ab"),
        ({}, "~/.cache/embed-ab"),
    ],
)
def test_the_cache_folder_is_ours_else_xdg_else_home(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder).expanduser()


# --- several processes ---

WRITER = """
import sys
import numpy as np
from pathlib import Path
from embed_ab.providers.base import Embedded
from embed_ab.providers.cache import VectorStore

folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = VectorStore.open(folder)
for start in range(first, last, 20):
    texts = [f"t{number}" for number in range(start, start + 20)]
    vectors = np.array([[n, -n] for n in range(start, start + 20)], dtype=np.float32)
    store.put("m", "document", "", texts, Embedded(vectors=vectors))
    print(start, flush=True)
"""


def start_writer(folder: Path, first: int, last: int) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(first), str(last)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Three processes open the same new store and write overlapping texts: all 400 are right."""
    writers = [start_writer(tmp_path, *span) for span in ((0, 200), (100, 300), (200, 400))]
    codes = [(writer.communicate(timeout=60), writer.returncode)[1] for writer in writers]
    store = VectorStore.open(tmp_path)
    found = store.get("m", "document", "", [f"t{n}" for n in range(400)], dimension=2)

    assert codes == [0, 0, 0]
    assert found.vectors.tolist() == [[n, -n] for n in range(400)]
    store.close()


def test_a_process_killed_in_mid_write_loses_only_the_batch_in_flight(tmp_path: Path) -> None:
    """Every batch the process reported before kill −9 is there, and no vector is wrong."""
    writer = start_writer(tmp_path, 0, 10_000_000)
    assert writer.stdout is not None
    n_read = 0
    for _ in range(30):
        n_read = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    rest = writer.communicate(timeout=60)[0].split("\n")
    reported = max([n_read, *(int(line) for line in rest[:-1] if line)])
    n_texts = reported + 200
    store = VectorStore.open(tmp_path)
    found = store.get("m", "document", "", [f"t{n}" for n in range(n_texts)], dimension=2)

    assert writer.returncode == -signal.SIGKILL
    assert found.is_found[: reported + 20].all()
    right = np.array([[n, -n] for n in range(n_texts)], dtype=np.float32)
    assert np.array_equal(found.vectors[found.is_found], right[found.is_found])
    store.close()


# --- embedding through the store ---


def test_vectors_are_normalised_to_length_one(store: VectorStore) -> None:
    """(3, 4) has length 5."""
    unit = embed(Scripted({"pump": [3, 4]}), store, "pump")

    assert unit == pytest.approx(np.array([[0.6, 0.8]]), abs=1e-7)
    assert unit.dtype == np.float32


def test_tiny_and_huge_vectors_are_normalised_alike(store: VectorStore) -> None:
    """In float32 the squares of 1e-30 and 1e30 would be 0 and infinite."""
    unit = embed(Scripted({"a": [3e-30, 4e-30], "b": [3e30, 4e30]}), store, "a", "b")

    assert unit == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8]]), abs=1e-6)


def test_each_distinct_text_is_embedded_once(store: VectorStore) -> None:
    embedder = Scripted({"pump": [1, 0], "tank": [0, 1]})
    result = embed_cached(embedder, store, ["pump", "tank", "pump"], ["d1", "d2", "d3"], "document")

    assert embedder.asked == [["pump", "tank"]]
    assert result.vectors.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert (result.n_embedded, result.n_cached) == (2, 0)


def test_only_texts_that_changed_are_embedded_again(store: VectorStore) -> None:
    first = Scripted({"pump": [1, 0], "tank": [0, 1]})
    embed(first, store, "pump", "tank")
    second = Scripted({"valve": [0, -1]})
    result = embed_cached(second, store, ["pump", "valve"], ["d1", "d2"], "document")

    assert second.asked == [["valve"]]
    assert (result.n_embedded, result.n_cached) == (1, 1)
    assert result.vectors.tolist() == [[1, 0], [0, -1]]


def test_a_warm_run_asks_the_model_nothing(store: VectorStore) -> None:
    embed(Scripted({"pump": [1, 0]}), store, "pump")
    warm = Scripted({})
    embed(warm, store, "pump")

    assert (warm.n_facts, warm.asked) == (0, [])


def test_known_facts_asks_a_model_once(store: VectorStore) -> None:
    embedder = Scripted({})
    first, second = known_facts(embedder, store), known_facts(embedder, store)

    assert first == second
    assert embedder.n_facts == 1


def test_another_document_prompt_embeds_the_documents_again(store: VectorStore) -> None:
    embed(Scripted({"pump": [1, 0]}), store, "pump")
    prompted = Scripted({"pump": [0, 1]}, prompts={"document": "passage: "})

    assert embed(prompted, store, "pump").tolist() == [[0, 1]]


def test_another_query_prompt_keeps_the_documents(store: VectorStore) -> None:
    embed(Scripted({"pump": [1, 0]}), store, "pump")
    prompted = Scripted({}, prompts={"query": "search: "})
    embed(prompted, store, "pump")

    assert prompted.asked == []


def test_token_counts_survive_the_store(store: VectorStore) -> None:
    texts, ids = ["pump", "tank", "pump"], ["d1", "d2", "d3"]
    cold = Scripted({"pump": [1, 0], "tank": [0, 1]}, n_tokens={"pump": 3, "tank": 900})
    embed_cached(cold, store, texts, ids, "document")
    warm = embed_cached(Scripted({}), store, texts, ids, "document")

    assert warm.n_tokens is not None
    assert warm.n_tokens.tolist() == [3, 900, 3]


def test_without_token_counts_there_are_none(store: VectorStore) -> None:
    embedder = Scripted({"pump": [1, 0]})

    assert embed_cached(embedder, store, ["pump"], ["d1"], "document").n_tokens is None


def test_the_longest_texts_come_first_and_progress_counts_the_missing(store: VectorStore) -> None:
    embedder = Scripted({"a": [1, 0], "bbb": [1, 0], "cc": [1, 0]})
    seen: list[tuple[int, int]] = []
    embed_cached(
        embedder,
        store,
        ["a", "bbb", "cc"],
        ["d1", "d2", "d3"],
        "document",
        batch=2,
        on_progress=lambda done, total: seen.append((done, total)),
    )

    assert embedder.asked == [["bbb", "cc"], ["a"]]
    assert seen == [(0, 3), (2, 3), (3, 3)]


def test_an_interrupted_run_keeps_its_finished_batches(store: VectorStore) -> None:
    """The third batch fails; the next run embeds only that one."""
    failing = Scripted({"aaa": [1, 0], "bb": [1, 0], "c": [0, 0]})
    with pytest.raises(ProviderError):
        embed_cached(failing, store, ["aaa", "bb", "c"], ["d1", "d2", "d3"], "document", batch=1)
    again = Scripted({"c": [0, 1]})
    embed(again, store, "aaa", "bb", "c")

    assert again.asked == [["c"]]


def test_no_texts_give_no_vectors_of_the_right_width(store: VectorStore) -> None:
    assert embed(Scripted({}), store).shape == (0, 2)


@pytest.mark.parametrize(
    ("vectors", "message", "n_kept"),
    [
        ({"pump": [1, 0], "tank": [np.nan, 1]}, "'d2' holds NaN", 1),
        ({"pump": [1, 0], "tank": [np.inf, 1]}, "'d2' holds NaN or infinite", 1),
        ({"pump": [1, 0], "tank": [0, 0]}, "'d2' is all zero", 1),
        ({"pump": [1, 0]}, "1 vector came back for 2 texts", 0),
        ({"pump": [1, 0, 0], "tank": [0, 1, 0]}, "3 dimensions, not 2", 0),
    ],
)
def test_a_vector_that_cannot_be_compared_names_text_and_model(
    store: VectorStore, vectors: dict[str, list[float]], message: str, n_kept: int
) -> None:
    """The sound texts of its batch are kept."""
    with pytest.raises(ProviderError, match=message) as caught:
        embed(Scripted(vectors), store, "pump", "tank")

    assert "model 'scripted'" in str(caught.value)
    assert store.info().n_vectors == n_kept


def test_dim_keeps_the_leading_elements_and_normalises_again(store: VectorStore) -> None:
    """(3, 4, 12) cut to two elements is (3, 4), of length 5."""
    unit = embed(Scripted({"pump": [3, 4, 12]}, dimension=3), store, "pump", dim=2)

    assert unit == pytest.approx(np.array([[0.6, 0.8]]), abs=1e-7)


def test_another_dim_needs_no_new_vectors(store: VectorStore) -> None:
    embed(Scripted({"pump": [3, 4, 12]}, dimension=3), store, "pump")
    warm = Scripted({}, dimension=3)

    assert embed(warm, store, "pump", dim=1).tolist() == [[1]]
    assert warm.asked == []


def test_a_dim_above_the_models_is_an_input_error(store: VectorStore) -> None:
    with pytest.raises(InputError, match="dim=3 is more than the 2 dimensions"):
        embed(Scripted({"pump": [3, 4]}), store, "pump", dim=3)


def test_a_vector_whose_first_elements_are_zero_cannot_be_cut(store: VectorStore) -> None:
    embedder = Scripted({"pump": [1, 0, 0], "tank": [0, 0, 1]}, dimension=3)
    with pytest.raises(ProviderError, match="first 2 elements of the vector of 'd2'"):
        embed(embedder, store, "pump", "tank", dim=2)


@given(texts=st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_warm_vectors_equal_cold_ones_in_any_order(texts: list[str]) -> None:
    store = VectorStore.open(None)
    cold = embed(MockEmbedder("char3"), store, *texts)
    warm = embed(MockEmbedder("char3"), store, *reversed(texts))

    assert np.array_equal(warm[::-1], cold)
    store.close()


def test_rows_are_normalised_in_their_own_place_too() -> None:
    """(3, 4) has the norm 5; a zero row stays zero."""
    vectors = np.array([[3, 4], [0, 0]], dtype=np.float32)

    assert normalised(vectors, out=vectors) is vectors
    assert vectors.tolist() == pytest.approx(np.array([[0.6, 0.8], [0, 0]]), abs=1e-7)
