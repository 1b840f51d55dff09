"""The shrink step of Frequent Directions, through the smaller of the two Gram matrices."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dspectral.linalg.dense import eigh_descending, rounding_floor, rounding_of_sums
from dspectral.linalg.panels import combine_rows, row_gram
from dspectral.types import FloatArray


class Sketched(NamedTuple):
    """Rows B (m, d) with ``B'B`` below ``A'A`` up to rounding, and a bound on the norm of ``A'A - B'B``."""

    rows: FloatArray
    error: float


def shrink_values(
    values: NDArray[np.float64], capacity: int, dtype: DTypeLike, n_terms: int = 1
) -> tuple[NDArray[np.float64], float]:
    """Subtract the first eigenvalue beyond ``capacity`` from all, and drop what falls to rounding.

    Each of the ``capacity + 1`` largest loses the same amount, hence ``(capacity + 1) * error`` is at most the energy
    lost, which is all that the Frequent Directions bound needs (Ghashami, Liberty, Phillips and Woodruff 2016,
    section 2). Shapes: returns `values` (m,).

    >>> shrink_values(np.array([9.0, 4.0, 1.0]), 2, np.float64)[0]
    array([8., 3.])
    """
    cut = float(values[capacity]) if len(values) > capacity else 0.0
    floor = rounding_floor(values, dtype)
    reduced = values[:capacity] - cut
    # A value that is dropped was at most `cut + floor`; as much again is for the rounding of the eigenvalues and of the
    # rows that are made of them. What the Gram matrix was off by grows with the number of products in each sum.
    return reduced[reduced > floor], cut + 2.0 * floor + rounding_of_sums(n_terms, math.fsum(values))


def shrink_stack(parts: list[FloatArray], capacity: int) -> Sketched:
    """Replace the rows of all parts by at most ``capacity`` rows. Shapes: `parts` (r_i, d)."""
    # Through the smaller of `A'A` and `A A'`: r d^2 or r^2 d flops for r rows of d columns, and no copy of all rows.
    n_rows, n_columns = sum(len(part) for part in parts), parts[0].shape[1]
    if n_rows <= capacity:
        return Sketched(np.concatenate(parts), 0.0)
    if n_columns < n_rows:
        gram = sum(
            (np.asarray(part.T @ part, dtype=np.float64) for part in parts), np.zeros((n_columns,) * 2)
        )
        return shrink_gram(gram, capacity, parts[0].dtype, n_terms=n_rows)
    # Fewer rows than columns: B = sqrt(kept / values) U'S never needs the right vectors by themselves.
    values, vectors = eigh_descending(row_gram(*parts))
    kept, error = shrink_values(values, capacity, parts[0].dtype)
    coefficients = vectors[:, : len(kept)] * np.sqrt(kept / values[: len(kept)])
    return Sketched(combine_rows(coefficients.T, *parts), error)


def shrink_gram(gram: NDArray[np.float64], capacity: int, dtype: DTypeLike, *, n_terms: int) -> Sketched:
    """Sketch rows of which only the Gram matrix is known. Shapes: `gram` (d, d)."""
    # With `A'A = V diag(v) V'`, the rows `sqrt(v - cut) V'` have the Gram matrix `A'A` less at most `cut` along each v.
    values, vectors = eigh_descending(gram)
    kept, error = shrink_values(values, capacity, dtype, n_terms)
    rows = (vectors[:, : len(kept)] * np.sqrt(kept)).T
    return Sketched(np.ascontiguousarray(rows, dtype=dtype), error)
