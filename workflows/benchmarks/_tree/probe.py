"""Seconds of a real summary and of a real merge, measured here at sizes that this machine holds, and a law for larger.

A row is that of a query: ``nonzeros`` words and word pairs whose columns are drawn from Zipf's law and then hashed.
A block's seconds are ``per_entry * entries + per_column * columns that occur``, for one number of sketch rows; those of
a merge and of the last solve are in proportion to all columns. What the law says of a block that it was not fitted to
is compared with the clock.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import nnls

from dspectral import open_store, write_counts
from dspectral.decomposition import FrequentDirections
from dspectral.engine import blas_in_one_thread
from dspectral.types import CSRRows, FloatArray

GRID = ((50_000, 1 << 16), (200_000, 1 << 16), (50_000, 1 << 17))
"""Rows and columns of the blocks that the law is fitted to."""
UNSEEN = (100_000, 1 << 18)
"""Rows and columns of the block that it is compared with."""
MERGED_COLUMNS = (1 << 14, 1 << 16)
"""Columns of the sketches whose merge and last solve are measured."""
HASH = 2654435761
"""Odd, so that multiplying by it moves columns without joining two of them where their number is a power of two."""


class Law(NamedTuple):
    """CPU seconds on this machine, for one number of sketch rows.

    `sketch_rows, nonzeros`: for which it holds; `per_entry, per_column`: of a block for each entry, and for
    each column that occurs in it; `read_per_entry, stored_per_entry`: of reading a block from a store, and
    bytes on disk; `merges`: of a merge of full sketches, by the number of sketches that it takes; `solve`: of
    the last solve, likewise; `off`: what the law says of a block that it was not fitted to, over the seconds
    measured, less 1.
    """

    sketch_rows: int
    nonzeros: int
    per_entry: float
    per_column: float
    read_per_entry: float
    stored_per_entry: float
    merges: dict[int, tuple[float, float]]
    solve: tuple[float, float]
    off: float

    def block_seconds(self, rows: float, columns: int) -> float:
        """Return the seconds of reading and summarizing a block of so many rows and columns."""
        entries = rows * self.nonzeros
        occurring = distinct(entries, columns)
        return (self.per_entry + self.read_per_entry) * entries + self.per_column * occurring

    def merge_seconds(self, columns: int, fan_in: int) -> float:
        """Return the seconds of a merge of so many sketches."""
        fixed, per_column = self.merges[fan_in]
        return fixed + per_column * columns

    def solve_seconds(self, columns: int) -> float:
        """Return the seconds of the last solve."""
        return self.solve[0] + self.solve[1] * columns


def distinct(entries: float, columns: int) -> float:
    """Return how many columns are expected to occur among so many entries.

    >>> round(distinct(1, 1000), 6), distinct(1e9, 1000)
    (1.0, 1000.0)
    """
    share = np.log1p(1.0 / np.arange(1, columns + 1)) / np.log(columns + 1)
    return float(-np.expm1(entries * np.log1p(-share)).sum())


def queries(n_rows: int, n_columns: int, nonzeros: int, seed: int) -> CSRRows:
    """Return rows of hashed counts, in single precision."""
    random = np.random.default_rng(seed)
    drawn = np.floor(np.exp(random.random(n_rows * nonzeros) * np.log(n_columns + 1))).astype(np.int64) - 1
    columns = np.minimum(drawn, n_columns - 1) * HASH % n_columns
    ends = np.arange(0, n_rows * nonzeros + 1, nonzeros)
    ones = np.ones(len(columns), dtype=np.float32)
    rows = sparse.csr_array((ones, columns.astype(np.int32), ends), shape=(n_rows, n_columns))
    rows.sum_duplicates()
    return rows


def probed(sketch_rows: int, fan_ins: Sequence[int], nonzeros: int, seed: int) -> Law:
    """Measure, and fit the law."""
    of = partial(FrequentDirections.of, size=sketch_rows)
    with blas_in_one_thread():
        of(queries(1000, 1 << 12, nonzeros, seed))  # compiled on the first call
        sizes = (*GRID, UNSEEN)
        measured = [seconds_of(partial(of, queries(*size, nonzeros, seed)), repeats=1) for size in sizes]
        pairs = [
            [of(queries(GRID[0][0], columns, nonzeros, seed + i)) for i in range(2)]
            for columns in MERGED_COLUMNS
        ]
        merges = {
            fan_in: line([partial(first.merge, *[second] * (fan_in - 1)) for first, second in pairs])
            for fan_in in fan_ins
        }
        solve = line([partial(solved, first.sketch, sketch_rows // 2) for first, _ in pairs])
    design = np.array([[rows * nonzeros, distinct(rows * nonzeros, columns)] for rows, columns in sizes])
    found, _ = nnls(design[:-1] / np.array(measured[:-1])[:, None], np.ones(len(GRID)))
    off = float(design[-1] @ found) / measured[-1] - 1.0
    read, stored = reading(nonzeros, seed)
    return Law(sketch_rows, nonzeros, float(found[0]), float(found[1]), read, stored, merges, solve, off)


def solved(sketch: FloatArray, n_components: int) -> FloatArray:
    """Solve for principal axes through the Gram matrix of the sketch's rows."""
    _, vectors = np.linalg.eigh(np.asarray(sketch @ sketch.T, dtype=np.float64))
    return np.asarray(vectors[:, -n_components:].T.astype(sketch.dtype) @ sketch)


def line(functions: Sequence[Callable[[], Any]]) -> tuple[float, float]:
    """Measure a call at each of ``MERGED_COLUMNS``; return the seconds for any columns, and for each column."""
    seconds = [seconds_of(function) for function in functions]
    design = np.array([[1.0, columns] for columns in MERGED_COLUMNS])
    (fixed, per_column), _ = nnls(design / np.array(seconds)[:, None], np.ones(len(seconds)))
    return float(fixed), float(per_column)


def reading(nonzeros: int, seed: int) -> tuple[float, float]:
    """Return CPU seconds and stored bytes for each entry of a block that is read from a store."""
    rows = queries(*GRID[0], nonzeros, seed)
    with tempfile.TemporaryDirectory(prefix="dspectral-") as folder:
        path = f"{folder}/queries.zarr"
        write_counts(rows, path, block_rows=rows.shape[0])
        store = open_store(path)
        seconds = seconds_of(lambda: store.counts.blocks[0].compute(scheduler="sync"))
        return seconds / store.nnz, bytes_below(path) / store.nnz


def bytes_below(folder: str) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def seconds_of(function: Callable[[], Any], repeats: int = 2) -> float:
    """Return CPU seconds of a call, the least of a few: what disturbs a call only adds."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)
