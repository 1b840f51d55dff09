"""Marks that types have, how they are spelled for instance, and what they are worth in a cluster."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled


class Marks(NamedTuple):
    """What types look like, each mark a number: spelling, for instance.

    Attributes
    ----------
    starts : ndarray of int64, shape (n_types + 1,)
        The marks of type i are ``marks[starts[i]:starts[i + 1]]``, different ones.
    marks : ndarray of int32
    weights : ndarray of float64, shape (n_types,)
        Of each mark of a type.
    n_marks : int
        Different ones.
    """

    starts: NDArray[np.int64]
    marks: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_marks: int

    @classmethod
    def none(cls, n_types: int) -> "Marks":
        """Return those of types that have none."""
        return cls(np.zeros(n_types + 1, dtype=np.int64), np.empty(0, dtype=np.int32), np.zeros(n_types), 0)


@compiled
def _xlogx(x: float) -> float:
    return x * np.log(x) if x > 0.0 else 0.0


@compiled
def mark_gains(
    row: NDArray[np.int32],
    weight: float,
    marked: NDArray[np.float64],
    sums: NDArray[np.float64],
    gains: NDArray[np.float64],
) -> None:
    """Add to each cluster's gain what the marks of a type are worth there."""
    for b in range(len(gains)):
        gain = _xlogx(sums[b]) - _xlogx(sums[b] + weight * len(row))
        for f in row:
            gain += _xlogx(marked[b, f] + weight) - _xlogx(marked[b, f])
        gains[b] += gain


@compiled
def put_marks(
    row: NDArray[np.int32], weight: float, marked: NDArray[np.float64], sums: NDArray[np.float64], b: int
) -> None:
    """Add the marks of a type to a cluster, or take them out where the weight is negative."""
    for f in row:
        marked[b, f] = max(0.0, marked[b, f] + weight)
    sums[b] = max(0.0, sums[b] + weight * len(row))
