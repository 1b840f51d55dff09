"""What is read: the documents as they were written, however cut; what cannot be read is named."""

import bz2
import csv
import gzip
import io
import json
import tracemalloc
from itertools import pairwise

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dspectral.store.csv_records import csv_texts
from dspectral.store.lines import Piece, split_lines, whole_lines
from dspectral.store.packing import pack
from dspectral.store.readers import read_span
from dspectral.store.sources import Span, plan_spans
from dspectral.types import Documents

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t"), max_size=12)
LETTERS = st.text(
    st.sampled_from(["a", "ö", "\u20ac", "\U0001f600", '"', ",", "\\", "\x85", "\u2028", "\0", " "])
)
LINES = st.lists(TEXTS | LETTERS, max_size=12)
SIZES = st.integers(1, 40)
PROPERTY = settings(
    deadline=None, derandomize=True, max_examples=150, suppress_health_check=[HealthCheck.too_slow]
)
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}


def put(name, content):
    """Write a file into memory."""
    url = f"memory://readers/{name}"
    with fsspec.open(url, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return url


def blocks(url, *, span_bytes=16 << 20, block_bytes=1 << 20, errors="strict", **options):
    """The blocks of each span of a file."""
    spans = plan_spans(url, span_bytes=span_bytes, **options)
    return [list(read_span(span, block_bytes=block_bytes, errors=errors)) for span in spans]


def texts(of_spans):
    return [
        block.text(i).decode() for of_span in of_spans for block in of_span for i in range(block.n_documents)
    ]


def assert_packed(documents, block_bytes):
    """Blocks are bounded, and none could have taken the document behind it."""
    most = max(1, block_bytes // 8)
    for block in documents:
        assert block.data.dtype == np.uint8
        assert block.offsets.dtype == np.int64
        assert (block.offsets[0], block.offsets[-1]) == (0, len(block.data))
        assert block.n_documents == 1 or (len(block.data) <= block_bytes and 1 < block.n_documents <= most)
    for block, behind in pairwise(documents):
        full = block.n_documents == most
        assert full or len(block.data) + behind.offsets[1] > block_bytes


def as_text(lines, end):
    return end.join([*lines, ""]).encode()


def as_jsonl(lines, end):
    return as_text(
        [json.dumps({"id": i, "text": line}, ensure_ascii=i % 2) for i, line in enumerate(lines)], end
    )


def as_tsv(lines, end):
    return as_text(["id\ttext\tend", *(f"\u00e9{i}\t{line}\t" for i, line in enumerate(lines))], end)


def as_csv(lines, end):
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *enumerate(lines)])
    return file.getvalue().encode()


WRITERS = {"txt": as_text, "jsonl": as_jsonl, "tsv": as_tsv, "csv": as_csv}


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("file_format", WRITERS)
@PROPERTY
@given(
    lines=LINES,
    span_bytes=SIZES,
    block_bytes=SIZES,
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    ended=st.booleans(),
)
def test_documents_are_the_lines_whatever_the_cut(
    file_format, compression, lines, span_bytes, block_bytes, end, mark, ended
):
    content = WRITERS[file_format](lines, end)
    if not ended and lines and lines[-1]:
        content = content.removesuffix(end.encode())
    if mark:
        content = b"\xef\xbb\xbf" + content
    elif content.startswith(b"\xef\xbb\xbf"):  # a first line of that sign is not told from the mark
        return
    url = put(f"lines.{file_format}{compression}", COMPRESS[compression](content))
    field = None if file_format == "txt" else "text"
    of_spans = blocks(url, span_bytes=span_bytes, block_bytes=block_bytes, field=field)
    assert texts(of_spans) == lines
    for of_span in of_spans:
        assert_packed(of_span, block_bytes)


@PROPERTY
@given(lines=LINES, block_bytes=SIZES, group=st.integers(1, 5), dictionary=st.booleans(), large=st.booleans())
def test_documents_are_the_rows_of_a_parquet_column(lines, block_bytes, group, dictionary, large):
    column = pa.array(lines, pa.large_string() if large else pa.string())
    file = io.BytesIO()
    table = pa.table({"id": range(len(lines)), "text": column.dictionary_encode() if dictionary else column})
    pq.write_table(table, file, row_group_size=group)
    of_spans = blocks(put("rows.parquet", file.getvalue()), block_bytes=block_bytes, field="text")
    assert texts(of_spans) == lines
    for of_span in of_spans:
        assert_packed(of_span, block_bytes)


@PROPERTY
@given(content=st.binary(max_size=60), span_bytes=SIZES, block_bytes=SIZES)
def test_bytes_that_are_no_text_are_mended_alike_whatever_the_cut(content, span_bytes, block_bytes):
    url = put("bytes.txt", content)
    mended = content.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    lines = mended.replace("\r\n", "\n").split("\n")
    expected = lines if lines[-1] else lines[:-1]
    assert texts(blocks(url, span_bytes=span_bytes, block_bytes=block_bytes, errors="replace")) == expected


@PROPERTY
@given(content=st.binary(max_size=60), cuts=st.lists(st.integers(1, 60), max_size=3), piece_bytes=SIZES)
def test_each_line_is_in_the_span_where_it_begins(content, cuts, piece_bytes):
    bounds = [0, *sorted(cuts), -1]
    for start, stop in pairwise(bounds):
        pieces = list(whole_lines(io.BytesIO(content), "", start=start, stop=stop, piece_bytes=piece_bytes))
        begin = 0
        expected = b""
        for line in content.splitlines(keepends=True) if b"\r" not in content else io.BytesIO(content):
            expected += line if start <= begin and (begin < stop or stop < 0) else b""
            begin += len(line)
        joined = b"".join(piece.data for piece in pieces)
        assert joined == (expected if start else expected.removeprefix(b"\xef\xbb\xbf"))
        assert all(content[piece.byte :].startswith(piece.data) for piece in pieces)


