"""What a system made of others tells of them."""

from __future__ import annotations

import numpy as np
import pytest

from embed_ab.origin import Origin, System
from embed_ab.retrieved import Retrieved, of_parts
from embed_ab.runs import Run
from embed_ab.system_spec import SystemSpec

RUN = Run(name="x", documents=np.array([[0, 1]], dtype=np.int32), scores=np.array([[2.0, 1.0]]))
SPEC = SystemSpec.parse("rrf(st:a, bm25:auto)")


def part(name: str, is_cut: list[bool] | None) -> Retrieved:
    cut = None if is_cut is None else np.array(is_cut)
    return Retrieved(system=System(run=RUN, origin=Origin(system=name), is_cut=cut))


@pytest.mark.parametrize(
    ("of_one", "of_other", "expected"),
    [
        ([True, False, False], [False, False, True], [True, False, True]),
        ([True, False, False], None, [True, False, False]),
        (None, None, None),
    ],
)
def test_a_document_is_cut_where_any_part_cut_it(
    of_one: list[bool] | None, of_other: list[bool] | None, expected: list[bool] | None
) -> None:
    made = of_parts(SPEC, RUN, {}, [part("st:a", of_one), part("bm25:auto", of_other)])

    found = made.system.is_cut
    assert (None if found is None else found.tolist()) == expected
