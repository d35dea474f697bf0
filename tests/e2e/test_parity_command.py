"""`embed-ab parity` as a user meets it: what it prints and its exit codes."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from embed_ab import evalset
from embed_ab.cli import main
from embed_ab.commands import demo_folder
from embed_ab.parity import Texts
from embed_ab.parity_systems import subject
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.mock import MockEmbedder
from embed_ab.registry import Side
from embed_ab.system_spec import SystemSpec


def parity(*words: str) -> int:
    return main(["parity", str(demo_folder("en")), *words])


def test_a_model_agrees_with_itself_and_meets_any_cosine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parity("-a", "mock:char3", "-b", "mock:char3", "--min-cosine", "0.999") == 0

    out = capsys.readouterr().out
    assert out.startswith("The same vectors: mean cosine 1.0000 for documents and 1.0000 for qu")
    assert out.endswith("--min-cosine 0.999: met\n")


@pytest.mark.parametrize(
    ("words", "code"), [((), 0), (("--min-cosine", "-1"), 0), (("--min-cosine", "0.9"), 1)]
)
def test_the_exit_code_is_1_only_for_a_cosine_that_was_asked_for(
    words: tuple[str, ...], code: int
) -> None:
    assert parity("-a", "mock:char3", "-b", "mock:word", "--sample", "5", *words) == code


def test_other_dimensions_miss_every_cosine() -> None:
    assert parity("-a", "mock:char3", "-b", "mock:char3,dim=200", "--min-cosine", "-1") == 1


def test_vectors_made_elsewhere_are_compared_by_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = evalset.load(demo_folder("en"))
    model = MockEmbedder("word")
    np.savez(
        tmp_path / "v.npz",
        document_ids=np.array(loaded.document_ids)[::-1],
        documents=3 * model.embed(loaded.document_texts, "document").vectors[::-1],
        query_ids=np.array(loaded.query_ids),
        queries=model.embed(loaded.query_texts, "query").vectors,
    )

    parity("-a", "mock:word", "-b", f"vectors:{tmp_path}/v.npz", "--sample", "7")

    assert capsys.readouterr().out.startswith("The same vectors: mean cosine 1.0000 for documents")

    parity("-a", "mock:char3", "-b", f"vectors:{tmp_path}/v.npz", "--sample", "7")

    assert "No cause found; tried: order. Other weights," in capsys.readouterr().out


def test_a_file_of_vectors_is_read_once_however_often_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez(
        path,
        document_ids=np.array(["d1", "d2", "d3"]),
        documents=np.eye(3),
        query_ids=np.array(["q1"]),
        queries=np.ones((1, 3)),
    )
    documents = Texts(role="document", ids=["d1", "d3"], texts=["a", "b"])
    queries = Texts(role="query", ids=["q1"], texts=["c"])
    with closing(VectorStore.open(None)) as store:
        given = subject(
            SystemSpec.parse(f"vectors:{path}"),
            Side(),
            "A",
            documents,
            queries,
            store,
            lambda what, done, total: None,
        )
        path.unlink()

    assert given.embed(documents.only([1])).tolist() == [[0, 0, 1]]
    assert given.embed(documents).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert given.embed(queries).shape == (1, 3)


def test_a_set_whose_documents_are_all_blank_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": " "}\n', "utf-8")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "how"}\n', "utf-8")
    (tmp_path / "qrels.tsv").write_text("q1\td1\t1\n", "utf-8")

    assert main(["parity", str(tmp_path), "-a", "mock:char3", "-b", "mock:word"]) == 2
    assert f"{tmp_path}: no document has a text" in capsys.readouterr().err


def test_a_set_whose_queries_are_all_blank_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "so"}\n', "utf-8")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": " "}\n', "utf-8")
    (tmp_path / "qrels.tsv").write_text("q1\td1\t1\n", "utf-8")

    assert main(["parity", str(tmp_path), "-a", "mock:char3", "-b", "mock:word"]) == 2
    assert "1 of 1 queries had no text" in capsys.readouterr().err


def test_no_text_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    parity("-a", "mock:char3", "-b", "mock:word")

    shown = capsys.readouterr().out
    queries = (demo_folder("en") / "queries.jsonl").read_text("utf-8").splitlines()
    assert not any(json.loads(line)["text"] in shown for line in queries)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-a", "mock:char3", "-b", "bm25:auto"), "B (bm25:auto) has no vectors"),
        (("-a", "mock:char3"), "no model B"),
        (("-a", "mock:char3", "-b", "mock:word", "--sample", "0"), "--sample 0 is not 1 or more"),
    ],
)
def test_what_has_no_meaning_is_refused(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parity(*words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("given", ["2", "nan", "much"])
def test_a_cosine_is_from_minus_1_to_1(given: str) -> None:
    with pytest.raises(SystemExit) as ended:
        parity("--min-cosine", given)

    assert ended.value.code == 2
