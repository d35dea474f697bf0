"""Vectors made elsewhere, read from a file together with the ids they belong to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embed_ab.errors import InputError
from embed_ab.providers.base import Role, Vectors
from embed_ab.providers.embed import normalised
from embed_ab.providers.model_files import first_line
from embed_ab.records import first_ids

_ARRAYS: dict[Role, tuple[str, str]] = {
    "document": ("document_ids", "documents"),
    "query": ("query_ids", "queries"),
}
_IDS = ".ids.txt"
_FORMATS = (
    "Give a .npz with the arrays document_ids, documents, query_ids and queries; a .parquet with "
    "the columns id, vector and kind (document or query), or a .npy with such fields; or a folder "
    "with documents.npy, documents.ids.txt, queries.npy and queries.ids.txt."
)


@dataclass(frozen=True, kw_only=True)
class GivenVectors:
    """Unit vectors of a file, in the order of the ids asked for.

    documents: float32 (n_documents, dimension), L2-normalised.
    queries: float32 (n_queries, dimension), L2-normalised.
    n_unknown: how many ids of the file were not asked for.
    digest: SHA-256 of the file in hex; for a folder, of the digests of its files.
    """

    documents: Vectors
    queries: Vectors
    n_unknown: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Ids and the matrix of their vectors, row by row, as a file holds them."""

    ids: list[str]
    matrix: NDArray[Any]


def path_of(name: str) -> Path:
    """The file or folder that the name of a system means."""
    return Path(os.path.expanduser(name))


def read(
    name: str, document_ids: Sequence[str], query_ids: Sequence[str], *, dim: int | None = None
) -> GivenVectors:
    """The vectors of some documents and queries from a .npz, .parquet or .npy, or a folder of .npy.

    dim: keep only so many leading elements before normalising (Matryoshka).
    Raises: InputError for a file that cannot be read, ids that it lacks, and vectors that cannot be
    compared; the ids are named.
    """
    path = path_of(name)
    files, load = _format(path)
    with _readable(path):
        digest = _digest(files)
        tables = load(path)
    wanted: dict[Role, Sequence[str]] = {"document": document_ids, "query": query_ids}
    chosen = {role: _chosen(path, role, tables[role], ids) for role, ids in wanted.items()}
    documents, queries = chosen["document"], chosen["query"]
    if documents.shape[1] != queries.shape[1]:
        raise InputError(
            f"{path}: vectors of documents have {documents.shape[1]} dimensions, those of queries "
            f"{queries.shape[1]}",
            hint="Embed documents and queries with one model.",
        )
    if dim is not None and dim > documents.shape[1]:
        raise InputError(
            f"dim={dim} is more than the {documents.shape[1]} dimensions of {path}",
            hint=f"Leave out dim, or give at most {documents.shape[1]}.",
        )
    return GivenVectors(
        documents=_unit(path, "document", documents[:, :dim], document_ids),
        queries=_unit(path, "query", queries[:, :dim], query_ids),
        n_unknown=sum(len(tables[role].ids) - len(ids) for role, ids in wanted.items()),
        digest=digest,
    )


def _format(path: Path) -> tuple[list[Path], Callable[[Path], Mapping[Role, _Table]]]:
    """The files of a path, and what reads them."""
    if path.is_dir():
        files = [path / f"{name}{end}" for _, name in _ARRAYS.values() for end in (".npy", _IDS)]
        if missing := [file.name for file in files if not file.is_file()]:
            raise InputError(f"{path} lacks {', '.join(missing)}", hint=_FORMATS)
        return files, _from_folder
    readers = {".npz": _from_npz, ".npy": _from_npy, ".parquet": _from_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None or not path.is_file():
        problem = "is no file of vectors" if path.exists() else "no such file or folder"
        raise InputError(f"{path}: {problem}", hint=_FORMATS)
    return [path], reader


def _digest(files: Sequence[Path]) -> str:
    digests = []
    for file in files:
        with file.open("rb") as stream:
            digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the errors of damaged and oversized files into ours."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # zip, npy and Parquet files can fail in any way
        raise InputError(
            f"{path}: cannot be read: {first_line(error)}",
            hint="Save arrays of numbers and ids of type str; pickled objects are never loaded.",
        ) from error


def _from_npz(path: Path) -> dict[Role, _Table]:
    # Opened here, because np.load leaves the file open when it is no zip.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        needed = [name for pair in _ARRAYS.values() for name in pair]
        if missing := [name for name in needed if name not in arrays]:
            found = first_ids(arrays.files) or "nothing"
            raise InputError(f"{path} lacks {', '.join(missing)}; it holds {found}", hint=_FORMATS)
        return {
            role: _Table(ids=_text_ids(path, ids, arrays[ids]), matrix=arrays[vectors])
            for role, (ids, vectors) in _ARRAYS.items()
        }


def _from_npy(path: Path) -> dict[Role, _Table]:
    rows = np.load(path, allow_pickle=False, mmap_mode="r")
    names = rows.dtype.names or ()
    if rows.ndim != 1 or not {"id", "vector", "kind"} <= set(names):
        raise InputError(
            f"{path} has no ids: it holds {rows.dtype} of shape {rows.shape}", hint=_FORMATS
        )
    kinds = rows["kind"].astype(str)
    _check_kinds(path, set(np.unique(kinds).tolist()))
    return {
        role: _Table(
            ids=_text_ids(path, "id", rows["id"][kinds == role]),
            matrix=rows["vector"][kinds == role],
        )
        for role in _ARRAYS
    }


def _check_kinds(path: Path, kinds: set[str]) -> None:
    if strange := sorted(kinds - set(_ARRAYS)):
        raise InputError(
            f"{path}: kind holds {first_ids(strange)}", hint="A row's kind is document or query."
        )


def _from_folder(folder: Path) -> dict[Role, _Table]:
    return {
        role: _Table(
            # Not splitlines, which ends a line at characters that an id may hold.
            ids=(folder / f"{name}{_IDS}").read_text("utf-8-sig").removesuffix("\n").split("\n"),
            # A map, so that only the rows of the set come into memory.
            matrix=np.load(folder / f"{name}.npy", allow_pickle=False, mmap_mode="r"),
        )
        for role, (_, name) in _ARRAYS.items()
    }


def _from_parquet(path: Path) -> dict[Role, _Table]:
    try:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path}: Parquet files need the package {error.name}, which is missing",
            hint="Install it with pip install 'pyarrow>=17'.",
        ) from None
    columns = ["id", "vector", "kind"]
    names = pq.read_schema(path).names
    if missing := [column for column in columns if column not in names]:
        raise InputError(
            f"{path} lacks the columns {', '.join(missing)}; it has {first_ids(names)}",
            hint=_FORMATS,
        )
    table = pq.read_table(path, columns=columns)
    _check_kinds(path, {str(kind) for kind in pc.unique(table["kind"]).to_pylist()})
    return {
        role: _parquet_table(path, role, table.filter(pc.equal(table["kind"], role)))
        for role in _ARRAYS
    }


