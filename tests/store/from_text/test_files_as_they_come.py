"""Files as people have them: line ends, blank lines, missing texts, names that say little, hidden files and links."""

import csv
import gzip
import io
import json
import re
import sys

import dask.bag
import dask.dataframe
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dspectral import TextFiles, Texts, build_corpus, build_store, open_store
from tests.store.from_text.texts import blocks, put, spans_of, texts

NOTES = ["tide tables", "harbor lights", "a slow ferry"]


def in_csv(rows, sign=",", end="\n"):
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=sign, lineterminator=end).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("span_bytes", [7, 1 << 20])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("ends", [["\r"], ["\n", "\r\n", "\r"], ["\r\n", "\r"]])
def test_lines_end_in_any_of_three_ways(ends, ending, span_bytes):
    lines = NOTES * 4
    every = [ends[i % len(ends)] for i in range(len(lines) + 1)]
    records = {
        "txt": lines,
        "jsonl": [json.dumps({"text": line}) for line in lines],
        "tsv": ["id\ttext", *(f"{i}\t{line}" for i, line in enumerate(lines))],
        "csv": ["id,text", *(f'{i},"{line}"' for i, line in enumerate(lines))],
    }
    for kind, rows in records.items():
        content = "".join(row + end for row, end in zip(rows, every, strict=False)).encode()
        url = put(f"ends.{kind}{ending}", gzip.compress(content) if ending else content)
        field = None if kind == "txt" else "text"
        assert texts(blocks(url, span_bytes=span_bytes, block_bytes=span_bytes, field=field)) == lines
    wide = put("ends.txt", "".join(map("".join, zip(lines, every, strict=False))).encode("utf-16"))
    assert texts(blocks(wide, encoding="utf-16")) == lines


def test_quoted_fields_keep_line_ends_and_read_a_lone_return_as_one():
    url = put("quoted.csv", 'id,text\r1,"a\rb"\r2,"c\r\nd"\r3,"e\nf"\r')
    assert texts(blocks(url, field="text", block_bytes=1)) == ["a\nb", "c\r\nd", "e\nf"]


def test_each_line_of_a_text_in_memory_is_a_sentence_however_it_ends(tmp_path):
    corpus = build_corpus(Texts(["one\rtwo\r\nthree\nfour\r"]), str(tmp_path / "c"))
    assert corpus.n_sentences == 4


def write_records(kind, folder, rows, *, blank=False):
    """Write texts, None among them, as files and tables of each kind have them; blank lines among the records."""
    path = folder / f"notes.{kind}"
    between = ["", "  "] if blank else []
    if kind == "jsonl":
        lines = [json.dumps({"id": i, "text": text}) for i, text in enumerate(rows)]
        path.write_text("\n".join([*between, lines[0], *between, *lines[1:], *between, ""]), encoding="utf-8")
    elif kind in ("csv", "tsv"):
        lines = in_csv([["id", "text"], *enumerate(rows)], "," if kind == "csv" else "\t").splitlines()
        path.write_text("\n".join([*between, lines[0], *between, *lines[1:], *between, ""]), encoding="utf-8")
    else:
        pq.write_table(pa.table({"id": range(len(rows)), "text": rows}), path, row_group_size=2)
    return str(path)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv"])
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_blank_lines_are_no_records_and_are_counted(tmp_path, kind, block_bytes):
    path = write_records(kind, tmp_path, NOTES, blank=True)
    given = {"field": "text", "id_field": "id", "keep_texts": True, "block_bytes": block_bytes}
    store = build_store(path, str(tmp_path / "store"), long_documents="truncate", **given)
    assert store.text(range(len(store))) == NOTES
    assert store.ids == ["0", "1", "2"]
    assert store.provenance["n_blank_lines"] == 6
    assert TextFiles(path, field="text").n_documents == 3
    grown = build_store(path, str(tmp_path / "store"), append=True, **given)
    assert grown.provenance["appended"][0]["n_blank_lines"] == 6


def test_skipped_records_are_no_blank_lines(tmp_path):
    path, options = tmp_path / "a.tsv", {"field": "text", "max_document_bytes": 9, "long_documents": "skip"}
    path.write_text("text\tn\nshort\t1\n" + "long " * 2_000_000 + "\t2\nend\t3\n")
    with pytest.warns(UserWarning, match="1 document"):
        assert build_store(str(path), str(tmp_path / "s"), **options).shape[0] == 3
    path.write_text("text\nshort\n" + "long " * 2_000_000)
    with pytest.raises(ValueError, match="line 3"):  # of one column, its empty line would be blank
        build_store(str(path), str(tmp_path / "t"), **options)


