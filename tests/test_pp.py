"""Principal components of AnnData by scanpy's names, held against NumPy; tests/interop holds them against scanpy."""

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dspectral import engine, pp, write_counts
from dspectral.store import StoreError
from tests.strategies import zipf_counts

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2 data:UserWarning")
ROWS = sparse.csr_matrix(zipf_counts(90, 40, 9).astype(np.float32))
CHOSEN = np.arange(40) % 2 == 0


def made(**options):
    adata = anndata.AnnData(ROWS.copy(), layers={"counts": 2 * ROWS}, **options)
    adata.var["highly_variable"] = CHOSEN
    return adata


def read(path):
    return anndata.read_h5ad(path) if str(path).endswith("h5ad") else anndata.read_zarr(path)


def write(adata, path):
    adata.write_h5ad(path) if path.suffix == ".h5ad" else adata.write_zarr(path)
    return path


def check(result, *, mask=None, center=True, factor=1, key=None):
    """Hold what was written against the singular value decomposition of the dense rows."""
    k = result.obsm[key or "X_pca"].shape[1]
    mask = np.ones(40, dtype=bool) if mask is None else mask
    rows = factor * ROWS.toarray()[:, mask].astype(float)
    total = rows.var(axis=0, ddof=int(center)).sum()
    axes = np.linalg.svd(rows - rows.mean(axis=0) * center, full_matrices=False)[2]
    coordinates = (rows - rows.mean(axis=0) * center) @ axes[:k].T
    facts, loadings = result.uns[key or "pca"], np.asarray(result.varm[key or "PCs"])
    variance = coordinates.var(axis=0, ddof=int(center))
    np.testing.assert_allclose(facts["variance"], variance, rtol=1e-5)
    np.testing.assert_allclose(facts["variance_ratio"], variance / total, rtol=1e-5)
    assert not loadings[~mask].any()
    signs = np.sign((loadings[mask] * axes[:k].T).sum(axis=0))
    np.testing.assert_allclose(loadings[mask] * signs, axes[:k].T, atol=1e-4)
    np.testing.assert_allclose(result.obsm[key or "X_pca"] * signs, coordinates, atol=1e-3)
    assert result.obsm[key or "X_pca"].dtype == np.float32
    assert set(facts) == {"params", "variance", "variance_ratio"}
    assert set(facts["params"]) - {"layer"} == {"zero_center", "use_highly_variable", "mask_var"}
    assert bool(facts["params"]["zero_center"]) is center
    extra = result.uns["dspectral"][key or "pca"]
    assert extra["certificate"]["relative"] < 1e-5
    assert extra["n_passes"] == 1


def test_results_have_the_names_of_scanpy_and_zeros_outside_the_mask():
    adata = made()
    assert pp.pca(adata, 5) is None
    check(adata, mask=CHOSEN)
    params = adata.uns["pca"]["params"]
    assert (params["use_highly_variable"], params["mask_var"]) == (True, "highly_variable")
    pp.pca(adata, 5, mask_var=None, layer="counts", key_added="all")
    check(adata, factor=2, key="all")
    assert (adata.uns["all"]["params"]["layer"], adata.uns["all"]["params"]["mask_var"]) == ("counts", None)
    check(pp.pca(adata, 4, mask_var=~CHOSEN, zero_center=False, copy=True), mask=~CHOSEN, center=False)
    check(adata, mask=CHOSEN)
    check(pp.pca(adata, 5, use_highly_variable=True, svd_solver="arpack", chunked=True, copy=True), mask=CHOSEN)
    wide = pp.pca(adata, 5, use_highly_variable=False, dtype=np.float64, key_added="wide", copy=True)
    assert wide.varm["wide"].all()
    assert wide.obsm["wide"].dtype == np.float64


def test_n_comps_is_by_default_50_or_one_less_than_the_rank():
    adata = made()
    pp.pca(adata)
    assert adata.obsm["X_pca"].shape == (90, 19)
    assert pp.pca(np.random.default_rng(0).standard_normal((60, 55))).shape == (60, 50)


