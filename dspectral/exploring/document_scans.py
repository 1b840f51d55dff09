"""Passes over the rows of documents: the most typical of each direction, and the nearest to some of them."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import run_tasks
from dspectral.store.arrays import Location
from dspectral.store.blocks import BlockInfo, read_block
from dspectral.store.counts import CountStore
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows, FloatArray

SHORT = 8
"""Words by which short documents are held back: a cosine counts ``n / (n + 8)`` for a document of n words."""
SLICE_ROWS = 8_192
"""Rows whose cosines with all queries are in memory at a time."""


class Space(NamedTuple):
    """Where documents become points: their weighted rows times the directions.

    `where`: store of the counts; `weighting`: weights of the words; `axes` (n_words, k): directions as
    columns.
    """

    where: Location
    weighting: Weighting
    axes: FloatArray

    def points(self, block: BlockInfo) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
        """Return points of length at most 1, the number of words of each document, and the points' own length.

        Shapes: returns `points` (n_documents, k), `sizes` (n_documents,), `lengths` (n_documents,).
        """
        rows: CSRRows = self.weighting.apply(read_block(self.where, block))
        points = np.asarray(rows @ self.axes, dtype=np.float32)
        norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float32)).ravel()
        # Rows become unit vectors after the product and not before: it has k columns, and a row many more entries.
        points /= np.where(norms > 0, norms, 1)[:, None]
        sizes = np.diff(rows.indptr).astype(np.int64)
        return points, sizes, np.linalg.norm(points, axis=1)


class Best(NamedTuple):
    """The best documents of each of several questions.

    `scores` (n_questions, n): scores, the best first; `rows` (n_questions, n): numbers of the documents; `n`:
    most documents for each question.
    """

    scores: NDArray[np.float32]
    rows: NDArray[np.int64]
    n: int

    @classmethod
    def of(cls, scores: FloatArray, rows: NDArray[np.int64], n: int) -> "Best":
        """Choose the best n columns of each row of scores, equally good ones by their number."""
        # Stable, so that the lower number wins a tie: the answer does not depend on how blocks are merged.
        order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        return cls(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1), n)

    def merge(self, *others: "Best") -> "Best":
        """Return the best of all, for later documents behind earlier ones."""
        parts = (self, *others)
        scores, rows = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        return Best.of(scores, rows, self.n)


Numbered = tuple[BlockInfo, int]
"""A block and the number of its first document."""


def numbered(store: CountStore) -> list[Numbered]:
    """Return each block with the number of its first document."""
    firsts = np.cumsum([0, *store.block_rows])[:-1].tolist()
    return list(zip(store.blocks, firsts, strict=True))


def typical_documents(store: CountStore, space: Space, n: int) -> Best:
    """Find the n documents that lie farthest on both ends of each direction, in one pass."""
    parts: list[Best] = run_tasks(
        partial(_typical, space=space, n=n), numbered(store), name="typical-documents"
    )
    return parts[0].merge(*parts[1:])


def _typical(item: Numbered, *, space: Space, n: int) -> Best:
    block, first = item
    points, sizes, _ = space.points(block)
    scores = (points * (sizes / (sizes + SHORT))[:, None]).T
    # The negative end of a direction is the positive end of its opposite: one pass answers both.
    both = np.concatenate([scores, -scores]).astype(np.float32)
    rows = np.arange(first, first + both.shape[1])
    if n < both.shape[1]:  # a block is large: sort only what may be among the best
        # Sorted by number again, as argpartition leaves any order, and ties go to the first.
        keep = np.sort(np.argpartition(-both, n - 1, axis=1)[:, :n], axis=1)
        return Best.of(np.take_along_axis(both, keep, axis=1), rows[keep], n)
    return Best.of(both, np.broadcast_to(rows, both.shape), n)


def points_of(
    store: CountStore, space: Space, rows: NDArray[np.int64]
) -> tuple[FloatArray, NDArray[np.float32]]:
    """Return the points of some documents, scaled to length 1, and how much they hold; only their blocks are read.

    Shapes: `rows` (n,); returns `points` (n, k), `held` (n,).
    """
    items = []
    for block, first in numbered(store):
        inside = rows[(rows >= first) & (rows < first + block.n_rows)] - first
        if len(inside):
            items.append((block, inside))
    parts = run_tasks(partial(_points_of, space=space), items, name="points-of-documents")
    points, held = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return points, held


def _points_of(
    item: tuple[BlockInfo, NDArray[np.int64]], *, space: Space
) -> tuple[FloatArray, NDArray[np.float32]]:
    block, inside = item
    points, sizes, lengths = (part[inside] for part in space.points(block))
    held = np.asarray(lengths * sizes / (sizes + SHORT), dtype=np.float32)
    return points / np.where(lengths > 0, lengths, 1)[:, None], held


def nearest_documents(store: CountStore, space: Space, queries: FloatArray, n: int) -> Best:
    """Find the n documents with the largest cosine to each query among the directions, in one pass.

    Shapes: `queries` (n_queries, k).
    """
    find = partial(_nearest, space=space, queries=queries, n=n)
    parts: list[Best] = run_tasks(find, numbered(store), name="nearest-documents")
    return parts[0].merge(*parts[1:])


def _nearest(item: Numbered, *, space: Space, queries: FloatArray, n: int) -> Best:
    block, first = item
    points, sizes, lengths = space.points(block)
    fine = np.flatnonzero((sizes >= 3) & (lengths > 0))
    # A block without a fine document still gives a part, of no columns, which merges as any other.
    empty = Best(np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64), n)
    parts = [empty]
    for start in range(0, len(fine), SLICE_ROWS):
        some = fine[start : start + SLICE_ROWS]
        # Queries times a slice and never times a block: the product would be larger than the block itself.
        cosines = queries @ (points[some] / lengths[some, None]).T
        keep = np.sort(np.argpartition(-cosines, min(n, len(some)) - 1, axis=1)[:, :n], axis=1)
        parts.append(Best.of(np.take_along_axis(cosines, keep, axis=1), some[keep] + first, n))
    return parts[0].merge(*parts[1:])