LACKING = ["tide tables", None, "a slow ferry", None]


def in_memory(kind, rows):
    records = [{"id": i, "text": text} for i, text in enumerate(rows)]
    frame = pd.DataFrame({"id": range(len(rows)), "text": pd.Series(rows, dtype=object)})
    return {
        "records": records,
        "records once": iter(records),
        "pandas": frame,
        "pandas strings": frame.astype({"text": "string"}),
        "pandas NaN": frame.fillna({"text": float("nan")}),
        "polars": pl.DataFrame(records),
        "polars lazy": pl.LazyFrame(records),
        "Arrow": pa.Table.from_pylist(records),
        "bag": dask.bag.from_sequence(records, npartitions=2),
        "Dask frame": dask.dataframe.from_pandas(frame, npartitions=2),
    }[kind]


FILES = ("jsonl", "csv", "tsv", "parquet")
TABLES = (
    "records",
    "records once",
    "pandas",
    "pandas strings",
    "pandas NaN",
    "polars",
    "polars lazy",
    "Arrow",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*FILES, *TABLES, "bag", "Dask frame"])
def test_missing_texts_are_errors_empty_or_skipped_alike(tmp_path, kind):
    def source():
        return write_records(kind, tmp_path, LACKING) if kind in FILES else in_memory(kind, LACKING)

    def built(missing, name, **options):
        given = {"field": "text", "id_field": "id", "keep_texts": True, "missing": missing, **options}
        return build_store(source(), str(tmp_path / name), **given)

    store = built("empty", "empty")
    assert store.text(range(len(store))) == ["tide tables", "", "a slow ferry", ""]
    assert store.ids == ["0", "1", "2", "3"]
    store = built("skip", "skipped", block_bytes=5)
    assert store.text(range(len(store))) == ["tide tables", "a slow ferry"]
    assert store.ids == ["0", "2"]
    assert store.provenance["n_missing_texts"] == 2
    assert store.provenance["missing"] == "skip"
    corpus = build_corpus(source(), str(tmp_path / "corpus"), field="text", missing="skip")
    assert corpus.n_sentences == 2
    if kind in ("csv", "tsv"):  # where an empty cell is an empty text
        assert len(built("error", "error")) == 4
    else:
        with pytest.raises((TypeError, ValueError), match="missing='empty'"):
            built("error", "error")
    with pytest.raises(ValueError, match=r"missing.*'drop'"):
        built("drop", "unknown")


def test_a_record_without_the_field_lacks_its_text(tmp_path):
    path = put("some.jsonl", '{"text": "a b"}\n{"other": "c"}\n{"text": NaN}\n')
    assert texts(blocks(path, field="text", missing="skip")) == ["a b"]
    assert texts(blocks(path, field="text", missing="empty")) == ["a b", "", ""]
    with pytest.raises(ValueError, match=r"some\.jsonl, line 2.*'text'.*\"other\".*missing="):
        blocks(path, field="text")
    with pytest.raises(ValueError, match=r"some\.jsonl"):
        build_store(path, str(tmp_path / "s"), field="txt", missing="skip")


def test_an_append_that_fails_leaves_the_store_and_a_second_one_adds_once(tmp_path):
    url, more = str(tmp_path / "store"), tmp_path / "more.jsonl"
    build_store(Texts(NOTES), url, keep_texts=True)
    more.write_text('{"text": "new"}\n{"text": null}\n')
    given = {"append": True, "keep_texts": True, "block_bytes": 1}
    with pytest.raises(ValueError, match=r"byte 16.*'text'.*null"):
        build_store(str(more), url, field="text", **given)
    assert open_store(url).text(range(3)) == NOTES
    for wrong in (["b", None], iter(["b", 3]), dask.bag.from_sequence(["b", None], npartitions=2)):
        with pytest.raises(TypeError, match=r"document [01].*(None|3)"):
            build_store(Texts(wrong), url, **given)
    store = build_store(str(more), url, field="text", errors="replace", **given)
    assert store.text(range(len(store))) == [*NOTES, "new", ""]


JSON_LINES = "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(NOTES))


