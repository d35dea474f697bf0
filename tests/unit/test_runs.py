"""TREC run files: any TREC tool reads our order from them, and so do we."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab.errors import InputError
from embed_ab.runs import Run, RunFile, read, read_trec, write_trec

QUERIES = ("q1", "q2")
DOCUMENTS = ("d1", "d2", "d3")


def run(
    documents: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], name: str = "a"
) -> Run:
    return Run(
        name=name,
        documents=np.array(documents, dtype=np.int32),
        scores=np.array(scores, dtype=np.float64),
    )


def error_of(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        read_trec(path, QUERIES, DOCUMENTS)
    assert caught.value.hint
    return str(caught.value)


def test_a_run_file_has_six_columns_and_nothing_for_empty_ranks(tmp_path: Path) -> None:
    ranked = run([[2, 0], [1, -1]], [[0.75, 0.5], [-0.25, -np.inf]], name="st:mini")

    write_trec(ranked, QUERIES, DOCUMENTS, tmp_path / "run.trec")

    assert (tmp_path / "run.trec").read_bytes() == (
        b"q1 Q0 d3 1 0.75 st:mini\nq1 Q0 d1 2 0.5 st:mini\nq2 Q0 d2 1 -0.25 st:mini\n"
    )


def test_tied_scores_are_lowered_to_the_next_float32(tmp_path: Path) -> None:
    """Below 1, float32 numbers are 2^-24 apart; 0.25 is below all of them and keeps its value."""
    ranked = run([[0, 1, 2]], [[1.0, 1.0, 0.25]])

    write_trec(ranked, QUERIES[:1], DOCUMENTS, tmp_path / "run.trec")

    lines = (tmp_path / "run.trec").read_text("utf-8").splitlines()
    assert [line.split()[4] for line in lines] == ["1", "0.99999994", "0.25"]


def test_scores_that_only_float64_tells_apart_are_lowered_too(tmp_path: Path) -> None:
    ranked = run([[0, 1, 2]], [[0.5, 0.5 - 1e-12, 0.5 - 2e-12]])

    write_trec(ranked, QUERIES[:1], DOCUMENTS, tmp_path / "run.trec")

    read = read_trec(tmp_path / "run.trec", QUERIES[:1], DOCUMENTS)
    expected = [0.5, 0.5 - 2**-25, 0.5 - 2**-24]  # steps of 2^-25 below one half
    assert read.scores.astype(np.float32).tolist() == [expected]


@pytest.mark.parametrize(
    ("scores", "written"),
    [
        ([1e39, 1e39, 2.0], ["3.40282347e+38", "3.40282326e+38", "2"]),
        ([5.0, -1e39, -1e39], ["3", "2", "1"]),  # below what float32 holds only the order is left
    ],
)
def test_scores_beyond_float32_are_written_so_that_they_can_be_read(
    tmp_path: Path, scores: list[float], written: list[str]
) -> None:
    write_trec(run([[0, 1, 2]], [scores]), QUERIES[:1], DOCUMENTS, tmp_path / "run.trec")

    lines = (tmp_path / "run.trec").read_text("utf-8").splitlines()
    assert [line.split()[4] for line in lines] == written
    read = read_trec(tmp_path / "run.trec", QUERIES[:1], DOCUMENTS)
    assert read.documents.tolist() == [[0, 1, 2]]


def test_trec_eval_sees_our_order_of_ties(tmp_path: Path) -> None:
    """Query i finds all documents at one score, and its relevant document is i.

    trec_eval orders ties by descending id, so that without lowering d0 would come last.
    """
    ids = [f"d{index}" for index in range(8)]
    ranked = run([range(8)] * 8, [[0.7] * 4 + [0.0] * 4] * 8)
    write_trec(ranked, ids, ids, tmp_path / "run.trec")
    with (tmp_path / "run.trec").open(encoding="utf-8") as lines:
        as_read = pytrec_eval.parse_run(lines)

    evaluator = pytrec_eval.RelevanceEvaluator({each: {each: 1} for each in ids}, {"recip_rank"})
    ranks = [1 / evaluator.evaluate(as_read)[each]["recip_rank"] for each in ids]

    assert ranks == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8])


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(
        st.lists(st.sampled_from([0.9, 0.9 - 1e-9, 0.5, 0.0, -0.0, -1e-45, -3.0]), max_size=6),
        min_size=1,
        max_size=4,
    ).filter(any),
    seed=st.integers(0, 1000),
)
def test_reading_back_gives_the_order_and_the_float32_scores(
    tmp_path_factory: pytest.TempPathFactory, scores: list[list[float]], seed: int
) -> None:
    ids = [f"d{index}" for index in range(6)]
    queries = [f"q{row}" for row in range(len(scores))]
    depth = max(map(len, scores))
    documents = np.full((len(scores), depth), -1, dtype=np.int32)
    values = np.full((len(scores), depth), -np.inf)
    rng = np.random.default_rng(seed)
    for row, given_scores in enumerate(scores):
        n = len(given_scores)
        documents[row, :n] = rng.permutation(6)[:n]
        values[row, :n] = sorted(given_scores, reverse=True)
    path = tmp_path_factory.mktemp("runs") / "run.trec.gz"

    write_trec(Run(name="a", documents=documents, scores=values), queries, ids, path)
    read = read_trec(path, queries, ids)

    assert (read.documents == documents).all()
    assert (read.scores[documents < 0] == -np.inf).all()
    for row, given_scores in enumerate(scores):
        as_float32 = read.scores[row, : len(given_scores)].astype(np.float32)
        assert (as_float32[:-1] > as_float32[1:]).all()
        assert as_float32 == pytest.approx(values[row, : len(given_scores)], abs=1e-6)


def test_gzip_bytes_depend_on_the_run_only(tmp_path: Path) -> None:
    ranked = run([[0]], [[1.0]])
    first, second = tmp_path / "first.trec.gz", tmp_path / "other" / "second.trec.gz"

    write_trec(ranked, QUERIES[:1], DOCUMENTS, first)
    write_trec(ranked, QUERIES[:1], DOCUMENTS, second)

    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == b"q1 Q0 d1 1 1 a\n"
    assert first.read_bytes()[4:8] == bytes(4)  # the header's time, RFC 1952


def test_a_name_with_blanks_becomes_one_column(tmp_path: Path) -> None:
    write_trec(
        run([[0]], [[1.0]], name="rrf(A, B)\n"), QUERIES[:1], DOCUMENTS, tmp_path / "run.trec"
    )

    assert (tmp_path / "run.trec").read_text("utf-8") == "q1 Q0 d1 1 1 rrf(A,_B)\n"


def test_a_run_without_a_name_still_has_its_sixth_column(tmp_path: Path) -> None:
    write_trec(run([[0]], [[1.0]], name=" "), QUERIES[:1], DOCUMENTS, tmp_path / "run.trec")

    assert (tmp_path / "run.trec").read_text("utf-8") == "q1 Q0 d1 1 1 run\n"


@pytest.mark.parametrize("bad", ["a b", "", "a\u00a0b", "tab\t"])
@pytest.mark.parametrize("what", ["query", "document"])
def test_an_id_with_white_space_cannot_be_written(tmp_path: Path, bad: str, what: str) -> None:
    queries = (bad,) if what == "query" else ("q1",)
    documents = (bad,) if what == "document" else ("d1",)

    with pytest.raises(InputError, match=f"{what} id") as caught:
        write_trec(run([[0]], [[1.0]]), queries, documents, tmp_path / "run.trec")

    assert "rename" in caught.value.hint
    assert not (tmp_path / "run.trec").exists()


def test_a_place_that_cannot_be_written_is_the_users_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match="cannot be written"):
        write_trec(run([[0]], [[1.0]]), QUERIES[:1], DOCUMENTS, tmp_path / "file" / "run.trec")


def test_a_run_is_read_by_its_scores_and_not_its_ranks(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text("q2 Q0 d1 1 0.5 mine\n\nq2 Q0 d3 9 2 mine\nq2 Q0 d2 7 0.5 mine\n", "utf-8")

    read = read_trec(path, QUERIES, DOCUMENTS)

    assert read.name == "mine"
    assert read.documents.tolist() == [[-1, -1, -1], [2, 0, 1]]
    assert read.scores.tolist() == [[-np.inf] * 3, [2, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q9 Q0 d2 2 0.5 a", "no query 'q9'"),
        ("q1 Q0 d9 2 0.5 a", "no document 'd9'"),
        ("q1 Q0 d1 2 0.5 a", "document 'd1' is there a second time for query 'q1'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "run.trec"

    message = error_of(path, f"q1 Q0 d1 1 0.9 a\n{line}\n")

    assert message.startswith(f"{path}:2: ")
    assert problem in message


def given_run(
    tmp_path: Path, text: str, name: str = "run.trec", depth: int | None = None
) -> RunFile:
    path = tmp_path / name
    content = text.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return read(path, QUERIES, DOCUMENTS, depth=depth)


def test_of_a_document_given_twice_the_first_line_counts(tmp_path: Path) -> None:
    """d1 stays at 0.1 behind d2, though a later line gives it 0.9."""
    found = given_run(tmp_path, "q1 Q0 d1 1 0.1 a\nq1 Q0 d2 2 0.5 a\nq1 Q0 d1 3 0.9 a\n")

    assert found.run.documents.tolist() == [[1, 0], [-1, -1]]
    assert found.run.scores[0].tolist() == [0.5, 0.1]
    assert (found.n_lines, found.n_duplicates) == (3, 1)


def test_what_the_set_lacks_is_counted_and_takes_no_rank(tmp_path: Path) -> None:
    found = given_run(tmp_path, "q1 Q0 d9 1 9 a\nq1 Q0 d2 2 8 a\nq9 Q0 d1 1 7 a\nq9 Q0 d9 2 6 a\n")

    assert found.run.documents.tolist() == [[1], [-1]]
    assert (found.n_unknown_documents, found.n_unknown_queries) == (1, 2)


def test_a_query_without_a_known_document_is_missing(tmp_path: Path) -> None:
    assert given_run(tmp_path, "q1 Q0 d9 1 9 a\nq2 Q0 d1 1 9 a\n").n_missing_queries == 1


def test_a_run_is_cut_after_it_is_ordered(tmp_path: Path) -> None:
    """Ties by ascending id: d2 before d3, whatever the order of the lines."""
    text = "q1 Q0 d3 1 0.5 a\nq1 Q0 d1 2 0.1 a\nq1 Q0 d2 3 0.5 a\n"

    found = given_run(tmp_path, text, depth=2)

    assert found.run.documents.tolist() == [[1, 2], [-1, -1]]
    assert found.run.lengths.tolist() == [2, 0]


def test_a_run_shorter_than_the_depth_ends_with_nothing(tmp_path: Path) -> None:
    found = given_run(tmp_path, "q1 Q0 d3 1 0.5 a\n", depth=3)

    assert found.run.documents.tolist() == [[2, -1, -1], [-1, -1, -1]]


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_json_lines_hold_query_document_and_score(tmp_path: Path, name: str) -> None:
    text = (
        '{"query": "q1", "document": "d1", "score": 1, "rank": 7}\n\n'
        '{"score": 2.5, "document": "d3", "query": "q1"}\n'
    )

    found = given_run(tmp_path, text, name)

    assert found.run.documents[0].tolist() == [2, 0]
    assert found.run.scores[0].tolist() == [2.5, 1]
    assert found.run.name == "run"


@settings(max_examples=60, deadline=None)
@given(
    hits=st.lists(
        st.tuples(
            st.sampled_from(["q1", "q2", "q9"]),
            st.sampled_from(["d1", "d2", "d3", "d9"]),
            st.sampled_from([0.5, 0.25, -1.0, 1e300]),
        ),
        min_size=1,
        max_size=20,
    ),
    depth=st.integers(1, 4),
)
def test_a_run_is_what_a_plain_reading_gives(
    tmp_path_factory: pytest.TempPathFactory, hits: list[tuple[str, str, float]], depth: int
) -> None:
    lines = [f"{query} Q0 {document} 0 {score} a\n" for query, document, score in hits]
    first: dict[tuple[str, str], float] = {}
    for query, document, score in hits:
        first.setdefault((query, document), score)
    expected = [
        sorted(
            (-score, DOCUMENTS.index(d))
            for (q, d), score in first.items()
            if q == query and d in DOCUMENTS
        )
        for query in QUERIES
    ]

    found = given_run(tmp_path_factory.mktemp("runs"), "".join(lines), depth=depth)

    for row, ranked in enumerate(expected):
        documents = [document for _, document in ranked[:depth]]
        assert found.run.documents[row].tolist() == documents + [-1] * (depth - len(documents))
    n_counted = sum(map(len, expected))
    n_left_out = found.n_duplicates + found.n_unknown_documents + found.n_unknown_queries
    assert n_counted + n_left_out == found.n_lines == len(hits)
