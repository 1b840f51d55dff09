"""What a level of a tree of sentences leaves behind: moments of joined vectors, or counts of adjacent tokens."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.decomposition.moments import Moments
from dspectral.methods.tmpca.nodes import PIECE, Nodes, climbed, first_tokens, joined, leaves, pieces, places
from dspectral.types import FloatArray, Sentences

PANEL = 8192
"""Word types whose vectors are multiplied at a time."""


class Trees(NamedTuple):
    """How a block becomes the leaves of trees.

    Attributes
    ----------
    length : int
        N, leaves of a tree.
    arity : int
        P, children of a node.
    n_dimensions : int
        Of a leaf.
    table : ndarray, shape (n_types, n_dimensions), or None
        Vectors of token types: a block is then :class:`~dspectral.types.Sentences`, cut after ``length`` tokens,
        zero vectors in the place of missing ones. None where a block is an ndarray of shape
        (n, length * n_dimensions), the vectors of a sentence one after the other.
    """

    length: int
    arity: int
    n_dimensions: int
    table: FloatArray | None = None

    def pieces(self, block: Any) -> Iterator[Nodes]:
        """Yield the leaves of a block, a few sentences at a time.

        Raises
        ------
        ValueError
            If a vector has NaN or infinity (sentence, position and dimension are named), or a word type is out of
            range.
        """
        most = max(1, PIECE // self.n_dimensions)
        if isinstance(block, Nodes):
            ends = np.concatenate([[0], np.cumsum(block.sizes)])
            for begin, end in pieces(block.sizes, most):
                yield Nodes(block.rows[ends[begin] : ends[end]], block.sizes[begin:end])
        elif self.table is None:
            sizes = np.full(len(block), self.length, dtype=np.int64)
            for begin, end in pieces(sizes, most):
                rows = np.asarray(block[begin:end])
                rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
                self._check(rows, begin)
                yield Nodes(rows.reshape(-1, self.n_dimensions), sizes[begin:end])
        else:
            offsets = block.offsets
            for begin, end in pieces(np.minimum(np.diff(offsets), self.length), most):
                ids = block.ids[offsets[begin] : offsets[end]]
                part = Sentences(ids, offsets[begin : end + 1] - offsets[begin])
                yield leaves(part, self.table, self.length)

    def _check(self, rows: FloatArray, begin: int) -> None:
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            sentence, column = map(int, bad[0])
            position, dimension = divmod(column, self.n_dimensions)
            raise ValueError(
                f"sentence {begin + sentence}, position {position}, dimension {dimension} is "
                f"{rows[sentence, column]}, but every number must be finite"
            )


def level_moments(block: Any, *, trees: Trees, axes: Sequence[FloatArray]) -> Moments:
    """Return the moments of the vectors that the next level joins.

    Parameters
    ----------
    block : Sentences or ndarray
        As ``trees`` says.
    trees : Trees
    axes : sequence of ndarray
        Of the levels below, each of shape (k, arity * d): the block is projected through them first.

    Returns
    -------
    Moments
        Of ``n * length / arity**(len(axes) + 1)`` vectors of ``arity * d`` numbers, those of nothing but padding
        among them.

    Notes
    -----
    Holds ``2 PIECE`` numbers at a time beside the block and the moments. Zero vectors are counted, not computed:
    the time goes with the tokens that are there.

    Examples
    --------
    >>> trees = Trees(length=4, arity=2, n_dimensions=1, table=np.array([[1.0], [2.0]]))
    >>> level_moments(Sentences.of([[0, 1, 1]]), trees=trees, axes=())
    Moments(n_rows=2, total=array([3., 2.]), gram=array([[5., 2.],
           [2., 4.]]))
    """
    width = trees.arity * (axes[-1].shape[0] if axes else trees.n_dimensions)
    total, gram, n_trees = np.zeros(width), np.zeros((width, width)), 0
    for piece in trees.pieces(block):
        above = joined(climbed(piece, axes, trees.arity), trees.arity)
        part = Moments.of(above.rows)
        total += part.total
        gram += part.gram
        n_trees += len(above.sizes)
    return Moments(n_trees * trees.length // trees.arity ** (len(axes) + 1), total, gram)


class KeptNodes(NamedTuple):
    """The nodes of a level themselves, block by block: what they take is for the caller to bound.

    Attributes
    ----------
    blocks : tuple of Nodes
    """

    blocks: tuple[Nodes, ...]

    @classmethod
    def of(cls, block: Any, *, trees: Trees, axes: Sequence[FloatArray]) -> Self:
        """Project a block through the levels that axes are of."""
        parts = [climbed(piece, axes, trees.arity) for piece in trees.pieces(block)]
        rows = [part.rows for part in parts] or [np.zeros((0, len(axes[-1])))]
        sizes = [part.sizes for part in parts] or [np.zeros(0, dtype=np.int64)]
        return cls((Nodes(np.concatenate(rows), np.concatenate(sizes)),))

    def merge(self, *others: Self) -> Self:
        """Return the nodes of all the blocks."""
        return type(self)(tuple(block for part in (self, *others) for block in part.blocks))


def roots(block: Any, *, trees: Trees, axes: Sequence[FloatArray]) -> FloatArray:
    """Return the one vector that is left of each sentence, shape (n, k); zeros for an empty one.

    Parameters
    ----------
    block, trees
        As for :func:`level_moments`.
    axes : sequence of ndarray
        Of all levels.
    """
    dtype = np.result_type(*axes)
    parts = [np.zeros((0, len(axes[-1])), dtype=dtype)]
    for piece in trees.pieces(block):
        top = climbed(piece, axes, trees.arity)
        part = np.zeros((len(top.sizes), len(axes[-1])), dtype=dtype)
        part[top.sizes > 0] = top.rows
        parts.append(part)
    return np.concatenate(parts)


class PairCounts(NamedTuple):
    """How often two tokens are neighbours at the first level of trees of arity 2: tokens 0 and 1, 2 and 3, ...

    Attributes
    ----------
    n_pairs : int
        With those of padding alone.
    counts : csr_array of float64, shape (n_types, n_types)
        Pairs of two tokens.
    alone : ndarray of float64, shape (n_types,)
        Tokens whose neighbour is padding.

    Examples
    --------
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
        """Count the pairs among the first ``length`` tokens of each sentence of a block.

        Raises
        ------
        ValueError
            If a word type is out of range.
        """
        ids, sizes = first_tokens(sentences, n_types, length)
        place = places(sizes)
        is_left = place % 2 == 0
        has_right = is_left & (place + 1 < np.repeat(sizes, sizes))
        left = ids[has_right].astype(np.int64)
        right = ids[np.flatnonzero(has_right) + 1]
        keys, values = np.unique(left * n_types + right, return_counts=True)
        indptr = np.searchsorted(keys, np.arange(n_types + 1, dtype=np.int64) * n_types)
        columns = (keys % n_types).astype(np.int32)
        counts = sparse.csr_array((values.astype(np.float64), columns, indptr), shape=(n_types, n_types))
        alone = np.bincount(ids[is_left & ~has_right], minlength=n_types).astype(np.float64)
        return cls(sentences.n_sentences * length // 2, counts, alone)

    def merge(self, *others: Self) -> Self:
        """Return the counts of all the sentences; exact, whatever the order."""
        n_pairs, counts, alone = self
        for other in others:
            n_pairs, counts, alone = n_pairs + other.n_pairs, counts + other.counts, alone + other.alone
        return type(self)(n_pairs, counts, alone)

    def moments(self, table: FloatArray) -> Moments:
        """Return the moments of the joined vectors, given the vector of each type: ``table``, (n_types, d).

        Notes
        -----
        The Gram matrix is ``[E' F E, E' C E; E' C' E, E' S E]`` for the table E, the counts C, and how often each
        type is first or second, F and S, on diagonals.
        """
        first = np.asarray(self.counts.sum(axis=1), dtype=np.float64) + self.alone
        second = np.asarray(self.counts.sum(axis=0), dtype=np.float64)
        d = table.shape[1]
        total, gram = np.zeros(2 * d), np.zeros((2 * d, 2 * d))
        wide = np.asarray(table, dtype=np.float64)
        for start in range(0, len(table), PANEL):
            some = slice(start, start + PANEL)
            rows = wide[some]
            total += np.concatenate([first[some] @ rows, second[some] @ rows])
            gram[:d, :d] += rows.T @ (rows * first[some, None])
            gram[d:, d:] += rows.T @ (rows * second[some, None])
            gram[:d, d:] += rows.T @ (self.counts[some] @ wide)
        gram[d:, :d] = gram[:d, d:].T
        return Moments(self.n_pairs, total, gram)
