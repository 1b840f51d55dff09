"""Sums over the rows of one block: total, squared Frobenius norm ("energy") and Gram matrix."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.types import Doubles, FloatArray, Rows, is_sparse

PANEL_ENTRIES = 1 << 21
"""Entries of a panel of rows in double precision: 16 MiB."""


def sum_rows(rows: Rows) -> Doubles:
    """Return the sum of the rows in double precision. Shapes: `rows` (n, d); returns (d,)."""
    if is_sparse(rows):
        return sparse_products.column_sums(rows)
    return rows.sum(axis=0, dtype=np.float64)


def is_dense(rows: Rows) -> bool:
    """Return whether a block is dense, or sparse with so few zeros that products treat it as dense."""
    return not is_sparse(rows) or sparse_products.is_nearly_dense(rows)


def iter_dense_panels(
    rows: Rows, shift: FloatArray | float = 0.0, n_rows: int = 0, dtype: DTypeLike = np.float64
) -> Iterator[FloatArray]:
    """Yield consecutive rows (m, d) minus a shift (d,), at least `n_rows` at a time, as dense arrays of `dtype`."""
    step = max(n_rows, PANEL_ENTRIES // max(1, rows.shape[1]), 1)
    for start in range(0, rows.shape[0], step):
        stop = min(start + step, rows.shape[0])
        panel = sparse_products.slice_rows(rows, start, stop).toarray() if is_sparse(rows) else rows[start:stop]
        yield np.asarray(np.subtract(panel, shift, dtype=dtype))


def mean_row(rows: Rows) -> Doubles:
    """Return the mean of the rows of a block in double precision; exact for a constant dense column.

    Shapes: `rows` (n, d); returns (d,).

    >>> mean_row(np.full((3, 1), 0.1)) == 0.1
    array([ True])
    """
    if not rows.shape[0] or not is_dense(rows):
        return sum_rows(rows) / max(1, rows.shape[0])
    # Sum differences from the first row: sums of rows far from the origin would lose their last digits.
    first = next(iter_dense_panels(rows[:1]))[0]
    total = sum((panel.sum(axis=0) for panel in iter_dense_panels(rows, first)), np.zeros(rows.shape[1]))
    return first + total / rows.shape[0]


def mean_scatter(summaries: Sequence[Any], field: str = "total") -> Doubles:
    """Return ``sqrt(n_i) (mean_i - mean)``, shape (b, d), whose Gram matrix is the scatter of b block means."""
    sizes, totals = [part.n_rows for part in summaries], [getattr(part, field) for part in summaries]
    mean = np.add.reduce(totals) / sum(sizes)
    return np.stack([math.sqrt(n) * (total / n - mean) for n, total in zip(sizes, totals, strict=True)])


def compute_energy(rows: Rows) -> float:
    """Return the squared Frobenius norm of the rows in double precision. Shapes: `rows` (n, d)."""
    values = rows.data if is_sparse(rows) else np.ravel(rows)
    # einsum converts to double buffer by buffer: `values @ values` would sum float32 in single precision, and a
    # converted copy would be twice as large as the block.
    energy = float(np.einsum("i,i->", values, values, dtype=np.float64))
    if not math.isfinite(energy):
        check_finite_rows(rows)
        raise ValueError("the sum of squares of X overflows double precision: scale the rows down")
    return energy


def compute_centered_energy(rows: Rows, mean: Doubles) -> float:
    """Return the squared Frobenius norm of the centered rows in double precision. Shapes: `rows` (n, d)."""
    if is_dense(rows):
        return math.fsum(float(np.vdot(panel, panel)) for panel in iter_dense_panels(rows, mean))
    return float(max(0.0, compute_energy(rows) - rows.shape[0] * float(mean @ mean)))


def is_in_range(energy: float, dtype: DTypeLike) -> bool:
    """Return whether products of type `dtype` can represent rows of this squared Frobenius norm, or of norm 0."""
    float_info = np.finfo(np.dtype(dtype))
    return bool(not energy or 100.0 * float(float_info.tiny) <= energy <= float(float_info.max) / 100.0)


def check_range(energy: float, dtype: DTypeLike) -> None:
    """Raise ValueError if products of type `dtype` cannot represent rows of this squared Frobenius norm."""
    if not is_in_range(energy, dtype):
        raise ValueError(
            f"the squares of X sum to {energy:.3g}, outside the range of {np.dtype(dtype)} products: convert X to "
            "float64, or scale it"
        )


def check_finite_rows(rows: Rows) -> None:
    """Raise ValueError naming row and column of the first NaN or infinity. Shapes: `rows` (n, d)."""
    values = rows.data if is_sparse(rows) else np.ravel(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(np.sum(values, dtype=np.float64))):  # the usual case, without a Boolean array
            return
    # A finite sum proves that all entries are finite. The converse is false: large finite entries may overflow.
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{_name_entry(rows, int(bad[0]))}, but every entry must be finite: remove or replace it")


def check_indicator(rows: Rows) -> None:
    """Raise ValueError naming the first label that is neither 0 nor 1. Shapes: `rows` (n, n_classes)."""
    values = rows.data[: rows.indptr[-1]] if is_sparse(rows) else np.ravel(rows)
    wrong = values.dtype != bool and (values != 0) & (values != 1)
    if np.any(wrong):
        entry = int(np.argmax(wrong))
        raise ValueError(
            f"Unknown label type: {_name_entry(rows, entry)}, but an indicator matrix of labels may only hold 0 and 1: "
            "pass 1 where a document has the label, or a 1-D array with one label per document"
        )


def _name_entry(rows: Rows, entry: int) -> str:
    """Return "row i, column j is x" for an entry numbered in C order, or in storage order if sparse."""
    if is_sparse(rows):
        row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
        return f"row {row}, column {rows.indices[entry]} is {rows.data[entry]}"
    row, column = divmod(entry, rows.shape[1])
    return f"row {row}, column {column} is {rows[row, column]}"


def sum_dense_gram(rows: Rows, mean: Doubles | None) -> Doubles:
    """Return ``A'A`` of rows minus a mean (d,), converted to dense panel by panel. Shapes: returns (d, d)."""
    gram = np.zeros((rows.shape[1],) * 2)
    for panel in iter_dense_panels(rows, 0.0 if mean is None else mean):
        gram += panel.T @ panel
    return gram


