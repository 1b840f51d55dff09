"""Sequences of vectors joined level by level, zero nodes at the end left out, and what is left of a sentence."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from dspectral.linalg.panels import cut_runs
from dspectral.types import FloatArray, Int32s, Int64s, Sentences

Output: TypeAlias = Literal["root", "levels", "pooled", "sliding"]
OUTPUTS: tuple[str, ...] = get_args(Output)
PIECE = 1 << 21
"""Numbers of a piece: the part of a block that is made into vectors at a time (16 MiB in double precision)."""


class Nodes(NamedTuple):
    """The nodes (n_nodes, d) of one level, tree after tree, and the number of each (n_trees,)."""

    rows: FloatArray
    sizes: Int64s


def first_tokens(sentences: Sentences, n_types: int, length: int) -> tuple[Int32s, Int64s]:
    """Return the ids of the first ``length`` tokens of each sentence, and how many of them each has."""
    # Negative ids would index the table from its end without a word.
    ids = sentences.ids
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_types:
        wrong = int(ids.min() if ids.min() < 0 else ids.max())
        raise ValueError(f"a sentence has word type {wrong}, but there are {n_types} types, from 0")
    full = np.diff(sentences.offsets)
    sizes = np.minimum(full, length)
    return ids[places(full) < length], sizes


def places(sizes: Int64s) -> Int64s:
    """Return the place of each node in its tree, shape (n_nodes,)."""
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
    """Shape of the trees, N leaves and P children of a node, and how a block becomes their leaves."""

    length: int
    arity: int
    n_dimensions: int
    table: FloatArray | None = None

    def pieces(self, block: Block) -> Iterator[Nodes]:
        """Yield the leaves of a block, a few sentences at a time."""
        # The vectors of a block take some hundred times the memory of its ids, so they are never there all at once.
        most = max(1, PIECE // self.n_dimensions)
        if isinstance(block, Nodes):
            ends = np.concatenate([[0], np.cumsum(block.sizes)])
            for begin, end in cut_runs(block.sizes, most):
                yield Nodes(block.rows[ends[begin] : ends[end]], block.sizes[begin:end])
        elif isinstance(block, Sentences):
            table, offsets = np.asarray(self.table), block.offsets
            for begin, end in cut_runs(np.minimum(np.diff(offsets), self.length), most):
                ids = block.ids[offsets[begin] : offsets[end]]
                part = Sentences(ids, offsets[begin : end + 1] - offsets[begin])
                ids, sizes = first_tokens(part, len(table), self.length)
                yield Nodes(table[ids], sizes)
        else:
            sizes = np.full(len(block), self.length, dtype=np.int64)
            for begin, end in cut_runs(sizes, most):
                rows = np.asarray(block[begin:end])
                rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
                self._check(rows, begin)
                yield Nodes(rows.reshape(-1, self.n_dimensions), sizes[begin:end])

    def _check(self, rows: FloatArray, begin: int) -> None:
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            sentence, column = map(int, bad[0])
            position, dimension = divmod(column, self.n_dimensions)
            raise ValueError(
                f"sentence {begin + sentence}, position {position}, dimension {dimension} is "
                f"{rows[sentence, column]}, but every number must be finite"
            )


def n_columns(output: Output, trees: Trees, axes: Sequence[FloatArray]) -> int:
    """Return how many numbers are left of a sentence.

    >>> axes = [np.ones((3, 4)), np.ones((3, 6))]
    >>> [n_columns(output, Trees(4, 2, 2), axes) for output in ("root", "levels", "pooled", "sliding")]
    [3, 9, 32, 32]
    """
    k = len(axes[-1])
    if output == "root":
        return k
    if output == "levels":
        return k * sum(_level_sizes(trees, axes))
    return 4 * (trees.n_dimensions + k * len(axes))


def encode_trees(block: Block, *, trees: Trees, axes: Sequence[FloatArray], output: Output) -> FloatArray:
    """Return the numbers that each sentence of a block becomes, shape (n, n_columns); zeros for an empty one."""
    if output == "root":
        return roots(block, trees=trees, axes=axes)
    of = concatenate_levels if output == "levels" else partial(pooled, sliding=output == "sliding")
    parts = [np.zeros((0, n_columns(output, trees, axes)), dtype=np.result_type(*axes))]
    parts += [of(piece, trees, axes) for piece in trees.pieces(block)]
    return np.concatenate(parts)


def roots(block: Block, *, trees: Trees, axes: Sequence[FloatArray]) -> FloatArray:
    """Return the one vector that is left of each sentence, shape (n, k)."""
    # Empty sentences have no node at all: their rows stay zero.
    dtype = np.result_type(*axes)
    parts = [np.zeros((0, len(axes[-1])), dtype=dtype)]
    for piece in trees.pieces(block):
        top = climb(piece, axes, trees.arity)
        part = np.zeros((len(top.sizes), len(axes[-1])), dtype=dtype)
        part[top.sizes > 0] = top.rows
        parts.append(part)
    return np.concatenate(parts)


def concatenate_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> FloatArray:
    """Return the nodes of all levels side by side, shape (n_trees, k * (length - 1) / (arity - 1)), the lowest first.

    >>> sums = [np.ones((1, 2))] * 2
    >>> concatenate_levels(Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), Trees(4, 2, 1), sums)
    array([[3., 3., 6.]])
    """
    counts = _level_sizes(trees, axes)
    out = np.zeros((len(leaves.sizes), sum(counts), len(axes[-1])), dtype=np.result_type(*axes))
    first = 0
    # Nodes of a level are out[:, first : first + count]; those that are not stored stay zero.
    for nodes, count in zip(_iterate_levels(leaves, trees, axes), counts, strict=True):
        out[np.repeat(np.arange(len(out)), nodes.sizes), first + places(nodes.sizes)] = nodes.rows
        first += count
    return out.reshape(len(out), -1)


def pooled(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray], *, sliding: bool = False) -> FloatArray:
    """Return the first node of each level, and the mean, the least and the largest over all of its nodes.

    Shapes: `axes` (k, arity * d); returns (n_trees, 4 * (n_dimensions + k * n_levels)).

    >>> three, sums = Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), [np.ones((1, 2))] * 2
    >>> pooled(three, Trees(4, 2, 1), sums)
    array([[1., 2., 1., 3., 3., 3., 3., 3., 6., 6., 6., 6.]])
    >>> pooled(three, Trees(4, 2, 1), sums, sliding=True).round(1)
    array([[1. , 2. , 1. , 3. , 3. , 3.7, 3. , 5. , 6. , 4.7, 3. , 6. ]])
    """
    full = leaves.sizes > 0
    out = np.zeros((len(full), n_columns("pooled", trees, axes)), dtype=np.result_type(*axes))
    if not full.any():
        return out
    parts = []
    for rows, sizes in (
        leaves,
        *(_iterate_sliding_levels if sliding else _iterate_levels)(leaves, trees, axes),
    ):
        # reduceat sums from each start to the next one: an empty tree has no start, so that none is counted twice.
        starts = (np.cumsum(sizes) - sizes)[full]
        wide = rows.astype(out.dtype, copy=False)
        parts += [wide[starts], np.add.reduceat(wide, starts) / sizes[full, None]]
        parts += [np.minimum.reduceat(wide, starts), np.maximum.reduceat(wide, starts)]
    out[full] = np.hstack(parts)
    return out


def _iterate_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> Iterator[Nodes]:
    nodes = leaves
    for level in axes:
        nodes = climb(nodes, [level], trees.arity)
        yield nodes


def _iterate_sliding_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> Iterator[Nodes]:
    """Yield the nodes of each level that begin at every leaf: children are ``arity ** (level - 1)`` leaves apart."""
    rows, sizes = leaves
    # Leaves from here to the end of the tree, this one included.
    after = np.repeat(sizes, sizes) - places(sizes)
    # Before level l, rows[i] is the node over leaves i, ..., i + arity^l - 1 of its tree. The product of joined
    # children is the sum of their products, with a slice of the axes each: 2 d k operations for each leaf and child,
    # and no row is joined. A child that begins beyond the tree's last leaf is zero, and adds nothing.
    for level, axis in enumerate(axes):
        width = rows.shape[1]
        above = rows @ axis[:, :width].T
        for child in range(1, trees.arity):
            shift = child * trees.arity**level
            at = np.flatnonzero(after > shift)
            above[at] += rows[at + shift] @ axis[:, child * width : (child + 1) * width].T
        rows = above
        yield Nodes(rows, sizes)


def _level_sizes(trees: Trees, axes: Sequence[FloatArray]) -> list[int]:
    """Return the number of nodes of each level above the leaves."""
    return [trees.length // trees.arity**level for level in range(1, len(axes) + 1)]
