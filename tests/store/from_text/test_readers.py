"""What is read: the documents as they were written, however the files are cut."""

import csv
import io
import json
import tracemalloc
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dspectral.store.from_text.lines import ReadOptions
from dspectral.store.from_text.readers import read_file_range
from tests.store.from_text.texts import COMPRESS, blocks, parquet_of, put, spans_of, texts

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t"), max_size=12)
LETTERS = st.text(st.sampled_from(["a", "ö", "\u20ac", "\U0001f600", '"', ",", "\\", "\x85", "\u2028", "\0", " "]))
LINES = st.lists(TEXTS | LETTERS, max_size=12)
SIZES = st.integers(1, 40)
PROPERTY = settings(deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow])


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
    return as_text([json.dumps({"id": i, "text": line}, ensure_ascii=i % 2) for i, line in enumerate(lines)], end)


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
    end=st.sampled_from(["\n", "\r\n", "\r"]),
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
    lines = mended.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    expected = lines if lines[-1] else lines[:-1]
    assert texts(blocks(url, span_bytes=span_bytes, block_bytes=block_bytes, errors="replace")) == expected


LONG = "x" * 300_000
ODD = [
    ("a.txt", "\n\na\r\n\r\n\nb", {}, ["", "", "a", "", "", "b"]),
    ("a.txt", "\n", {}, [""]),
    ("a.txt", "a\rb\r\r\nc\r", {}, ["a", "b", "", "c"]),
    ("a.csv", f'text\n"{LONG}\n"\n', {"field": "text"}, [f"{LONG}\n"]),
    (
        "a.csv",
        'text,n\r\n"a\r\nb, ""c""",1\r\n,2\r\nd\x85e,3',
        {"field": "text"},
        ['a\r\nb, "c"', "", "d\x85e"],
    ),
    *(
        (f"a.txt{ending}", compress(b"\xef\xbb\xbfa\n\nb\r\n"), {"unit": "file"}, ["a\n\nb\r\n"])
        for ending, compress in COMPRESS.items()
    ),
    *((f"a.txt{ending}", compress(b""), {"unit": "file"}, [""]) for ending, compress in COMPRESS.items()),
    *(  # several streams in one file
        (f"a.txt{ending}", compress(b"a\nb") + compress(b"c\n") + compress(b"d"), {}, ["a", "bc", "d"])
        for ending, compress in COMPRESS.items()
    ),
]


@pytest.mark.parametrize(("name", "content", "options", "expected"), ODD)
def test_odd_files_are_read_as_they_are(name, content, options, expected, monkeypatch):
    monkeypatch.setattr(csv, "field_size_limit", csv.field_size_limit)
    assert texts(blocks(put(name, content), block_bytes=2, **options)) == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_a_row_group_of_many_rows_is_read_in_parts(kind):
    rows = [f"row {i}" for i in range(2500)]
    assert texts(blocks(parquet_of(pa.array(rows).cast(kind)), field="text", block_bytes=300)) == rows
    with pytest.raises(ValueError, match=r"row group 0, row 2499.*'text'.*null"):
        blocks(parquet_of(pa.array([*rows[:-1], None]).cast(kind)), field="text")


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_memory_follows_the_block_and_not_the_file(tmp_path, ending):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(COMPRESS[ending](b"the same line of text again\n" * 600_000))
    (span,) = spans_of(str(path))
    tracemalloc.start()
    try:
        n_bytes = sum(len(block.data) for block in read_file_range(span, ReadOptions(block_bytes=1 << 20)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_bytes == 16_200_000
    assert peak < 12 << 20
