"""What is planned and read: which files and folders, in which order and encoding, cut where."""

import gzip
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dspectral import TextFiles
from tests.store.from_text.texts import blocks, put, spans_of, texts


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def documents(sources, **options):
    return texts(blocks(sources, block_bytes=64, **options))


def test_a_file_is_cut_by_its_size_alone(tmp_path):
    path = written(tmp_path / "a.txt", b"\xff" * 25)
    assert [(s.start, s.stop) for s in spans_of(path, span_bytes=10)] == [(0, 10), (10, 20), (20, 25)]
    assert [(s.start, s.stop) for s in spans_of(path, span_bytes=25)] == [(0, -1)]


def test_a_parquet_file_has_a_span_for_each_row_group(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": list("abcde")}), path, row_group_size=2)
    assert [(s.start, s.stop) for s in spans_of(path, field="text")] == [(0, 1), (1, 2), (2, 3)]
    assert documents(path, field="text") == list("abcde")


def test_files_of_a_pattern_come_by_name_and_sources_in_their_order(tmp_path):
    for name in ("b", "a10", "a2", "c"):
        written(tmp_path / f"{name}.txt", name)
    (tmp_path / "folder.txt").mkdir()
    assert documents(str(tmp_path / "*.txt")) == ["a10", "a2", "b", "c"]
    assert documents([str(tmp_path / "c.txt"), str(tmp_path / "a*.txt")]) == ["c", "a10", "a2"]


def test_a_file_whose_name_looks_like_a_pattern_is_read(tmp_path):
    path = written(tmp_path / "a[1].txt", "here")
    written(tmp_path / "a1.txt", "not here")
    assert documents(path) == ["here"]


def test_a_file_inside_a_chain_keeps_its_whole_url(tmp_path):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("in.txt", "a\nb\n")
    url = f"zip://in.txt::{archive}"
    assert [span.url for span in spans_of(url)] == [url]
    assert documents(url) == ["a", "b"]
    with pytest.raises(ValueError, match="'::'"):
        spans_of(f"zip://*.txt::{archive}")


@pytest.mark.parametrize("name", ["a.log", "README", "a.gz", "txt", ".txt", "a.log.gz"])
def test_a_file_of_an_unknown_ending_is_read_by_its_unit(tmp_path, name):
    path = written(tmp_path / name, gzip.compress(b"a\nb") if name.endswith(".gz") else b"a\nb")
    assert documents(path, unit="line") == ["a", "b"]
    assert documents(path, unit="file") == ["a\nb"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.tsv", "a.csv", "a.csv.gz", "a.jsonl"])
def test_empty_files_have_no_documents(tmp_path, name):
    path = written(tmp_path / name, gzip.compress(b"") if name.endswith("gz") else b"")
    assert documents(path, field=None if "txt" in name else "text") == []


LINES = ["caf\xe9 \u20ac", "", "na\xefve"] * 40
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["cp1252", "CP1252", "utf-16", "utf-16-le", "utf_32", "gb18030", "utf-8-sig"])
@pytest.mark.parametrize("size", [7, 64, 1 << 20])
def test_lines_are_the_same_in_every_encoding(encoding, end, size):
    url = put("coded.txt", TEXT.replace("\n", end).encode(encoding))
    assert texts(blocks(url, span_bytes=size, block_bytes=size, encoding=encoding)) == LINES
    compressed = put("coded.txt.gz", gzip.compress(TEXT.replace("\n", end).encode(encoding)))
    assert texts(blocks(compressed, span_bytes=size, block_bytes=size, encoding=encoding)) == LINES
    whole = texts(blocks(url, unit="file", encoding=encoding))
    assert whole == [TEXT.replace("\n", end)]


def test_a_header_says_how_a_csv_file_is_cut(tmp_path):
    rows = {
        ",": 'id,"text"\n1,"a;b"\n',
        ";": 'id;"te,xt";text\n1;x;"a;b"\n',
        "\t": "id\ttext\n1\ta;b\n",
        "|": "id|text\n1|a;b\n",
    }
    for cut, content in rows.items():
        (span,) = spans_of(put("cut.csv", content), field="text")
        assert span.delimiter == cut
        assert texts(blocks(put("cut.csv", content), field="text")) == ["a;b"]
    url = put("other.csv", "id^text\n1^a\n")
    assert texts(blocks(url, field="text", delimiter="^")) == ["a"]


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
