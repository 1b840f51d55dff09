"""Race from raw counts of cells in a file to principal components: the chain that scanpy users run."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

from .racing import Contender, Found, Race, Settings

MAX_VALUE = 10
"""Largest scaled value."""
TARGET_SUM = 1e4
"""Sum of a cell."""
BLOCK_ROWS = 1000
"""Cells that are drawn at once."""
N_GROUPS = 12
"""Groups of cells, each with genes of its own."""
DISPERSION = 2.0
"""Shape of the gamma distribution of the rate of a gene."""


def make_counts(folder: Path, s: Settings) -> str:
    """Write drawn counts of cells, block by block, as an AnnData file without compression.

    An entry is not zero with the probability of a negative binomial distribution, and then 1 plus such a number.
    """
    import anndata  # noqa: PLC0415
    import h5py  # noqa: PLC0415

    rng, shape = np.random.default_rng(s["seed"]), (s["rows"], s["columns"])
    rates = rng.gamma(0.4, 1.0, s["columns"]) * np.exp(
        2 * rng.standard_normal((N_GROUPS, s["columns"])) * (rng.random((N_GROUPS, s["columns"])) < 0.05)
    )
    scales = np.geomspace(1e-4, 1e4, 400)
    rates *= scales[np.searchsorted([_share_above_zero(by * rates).mean() for by in scales], s["filled"])]
    groups, depths = rng.integers(0, N_GROUPS, s["rows"]), rng.gamma(5.0, 0.2, s["rows"])
    path = folder / "cells.h5ad"
    anndata.AnnData(obs={"group": groups.astype(str)}, shape=shape).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        matrix = file.create_group("X")
        matrix.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape})
        options = {"shape": (0,), "maxshape": (None,), "chunks": (1 << 18,)}
        data = matrix.create_dataset("data", dtype=np.float32, **options)
        indices = matrix.create_dataset("indices", dtype=np.int32, **options)
        lengths = []
        for start in range(0, s["rows"], BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            mean = (rates[groups[rows]] * depths[rows, None]).astype(np.float32)
            cells, genes = np.nonzero(rng.random(mean.shape, dtype=np.float32) < _share_above_zero(mean))
            values = 1 + rng.poisson(mean[cells, genes] * rng.gamma(DISPERSION, 1 / DISPERSION, len(cells)))
            lengths.append(np.bincount(cells, minlength=len(mean)))
            for array, new in ((data, values), (indices, genes)):
                array.resize((len(array) + len(new),))
                array[len(array) - len(new) :] = new
        matrix["indptr"] = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        nnz = len(data)
    return f"{s['rows']:,} x {s['columns']:,}, {nnz:,} entries, file of {path.stat().st_size / 1e9:.2f} GB"


def _share_above_zero(mean: np.ndarray) -> np.ndarray:
    return 1 - (1 + mean / DISPERSION) ** -DISPERSION


def measured(chain: Callable[[], tuple[Any, Any]]) -> Found:
    """Run a chain that returns variances and the mask of genes, and count the bytes that the process reads."""
    before = _bytes_read()
    variance, selected = chain()
    n_bytes = _bytes_read() - before
    return {"variance": np.asarray(variance), "genes": np.flatnonzero(selected), "bytes_read": np.array(n_bytes)}


def _bytes_read() -> int:
    status = Path("/proc/self/io")
    return int(status.read_text().split()[1]) if status.exists() else 0


def by_dspectral(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Record the steps in the file, and compute the components from it."""
    import anndata  # noqa: PLC0415

    path, n_passes = str(folder / "cells.h5ad"), 0

    class Counter(library.engine.Callback):  # type: ignore[name-defined,misc]
        def on_pass_started(self, _event: Any) -> None:
            nonlocal n_passes
            n_passes += 1

    def chain() -> tuple[Any, Any]:
        library.pp.normalize_total(path, target_sum=TARGET_SUM)
        library.pp.log1p(path)
        library.pp.highly_variable_genes(path, n_top_genes=s["genes"])
        library.pp.scale(path, max_value=MAX_VALUE)
        library.pp.pca(path, n_comps=s["k"])
        result = anndata.read_h5ad(path, backed="r")
        return result.uns["pca"]["variance"], result.var["highly_variable"]

    def run() -> Found:
        with Counter():
            return {**measured(chain), "passes": np.array(n_passes)}

    return run


