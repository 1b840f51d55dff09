"""Leading directions of one block: exactly through a Gram matrix, or by block Krylov iteration."""

import math

import numpy as np
from numpy.typing import NDArray

from dspectral.decomposition.centered_gram import CenteredGram
from dspectral.decomposition.lanczos_bound import largest_eigenvalue_bound
from dspectral.decomposition.row_space import sketch_in_row_space
from dspectral.decomposition.shrinking import Sketched, shrink_gram, shrink_stack, shrink_values
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import gram_of
from dspectral.linalg.dense import eigh_descending, rounding_floor
from dspectral.linalg.dense_tiles import is_filled
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.panels import panels
from dspectral.types import CSRRows, FloatArray, IntArray, Rows, is_sparse

OVERSAMPLING = 20
BLOCKS = 4
"""Each product takes a fourth of the capacity at once."""
NARROWER = 3
"""How many times as many columns as rows a block has whose basis is as long as the rows."""


def sketch_large_sparse(
    rows: CSRRows,
    capacity: int,
    *,
    mean: NDArray[np.float64] | None = None,
    seed: int = 0,
    n_steps: int = 4,
) -> Sketched:
    """Sketch a sparse block both of whose sides are large, by block Krylov iteration.

    Shapes: `rows` (n, d), `mean` (d,).

    With c the columns that occur: about ``5 nnz capacity`` flops in sparse products and ``12 c capacity^2`` in
    dense ones. Beside the block: ``1.4 c capacity`` numbers of basis, or the sketch and a fourth of that. A block of n
    rows of at least ``3 n`` columns is held by columns, too, and its basis has ``1.4 n capacity`` numbers: about
    ``7 nnz capacity`` flops in sparse products, ``12 n capacity^2`` in dense ones.
    """
    gram = CenteredGram(rows, mean)
    width = math.ceil((capacity + OVERSAMPLING) / BLOCKS)
    # What is made orthogonal is as long as the shorter side, and products read it at random. A block whose zeros are
    # few is multiplied by BLAS, from the side of its columns.
    if NARROWER * rows.shape[0] <= len(gram.columns) and not is_filled(gram.rows):
        return sketch_in_row_space(gram, rows.shape[1], capacity, width, seed=seed, n_steps=n_steps)
    space = KrylovSpace.start(gram.random_range(min(width, *gram.rows.shape), seed))
    for _ in range(n_steps - 1):
        space = space.extend(gram @ space.newest)
    best = space.close(gram @ space.newest)
    del space
    # Row i of the sketch has the squared length kept[i]; its direction is that of an eigenvector.
    kept, _ = shrink_values(best.values, capacity, rows.dtype)
    scale = np.sqrt(kept / best.values[: len(kept)])
    sketch = best.rows(scale, columns=gram.columns, n_columns=rows.shape[1], consume=True)
    floor = rounding_floor(best.values, rows.dtype)
    del best  # as large as the sketch

    def left(q: FloatArray, less: NDArray[np.float64]) -> NDArray[np.float64]:
        # (A'A - B'B) q. Sums over many rows in single precision would hide what the same sums have cost the sketch.
        product = gram.summed_in_double(q) - less
        subtract_gram_times(sketch, q, gram.columns, product)
        return product

    bound = largest_eigenvalue_bound(left, len(gram.columns), seed, sketch.dtype)
    return Sketched(sketch, bound + 2.0 * floor)


def subtract_gram_times(sketch: FloatArray, q: FloatArray, columns: IntArray, target: FloatArray) -> None:
    """Subtract ``B'B q`` from ``target`` in place, both on some of B's columns.

    Shapes: `sketch` (m, d), `q` (c, r), `columns` (c,), `target` (c, r).
    """
    inside = np.zeros((len(sketch), q.shape[1]))
    # Where all columns occur a slice of the sketch is a view; an array of column numbers would copy each panel.
    everything = len(columns) == sketch.shape[1]
    for panel in panels(len(columns)):
        inside += sketch[:, panel if everything else columns[panel]] @ q[panel]
    narrow = inside.astype(q.dtype)
    for panel in panels(len(columns)):
        target[panel] -= sketch[:, panel if everything else columns[panel]].T @ narrow


