"""The levels of a tree, found one after the other: each pass over the blocks gives the moments of the next one."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.decomposition.moments import Moments
from dspectral.decomposition.spectrum import Plan, Spectrum, of_summary
from dspectral.engine import Blocks, blas_in_one_thread, expect_passes, memory_limit, numbered, summarize
from dspectral.inputs.parameters import check_integer
from dspectral.methods.tmpca.moments import KeptNodes, PairCounts, level_moments
from dspectral.methods.tmpca.nodes import Nodes, Trees
from dspectral.methods.tmpca.streams import Stream
from dspectral.types import FloatArray

PAIR = 2
"""Arity at which the first level of texts counts pairs of tokens, in the place of joining their vectors."""


class LevelSettings(NamedTuple):
    """Settings that all levels share.

    `n_components`: k, the number of axes of a level; `center`: whether the mean is subtracted before axes are
    found; `whiten`: whether projections are scaled to unit variance.
    """

    n_components: int
    center: bool
    whiten: bool

    def variances(self, level: Spectrum) -> NDArray[np.float64]:
        """Return the variance along each axis of a level, shape (k,)."""
        return level.values / self.freedom(level)

    def freedom(self, level: Spectrum) -> int:
        """Return the number by which sums of squares are divided."""
        return max(1, level.n_rows - 1) if self.center else level.n_rows

    def scaled(self, axes: FloatArray, variances: NDArray[np.float64]) -> FloatArray:
        """Return the matrix by which joined vectors are projected, shape (k, arity * d)."""
        if not self.whiten:
            return axes
        return axes / np.sqrt(np.where(variances > 0, variances, 1.0))[:, None]


class Climb(NamedTuple):
    """How far a fit has come: the blocks, and the levels that they are projected through as they are read.

    `stream`: blocks of sentences, or of the nodes of a level that is kept; `axes` (k, arity * d): axes of the
    levels between the blocks and the level to be found next, each of shape (k, arity * d); `kept`: whether
    the blocks are nodes in memory, which reading does not count as a pass.
    """

    stream: Stream
    axes: list[FloatArray]
    kept: bool


def find_levels(stream: Stream, n_levels: int, settings: LevelSettings) -> tuple[list[Spectrum], int]:
    """Find the axes of each level, in one pass over the blocks each at most."""
    levels: list[Spectrum] = []
    climb, n_passes = Climb(stream, [], kept=False), 0
    expect_passes(n_levels)  # at most
    # Each round finds one level from the moments of its joined vectors. Of the blocks it knows the projections through
    # all levels found so far, either by projecting while it reads or because the nodes of a level are kept.
    while True:
        n_passes += not climb.kept
        with numbered(is_pass=not climb.kept):
            moments = _moments(climb)
        levels.append(_solve(moments, settings))
        if len(levels) == n_levels:
            return levels, n_passes
        was_kept = climb.kept
        climb = _above(climb, levels[-1], n_levels - len(levels), settings)
        n_passes += climb.kept and not was_kept


def _moments(climb: Climb) -> Moments:
    """Return the moments of the joined vectors of the next level, in one pass.

    Blocks are first projected through the levels found so far.
    """
    blocks, trees = climb.stream.blocks, climb.stream.trees
    if climb.axes or trees.table is None or trees.arity != PAIR:
        return summarize(blocks, of=partial(level_moments, trees=trees, axes=climb.axes), name="moments")
    # Sums over distinct pairs instead of over tokens: exact, whatever the cuts, and the vectors are multiplied once.
    of_pairs = partial(PairCounts.of, n_types=len(trees.table), length=trees.length)
    counted = summarize(blocks, of=of_pairs, name="pairs")
    with blas_in_one_thread():
        return counted.moments(trees.table)


def _above(climb: Climb, found: Spectrum, n_left: int, settings: LevelSettings) -> Climb:
    """Climb on with the axes of a level, below ``n_left`` others; keep the nodes if they fit."""
    stream, trees = climb.stream, climb.stream.trees
    axes = [*climb.axes, settings.scaled(found.axes, settings.variances(found))]
    # n_rows counts joined vectors of this level: N / P^level a tree.
    n_trees = found.n_rows * trees.arity ** len(axes) // trees.length
    fits = 8 * len(found.axes) * stream.most_nodes(n_trees, len(axes)) <= memory_limit()
    # Keeping nodes costs a read, which saves one only if more than one level is left.
    if not climb.kept and (n_left == 1 or not fits):
        return Climb(stream, axes, kept=False)
    if not climb.kept:
        expect_passes(1, anew=True)
    with numbered(is_pass=not climb.kept):
        nodes = summarize(stream.blocks, of=partial(KeptNodes.of, trees=trees, axes=axes), name="keep").blocks
    above = Trees(trees.length // trees.arity ** len(axes), trees.arity, len(found.axes))
    return Climb(Stream(Blocks(_itself, nodes, in_memory=True), above), [], kept=True)


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
    """Return L, of which ``length == arity**L``.

    >>> n_levels_of(64, 2), n_levels_of(9, 3), n_levels_of(7, 7)
    (6, 2, 1)
    """
    length, arity = check_integer("length", length, at_least=1), check_integer("arity", arity, at_least=2)
    n_levels, reached = 1, arity
    while reached < length:
        n_levels, reached = n_levels + 1, reached * arity
    if reached != length:
        below = f"{reached // arity} or " if n_levels > 1 else ""
        raise ValueError(
            f"length is {length}, but it must be a power of arity = {arity}: {below}{reached}, for instance"
        )
    return n_levels


def _itself(block: Nodes) -> Nodes:
    return block
