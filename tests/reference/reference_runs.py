"""Runs and per-query values that other tools made, as arrays of this project."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embed_ab.evalset import Evalset
from embed_ab.runs import Run

COLLECTIONS = ("scifact", "cranfield", "belebele-ko")
DEPTH = 100


def read_run(path: Path, evalset: Evalset) -> Run:
    """The run in the order of its lines: the ranks are the truth where scores print equal."""
    query_of = {name: row for row, name in enumerate(evalset.query_ids)}
    document_of = {name: row for row, name in enumerate(evalset.document_ids)}
    documents = np.full((len(query_of), DEPTH), -1, dtype=np.int32)
    scores = np.full(documents.shape, -np.inf)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            query, _, document, rank, score, _ = line.split()
            cell = query_of[query], int(rank) - 1
            documents[cell], scores[cell] = document_of[document], float(score)
    return Run(name=path.name.removesuffix(".trec.gz"), documents=documents, scores=scores)


def read_columns(path: Path, evalset: Evalset) -> dict[str, NDArray[np.float64]]:
    """The columns of a per-query file; NaN for null, rows in the order of the evaluation set."""
    header, *lines = path.read_text("utf-8").splitlines()
    rows = {query: values for query, *values in (line.split("\t") for line in lines)}
    table = np.array(
        [
            [np.nan if value == "null" else float(value) for value in rows[query]]
            for query in evalset.query_ids
        ]
    )
    return dict(zip(header.split("\t")[1:], table.T, strict=True))
