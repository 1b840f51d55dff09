"""Summaries of a level of the trees of a block: moments of joined vectors, the nodes, or counts of adjacent tokens."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.decomposition.moments import Moments
from dspectral.engine.summary import add_fields
from dspectral.methods.tmpca.nodes import Block, Nodes, Trees, climb, first_tokens, join_neighbors, places
from dspectral.types import FloatArray, Sentences

PANEL = 8192
"""Word types whose vectors are multiplied at a time."""


def level_moments(block: Block, *, trees: Trees, axes: Sequence[FloatArray]) -> Moments:
    """Return the moments of the vectors that the next level joins.

    Shapes: `block` (n, length * n_dimensions), `axes` (k, arity * d).

    Holds ``2 PIECE`` numbers at a time beside the block and the moments. Zero vectors are counted, not computed:
    the time goes with the tokens that are there.

    >>> trees = Trees(length=4, arity=2, n_dimensions=1, table=np.array([[1.0], [2.0]]))
    >>> level_moments(Sentences.of([[0, 1, 1]]), trees=trees, axes=())
    Moments(n_rows=2, total=array([3., 2.]), gram=array([[5., 2.],
           [2., 4.]]))
    """
    width = trees.arity * (axes[-1].shape[0] if axes else trees.n_dimensions)
    total, gram, n_trees = np.zeros(width), np.zeros((width, width)), 0
    # Sums over the joined vectors x of the pieces so far: total = sum x, gram = sum x x'; width^2 operations a vector.
    for piece in trees.pieces(block):
        above = join_neighbors(climb(piece, axes, trees.arity), trees.arity)
        part = Moments.of(above.rows)
        total += part.total
        gram += part.gram
        n_trees += len(above.sizes)
    return Moments(n_trees * trees.length // trees.arity ** (len(axes) + 1), total, gram)


class KeptNodes(NamedTuple):
    """The nodes of a level themselves, block by block: the caller bounds the memory that they take.

    `blocks`: one entry for each block, in the order of the sentences.
    """

    blocks: tuple[Nodes, ...]

    @classmethod
    def of(cls, block: Block, *, trees: Trees, axes: Sequence[FloatArray]) -> Self:
        """Project a block through the levels to which ``axes`` belong.

        Shapes: `block` (n, length * n_dimensions), `axes` (k, arity * d).
        """
        # The leaves of a piece go as soon as its nodes are there: P^level leaves leave one node.
        parts = [climb(piece, axes, trees.arity) for piece in trees.pieces(block)]
        rows = [part.rows for part in parts] or [np.zeros((0, len(axes[-1])))]
        sizes = [part.sizes for part in parts] or [np.zeros(0, dtype=np.int64)]
        return cls((Nodes(np.concatenate(rows), np.concatenate(sizes)),))

    def merge(self, *others: Self) -> Self:
        """Return the nodes of all the blocks."""
        return type(self)(tuple(block for part in (self, *others) for block in part.blocks))


class PairCounts(NamedTuple):
    """Counts of the pairs that the first level of trees of arity 2 joins: tokens 0 and 1, 2 and 3, ...

    `n_pairs`: number of pairs, those of padding alone included; `counts` (n_types, n_types): how often a type
    (row) is the left neighbor of another (column); `alone` (n_types,): how often the neighbor of a type is
    padding.

    >>> pairs = PairCounts.of(Sentences.of([[0, 1, 1]]), n_types=2, length=4)
    >>> pairs.counts.toarray(), pairs.alone
    (array([[0., 1.],
           [0., 0.]]), array([0., 1.]))
    >>> pairs.moments(np.array([[1.0], [2.0]])).gram
    array([[5., 2.],
           [2., 4.]])
    """

    n_pairs: int
    counts: sparse.csr_array
    alone: NDArray[np.float64]

    @classmethod
    def of(cls, sentences: Sentences, *, n_types: int, length: int) -> Self:
        """Count the pairs among the first ``length`` tokens of each sentence of a block."""
        ids, sizes = first_tokens(sentences, n_types, length)
        place = places(sizes)
        # Tokens at even places are left children; the last one of a text of odd length has padding beside it.
        is_left = place % 2 == 0
        has_right = is_left & (place + 1 < np.repeat(sizes, sizes))
        left = ids[has_right].astype(np.int64)
        right = ids[np.flatnonzero(has_right) + 1]
        # A pair as one number, left * n_types + right: sorted, these are the cells of a CSR matrix in their order.
        keys, values = np.unique(left * n_types + right, return_counts=True)
        indptr = np.searchsorted(keys, np.arange(n_types + 1, dtype=np.int64) * n_types)
        columns = (keys % n_types).astype(np.int32)
        counts = sparse.csr_array((values.astype(np.float64), columns, indptr), shape=(n_types, n_types))
        alone = np.bincount(ids[is_left & ~has_right], minlength=n_types).astype(np.float64)
        return cls(sentences.n_sentences * length // 2, counts, alone)

    def merge(self, *others: Self) -> Self:
        """Return the counts of all the sentences; exact, whatever the order."""
        return add_fields(self, *others)

    def moments(self, table: FloatArray) -> Moments:
        """Return the moments of the joined vectors, given the vector of each type.

        Shapes: `table` (n_types, d).

        The Gram matrix is ``[E' F E, E' C E; E' C' E, E' S E]`` for the table E, the counts C, and how often each
        type is first or second, F and S, on diagonals.
        """
        # A token without a right neighbor is joined with zeros: it counts as a left child, and adds nothing to the sums
        # over right children or over pairs.
        first = np.asarray(self.counts.sum(axis=1), dtype=np.float64) + self.alone
        second = np.asarray(self.counts.sum(axis=0), dtype=np.float64)
        d = table.shape[1]
        total, gram = np.zeros(2 * d), np.zeros((2 * d, 2 * d))
        wide = np.asarray(table, dtype=np.float64)
        # E' F E, E' S E and E' C E as sums over panels of types: a panel of rows of C, times E, is dense, and C E as a
        # whole need not fit in memory. O(n_types d^2 + nnz(C) d) operations.
        for start in range(0, len(table), PANEL):
            some = slice(start, start + PANEL)
            rows = wide[some]
            total += np.concatenate([first[some] @ rows, second[some] @ rows])
            gram[:d, :d] += rows.T @ (rows * first[some, None])
            gram[d:, d:] += rows.T @ (rows * second[some, None])
            gram[:d, d:] += rows.T @ (self.counts[some] @ wide)
        gram[d:, :d] = gram[:d, d:].T
        return Moments(self.n_pairs, total, gram)
