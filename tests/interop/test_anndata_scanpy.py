"""AnnData and scanpy: their programs on our stores, ours on their files and objects, results and pictures."""

import numpy as np
import pytest
from scipy import sparse

from dspectral import SketchedPCA, TruncatedSVD, Weighting, open_store, pp, write_counts
from dspectral.io import write_anndata, write_embedding
from tests.interop.rows import row
from tests.strategies import zipf_counts

ROWS = zipf_counts(240, 60, 3).astype(np.float32)
CSR = sparse.csr_matrix(ROWS)


@pytest.fixture
def store(tmp_path):
    return write_counts(ROWS, str(tmp_path / "store"), block_rows=70)


@pytest.fixture
def adata():
    from anndata import AnnData

    adata = AnnData(CSR, layers={"counts": 2 * CSR, "by column": sparse.csc_matrix(ROWS), "dense": ROWS.toarray()})
    adata.raw = AnnData(3 * CSR)
    return adata


@pytest.fixture(params=["h5ad", "zarr"])
def path(request, tmp_path, adata):
    path = str(tmp_path / f"cells.{request.param}")
    (adata.write_h5ad if request.param == "h5ad" else adata.write_zarr)(path)
    return path


def read(path):
    import anndata

    return anndata.read_h5ad(path) if path.endswith(".h5ad") else anndata.read_zarr(path)


def same_up_to_signs(a, b):
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return np.allclose(np.abs((a * b).sum(axis=0)), (b * b).sum(axis=0), rtol=1e-3)


def values_of(X):
    return TruncatedSVD(5).fit(X).singular_values_


VALUES = np.linalg.svd(ROWS.toarray().astype(float), compute_uv=False)[:5]


@row(
    "scanpy",
    "to",
    "`sc.pp.pca` on `store.to_anndata()`, also of tf-idf rows, lazily: those of `SketchedPCA`",
    packages="scanpy anndata dask",
)
def test_scanpy_finds_the_principal_components_of_a_store(store):
    import scanpy as sc

    adata = store.to_anndata()
    sc.pp.pca(adata, n_comps=4)
    actual = SketchedPCA(4).fit(store)
    # scanpy divides by the number of rows where it computes with Dask, and by one less elsewhere.
    assert np.allclose(adata.uns["pca"]["variance"] * 240 / 239, actual.explained_variance_, rtol=1e-3)
    assert same_up_to_signs(adata.varm["PCs"], actual.components_.T)
    weighted = store.to_anndata(weighting=Weighting.tfidf(store.document_frequency, 240))
    sc.pp.pca(weighted, n_comps=3)
    assert same_up_to_signs(weighted.varm["PCs"], SketchedPCA(3).fit(store.tfidf()).components_.T)


def check_pca(ours, theirs, *, key=None, ddof=1):
    """Hold what `pp.pca` wrote against what scanpy wrote."""
    facts, known = ours.uns[key or "pca"], theirs.uns[key or "pca"]
    # scanpy divides by the number of rows where it computes with Dask.
    np.testing.assert_allclose(facts["variance"], known["variance"] * 240 / (239 + ddof), rtol=1e-5)
    np.testing.assert_allclose(facts["variance_ratio"], known["variance_ratio"], rtol=1e-5)
    assert set(facts["params"]) == set(known["params"])
    for name, value in known["params"].items():
        np.testing.assert_array_equal(facts["params"][name], value)
    loadings, axes = np.asarray(ours.varm[key or "PCs"]), np.asarray(theirs.varm[key or "PCs"])
    signs = np.sign((loadings * axes).sum(axis=0))
    np.testing.assert_allclose(loadings * signs, axes, atol=1e-3)
    place = key or "X_pca"
    coordinates = np.asarray(theirs.obsm[place])
    np.testing.assert_allclose(np.asarray(ours.obsm[place]) * signs, coordinates, atol=1e-3 * coordinates.max())
    assert ours.obsm[place].dtype == coordinates.dtype


@row(
    "scanpy",
    "inside",
    "`dspectral.pp.pca` for `sc.pp.pca`: options, results and names, to 1e-5, in memory and `covariance_eigh` of Dask",
    packages="scanpy anndata dask",
)
def test_our_pca_stands_for_that_of_scanpy(adata):
    import dask.array as da
    import scanpy as sc

    chosen = np.arange(60) % 3 > 0
    adata.var["highly_variable"] = chosen
    for options in (
        {},
        {"n_comps": 8, "mask_var": None},
        {"n_comps": 8, "zero_center": False},  # of which scanpy's default is a few random products
        {"n_comps": 8, "layer": "counts", "key_added": "own"},
        {"n_comps": 8, "layer": "dense", "mask_var": ~chosen},
    ):
        actual, reference = (
            pp.pca(adata, **options, copy=True, svd_solver="arpack"),
            sc.pp.pca(adata, **options, copy=True, svd_solver="arpack"),
        )
        check_pca(actual, reference, key=options.get("key_added"))
    lazy = adata.copy()
    for kind in (sparse.csr_matrix, sparse.csr_array):
        lazy.X = da.from_array(kind(CSR), chunks=(70, 60), asarray=False)
        if kind is sparse.csr_matrix:  # scanpy takes no csr_array on Dask
            reference = sc.pp.pca(lazy, 8, svd_solver="covariance_eigh", copy=True)
        check_pca(pp.pca(lazy, 8, copy=True), reference, ddof=0)
    sc.pp.neighbors(actual)


