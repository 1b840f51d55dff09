"""Files of anndata 0.6, which name no encodings, and matrices that are stored by columns."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import zarr
from scipy import sparse

from dspectral import open_store, pp
from dspectral.io import write_embedding
from dspectral.store import StoreError
from dspectral.store.anndata import open_anndata
from dspectral.store.location import Location
from tests.strategies import zipf_counts

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Writing zarr v2 data:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* was written with:PendingDeprecationWarning"),
]
CELLS = zipf_counts(70, 30, 4).astype(np.float32)
MASK = np.arange(30) % 4 > 0
DENSE, CSR, CSC = CELLS.toarray(), sparse.csr_matrix(CELLS), sparse.csc_matrix(CELLS)


def put(group, name, X):
    """Write a matrix as h5sparse did."""
    if isinstance(X, np.ndarray):
        group[name] = X
        return
    place = group.create_group(name)
    place.attrs["h5sparse_format"], place.attrs["h5sparse_shape"] = X.format, np.array(X.shape)
    for part in ("data", "indices", "indptr"):
        place[part] = getattr(X, part)


def table(names, **columns):
    """Return a table with an index, as anndata 0.6 wrote obs and var."""
    fields = [("index", "S8"), *((name, values.dtype, values.shape[1:]) for name, values in columns.items())]
    found = np.zeros(len(names), dtype=fields)
    found["index"] = names
    for name, values in columns.items():
        found[name] = values
    return found


def old_file(path, X, raw=None):
    with h5py.File(path, "w") as file:
        put(file, "X", X)
        file["obs"] = table([f"cell{i}" for i in range(70)], depth=np.arange(70))
        file["var"] = table([f"gene{i}" for i in range(30)], highly_variable=MASK)
        before = np.arange(140.0).reshape(70, 2)
        file["obsm"] = np.zeros(70, dtype=[("X_before", "f8", 2)])
        obsm = file["obsm"][:]
        obsm["X_before"] = before
        del file["obsm"]
        file["obsm"] = obsm
        if raw is not None:
            put(file, "raw.X", raw)
            file["raw.var"] = table([f"gene{i}" for i in range(raw.shape[1])])
    return str(path)


@pytest.mark.parametrize("X", [DENSE, CSR, CSC], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize("layer", [None, "raw"])
def test_files_of_anndata_06_are_read_and_take_results(X, layer, tmp_path):
    path = old_file(tmp_path / "old.h5ad", X, raw=2 * X)
    pp.pca(path, 4, layer=layer)
    expected = anndata.AnnData(CSR * (1 if layer is None else 2), var={"highly_variable": MASK})
    pp.pca(expected, 4)
    back = anndata.read_h5ad(path)
    np.testing.assert_allclose(back.obsm["X_pca"], expected.obsm["X_pca"], atol=1e-4)
    np.testing.assert_allclose(back.varm["PCs"], expected.varm["PCs"], atol=1e-5)
    np.testing.assert_array_equal(back.obsm["X_before"], np.arange(140.0).reshape(70, 2))
    assert back.uns["pca"]["params"]["mask_var"] == "highly_variable"
    assert back.obs["depth"].tolist() == list(range(70))


def test_old_files_are_stores_and_take_embeddings(tmp_path):
    path = old_file(tmp_path / "old.h5ad", CSR)
    store = open_store(path)
    np.testing.assert_array_equal(store.counts.compute().toarray(), DENSE)
    assert store.column_sums.tolist() == DENSE.sum(axis=0).tolist()
    model = pp.SketchedPCA(3).fit(store)
    write_embedding(path, model, model.transform(store))
    assert anndata.read_h5ad(path).obsm["X_pca"].shape == (70, 3)


def test_folders_of_zarr_without_encodings_are_stores(tmp_path):
    anndata.AnnData(CSR).write_zarr(tmp_path / "cells.zarr")
    root = zarr.open_group(tmp_path / "cells.zarr", use_consolidated=False)
    for group in (root, root["X"]):
        attributes = group.attrs.asdict()
        attributes.pop("encoding-type")
        group.attrs.put(attributes)
    root["X"].attrs["h5sparse_format"] = "csr"
    np.testing.assert_array_equal(open_store(str(tmp_path / "cells.zarr")).counts.compute().toarray(), DENSE)


@pytest.fixture(params=["h5ad", "zarr"])
def by_column(request, tmp_path):
    path, adata = tmp_path / f"cells.{request.param}", anndata.AnnData(CSC, layers={"twice": 2 * CSC})
    adata.write_h5ad(path) if request.param == "h5ad" else adata.write_zarr(path)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("run", [1, 7, 1 << 20])
def test_rows_of_a_matrix_by_columns_are_read_in_blocks(by_column, run, monkeypatch):
    monkeypatch.setattr("dspectral.store.anndata.CSC_READ_ENTRIES", run)
    store = open_store(by_column, layer="twice")
    assert (store.shape, store.nnz, store.n_blocks) == ((70, 30), CSC.nnz, 1)
    block = store.counts.compute()
    np.testing.assert_array_equal(block.toarray(), 2 * DENSE)
    assert (block.has_sorted_indices, block.dtype) == (True, np.float32)
    assert store.energy == 4 * (DENSE**2).sum()
    with pytest.warns(UserWarning, match=r"X of .*cells.*\d+ blocks"):
        cut = open_anndata(Location(by_column), 500)
    assert max(piece.last - piece.first for piece in cut.slices) <= max(500 // 8, np.diff(CSR.indptr).max())
    np.testing.assert_array_equal(cut.counts.compute().toarray(), DENSE)
    np.testing.assert_array_equal(cut[[3, 60]].counts.compute().toarray(), DENSE[[3, 60]])


def test_components_of_a_matrix_by_columns_are_those_by_rows(by_column):
    pp.pca(by_column, 4)
    adata = anndata.read_h5ad(by_column) if by_column.endswith("h5ad") else anndata.read_zarr(by_column)
    np.testing.assert_array_equal(adata.obsm["X_pca"], pp.pca(CSR, 4))


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_backed_matrix_by_columns_is_read_where_it_lies(mode, tmp_path):
    anndata.AnnData(CSC).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed=mode)
    pp.pca(backed, 4)
    np.testing.assert_array_equal(backed.obsm["X_pca"], pp.pca(CSR, 4))
    backed.file.close()
    assert ("X_pca" in anndata.read_h5ad(tmp_path / "cells.h5ad").obsm) == (mode == "r+")


def test_a_damaged_matrix_by_columns_is_named(tmp_path):
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(CSC).write_h5ad(path)
    store = open_store(str(path))
    with h5py.File(path, "r+") as file:
        file["X/indices"][5] = (file["X/indices"][5] + 1) % 70 if CSC.nnz else 0
        file["X/indices"][6] = 71
    with pytest.raises(StoreError, match=r"X of .*indices.*70"):
        open_store(str(path))
    with pytest.raises(StoreError, match="rows 0 to 70"):
        store.counts.compute()
    with h5py.File(path, "r+") as file:
        file["X/indptr"][3] = 10**6
    with pytest.raises(StoreError, match=r"indptr.*31 entries"):
        open_store(str(path))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix])
def test_integers_that_single_precision_does_not_hold_are_refused(kind, tmp_path):
    path = tmp_path / "cells.h5ad"
    for largest, fits in ((2**24, True), (2**24 + 2, True), (2**24 + 1, False), (2**53 + 1, False)):
        X = np.array([[largest, 0], [3, 1]], dtype=np.int64)
        anndata.AnnData(kind(X)).write_h5ad(path)
        if fits:
            np.testing.assert_array_equal(open_store(str(path)).counts.compute().toarray(), X)
        else:
            with pytest.raises(StoreError, match=f"rows 0 to 2: {largest} .*exact"):
                open_store(str(path)).counts.compute()
        anndata.AnnData(X).write_h5ad(path)  # dense matrices keep their type
        pp.pca(path, 1)


CAPPED = """
import resource, sys
import dspectral.pp
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dspectral.store.anndata.COLUMN_BLOCK_BYTES = 2 << 20
dspectral.pp.pca(sys.argv[1], 4)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_a_matrix_by_columns_is_never_whole_in_memory(tmp_path):
    rng = np.random.default_rng(3)
    X = sparse.random_array((60_000, 400), density=0.4, format="csc", rng=rng, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.AnnData(sparse.csc_matrix(X)).write_h5ad(tmp_path / "cells.h5ad")
    call = [sys.executable, "-W", "ignore", "-c", CAPPED, str(tmp_path / "cells.h5ad")]
    grown = int(subprocess.run(call, check=True, capture_output=True, text=True).stdout) * 1024
    assert X.nnz * 8 > 70e6
    assert grown < X.nnz * 8
