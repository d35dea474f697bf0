"""Overlap of two rankings against the reference pairs, which the `rbo` package made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reference_runs import COLLECTIONS, read_columns, read_run

from embed_ab import evalset
from embed_ab.overlap import jaccard, rbo_ext

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("k", [10, 100])
@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_reference_pair_is_reproduced(reference_data: Path, name: str, k: int) -> None:
    collection = evalset.load(reference_data / name)
    folder = reference_data / name / "reference"
    pairs = sorted(folder.glob("pair.*.tsv"))
    assert pairs
    for path in pairs:
        names = path.name.removeprefix("pair.").removesuffix(".tsv").split("__")
        a, b = (read_run(folder / "runs" / f"{n}.trec.gz", collection).documents for n in names)
        expected = read_columns(path, collection)
        # the reference has no value where a list is empty
        has_both = ~np.isnan(expected[f"rbo_ext@{k}"])

        for column, ours in (("jaccard", jaccard(a, b, k)), ("rbo_ext", rbo_ext(a, b, k))):
            np.testing.assert_allclose(
                ours[has_both], expected[f"{column}@{k}"][has_both], atol=1e-9, err_msg=path.name
            )
