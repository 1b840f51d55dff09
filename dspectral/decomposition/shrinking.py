"""The shrink step of Frequent Directions, through the smaller of the two Gram matrices."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.dense import combine_rows, eigh_descending, rounding_floor, row_gram
from dspectral.types import FloatArray


class Sketched(NamedTuple):
    """A few rows B that stand for many rows A.

    Attributes
    ----------
    rows : ndarray, shape (m, d)
        B, with ``B'B`` below ``A'A`` (up to rounding).
    error : float
        Bound on the spectral norm of ``A'A - B'B``, rounding included.
    """

    rows: FloatArray
    error: float


def shrink_values(
    values: NDArray[np.float64], capacity: int, dtype: Any, n_terms: int = 1
) -> tuple[NDArray[np.float64], float]:
    """Subtract the first eigenvalue beyond ``capacity`` from all; what falls to rounding is dropped.

    Parameters
    ----------
    values : ndarray of float64
        Eigenvalues, largest first.
    capacity : int
        How many may be kept.
    dtype : dtype
        Of the rows behind them.
    n_terms : int
        How many products each entry of the Gram matrix sums, for the rounding of these sums.

    Returns
    -------
    values : ndarray of float64, shape (m,), m <= capacity
        Those kept, reduced.
    error : float
        Bound on the spectral norm of what was taken away.

    Notes
    -----
    Of the ``capacity + 1`` largest each loses the same amount, hence ``(capacity + 1) * error`` is at most the
    energy lost, which is all that the Frequent Directions bound needs (Ghashami, Liberty, Phillips and
    Woodruff 2016, section 2).

    Examples
    --------
    >>> shrink_values(np.array([9.0, 4.0, 1.0]), 2, np.float64)[0]
    array([8., 3.])
    """
    cut = float(values[capacity]) if len(values) > capacity else 0.0
    floor = rounding_floor(values, dtype)
    reduced = values[:capacity] - cut
    of_sums = rounding_floor(values, np.float64) * math.sqrt(n_terms)
    return reduced[reduced > floor], cut + 2.0 * (floor + of_sums)


def shrink_stack(parts: list[FloatArray], capacity: int) -> Sketched:
    """Replace the rows of all parts by at most ``capacity`` rows.

    Parameters
    ----------
    parts : list of ndarray, shapes (r_i, d)
    capacity : int

    Returns
    -------
    Sketched
        Its error is 0 where the rows already fit: then they are only put together.
    """
    n_rows, n_columns = sum(len(part) for part in parts), parts[0].shape[1]
    if n_rows <= capacity:
        return Sketched(np.concatenate(parts), 0.0)
    if n_columns < n_rows:
        gram = sum(
            (np.asarray(part.T @ part, dtype=np.float64) for part in parts), np.zeros((n_columns,) * 2)
        )
        return shrink_gram(gram, capacity, parts[0].dtype, n_terms=n_rows)
    values, vectors = eigh_descending(row_gram(*parts))
    kept, error = shrink_values(values, capacity, parts[0].dtype)
    coefficients = vectors[:, : len(kept)] * np.sqrt(kept / values[: len(kept)])
    return Sketched(combine_rows(coefficients.T, *parts), error)


def shrink_gram(gram: NDArray[np.float64], capacity: int, dtype: Any, *, n_terms: int) -> Sketched:
    """Sketch rows of which only ``A'A`` is known.

    Parameters
    ----------
    gram : ndarray of float64, shape (d, d)
    capacity : int
    dtype : dtype
        Of the rows to return.
    n_terms : int
        How many rows there were.

    Returns
    -------
    Sketched
    """
    values, vectors = eigh_descending(gram)
    kept, error = shrink_values(values, capacity, dtype, n_terms)
    rows = (vectors[:, : len(kept)] * np.sqrt(kept)).T
    return Sketched(np.ascontiguousarray(rows, dtype=dtype), error)
