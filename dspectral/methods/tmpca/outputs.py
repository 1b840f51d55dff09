"""A sentence becomes the root of its tree, the nodes of all levels in their places, or these pooled."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, TypeAlias, get_args

import numpy as np

from dspectral.methods.tmpca.moments import roots
from dspectral.methods.tmpca.nodes import Block, Nodes, Trees, climb, places
from dspectral.types import FloatArray

Output: TypeAlias = Literal["root", "levels", "pooled", "sliding"]
OUTPUTS: tuple[str, ...] = get_args(Output)


def n_columns(output: Output, trees: Trees, axes: Sequence[FloatArray]) -> int:
    """Return how many numbers are left of a sentence.

    Shapes: `axes` (k, arity * d).

    >>> axes = [np.ones((3, 4)), np.ones((3, 6))]
    >>> [n_columns(output, Trees(4, 2, 2), axes) for output in ("root", "levels", "pooled", "sliding")]
    [3, 9, 32, 32]
    """
    k = len(axes[-1])
    if output == "root":
        return k
    if output == "levels":
        return k * sum(_counts(trees, axes))
    return 4 * (trees.n_dimensions + k * len(axes))


def left_of(block: Block, *, trees: Trees, axes: Sequence[FloatArray], output: Output) -> FloatArray:
    """Return what is left of each sentence of a block.

    Shapes: `block` (n, length * n_dimensions), `axes` (k, arity * d); returns (n, n_columns).
    """
    if output == "root":
        return roots(block, trees=trees, axes=axes)
    kinds: dict[str, Callable[[Nodes, Trees, Sequence[FloatArray]], FloatArray]] = {
        "levels": in_places,
        "pooled": pooled,
        "sliding": partial(pooled, sliding=True),
    }
    of = kinds[output]
    parts = [np.zeros((0, n_columns(output, trees, axes)), dtype=np.result_type(*axes))]
    parts += [of(piece, trees, axes) for piece in trees.pieces(block)]
    return np.concatenate(parts)


def in_places(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> FloatArray:
    """Return the nodes of all levels side by side, the lowest level first, each in its place.

    Shapes: `axes` (k, arity * d); returns (n_trees, k * (length - 1) / (arity - 1)).

    >>> sums = [np.ones((1, 2))] * 2
    >>> in_places(Nodes(np.array([[1.0], [2.0], [3.0]]), np.array([3])), Trees(4, 2, 1), sums)
    array([[3., 3., 6.]])
    """
    counts = _counts(trees, axes)
    out = np.zeros((len(leaves.sizes), sum(counts), len(axes[-1])), dtype=np.result_type(*axes))
    first = 0
    # Nodes of a level are out[:, first : first + count]; those that are not stored stay zero.
    for nodes, count in zip(_levels(leaves, trees, axes), counts, strict=True):
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
    for rows, sizes in (leaves, *(_sliding_levels if sliding else _levels)(leaves, trees, axes)):
        # reduceat sums from each start to the next one: an empty tree has no start, so that none is counted twice.
        starts = (np.cumsum(sizes) - sizes)[full]
        wide = rows.astype(out.dtype, copy=False)
        parts += [wide[starts], np.add.reduceat(wide, starts) / sizes[full, None]]
        parts += [np.minimum.reduceat(wide, starts), np.maximum.reduceat(wide, starts)]
    out[full] = np.hstack(parts)
    return out


def _levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> Iterator[Nodes]:
    nodes = leaves
    for level in axes:
        nodes = climb(nodes, [level], trees.arity)
        yield nodes


def _sliding_levels(leaves: Nodes, trees: Trees, axes: Sequence[FloatArray]) -> Iterator[Nodes]:
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


def _counts(trees: Trees, axes: Sequence[FloatArray]) -> list[int]:
    """Return the number of nodes of each level above the leaves."""
    return [trees.length // trees.arity**level for level in range(1, len(axes) + 1)]
