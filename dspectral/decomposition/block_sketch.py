"""Leading directions of one block: exactly through a Gram matrix, or by block Krylov iteration."""

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dspectral.decomposition.centered_gram import CenteredGram
from dspectral.decomposition.shrinking import Sketched, shrink_gram, shrink_stack, shrink_values
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import gram_of
from dspectral.linalg.dense import column_norms, eigh_descending, rounding_floor
from dspectral.linalg.gram_of_eight import EIGHT
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.panels import panels
from dspectral.types import CSRRows, FloatArray, IntArray, Rows, is_sparse

OVERSAMPLING = 20
BLOCKS = 4
"""Each product takes a fourth of the capacity at once."""
PROBES = EIGHT
PROBE_STEPS = 9
FAILURE = 1e-8
"""Probability, block by block, that the measured bound is below the truth."""


def sketch_large_sparse(
    rows: CSRRows,
    capacity: int,
    *,
    mean: NDArray[np.float64] | None = None,
    seed: int = 0,
    n_steps: int = 4,
) -> Sketched:
    """Sketch a sparse block both of whose sides are large, by block Krylov iteration.

    Parameters
    ----------
    rows : csr_array, shape (n, d)
        Block A.
    capacity : int
        Largest number of rows of the sketch.
    mean : ndarray of float64, shape (d,), optional
        Column means to subtract.
    seed : int, default=0
        Seed of the random start.
    n_steps : int, default=4
        Number of products with ``A'A``, each of ``(capacity + OVERSAMPLING) / BLOCKS`` columns.

    Returns
    -------
    Sketched
        Sketch whose bound on the error holds with probability ``1 - FAILURE``.

    Notes
    -----
    With c the columns that occur: about ``5 nnz capacity`` flops in sparse products and ``12 c capacity^2`` in
    dense ones. Beside the block: ``1.4 c capacity`` numbers of basis, or the sketch and a fourth of that.
    """
    gram = CenteredGram(rows, mean)
    width = math.ceil((capacity + OVERSAMPLING) / BLOCKS)
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
    return Sketched(sketch, largest_eigenvalue_bound(gram, sketch, seed) + 2.0 * floor)


def largest_eigenvalue_bound(gram: CenteredGram, sketch: FloatArray, seed: int) -> float:
    """Bound the largest eigenvalue of ``A'A - B'B`` from above, by Lanczos from several random starts.

    Parameters
    ----------
    gram : CenteredGram
        Operator ``A'A`` on c columns.
    sketch : ndarray, shape (m, d)
        Sketch B, zero outside the c columns.
    seed : int
        Seed of the random starts.

    Returns
    -------
    float
        Bound that holds with probability ``1 - FAILURE``, at least 0.

    Notes
    -----
    After q steps from one random start in c dimensions the largest Ritz value is below ``1 - e`` of the
    eigenvalue with probability at most ``1.648 sqrt(c) exp(-sqrt(e) (2q - 1))`` (Kuczynski and Wozniakowski
    1992, theorem 4.2). Several starts fail together only with the product of their probabilities.
    """
    n_columns = len(gram.columns)
    for_one = FAILURE ** (1.0 / PROBES)
    # Solve 1.648 sqrt(c) exp(-sqrt(e) (2q - 1)) = FAILURE^(1/PROBES) for sqrt(e).
    root = math.log(1.648 * math.sqrt(n_columns) / for_one) / (2 * PROBE_STEPS - 1)
    # A random stream of its own: probes that are drawn like the start of the sketch would not be independent of the
    # error that they measure.
    q = (
        np.random.default_rng([seed, 1])
        .standard_normal((n_columns, PROBES), dtype=np.float32)
        .astype(sketch.dtype)
    )
    q /= column_norms(q)
    before = np.zeros_like(q)
    # Invariant: column j of q is the newest Lanczos vector of start j, `diagonals` and `off_diagonals` its tridiagonal
    # matrix so far: M q_t = beta_t q_(t-1) + alpha_t q_t + beta_(t+1) q_(t+1) with M = A'A - B'B. All starts share the
    # products: 4 nnz PROBES flops a step, and no vectors are kept to be orthogonalized against.
    diagonals, off_diagonals = [], [np.zeros(PROBES)]
    for _ in range(PROBE_STEPS):
        # Sums over many rows in single precision would hide what the same sums have cost the sketch.
        product = gram.summed_in_double(q) - before * off_diagonals[-1]
        subtract_gram_times(sketch, q, gram.columns, product)
        diagonals.append(np.einsum("ij,ij->j", q, product, dtype=np.float64))
        product -= q * diagonals[-1]
        off_diagonals.append(column_norms(product))
        # A start whose Krylov space is exhausted leaves a zero vector: the floor makes its next vectors zero and not
        # NaN.
        scale = np.maximum(off_diagonals[-1], np.finfo(q.dtype).tiny)
        before, q = q, (product / scale).astype(q.dtype)
    # The first off-diagonal is that of the missing vector before the start, and the last belongs to a step that is not
    # taken. A Ritz value is at most the eigenvalue and, but for the failure, at least `1 - e` of it.
    ritz = [
        scipy.linalg.eigvalsh_tridiagonal(d, e).max()
        for d, e in zip(np.array(diagonals).T, np.array(off_diagonals[1:-1]).T, strict=True)
    ]
    return max(0.0, float(max(ritz))) / (1.0 - root * root)


def subtract_gram_times(sketch: FloatArray, q: FloatArray, columns: IntArray, target: FloatArray) -> None:
    """Subtract ``B'B q`` from ``target`` in place, both on some of B's columns.

    Parameters
    ----------
    sketch : ndarray, shape (m, d)
        Sketch B.
    q : ndarray, shape (c, r)
        Vectors to multiply.
    columns : ndarray of int, shape (c,)
        Numbers of the columns of B that q and ``target`` stand for.
    target : ndarray, shape (c, r)
        Matrix that is changed.
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

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
        Block of float32 or float64. A sparse block is never made dense.
    capacity : int
        Largest number of rows of the sketch.
    mean : ndarray of float64, shape (d,), optional
        Column means of the block, to be subtracted from each row.
    seed : int, default=0
        Seed of the random start for large sparse blocks.

    Returns
    -------
    Sketched
        Sketch of the rows, centered where a mean is given.

    Examples
    --------
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
