"""Files of text in memory, and what is read from them."""

import bz2
import gzip
import io

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from dspectral.store.from_text.lines import ReadOptions
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.sources import split_files

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}


def put(name, content):
    """Write a file into memory."""
    url = f"memory://readers/{name}"
    with fsspec.open(url, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return url


def spans_of(sources, *, span_bytes=16 << 20, **options):
    return split_files(sources, ReadOptions(block_bytes=span_bytes, **options))


def blocks(url, *, span_bytes=16 << 20, block_bytes=1 << 20, errors="strict", **options):
    """The blocks of each span of a file."""
    read_options = ReadOptions(block_bytes=block_bytes, errors=errors, missing=options.get("missing"))
    return [list(read_file_range(span, read_options)) for span in spans_of(url, span_bytes=span_bytes, **options)]


def texts(of_spans):
    return [block.text(i).decode() for of_span in of_spans for block in of_span for i in range(block.n_documents)]


def parquet_of(column, **options):
    file = io.BytesIO()
    pq.write_table(pa.table({"text": column}), file, **options)
    return put("a.parquet", file.getvalue())