EXACT_SIDE = 1024
"""Side up to which a Gram matrix is decomposed exactly (twice the capacity, if that is more)."""

STEPS = (4, 6, 8)
"""Numbers of products to try in turn, until the energy lost pays for the error that is left."""


def sketch_block(
    rows: Rows, capacity: int, *, mean: NDArray[np.float64] | None = None, seed: int = 0
) -> Sketched:
    """Sketch one block of rows.

    Shapes: `rows` (n, d), `mean` (d,).

    >>> sketch_block(np.diag([3.0, 2.0, 1.0]), 2)
    Sketched(rows=array([[2.82842712, 0.        , 0.        ],
           [0.        , 1.73205081, 0.        ]]), error=1.000...)
    """
    # Whichever Gram matrix is small is decomposed exactly. Where both sides are large, a dense block is cut into pieces
    # of rows; a sparse one is iterated on, as long as its spectrum lets the iteration keep the deterministic bound.
    n_rows, n_columns = rows.shape
    exact_side = max(EXACT_SIDE, 2 * capacity)
    if is_sparse(rows):
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
    """Sketch a dense block piece by piece; many rows to a shrink are quicker than few, and closer to the truth."""
    # Invariant: `sketch` stands for `rows[:start]`, and `error` bounds the norm of what they have lost. The Gram matrix
    # of a shrink costs `2 (capacity + step)^2 d` flops. The copy at the end keeps the sketch of an empty block from
    # being a view of it.
    sketch, error = rows[:0], 0.0
    for start in range(0, len(rows), step):
        sketch, lost = shrink_stack([sketch, rows[start : start + step]], capacity)
        error += lost
    return Sketched(np.array(sketch), error)


def _keeps_the_bound(found: Sketched, rows: CSRRows, capacity: int, mean: NDArray[np.float64] | None) -> bool:
    """Report whether the energy lost pays for the error: ``(capacity + 1) error <= ||A||^2 - ||B||^2``."""
    # (l + 1) error <= ||A||^2 - ||B||^2 is all that the proof of the merge tree's bound uses.
    energy = float(np.einsum("i,i->", rows.data, rows.data, dtype=np.float64))
    if mean is not None:
        energy -= rows.shape[0] * float(mean @ mean)
    kept = float(np.einsum("ij,ij->", found.rows, found.rows, dtype=np.float64))
    rounding = 64.0 * float(np.finfo(rows.dtype).eps) * energy
    return (capacity + 1) * found.error <= energy - kept + (capacity + 1) * rounding


def _in_pieces(rows: CSRRows, capacity: int, mean: NDArray[np.float64] | None) -> Sketched:
    """Sketch a sparse block exactly, a few rows at a time: slow, for spectra that the iteration does not resolve."""
    step = max(EXACT_SIDE, 2 * capacity)
    sketch, error = np.zeros((0, rows.shape[1]), dtype=rows.dtype), 0.0
    for start in range(0, rows.shape[0], step):
        piece = _sketch_few_sparse_rows(rows[start : start + step], capacity, mean)
        sketch, lost = shrink_stack([sketch, piece.rows], capacity)
        error += lost + piece.error
    return Sketched(sketch, error)


def _sketch_few_sparse_rows(rows: CSRRows, capacity: int, mean: NDArray[np.float64] | None) -> Sketched:
    """Sketch a block through the Gram matrix of its rows, centered by rank-one corrections."""
    gram = (rows.astype(np.float64) @ rows.T.astype(np.float64)).toarray()
    if mean is not None:
        # `(A - 1 m')(A - 1 m')' = A A' - (A m) 1' - 1 (A m)' + (m'm) 1 1'`: the centered rows, which are dense, are
        # never made.
        against = rows @ mean
        gram += float(mean @ mean) - against[:, None] - against[None, :]
    values, vectors = eigh_descending(gram)
    kept, error = shrink_values(values, capacity, rows.dtype)
    weights = (vectors[:, : len(kept)] * np.sqrt(kept / values[: len(kept)])).astype(rows.dtype)
    sketch = np.ascontiguousarray(sparse_products.transpose_times(rows, weights).T)
    if mean is not None:
        sketch -= np.outer(weights.sum(axis=0), mean).astype(sketch.dtype)
    return Sketched(sketch, error)