def _parquet_table(path: Path, role: Role, table: Any) -> _Table:
    import pyarrow.compute as pc

    column = table["vector"]
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if None in lengths or len(lengths) > 1:
        some = ", ".join("none" if length is None else str(length) for length in lengths[:5])
        raise InputError(
            f"{path}: vectors of kind {role} differ in length: {some}",
            hint="Each row's vector is a list of as many numbers.",
        )
    rows = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return _Table(
        ids=list(map(str, table["id"].to_pylist())),
        matrix=np.concatenate(rows or [np.empty(0)]).reshape(len(column), *lengths or [0]),
    )


def _text_ids(path: Path, name: str, ids: NDArray[Any]) -> list[str]:
    if ids.ndim != 1 or ids.dtype.kind not in "Uiu":
        raise InputError(
            f"{path}: {name} is no list of ids but {ids.dtype} of shape {ids.shape}",
            hint="Save it as np.array(ids, dtype=str).",
        )
    return list(map(str, ids.tolist()))


def _chosen(path: Path, role: Role, table: _Table, ids: Sequence[str]) -> NDArray[Any]:
    """The rows of some ids, in their order. Raises: InputError where that cannot be."""
    matrix = table.matrix
    if matrix.ndim != 2 or not matrix.shape[1] or matrix.dtype.kind not in "fiu":
        raise InputError(
            f"{path}: vectors of {role} ids are {matrix.dtype} of shape {matrix.shape}",
            hint="Save numbers, with one row for each id.",
        )
    if len(matrix) != len(table.ids):
        raise InputError(
            f"{path}: {len(table.ids):,} {role} ids but {len(matrix):,} vectors", hint=_FORMATS
        )
    row_of = {identifier: row for row, identifier in enumerate(table.ids)}
    if len(row_of) < len(table.ids):
        twice = (name for row, name in enumerate(table.ids) if row_of[name] != row)
        raise InputError(
            f"{path}: {role} ids that stand twice: {first_ids(dict.fromkeys(twice))}",
            hint="Keep one vector for each id.",
        )
    if missing := [identifier for identifier in ids if identifier not in row_of]:
        raise InputError(
            f"{path}: no vector for {len(missing):,} of {len(ids):,} {role} ids: "
            f"{first_ids(missing)}",
            hint="Embed every document with a text and every query of the evaluation set. Where "
            "most are missing, the vectors may be those of another chunking.",
        )
    return matrix[[row_of[identifier] for identifier in ids]]


def _unit(path: Path, role: Role, given: NDArray[Any], ids: Sequence[str]) -> Vectors:
    """L2-normalised float32 rows. Raises: InputError for one that has no direction."""
    with np.errstate(over="ignore"):  # too large for float32 is infinite, and refused below
        vectors = given.astype(np.float32)
    for is_faulty, fault in (
        (~np.isfinite(vectors).all(axis=1), "holds NaN, infinite or too large values"),
        (~vectors.any(axis=1), "is all zero"),
    ):
        if is_faulty.any():
            raise InputError(
                f"{path}: the vector of {role} {ids[int(is_faulty.argmax())]!r} {fault} "
                f"({int(is_faulty.sum()):,} such)",
                hint="Look at that text in the pipeline that made the vectors.",
            )
    return normalised(vectors)