def lazily(kind):
    def block(block_info):
        return kind(ROWS[slice(*block_info[None]["array-location"][0])])

    return da.map_blocks(block, chunks=((30, 60), (40,)), dtype=ROWS.dtype, meta=kind((0, 0), dtype=ROWS.dtype))


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
        lazily(sparse.csr_matrix).rechunk((30, 10)),
        np.asfortranarray(ROWS.toarray().astype(np.float16)),
    ],
    ids=["dense", "csr_array", "csc", "whole", "Dask csr_matrix", "Dask csr_array", "Dask dense", "columns", "float16"],
)
@pytest.mark.filterwarnings("ignore:.*names are not unique:UserWarning")
def test_every_kind_of_matrix_has_the_same_components(X):
    adata = made()
    adata.X = X
    adata.var_names, adata.obs_names = ["same"] * 40, ["cell"] * 90  # names need not be unique
    pp.pca(adata, 5)
    check(adata, mask=CHOSEN)
    coordinates = pp.pca(X, 5, mask_var=CHOSEN)
    assert isinstance(coordinates, da.Array) == isinstance(X, da.Array)
    np.testing.assert_array_equal(coordinates, adata.obsm["X_pca"])


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
@pytest.mark.parametrize("is_dense", [False, True])
def test_path_takes_the_results(kind, is_dense, tmp_path):
    adata = made()
    if is_dense:
        adata.X, adata.layers["counts"] = ROWS.toarray(), 2 * ROWS.toarray()
    path = write(adata, tmp_path / f"cells.{kind}")
    assert pp.pca(path, 5) is None
    pp.pca(str(path), 5, layer="counts", mask_var=CHOSEN, key_added="twice")
    check(read(path), mask=CHOSEN)
    check(read(path), mask=CHOSEN, factor=2, key="twice")


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("is_dense", [False, True])
def test_backed_file_takes_the_results_if_open_for_writing(mode, is_dense, tmp_path):
    adata = made()
    adata.X = ROWS.toarray() if is_dense else ROWS
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed=mode)
    pp.pca(backed, 5)
    check(backed, mask=CHOSEN)
    for options, given in (({}, backed[:50]), ({"copy": True}, backed)):
        with pytest.raises(ValueError, match=r"backed.*copy"):
            pp.pca(given, 5, **options)
    backed.file.close()
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert ("X_pca" in back.obsm) == (mode == "r+")
    if mode == "r+":
        check(back, mask=CHOSEN)
        np.testing.assert_array_equal(back.X.toarray() if not is_dense else back.X, ROWS.toarray())


def test_store_becomes_an_anndata_with_its_components(tmp_path):
    store = write_counts(ROWS, str(tmp_path / "store"), block_rows=20)
    for result in (pp.pca(store, 5), pp.pca(tmp_path / "store", 5)):
        check(result)
        assert isinstance(result.X, da.Array)


@pytest.mark.usefixtures("_few_columns_are_many")
def test_many_variables_take_several_passes():
    adata = anndata.AnnData(lazily(sparse.csr_matrix))
    pp.pca(adata, 5)
    extra = adata.uns["dspectral"]["pca"]
    assert (extra["solver"], extra["n_passes"], extra["n_blocks"]) == ("krylov", 14, 2)
    values = np.linalg.svd(ROWS.toarray() - ROWS.toarray().mean(axis=0), compute_uv=False)[:5]
    np.testing.assert_allclose(extra["singular_values"], values, rtol=1e-5)
    pp.pca(adata, 5, tol=0.01)
    extra = adata.uns["dspectral"]["pca"]
    assert extra["certificate"]["lost"] <= 0.01
    assert extra["n_passes"] < 15


def collection():
    return anndata.experimental.AnnCollection([made(), made()], join_vars="inner", index_unique="-")


