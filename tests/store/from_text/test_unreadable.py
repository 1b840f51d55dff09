"""What cannot be read is named, with its place, in one sentence: one table for every format."""

import gzip
import io
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.store.from_text.texts import COMPRESS, blocks, parquet_of, put, spans_of, texts

TEXT = {"field": "text"}
LINES = np.random.default_rng(0).integers(97, 122, 5000).astype("u1").tobytes()
TABLE = b"id\ttext\n1\ta b\n2\tc\n"
RECORDS = "field="
NO_COLUMN = "'body'.*id, text"


def in_line(line):
    return f'{{"text": "a"}}\n{line}\n{{"text": "b"}}\n'


def flipped(content):
    half = len(content) // 2
    return content[:half] + bytes([255 - content[half]]) + content[half + 1 :]


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="none", use_dictionary=False)
    return file.getvalue()


SUMMED_ZST = zstandard.ZstdCompressor(write_checksum=True).compress
BAD = [
    # Bytes of no text.
    ("a.txt", b"a\nb\nc\xffd\n", {}, "line 3.*UTF-8.*errors='replace'.*encoding=.*'cp1252'"),
    ("a.txt", b"a\nb\nc\xe2\x82\n", {}, "line 3.*UTF-8"),
    ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', TEXT, "line 2.*UTF-8"),
    ("a.tsv", b"text\na\nb\xff\n", TEXT, "line 3.*UTF-8"),
    ("a.csv", b'text\n"a\nb"\nc\xff\n', TEXT, "line 4.*UTF-8"),
    ("a.txt.gz", gzip.compress(b"a\n" * 70 + b"\xff", mtime=0), {}, "line 71.*UTF-8"),
    ("a.txt", b"abc\n" * 4 + b"a\xffc\n", {"span_bytes": 6}, "byte 17.*UTF-8"),
    ("a.txt", "a\nb\n".encode("utf-16"), {}, "line 1.*UTF-8.*encoding=.*'utf-16'"),
    ("a.txt", b"a\nb\x81\n", {"encoding": "cp1252"}, "line 2.*0x81.*cp1252.*encoding="),
    (
        "a.txt",
        "a\nb\n".encode("utf-16-le") + b"\0\xd8a\0",
        {"encoding": "utf-16-le"},
        "byte 8.*0x00.*utf-16-le",
    ),
    ("a.txt", b"a\x00b", {"encoding": "utf-16-le"}, "byte 2.*0x62.*utf-16-le"),
    # Records that hold no text.
    ("a.jsonl", in_line('{"body": "a"}'), TEXT, r"line 2.*'text'.*\[\"body\"\]"),
    ("a.jsonl", in_line('{"text": 1}'), TEXT, "line 2.*'text'.*1"),
    ("a.jsonl", in_line('{"text": null}'), TEXT, "line 2.*'text'.*null"),
    ("a.jsonl", '{"text": "a\\ud83db"}\n', TEXT, "line 1.*surrogate"),
    *(
        (
            f"a.{kind}",
            f"id,text,end\n1,b,\n{line}\n".replace(",", cut),
            TEXT,
            rf"line 3.*{n} column.*3",
        )
        for kind, cut in (("csv", ","), ("tsv", "\t"))
        for n, line in ((1, "a"), (2, "a,b"), (4, "a,b,c,d"))
    ),
    ("a.csv", 'text\na\n"b"c\n', TEXT, "line 3.*CSV"),
    # Files that are cut short or damaged.
    *(
        (f"a.{kind}{ending}", COMPRESS[ending](b"text\n" + LINES)[:-size], how, "truncated")
        for ending in (".gz", ".bz2", ".zst")
        for kind, how, size in (("txt", {}, 1), ("csv", TEXT, 1500))
    ),
    *((f"a.txt{end}", b"plain text\n" * 9, {}, f"damaged.*{end}") for end in COMPRESS if end),
    *(
        (f"a.txt{end}", flipped(compress(LINES)), {}, f"damaged.*{end}")
        for end, compress in ({**COMPRESS, ".zst": SUMMED_ZST}).items()
        if end
    ),
    ("a.txt.gz", gzip.compress(b"a\n") + b"behind it", {}, "damaged"),
    ("a.txt.zst", zstandard.compress(b"a\n") + b"behind it", {}, "damaged"),
    ("a.parquet", b"text", TEXT, "damaged.*Parquet"),
    ("a.parquet", bytes(40).join(parquet(text=["some text"] * 3).split(b"some text")), TEXT, "damaged"),
    # Files and columns that are not what was asked for.
    *(
        (name, TABLE, options, RECORDS)
        for name in ("a.jsonl", "a.csv", "a.tsv", "a.parquet", "a.jsonl.gz")
        for options in ({}, {"unit": "line"}, {"unit": "field"})
    ),
    ("a.parquet", parquet(id=[1], text=["a"]), {"field": "body"}, NO_COLUMN),
]


@pytest.mark.parametrize("block_bytes", [1, 1000])
@pytest.mark.parametrize(("name", "content", "options", "sentence"), BAD)
def test_what_cannot_be_read_is_named_with_its_place(name, content, options, sentence, block_bytes):
    with pytest.raises(ValueError, match=f"{re.escape(name)}.*{sentence}"):
        blocks(put(name, content), block_bytes=block_bytes, **options)


@pytest.mark.parametrize(("name", "content", "options", "sentence"), BAD[:11])
def test_bytes_that_are_no_text_are_replaced_on_request(name, content, options, sentence):
    actual = texts(blocks(put(name, content), errors="replace", **options))
    assert "\ufffd" in "".join(actual) or "utf-16" in sentence


def test_half_a_surrogate_pair_in_json_is_replaced():
    url = put("a.jsonl", '{"text": "\\ud83d\\ude00"}\n{"text": "a\\ud83db"}\n')
    assert texts(blocks(url, field="text", errors="replace")) == ["\U0001f600", "a\ufffdb"]


@pytest.mark.parametrize(("values", "row"), [([b"a", b"b\xff"], 1), ([b"\xe2\x82", b"\xac"], 0), ([b"", b"\x80"], 1)])
def test_parquet_strings_that_are_not_utf8_are_named(values, row):
    url = parquet_of(pa.array(values, pa.binary()).view(pa.string()), store_schema=False)
    with pytest.raises(ValueError, match=rf"a\.parquet, row group 0, row {row}.*UTF-8"):
        blocks(url, field="text")
    replaced = [value.decode(errors="replace") for value in values]
    assert texts(blocks(url, field="text", errors="replace")) == replaced


@pytest.mark.parametrize(
    ("name", "module", "sentence"),
    [("a.parquet", "pyarrow.parquet", "pyarrow"), ("a.tsv.zst", "zstandard", "zstandard")],
)
def test_a_missing_extra_is_named_with_what_installs_it(monkeypatch, name, module, sentence):
    url = put(name, TABLE)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{sentence}.*'dspectral\[text\]'"):
        spans_of(url, field="text")
