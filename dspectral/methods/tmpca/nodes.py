"""Projection of trees level by level without trailing zero nodes, and the encodings of sentences."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from dspectral.linalg.panels import split_by_size
from dspectral.types import FloatArray, Int32s, Int64s, Sentences, check_ids

Output: TypeAlias = Literal["root", "levels", "pooled", "sliding"]
OUTPUTS: tuple[str, ...] = get_args(Output)
PANEL_NUMBERS = 1 << 21
"""Numbers in the vectors of one panel of sentences (16 MiB in double precision)."""


class Nodes(NamedTuple):
    """Nodes (n_nodes, d) of one level, tree by tree, and the number of nodes of each tree (n_trees,)."""

    rows: FloatArray
    sizes: Int64s


def truncate_sentences(sentences: Sentences, n_types: int, length: int) -> tuple[Int32s, Int64s]:
    """Return the ids of the first ``length`` tokens of each sentence, and the truncated lengths."""
    check_ids(sentences.ids, n_types)
    full = np.diff(sentences.offsets)
    return sentences.ids[positions(full) < length], np.minimum(full, length)


def positions(sizes: Int64s) -> Int64s:
    """Return the position of each node in its tree, shape (n_nodes,)."""
    # Global index minus the first index of its tree.
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def join_neighbors(nodes: Nodes, arity: int) -> Nodes:
    """Return the parents: the concatenated vectors of ``arity`` neighbors each.

    >>> join_neighbors(Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), 2).rows
    array([[1., 2.],
           [3., 0.]])
    """
    rows, sizes = nodes
    # Trailing zero nodes are not stored: projections are linear, so parents of zeros are zeros.
    parents = -(-sizes // arity)
    width = rows.shape[1]
    if (sizes % arity).any():
        # Pad the last parent of a tree with zeros.
        full = np.zeros((arity * int(parents.sum()), width), dtype=rows.dtype)
        first = arity * (np.cumsum(parents) - parents)
        full[np.repeat(first, sizes) + positions(sizes)] = rows
        rows = full
    return Nodes(rows.reshape(-1, arity * width), parents)


def project_levels(nodes: Nodes, axes: Sequence[FloatArray], arity: int) -> Nodes:
    """Return the nodes after one level for each entry of ``axes``, shape (k, arity * d) each."""
    # y = V [x_1 ... x_P] for each parent: 2 k P d operations. Each level has about 1 / P as many nodes as the last.
    for level in axes:
        above = join_neighbors(nodes, arity)
        nodes = Nodes(above.rows @ level.T, above.sizes)
    return nodes


Block: TypeAlias = Sentences | Nodes | FloatArray
"""A block: token ids, nodes of a level, or vectors in rows of shape (n, length * n_dimensions)."""


class Trees(NamedTuple):
    """Shape of the trees (N leaves, P children of a node), and the table of word vectors."""

    length: int
    arity: int
    n_dimensions: int
    table: FloatArray | None = None

    def panels(self, block: Block) -> Iterator[Nodes]:
        """Yield the leaves of a block in panels of sentences."""
        # Vectors need some hundred times the memory of ids, so only one panel is expanded at a time.
        max_vectors = max(1, PANEL_NUMBERS // self.n_dimensions)
        if isinstance(block, Nodes):
            ends = np.concatenate([[0], np.cumsum(block.sizes)])
            for begin, end in split_by_size(block.sizes, max_vectors):
                yield Nodes(block.rows[ends[begin] : ends[end]], block.sizes[begin:end])
        elif isinstance(block, Sentences):
            table, offsets = np.asarray(self.table), block.offsets
            for begin, end in split_by_size(np.minimum(np.diff(offsets), self.length), max_vectors):
                ids = block.ids[offsets[begin] : offsets[end]]
                part = Sentences(ids, offsets[begin : end + 1] - offsets[begin])
                ids, sizes = truncate_sentences(part, len(table), self.length)
                yield Nodes(table[ids], sizes)
        else:
            sizes = np.full(len(block), self.length, dtype=np.int64)
            for begin, end in split_by_size(sizes, max_vectors):
                rows = np.asarray(block[begin:end])
                rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
                self._check_rows(rows, begin)
                yield Nodes(rows.reshape(-1, self.n_dimensions), sizes[begin:end])

    def _check_rows(self, rows: FloatArray, begin: int) -> None:
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            sentence, column = map(int, bad[0])
            position, dimension = divmod(column, self.n_dimensions)
            raise ValueError(
                f"sentence {begin + sentence}, position {position}, dimension {dimension} is "
                f"{rows[sentence, column]}, but must be finite: remove or replace it"
            )


def n_columns(output: Output, trees: Trees, axes: Sequence[FloatArray]) -> int:
    """Return the number of columns of an encoding.

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
    """Return the encodings of the sentences of a block, shape (n, n_columns); zeros for an empty sentence."""
    one_way = {"root": take_roots, "levels": concatenate_levels}
    encode = one_way.get(output) or partial(pool_levels, sliding=output == "sliding")
    parts = [np.zeros((0, n_columns(output, trees, axes)), dtype=np.result_type(*axes))]
    parts += [encode(panel, trees, axes) for panel in trees.panels(block)]
    return np.concatenate(parts)


