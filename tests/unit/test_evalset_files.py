"""The three files of an evaluation set as users save them, sound and broken."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from embed_ab.errors import EvalsetError, InputError
from embed_ab.evalset import Evalset, load

CORPUS = '{"_id": "d1", "text": "one"}\n{"_id": "d2", "text": "two"}\n'
QUERIES = '{"_id": "q1", "text": "which is one?"}\n{"_id": "q2", "text": "which is two?"}\n'
HEADER = "query-id\tcorpus-id\tscore\n"
QRELS = HEADER + "q1\td1\t1\nq2\td2\t1\n"


def write(folder: Path, **files: str | bytes) -> Path:
    """The folder with the three files, those given in place of the sound ones."""
    contents: dict[str, str | bytes] = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}
    for name, content in (contents | files).items():
        path = folder / f"{name}.{'tsv' if name == 'qrels' else 'jsonl'}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def codes(evalset: Evalset) -> list[str]:
    return [notice.code for notice in evalset.notices]


def pairs(evalset: Evalset) -> list[tuple[str, str, int]]:
    return [
        (identifier, evalset.document_ids[document], int(grade))
        for query, identifier in enumerate(evalset.query_ids)
        for document, grade in zip(*evalset.qrels.of(query), strict=True)
    ]


SOUND = [("q1", "d1", 1), ("q2", "d2", 1)]


def test_a_sound_folder_loads_without_notices(tmp_path: Path) -> None:
    evalset = load(write(tmp_path))

    assert pairs(evalset) == SOUND
    assert evalset.notices == ()
    assert evalset.name == tmp_path.name


# Encodings and line ends


def test_a_byte_order_mark_is_removed_from_each_file_and_noted(tmp_path: Path) -> None:
    mark = "\ufeff"

    evalset = load(
        write(tmp_path, corpus=mark + CORPUS, queries=mark + QUERIES, qrels=mark + QRELS)
    )

    assert pairs(evalset) == SOUND
    assert [notice.message for notice in evalset.notices] == [
        "corpus.jsonl: a byte order mark was removed.",
        "queries.jsonl: a byte order mark was removed.",
        "qrels.tsv: a byte order mark was removed.",
    ]


def test_a_byte_order_mark_before_a_first_row_without_header_loses_nothing(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, qrels="\ufeffq1\td1\t1\nq2\td2\t1\n"))

    assert pairs(evalset) == SOUND


def test_byte_order_marks_of_joined_files_are_counted(tmp_path: Path) -> None:
    first, second = CORPUS.splitlines(keepends=True)

    evalset = load(write(tmp_path, corpus=f"\ufeff{first}\ufeff{second}"))

    assert evalset.notices[0].message == (
        "corpus.jsonl: a byte order mark was removed at the start of 2 lines."
    )


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_the_line_ends_of_windows_and_old_macs_are_line_ends(tmp_path: Path, end: str) -> None:
    files = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}

    evalset = load(write(tmp_path, **{k: v.replace("\n", end) for k, v in files.items()}))

    assert pairs(evalset) == SOUND
    assert evalset.document_texts == ("one", "two")


def test_blank_lines_are_skipped_and_a_last_line_needs_no_end(tmp_path: Path) -> None:
    evalset = load(
        write(
            tmp_path,
            corpus=f"\n{CORPUS}  \n",
            queries=QUERIES.replace("\n", "\n\n").rstrip(),
            qrels="\n" + QRELS.replace("\n", "\n \t\n").rstrip(),
        )
    )

    assert pairs(evalset) == SOUND


def test_line_separators_inside_a_text_do_not_end_its_line(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, corpus=CORPUS.replace("one", "one\u2028\u0085more")))

    assert evalset.document_texts[0] == "one\u2028\u0085more"


def test_a_byte_that_is_not_utf8_is_named_with_file_line_and_offset(tmp_path: Path) -> None:
    """é in cp1252 is byte 0xE9; line 1 has 29 bytes with its end, and 23 stand before é."""
    corpus = CORPUS.replace("two", "\u00e9").encode("cp1252")

    with pytest.raises(EvalsetError) as caught:
        load(write(tmp_path, corpus=corpus))

    assert str(caught.value) == (
        f"{tmp_path / 'corpus.jsonl'}:2: byte 52 of the file (counted from 0) is not UTF-8"
    )
    assert corpus[52] == 0xE9
    assert "cp1252" in caught.value.hint


@pytest.mark.parametrize("end", [b"\r", b"\r\n"])
def test_the_line_of_a_bad_byte_counts_every_kind_of_line_end(tmp_path: Path, end: bytes) -> None:
    corpus = CORPUS.encode().replace(b"\n", end) + b"\xff"

    with pytest.raises(EvalsetError, match=r"corpus\.jsonl:3: byte"):
        load(write(tmp_path, corpus=corpus))


@pytest.mark.parametrize("name", ["corpus", "queries", "qrels"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_utf16_file_is_recognised(tmp_path: Path, name: str, encoding: str) -> None:
    files = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}

    with pytest.raises(EvalsetError, match=r"UTF-16|NUL") as caught:
        load(write(tmp_path, **{name: files[name].encode(encoding)}))

    assert "UTF-8" in caught.value.hint


@pytest.mark.parametrize(("name", "line"), [("corpus", 2), ("queries", 2), ("qrels", 3)])
def test_a_nul_character_is_an_error_with_its_line(tmp_path: Path, name: str, line: int) -> None:
    files = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}

    with pytest.raises(EvalsetError, match=rf"{name}\.\w+:{line}: the line holds a NUL"):
        load(write(tmp_path, **{name: files[name].replace("2", "2\0", 1)}))


def test_an_escaped_nul_in_a_text_is_kept(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, corpus=CORPUS.replace("one", r"o\u0000ne")))

    assert evalset.document_texts[0] == "o\0ne"


# JSON


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"_id": "d2", "text": "two"', r"not JSON: .* \(column"),
        (
            '{"_id": "d2", "text": "t\x01wo"}',
            r"not JSON: Invalid control character at \(column 25\)",
        ),
        ('{"_id": "d2", "text": "two"} {}', r"not JSON: Extra data \(column 30\)"),
        ("[", "not JSON"),
        ('["d2", "two"]', "JSON, but not an object"),
        ("3", "JSON, but not an object"),
        ("null", "JSON, but not an object"),
        ('{"_id": "d2", "_id": "d3", "text": "two"}', "key '_id' appears twice"),
        ('{"_id": "d2", "text": NaN}', "NaN is not a finite number"),
        ('{"_id": "d2", "text": "two", "x": -Infinity}', "-Infinity is not a finite number"),
        ('{"_id": "d2", "text": "two", "x": 1e400}', "1e400 is not a finite number"),
        ('{"_id": ' + "9" * 5000 + ', "text": "two"}', "not usable JSON"),
        ('{"_id": "d2", "text": "two", "x": ' + "[" * 100_000, "not usable JSON"),
        ('{"text": "two"}', r"""no "_id" in a record with the keys 'text'"""),
        ('{"_id": "d2", "contents": "two"}', """no "text" in a record"""),
        ('{"_id": 2.0, "text": "two"}', "the id 2.0 is neither a string nor a whole number"),
        ('{"_id": true, "text": "two"}', "the id True is neither"),
        ('{"_id": null, "text": "two"}', "the id None is neither"),
        ('{"_id": "", "text": "two"}', "the id is empty"),
        ('{"_id": "d2 ", "text": "two"}', "the id 'd2 ' starts or ends with white space"),
        (r'{"_id": "d\t2", "text": "two"}', "holds a control character"),
        ('{"_id": "d2", "text": 7}', '"text" is of type int, not a string'),
        ('{"_id": "d2", "text": "two", "title": 7}', '"title" is of type int, not a string'),
        (r'{"_id": "d2", "text": "\ud83d"}', "half of a surrogate pair"),
        (r'{"_id": "d\udc00", "text": "two"}', "the id holds half of a surrogate pair"),
        (r'{"_id": "d2", "text": "two", "a": {"b\ud83d": 1}}', "the metadata holds half"),
    ],
)
def test_a_broken_line_is_an_error_with_its_line(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(EvalsetError, match=rf"corpus\.jsonl:2: .*{problem}") as caught:
        load(write(tmp_path, corpus=CORPUS.splitlines()[0] + "\n" + line + "\n"))

    assert caught.value.hint


def test_integer_ids_match_the_same_digits_in_the_qrels(tmp_path: Path) -> None:
    big = 10**30
    evalset = load(
        write(
            tmp_path,
            corpus=f'{{"_id": 1, "text": "a"}}\n{{"_id": {big}, "text": "b"}}\n',
            queries='{"_id": 7, "text": "x"}\n',
            qrels=f"7\t1\t1\n7\t{big}\t2\n",
        )
    )

    assert pairs(evalset) == [("7", "1", 1), ("7", str(big), 2)]


def test_a_surrogate_pair_in_escapes_is_one_character(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, corpus=CORPUS.replace("one", r"\ud83d\ude00")))

    assert evalset.document_texts[0] == "😀"


def test_a_line_of_five_megabytes_loads(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, corpus=CORPUS.replace("one", "x" * 5_000_000)))

    assert codes(evalset) == ["huge_document"]


def test_an_id_given_twice_with_the_same_content_counts_once(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, corpus=CORPUS + CORPUS))

    assert evalset.document_ids == ("d1", "d2")
    assert evalset.notices[0].message == (
        "2 of 4 documents repeated an earlier one, counted once: 'd1', 'd2'."
    )


@pytest.mark.parametrize(
    "line", ['{"_id": "d1", "text": "other"}', '{"_id": "d1", "text": "one", "lang": "en"}']
)
def test_an_id_given_twice_with_other_content_names_both_lines(tmp_path: Path, line: str) -> None:
    with pytest.raises(
        EvalsetError, match=r"corpus\.jsonl:3: document 'd1' was already given in line 1"
    ):
        load(write(tmp_path, corpus=CORPUS + line))


def test_a_query_without_text_is_named_with_the_line_of_the_first(tmp_path: Path) -> None:
    queries = QUERIES.replace("which is two?", " ")

    with pytest.raises(EvalsetError, match=r"queries\.jsonl:2: 1 of 2 queries had no text: 'q2'"):
        load(write(tmp_path, queries=queries))


@pytest.mark.parametrize("name", ["corpus", "queries", "qrels"])
@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_an_empty_file_is_an_error(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(EvalsetError, match=rf"{name}\.\w+: holds no"):
        load(write(tmp_path, **{name: content}))


# Judgements


@pytest.mark.parametrize(
    "qrels",
    [
        "q1\td1\t1\nq2\td2\t1\n",
        HEADER + "q1\td1\t1.0\nq2\td2\t+1",
        "qid\tdocid\trelevance\nq1\td1\t1\nq2\td2\t1",
        "q1 \t d1\t1 \nq2\td2\t1  ",
    ],
)
def test_three_columns_with_and_without_header(tmp_path: Path, qrels: str) -> None:
    evalset = load(write(tmp_path, qrels=qrels))

    assert pairs(evalset) == SOUND
    assert evalset.notices == ()


def test_a_single_row_without_header_is_a_judgement(tmp_path: Path) -> None:
    queries = QUERIES.splitlines()[0]

    assert pairs(load(write(tmp_path, queries=queries, qrels="q1\td1\t1"))) == SOUND[:1]


def test_a_header_in_another_language_is_named(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, qrels=QRELS.replace(HEADER, "질문\t문서\t점수\n")))

    assert pairs(evalset) == SOUND
    assert evalset.notices[0].message == "qrels.tsv:1 was read as a header."


@pytest.mark.parametrize("qrels", ["q1 0 d1 1\nq2 0 d2 1\n", "q1\tQ0\td1\t1\nq2  4.5 d2 1"])
def test_four_columns_are_trec_qrels(tmp_path: Path, qrels: str) -> None:
    evalset = load(write(tmp_path, qrels=qrels))

    assert pairs(evalset) == SOUND
    assert codes(evalset) == ["trec_qrels"]


@pytest.mark.parametrize(
    ("qrels", "line", "problem"),
    [
        (QRELS + "q1\td2", 4, r"2 column\(s\)"),
        (QRELS + "q1", 4, r"1 column\(s\)"),
        (QRELS + "q1\td2\t1\tx\ty", 4, r"5 column\(s\)"),
        ("q1,d1,1", 1, r"1 column\(s\)"),
        ("q1 d1 1", 1, r"1 column\(s\)"),
        (QRELS + "q1 0 d2 1", 4, "4 columns after rows of 3"),
        ("q1 0 d1 1\nq2\td2\t1", 2, "3 columns after rows of 4"),
        (QRELS + "\td2\t1", 4, "an id is empty"),
        (QRELS + "q1\t\t1", 4, "an id is empty"),
        ("q1\td1\tyes", 1, "grade 'yes' is not a whole number"),
        (QRELS + HEADER, 4, "grade 'score' is not a whole number"),
        ("corpus-id\tquery-id\tscore\nq1\td1\t1", 1, ".* in another order"),
        ("query-id\tscore\tcorpus-id\nq1\t1\td1", 1, ".* in another order"),
        ("q1\td1\t1\tann", 1, "grade 'ann' is not a whole number"),
        ("q1\td1\t1\t2", 1, None),
        (QRELS + "q1\td1\t2", 4, "query 'q1', document 'd1': grade 2, but 1 in line 2"),
        (
            QRELS + "q1\td3\t1",
            4,
            "1 of 3 documents in the qrels cannot be found in the corpus: 'd3'",
        ),
        (QRELS + "q3\td1\t1", 4, r"the qrels name queries that do not exist \(1 in all\): 'q3'"),
    ],
)
def test_a_broken_row_is_an_error_with_its_line(
    tmp_path: Path, qrels: str, line: int, problem: str | None
) -> None:
    problem = problem or "the second of four columns must be 0, as in TREC qrels"

    with pytest.raises(EvalsetError, match=rf"qrels\.tsv:{line}: {problem}") as caught:
        load(write(tmp_path, qrels=qrels))

    assert caught.value.hint


@pytest.mark.parametrize(
    "grade",
    ["", "0.5", "yes", "1e400", "1e0", "nan", "inf", "99", "-31", "1_0", "１", "0x1", "1 1", "."],
)
def test_a_text_that_is_no_grade_is_an_error_with_its_line(tmp_path: Path, grade: str) -> None:
    with pytest.raises(EvalsetError, match=r"qrels\.tsv:2: ") as caught:
        load(write(tmp_path, qrels=f"q1\td1\t1\nq2\td2\t{grade}\n"))

    assert repr(grade) in str(caught.value)
    assert "whole number from -30 to 30" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "grade"), [("1", 1), ("+2", 2), ("3.0", 3), ("4.", 4), ("30", 30), ("-30", -30)]
)
def test_whole_numbers_are_grades(tmp_path: Path, text: str, grade: int) -> None:
    evalset = load(write(tmp_path, qrels=f"q1\td1\t1\nq2\td2\t1\nq2\td1\t{text}"))

    assert ("q2", "d1", grade) in pairs(evalset)


def test_repeated_rows_with_the_same_grade_count_once(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, qrels=QRELS + "q1\td1\t1.0\nq1\td1\t1\n"))

    assert pairs(evalset) == SOUND
    assert evalset.notices[0].message == (
        "2 of 4 judgements repeated an earlier one, counted once."
    )


def test_the_conflict_that_stands_first_in_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvalsetError, match=r"qrels\.tsv:4: query 'q2'.* in line 3"):
        load(write(tmp_path, qrels=QRELS + "q2\td2\t2\nq1\td1\t2\n"))


def test_an_id_with_inner_blanks_works_in_three_columns(tmp_path: Path) -> None:
    evalset = load(
        write(tmp_path, corpus=CORPUS.replace("d1", "d 1"), qrels=QRELS.replace("d1", "d 1"))
    )

    assert pairs(evalset) == [("q1", "d 1", 1), ("q2", "d2", 1)]
    assert codes(evalset) == ["white_space_in_ids"]


def test_judgements_of_unknown_documents_are_dropped_on_request(tmp_path: Path) -> None:
    evalset = load(write(tmp_path, qrels=QRELS + "q1\td3\t1\n"), allow_missing_docs=True)

    assert pairs(evalset) == SOUND
    assert evalset.missing_documents == ("d3",)


# Folders


def split_folder(folder: Path, qrels: str, split: str = "test") -> Path:
    write(folder)
    (folder / "qrels.tsv").unlink()
    (folder / "qrels").mkdir()
    (folder / "qrels" / f"{split}.tsv").write_text(qrels, encoding="utf-8")
    return folder


def test_queries_without_a_row_in_the_split_are_not_part_of_the_set(tmp_path: Path) -> None:
    """Not even their missing text matters."""
    folder = split_folder(tmp_path, "q2\td2\t1")
    (folder / "queries.jsonl").write_text(QUERIES.replace("which is one?", ""), encoding="utf-8")

    evalset = load(folder)

    assert evalset.query_ids == ("q2",)
    assert pairs(evalset) == SOUND[1:]
    assert [notice.message for notice in evalset.notices] == [
        "1 of 2 queries had no row in the split, so they are not part of the set."
    ]


def test_queries_of_a_split_without_positive_grade_are_excluded_by_default(tmp_path: Path) -> None:
    folder = split_folder(tmp_path, "q1\td1\t0\nq2\td2\t1")

    evalset = load(folder)

    assert evalset.query_ids == ("q1", "q2")
    assert evalset.is_evaluated.tolist() == [False, True]
    assert codes(evalset) == ["excluded_queries"]
    with pytest.raises(EvalsetError, match="1 of 2 queries had no relevant document"):
        load(folder, no_positive="error")


def test_a_query_whose_rows_were_all_dropped_stays_in_the_split(tmp_path: Path) -> None:
    folder = split_folder(tmp_path, "q1\td3\t1\nq2\td2\t1")

    evalset = load(folder, allow_missing_docs=True)

    assert evalset.query_ids == ("q1", "q2")
    assert evalset.is_evaluated.tolist() == [False, True]


def test_queries_without_a_row_in_a_single_file_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvalsetError, match=r"1 of 2 queries had no relevant .*: 'q2'") as caught:
        load(write(tmp_path, qrels="q1\td1\t1"))

    assert "--no-positive exclude" in caught.value.hint


def test_a_missing_split_lists_those_that_exist(tmp_path: Path) -> None:
    folder = split_folder(tmp_path, QRELS, split="dev")
    (folder / "qrels" / "train.tsv.gz").write_bytes(b"")

    with pytest.raises(InputError, match=r"no qrels/test\.tsv\[\.gz\] or qrels\.tsv") as caught:
        load(folder)

    assert "dev, train" in caught.value.hint


def test_a_split_is_chosen_by_name(tmp_path: Path) -> None:
    assert pairs(load(split_folder(tmp_path, QRELS, split="dev"), split="dev")) == SOUND


def test_a_single_file_does_not_answer_for_a_split(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no qrels/dev\.tsv\[\.gz\]"):
        load(write(tmp_path), split="dev")


@pytest.mark.parametrize("split", ["", ".", "..", "../test", "a/b"])
def test_a_split_cannot_leave_its_folder(tmp_path: Path, split: str) -> None:
    with pytest.raises(InputError, match="is not a plain name"):
        load(write(tmp_path), split=split)


def test_a_single_file_beside_the_split_is_an_error(tmp_path: Path) -> None:
    folder = split_folder(tmp_path, QRELS)
    (folder / "qrels.tsv").write_text(QRELS, encoding="utf-8")

    with pytest.raises(InputError, match=r"both qrels\.tsv and qrels.test\.tsv exist"):
        load(folder)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_a_missing_file_is_named_with_what_the_folder_holds(tmp_path: Path, name: str) -> None:
    (write(tmp_path) / name).unlink()

    with pytest.raises(InputError, match=rf"no {name}\[\.gz\]") as caught:
        load(tmp_path)

    assert "qrels.tsv" in caught.value.hint


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load(tmp_path / "absent")


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a file, not a folder"):
        load(write(tmp_path) / "corpus.jsonl")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_a_path_that_cannot_exist_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        load(tmp_path / name)


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (write(tmp_path) / "corpus.jsonl").unlink()
    (tmp_path / "corpus.jsonl").mkdir()

    with pytest.raises(EvalsetError, match=r"corpus\.jsonl: cannot be read"):
        load(tmp_path)


# gzip


def compress(path: Path, content: bytes | None = None) -> None:
    path.with_name(path.name + ".gz").write_bytes(
        gzip.compress(path.read_bytes()) if content is None else content
    )
    path.unlink()


def test_each_file_may_be_compressed(tmp_path: Path) -> None:
    plain = load(write(tmp_path))
    for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        compress(tmp_path / name)

    assert load(tmp_path).digest == plain.digest


def test_a_file_both_plain_and_compressed_is_an_error(tmp_path: Path) -> None:
    (write(tmp_path) / "corpus.jsonl.gz").write_bytes(gzip.compress(CORPUS.encode()))

    with pytest.raises(InputError, match=r"both corpus\.jsonl and corpus\.jsonl\.gz exist"):
        load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(CORPUS.encode())[:-9],
        gzip.compress(CORPUS.encode())[:5],
        gzip.compress(CORPUS.encode()) + b"garbage",
        gzip.compress(CORPUS.encode())[:12] + b"\xff" * 30,
        CORPUS.encode(),
    ],
    ids=["truncated", "header only", "garbage behind", "damaged", "not compressed"],
)
def test_a_broken_gzip_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    compress(write(tmp_path) / "corpus.jsonl", content)

    with pytest.raises(EvalsetError, match=r"corpus\.jsonl\.gz: not a complete gzip file"):
        load(tmp_path)


def test_a_gzip_file_damaged_behind_a_bad_byte_is_an_error(tmp_path: Path) -> None:
    """The bad byte is found first; looking for its line meets the damage."""
    content = gzip.compress(b"\xff" + bytes(range(1, 10)) + b"x" * 100_000, mtime=0)
    compress(write(tmp_path) / "corpus.jsonl", content[:-20])

    with pytest.raises(EvalsetError, match=r"gzip|UTF-8"):
        load(tmp_path)


def test_a_compressed_file_without_its_ending_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(EvalsetError, match="compressed with gzip") as caught:
        load(write(tmp_path, corpus=gzip.compress(CORPUS.encode(), mtime=0)))

    assert "corpus.jsonl.gz" in caught.value.hint
