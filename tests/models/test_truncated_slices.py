"""Slices by whose best relevant document a real model cut, against the tokenizer alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from embed_ab import commands
from embed_ab import evalset as evalsets
from embed_ab.settings import resolve

pytestmark = pytest.mark.model

LIMIT = 75  # of tokens; the documents of the demo have from 65 to 108


def test_the_slice_that_b_cut_holds_the_queries_whose_document_is_longer(minilm: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    evalset = evalsets.load(commands.demo_folder("en"))
    asked = {
        "model-a": f"st:{minilm}",
        "model-b": f"st:{minilm},max_length={LIMIT}",
        "slice": "gold-truncated",
        "cache": False,
    }
    found, _ = commands.compare_evalset(evalset, resolve(asked, config=None))

    def is_longer(query: int) -> bool:
        documents, grades = evalset.qrels.of(query)
        best = documents[grades.argmax()]
        return len(tokenizer.encode(evalset.document_texts[best]).ids) > LIMIT

    expected = ["B" if is_longer(query) else "neither" for query in range(len(found.queries))]
    assert [row.slices["gold-truncated"] for row in found.queries] == expected
    assert set(expected) == {"B", "neither"}
