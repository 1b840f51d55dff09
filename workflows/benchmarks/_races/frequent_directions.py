"""Frequent Directions: a sketch of few rows in one pass, against the algorithm as it is printed."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

import dspectral

from .race import Contender, Found, Race, Settings


def make(folder: Path, s: Settings) -> str:
    """Write counts of planted topics."""
    counts = dspectral.datasets.low_rank_counts(
        s["rows"], s["columns"], s["sketch"], row_length=s["row_length"], seed=s["seed"]
    )
    store = dspectral.write_counts(counts, str(folder / "counts.zarr"))
    sparse.save_npz(folder / "counts.npz", sparse.csr_matrix(store.counts.compute()), compressed=False)
    return f"{s['rows']:,} x {s['columns']:,}, {store.nnz:,} entries, a sketch of {s['sketch']} rows"


def accuracy(folder: Path, s: Settings, found: Found) -> dict[str, float]:
    """Return the spectral norm of ``A'A - B'B`` over the energy of A."""
    matrix, sketch = sparse.load_npz(folder / "counts.npz").astype(np.float64), found["sketch"]

    def difference(x: np.ndarray) -> np.ndarray:
        return np.asarray(matrix.T @ (matrix @ x) - sketch.T @ (sketch @ x))

    gap = LinearOperator((matrix.shape[1],) * 2, matvec=difference, dtype=np.float64)
    start = np.random.default_rng(s["seed"]).standard_normal(matrix.shape[1])
    largest = eigsh(gap, k=1, which="LM", tol=1e-3, v0=start, return_eigenvectors=False)
    return {"error_over_energy": float(abs(largest[0])) / float(np.sum(matrix.data**2))}


def ours(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Sketch the store block by block, with its certificate."""
    store = library.open_store(str(folder / "counts.zarr"))
    model = library.TruncatedSVD(s["sketch"], solver="frequent_directions", sketch_size=s["sketch"])

    def run() -> Found:
        model.fit(store)
        return {"sketch": model.singular_values_[:, None] * model.components_}

    return run


def printed(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Fill a buffer of twice as many rows, halve it by an SVD, and go on (Ghashami et al. 2016, algorithm 3)."""
    rows, l = sparse.load_npz(folder / "counts.npz"), s["sketch"]

    def run() -> Found:
        buffer = np.zeros((0, rows.shape[1]), dtype=np.float32)
        for start in range(0, rows.shape[0], l):
            buffer = np.vstack([buffer, rows[start : start + l].toarray()])
            if len(buffer) > l:
                _, values, axes = library.svd(buffer, full_matrices=False)
                kept = np.sqrt(np.maximum(values[:l] ** 2 - values[l] ** 2, 0.0))
                buffer = kept[:, None] * axes[:l]
        return {"sketch": buffer}

    return run


RACE = Race(
    "Sketch a sparse matrix in one pass by Frequent Directions.",
    {
        "toy": {"rows": 300, "columns": 200, "row_length": 20, "sketch": 10},
        "small": {"rows": 4_000, "columns": 3_000, "row_length": 50, "sketch": 30},
        "middle": {"rows": 10_000, "columns": 5_000, "row_length": 80, "sketch": 50},
        "full": {"rows": 200_000, "columns": 50_000, "row_length": 100, "sketch": 200},
    },
    make,
    {
        "dspectral": Contender("dspectral", ours),
        "the algorithm as printed, in NumPy": Contender("numpy.linalg", printed),
    },
    accuracy,
)
