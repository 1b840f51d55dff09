"""Counts of adjacent words, which clusters and anchors are found in."""

from functools import partial

from dspectral.cooccurrence.contexts import ContextCounts
from dspectral.engine import Blocks, asked_memory_limit, summarize
from dspectral.types import CSRRows

PAIR_BYTES = 260
"""Peak memory of a fit for each distinct pair: its counts from both sides, scaled, and in merges."""


def adjacent_counts(sentences: Blocks, n_types: int) -> CSRRows:
    """Count in one pass how often each type directly follows each.

    The counts are refused where working on them would take more than a limit on memory that was set.

    Parameters
    ----------
    sentences : Blocks
        Blocks of :class:`~dspectral.types.Sentences`.
    n_types : int
        Number of word types.

    Returns
    -------
    csr_array of float64, shape (n_types, n_types)
        How often the column's type directly follows the row's.

    Raises
    ------
    MemoryError
        If there are more distinct pairs than ``dspectral.memory-limit`` of Dask's configuration has room for.
    """
    of = partial(ContextCounts.of, n_types=n_types, window=1, sides="right")
    counts = summarize(sentences, of=of, name="adjacent").counts
    limit, needed = asked_memory_limit(), PAIR_BYTES * counts.nnz
    if limit is not None and needed > limit:
        raise MemoryError(
            f"{counts.nnz:,} distinct pairs of adjacent words take {needed:,} bytes of memory, but "
            f"dspectral.memory-limit is {limit:,}: set it to {needed:,}, or raise min_count"
        )
    return counts
