"""Principal components of AnnData by scanpy's names, held against NumPy; tests/interop holds them against scanpy."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dspectral import pp, write_counts
from dspectral.store import StoreError
from tests.strategies import zipf_counts

anndata = pytest.importorskip("anndata")
pytest.importorskip("h5py")
pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2 data:UserWarning")
ROWS = sparse.csr_matrix(zipf_counts(90, 40, 9).astype(np.float32))
CHOSEN = np.arange(40) % 2 == 0


def made(**options):
    adata = anndata.AnnData(ROWS.copy(), layers={"counts": 2 * ROWS}, **options)
    adata.var["highly_variable"] = CHOSEN
    return adata


def check(found, *, mask=None, center=True, factor=1, key=None):
    """Hold what was written against the singular value decomposition of the dense rows."""
    k = found.obsm[key or "X_pca"].shape[1]
    mask = np.ones(40, dtype=bool) if mask is None else mask
    rows = factor * ROWS.toarray()[:, mask].astype(float)
    total = rows.var(axis=0, ddof=int(center)).sum()
    axes = np.linalg.svd(rows - rows.mean(axis=0) * center, full_matrices=False)[2]
    coordinates = (rows - rows.mean(axis=0) * center) @ axes[:k].T
    facts, loadings = found.uns[key or "pca"], np.asarray(found.varm[key or "PCs"])
    variance = coordinates.var(axis=0, ddof=int(center))
    np.testing.assert_allclose(facts["variance"], variance, rtol=1e-5)
    np.testing.assert_allclose(facts["variance_ratio"], variance / total, rtol=1e-5)
    assert not loadings[~mask].any()
    signs = np.sign((loadings[mask] * axes[:k].T).sum(axis=0))
    np.testing.assert_allclose(loadings[mask] * signs, axes[:k].T, atol=1e-4)
    np.testing.assert_allclose(found.obsm[key or "X_pca"] * signs, coordinates, atol=1e-3)
    assert found.obsm[key or "X_pca"].dtype == np.float32
    assert facts["certificate"]["relative"] < 1e-5
    assert facts["n_passes"] == facts["plan"]["n_passes"] == 1
    assert bool(facts["params"]["zero_center"]) is center


def test_results_are_where_scanpy_keeps_them_and_zero_outside_the_mask():
    adata = made()
    assert pp.pca(adata, 5) is None
    check(adata, mask=CHOSEN)
    params = adata.uns["pca"]["params"]
    assert (params["use_highly_variable"], params["mask_var"]) == (True, "highly_variable")
    pp.pca(adata, 5, mask_var=None, layer="counts", key_added="all")
    check(adata, factor=2, key="all")
    assert (adata.uns["all"]["params"]["layer"], "mask_var" in adata.uns["all"]["params"]) == (
        "counts",
        False,
    )
    check(pp.pca(adata, 4, mask_var=~CHOSEN, zero_center=False, copy=True), mask=~CHOSEN, center=False)
    check(adata, mask=CHOSEN)
    check(
        pp.pca(adata, 5, use_highly_variable=True, svd_solver="arpack", chunked=True, copy=True), mask=CHOSEN
    )
    wide = pp.pca(adata, 5, use_highly_variable=False, dtype=np.float64, key_added="wide", copy=True)
    assert wide.varm["wide"].all()
    assert wide.obsm["wide"].dtype == np.float64


def test_fifty_components_are_found_or_one_less_than_there_can_be():
    adata = made()
    pp.pca(adata)
    assert adata.obsm["X_pca"].shape == (90, 19)
    assert pp.pca(np.random.default_rng(0).standard_normal((60, 55))).shape == (60, 50)


def lazily(kind):
    def block(block_info):
        return kind(ROWS[slice(*block_info[None]["array-location"][0])])

    return da.map_blocks(
        block, chunks=((30, 60), (40,)), dtype=ROWS.dtype, meta=kind((0, 0), dtype=ROWS.dtype)
    )


@pytest.mark.parametrize(
    "X",
    [
        ROWS.toarray(),
        sparse.csr_array(ROWS),
        ROWS.tocsc(),
        ROWS.astype(np.int64),
        lazily(sparse.csr_matrix),
        lazily(sparse.csr_array),
        da.from_array(ROWS.toarray(), chunks=(40, 40)),
    ],
    ids=["dense", "csr_array", "csc", "whole", "Dask csr_matrix", "Dask csr_array", "Dask dense"],
)
def test_every_kind_of_matrix_has_the_same_components(X):
    adata = made()
    adata.X = X
    pp.pca(adata, 5)
    check(adata, mask=CHOSEN)
    coordinates = pp.pca(X, 5, mask_var=CHOSEN)
    assert isinstance(coordinates, da.Array) == isinstance(X, da.Array)
    np.testing.assert_array_equal(coordinates, adata.obsm["X_pca"])


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
@pytest.mark.parametrize("is_dense", [False, True])
def test_results_go_into_the_file_of_a_path(kind, is_dense, tmp_path):
    path, adata = tmp_path / f"cells.{kind}", made()
    if is_dense:
        adata.X, adata.layers["counts"] = ROWS.toarray(), 2 * ROWS.toarray()
    adata.write_h5ad(path) if kind == "h5ad" else adata.write_zarr(path)
    assert pp.pca(path, 5) is None
    pp.pca(str(path), 5, layer="counts", mask_var=CHOSEN, key_added="twice")
    back = anndata.read_h5ad(path) if kind == "h5ad" else anndata.read_zarr(path)
    check(back, mask=CHOSEN)
    check(back, mask=CHOSEN, factor=2, key="twice")


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("is_dense", [False, True])
def test_results_go_into_a_backed_file_that_is_open_for_writing(mode, is_dense, tmp_path):
    adata = made()
    adata.X = ROWS.toarray() if is_dense else ROWS
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed=mode)
    pp.pca(backed, 5)
    check(backed, mask=CHOSEN)
    for options, given in (({}, backed[:50]), ({"copy": True}, backed)):
        with pytest.raises(ValueError, match="backed by a file, and copies and views of it take no results"):
            pp.pca(given, 5, **options)
    backed.file.close()
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert ("X_pca" in back.obsm) == (mode == "r+")
    if mode == "r+":
        check(back, mask=CHOSEN)
        np.testing.assert_array_equal(back.X.toarray() if not is_dense else back.X, ROWS.toarray())


def test_a_store_becomes_an_anndata_with_its_components(tmp_path):
    store = write_counts(ROWS, str(tmp_path / "store"), block_rows=20)
    for found in (pp.pca(store, 5), pp.pca(tmp_path / "store", 5)):
        check(found)
        assert isinstance(found.X, da.Array)


def test_more_variables_than_a_gram_matrix_takes_are_found_in_passes(monkeypatch):
    monkeypatch.setattr("dspectral.pp.GRAM_COLUMNS", 30)
    monkeypatch.setattr("dspectral.decomposition.spectrum.GRAM_COLUMNS", 30)
    adata = anndata.AnnData(lazily(sparse.csr_matrix))
    pp.pca(adata, 5)
    assert adata.uns["pca"]["plan"] == {"solver": "krylov", "n_passes": 11, "n_blocks": 2}
    values = np.linalg.svd(ROWS.toarray() - ROWS.toarray().mean(axis=0), compute_uv=False)[:5]
    np.testing.assert_allclose(adata.uns["pca"]["singular_values"], values, rtol=1e-5)
    pp.pca(adata, 5, tol=0.01)
    assert adata.uns["pca"]["certificate"]["lost"] <= 0.01
    assert adata.uns["pca"]["n_passes"] < 11


@pytest.mark.parametrize(
    ("data", "options", "error", "said"),
    [
        (made, {"mask_var": "none"}, ValueError, "mask_var is 'none', but var has no column of this name"),
        (
            made,
            {"mask_var": CHOSEN[:9]},
            ValueError,
            "takes 5 of 9 variables, but must take one or more of 40",
        ),
        (made, {"mask_var": CHOSEN & False}, ValueError, "takes 0 of 40 variables"),
        (
            made,
            {"mask_var": np.arange(40)},
            ValueError,
            r"mask_var has the values \[0 1 2\] ..., but they must",
        ),
        (made, {"mask_var": CHOSEN.astype(str)}, ValueError, "mask_var has the values .*'False'"),
        (made, {"svd_solver": "lapack"}, ValueError, "svd_solver is 'lapack', but it must be one of None"),
        (made, {"mask_var": None, "use_highly_variable": True}, ValueError, "are both given"),
        (made, {"n_comps": 21}, ValueError, "n_components is 21, but X has only 20 column"),
        (ROWS.copy, {"mask_var": "a"}, ValueError, "mask_var is 'a', but a matrix has no var"),
        (ROWS.copy, {"layer": "a"}, ValueError, "layer and copy are for an AnnData"),
        (lambda: "none.h5ad", {"copy": True}, ValueError, "copy is True, but none.h5ad is a file"),
        (lambda: "none.h5ad", {}, StoreError, "no AnnData file at .*none.h5ad"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(data, options, error, said):
    with pytest.raises(error, match=said):
        pp.pca(data(), **options)
