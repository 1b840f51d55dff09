"""Documents: the nearest ones, and excerpts read from the sources again."""

import re
from collections.abc import Collection
from functools import partial
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import run_tasks
from dspectral.search import SLICE_ROWS, Nearest
from dspectral.store.blocks import BlockInfo, read_block
from dspectral.store.corpus import Corpus
from dspectral.store.counts import CountStore
from dspectral.store.from_text.lines import Reading
from dspectral.store.from_text.planned_text import PlannedText
from dspectral.store.from_text.readers import read_span
from dspectral.store.from_text.sources import Span
from dspectral.store.location import Location
from dspectral.text.cutting import word_pattern
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, FloatArray

LEAST_WORDS = 3
"""Words of a document below which nothing is near to it."""


class Space(NamedTuple):
    """The space in which documents are points: their weighted rows times the axes (n_words, k) of the topics."""

    where: Location
    weighting: Weighting
    axes: FloatArray

    def points(self, block: BlockInfo) -> FloatArray:
        """Return points of length 1, or 0 for documents of fewer than three words, shape (n_documents, k)."""
        rows: CSRRows = self.weighting.apply(read_block(self.where, block))
        points = np.asarray(rows @ self.axes, dtype=np.float32)
        points[np.diff(rows.indptr) < LEAST_WORDS] = 0
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(points / np.where(lengths > 0, lengths, 1))


def numbered(store: CountStore) -> list[tuple[BlockInfo, int]]:
    """Return each block with the number of its first document."""
    firsts = np.cumsum([0, *store.block_rows])[:-1].tolist()
    return list(zip(store.blocks, firsts, strict=True))


def points_of(store: CountStore, space: Space, rows: NDArray[np.int64]) -> FloatArray:
    """Return the points of some documents; only their blocks are read. Shapes: `rows` (n,), rising; returns (n, k)."""
    items = []
    for block, first in numbered(store):
        inside = rows[(rows >= first) & (rows < first + block.n_rows)] - first
        if len(inside):
            items.append((block, inside))
    return np.concatenate(run_tasks(partial(_points_of, space=space), items, name="points-of-documents"))


def _points_of(item: tuple[BlockInfo, NDArray[np.int64]], *, space: Space) -> FloatArray:
    block, inside = item
    return space.points(block)[inside]


def nearest_documents(store: CountStore, space: Space, queries: FloatArray, n: int) -> Nearest:
    """Find the n documents of largest cosine among the topics to each query (n_queries, k), in one pass."""
    find = partial(_nearest, space=space, queries=queries, n=n)
    parts: list[Nearest] = run_tasks(find, numbered(store), name="nearest-documents")
    return parts[0].merge(*parts[1:])


def _nearest(item: tuple[BlockInfo, int], *, space: Space, queries: FloatArray, n: int) -> Nearest:
    block, first = item
    points = space.points(block)
    fine = np.flatnonzero(points.any(axis=1))
    # A block without a fine document still gives a part, of no columns, which merges as any other.
    parts = [Nearest(np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64), n)]
    for start in range(0, len(fine), SLICE_ROWS):
        some = fine[start : start + SLICE_ROWS]
        # Queries times a slice and never times a block: the product would be larger than the block itself.
        cosines = np.asarray(queries @ points[some].T, dtype=np.float32)
        keep = np.argpartition(-cosines, min(n, len(some)) - 1, axis=1)[:, :n]
        parts.append(Nearest(np.take_along_axis(cosines, keep, axis=1), some[keep] + first, n))
    return parts[0].merge(*parts[1:])


READ_BYTES = 4_000
"""Bytes of a document that are kept: an excerpt is cut from them."""
EXCERPT = 260
"""Characters of an excerpt, about."""


def read_documents(corpus: Corpus, rows: NDArray[np.int64], text: PlannedText) -> list[tuple[str, str]]:
    """Read the beginnings of some documents, in one pass over the files that hold them. Shapes: `rows` (n,)."""
    n_documents = np.zeros(len(text.spans), dtype=np.int64)
    for block in corpus.blocks:  # a block is named by its span and its number in the span
        n_documents[int(block.name.split("-")[-2])] += block.n_sentences
    firsts = np.cumsum(n_documents) - n_documents
    items: list[tuple[Span, NDArray[np.int64]]] = []
    for span, first, n in zip(text.spans, firsts.tolist(), n_documents.tolist(), strict=True):
        inside = rows[(rows >= first) & (rows < first + n)] - first
        if len(inside):
            items.append((span, inside))
    read = partial(_read, reading=text.reading)
    return [one for part in run_tasks(read, items, name="read-excerpts") for one in part]


def _read(item: tuple[Span, NDArray[np.int64]], *, reading: Reading) -> list[tuple[str, str]]:
    span, wanted = item
    source = "" if span.also else span.url.rpartition("/")[2]
    found: list[tuple[str, str]] = []
    first = 0
    for block in read_span(span, reading):
        # Blocks come in the order of the text: `first` counts the documents before this one, as blocks have no number
        # of their own here.
        for i in wanted[(wanted >= first) & (wanted < first + block.n_documents)].tolist():
            begin, end = block.offsets[i - first], block.offsets[i - first + 1]
            text = block.data[begin : min(end, begin + READ_BYTES)].tobytes().decode("utf-8", "ignore")
            found.append((source, text))
        first += block.n_documents
        # Text has no index: everything up to the last wanted document was read, and nothing behind it is.
        if first > wanted[-1]:
            break
    return found


def excerpt(text: str, telling: Collection[str] = ()) -> str:
    """Return the part of a text that holds most of the telling words, on one line."""
    text = " ".join(normalize("NFC", text).split())
    if len(text) <= EXCERPT * 1.2:
        return text
    words = list(word_pattern().finditer(text))
    hits = np.cumsum([0, *(word[0].lower() in telling for word in words)])
    starts, ends = (
        np.array([place(word) for word in words] or [0]) for place in (re.Match.start, re.Match.end)
    )
    # Windows begin at a word; of the first run of windows with most telling words the middle one.
    last = np.searchsorted(ends, starts + EXCERPT, side="right")
    inside = hits[np.minimum(last, len(hits) - 1)] - hits[: len(starts)]
    best = np.flatnonzero(inside == inside.max())
    run = best[best - np.arange(len(best)) == best[0]]
    start = int(starts[run[len(run) // 2 if inside.max() else 0]])
    start = 0 if start < EXCERPT // 3 else min(start, max(0, len(text) - EXCERPT))
    start = text.rfind(" ", 0, start) + 1
    end = len(text) if len(text) - start <= EXCERPT * 1.2 else start + EXCERPT
    cut = text[start:end]
    if end < len(text) and " " in cut:
        cut = cut[: cut.rfind(" ")]
    return ("\u2026 " if start else "") + cut + (" \u2026" if end < len(text) else "")
