"""What is planned: which files, in which order, cut where; what does not fit is refused before it is read."""

import gzip
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dspectral.store.from_text.readers import read_span
from dspectral.store.from_text.sources import plan_spans

TABLE = "id\ttext\n1\ta b\n2\tc\n"


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def documents(sources, **options):
    return [
        block.text(i).decode()
        for span in plan_spans(sources, **options)
        for block in read_span(span, block_bytes=64)
        for i in range(block.n_documents)
    ]


def test_a_file_is_cut_by_its_size_alone(tmp_path):
    path = written(tmp_path / "a.txt", b"\xff" * 25)
    assert [(s.start, s.stop) for s in plan_spans(path, span_bytes=10)] == [(0, 10), (10, 20), (20, 25)]
    assert [(s.start, s.stop) for s in plan_spans(path, span_bytes=25)] == [(0, -1)]


def test_a_parquet_file_has_a_span_for_each_row_group(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": list("abcde")}), path, row_group_size=2)
    assert [(s.start, s.stop) for s in plan_spans(path, field="text")] == [(0, 1), (1, 2), (2, 3)]
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


def test_paths_of_the_working_directory_become_absolute(tmp_path, monkeypatch):
    written(tmp_path / "a.txt", "a")
    monkeypatch.chdir(tmp_path)
    assert [span.url for span in plan_spans("a.txt")] == [str(tmp_path / "a.txt")]
    assert [span.url for span in plan_spans(Path("a.txt"))] == [str(tmp_path / "a.txt")]


def test_a_file_url_and_storage_options_reach_the_file_system(tmp_path):
    path = written(tmp_path / "a.txt", "a\nb")
    options = {"auto_mkdir": False}
    (span,) = plan_spans(f"file://{path}", storage_options=options)
    (block,) = read_span(span, block_bytes=64, storage_options=options)
    assert block.data.tobytes() == b"ab"
    with pytest.raises(ValueError, match="Protocol not known: nowhere"):
        plan_spans("nowhere://a.txt")


def test_a_file_inside_a_chain_keeps_its_whole_url(tmp_path):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("in.txt", "a\nb\n")
    url = f"zip://in.txt::{archive}"
    assert [span.url for span in plan_spans(url)] == [url]
    assert documents(url) == ["a", "b"]
    with pytest.raises(ValueError, match="is a pattern behind '::'"):
        plan_spans(f"zip://*.txt::{archive}")


@pytest.mark.parametrize("name", ["a.log", "README", "a.gz", "txt", ".txt", "a.log.gz", "a.txt.gz.gz"])
def test_an_unknown_ending_needs_a_unit(tmp_path, name):
    content = gzip.compress(b"a\nb") if name.endswith(".gz") else b"a\nb"
    path = written(tmp_path / name, content)
    known = name == ".txt"
    if not known:
        with pytest.raises(
            ValueError, match=r"ends in none of \.txt, \.jsonl, .* \(and \.gz, \.bz2 or \.zst\)"
        ):
            plan_spans(path)
    if not name.endswith(".gz.gz"):
        assert documents(path, unit="line") == ["a", "b"]
        assert documents(path, unit="file") == ["a\nb"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.parquet", "a.jsonl.gz"])
@pytest.mark.parametrize("options", [{}, {"unit": "line"}, {"unit": "file"}, {"unit": "field"}])
def test_records_need_a_field(tmp_path, name, options):
    path = written(tmp_path / name, TABLE)
    with pytest.raises(ValueError, match=rf"{name} holds records: field= must name the one"):
        plan_spans(path, **options)


@pytest.mark.parametrize("options", [{"unit": "field"}, {"field": "text"}, {"unit": "line", "field": "text"}])
def test_text_has_no_fields(tmp_path, options):
    with pytest.raises(ValueError, match=r"a\.txt is text without fields: unit must be 'line' or 'file'"):
        plan_spans(written(tmp_path / "a.txt", "a"), **options)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere\.txt"):
        plan_spans(str(tmp_path / "nowhere.txt"))
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.txt"):
        plan_spans(str(tmp_path / "*.txt"))
    with pytest.raises(FileNotFoundError, match="no file "):
        plan_spans(str(tmp_path))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.tsv.gz", "a.csv.gz"])
def test_a_missing_column_is_named_with_those_there_are(tmp_path, name):
    text = TABLE if "tsv" in name else TABLE.replace("\t", ",")
    path = written(tmp_path / name, gzip.compress(text.encode()) if name.endswith("gz") else text)
    with pytest.raises(ValueError, match=rf"{name} has no column 'body', or several, but id, text"):
        plan_spans(path, field="body")


def test_a_parquet_file_is_checked_by_its_footer(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["a"], "n": [1], "list": [["a"]]}), path)
    with pytest.raises(ValueError, match=r"a\.parquet has no column 'body', or several, but text, n, list"):
        plan_spans(path, field="body")
    for column in ("n", "list"):
        with pytest.raises(ValueError, match=rf"a\.parquet: column '{column}' holds .*, not strings"):
            plan_spans(path, field=column)
    with pytest.raises(ValueError, match=r"b\.parquet is damaged, or not a Parquet file"):
        plan_spans(written(tmp_path / "b.parquet", "text"), field="text")
    with pytest.raises(ValueError, match=r"a\.parquet\.gz is compressed from outside"):
        plan_spans(written(tmp_path / "a.parquet.gz", gzip.compress(b"")), field="text")


@pytest.mark.parametrize(
    ("name", "module", "sentence"),
    [
        ("a.parquet", "pyarrow.parquet", r"Parquet files need pyarrow: pip install 'dspectral\[text\]'"),
        ("a.tsv.zst", "zstandard", r"\.zst files need zstandard: pip install 'dspectral\[text\]'"),
    ],
)
def test_a_missing_extra_is_named_with_what_installs_it(tmp_path, monkeypatch, name, module, sentence):
    path = written(tmp_path / name, TABLE)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=sentence):
        plan_spans(path, field="text")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.tsv", "a.csv", "a.csv.gz", "a.jsonl"])
def test_empty_files_have_no_documents(tmp_path, name):
    path = written(tmp_path / name, gzip.compress(b"") if name.endswith("gz") else b"")
    assert documents(path, field=None if "txt" in name else "text") == []
