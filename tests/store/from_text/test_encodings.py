"""Files of other encodings, of other delimiters, and folders: read, or named with what would help."""

import gzip

import pytest

from dspectral import TextFiles, build_corpus, build_store
from dspectral.store.from_text.sources import plan_spans
from tests.store.from_text.texts import blocks, put, texts

LINES = ["caf\xe9 \u20ac", "", "na\xefve"] * 40
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.mark.parametrize(
    "encoding", ["cp1252", "CP1252", "utf-16", "utf-16-le", "utf_32", "gb18030", "utf-8-sig"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [7, 64, 1 << 20])
def test_lines_are_the_same_in_every_encoding(encoding, end, size):
    url = put("coded.txt", TEXT.replace("\n", end).encode(encoding))
    assert texts(blocks(url, span_bytes=size, block_bytes=size, encoding=encoding)) == LINES
    compressed = put("coded.txt.gz", gzip.compress(TEXT.replace("\n", end).encode(encoding)))
    assert texts(blocks(compressed, span_bytes=size, block_bytes=size, encoding=encoding)) == LINES
    whole = texts(blocks(url, unit="file", encoding=encoding))
    assert whole == [TEXT.replace("\n", end)]


def test_encodings_of_one_byte_a_line_end_are_cut_and_wide_ones_are_not():
    for encoding, n in (("latin-1", 4), ("utf-16", 1)):
        url = put("cut.txt", ("abc\n" * 5).encode(encoding))
        assert len(plan_spans(url, span_bytes=6, encoding=encoding)) == n


@pytest.mark.parametrize(
    ("content", "encoding", "sentence"),
    [
        (b"a\nb\xff\n", None, "line 2: not UTF-8 .* errors='replace' .* encoding= .*'cp1252'"),
        ("a\nb\n".encode("utf-16"), None, "line 1: not UTF-8 .* encoding= .*'utf-16'"),
        (b"a\nb\x81\n", "cp1252", "line 2: byte 0x81 is not cp1252 .* encoding="),
        ("a\nb\n".encode("utf-16-le") + b"\0\xd8a\0", "utf-16-le", "byte 8: byte 0x00 is not utf-16-le"),
        (b"a\x00b", "utf-16-le", r"byte 2: byte 0x62 is not utf-16-le \(truncated data\)"),
    ],
)
def test_a_byte_that_cannot_be_decoded_names_place_and_options(content, encoding, sentence):
    url = put("bad.txt", content)
    with pytest.raises(ValueError, match=rf"bad\.txt, {sentence}"):
        blocks(url, encoding=encoding)
    assert "\ufffd" in "".join(texts(blocks(url, encoding=encoding, errors="replace")))


@pytest.mark.parametrize("encoding", ["utf-5", "rot13", "base64", 8, "utf-7\0", ""])
def test_an_unknown_encoding_is_named(tmp_path, encoding):
    for use in (build_store, build_corpus):
        with pytest.raises(
            ValueError, match=r"encoding is .*, but it must be one that Python knows, such as 'utf-8'"
        ):
            use(put("a.txt", "a"), str(tmp_path / "s"), encoding=encoding)
    with pytest.raises(ValueError, match="its lines do not end in one known way"):
        plan_spans(put("a.txt", "a"), encoding="cp037")


def test_a_header_says_how_a_csv_file_is_cut(tmp_path):
    rows = {
        ",": 'id,"text"\n1,"a;b"\n',
        ";": 'id;"te,xt";text\n1;x;"a;b"\n',
        "\t": "id\ttext\n1\ta;b\n",
        "|": "id|text\n1|a;b\n",
    }
    for cut, content in rows.items():
        (span,) = plan_spans(put("cut.csv", content), field="text")
        assert span.delimiter == cut
        assert texts(blocks(put("cut.csv", content), field="text")) == ["a;b"]
    url = put("other.csv", "id^text\n1^a\n")
    with pytest.raises(
        ValueError, match=r"other\.csv has no column 'text', or several, but id\^text; delimiter= says"
    ):
        plan_spans(url, field="text")
    assert texts(blocks(url, field="text", delimiter="^")) == ["a"]
    with pytest.raises(ValueError, match=r"has no column 'text', or several, but id, body$"):
        plan_spans(put("cut.csv", "id;body\n1;a\n"), field="text")
    with pytest.raises(ValueError, match="delimiter is ';;', but it must be one character"):
        plan_spans(url, field="text", delimiter=";;")
    with pytest.raises(ValueError, match=r"delimiter is ';', but .*lines\.txt is no csv file"):
        plan_spans(put("lines.txt", "a"), delimiter=";")


@pytest.fixture
def folder(tmp_path):
    for name, content in {
        "b.txt": "b\n",
        "a.txt.gz": gzip.compress(b"a\n"),
        "t.csv": "text\nc\n",
        "s.jsonl": '{"text": "d"}\n',
        "_notes.txt": "not",
        ".hidden.txt": "not",
        "read.me": "not",
        "deep/c.txt": "not",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


def test_a_folder_stands_for_the_files_of_known_endings_in_it(folder):
    assert texts(blocks(str(folder))) == ["a", "b"]
    assert texts(blocks(f"{folder}/", field="text")) == ["d", "c"]
    assert TextFiles(folder).n_documents == 2
    assert TextFiles([folder, folder / "deep"]).n_documents == 3


def test_a_folder_without_such_files_says_what_is_in_it(folder):
    (folder / "deep" / "c.txt").rename(folder / "deep" / "c.log")
    with pytest.raises(
        FileNotFoundError, match=r"deep is .* \.txt: it holds c\.log; .*unit='line' .*deep/\*"
    ):
        plan_spans(str(folder / "deep"))
    with pytest.raises(FileNotFoundError, match=r"is a file of records \(\.jsonl, .*\): it holds c\.log"):
        plan_spans(str(folder / "deep"), field="text")
    for name in ("a.txt.gz", "b.txt"):
        (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=r"read\.me, s\.jsonl, t\.csv, 1 folder.*; field= reads"):
        plan_spans(str(folder))
    (folder / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no file in the folder .*empty is .*: it is empty"):
        plan_spans(str(folder / "empty"))