@pytest.mark.parametrize(
    ("data", "options", "named"),
    [
        (made, {"mask_var": "none"}, "'none'.*mask_var"),
        (made, {"mask_var": CHOSEN[:9]}, "5 of 9 variables.*40"),
        (made, {"mask_var": CHOSEN & False}, "0 of 40 variables"),
        (made, {"mask_var": np.arange(40)}, r"mask_var.*\[0 1 2\]"),
        (made, {"svd_solver": "lapack"}, "svd_solver.*'lapack'.*None"),
        (made, {"mask_var": None, "use_highly_variable": True}, "mask_var"),
        (made, {"n_comps": 21}, "n_comps=21 .* 1 to 20"),
        (made, {"n_comps": 0}, "n_comps=0 .* 1 to 20"),
        (made, {"layer": "cnt"}, "layer.*'cnt'.*'counts'"),
        (made, {"obsm": "a", "layer": "counts"}, "obsm='a'.*layer='counts'"),
        (made, {"obsm": "a", "mask_var": CHOSEN}, "obsm='a'.*mask_var"),
        (made, {"rng": 3, "random_state": 4}, "rng.*random_state"),
        (made, {"key_added": "a/b"}, "key_added.*'a/b'"),
        (ROWS.copy, {"mask_var": "a"}, "mask_var.*'a'"),
        (ROWS.copy, {"layer": "a"}, "layer.*copy"),
        (lambda: np.ones(9), {}, r"\(9,\)"),
        (lambda: "none.h5ad", {"copy": True}, "copy.*none.h5ad"),
        (lambda: "none.h5ad", {}, "none.h5ad"),
        (collection, {}, "AnnCollection"),
        (lambda: anndata.AnnData(shape=(9, 4), layers={"counts": np.ones((9, 4))}), {}, "no X.*'counts'"),
    ],
)
def test_pca_refuses_what_does_not_fit(data, options, named):
    with pytest.raises((ValueError, TypeError, StoreError), match=named):
        pp.pca(data(), **options)


def test_obsm_is_decomposed_with_all_of_its_columns():
    adata = made()
    adata.obsm["counts"] = ROWS[:, :12]
    pp.pca(adata, 4, obsm="counts", key_added="few")
    alone = pp.pca(anndata.AnnData(ROWS[:, :12]), 4, copy=True)
    np.testing.assert_array_equal(adata.obsm["few"], alone.obsm["X_pca"])
    np.testing.assert_array_equal(adata.uns["few"]["components"], alone.varm["PCs"])
    assert (adata.uns["few"]["params"]["obsm"], adata.uns["few"]["params"]["mask_var"]) == ("counts", None)
    assert "few" not in adata.varm


def test_return_info_returns_components_and_variances():
    adata = made()
    pp.pca(adata, 4, mask_var=None)
    for X in (ROWS, ROWS.toarray().tolist(), adata.to_df()):
        coordinates, components, ratios, variances = pp.pca(X, 4, return_info=True)
        np.testing.assert_allclose(components.T, adata.varm["PCs"], atol=1e-5)
        np.testing.assert_allclose(ratios, adata.uns["pca"]["variance_ratio"], rtol=1e-5)
        np.testing.assert_allclose(variances, adata.uns["pca"]["variance"], rtol=1e-5)
        np.testing.assert_allclose(coordinates, adata.obsm["X_pca"], atol=1e-4)
    assert pp.pca(adata, 4, return_info=True) is None


@pytest.fixture
def _few_columns_are_many(monkeypatch):
    monkeypatch.setattr("dspectral.pp.components.GRAM_COLUMNS", 30)
    monkeypatch.setattr("dspectral.decomposition.spectrum.GRAM_COLUMNS", 30)


@pytest.mark.usefixtures("_few_columns_are_many")
def test_rng_has_every_form_of_a_seed():
    X = lazily(sparse.csr_matrix)
    first = pp.pca(X, 3, rng=7).compute()
    for seed in (np.int64(7), np.random.default_rng(7), np.random.SeedSequence(7)):
        np.testing.assert_array_equal(pp.pca(X, 3, rng=seed), first)


@pytest.mark.parametrize(
    ("X", "centered", "solver", "is_ignored"),
    [
        (ROWS, True, "randomized", True),
        (ROWS, True, "covariance_eigh", False),
        (ROWS, False, "full", True),
        (ROWS.toarray(), True, "full", False),
        (lazily(sparse.csr_array), True, "auto", True),
    ],
)
def test_solvers_that_scanpy_ignores_are_warned_of(X, centered, solver, is_ignored):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        coordinates = pp.pca(X, 3, svd_solver=solver, zero_center=centered)
    assert [f"svd_solver={solver!r}" in str(warning.message) for warning in caught] == [True] * is_ignored
    np.testing.assert_array_equal(coordinates, pp.pca(X, 3, zero_center=centered or None))


