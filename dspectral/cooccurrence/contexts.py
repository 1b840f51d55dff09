"""How often words stand near each other, exactly: partial counts that merge by addition."""

from typing import Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.cooccurrence.windows import Window, count_contexts
from dspectral.types import CSRRows, Sentences

Context: TypeAlias = Literal["bag", "list", "zones"]
"""Whether a context is a word wherever it stands in the window, a word at a position, or a word near by or farther."""
NEAR = 2
"""Farthest distance of the nearer of the two zones of ``"zones"``."""
Sides: TypeAlias = Literal["both", "left", "right"]
"""On which sides of a word its contexts are."""
UNIT = 2.0**20
"""Weights are multiples of 1 / UNIT: sums of up to 2**33 are then exact, in any order."""


class ContextSettings(NamedTuple):
    """Rule by which words count as contexts, for :meth:`ContextCounts.of`.

    `n_types`: number of word types; `window`: number of words on each side, at least 1; `context`: whether a
    context is a word wherever it stands, a word at a position, or a word near by or farther;
    `distance_weighting`: whether a word at distance d counts 1/d instead of 1; `n_contexts`: number of
    columns that contexts are hashed to.
    """

    n_types: int
    window: int
    context: Context = "bag"
    distance_weighting: bool = False
    n_contexts: int | None = None


class ContextCounts(NamedTuple):
    """How often each word type has each context.

    `n_tokens`: number of tokens behind the counts; `counts` (n_types, n_contexts): sums of weights.

    >>> ContextCounts.of(Sentences.of([[0, 1, 2]]), n_types=3, window=1).counts.toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """

    n_tokens: int
    counts: CSRRows

    @classmethod
    def of(
        cls,
        sentences: Sentences,
        *,
        n_types: int,
        window: int,
        context: Context = "bag",
        distance_weighting: bool = False,
        n_contexts: int | None = None,
        sides: Sides = "both",
    ) -> Self:
        """Count the contexts in one block of sentences.

        One pass over the block; see :func:`~dspectral.cooccurrence.windows.count_contexts` for the memory.
        """
        near = window_of(
            n_types,
            window,
            context=context,
            distance_weighting=distance_weighting,
            n_contexts=n_contexts,
            sides=sides,
        )
        data, indices, indptr = count_contexts(sentences, n_types, near)
        if len(data) < 2**31:  # as the columns are: SciPy would copy those to the type of `indptr`
            indptr = indptr.astype(np.int32)
        counts = sparse.csr_array((data, indices, indptr), shape=(n_types, near.n_columns))
        # The kernel leaves columns sorted and distinct; SciPy would look through all of them to find that out.
        counts.has_canonical_format = True
        return cls(len(sentences.ids), counts)

    def merge(self, *others: Self) -> Self:
        """Return the counts of all the sentences behind this summary and others."""
        # Weights are multiples of 1 / UNIT, so that these sums are exact, and the same in any order of blocks.
        # Not by engine.summary.add_fields: this room and the engine are neighbors on one floor.
        n_tokens, counts = self.n_tokens, self.counts
        for other in others:
            n_tokens, counts = n_tokens + other.n_tokens, counts + other.counts
        return type(self)(n_tokens, counts)


def window_of(
    n_types: int,
    window: int,
    *,
    context: Context = "bag",
    distance_weighting: bool = False,
    n_contexts: int | None = None,
    sides: Sides = "both",
) -> Window:
    """Return a window as :func:`~dspectral.cooccurrence.windows.count_contexts` takes it.

    >>> window_of(9, 3, distance_weighting=True, sides="right").weights.round(2)
    array([1.  , 0.5 , 0.33])
    """
    if n_types < 1:
        raise ValueError(f"n_types is {n_types}, but there must be at least 1 word type")
    if window < 1:
        raise ValueError(f"window is {window}, but it must be at least 1 word on a side")
    if context not in ("bag", "list", "zones"):
        raise ValueError(f"context is {context!r}, but it must be 'bag', 'list' or 'zones'")
    if sides not in ("both", "left", "right"):
        raise ValueError(f"sides is {sides!r}, but it must be 'both', 'left' or 'right'")
    if n_contexts is not None and not 1 <= n_contexts < 2**31:
        raise ValueError(f"n_contexts is {n_contexts}, but it must be from 1 to 2**31 - 1, or None")
    left, right = (0 if sides == "right" else window), (0 if sides == "left" else window)
    # Columns are int32 in the counts, and positions are numbered in the same type.
    groups = {"bag": 1, "list": left + right, "zones": 1 + (window > NEAR)}[context]
    n_raw = n_types * groups
    if max(n_raw, left + right) >= 2**31:
        raise ValueError(f"window {window} of {n_types} types has {n_raw} contexts: too many to number")
    # The farthest on the left first: the order that count_contexts walks through.
    distances = np.concatenate([np.arange(left, 0, -1), np.arange(1, right + 1)])
    weights = np.rint(UNIT / distances) / UNIT if distance_weighting else np.ones(left + right)
    group = np.arange(left + right) if context == "list" else np.where(distances > NEAR, groups - 1, 0)
    first = group * n_types
    hashed = np.empty(0, dtype=np.int32) if n_contexts is None else _hash_columns(n_raw, n_contexts)
    return Window(weights, first, left, right, hashed, n_contexts or n_raw)


def _hash_columns(n: int, n_columns: int) -> NDArray[np.int32]:
    """Return a column for each number below n, by the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    # Number i is mixed as the state `(i + 1)` times the constant. Products wrap at 64 bits, as those of unsigned
    # arrays do.
    x = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) % np.uint64(n_columns)).astype(np.int32)