@row(
    "scanpy",
    "inside",
    "`dspectral.pp.pca` on `read_h5ad(backed=...)`, which it writes back, a path, and `read_lazy`: scanpy's in memory",
    packages="scanpy anndata h5py zarr xarray",
)
def test_our_pca_of_cells_on_disk_is_that_of_scanpy_in_memory(adata, path):
    import anndata
    import scanpy as sc
    from anndata.experimental import read_lazy

    reference = sc.pp.pca(adata, 8, copy=True)
    pp.pca(path, 8)
    check_pca(read(path), reference)
    if path.endswith(".h5ad"):
        backed = anndata.read_h5ad(path, backed="r+")
        pp.pca(backed, 6)
        backed.file.close()
        check_pca(read(path), sc.pp.pca(adata, 6, copy=True))
    lazy = read_lazy(path)
    pp.pca(lazy, 8)
    check_pca(lazy, reference)


@row(
    "scanpy",
    "to",
    "`normalize_total`, `log1p` and `highly_variable_genes` on a store, lazily",
    packages="scanpy anndata dask",
)
def test_scanpy_normalizes_a_store(store):
    import scanpy as sc
    from anndata import AnnData

    lazy, near = store.to_anndata(), AnnData(CSR.copy())
    for adata in (lazy, near):
        sc.pp.normalize_total(adata, target_sum=100.0)
        sc.pp.log1p(adata)
        sc.pp.highly_variable_genes(adata, n_top_genes=10)
    assert np.allclose(lazy.X.compute().toarray(), near.X.toarray(), rtol=1e-4)
    assert lazy.var["highly_variable"].tolist() == near.var["highly_variable"].tolist()


@row(
    "AnnData read_lazy",
    "from",
    "estimators take `X`, layers and views of `anndata.experimental.read_lazy`",
    packages="anndata xarray h5py",
)
def test_a_matrix_that_anndata_reads_lazily_is_rows(path):
    from anndata.experimental import read_lazy

    lazy = read_lazy(path)
    assert np.allclose(values_of(lazy.X), VALUES, rtol=1e-4)
    assert np.allclose(values_of(lazy.layers["counts"]), 2 * VALUES, rtol=1e-4)
    assert np.allclose(values_of(lazy[20:200].X), values_of(ROWS[20:200]), rtol=1e-4)


@row(
    "AnnData",
    "to",
    "`anndata.read_h5ad` and `read_zarr` read what `write_anndata` wrote, block by block",
    packages="anndata h5py zarr",
)
@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_anndata_reads_a_store_that_was_written_for_it(kind, store, tmp_path):
    path = str(tmp_path / f"out.{kind}")
    write_anndata(store, path)
    assert np.array_equal(read(path).X.toarray(), ROWS.toarray())


@row("AnnData", "to", "`read_elem` reads a single block of a store as stored", packages="anndata zarr")
def test_anndata_reads_a_block_of_a_store(store):
    import anndata
    import zarr

    group = zarr.open_group(store.location.url, mode="r")[store.blocks[1].name]
    assert np.array_equal(anndata.io.read_elem(group).toarray(), ROWS[70:140].toarray())


def neighbors_of(adata, key):
    import scanpy as sc

    sc.pp.neighbors(adata, n_neighbors=10, use_rep=key)
    return adata.obsp["connectivities"]


def check_neighbors(adata, coordinates):
    import anndata

    plain = anndata.AnnData(np.zeros((240, 1)), obsm={"X_own": np.asarray(coordinates)})
    assert (abs(neighbors_of(adata, "X_svd") - neighbors_of(plain, "X_own")) > 1e-6).nnz == 0
    assert adata.varm["svd"].shape == (60, 5)
    assert np.allclose(adata.uns["svd"]["singular_values"], VALUES, rtol=1e-4)
    assert adata.uns["svd"]["certificate"]["relative"] < 1
    assert adata.uns["svd"]["n_passes"] >= 1


@row(
    "scanpy",
    "to",
    "`write_embedding` into .h5ad and .zarr in place: `obsm`, `varm`, `uns`; `neighbors` on it",
    packages="scanpy anndata h5py zarr",
)
def test_scanpy_works_on_results_in_a_file(path):
    rows = open_store(path)
    model = TruncatedSVD(5).fit(rows)
    coordinates = model.transform(rows)
    write_embedding(path, model, coordinates)
    check_neighbors(read(path), coordinates.compute())


@row("scanpy", "inside", "`pp.pca` of a matrix: what `return_info` returns")
def test_a_matrix_returns_what_scanpy_returns():
    import scanpy as sc

    for X in (ROWS.toarray(), CSR):
        actual, reference = (pca(X, 4, return_info=True) for pca in (pp.pca, sc.pp.pca))
        signs = np.sign((actual[1] * reference[1]).sum(axis=1))
        np.testing.assert_allclose(actual[0] * signs, reference[0], atol=1e-3)
        np.testing.assert_allclose(actual[1] * signs[:, None], reference[1], atol=1e-4)
        for mine, known in zip(actual[2:], reference[2:], strict=True):
            np.testing.assert_allclose(mine, known, rtol=1e-4)
