"""Fit of the levels of a tree: one pass over the blocks computes the moments of one level."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse

from dspectral.configuration import get_memory_limit
from dspectral.decomposition.moments import Moments
from dspectral.decomposition.spectrum import Spectrum, SVDOptions, spectrum_from_summary
from dspectral.engine import count_as_pass, expect_passes, summarize
from dspectral.engine.summary import add_fields
from dspectral.inputs.sequences import as_memory_blocks
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.methods.tmpca.nodes import (
    Block,
    Nodes,
    Trees,
    join_neighbors,
    positions,
    project_levels,
    truncate_sentences,
)
from dspectral.methods.tmpca.streams import Stream
from dspectral.parameters import check_integer
from dspectral.types import Doubles, FloatArray, Sentences

PAIR_ARITY = 2
"""Arity for which the first level of texts is computed from counts of token pairs."""
PANEL = 8192
"""Number of word types of one matrix product."""


class LevelSettings(NamedTuple):
    """Options of all levels: number of axes, centering and whitening."""

    n_components: int
    center: bool
    whiten: bool

    def variances(self, level: Spectrum) -> Doubles:
        """Return the variance along each axis of a level, shape (k,)."""
        return level.values / self.degrees_of_freedom(level)

    def degrees_of_freedom(self, level: Spectrum) -> int:
        """Return the divisor of sums of squares."""
        return max(1, level.n_rows - 1) if self.center else level.n_rows

    def scale_axes(self, axes: FloatArray, variances: Doubles) -> FloatArray:
        """Return the projection of concatenated vectors, shape (k, arity * d): the axes, whitened if `whiten`."""
        if not self.whiten:
            return axes
        return axes / np.sqrt(np.where(variances > 0, variances, 1.0))[:, None]


class LevelState(NamedTuple):
    """State of a fit between levels: the blocks, and the axes (k, arity * d) that a pass projects them by.

    `collected`: whether the blocks are nodes in memory.
    """

    stream: Stream
    axes: list[FloatArray]
    collected: bool


def find_levels(stream: Stream, n_levels: int, settings: LevelSettings) -> tuple[list[Spectrum], int]:
    """Return the axes of each level and the number of passes, at most one for each level."""
    levels: list[Spectrum] = []
    state, n_passes = LevelState(stream, [], collected=False), 0
    expect_passes(n_levels)  # at most
    # Each iteration computes one level from the moments of its concatenated vectors. A pass projects the blocks
    # through all previous levels, unless the nodes of a level are already in memory.
    while True:
        n_passes += not state.collected
        with count_as_pass(is_pass=not state.collected):
            moments = _sum_moments(state)
        levels.append(_compute_axes(moments, settings))
        if len(levels) == n_levels:
            return levels, n_passes
        was_kept = state.collected
        state = _next_state(state, levels[-1], n_levels - len(levels), settings)
        n_passes += state.collected and not was_kept


def _sum_moments(state: LevelState) -> Moments:
    """Return the moments of the concatenated vectors of the next level, in one pass."""
    blocks, trees = state.stream.blocks, state.stream.trees
    if state.axes or trees.table is None or trees.arity != PAIR_ARITY:
        return summarize(blocks, summarize_block=partial(level_moments, trees=trees, axes=state.axes), name="moments")
    # Sums over distinct pairs instead of tokens do not depend on the blocks, and multiply each vector once.
    count_pairs = partial(TokenPairCounts.from_block, n_types=len(trees.table), length=trees.length)
    pair_counts = summarize(blocks, summarize_block=count_pairs, name="pairs")
    with blas_in_one_thread():
        return pair_counts.moments(trees.table)


def _next_state(state: LevelState, level: Spectrum, n_left: int, settings: LevelSettings) -> LevelState:
    """Return the state after a level, ``n_left`` levels below the root; collect the nodes if they fit in memory."""
    stream, trees = state.stream, state.stream.trees
    axes = [*state.axes, settings.scale_axes(level.axes, settings.variances(level))]
    # n_rows counts the concatenated vectors of this level, N / P^level for each tree.
    n_trees = level.n_rows * trees.arity ** len(axes) // trees.length
    fits = 8 * len(level.axes) * stream.get_max_nodes(n_trees, len(axes)) <= get_memory_limit()
    # Collecting nodes costs a pass, which pays off only if more than one level is left.
    if not state.collected and (n_left == 1 or not fits):
        return LevelState(stream, axes, collected=False)
    if not state.collected:
        expect_passes(1, replaces=True)
    with count_as_pass(is_pass=not state.collected):
        collect = partial(CollectedNodes.from_block, trees=trees, axes=axes)
        nodes = summarize(stream.blocks, summarize_block=collect, name="keep").blocks
    above = Trees(trees.length // trees.arity ** len(axes), trees.arity, len(level.axes))
    return LevelState(Stream(as_memory_blocks(nodes), above), [], collected=True)


def _compute_axes(moments: Moments, settings: LevelSettings) -> Spectrum:
    """Return the axes of a level, zeros where it has fewer independent directions than components."""
    if not moments.n_rows:
        raise ValueError("X has 0 sentences, but must have at least 1: check the input")
    k = settings.n_components
    with blas_in_one_thread():
        result = spectrum_from_summary(moments, SVDOptions(k, solver="gram", center=settings.center))
    # Pad with zero rows: small folds of a cross-validation have few vectors at the upper levels.
    missing = (0, k - len(result.values))
    return result._replace(axes=np.pad(result.axes, (missing, (0, 0))), values=np.pad(result.values, missing))


def count_levels(length: int, arity: int) -> int:
    """Return L, of which ``length == arity**L``."""
    length, arity = check_integer("length", length, at_least=1), check_integer("arity", arity, at_least=2)
    n_levels, n_leaves = 1, arity
    while n_leaves < length:
        n_levels, n_leaves = n_levels + 1, n_leaves * arity
    if n_leaves != length:
        smaller = f"{n_leaves // arity} or " if n_levels > 1 else ""
        raise ValueError(f"length={length} must be a power of arity={arity}, such as {smaller}{n_leaves}")
    return n_levels


def level_moments(block: Block, *, trees: Trees, axes: Sequence[FloatArray]) -> Moments:
    """Return the moments of the concatenated vectors of the next level; n_rows includes all-zero vectors."""
    width = trees.arity * (axes[-1].shape[0] if axes else trees.n_dimensions)
    total, gram, n_trees = np.zeros(width), np.zeros((width, width)), 0
    # Invariant: total = sum x and gram = sum x x' over the concatenated vectors x so far; width^2 operations each.
    for panel in trees.panels(block):
        above = join_neighbors(project_levels(panel, axes, trees.arity), trees.arity)
        moments = Moments.from_block(above.rows)
        total += moments.total
        gram += moments.gram
        n_trees += len(above.sizes)
    return Moments(n_trees * trees.length // trees.arity ** (len(axes) + 1), total, gram)


class CollectedNodes(NamedTuple):
    """Nodes of a level by block. Memory grows with the data; the caller checks that they fit."""

    blocks: tuple[Nodes, ...]

    @classmethod
    def from_block(cls, block: Block, *, trees: Trees, axes: Sequence[FloatArray]) -> Self:
        """Project a block through the levels of ``axes``."""
        # Leaves are freed after each panel: P^level leaves become one node.
        parts = [project_levels(panel, axes, trees.arity) for panel in trees.panels(block)]
        rows = [part.rows for part in parts] or [np.zeros((0, len(axes[-1])))]
        sizes = [part.sizes for part in parts] or [np.zeros(0, dtype=np.int64)]
        return cls((Nodes(np.concatenate(rows), np.concatenate(sizes)),))

    def merge(self, *others: Self) -> Self:
        """Return the nodes of all the blocks."""
        return type(self)(tuple(block for part in (self, *others) for block in part.blocks))


class TokenPairCounts(NamedTuple):
    """Counts of the token pairs of the first level of trees of arity 2: tokens 0 and 1, 2 and 3, ...

    `n_pairs`: pairs, including pure padding; `counts` (n_types, n_types): occurrences of a type (row) as the left
    neighbor of another (column); `unpaired` (n_types,): occurrences of a type with padding on its right.

    >>> pairs = TokenPairCounts.from_block(Sentences.from_ids([[0, 1, 1]]), n_types=2, length=4)
    >>> pairs.counts.toarray(), pairs.unpaired
    (array([[0., 1.],
           [0., 0.]]), array([0., 1.]))
    >>> pairs.moments(np.array([[1.0], [2.0]])).gram
    array([[5., 2.],
           [2., 4.]])
    """

    n_pairs: int
    counts: sparse.csr_array
    unpaired: Doubles

    @classmethod
    def from_block(cls, sentences: Sentences, *, n_types: int, length: int) -> Self:
        """Count the pairs among the first ``length`` tokens of each sentence of a block."""
        ids, sizes = truncate_sentences(sentences, n_types, length)
        position = positions(sizes)
        # Tokens at even positions are left children; the last token of a text of odd length has padding on its right.
        is_left = position % 2 == 0
        has_right = is_left & (position + 1 < np.repeat(sizes, sizes))
        left_ids = ids[has_right].astype(np.int64)
        right_ids = ids[np.flatnonzero(has_right) + 1]
        # Sorted keys left * n_types + right are the cells of a CSR matrix in order.
        keys, values = np.unique(left_ids * n_types + right_ids, return_counts=True)
        indptr = np.searchsorted(keys, np.arange(n_types + 1, dtype=np.int64) * n_types)
        columns = (keys % n_types).astype(np.int32)
        counts = sparse.csr_array((values.astype(np.float64), columns, indptr), shape=(n_types, n_types))
        unpaired_counts = np.bincount(ids[is_left & ~has_right], minlength=n_types).astype(np.float64)
        return cls(sentences.n_sentences * length // 2, counts, unpaired_counts)

    def merge(self, *others: Self) -> Self:
        """Return the counts of all sentences; exact in any order."""
        return add_fields(self, *others)

    def moments(self, table: FloatArray) -> Moments:
        """Return the moments of the concatenated vectors, given the vector of each type, shape (n_types, d).

        The Gram matrix is ``[E' F E, E' C E; E' C' E, E' S E]`` for the table E, the counts C, and diagonal matrices
        F and S of the counts of each type as left and right child.
        """
        # A token without a right neighbor is a left child concatenated with zeros.
        first = np.asarray(self.counts.sum(axis=1), dtype=np.float64) + self.unpaired
        second = np.asarray(self.counts.sum(axis=0), dtype=np.float64)
        d = table.shape[1]
        total, gram = np.zeros(2 * d), np.zeros((2 * d, 2 * d))
        wide = np.asarray(table, dtype=np.float64)
        # Sums over panels of types, since C E as a whole need not fit in memory. O(n_types d^2 + nnz(C) d) operations.
        for start in range(0, len(table), PANEL):
            panel = slice(start, start + PANEL)
            rows = wide[panel]
            total += np.concatenate([first[panel] @ rows, second[panel] @ rows])
            gram[:d, :d] += rows.T @ (rows * first[panel, None])
            gram[d:, d:] += rows.T @ (rows * second[panel, None])
            gram[:d, d:] += rows.T @ (self.counts[panel] @ wide)
        gram[d:, :d] = gram[:d, d:].T
        return Moments(self.n_pairs, total, gram)
