"""What cannot be read is named, with its place, in one sentence."""

import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from dspectral.store.from_text.readers import read_span
from dspectral.store.from_text.sources import plan_spans
from tests.store.from_text.texts import COMPRESS, blocks, parquet_of, put, texts


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("a.txt", b"a\nb\nc\xffd\n", "line 3"),
        ("a.txt", b"a\nb\nc\xe2\x82\n", "line 3"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', "line 2"),
        ("a.tsv", b"text\na\nb\xff\n", "line 3"),
        ("a.csv", b'text\n"a\nb"\nc\xff\n', "line 4"),
        ("a.txt.gz", gzip.compress(b"a\n" * 70 + b"\xff", mtime=0), "line 71"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_text_that_is_not_utf8_is_named(name, content, where, block_bytes):
    field = None if "txt" in name else "text"
    url = put(name, content)
    with pytest.raises(ValueError, match=rf"{name}, {where}: not UTF-8 \(.*\); errors='replace' reads on"):
        blocks(url, field=field, block_bytes=block_bytes)
    assert texts(blocks(url, field=field, block_bytes=block_bytes, errors="replace"))[-1].count("\ufffd") == 1


def test_inside_a_cut_file_the_byte_is_named():
    assert len(blocks(put("a.txt", b"abc\n" * 5), span_bytes=6)) == 4
    with pytest.raises(ValueError, match=r"a\.txt, byte 17: not UTF-8"):
        blocks(put("a.txt", b"abc\n" * 4 + b"a\xffc\n"), span_bytes=6)
    records = b'{"text": "a"}\n' * 4 + b"{}\n"
    with pytest.raises(ValueError, match=r"a\.jsonl, byte 56: no field 'text' in the record, but \[\]"):
        blocks(put("a.jsonl", records), span_bytes=30, field="text")


def test_half_a_surrogate_pair_in_json_is_named_or_replaced():
    url = put("a.jsonl", '{"text": "\\ud83d\\ude00"}\n{"text": "a\\ud83db"}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: half a surrogate pair in the text"):
        blocks(url, field="text")
    assert texts(blocks(url, field="text", errors="replace")) == ["\U0001f600", "a\ufffdb"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{text: 1}", r"not JSON \(.*, column 2\)"),
        ("", r"not JSON \(Expecting value, column 1\)"),
        ('{"text": "a"} {}', r"not JSON \(Extra data, column 15\)"),
        ('["text"]', r"expected a JSON object with a string in 'text', not \[\"text\"\]"),
        ('{"body": "a"}', r"no field 'text' in the record, but \[\"body\"\]"),
        ('{"text": 1}', "field 'text' holds 1, not a string"),
        ('{"text": null}', "field 'text' holds null, not a string"),
        ("[" * 100_000, "maximum recursion depth exceeded"),
    ],
)
def test_a_json_line_without_the_text_is_named(line, sentence):
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 2: {sentence}"):
        blocks(put("a.jsonl", f'{{"text": "a"}}\n{line}\n{{"text": "b"}}\n'), field="text")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
@pytest.mark.parametrize(("line", "n"), [("a", 1), ("a\tb", 2), ("a\tb\tc\td", 4)])
def test_a_record_of_another_number_of_columns_is_named(name, line, n):
    content = f"id\ttext\tend\n1\tb\t\n{line}\n2\tc\t\n"
    if name == "a.csv":
        content = content.replace("\t", ",")
    with pytest.raises(ValueError, match=rf"{name}, line 3: {n} column\(s\), but the header has 3"):
        blocks(put(name, content), field="text")


@pytest.mark.parametrize("content", ['text\na\n"b\nc\n', 'text\na\n"b"c\n'])
def test_broken_quotes_are_named_by_the_line_where_the_record_begins(content):
    with pytest.raises(ValueError, match=r"a\.csv, line 3: no CSV record \(.*\)"):
        blocks(put("a.csv", content), field="text")


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_a_truncated_file_is_named(ending, name):
    content = COMPRESS[ending](
        b"text\n" + np.random.default_rng(0).integers(97, 122, 5000).astype("u1").tobytes()
    )
    field = "text" if name == "a.csv" else None
    for size in (len(content) - 1, len(content) // 2):
        url = put(name + ending, content[:size])
        with pytest.raises(ValueError, match=rf"{name}\{ending} is truncated"):
            blocks(url, field=field)


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_a_damaged_file_is_named(ending):
    summed = zstandard.ZstdCompressor(write_checksum=True).compress if ending == ".zst" else COMPRESS[ending]
    content = summed(np.random.default_rng(0).integers(97, 122, 5000).astype("u1").tobytes())
    half = len(content) // 2
    flipped = content[:half] + bytes([255 - content[half]]) + content[half + 1 :]
    for damaged in (b"plain text\n" * 9, flipped):
        with pytest.raises(ValueError, match=rf"a\.txt\{ending} is damaged, or not a \{ending} file: ."):
            blocks(put(f"a.txt{ending}", damaged))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_what_follows_a_compressed_stream_is_no_text(ending):
    with pytest.raises(ValueError, match=rf"a\.txt\{ending} is damaged, or not a \{ending} file: ."):
        blocks(put(f"a.txt{ending}", COMPRESS[ending](b"a\nb\n") + b"behind it"))


def test_a_damaged_parquet_file_is_named():
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["some text"] * 3}), file, compression="none", use_dictionary=False)
    content = bytearray(file.getvalue())
    content[4:40] = bytes(36)
    with pytest.raises(ValueError, match=r"a\.parquet is damaged, or not a Parquet file"):
        blocks(put("a.parquet", bytes(content)), field="text")


@pytest.mark.parametrize(
    ("values", "row"), [([b"a", b"b\xff"], 1), ([b"\xe2\x82", b"\xac"], 0), ([b"", b"\x80"], 1)]
)
def test_parquet_strings_that_are_not_utf8_are_named(values, row):
    column = pa.array(values, pa.binary()).view(pa.string())
    url = parquet_of(column, store_schema=False)
    with pytest.raises(ValueError, match=rf"a\.parquet, row group 0, row {row}: not UTF-8"):
        blocks(url, field="text")
    replaced = [value.decode(errors="replace") for value in values]
    assert texts(blocks(url, field="text", errors="replace")) == replaced


def test_a_file_removed_after_planning_is_missed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a")
    (span,) = plan_spans(str(path))
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.txt"):
        next(read_span(span, block_bytes=64))
