"""Sequences of vectors joined level by level: the nodes of trees of equal depth, zero nodes at the end left out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.runs import cut_runs
from dspectral.types import FloatArray, Sentences

PIECE = 1 << 21
"""Numbers of a piece: the part of a block that is made into vectors at a time (16 MiB in double precision)."""


class Nodes(NamedTuple):
    """The nodes of one level of many trees.

    Attributes
    ----------
    rows : ndarray, shape (n_nodes, d)
        One tree after the other. The nodes of a tree after its last stored one are zero vectors.
    sizes : ndarray of int64, shape (n_trees,)
        Number of stored nodes of each tree.
    """

    rows: FloatArray
    sizes: NDArray[np.int64]


def leaves(sentences: Sentences, table: FloatArray, length: int) -> Nodes:
    """Return the vectors of the first ``length`` tokens of each sentence.

    Parameters
    ----------
    sentences : Sentences
        Sentences of ids below ``len(table)``.
    table : ndarray, shape (n_types, d)
        The vector of each word type.
    length : int
        Number of tokens after which a sentence is cut.

    Returns
    -------
    Nodes
        One tree a sentence.

    Raises
    ------
    ValueError
        If an id is out of range.

    Examples
    --------
    >>> leaves(Sentences.of([[1, 1, 0], []]), np.array([[1.0, 0.0], [0.0, 2.0]]), length=2).sizes
    array([2, 0])
    """
    ids, sizes = first_tokens(sentences, len(table), length)
    return Nodes(table[ids], sizes)


def first_tokens(
    sentences: Sentences, n_types: int, length: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the ids of the first ``length`` tokens of each sentence, and how many these are.

    Parameters
    ----------
    sentences : Sentences
        Sentences of ids below ``n_types``.
    n_types : int
        Number of word types.
    length : int
        Number of tokens after which a sentence is cut.

    Returns
    -------
    ids : ndarray of int32, shape (n_tokens,)
        One sentence after the other.
    sizes : ndarray of int64, shape (n_sentences,)
        Number of tokens of each sentence.

    Raises
    ------
    ValueError
        If an id is out of range.
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

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_trees,)
        Number of nodes of each tree.

    Returns
    -------
    ndarray of int64, shape (n_nodes,)
        0, 1, ... in each tree.

    Examples
    --------
    >>> places(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    # The number of a node among all, less the number of nodes before its tree: no loop over trees.
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def join_neighbors(nodes: Nodes, arity: int) -> Nodes:
    """Return the parents: each the vectors of ``arity`` neighbors one after the other.

    Parameters
    ----------
    nodes : Nodes
        A level of n nodes of d numbers.
    arity : int
        Number of children of a parent.

    Returns
    -------
    Nodes
        Rows of ``arity * d`` numbers; a view of the same memory where no tree ends within a parent.

    Examples
    --------
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

    Attributes
    ----------
    length : int
        N, the number of leaves of a tree.
    arity : int
        P, the number of children of a node.
    n_dimensions : int
        Length of the vector of a leaf.
    table : ndarray, shape (n_types, n_dimensions), or None
        Vectors of token types: a block is then :class:`~dspectral.types.Sentences`, cut after ``length`` tokens,
        zero vectors in the place of missing ones. None where a block is an ndarray of shape
        (n, length * n_dimensions), the vectors of a sentence one after the other.
    """

    length: int
    arity: int
    n_dimensions: int
    table: FloatArray | None = None

    def pieces(self, block: Block) -> Iterator[Nodes]:
        """Yield the leaves of a block, a few sentences at a time.

        Parameters
        ----------
        block : Sentences, Nodes or ndarray of shape (n, length * n_dimensions)
            A block as ``table`` says, or nodes, which are the leaves themselves.

        Yields
        ------
        Nodes
            Leaves of the next sentences, at most ``PIECE`` numbers or one sentence.

        Raises
        ------
        ValueError
            If a vector has NaN or infinity (sentence, position and dimension are named), or a word type is out of
            range.
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
