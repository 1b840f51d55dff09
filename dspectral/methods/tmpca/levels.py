"""The levels of a tree, found one after the other: each pass over the blocks gives the moments of the next one."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse

from dspectral.configuration import memory_limit
from dspectral.decomposition.moments import Moments
from dspectral.decomposition.spectrum import Plan, Spectrum, of_summary
from dspectral.engine import expect_passes, numbered, summarize
from dspectral.engine.summary import add_fields
from dspectral.inputs.parameters import check_integer
from dspectral.inputs.sequences import in_memory_blocks
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.methods.tmpca.nodes import Block, Nodes, Trees, climb, first_tokens, join_neighbors, places
from dspectral.methods.tmpca.streams import Stream
from dspectral.types import Doubles, FloatArray, Sentences

PAIR = 2
"""Arity at which the first level of texts counts pairs of tokens, in the place of joining their vectors."""
PANEL = 8192
"""Word types whose vectors are multiplied at a time."""


class LevelSettings(NamedTuple):
    """Settings that all levels share: the number of axes, and whether vectors are centered and projections whitened."""

    n_components: int
    center: bool
    whiten: bool

    def variances(self, level: Spectrum) -> Doubles:
        """Return the variance along each axis of a level, shape (k,)."""
        return level.values / self.degrees_of_freedom(level)

    def degrees_of_freedom(self, level: Spectrum) -> int:
        """Return the number by which sums of squares are divided."""
        return max(1, level.n_rows - 1) if self.center else level.n_rows

    def scaled(self, axes: FloatArray, variances: Doubles) -> FloatArray:
        """Return the matrix by which joined vectors are projected, shape (k, arity * d)."""
        if not self.whiten:
            return axes
        return axes / np.sqrt(np.where(variances > 0, variances, 1.0))[:, None]


class Climb(NamedTuple):
    """How far a fit has come: the blocks, and the axes (k, arity * d) that they are projected by as they are read."""

    stream: Stream
    axes: list[FloatArray]
    kept: bool


def find_levels(stream: Stream, n_levels: int, settings: LevelSettings) -> tuple[list[Spectrum], int]:
    """Find the axes of each level, in one pass over the blocks each at most."""
    levels: list[Spectrum] = []
    reached, n_passes = Climb(stream, [], kept=False), 0
    expect_passes(n_levels)  # at most
    # Each round finds one level from the moments of its joined vectors. Of the blocks it knows the projections through
    # all levels found so far, either by projecting while it reads or because the nodes of a level are kept.
    while True:
        n_passes += not reached.kept
        with numbered(is_pass=not reached.kept):
            moments = _moments(reached)
        levels.append(_solve(moments, settings))
        if len(levels) == n_levels:
            return levels, n_passes
        was_kept = reached.kept
        reached = _next_state(reached, levels[-1], n_levels - len(levels), settings)
        n_passes += reached.kept and not was_kept


def _moments(reached: Climb) -> Moments:
    """Return the moments of the joined vectors of the next level, in one pass."""
    blocks, trees = reached.stream.blocks, reached.stream.trees
    if reached.axes or trees.table is None or trees.arity != PAIR:
        return summarize(blocks, of=partial(level_moments, trees=trees, axes=reached.axes), name="moments")
    # Sums over distinct pairs instead of over tokens: exact, whatever the cuts, and the vectors are multiplied once.
    of_pairs = partial(PairCounts.of, n_types=len(trees.table), length=trees.length)
    counted = summarize(blocks, of=of_pairs, name="pairs")
    with blas_in_one_thread():
        return counted.moments(trees.table)


def _next_state(reached: Climb, found: Spectrum, n_left: int, settings: LevelSettings) -> Climb:
    """Climb on with the axes of a level, below ``n_left`` others; keep the nodes if they fit."""
    stream, trees = reached.stream, reached.stream.trees
    axes = [*reached.axes, settings.scaled(found.axes, settings.variances(found))]
    # n_rows counts joined vectors of this level: N / P^level a tree.
    n_trees = found.n_rows * trees.arity ** len(axes) // trees.length
    fits = 8 * len(found.axes) * stream.most_nodes(n_trees, len(axes)) <= memory_limit()
    # Keeping nodes costs a read, which saves one only if more than one level is left.
    if not reached.kept and (n_left == 1 or not fits):
        return Climb(stream, axes, kept=False)
    if not reached.kept:
        expect_passes(1, anew=True)
    with numbered(is_pass=not reached.kept):
        nodes = summarize(stream.blocks, of=partial(KeptNodes.of, trees=trees, axes=axes), name="keep").blocks
    above = Trees(trees.length // trees.arity ** len(axes), trees.arity, len(found.axes))
    return Climb(Stream(in_memory_blocks(nodes), above), [], kept=True)


def _solve(moments: Moments, settings: LevelSettings) -> Spectrum:
    """Return the axes of a level, zeros where it has fewer independent directions than components."""
    if not moments.n_rows:
        raise ValueError("there is no sentence, but principal components are of at least one")
    k = settings.n_components
    with blas_in_one_thread():
        found = of_summary(moments, Plan(k, solver="gram", center=settings.center))
    # Zero rows instead of an error: small folds of a cross-validation have few vectors at the upper levels.
    missing = (0, k - len(found.values))
    return found._replace(axes=np.pad(found.axes, (missing, (0, 0))), values=np.pad(found.values, missing))


def n_levels_of(length: int, arity: int) -> int:
    """Return L, of which ``length == arity**L``."""
    length, arity = check_integer("length", length, at_least=1), check_integer("arity", arity, at_least=2)
    n_levels, n_leaves = 1, arity
    while n_leaves < length:
        n_levels, n_leaves = n_levels + 1, n_leaves * arity
    if n_leaves != length:
        smaller = f"{n_leaves // arity} or " if n_levels > 1 else ""
        raise ValueError(
            f"length is {length}, but it must be a power of arity = {arity}: {smaller}{n_leaves}, for instance"
        )
    return n_levels


def level_moments(block: Block, *, trees: Trees, axes: Sequence[FloatArray]) -> Moments:
    """Return the moments of the vectors that the next level joins; zero vectors are counted, not computed."""
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
    """The nodes of a level themselves, block by block: the caller bounds the memory that they take."""

    blocks: tuple[Nodes, ...]

    @classmethod
    def of(cls, block: Block, *, trees: Trees, axes: Sequence[FloatArray]) -> Self:
        """Project a block through the levels to which ``axes`` belong."""
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

    `n_pairs` includes those of padding alone; `counts` (n_types, n_types): how often a type (row) is the left neighbor
    of another; `alone` (n_types,): how often the neighbor of a type is padding.

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
    alone: Doubles

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
        """Return the moments of the joined vectors, given the vector of each type, shape (n_types, d).

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
