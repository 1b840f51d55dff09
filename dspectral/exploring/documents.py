"""Choose files and units of documents, project documents, and read excerpts from the sources."""

import re
from collections.abc import Collection
from functools import partial
from glob import has_magic
from unicodedata import normalize

import dask.array as da
import numpy as np

from dspectral.engine import map_rows, run_tasks
from dspectral.engine.around.file_systems import open_file_system
from dspectral.linalg.dense import normalize_rows
from dspectral.methods.topics.estimator import Topics
from dspectral.store.corpus import Corpus
from dspectral.store.counts import CountStore
from dspectral.store.from_text.lines import LINE_CHUNK_BYTES, RECORD_START, FileRange, ReadOptions
from dspectral.store.from_text.readers import read_file_range
from dspectral.store.from_text.sources import get_format
from dspectral.store.from_text.streams import open_as_utf8, open_decompressed
from dspectral.store.from_text.text_input import TextInput
from dspectral.store.location import is_local
from dspectral.text.token_rules import word_pattern
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, FloatArray, Int64s

CODE_ENDINGS = re.compile(
    r"\.(c|cc|cpp|cs|go|h|hpp|java|js|md|php|pl|py|pyx|r|rb|rs|rst|scala|sh|sql|tex|ts)$", re.IGNORECASE
)
"""Endings of files that are one document each, because their lines are not."""
MIN_RECORD_SHARE = 0.2
"""Share of the first lines of a file that begin with a date or time, from which on the file is a log."""


def list_sources(paths: list[str], read_options: ReadOptions) -> list[str]:
    """Return the paths, with the files of code in place of a folder that has no file of text itself."""
    if (read_options.unit, read_options.field, read_options.format) != (None, None, None):
        return paths
    files: list[str] = []
    for path in paths:
        file_system, root = open_file_system(path, dict(read_options.options))
        is_folder = get_format(root)[0] is None and not has_magic(root) and file_system.isdir(root)
        code: list[str] = []
        if is_folder and all(get_format(name)[0] != "txt" for name in file_system.ls(root, detail=False)):
            names = sorted(file_system.find(root))
            code = [name for name in names if CODE_ENDINGS.search(name) and "/." not in name[len(root) :]]
        files += [name if is_local(file_system) else file_system.unstrip_protocol(name) for name in code]
        files += [] if code else [path]
    return files


def detect_unit(text: TextInput) -> str | None:
    """Return the unit of documents that is not the default one: "file" of code, "record" of a log, or None."""
    files = [file for source in text.ranges for file in source.files()]
    if files and all(CODE_ENDINGS.search(file.url) for file in files):
        return "file"
    if not files or files[0].format != "txt":
        return None
    first, options = files[0], text.read_options.options
    with (
        open_decompressed(first.url, first.compression, options) as raw,
        open_as_utf8(raw, first.url, first.encoding, "replace") as file,
    ):
        head = file.read(LINE_CHUNK_BYTES)
    n_lines = sum(map(bool, map(bytes.strip, head.split(b"\n"))))
    return "record" if len(RECORD_START.findall(head)) > MIN_RECORD_SHARE * n_lines else None


MIN_WORDS = 3
"""Documents with fewer words have no neighbors."""


def project_documents(store: CountStore, topics: Topics, vectors: da.Array | None) -> da.Array:
    """Return the points of documents of unit length, of words zeros below MIN_WORDS; lazy, shape (n_documents, k)."""
    if vectors is not None:
        points = topics.coordinates(vectors)
        unit = map_rows(points, normalize_rows, n_columns=points.shape[1], name="project-documents")
        return unit.rechunk((store.counts.chunks[0], -1))
    axes = np.ascontiguousarray(topics.axes_.T, dtype=np.float32)
    project = partial(project_block, weighting=topics.weighting, axes=axes)
    return map_rows(store.counts, project, n_columns=axes.shape[1], dtype=np.float32, name="project-documents")


