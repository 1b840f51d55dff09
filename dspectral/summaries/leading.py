"""One block of rows to a sketch: exactly where a Gram matrix is small, else by a short Krylov iteration."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.kernels import sparse_products
from dspectral.kernels.linalg import eigh_descending
from dspectral.summaries.block_krylov import sketch_large_sparse
from dspectral.summaries.moments import gram_of
from dspectral.summaries.shrinking import Sketched, shrink_gram, shrink_stack, shrink_values
from dspectral.types import FloatArray, Rows

EXACT_SIDE = 1024
"""Side up to which a Gram matrix is decomposed exactly (twice the capacity, if that is more)."""

STEPS = (4, 6, 8)
"""Of the iteration; more, where the energy that it lost does not pay for the error that it leaves."""


def sketch_block(
    rows: Rows, capacity: int, *, mean: NDArray[np.float64] | None = None, seed: int = 0
) -> Sketched:
    """Sketch one block of rows.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
        Of float32 or float64. A sparse block is never made dense.
    capacity : int
        Rows of the sketch at most.
    mean : ndarray of float64, shape (d,), optional
        The block's column means, to be subtracted from each row.
    seed : int
        Of the random start for large sparse blocks.

    Returns
    -------
    Sketched
        Of the centred rows, where a mean is given.

    Examples
    --------
    >>> sketch_block(np.diag([3.0, 2.0, 1.0]), 2)
    Sketched(rows=array([[2.82842712, 0.        , 0.        ],
           [0.        , 1.73205081, 0.        ]]), error=1.000...)
    """
    n_rows, n_columns = rows.shape
    exact_side = max(EXACT_SIDE, 2 * capacity)
    if sparse.issparse(rows):
        if n_columns <= exact_side:
            gram = gram_of(rows)
            if mean is not None:
                gram -= n_rows * np.outer(mean, mean)
            return shrink_gram(gram, capacity, rows.dtype, n_terms=n_rows)
        if n_rows <= exact_side:
            return _sketch_few_sparse_rows(rows, capacity, mean)
        for n_steps in STEPS:
            found = sketch_large_sparse(rows, capacity, mean=mean, seed=seed, n_steps=n_steps)
            if _keeps_the_bound(found, rows, capacity, mean):
                return found
        return _in_pieces(rows, capacity, mean)
    if mean is not None:
        rows = rows - mean.astype(rows.dtype)
    if n_columns <= exact_side:
        return shrink_gram(gram_of(rows), capacity, rows.dtype, n_terms=n_rows)
    return _in_dense_pieces(rows, capacity, exact_side)


def _in_dense_pieces(rows: FloatArray, capacity: int, step: int) -> Sketched:
    """Many rows to a shrink: quicker than few, and closer to the truth."""
    sketch, error = rows[:0], 0.0
    for start in range(0, len(rows), step):
        sketch, lost = shrink_stack([sketch, rows[start : start + step]], capacity)
        error += lost
    return Sketched(np.array(sketch), error)


def _keeps_the_bound(
    found: Sketched, rows: sparse.csr_array, capacity: int, mean: NDArray[np.float64] | None
) -> bool:
    """Whether the energy that was lost pays for the error, as the Frequent Directions bound needs."""
    energy = float(np.einsum("i,i->", rows.data, rows.data, dtype=np.float64))
    if mean is not None:
        energy -= rows.shape[0] * float(mean @ mean)
    kept = float(np.einsum("ij,ij->", found.rows, found.rows, dtype=np.float64))
    rounding = 64.0 * float(np.finfo(rows.dtype).eps) * energy
    return (capacity + 1) * found.error <= energy - kept + (capacity + 1) * rounding


def _in_pieces(rows: sparse.csr_array, capacity: int, mean: NDArray[np.float64] | None) -> Sketched:
    """Exactly, a few rows at a time: slow, for spectra that the iteration does not resolve."""
    step = max(EXACT_SIDE, 2 * capacity)
    sketch, error = np.zeros((0, rows.shape[1]), dtype=rows.dtype), 0.0
    for start in range(0, rows.shape[0], step):
        piece = _sketch_few_sparse_rows(rows[start : start + step], capacity, mean)
        sketch, lost = shrink_stack([sketch, piece.rows], capacity)
        error += lost + piece.error
    return Sketched(sketch, error)


def _sketch_few_sparse_rows(
    rows: sparse.csr_array, capacity: int, mean: NDArray[np.float64] | None
) -> Sketched:
    """Through the Gram matrix of the rows, centred by rank-one corrections."""
    gram = (rows.astype(np.float64) @ rows.T.astype(np.float64)).toarray()
    if mean is not None:
        against = rows @ mean
        gram += float(mean @ mean) - against[:, None] - against[None, :]
    values, vectors = eigh_descending(gram)
    kept, error = shrink_values(values, capacity, rows.dtype)
    weights = (vectors[:, : len(kept)] * np.sqrt(kept / values[: len(kept)])).astype(rows.dtype)
    sketch = np.ascontiguousarray(sparse_products.transpose_times(rows, weights).T)
    if mean is not None:
        sketch -= np.outer(weights.sum(axis=0), mean).astype(sketch.dtype)
    return Sketched(sketch, error)
