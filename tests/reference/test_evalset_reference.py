"""The real collections load with the counts of their README."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from embed_ab.check import check
from embed_ab.evalset import load

pytestmark = pytest.mark.reference


@pytest.mark.parametrize(
    ("name", "n_documents", "n_queries", "n_judgements", "grades"),
    [
        ("scifact", 5183, 300, 339, {1}),
        ("cranfield", 1400, 225, 1837, {0, 1, 2, 3, 4}),
        ("belebele-ko", 488, 900, 900, {1}),
    ],
)
def test_a_collection_holds_what_its_readme_says(
    reference_data: Path,
    name: str,
    n_documents: int,
    n_queries: int,
    n_judgements: int,
    grades: set[int],
) -> None:
    found = check(load(reference_data / name))

    assert (found.n_documents, found.n_queries, found.n_judgements) == (
        n_documents,
        n_queries,
        n_judgements,
    )
    assert found.n_evaluated == n_queries
    assert set(found.grades) == grades


def test_cranfield_has_two_empty_documents(reference_data: Path) -> None:
    evalset = load(reference_data / "cranfield")

    empty = [evalset.document_ids[document] for document in np.flatnonzero(evalset.is_empty)]
    assert empty == ["471", "995"]
    assert [notice.code for notice in evalset.notices] == ["empty_documents"]
