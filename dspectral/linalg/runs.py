"""Sizes cut into runs that fit a budget together: sentences, rows or trees of different sizes."""

import numpy as np

from dspectral.types import IntArray


def cut_runs(sizes: IntArray, most: int) -> list[tuple[int, int]]:
    """Cut items into runs of as many neighbors as have at most ``most`` together, or one item.

    Shapes: `sizes` (n,).

    Time: one cumulative sum, then one binary search for each run.

    >>> cut_runs(np.array([9, 1, 1, 1, 4]), 5)
    [(0, 1), (1, 4), (4, 5)]
    """
    ends = np.cumsum(sizes)
    runs, start, before = [], 0, 0
    # `before` is the size of all items before `start`.
    while start < len(sizes):
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        runs.append((start, stop))
        start, before = stop, int(ends[stop - 1])
    return runs
