"""Products of tall or wide arrays, panel by panel: in the arrays' precision, summed in double, without copies."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dspectral.linalg.scratch import let_go
from dspectral.types import FloatArray

PANEL = 8192
"""Columns of the long side taken at a time: a panel of 500 rows in single precision fits a core's cache."""


def panels(length: int, *arrays: FloatArray) -> Iterator[slice]:
    """Cut ``range(length)`` into slices of :data:`PANEL`.

    Shapes: `*arrays` (length, r_i).
    """
    for start in range(0, length, PANEL):
        panel = slice(start, min(start + PANEL, length))
        yield panel
        for array in arrays:
            let_go(array, panel)


def room_for(panel: slice, room: FloatArray) -> FloatArray | None:
    """Return memory that every panel writes to in turn, for ``out`` of a function of NumPy."""
    # What is asked for anew is mapped and cleared by the system page by page, and given back after each panel: a tenth
    # of the time of a merge.
    return room if panel.stop - panel.start == PANEL else None


def row_gram(*parts: FloatArray) -> NDArray[np.float64]:
    """Return ``S S'`` for ``S`` the rows of all parts one under the other, in double precision.

    Shapes: `*parts` (r_i, d); returns (sum r_i, sum r_i).

    Products are taken in the parts' precision, panel by panel, and summed in double.

    >>> row_gram(np.eye(2), np.ones((1, 2)))
    array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 2.]])
    """
    size = sum(len(part) for part in parts)
    total = np.zeros((size, size))
    room = np.empty((size, PANEL), dtype=np.result_type(*parts))
    # One panel of all parts fits the cache; its product is exact to the parts' precision, the sum to double.
    for panel in panels(parts[0].shape[1], *(part.T for part in parts)):
        stacked = np.concatenate([part[:, panel] for part in parts], out=room_for(panel, room))
        total += stacked @ stacked.T
    return total


def column_gram(Z: FloatArray) -> NDArray[np.float64]:
    """Return ``Z' Z`` of a tall matrix in double precision.

    Shapes: `Z` (d, r); returns (r, r).
    """
    # `2 d r^2` flops; what a panel loses to the precision of Z does not grow with the number of panels.
    total = np.zeros((Z.shape[1], Z.shape[1]))
    for panel in panels(len(Z), Z):
        total += Z[panel].T @ Z[panel]
    return total


def combine_rows(coefficients: FloatArray, *parts: FloatArray) -> FloatArray:
    """Return ``coefficients @ S`` for ``S`` the rows of all parts one under the other, without stacking them.

    Shapes: `coefficients` (m, sum r_i), `*parts` (r_i, d); returns (m, d).
    """
    n_columns = parts[0].shape[1]
    out = np.empty((len(coefficients), n_columns), dtype=parts[0].dtype)
    coefficients = coefficients.astype(out.dtype)
    room = np.empty((coefficients.shape[1], PANEL), dtype=np.result_type(*parts))
    product = np.empty((len(out), PANEL), dtype=np.result_type(coefficients, room))
    # `2 m r d` flops for r rows in all; beside the result only a panel of S is copied, never S.
    for panel in panels(n_columns, *(part.T for part in parts)):
        stacked = np.concatenate([part[:, panel] for part in parts], out=room_for(panel, room))
        out[:, panel] = np.matmul(coefficients, stacked, out=room_for(panel, product))
    return out


def inner_products(parts: Sequence[FloatArray], product: FloatArray) -> NDArray[np.float64]:
    """Return ``S' P`` for ``S`` the columns of all parts side by side, in double precision.

    Shapes: `parts` (d, r_i), `product` (d, m); returns (sum r_i, m).
    """
    total = np.zeros((sum(part.shape[1] for part in parts), product.shape[1]))
    for panel in panels(len(product), product, *parts):
        _add_inner(total, parts, panel, product[panel])
    return total


def take_out(product: FloatArray, basis: Sequence[FloatArray]) -> list[NDArray[np.float64]]:
    """Subtract from the columns of a matrix what lies in an orthonormal basis, twice, in place.

    Shapes: `product` (d, m), `basis` (d, r_i); returns (r_i, m).

    Once is not enough for orthogonality to rounding. What the second round takes out belongs to the coefficients as
    well: only with it are product and coefficients together what was given. ``8 d m`` flops for each column of the
    basis; the second round is begun while a panel of the first is in the cache.

    >>> tall = np.array([[3.0], [4.0]])
    >>> take_out(tall, [np.array([[1.0], [0.0]])])
    [array([[3.]])]
    >>> tall
    array([[0.],
           [4.]])
    """
    widths = [part.shape[1] for part in basis]
    inside = np.empty((PANEL, product.shape[1]), dtype=product.dtype)
    first = inner_products(basis, product)
    second = np.zeros_like(first)
    # Invariant: panels before this one have lost the first coefficients, and `second` are those of what they have left.
    narrow = first.astype(product.dtype)
    for panel in panels(len(product), product, *basis):
        _subtract(product[panel], basis, panel, narrow, inside)
        _add_inner(second, basis, panel, product[panel])
    narrow = second.astype(product.dtype)
    for panel in panels(len(product), product, *basis):
        _subtract(product[panel], basis, panel, narrow, inside)
    return np.split(first + second, np.cumsum(widths)[:-1])


# Part by part: a product of all parts beside each other would need a copy of each panel, a third of the time of all.


def _add_inner(
    total: NDArray[np.float64], parts: Sequence[FloatArray], panel: slice, product: FloatArray
) -> None:
    """Add ``S' P`` of one panel to the total."""
    start = 0
    for part in parts:
        stop = start + part.shape[1]
        total[start:stop] += part[panel].T @ product
        start = stop


def _subtract(
    product: FloatArray, parts: Sequence[FloatArray], panel: slice, weights: FloatArray, room: FloatArray
) -> None:
    """Subtract ``S weights`` of one panel from it, in place."""
    start = 0
    for part in parts:
        stop = start + part.shape[1]
        product -= np.matmul(part[panel], weights[start:stop], out=room_for(panel, room))
        start = stop
