"""Counts on disk: writing a matrix, and reading all of it again, beside BPCells, a bit-packed format made for that."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

import dspectral

from .race import Contender, Found, Race, Settings

BLOCK_ROWS = 8_192
"""Rows that are written, or read, at a time."""


def make(folder: Path, s: Settings) -> str:
    """Write counts of planted topics for those who hold them."""
    topics = min(50, s["columns"])
    counts = dspectral.datasets.low_rank_counts(s["rows"], s["columns"], topics, seed=s["seed"])
    matrix = sparse.csr_matrix(counts.compute())
    sparse.save_npz(folder / "counts.npz", matrix, compressed=False)
    return f"{s['rows']:,} x {s['columns']:,}, {matrix.nnz:,} entries"


def accuracy(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return the bytes of an entry on disk, and how far the sum of all that was read is from the truth."""
    matrix = sparse.load_npz(folder / "counts.npz")
    wrong = abs(float(matrix.sum(dtype=np.float64)) - float(found["total"]))
    return {"bytes_per_entry": float(found["size"]) / matrix.nnz, "sum_differs_by": wrong}


def _write_ours(library: ModuleType, matrix: Any, place: str) -> Any:
    return library.write_counts(matrix, place, block_rows=BLOCK_ROWS)


def _read_ours(_library: ModuleType, store: Any) -> float:
    return sum(float(store.counts.blocks[i].compute().data.sum()) for i in range(store.n_blocks))


def _write_bpcells(library: ModuleType, matrix: Any, place: str) -> Any:
    return library.DirMatrix.from_scipy_sparse(matrix.astype(np.uint32), place)


def _read_bpcells(_library: ModuleType, store: Any) -> float:
    starts = range(0, store.shape[0], BLOCK_ROWS)
    return sum(float(store[start : start + BLOCK_ROWS, :].data.sum()) for start in starts)


def written(library: ModuleType, folder: Path, _s: Settings, *, write: Any, read: Any) -> Callable[[], Any]:
    """Write a matrix that is in memory; reading it is for the score alone."""
    matrix, place = sparse.load_npz(folder / "counts.npz"), str(Path(tempfile.mkdtemp(dir=folder), "counts"))

    def run() -> Any:
        return place, partial(read, library, write(library, matrix, place))

    return run


def read_again(library: ModuleType, folder: Path, s: Settings, *, write: Any, read: Any) -> Callable[[], Any]:
    """Read a matrix that was written before."""
    place, reading = written(library, folder, s, write=write, read=read)()

    def run() -> Any:
        total = reading()
        return place, lambda: total

    return run


def sizes_and_sums(found: tuple[str, Callable[[], float]]) -> Found:
    """Return the bytes on disk, and the sum of all entries."""
    place, read = found
    size = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
    return {"size": np.array(size), "total": np.array(read())}


def _contenders(prepare: Callable[..., Any]) -> dict[str, Contender]:
    libraries = {
        "dspectral": ("dspectral", _write_ours, _read_ours),
        "BPCells": ("bpcells.experimental", _write_bpcells, _read_bpcells),
    }
    return {
        name: Contender(module, partial(prepare, write=write, read=read), sizes_and_sums)
        for name, (module, write, read) in libraries.items()
    }


SIZES = {
    "toy": {"rows": 300, "columns": 200},
    "small": {"rows": 20_000, "columns": 10_000},
    "middle": {"rows": 200_000, "columns": 50_000},
    "full": {"rows": 1_000_000, "columns": 100_000},
}
WRITE = Race("Write sparse counts to disk, compressed.", SIZES, make, _contenders(written), accuracy)
READ = Race("Read all of the counts from disk, in pieces.", SIZES, make, _contenders(read_again), accuracy)