def take_roots(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> FloatArray:
    """Return the root vector of each tree, shape (n_trees, k); zeros for a tree without nodes."""
    top = project_levels(leaves, axes, trees.arity)
    roots = np.zeros((len(top.sizes), len(axes[-1])), dtype=np.result_type(*axes))
    roots[top.sizes > 0] = top.rows
    return roots


def concatenate_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> FloatArray:
    """Return the concatenated nodes of all levels, lowest first, shape (n_trees, k * (length - 1) / (arity - 1)).

    >>> sums = [np.ones((1, 2))] * 2
    >>> concatenate_levels(Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), Trees(4, 2, 1), sums)
    array([[3., 3., 6.]])
    """
    counts = _level_sizes(trees, axes)
    out = np.zeros((len(leaves.sizes), sum(counts), len(axes[-1])), dtype=np.result_type(*axes))
    first = 0
    # The nodes of a level are out[:, first : first + count]; trailing nodes stay zero.
    for nodes, count in zip(_iterate_levels(leaves, trees, axes), counts, strict=True):
        out[np.repeat(np.arange(len(out)), nodes.sizes), first + positions(nodes.sizes)] = nodes.rows
        first += count
    return out.reshape(len(out), -1)


def pool_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray], *, sliding: bool = False) -> FloatArray:
    """Return the first node of each level, and the mean, minimum and maximum over its nodes.

    Shapes: `axes` (k, arity * d); returns (n_trees, 4 * (n_dimensions + k * n_levels)).

    >>> three, sums = Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), [np.ones((1, 2))] * 2
    >>> pool_levels(three, Trees(4, 2, 1), sums)
    array([[1., 2., 1., 3., 3., 3., 3., 3., 6., 6., 6., 6.]])
    >>> pool_levels(three, Trees(4, 2, 1), sums, sliding=True).round(1)
    array([[1. , 2. , 1. , 3. , 3. , 3.7, 3. , 5. , 6. , 4.7, 3. , 6. ]])
    """
    full = leaves.sizes > 0
    out = np.zeros((len(full), n_columns("pooled", trees, axes)), dtype=np.result_type(*axes))
    if not full.any():
        return out
    parts = []
    for rows, sizes in (leaves, *(_iterate_sliding_levels if sliding else _iterate_levels)(leaves, trees, axes)):
        # reduceat sums from each start to the next; empty trees have no start.
        starts = (np.cumsum(sizes) - sizes)[full]
        wide = rows.astype(out.dtype, copy=False)
        parts += [wide[starts], np.add.reduceat(wide, starts) / sizes[full, None]]
        parts += [np.minimum.reduceat(wide, starts), np.maximum.reduceat(wide, starts)]
    out[full] = np.hstack(parts)
    return out


def _iterate_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> Iterator[Nodes]:
    nodes = leaves
    for level in axes:
        nodes = project_levels(nodes, [level], trees.arity)
        yield nodes


def _iterate_sliding_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> Iterator[Nodes]:
    """Yield for each level a node that starts at each leaf: children are ``arity ** (level - 1)`` leaves apart."""
    rows, sizes = leaves
    # Number of leaves from each leaf to the end of its tree, inclusive.
    after = np.repeat(sizes, sizes) - positions(sizes)
    # Invariant before level l: rows[i] is the node over leaves i, ..., i + arity^l - 1 of its tree. The projection of
    # concatenated children is the sum of their projections by slices of the axes: 2 d k operations for each leaf and
    # child. A child that starts beyond the last leaf is zero.
    for level, axis in enumerate(axes):
        width = rows.shape[1]
        above = rows @ axis[:, :width].T
        for child in range(1, trees.arity):
            shift = child * trees.arity**level
            has_child = np.flatnonzero(after > shift)
            above[has_child] += rows[has_child + shift] @ axis[:, child * width : (child + 1) * width].T
        rows = above
        yield Nodes(rows, sizes)


def _level_sizes(trees: Trees, axes: Sequence[FloatArray]) -> list[int]:
    """Return the number of nodes of each level above the leaves."""
    return [trees.length // trees.arity**level for level in range(1, len(axes) + 1)]