@PROPERTY
@given(parts=st.lists(LINES), block_bytes=SIZES)
def test_the_cut_into_blocks_does_not_depend_on_the_parts(parts, block_bytes):
    together = [text for part in parts for text in part]
    packed = list(pack([Documents.of(part) for part in parts], block_bytes))
    expected = list(pack([Documents.of(together)], block_bytes))
    assert texts([packed]) == texts([expected]) == together
    assert [len(block.offsets) for block in packed] == [len(block.offsets) for block in expected]
    assert_packed(packed, block_bytes)


def test_blank_lines_are_documents_and_the_last_line_needs_no_end():
    assert texts(blocks(put("a.txt", "\n\na\r\n\r\n\nb"))) == ["", "", "a", "", "", "b"]
    assert texts(blocks(put("a.txt", "\n"))) == [""]
    assert texts(blocks(put("a.txt", "a\rb\r\r\nc\r"))) == ["a\rb\r", "c\r"]


def test_a_long_document_is_a_block_of_its_own():
    url = put("a.txt", "a\nb\n" + "c" * 30 + "\nd\n")
    ((*found,),) = blocks(url, block_bytes=16)
    assert [block.data.tobytes() for block in found] == [b"ab", b"c" * 30, b"d"]


def test_a_long_csv_field_is_read(monkeypatch):
    monkeypatch.setattr(csv, "field_size_limit", csv.field_size_limit)
    long = "x" * 300_000
    assert texts(blocks(put("a.csv", f'text\n"{long}\n"\n'), field="text")) == [f"{long}\n"]


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_file_can_be_one_document(compression):
    content = "a\n\nb \u20ac\r\n".encode()
    url = put(f"a.txt{compression}", COMPRESS[compression](b"\xef\xbb\xbf" + content))
    (((block,),)) = blocks(url, unit="file", block_bytes=2, span_bytes=1)
    assert (block.n_documents, block.text(0)) == (1, content)
    assert texts(blocks(put(f"a.txt{compression}", COMPRESS[compression](b"")), unit="file")) == [""]


def test_a_quoted_field_may_hold_line_ends_quotes_and_commas():
    url = put("a.csv", 'text,n\r\n"a\r\nb, ""c""",1\r\n,2\r\nd\x85e,3')
    assert texts(blocks(url, field="text")) == ['a\r\nb, "c"', "", "d\x85e"]


def test_several_compressed_streams_in_a_file_are_read_as_one():
    for ending, compress in COMPRESS.items():
        url = put(f"a.txt{ending}", compress(b"a\nb") + compress(b"c\n") + compress(b"d"))
        assert texts(blocks(url)) == ["a", "bc", "d"]


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("a.txt", b"a\nb\nc\xffd\n", "line 3"),
        ("a.txt", b"a\nb\nc\xe2\x82\n", "line 3"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', "line 2"),
        ("a.tsv", b"text\na\nb\xff\n", "line 3"),
        ("a.csv", b'text\n"a\nb"\nc\xff\n', "line 4"),
        ("a.txt.gz", gzip.compress(b"a\n" * 70 + b"\xff"), "line 71"),
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


def parquet_of(column, **options):
    file = io.BytesIO()
    pq.write_table(pa.table({"text": column}), file, **options)
    return put("a.parquet", file.getvalue())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_a_row_group_of_many_rows_is_read_in_parts(kind):
    rows = [f"row {i}" for i in range(2500)]
    assert texts(blocks(parquet_of(pa.array(rows).cast(kind)), field="text", block_bytes=300)) == rows
    with pytest.raises(ValueError, match="row group 0, row 2499: column 'text' holds a null"):
        blocks(parquet_of(pa.array([*rows[:-1], None]).cast(kind)), field="text")


def test_a_null_in_a_parquet_column_is_named():
    url = parquet_of(pa.array(["a", "b", "c", None]), row_group_size=2)
    with pytest.raises(ValueError, match=r"a\.parquet, row group 1, row 1: column 'text' holds a null"):
        blocks(url, field="text")


@pytest.mark.parametrize(
    ("values", "row"), [([b"a", b"b\xff"], 1), ([b"\xe2\x82", b"\xac"], 1), ([b"", b"\x80"], 1)]
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


def test_wrong_settings_are_refused_before_reading():
    span = Span("memory://nowhere.txt", "txt", None, "line", None)
    with pytest.raises(ValueError, match="errors is 'ignore', but it must be 'strict' or 'replace'"):
        read_span(span, block_bytes=64, errors="ignore")
    with pytest.raises(ValueError, match="block_bytes is 0, but it must be 1 or more"):
        read_span(span, block_bytes=0)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_memory_follows_the_block_and_not_the_file(tmp_path, ending):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(COMPRESS[ending](b"the same line of text again\n" * 1_000_000))
    (span,) = plan_spans(str(path))
    tracemalloc.start()
    try:
        n_bytes = sum(len(block.data) for block in read_span(span, block_bytes=1 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_bytes == 27_000_000
    assert peak < 13 << 20


def test_buffers_of_lines_and_csv_parts_are_what_they_say():
    assert split_lines(b"").n_documents == 0
    piece = Piece(b"text\n" + b"a\n" * 5000, "a.csv", 0, 1)
    parts = [part.n_documents for part in csv_texts([piece], "a.csv", 0, "strict")]
    assert parts == [4096, 904]