def compute_gram(rows: Rows, mean: Doubles | None = None) -> Doubles:
    """Return ``A'A`` (d, d) in double precision, of the rows (n, d) minus a mean (d,) if given."""
    if is_dense(rows) or not is_sparse(rows):
        return sum_dense_gram(rows, mean)
    gram = sparse_products.gram(rows)
    return gram if mean is None else gram - rows.shape[0] * np.outer(mean, mean)


def to_float_rows(rows: Rows) -> Rows:
    """Return rows as float32 or float64; all other types are converted to float64.

    Shapes: `rows` (n, d); returns (n, d).

    >>> to_float_rows(np.array([[True, False]])) * 0.5
    array([[0.5, 0. ]])
    """
    if rows.dtype in (np.float32, np.float64):
        return rows
    if not is_sparse(rows):
        return rows.astype(np.float64)
    return sparse.csr_array((rows.data.astype(np.float64), rows.indices, rows.indptr), shape=rows.shape)


def multiply_each_row(rows: Rows, factors: Doubles) -> Rows:
    """Return each row times its factor (n,), in single precision for float32 rows, else in double."""
    # Factors take the precision of the rows, never their type: sqrt(1 - alpha) as an integer is 0 and loses every
    # document that has a class.
    rows = to_float_rows(rows)
    if not is_sparse(rows):
        return rows * factors.astype(rows.dtype)[:, None]
    data = rows.data * np.repeat(factors, np.diff(rows.indptr)).astype(rows.dtype)
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