def test_mask_has_no_missing_values(tmp_path):
    adata, path = made(), tmp_path / "cells.h5ad"
    masks = {"maybe": pd.array([None, *[True] * 39], dtype="boolean"), "none": pd.Categorical([None, *CHOSEN[1:]])}
    adata.var = adata.var.assign(**masks, known=pd.array(CHOSEN, dtype="boolean"), kinds=pd.Categorical(CHOSEN))
    adata.write_h5ad(path)
    for data, mask in ((adata, "maybe"), (adata, "none"), (path, "maybe"), (path, "none"), (ROWS, adata.var["maybe"])):
        with pytest.raises(ValueError, match="missing"):
            pp.pca(data, 3, mask_var=mask)
    expected = pp.pca(ROWS, 3, mask_var=CHOSEN)
    for mask in ("known", "kinds", CHOSEN.tolist(), adata.var["known"]):
        np.testing.assert_array_equal(pp.pca(adata, 3, mask_var=mask, copy=True).obsm["X_pca"], expected)
    pp.pca(path, 3, mask_var="kinds")
    np.testing.assert_allclose(read(path).obsm["X_pca"], expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_raw_is_a_layer_if_it_has_the_variables(kind, tmp_path, monkeypatch):
    adata = made()
    adata.raw = anndata.AnnData(3 * ROWS)
    path = write(adata, tmp_path / f"cells.{kind}")
    for data in (adata, path):
        pp.pca(data, 3, layer="raw")
        check(adata if data is adata else read(path), mask=CHOSEN, factor=3)
    few = adata[:, :25].copy()
    path = write(few, tmp_path / f"few.{kind}")
    monkeypatch.setattr("dspectral.pp.components.SketchedPCA.fit", None)  # all is refused before a fit
    for data in (few, path):
        with pytest.raises(ValueError, match=r"'raw'.*\(90, 40\).* 25 variables"):
            pp.pca(data, 3, layer="raw")


def test_files_that_are_not_writable_fail_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("dspectral.pp.components.SketchedPCA.fit", None)
    path = tmp_path / "cells.h5ad"
    made().write_h5ad(path)
    with h5py.File(path, "r"), pytest.raises(StoreError, match=r"cells\.h5ad"):
        pp.pca(path, 3)
    with pytest.raises(StoreError, match=r"missing.cells\.h5ad"):
        pp.pca(tmp_path / "missing" / "cells.h5ad", 3)
    made().write_zarr(tmp_path / "cells.zarr")

    async def refuse(self, key, value):
        raise PermissionError(13, "Permission denied", key)

    monkeypatch.setattr("dspectral.store.location.LocalFiles.set", refuse)
    with pytest.raises(PermissionError, match="obsm"):
        pp.pca(tmp_path / "cells.zarr", 3)


@pytest.mark.filterwarnings("ignore:Setting element:UserWarning")
def test_view_takes_results_as_a_copy_and_leaves_its_parent():
    adata = made()
    view, counts = adata[10:80], adata[10:60]
    pp.pca(view, 3)
    assert "pca" not in adata.uns
    np.testing.assert_array_equal(view.obsm["X_pca"], pp.pca(ROWS[10:80], 3, mask_var=CHOSEN))
    pp.normalize_total(counts, target_sum=50)
    pp.log1p(counts, base=2)
    np.testing.assert_allclose(counts.X.toarray(), preprocessed(ROWS.toarray())[10:60], rtol=1e-5)
    assert (adata.X != ROWS).nnz == 0


def scaled(X, *, zero_center, max_value):
    """The dense scaled matrix, by plain NumPy."""
    std = X.std(axis=0, ddof=1)
    shift = X.mean(axis=0) if zero_center else 0.0
    values = (X - shift) / np.where(std == 0, 1, std)
    return np.clip(values, -max_value if zero_center else None, max_value)


def preprocessed(X, target_sum=50.0, base=2.0):
    totals = X.sum(axis=1, keepdims=True)
    return np.log1p(X * target_sum / np.where(totals == 0, target_sum, totals)) / np.log(base)


COUNTS = ROWS.toarray().astype(float)
COUNTS[3], COUNTS[:, 7] = 0, 0  # a cell and a gene of zeros


def cells_of(kind, tmp_path):
    """Raw counts in memory, in a file, backed by a file, or lazy, and how results are read."""
    X = sparse.csr_matrix(COUNTS.astype(np.float32))
    if kind in ("sparse", "dense"):
        adata = anndata.AnnData(X if kind == "sparse" else X.toarray())
    elif kind == "dask":
        adata = anndata.AnnData(da.from_array(X, chunks=(31, 40), asarray=False))
    else:
        path = write(anndata.AnnData(X), tmp_path / f"cells.{'zarr' if kind == 'zarr' else 'h5ad'}")
        if kind != "backed":
            return path, lambda: read(path)
        adata = anndata.read_h5ad(path, backed="r")
    return adata, lambda: adata


@pytest.mark.parametrize("kind", ["sparse", "dense", "dask", "h5ad", "zarr", "backed"])
@pytest.mark.parametrize(("zero_center", "max_value"), [(True, 0.1), (True, None), (False, 2.0)])  # 0.1 clips zeros
def test_steps_before_pca_are_those_of_the_dense_matrix(kind, zero_center, max_value, tmp_path):
    cells, results = cells_of(kind, tmp_path)
    for _ in range(1 if kind in ("sparse", "dense") else 2):  # recorded steps may be repeated
        pp.normalize_total(cells, target_sum=50, key_added="size")
        pp.log1p(cells, base=2)
        pp.scale(cells, zero_center=zero_center, max_value=max_value)
    pp.pca(cells, 6)
    dense = scaled(preprocessed(COUNTS), zero_center=zero_center, max_value=max_value or np.inf)
    values = np.linalg.svd(dense - dense.mean(axis=0), compute_uv=False)[:6]
    result = results()
    np.testing.assert_allclose(result.uns["dspectral"]["pca"]["singular_values"], values, rtol=1e-5)
    np.testing.assert_allclose(result.obs["size"], COUNTS.sum(axis=1) / 50)
    np.testing.assert_allclose(result.var["mean"], preprocessed(COUNTS).mean(axis=0), atol=1e-6)
    X = result.X.compute() if kind == "dask" else result.X[:] if kind == "backed" else result.X
    unchanged = COUNTS if kind not in ("sparse", "dense") else dense
    np.testing.assert_allclose(X.toarray() if sparse.issparse(X) else X, unchanged, atol=1e-5)


@pytest.mark.parametrize("kind", ["sparse", "dask", "h5ad"])
def test_pca_scales_without_a_step(kind, tmp_path):
    cells, results = cells_of(kind, tmp_path)
    pp.normalize_total(cells, target_sum=50)
    pp.log1p(cells, base=2)
    pp.pca(cells, 6, scale=True, max_value=1.5)
    dense = scaled(preprocessed(COUNTS), zero_center=True, max_value=1.5)
    values = np.linalg.svd(dense - dense.mean(axis=0), compute_uv=False)[:6]
    np.testing.assert_allclose(results().uns["dspectral"]["pca"]["singular_values"], values, rtol=1e-5)


def test_steps_in_memory_follow_recorded_steps_and_remove_them(tmp_path):
    path, results = cells_of("h5ad", tmp_path)
    pp.normalize_total(path, target_sum=50)
    adata = results()
    pp.log1p(adata, base=2)
    np.testing.assert_allclose(adata.X.toarray(), preprocessed(COUNTS), atol=1e-5)
    pp.pca(adata, 4)
    np.testing.assert_allclose(adata.obsm["X_pca"], pp.pca(adata.X, 4), atol=1e-6)


@pytest.mark.parametrize("target_sum", [None, 30.0])
def test_normalize_total_leaves_out_highly_expressed_genes(target_sum, tmp_path):
    share = COUNTS / np.maximum(COUNTS.sum(axis=1, keepdims=True), 1)
    genes = ~(share > 0.3).any(axis=0)
    assert 0 < genes.sum() < 40
    totals = COUNTS[:, genes].sum(axis=1)
    target = np.median(totals[totals > 0]) if target_sum is None else target_sum
    expected = COUNTS * np.where(totals == 0, 1, target / np.where(totals == 0, 1, totals))[:, None]
    for kind in ("sparse", "dense", "zarr"):
        cells, results = cells_of(kind, tmp_path)
        pp.normalize_total(cells, target_sum=target_sum, exclude_highly_expressed=True, max_fraction=0.3)
        if kind != "zarr":
            X = results().X
            np.testing.assert_allclose(X.toarray() if kind == "sparse" else X, expected, rtol=1e-6)
            continue
        pp.pca(cells, 4)
        values = np.linalg.svd(expected - expected.mean(axis=0), compute_uv=False)[:4]
        np.testing.assert_allclose(results().uns["dspectral"]["pca"]["singular_values"], values, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda path: pp.highly_variable_genes(path, subset=True), "subset=True"),
        (lambda path: pp.highly_variable_genes(path, flavor="mean"), "flavor='mean'"),
        (lambda path: pp.highly_variable_genes(path, batch_key="lane"), "'lane'.*obs"),
        (lambda path: pp.scale(path, mask_obs=np.ones(90, bool)), "mask_obs"),
        (lambda path: pp.normalize_total(ROWS), "csr_matrix.*AnnData"),
        (lambda path: pp.scale(path, max_value=-1), "max_value=-1"),
        (lambda path: pp.normalize_total(path, copy=True, inplace=False), "inplace=False"),
        (lambda path: pp.log1p(anndata.AnnData(COUNTS, obsm={"a": COUNTS}), obsm="a", layer="b"), "layer"),
        (lambda path: pp.log1p(anndata.read_h5ad(path, backed="r"), obsm="a"), "obsm"),
        (lambda path: pp.scale(COUNTS, obsm="a"), "AnnData"),
        (lambda path: (pp.scale(path), pp.pca(path, 3, zero_center=False)), "zero_center=False"),
    ],
)
def test_steps_refuse_what_does_not_fit(call, named, tmp_path):
    path, _ = cells_of("h5ad", tmp_path)
    with pytest.raises((TypeError, ValueError), match=named):
        call(path)


