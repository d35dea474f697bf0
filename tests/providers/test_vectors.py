"""Vectors made elsewhere: four formats, one set of rules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab import evalset, systems
from embed_ab.errors import InputError
from embed_ab.providers import vectors
from embed_ab.providers.cache import VectorStore
from embed_ab.registry import Side
from embed_ab.retrieved import Retrieved
from embed_ab.system_spec import SystemSpec

DOCUMENTS = ("d1", "d2")
QUERIES = ("q1",)
FIELDS = [("id", "U2"), ("kind", "U8")]
# d1 points along x, d2 along y, q1 between them but nearer to y: 3-4-5.
GOOD: dict[str, Any] = {
    "document_ids": ["d2", "d1", "other"],
    "documents": [[0, 5], [2, 0], [1, 1]],
    "query_ids": ["q1"],
    "queries": [[3, 4]],
}


def write_npz(folder: Path, content: dict[str, Any]) -> Path:
    np.savez(folder / "v.npz", **content)
    return folder / "v.npz"


def write_folder(folder: Path, content: dict[str, Any]) -> Path:
    for ids, name in (("document_ids", "documents"), ("query_ids", "queries")):
        np.save(folder / f"{name}.npy", np.array(content[name]))
        (folder / f"{name}.ids.txt").write_text("\n".join(content[ids]) + "\n", "utf-8")
    return folder


def write_npy(folder: Path, content: dict[str, Any]) -> Path:
    """One array of records, as long as the vectors of both kinds are."""
    rows = [
        (identifier, role, vector)
        for role, ids, name in (
            ("document", "document_ids", "documents"),
            ("query", "query_ids", "queries"),
        )
        for identifier, vector in zip(content[ids], content[name], strict=True)
    ]
    width = len(rows[0][2])
    dtype = [("id", "U9"), ("kind", "U8"), ("vector", "f8", (width,))]
    np.save(folder / "v.npy", np.array(rows, dtype=dtype))
    return folder / "v.npy"


def write_parquet(folder: Path, content: dict[str, Any]) -> Path:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {
        "id": [*content["document_ids"], *content["query_ids"]],
        "kind": ["document"] * len(content["document_ids"]) + ["query"] * len(content["query_ids"]),
        "vector": [list(map(float, v)) for v in (*content["documents"], *content["queries"])],
    }
    pq.write_table(pa.table(columns), folder / "v.parquet")
    return folder / "v.parquet"


FORMATS = [write_npz, write_npy, write_folder, write_parquet]
Write = Callable[[Path, dict[str, Any]], Path]


def read(path: Path, **more: Any) -> vectors.GivenVectors:
    return vectors.read(str(path), DOCUMENTS, QUERIES, **more)


@pytest.mark.parametrize("write", FORMATS)
class TestEveryFormat:
    def test_rows_come_in_the_order_of_the_ids_with_length_one(
        self, write: Write, tmp_path: Path
    ) -> None:
        found = read(write(tmp_path, GOOD))

        assert found.documents.tolist() == [[1, 0], [0, 1]]
        assert found.queries == pytest.approx(np.array([[0.6, 0.8]]))

    def test_ids_that_nobody_asked_for_are_counted(self, write: Write, tmp_path: Path) -> None:
        assert read(write(tmp_path, GOOD)).n_unknown == 1

    def test_dim_cuts_before_normalising(self, write: Write, tmp_path: Path) -> None:
        content = GOOD | {"documents": [[3, 0], [3, 4], [1, 1]]}

        assert read(write(tmp_path, content), dim=1).documents.tolist() == [[1], [1]]

    def test_missing_ids_are_named(self, write: Write, tmp_path: Path) -> None:
        path = write(tmp_path, GOOD)

        with pytest.raises(InputError, match="no vector for 1 of 3 document ids: 'd9'"):
            vectors.read(str(path), ("d1", "d2", "d9"), QUERIES)

    def test_an_id_that_stands_twice_is_refused(self, write: Write, tmp_path: Path) -> None:
        path = write(tmp_path, GOOD | {"document_ids": ["d2", "d1", "d1"]})

        with pytest.raises(InputError, match="document ids that stand twice: 'd1'"):
            read(path)

    def test_a_zero_vector_is_named(self, write: Write, tmp_path: Path) -> None:
        path = write(tmp_path, GOOD | {"queries": [[0.0, 0.0]]})

        with pytest.raises(InputError, match=r"the vector of query 'q1' is all zero"):
            read(path)

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
    def test_a_vector_that_float32_cannot_hold_is_named(
        self, write: Write, value: float, tmp_path: Path
    ) -> None:
        path = write(tmp_path, GOOD | {"documents": [[1.0, value], [2.0, 0.0], [1.0, 1.0]]})

        with pytest.raises(InputError, match=r"document 'd2' holds NaN, infinite or too large"):
            read(path)

    def test_faults_of_ids_nobody_asked_for_do_no_harm(self, write: Write, tmp_path: Path) -> None:
        path = write(tmp_path, GOOD | {"documents": [[0, 5], [2, 0], [0, 0]]})

        assert read(path).documents.tolist() == [[1, 0], [0, 1]]

    def test_a_dim_above_the_dimension_is_refused(self, write: Write, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="dim=3 is more than the 2 dimensions"):
            read(write(tmp_path, GOOD), dim=3)


def test_the_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    path = write_npz(tmp_path, GOOD)

    assert read(path).digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_digest_of_a_folder_changes_with_each_of_its_files(tmp_path: Path) -> None:
    before = read(write_folder(tmp_path, GOOD)).digest

    (tmp_path / "queries.ids.txt").write_text("q1", "utf-8")

    assert read(tmp_path).digest != before


def test_whole_number_ids_are_read_as_text(tmp_path: Path) -> None:
    content = GOOD | {"document_ids": [2, 1, 7], "query_ids": [30]}

    found = vectors.read(str(write_npz(tmp_path, content)), ("1", "2"), ("30",))

    assert found.documents.tolist() == [[1, 0], [0, 1]]


def test_half_precision_is_read(tmp_path: Path) -> None:
    content = GOOD | {"queries": np.array([[3, 4]], np.float16)}

    assert read(write_npz(tmp_path, content)).queries == pytest.approx(np.array([[0.6, 0.8]]))


def test_windows_line_ends_and_a_byte_order_mark_are_no_part_of_an_id(tmp_path: Path) -> None:
    write_folder(tmp_path, GOOD)
    (tmp_path / "documents.ids.txt").write_bytes(b"\xef\xbb\xbfd2\r\nd1\r\nother\r\n")

    assert read(tmp_path).documents.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((3, 2)), r"holds float64 of shape \(3, 2\), without ids"),
        (np.zeros(2, [("id", "U2"), ("embedding", "f4", 2)]), "lacks the fields kind, vector; it"),
        (np.array([("d1", "text", [1])], [*FIELDS, ("vector", "f4", 1)]), "kind is 'text'"),
        (np.array([("d1", 1, 1)], [("id", "U2"), ("kind", int), ("vector", "f4")]), "kind is int"),
        (np.array([("d1", "query", 1)], [*FIELDS, ("vector", "f4")]), r"float32 of shape \(0,\)"),
        (np.array([(None, "query", 1)], [("id", "O"), *FIELDS[1:], ("vector", "f4")]), "objects"),
    ],
)
def test_an_array_that_is_no_list_of_records_is_refused(
    array: Any, said: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "v.npy", array)

    with pytest.raises(InputError, match=said):
        read(tmp_path / "v.npy")


@pytest.mark.parametrize(("n_missing", "is_said"), [(3, True), (2, False)])
def test_a_file_without_most_documents_seems_made_from_another_chunking(
    n_missing: int, is_said: bool, tmp_path: Path
) -> None:
    """Of four or five documents the file lacks three, or two."""
    path = write_npz(tmp_path, GOOD)
    documents = (*DOCUMENTS, "a", "b", "c")[: 2 + n_missing]

    with pytest.raises(InputError, match=f"no vector for {n_missing} of") as caught:
        vectors.read(str(path), documents, QUERIES)

    assert ("made from another chunking" in str(caught.value)) is is_said
    assert "another chunking has other ids" in caught.value.hint


@pytest.mark.parametrize(("given", "share"), [(DOCUMENTS, 1 / 3), (("d1",), 2 / 3)])
def test_the_share_of_documents_that_the_set_lacks_is_known(
    given: tuple[str, ...], share: float, tmp_path: Path
) -> None:
    """The file has d1, d2 and other."""
    found = vectors.read(str(write_npz(tmp_path, GOOD)), given, QUERIES)

    assert found.unknown_share == pytest.approx(share)


@pytest.mark.parametrize("name", ["document_ids", "documents"])
def test_pickled_objects_are_never_loaded(name: str, tmp_path: Path) -> None:
    content = GOOD | {name: np.array([object(), object(), object()], dtype=object)}
    path = write_npz(tmp_path, content)

    with pytest.raises(InputError, match=r"v\.npz: cannot be read: Object arrays cannot be loaded"):
        read(path)


def test_an_array_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write_npz(tmp_path, {"documents": [[1]], "ids": ["d1"]})

    with pytest.raises(
        InputError, match="lacks document_ids, query_ids, queries; it holds 'documents', 'ids'"
    ):
        read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"documents": [0.0, 1.0, 2.0]}, r"vectors of document ids are float64 of shape \(3,\)"),
        ({"documents": [["a"], ["b"], ["c"]]}, r"vectors of document ids are <U1"),
        ({"documents": np.zeros((3, 0))}, r"of shape \(3, 0\)"),
        ({"documents": [[1, 2]]}, "3 document ids but 1 vectors"),
        ({"query_ids": [0.5]}, "query_ids is no list of ids but float64"),
        ({"query_ids": "q1"}, r"query_ids is no list of ids but <U2 of shape \(\)"),
    ],
)
def test_arrays_of_another_kind_are_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write_npz(tmp_path, GOOD | change)

    with pytest.raises(InputError, match=message):
        read(path)


def test_parquet_vectors_of_unequal_length_are_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, GOOD | {"documents": [[1, 2], [1], [1, 2]]})

    with pytest.raises(InputError, match="vectors of kind document differ in length: 2, 1"):
        read(path)


def test_a_parquet_column_that_is_missing_is_named(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": ["d1"], "embedding": [[1.0]]}), tmp_path / "v.parquet")

    with pytest.raises(
        InputError, match="lacks the columns kind, vector; it has 'id', 'embedding'"
    ):
        read(tmp_path / "v.parquet")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("v.npz", "no such file or folder"), ("v.pkl", "is no file of vectors"), (".", "lacks")],
)
def test_what_holds_no_vectors_is_said_with_the_formats(
    name: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "v.pkl").write_bytes(b"")

    with pytest.raises(InputError, match=problem) as caught:
        read(tmp_path / name)

    assert "a .npz with the arrays document_ids" in caught.value.hint


@pytest.mark.parametrize("write", FORMATS)
@settings(max_examples=60, deadline=None)
@given(at=st.floats(0, 1), byte=st.integers(0, 255), is_cut=st.booleans())
def test_a_damaged_file_is_an_input_error_or_reads(
    tmp_path_factory: pytest.TempPathFactory, write: Write, at: float, byte: int, is_cut: bool
) -> None:
    path = write(tmp_path_factory.mktemp("damaged"), GOOD)
    file = path / "documents.npy" if path.is_dir() else path
    content = bytearray(file.read_bytes())
    place = int(at * (len(content) - 1))
    content[place] = byte
    file.write_bytes(content[:place] if is_cut else content)

    try:
        found = read(path)
    except InputError:
        return
    assert np.isfinite(found.documents).all()


def retrieve(path: Path) -> Retrieved:
    return systems.retrieve(
        SystemSpec.parse(f"vectors:{path}"),
        Side(),
        evalset.from_records(
            {"d1": "one", "d2": "two", "d3": " "}, {"q1": "question"}, {"q1": {"d1": 1}}
        ),
        10,
        VectorStore.open(None),
        lambda what, done, total: None,
    )


def test_documents_are_ranked_by_cosine_and_those_without_text_need_no_vector(
    tmp_path: Path,
) -> None:
    run = retrieve(write_npz(tmp_path, GOOD)).system.run

    assert run.documents.tolist() == [[1, 0, -1]]  # d2, d1, and d3 never
    assert run.scores[0, :2] == pytest.approx([0.8, 0.6])


def test_the_origin_holds_the_digest_and_no_prompt(tmp_path: Path) -> None:
    path = write_npz(tmp_path, GOOD)

    origin = retrieve(path).system.origin

    assert origin.revision == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (origin.is_mock, origin.query_prompt, origin.dimension) == (False, None, 2)


def test_the_origin_says_how_much_of_the_file_the_set_lacks(tmp_path: Path) -> None:
    """The set asks for d1 and d2; the file also has `other`: one of three."""
    origin = retrieve(write_npy(tmp_path, GOOD)).system.origin

    assert origin.unknown_share == pytest.approx(1 / 3)


def test_a_prompt_has_no_meaning_for_vectors() -> None:
    spec = SystemSpec.parse("vectors:v.npz")

    with pytest.raises(InputError, match="--b-query-prompt has no meaning"):
        Side(query_prompt="query: ").refuse_for(spec, "B")


@pytest.mark.parametrize("write", [write_npz, write_folder, write_parquet])
def test_queries_of_another_dimension_are_refused(write: Write, tmp_path: Path) -> None:
    path = write(tmp_path, GOOD | {"queries": [[1.0, 2.0, 3.0]]})

    with pytest.raises(InputError, match="documents have 2 dimensions, those of queries 3"):
        read(path)