def by_scanpy(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Found]:
    """Read the file and run the chain in memory, scaling the variable genes only."""

    def chain() -> tuple[Any, Any]:
        adata = library.read_h5ad(folder / "cells.h5ad")
        library.pp.normalize_total(adata, target_sum=TARGET_SUM)
        library.pp.log1p(adata)
        library.pp.highly_variable_genes(adata, n_top_genes=s["genes"])
        selected = adata.var["highly_variable"].to_numpy()
        adata = adata[:, selected].copy()
        library.pp.scale(adata, max_value=MAX_VALUE)
        library.pp.pca(adata, n_comps=s["k"])
        return adata.uns["pca"]["variance"], selected

    return partial(measured, chain)


def by_crest(library: ModuleType, folder: Path, s: Settings, *, parquet: bool = False) -> Callable[[], Found]:
    """Run the chain on the file in memory, or on its copy in Parquet, which is written before."""
    path, copy = folder / "cells.h5ad", folder / "cells.parquet"
    if parquet and not copy.exists():
        library.read_h5ad(path).write_parquet(copy)

    def chain() -> tuple[Any, Any]:
        cells = library.read_parquet(copy) if parquet else library.read_h5ad(path)
        cells = library.pp.log1p(library.pp.normalize_total(cells, target_sum=TARGET_SUM))
        cells = library.pp.highly_variable_genes(cells, n_top_genes=s["genes"])
        cells = library.tl.pca(library.pp.scale(cells, max_value=MAX_VALUE), n_comps=s["k"])
        adata = cells.to_anndata()
        return adata.uns["pca"]["variance"], adata.var["highly_variable"].to_numpy(bool)

    return partial(measured, chain)


def check_components(folder: Path, s: Settings, found: Found) -> dict[str, float]:
    """Return the largest relative error of a singular value, and how many genes are not those of who ended first."""
    genes = found["genes"]
    first, truth = folder / "genes.npy", folder / f"truth-{hash(genes.tobytes())}.npy"
    if not first.exists():
        np.save(first, genes)
    if not truth.exists():
        np.save(truth, _variances(folder, genes, s["k"]))
    off = np.sqrt(found["variance"] / np.load(truth)) - 1.0
    return {
        "values_off": float(np.abs(off).max()),
        "genes_differing": float(len(np.setdiff1d(genes, np.load(first)))),
        "readings_of_file": float(found["bytes_read"]) / (folder / "cells.h5ad").stat().st_size,
        **{name: float(found[name]) for name in found if name == "passes"},
    }


def _variances(folder: Path, genes: np.ndarray, k: int) -> np.ndarray:
    """Return the variances of the components of some genes, in double precision and two passes."""
    n, total, squares = 0, 0.0, 0.0
    for rows in _logarithms(folder, genes):
        n, total, squares = n + len(rows), total + rows.sum(axis=0), squares + (rows**2).sum(axis=0)
    mean = total / n
    std = np.sqrt((squares - n * mean**2) / (n - 1))
    gram, total = np.zeros(2 * (len(genes),)), np.zeros(len(genes))
    for rows in _logarithms(folder, genes):
        scaled = np.clip((rows - mean) / std, -MAX_VALUE, MAX_VALUE)
        gram += scaled.T @ scaled
        total += scaled.sum(axis=0)
    return np.asarray(np.linalg.eigvalsh(gram - np.outer(total, total) / n)[: -k - 1 : -1] / (n - 1))


def _logarithms(folder: Path, genes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the logarithms of normalized counts of some genes, dense, in blocks of cells."""
    import anndata  # noqa: PLC0415

    X: Any = anndata.read_h5ad(folder / "cells.h5ad", backed="r").X
    for start in range(0, X.shape[0], BLOCK_ROWS):
        rows = sparse.csr_matrix(X[start : start + BLOCK_ROWS]).astype(np.float64)
        sums = rows.sum(axis=1).A1
        rows.data *= np.repeat(TARGET_SUM / np.where(sums == 0, 1, sums), np.diff(rows.indptr))
        yield np.log1p(rows[:, genes].toarray())


CHAIN = Race(
    "From raw counts in a file to principal components: sums of cells, logarithm, variable genes, scale, PCA.",
    {
        "toy": {"rows": 400, "columns": 90, "filled": 0.3, "genes": 30, "k": 5},
        "small": {"rows": 2_000, "columns": 30_000, "filled": 0.17, "genes": 2_000, "k": 50},
        "middle": {"rows": 20_000, "columns": 30_000, "filled": 0.17, "genes": 2_000, "k": 50},
        "full": {"rows": 200_000, "columns": 30_000, "filled": 0.17, "genes": 2_000, "k": 50},
    },
    make_counts,
    {
        "dspectral, file": Contender("dspectral", by_dspectral),
        "scanpy": Contender("scanpy", by_scanpy),
        "CREST": Contender("crest", by_crest),
        "CREST, Parquet": Contender("crest", partial(by_crest, parquet=True)),
    },
    check_components,
)
