"""Dense random rows: nothing but noise, or few directions and noise."""

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import DTypeLike, NDArray

from dspectral.datasets.random_blocks import checked_seed, random_rows
from dspectral.engine import blas_in_one_thread
from dspectral.inputs.parameters import RandomState
from dspectral.types import FloatArray


def gaussian_rows(
    n_rows: int,
    n_columns: int,
    *,
    block_rows: int = 4096,
    dtype: DTypeLike = np.float64,
    seed: RandomState = 0,
) -> da.Array:
    """Draw independent standard normal numbers: the flattest spectrum, hence the hardest case for a sketch.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the array.
    block_rows : int, default=4096
        Number of rows of a block. Other blocks give other rows.
    dtype : dtype, default=float64
        Type of the numbers, float32 or float64.
    seed : int, RandomState, Generator or None, default=0
        Block i is drawn by a generator keyed by the seed and i; None draws a new seed.

    Returns
    -------
    Dask array, shape (n_rows, n_columns)
        Drawn block by block when it is computed, the same under every scheduler.

    Examples
    --------
    >>> gaussian_rows(10, 3, block_rows=4).chunks
    ((4, 4, 2), (3,))
    """
    draw = partial(_draw_gaussian, n_columns=n_columns, dtype=np.dtype(dtype))
    return random_rows(
        draw,
        n_rows=n_rows,
        n_columns=n_columns,
        block_rows=block_rows,
        seed=checked_seed(seed),
        meta=np.empty((0, 0), dtype=dtype),
        name="gaussian-rows",
    )


def low_rank_rows(
    n_rows: int,
    n_columns: int,
    n_components: int,
    *,
    noise: float = 0.1,
    block_rows: int = 4096,
    dtype: DTypeLike = np.float64,
    seed: RandomState = 0,
) -> da.Array:
    """Draw rows near a subspace: ``S D U + noise * N``, the test matrices of Liberty (2013, section 4).

    S and N are standard normal, D falls linearly from 1 to ``1 / n_components``, rows of U are orthonormal.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the array.
    n_components : int
        Number of dimensions of the subspace, at most ``n_columns``.
    noise : float, default=0.1
        Standard deviation of the noise in each entry.
    block_rows : int, default=4096
        Number of rows of a block. Other blocks give other rows.
    dtype : dtype, default=float64
        Type of the numbers, float32 or float64.
    seed : int, RandomState, Generator or None, default=0
        Block i is drawn by a generator keyed by the seed and i; None draws a new seed.

    Returns
    -------
    Dask array, shape (n_rows, n_columns)
        Drawn block by block when it is computed, the same under every scheduler.

    References
    ----------
    E. Liberty, "Simple and deterministic matrix sketching", KDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> X = low_rank_rows(100, 20, 3, noise=0.0, block_rows=50)
    >>> int(np.linalg.matrix_rank(X.compute()))
    3
    """
    seed = checked_seed(seed)  # once: the axes and the blocks are of the same draw
    axes = low_rank_axes(n_columns, n_components, seed=seed)
    if noise < 0:
        raise ValueError(f"noise is {noise}, but is a standard deviation, at least 0")
    # D is put into the axes once, and not into the signal of each block.
    scaled = np.linspace(1.0, 1.0 / n_components, n_components)[:, None] * axes
    return random_rows(
        partial(_draw_low_rank, scaled=scaled.astype(dtype), noise=noise),
        n_rows=n_rows,
        n_columns=n_columns,
        block_rows=block_rows,
        seed=seed,
        meta=np.empty((0, 0), dtype=dtype),
        name="low-rank-rows",
    )


def low_rank_axes(n_columns: int, n_components: int, *, seed: RandomState = 0) -> NDArray[np.float64]:
    """Return U of :func:`low_rank_rows`: its true principal axes.

    Parameters
    ----------
    n_columns : int
        Number of columns of the rows.
    n_components : int
        Number of dimensions of the subspace, at most ``n_columns``.
    seed : int, RandomState, Generator or None, default=0
        Seed that :func:`low_rank_rows` is given; None draws a new one.

    Returns
    -------
    ndarray of float64, shape (n_components, n_columns)
        Orthonormal rows.
    """
    if not 1 <= n_components <= n_columns:
        raise ValueError(f"n_components is {n_components}, but must be from 1 to n_columns, {n_columns}")
    # The Q factor of a Gaussian matrix spans a uniformly random subspace.
    generator = np.random.default_rng(checked_seed(seed))
    with blas_in_one_thread():
        return np.linalg.qr(generator.standard_normal((n_columns, n_components)))[0].T


def _draw_gaussian(
    generator: np.random.Generator, n_rows: int, *, n_columns: int, dtype: np.dtype[Any]
) -> FloatArray:
    return generator.standard_normal((n_rows, n_columns), dtype=dtype)


def _draw_low_rank(
    generator: np.random.Generator, n_rows: int, *, scaled: FloatArray, noise: float
) -> FloatArray:
    n_components, n_columns = scaled.shape
    signal = generator.standard_normal((n_rows, n_components), dtype=scaled.dtype)
    with blas_in_one_thread():
        rows = signal @ scaled
    # Signal is drawn before noise, and another order would give other rows for the same seed. The factor has the type
    # of the rows, so that float32 stays float32.
    rows += scaled.dtype.type(noise) * generator.standard_normal((n_rows, n_columns), dtype=scaled.dtype)
    return rows
