"""What is read of a folder, and that every chunk knows where it stands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed_ab.buildset.chunks import Chunk, parts, split
from embed_ab.buildset.documents import Document, Skipped, read
from embed_ab.buildset.html_text import visible_text
from embed_ab.errors import InputError

NOWHERE = Path("/nowhere")
SENTENCE = "A backup is written every night, and it is kept for thirty days. "


def sources(folder: Path) -> list[str]:
    return [document.source for document in read(folder, without=NOWHERE)[0]]


def left_out(folder: Path) -> dict[str, str]:
    return {item.source: item.reason for item in read(folder, without=NOWHERE)[1]}


def chunks_of(text: str, name: str = "a.md", size: int = 100) -> list[Chunk]:
    kind = "markdown" if name.endswith(".md") else "text"
    return split([Document(source=name, text=text, kind=kind)], size)


def test_texts_are_found_recursively_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b.MD", "a/z.txt", "a/b/c.rst", "d.html", "e.jsonl", "f.py", ".git/x.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"text": "<p>x"}', encoding="utf-8")

    assert sources(tmp_path) == ["a/b/c.rst", "a/z.txt", "b.MD", "d.html", "e.jsonl:1"]


def test_the_output_folder_and_evaluation_sets_are_not_documents(tmp_path: Path) -> None:
    for name in ("a.md", "out/b.md", "eval/corpus.jsonl", "eval/queries.jsonl", "eval/c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SENTENCE, encoding="utf-8")

    documents, skipped = read(tmp_path, without=tmp_path / "out")

    assert [document.source for document in documents] == ["a.md"]
    assert [(item.source, item.reason) for item in skipped] == [("eval", "an evaluation set")]


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.md").write_text("secret", encoding="utf-8")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(SENTENCE, encoding="utf-8")
    (docs / "file.md").symlink_to(secret / "key.md")
    (docs / "folder").symlink_to(secret)
    (docs / "loop").symlink_to(docs)

    assert sources(docs) == ["a.md"]
    assert left_out(docs) == dict.fromkeys(("file.md", "folder", "loop"), "a symbolic link")


def test_what_is_no_text_is_left_out_by_name(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text(SENTENCE, encoding="utf-8")
    (tmp_path / "binary.txt").write_bytes(b"PK\x00\x01")
    (tmp_path / "latin.md").write_bytes("Größe".encode("latin-1"))
    (tmp_path / "utf16.md").write_bytes("Size".encode("utf-16"))
    (tmp_path / "empty.md").write_text(" \n", encoding="utf-8")
    (tmp_path / "blank.html").write_text("<script>x</script>", encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"name": "b"}\n', encoding="utf-8")
    (tmp_path / "torn.jsonl").write_text('{"text": "a"}\n{"text"', encoding="utf-8")
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(10_000_001)
    os.mkfifo(tmp_path / "pipe.md")

    assert left_out(tmp_path) == {
        "binary.txt": "binary, not text",
        "blank.html": "no visible text",
        "empty.md": "empty",
        "huge.txt": "larger than 10 MB",
        "latin.md": "byte 2 is not UTF-8; save it as UTF-8",
        "pipe.md": "not a regular file",
        "rows.jsonl": 'line 2 has no "text"',
        "torn.jsonl": "2: not JSON: Expecting ':' delimiter (column 8)",
        "utf16.md": "UTF-16, not UTF-8; save it as UTF-8",
    }


def test_a_folder_without_documents_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "binary.txt").write_bytes(b"\0")

    with pytest.raises(InputError, match=r"no text to read \(binary.txt: binary, not text\)"):
        read(tmp_path, without=NOWHERE)


@pytest.mark.parametrize("name", ["a\u3000b.md", "a\u00a0b.md", "👩\u200d🔧.md"])
def test_a_name_of_spaces_and_joiners_is_a_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SENTENCE, encoding="utf-8")

    documents, skipped = read(tmp_path, without=tmp_path / "out")

    assert ([document.source for document in documents], skipped) == ([name], [])
    (chunk,) = split(documents, 600)
    assert len(chunk.id.split()) == 1  # as TREC files want it


@pytest.mark.parametrize("name", ["a\u202eb.md", "a\u2028b.md", "a\x1b[1m.md"])
def test_a_name_that_would_change_what_is_printed_is_left_out(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SENTENCE, encoding="utf-8")

    with pytest.raises(InputError, match="its name holds characters that cannot be shown"):
        read(tmp_path, without=tmp_path / "out")


def test_folders_within_folders_without_end_are_left_out(tmp_path: Path) -> None:
    """Deeper than paths may be long, and than Python calls itself."""
    (tmp_path / "a.md").write_text(SENTENCE, encoding="utf-8")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("deep", dir_fd=here)
        here, outer = os.open("deep", os.O_RDONLY, dir_fd=here), here
        os.close(outer)
    os.close(here)

    documents, skipped = read(tmp_path, without=tmp_path / "out")

    assert [document.source for document in documents] == ["a.md"]
    assert skipped == [Skipped(source="deep/deep/deep/…", reason="over 100 folders deep")]
    subprocess.run(["rm", "-rf", tmp_path / "deep"], check=True)  # rmtree calls itself, too


def test_one_file_may_be_given_and_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(SENTENCE, encoding="utf-8")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")

    assert sources(tmp_path / "link.md") == ["link.md"]


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf# Title")

    assert read(tmp_path, without=NOWHERE)[0][0].text == "# Title"


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
@pytest.mark.parametrize(
    "text",
    [
        "# Backup\r\n\r\n" + SENTENCE * 9 + "\r\n\r\n## Restore\r\n\r\n" + SENTENCE * 5,
        "# 백업\n\n" + "백업은 매일 밤 실행되고 30일 동안 보관됩니다. " * 9,
        "# 保存\n\n" + "バックアップは毎晩作成され、三十日間保存されます。" * 9,
        "😀 emoji 👩‍👩‍👧 " * 40,
        "no end " * 80,
        "x" * 1000,
    ],
)
def test_every_chunk_is_its_span_of_the_file(name: str, text: str) -> None:
    chunks = chunks_of(text, name)

    assert len(chunks) > 1
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert "".join("".join(c.text for c in chunks).split()) == "".join(text.split())


def test_japanese_chunks_end_with_a_sentence() -> None:
    chunks = chunks_of("バックアップは毎晩作成され、三十日間保存されます。" * 9)

    assert all(chunk.text.endswith("。") for chunk in chunks)


def test_korean_chunks_end_with_a_sentence() -> None:
    chunks = chunks_of("백업은 매일 밤 실행되고 30일 동안 보관됩니다. " * 9)

    assert all(chunk.text.endswith("다.") for chunk in chunks)


def test_a_heading_stands_with_what_it_heads() -> None:
    text = f"# Title\n\n## Backup\n\n{SENTENCE * 2}\n\n### Restore\n\n{SENTENCE * 2}"

    starts = [chunk.text.split("\n")[0] for chunk in chunks_of(text, size=140)]

    assert starts == ["# Title", "### Restore"]


def test_a_heading_of_restructured_text_stands_with_what_it_heads() -> None:
    text = f"Backup\n======\n\n{SENTENCE * 2}\n\nRestore\n-------\n\n{SENTENCE * 2}"

    assert [c.text.split("\n")[0] for c in chunks_of(text, "a.txt", 140)] == ["Backup", "Restore"]


def test_a_chunk_of_restructured_text_ends_before_the_next_heading() -> None:
    """60 characters would take in the next heading, and do take in short sections."""
    text = (
        "======\nManual\n======\n\nShort.\n\nBackup\n------\n\nEvery night. It is kept.\n\n"
        "Restore\n-------\n\nStop first. Then restore."
    )

    assert [chunk.text for chunk in chunks_of(text, "a.rst", 60)] == [
        "======\nManual\n======\n\nShort.",
        "Backup\n------\n\nEvery night. It is kept.",
        "Restore\n-------\n\nStop first. Then restore.",
    ]
    assert [chunk.text for chunk in chunks_of(text, "a.rst", 80)] == [
        text[: text.index("Restore")].strip(),
        "Restore\n-------\n\nStop first. Then restore.",
    ]


def test_a_line_of_marks_within_a_paragraph_is_no_heading() -> None:
    first, second = "A first sentence, of some length it is.", "One\nname\n----\nrest of it."

    assert [c.text for c in chunks_of(f"{first}\n\n{second}", "a.txt", 60)] == [first, second]


def test_the_span_of_a_record_is_that_of_its_text_as_read(tmp_path: Path) -> None:
    """The file has an escape where the text has a line end; `source` names the line."""
    (tmp_path / "a.jsonl").write_text(
        '{"title": "T", "text": "# One\\n\\n' + SENTENCE * 2 + '"}\n', encoding="utf-8"
    )

    chunks = split(read(tmp_path, without=NOWHERE)[0], 100)

    text = f"# One\n\n{SENTENCE * 2}"
    assert {chunk.source for chunk in chunks} == {"a.jsonl:1"}
    assert len(chunks) == 2
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)


def test_ids_are_the_path_and_a_number(tmp_path: Path) -> None:
    (tmp_path / "한 글%").mkdir()
    (tmp_path / "한 글%" / "backup.ko.md").write_text(SENTENCE * 5, encoding="utf-8")

    chunks = split(read(tmp_path, without=NOWHERE)[0], 100)

    assert [chunk.id for chunk in chunks][:2] == [
        "한%20글%25/backup.ko.md#0000",
        "한%20글%25/backup.ko.md#0001",
    ]
    assert chunks[0].source == "한 글%/backup.ko.md"


def test_a_record_has_its_line_as_source_and_keeps_its_title(tmp_path: Path) -> None:
    (tmp_path / "faq.jsonl").write_text(
        '{"_id": "1", "title": "Backup", "text": "Nightly."}\n\n{"text": "Daily."}\n',
        encoding="utf-8",
    )

    chunks = split(read(tmp_path, without=NOWHERE)[0], 100)

    assert [(c.id, c.title, c.text) for c in chunks] == [
        ("faq.jsonl:1#0000", "Backup", "Nightly."),
        ("faq.jsonl:3#0000", "", "Daily."),
    ]


PAGE = """<!doctype html><html><head><title>T</title><style>p {}</style>
<body><nav><a href=x>Home</a></nav>
<h1>Backup &amp;
restore</h1><p>Every   night&#46;</p><ul><li>one<li>t<b>w</b>o</ul>
<pre>a
  b</pre><script>if (a < b) {}</script><footer>Legal</footer></body></html>"""


def test_html_is_read_as_its_visible_text(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE, encoding="utf-8")

    (document,) = read(tmp_path, without=NOWHERE)[0]

    assert document.text == "Backup & restore\n\nEvery night.\n\none\n\ntwo\n\na\n  b\n\n"


def test_the_span_of_html_is_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE, encoding="utf-8")
    (document,) = read(tmp_path, without=NOWHERE)[0]

    start, end = document.span(document.text.index("Every"), document.text.index("two") + 3)

    assert PAGE[start:end] == "Every   night&#46;</p><ul><li>one<li>t<b>w</b>o"


def test_the_heading_of_html_stands_with_its_paragraph(tmp_path: Path) -> None:
    page = f"<h2>One</h2><p>{SENTENCE}<h2>Two</h2><p>{SENTENCE}"
    (tmp_path / "a.html").write_text(page, encoding="utf-8")

    chunks = split(read(tmp_path, without=NOWHERE)[0], 100)

    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["One", "Two"]
    assert page[chunks[1].start : chunks[1].end] == f"Two</h2><p>{SENTENCE.strip()}"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ('<a title="1 > 0">a</a> < b &lt; c &nope; &amp', "a < b < c &nope; &"),
        ("a<!-- > x --!> --> b", "a b"),
        ("a <!-- never ends <p>b", "a "),
        ("a<script>if (1 < 2) '<p>'</SCRIPT >b", "ab"),
        ("a<script>never ends", "a"),
        ("<head><title>x<body>y", ""),
        ("<head><title>x</title><body>y", "y"),
    ],
)
def test_odd_markup_is_read_as_browsers_do(page: str, text: str) -> None:
    assert visible_text(page)[0].strip("\n") == text


@pytest.mark.parametrize(
    "whole",
    [
        "<svg/>",
        '<svg viewBox="0 0 1 1" />',
        "<SVG/>",
        "<svg><svg/></svg>",
        "<svg><title/><style/></svg>",
        "<nav/>",
        "<template/>",
    ],
)
def test_the_text_after_an_element_that_ends_itself_is_seen(whole: str) -> None:
    assert visible_text(f"<p>before {whole}after</p>")[0].split() == ["before", "after"]


def test_a_script_that_ends_itself_does_not_in_html() -> None:
    assert visible_text("<p>a <script src='x'/>code()</script>b")[0] == "a b"


@pytest.mark.parametrize("piece", ["<a ", '<a "', "<!--", "<svg></nav>", "<script>", "&#", "</"])
def test_markup_that_never_ends_is_read_in_time(piece: str) -> None:
    """Quadratic reading would take minutes."""
    assert len(visible_text(piece * 100_000)[0]) <= len(piece) * 100_000


@given(st.text(alphabet="ab. \n\r#*`<&>가。😀-=|[](!"), st.sampled_from(["a.md", "a.txt"]))
def test_any_text_is_split_into_its_own_spans(text: str, name: str) -> None:
    chunks = chunks_of(text, name)

    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert "".join("".join(c.text for c in chunks).split()) == "".join(text.split())


@given(st.text(alphabet="ab <>/!-&;#1\"'\npscrit"))
def test_any_page_gives_each_character_a_place(page: str) -> None:
    text, starts, ends = visible_text(page)

    assert len(text) == len(starts) == len(ends)
    assert list(starts) == sorted(starts)
    assert all(0 <= start <= end <= len(page) for start, end in zip(starts, ends, strict=True))


@pytest.mark.parametrize("line", ["## x\n", "x\n=====\n", "=====\n", "<!-- \n"])
def test_headings_upon_headings_make_chunks_of_bounded_length(line: str) -> None:
    found = chunks_of(line * 3_000)

    assert max(len(chunk.text) for chunk in found) <= 200


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("x" * 50_000, [50_000]),
        ("x" * 120_000, [50_000, 50_000, 20_000]),
        ("word " * 12_001, [50_000, 10_005]),
        ("One. " + "a b " * 11_000 + "End. " + "a b " * 9_000, [44_010, 36_000]),  # 5 + 44,000 + 5
        ("a b.\n" * 6_000 + "c d. " * 6_000, [30_000, 30_000]),
        ("a b.\n" * 6_000 + "\n" + "c\n" * 15_000, [30_001, 30_000]),
        ("a b.\n\n" * 5_000 + "# c\n" * 2 + "d\n\n" * 10_000, [30_004, 30_004]),
        # A fence from 30,000 to 60,008 stands in one part: 4 + 30,000 + 4 + 200.
        ("a b.\n" * 6_000 + "```\n" + "# c\n\n" * 6_000 + "```\n" + "d\n" * 100, [30_000, 30_208]),
    ],
)
def test_a_long_text_is_cut_at_its_best_border_before_it_is_split(
    text: str, lengths: list[int]
) -> None:
    """The best of the second half of 50,000 characters; the splitter's time is quadratic."""
    assert [end - begin for begin, end in parts(text, 0, len(text))] == lengths


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_the_chunks_of_a_text_without_line_breaks_are_its_spans(name: str) -> None:
    text = "".join(f"word{number} " for number in range(12_000))  # 118,890 characters

    chunks = chunks_of(text, name, 1_000)

    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert " ".join(chunk.text for chunk in chunks).split() == text.split()


def test_documents_that_have_to_be_converted_are_named(tmp_path: Path) -> None:
    for name in ("a.md", "b.PDF", "c.docx", "d.png"):
        (tmp_path / name).write_text(SENTENCE, encoding="utf-8")

    assert sorted(left_out(tmp_path)) == ["b.PDF", "c.docx"]