@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.JSON.gz", "a", "a.txt", "part-00000", "a.data"])
def test_records_are_told_by_what_a_file_holds(name):
    for content in (
        JSON_LINES,
        in_csv([["id", "text"], *enumerate(NOTES)]),
        in_csv([["id", "text"], *enumerate(NOTES)], ";"),
        in_csv([["id", "text"], *enumerate(NOTES)], "\t"),
        f"\n\n{JSON_LINES}".replace("\n", "\r"),
    ):
        if name.endswith("ndjson") and content != JSON_LINES:
            continue
        data = gzip.compress(content.encode()) if name.endswith("gz") else content
        assert texts(blocks(put(name, data), field="text")) == NOTES
    if not name.endswith(("gz", "ndjson")):
        file = io.BytesIO()
        pq.write_table(pa.table({"text": NOTES}), file)
        assert texts(blocks(put(name, file.getvalue()), field="text")) == NOTES
    assert texts(blocks(put(name, gzip.compress(b"") if name.endswith("gz") else b""), field="text")) == []


def test_a_format_that_is_named_goes_before_the_ending(tmp_path):
    content = in_csv([["id", "text"], *enumerate(NOTES)], "\t")
    assert texts(blocks(put("a.txt", content), field="text", format="tsv")) == NOTES
    assert texts(blocks(put("a.csv", "a,b\nc\n"), format="txt")) == ["a,b", "c"]
    (tmp_path / "out").mkdir()
    for i in range(2):
        (tmp_path / "out" / f"part-{i}").write_text(JSON_LINES)
    for name in (".part-0.crc", "_SUCCESS"):
        (tmp_path / "out" / name).touch()
    assert texts(blocks(str(tmp_path / "out"), field="text", format="jsonl")) == NOTES * 2
    assert len(build_store(str(tmp_path / "out"), str(tmp_path / "s"), field="text", format="jsonl")) == 6
    assert TextFiles(tmp_path / "out", field="text", format="jsonl").n_documents == 6
    with pytest.raises(ValueError, match=r"format.*'json'"):
        spans_of(put("a.txt", content), format="json")
    with pytest.raises(ValueError, match=r"format.*'txt'"):
        build_store(Texts(NOTES), str(tmp_path / "t"), format="txt")


def test_json_files_of_a_folder_are_records_where_nothing_else_is(tmp_path):
    (tmp_path / "a.json").write_text(JSON_LINES)
    assert texts(blocks(str(tmp_path), field="text")) == NOTES
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n')
    (tmp_path / "a.json").write_text('{\n"about": "b"\n}')
    assert texts(blocks(str(tmp_path), field="text")) == ["b"]


def test_patterns_name_hidden_files_only_where_they_spell_the_dot(tmp_path):
    remote = fsspec.filesystem("memory")
    for name in ("part-0", ".part-0.crc", ".DS_Store", ".git/part-0", "deep/part-1", "deep/.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
        remote.pipe(f"/shell/{name}", name.encode())
    (tmp_path / "_SUCCESS").touch()
    remote.pipe("/shell/_SUCCESS", b"")
    for root in (str(tmp_path), "memory://shell"):
        for pattern, expected in {
            "*": ["part-0"],
            "?part*": [],
            ".*": [".DS_Store", ".part-0.crc"],
            "*/*": ["deep/part-1"],
            "**/part*": ["deep/part-1", "part-0"],
            ".git/*": [".git/part-0"],
            "[.]part*": [],
        }.items():
            if expected:
                assert texts(blocks(f"{root}/{pattern}", unit="line")) == expected
            else:
                with pytest.raises(FileNotFoundError, match=re.escape(f"{root}/{pattern}")):
                    spans_of(f"{root}/{pattern}", unit="line")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_are_files(tmp_path):
    kept, shown = tmp_path / "blobs", tmp_path / "shown"
    for folder in (kept, kept / "inner", shown):
        folder.mkdir()
    (kept / "9f3a").write_text("tide tables\n")
    (kept / "inner" / "b.txt").write_text("harbor lights\n")
    (shown / "a.txt").symlink_to(kept / "9f3a")
    (shown / "linked").symlink_to(kept / "inner")
    assert texts(blocks(str(shown))) == ["tide tables"]
    assert texts(blocks(f"{shown}/*.txt")) == ["tide tables"]
    assert texts(blocks(f"{shown}/*/*.txt")) == ["harbor lights"]
    assert texts(blocks(str(shown / "a.txt"))) == ["tide tables"]
    (shown / "b.txt").symlink_to(kept / "gone")
    assert texts(blocks(str(shown))) == ["tide tables"]
    assert texts(blocks(f"{shown}/*.txt")) == ["tide tables"]