def test_genes_of_a_batch_of_one_cell_are_not_selected():
    adata = anndata.AnnData(np.log1p(COUNTS), obs={"batch": ["x"] + ["y"] * 89})
    pp.highly_variable_genes(adata, n_top_genes=5, batch_key="batch")
    alone = adata[1:].copy()
    pp.highly_variable_genes(alone, n_top_genes=5, batch_key="batch")
    assert 5 <= adata.var["highly_variable_nbatches"].sum() < 40
    assert adata.var["highly_variable_nbatches"].tolist() == alone.var["highly_variable_nbatches"].tolist()


@pytest.mark.parametrize("kind", ["sparse", "dense", "dask", "h5ad"])
def test_normalize_total_returns_rows_without_changing_cells(kind, tmp_path):
    cells, results = cells_of(kind, tmp_path)
    normalized = pp.normalize_total(cells, target_sum=50, inplace=False)
    X, totals = engine.collect_rows(normalized["X"]), COUNTS.sum(axis=1)
    expected = COUNTS * 50 / np.where(totals == 0, 1, totals)[:, None]
    np.testing.assert_allclose(X.toarray() if kind != "dense" else X, expected, rtol=1e-6)
    np.testing.assert_allclose(normalized["norm_factor"], totals / 50)
    assert not results().uns
    np.testing.assert_array_equal(pp.normalize_total(cells, target_sum=50, inplace=False)["norm_factor"], totals / 50)


def test_arrays_of_obsm_are_transformed():
    adata = anndata.AnnData(COUNTS.copy(), obsm={"a": COUNTS[:, :5].copy()})
    pp.log1p(adata, obsm="a", chunked=True, chunk_size=9)
    np.testing.assert_allclose(adata.obsm["a"], np.log1p(COUNTS[:, :5]))
    pp.scale(adata, obsm="a", max_value=1)
    expected = scaled(np.log1p(COUNTS[:, :5]), zero_center=True, max_value=1)
    np.testing.assert_allclose(adata.obsm["a"], expected, atol=1e-12)
    np.testing.assert_array_equal(adata.X, COUNTS)
    assert not len(adata.var.columns)


def test_lazy_cells_without_steps_keep_only_variable_genes():
    cells, _ = cells_of("dask", None)
    pp.highly_variable_genes(cells, n_top_genes=6, subset=True)
    assert cells.var["highly_variable"].all()
    assert 6 <= cells.X.shape[1] == cells.shape[1] < 40
    pp.log1p(cells)
    with pytest.raises(ValueError, match=r"subset=True.*recorded"):
        pp.highly_variable_genes(cells, n_top_genes=3, subset=True)
