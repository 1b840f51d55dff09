"""Sequences of vectors joined level by level: the nodes of trees of equal depth, zero nodes at the end left out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.panels import cut_runs
from dspectral.types import FloatArray, Sentences

PIECE = 1 << 21
"""Numbers of a piece: the part of a block that is made into vectors at a time (16 MiB in double precision)."""


class Nodes(NamedTuple):
    """The nodes of one level of many trees.

    `rows` (n_nodes, d): one tree after the other; `sizes` (n_trees,): number of stored nodes of each tree.
    """

    rows: FloatArray
    sizes: NDArray[np.int64]


def leaves(sentences: Sentences, table: FloatArray, length: int) -> Nodes:
    """Return the vectors of the first ``length`` tokens of each sentence.

    Shapes: `table` (n_types, d).

    >>> leaves(Sentences.of([[1, 1, 0], []]), np.array([[1.0, 0.0], [0.0, 2.0]]), length=2).sizes
    array([2, 0])
    """
    ids, sizes = first_tokens(sentences, len(table), length)
    return Nodes(table[ids], sizes)


def first_tokens(
    sentences: Sentences, n_types: int, length: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the ids of the first ``length`` tokens of each sentence, and how many these are.

    Shapes: returns `ids` (n_tokens,), `sizes` (n_sentences,).
    """
    # Negative ids would index the table from its end without a word.
    ids = sentences.ids
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_types:
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise ValueError(f"a sentence has word type {wrong}, but there are {n_types} types, from 0")
    full = np.diff(sentences.offsets)
    sizes = np.minimum(full, length)
    return ids[places(full) < length], sizes


def places(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each node in its tree.

    Shapes: `sizes` (n_trees,); returns (n_nodes,).

    >>> places(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    # The number of a node among all, less the number of nodes before its tree: no loop over trees.
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def join_neighbors(nodes: Nodes, arity: int) -> Nodes:
    """Return the parents: each the vectors of ``arity`` neighbors one after the other.

    >>> join_neighbors(Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), 2).rows
    array([[1., 2.],
           [3., 0.]])
    """
    rows, sizes = nodes
    # Zero nodes at the end are not stored: projections are linear without a shift, so parents of zeros are zeros.
    parents = -(-sizes // arity)
    width = rows.shape[1]
    if (sizes % arity).any():
        # The last parent of some tree has fewer children: zeros take the places of the missing ones.
        full = np.zeros((arity * int(parents.sum()), width), dtype=rows.dtype)
        first = arity * (np.cumsum(parents) - parents)
        full[np.repeat(first, sizes) + places(sizes)] = rows
        rows = full
    return Nodes(rows.reshape(-1, arity * width), parents)


def climb(nodes: Nodes, axes: Sequence[FloatArray], arity: int) -> Nodes:
    """Join and project through as many levels as there are axes, each of shape (k, arity * d)."""
    # y = V [x_1 ... x_P] for each parent: 2 k P d operations, and each level has about a P-th of the nodes below it.
    for level in axes:
        above = join_neighbors(nodes, arity)
        nodes = Nodes(above.rows @ level.T, above.sizes)
    return nodes


Block: TypeAlias = Sentences | Nodes | FloatArray
"""A block: token ids, nodes of a level that were kept, or vectors in rows of shape (n, length * n_dimensions)."""


class Trees(NamedTuple):
    """Shape of the trees, and how a block becomes their leaves.

    `length`: N, the number of leaves of a tree; `arity`: P, the number of children of a node; `n_dimensions`:
    length of the vector of a leaf; `table` (n_types, n_dimensions): vectors of token types.
    """

    length: int
    arity: int
    n_dimensions: int
    table: FloatArray | None = None

    def pieces(self, block: Block) -> Iterator[Nodes]:
        """Yield the leaves of a block, a few sentences at a time.

        Shapes: `block` (n, length * n_dimensions).
        """
        # The vectors of a block take some hundred times the memory of its ids, so they are never there all at once.
        most = max(1, PIECE // self.n_dimensions)
        if isinstance(block, Nodes):
            ends = np.concatenate([[0], np.cumsum(block.sizes)])
            for begin, end in cut_runs(block.sizes, most):
                yield Nodes(block.rows[ends[begin] : ends[end]], block.sizes[begin:end])
        elif isinstance(block, Sentences):
            yield from self._pieces_of_tokens(block, most)
        else:
            sizes = np.full(len(block), self.length, dtype=np.int64)
            for begin, end in cut_runs(sizes, most):
                rows = np.asarray(block[begin:end])
                rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
                self._check(rows, begin)
                yield Nodes(rows.reshape(-1, self.n_dimensions), sizes[begin:end])

    def _pieces_of_tokens(self, block: Sentences, most: int) -> Iterator[Nodes]:
        if self.table is None:
            raise TypeError("there is no table of vectors, but the block has token ids")
        offsets = block.offsets
        for begin, end in cut_runs(np.minimum(np.diff(offsets), self.length), most):
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