def project_block(rows: CSRRows, *, weighting: Weighting, axes: FloatArray) -> FloatArray:
    """Return projected rows (n, k) of unit length. Shapes: `rows` (n, d), `axes` (n_words, k)."""
    rows = weighting.apply(rows)
    points = np.asarray(rows @ axes, dtype=np.float32)
    points[np.diff(rows.indptr) < MIN_WORDS] = 0
    return normalize_rows(points)


MAX_READ_BYTES = 4_000
"""Bytes that are read of a document; its excerpt is cut from them."""
EXCERPT_CHARS = 260
"""Approximate length of an excerpt in characters."""


def read_documents(corpus: Corpus, rows: Int64s, text: TextInput) -> list[tuple[str, str]]:
    """Return file name and beginning of selected documents, in one pass over their files. Shapes: `rows` (n,)."""
    n_documents = np.zeros(len(text.ranges), dtype=np.int64)
    for block in corpus.blocks:  # the name of a block starts with the number of its byte range
        n_documents[int(block.name.split("-")[-2])] += block.n_sentences
    firsts = np.cumsum(n_documents) - n_documents
    items: list[tuple[FileRange, Int64s]] = []
    for file_range, first, n in zip(text.ranges, firsts.tolist(), n_documents.tolist(), strict=True):
        local_rows = rows[(rows >= first) & (rows < first + n)] - first
        if len(local_rows):
            items.append((file_range, local_rows))
    read_options = text.read_options

    def read(item: tuple[FileRange, Int64s]) -> list[tuple[str, str]]:
        file_range, local_rows = item
        documents: list[tuple[str, str]] = []
        first = 0  # the number of documents before this block
        for file in file_range.files():
            # If each file is one document, file names often repeat, such as __init__.py.
            source = "/".join(file.url.split("/")[-2 if file.unit == "file" else -1 :])
            for block in read_file_range(file, read_options):
                for i in local_rows[(local_rows >= first) & (local_rows < first + block.n_documents)].tolist():
                    begin, end = block.offsets[i - first], block.offsets[i - first + 1]
                    content = block.data[begin : min(end, begin + MAX_READ_BYTES)].tobytes()
                    documents.append((source, content.decode("utf-8", "ignore")))
                first += block.n_documents
                if first > local_rows[-1]:  # the rest is not needed
                    return documents
        return documents

    return [document for documents in run_tasks(read, items, name="read-excerpts") for document in documents]


def cut_excerpt(
    text: str, stems: Collection[str] = (), stem_length: int | None = None, *, max_chars: int = EXCERPT_CHARS
) -> str:
    """Return the part of a text with most words whose first letters are given, on one line."""
    text = " ".join(normalize("NFC", text).split())
    if len(text) <= max_chars * 1.2:
        return text
    words = list(word_pattern().finditer(text))
    n_hits_before = np.cumsum([0, *(word[0].lower()[:stem_length] in stems for word in words)])
    starts, ends = (np.array([position(word) for word in words] or [0]) for position in (re.Match.start, re.Match.end))
    # Windows begin at a word. Take the middle of the first run of windows that have most hits.
    last = np.searchsorted(ends, starts + max_chars, side="right")
    n_hits = n_hits_before[np.minimum(last, len(words))] - n_hits_before[: len(starts)]
    best = np.flatnonzero(n_hits == n_hits.max())
    run = best[best - np.arange(len(best)) == best[0]]
    start = int(starts[run[len(run) // 2 if n_hits.max() else 0]])
    start = 0 if start < max_chars // 3 else min(start, max(0, len(text) - max_chars))
    start = text.rfind(" ", 0, start) + 1
    end = len(text) if len(text) - start <= max_chars * 1.2 else start + max_chars
    window = text[start:end]
    if end < len(text) and " " in window:
        window = window[: window.rfind(" ")]
    return ("\u2026 " if start else "") + window + (" \u2026" if end < len(text) else "")
