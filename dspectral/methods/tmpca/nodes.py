"""Sequences of vectors joined level by level: the nodes of trees of equal depth, zero nodes at the end left out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.types import FloatArray, Sentences

PIECE = 1 << 21
"""Numbers of a piece: what of a block is made vectors at a time (16 MiB in double precision)."""


class Nodes(NamedTuple):
    """The nodes of one level of many trees.

    Attributes
    ----------
    rows : ndarray, shape (n_nodes, d)
        One tree after the other. A tree's nodes after its last stored one are zero vectors.
    sizes : ndarray of int64, shape (n_trees,)
        Stored nodes of each tree.
    """

    rows: FloatArray
    sizes: NDArray[np.int64]


def leaves(sentences: Sentences, table: FloatArray, length: int) -> Nodes:
    """Return the vectors of the first ``length`` tokens of each sentence.

    Parameters
    ----------
    sentences : Sentences
        Of ids below ``len(table)``.
    table : ndarray, shape (n_types, d)
    length : int

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

    Raises
    ------
    ValueError
        If an id is out of range.
    """
    ids = sentences.ids
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_types:
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise ValueError(f"a sentence has word type {wrong}, but there are {n_types} types, from 0")
    full = np.diff(sentences.offsets)
    sizes = np.minimum(full, length)
    return ids[places(full) < length], sizes


def places(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each node in its tree.

    Examples
    --------
    >>> places(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def joined(nodes: Nodes, arity: int) -> Nodes:
    """Return the parents: each the vectors of ``arity`` neighbours one after the other.

    Examples
    --------
    >>> joined(Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), 2).rows
    array([[1., 2.],
           [3., 0.]])
    """
    rows, sizes = nodes
    parents = -(-sizes // arity)
    width = rows.shape[1]
    if (sizes % arity).any():
        full = np.zeros((arity * int(parents.sum()), width), dtype=rows.dtype)
        first = arity * (np.cumsum(parents) - parents)
        full[np.repeat(first, sizes) + places(sizes)] = rows
        rows = full
    return Nodes(rows.reshape(-1, arity * width), parents)


def climbed(nodes: Nodes, axes: Sequence[FloatArray], arity: int) -> Nodes:
    """Join and project through as many levels as there are axes, each of shape (k, arity * d)."""
    for level in axes:
        above = joined(nodes, arity)
        nodes = Nodes(above.rows @ level.T, above.sizes)
    return nodes


def pieces(sizes: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Cut trees into runs of at most ``most`` nodes, or of one tree.

    Examples
    --------
    >>> list(pieces(np.array([2, 0, 3, 1, 9]), 5))
    [(0, 3), (3, 4), (4, 5)]
    """
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield begin, end
        begin = end
