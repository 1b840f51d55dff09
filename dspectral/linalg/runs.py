"""Runs of consecutive items that fit a budget together: sentences, rows or trees of different sizes."""

import numpy as np

from dspectral.types import IntArray


def cut_runs(offsets: IntArray, most: int) -> list[tuple[int, int]]:
    """Cut items into runs whose sizes add up to a budget at most, or that are one item.

    Parameters
    ----------
    offsets : ndarray of int, shape (n + 1,)
        Sum of the sizes of the items before each, and of all: item i has the size ``offsets[i + 1] - offsets[i]``.
    most : int
        Budget of a run.

    Returns
    -------
    list of tuple of int and int
        First item of each run, and the item after its last. Each run is as long as can be; together they cover all
        items in order.

    Notes
    -----
    One binary search for each run.

    Examples
    --------
    >>> cut_runs(np.array([0, 2, 2, 5, 6, 15]), 5)
    [(0, 3), (3, 4), (4, 5)]
    """
    runs, start, n = [], 0, len(offsets) - 1
    while start < n:
        stop = int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1
        runs.append((start, max(start + 1, stop)))
        start = runs[-1][1]
    return runs
