"""Products of a sparse block that is not very sparse: tile by tile made dense, and multiplied by BLAS.

Of counts of contexts, the rows of frequent words hold most columns. A multiplication costs BLAS a fifth of what it
costs a loop over entries: from :data:`DENSE_SHARE` on it is quicker to multiply the zeros too.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.types import CSRRows, FloatArray, IntArray

DENSE_SHARE = 0.25
"""Share of entries that are stored from which a block is multiplied in dense tiles."""
TILE_ROWS = 512
TILE_BYTES = 4 << 20


def is_filled(A: CSRRows) -> bool:
    """Report whether products with a block are quicker in dense tiles.

    Shapes: `A` (n, d).
    """
    # Measured at 153 columns: 39 ns a stored entry in loops; in tiles 50, 24 and 10 at a share of .17, .4 and 1.
    return bool(A.nnz >= DENSE_SHARE * A.shape[0] * A.shape[1] > 0)


def add_gram_times(A: CSRRows, Z: FloatArray, out: FloatArray) -> None:
    """Add ``A' (A Z)`` to ``out``.

    Shapes: `A` (n, d), `Z` (d, r), `out` (d, r).

    ``4 n d r`` flops by BLAS, and each tile is made twice. Memory: a tile of 4 MiB, and 512 rows of ``A Z``.

    >>> from scipy import sparse
    >>> out = np.zeros((2, 1))
    >>> add_gram_times(sparse.csr_array([[0.0, 2.0], [1.0, 3.0]]), np.ones((2, 1)), out)
    >>> out
    array([[ 4.],
           [16.]])
    """
    for start in range(0, A.shape[0], TILE_ROWS):
        stop = min(start + TILE_ROWS, A.shape[0])
        product = np.zeros((stop - start, Z.shape[1]), dtype=Z.dtype)
        for columns, tile in _tiles(A, start, stop, Z.dtype):
            product += tile @ Z[columns]
        for columns, tile in _tiles(A, start, stop, Z.dtype):
            out[columns] += tile.T @ product


def _tiles(
    A: CSRRows, start: int, stop: int, dtype: np.dtype[np.floating[Any]]
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield some rows in tiles, from the first column to the last, in memory that the next one overwrites."""
    n_rows, n_columns = stop - start, max(1, TILE_BYTES // (TILE_ROWS * dtype.itemsize))
    data, indices = read_only(A.data), read_only(A.indices)
    # Invariant: entries of row i before `places[i - start]` are in tiles that were yielded.
    places, ends = A.indptr[start:stop].astype(np.int64), A.indptr[start + 1 : stop + 1].astype(np.int64)
    room = np.empty(n_rows * n_columns, dtype=dtype)
    for first in range(0, A.shape[1], n_columns):
        columns = slice(first, min(first + n_columns, A.shape[1]))
        tile = room[: n_rows * (columns.stop - first)].reshape(n_rows, -1)
        _fill(data, indices, places, ends, first, tile)
        yield columns, tile


@compiled
def _fill(
    data: NDArray[np.generic],
    indices: IntArray,
    places: NDArray[np.int64],
    ends: NDArray[np.int64],
    first: int,
    tile: FloatArray,
) -> None:
    """Write the entries of the columns from ``first`` on, and zeros between them: one store for each number."""
    number = tile.dtype.type
    tile[:] = 0
    last = first + tile.shape[1]
    for i in range(places.size):
        place = places[i]
        while place < ends[i] and indices[place] < last:
            tile[i, indices[place] - first] = number(data[place])
            place += 1
        places[i] = place
