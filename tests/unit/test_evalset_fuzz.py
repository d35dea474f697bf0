"""Damaged evaluation sets load or are refused, never anything else; sound ones survive saving."""

from __future__ import annotations

import gzip
import string
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from embed_ab.check import check
from embed_ab.errors import InputError
from embed_ab.evalset import Evalset, from_records, load, save

SOUND = {
    "corpus.jsonl": (
        b'{"_id": "d1", "title": "T", "text": "one", "metadata": {"lang": "en"}}\r\n'
        b'{"_id": 2, "text": "\xed\x95\x9c\xea\xb5\xad \\ud83d\\ude00"}\n\n'
        b'{"_id": "d3", "text": "", "size": 1.5e3}\n'
    ),
    "queries.jsonl": b'\xef\xbb\xbf{"_id": "q1", "text": "x"}\n{"_id": "q2", "text": "y"}\n',
    "qrels.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\t2\t-1\nq2\t2\t2\n",
}
FRAGMENTS = (
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b" ", b'"', b"\\", b"\\ud800", b"{",
    b"[", b"}", b",", b"1e999", b"NaN", b"null", b"9" * 40, b"-", b"\xc2\x85", b"q1\td1\t1\n",
    b"q1 0 d1 1\n", b'"_id": 1, ', b'"text": null, ', b'"metadata": [], ', b"\x1f\x8b",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, bytes]:
    """The sound files with up to three cuts, insertions, repetitions or compressed parts."""
    files = dict(SOUND)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(files)))
        content = files[name]
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 20)))
        between = draw(
            st.one_of(
                st.sampled_from(FRAGMENTS),
                st.binary(max_size=4),
                st.just(b""),
                st.just(content[start:end] * 2),
            )
        )
        files[name] = content[:start] + between + content[end:]
    for name in draw(st.sets(st.sampled_from(sorted(files)), max_size=1)):
        compressed = gzip.compress(files.pop(name), mtime=0)
        cut = draw(st.integers(0, len(compressed)))
        files[f"{name}.gz"] = compressed[: cut or None] + draw(st.binary(max_size=3))
    return files


def loaded_or_refused(folder: Path, is_lenient: bool) -> Evalset | InputError:
    try:
        return load(
            folder,
            no_positive="exclude" if is_lenient else "error",
            allow_missing_docs=is_lenient,
        )
    except InputError as error:
        return error


@given(files=damaged(), is_lenient=st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_damaged_set_is_refused_with_a_hint_or_is_a_sound_set(
    files: dict[str, bytes], is_lenient: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file_name, content in files.items():
            (folder / file_name).write_bytes(content)
        evalset = loaded_or_refused(folder, is_lenient)

    if isinstance(evalset, InputError):
        assert evalset.hint
        return
    found = check(evalset)
    assert sum(found.grades.values()) == found.n_judgements == evalset.qrels.offsets[-1]
    assert list(evalset.document_ids) == sorted(set(evalset.document_ids))
    assert found.n_evaluated > 0


IDS = st.text(string.ascii_letters + string.digits + "-_.:/한 é", min_size=1, max_size=6).map(
    lambda text: text.strip() or "id"
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
METADATA = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5).filter(
        lambda key: key not in {"_id", "text", "title", "metadata"}
    ),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS | st.lists(TEXTS, max_size=2),
    max_size=2,
)  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> tuple[dict, dict, dict]:
    """Documents, queries and qrels in which each query has a relevant document."""
    documents = draw(st.dictionaries(IDS, st.tuples(TEXTS, METADATA), min_size=1, max_size=5))
    queries = draw(st.dictionaries(IDS, st.tuples(TEXTS, METADATA), min_size=1, max_size=4))
    ids = st.sampled_from(sorted(documents))
    qrels = {
        query: draw(st.dictionaries(ids, st.integers(-30, 30), max_size=3)) | {draw(ids): 1}
        for query in queries
    }
    return (
        {key: {**metadata, "text": text} for key, (text, metadata) in documents.items()},
        {key: {**metadata, "text": f"?{text}"} for key, (text, metadata) in queries.items()},
        qrels,
    )


@given(given_records=records())
@settings(max_examples=60, deadline=None)
def test_a_set_is_the_same_after_saving_and_loading(given_records: tuple[dict, dict, dict]) -> None:
    evalset = from_records(*given_records)

    with tempfile.TemporaryDirectory() as name:
        save(evalset, Path(name) / "set")
        loaded = load(Path(name) / "set")

    assert loaded.digest == evalset.digest
    assert loaded.document_texts == evalset.document_texts
    assert loaded.query_texts == evalset.query_texts
    assert loaded.document_metadata == evalset.document_metadata
    assert loaded.query_metadata == evalset.query_metadata
    assert [
        row.tolist() for query in range(len(evalset.query_ids)) for row in loaded.qrels.of(query)
    ] == [
        row.tolist() for query in range(len(evalset.query_ids)) for row in evalset.qrels.of(query)
    ]
    assert loaded.is_empty.tolist() == evalset.is_empty.tolist()


@given(given_records=records(), random=st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_records_changes_nothing(given_records, random) -> None:
    def shuffled(mapping: dict) -> dict:
        return dict(random.sample(list(mapping.items()), len(mapping)))

    documents, queries, qrels = given_records
    again = from_records(
        shuffled(documents),
        shuffled(queries),
        shuffled({query: shuffled(row) for query, row in qrels.items()}),
    )

    assert again.digest == from_records(documents, queries, qrels).digest
