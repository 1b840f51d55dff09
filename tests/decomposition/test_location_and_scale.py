"""Rows far from the origin, of columns of very different sizes, and alike: values are right, or a warning says so."""

import warnings
from functools import partial

import anndata
import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn import decomposition

import dspectral
from dspectral import PCA, SketchedPCA, TruncatedSVD, open_store, write_counts
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import GramProduct, Moments

RNG = np.random.default_rng(7)
MIXED = np.c_[3e9 * RNG.standard_normal(200), RNG.standard_normal((200, 5)) * [5, 4, 3, 2, 1]]


def variances(X, k, center=True):
    """Squared singular values of rows in double precision, over n - 1."""
    A = X.astype(np.float64)
    A = A - A.mean(axis=0) if center else A
    return np.linalg.svd(A, compute_uv=False)[:k] ** 2 / (len(X) - 1)


def kept_in(kind, X, folder):
    """Return rows where they are kept."""
    path = str(folder / ("rows.h5ad" if "h5ad" in kind else "rows.zarr"))
    if "h5ad" in kind:
        anndata.AnnData(sparse.csr_matrix(X) if kind == "sparse h5ad" else X).write_h5ad(path)
    return {
        "memory": lambda: X,
        "float64": lambda: X.astype(np.float64),
        "CSR": lambda: sparse.csr_array(X),
        "dask": lambda: da.from_array(X, chunks=(50, -1)),
        "sparse dask": lambda: da.from_array(X, chunks=(50, -1)).map_blocks(sparse.csr_array),
        "store": lambda: write_counts(X, path, block_rows=50, signed=True),
        "sparse h5ad": lambda: open_store(path),
        "backed h5ad": lambda: dspectral.engine.wrap_disk_array(anndata.read_h5ad(path, backed="r").X),
    }[kind]()


KEPT = ["memory", "float64", "CSR", "dask", "sparse dask", "store", "sparse h5ad", "backed h5ad"]


@pytest.mark.filterwarnings("ignore:X ")
@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize(
    ("offset", "width"), [(0.0, 12), pytest.param(1e2, 2060, marks=pytest.mark.slow), (1e5, 12), (1e5, 2060)]
)
def test_projections_of_rows_far_from_the_origin_are_those_of_scikit_learn(offset, width, kind, tmp_path):
    rng = np.random.default_rng(int(offset) + width)
    X = rng.standard_normal((150, 6)) * [6, 5, 4, 3, 2, 1] @ rng.standard_normal((6, width)) / 100
    X = (X + offset * np.std(X) * rng.choice([-1, 1], width)).astype(np.float32)
    truth = decomposition.PCA(3, svd_solver="full").fit(X.astype(np.float64))
    rows, right = kept_in(kind, X, tmp_path), truth.transform(X.astype(np.float64))
    models = [PCA(3), PCA(3, svd_solver="krylov", tol=1e-9), PCA(3).partial_fit(rows[:70])]
    for model in models:
        model.partial_fit(rows[70:]) if hasattr(model, "mean_") else model.fit(rows)
        np.testing.assert_allclose(model.explained_variance_, truth.explained_variance_, rtol=1e-4)
        actual, signs = (
            np.asarray(model.transform(rows)),
            np.sign((model.components_ * truth.components_).sum(axis=1)),
        )
        assert np.abs(actual * signs - right).max() < 1e-4 * np.abs(right).max(axis=0).min()
        assert actual.dtype == (np.float64 if kind == "float64" else np.float32)
        np.testing.assert_allclose(model.transform(X), actual, atol=1e-5 * np.abs(right).max())


def test_far_column_beside_sparse_ones_keeps_its_digits():
    rng = np.random.default_rng(8)
    X = sparse.random_array((300, 40), density=0.05, rng=rng, dtype=np.float32).toarray() * 1e-2
    X[:, 3] = 1013 + 0.01 * rng.standard_normal(300)
    truth = decomposition.PCA(2, svd_solver="full").fit(X.astype(np.float64))
    right = truth.transform(X.astype(np.float64))
    for model in (PCA(2), PCA(2, whiten=True), SketchedPCA(2)):
        actual = model.fit(sparse.csr_array(X)).transform(sparse.csr_array(X))
        actual = actual * (np.sqrt(model.explained_variance_) if getattr(model, "whiten", False) else 1)
        actual *= np.sign((model.components_ * truth.components_).sum(axis=1))
        assert np.abs(actual - right).max() < 1e-4 * np.abs(right).max()


@pytest.mark.parametrize("solver", ["auto", "krylov", "frequent_directions", "gram"])
def test_values_beside_that_of_a_common_mean_are_not_zero(solver):
    X = (50.0 + RNG.standard_normal((150, 2200 if solver != "gram" else 300))).astype(np.float32)
    model = TruncatedSVD(3, solver=solver, sketch_size=140).fit(X)
    truth = variances(X, 3, center=False) * 149
    assert np.abs(model.singular_values_**2 - truth).max() <= model.certificate_.absolute
    np.testing.assert_allclose(model.singular_values_, np.sqrt(truth), rtol=0.3 if "f" in solver else 1e-2)
    along = (X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)) @ model.components_.T.astype(np.float64)
    if solver == "gram":
        np.testing.assert_allclose(model.explained_variance_, np.square(along).mean(axis=0), rtol=1e-4)


@pytest.mark.parametrize("solver", ["auto", "full", "in_memory"])
@pytest.mark.parametrize("face", [PCA, TruncatedSVD])
def test_columns_far_shorter_than_others_keep_their_values(face, solver):
    model = face(6, **{"svd_solver" if face is PCA else "solver": solver}).fit(MIXED)
    truth = np.sqrt(variances(MIXED, 6, center=face is PCA) * 199)
    np.testing.assert_allclose(model.singular_values_, truth, rtol=1e-5)


@pytest.mark.parametrize("solver", ["auto", "full", "in_memory", "krylov", "frequent_directions", "nystrom"])
@pytest.mark.parametrize("width", [40, 2100])
def test_squares_that_lose_digits_to_underflow_are_refused(width, solver):
    rows = RNG.standard_normal((60, width))
    with pytest.raises(ValueError, match="squares of X sum to"):
        SketchedPCA(3, solver=solver).fit(rows * 1e-159)
    values = SketchedPCA(3, solver="full").fit(rows * 1e-150).singular_values_
    np.testing.assert_allclose(values, decomposition.PCA(3, svd_solver="full").fit(rows).singular_values_ * 1e-150)


@pytest.mark.parametrize("solver", ["krylov", "frequent_directions"])
def test_what_a_solver_does_not_resolve_is_zero_and_said(solver):
    with pytest.warns(UserWarning, match=rf"rank.*is 1 .*{solver}.*6e-08.*'full'"):
        PCA(4, svd_solver=solver).fit(MIXED)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("solver", ["auto", "full", "in_memory", "krylov", "frequent_directions"])
def test_equal_rows_explain_nothing(kind, solver):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PCA(2, svd_solver=solver, whiten=True).fit(kind(np.full((300, 5), 0.7)))
    assert not model.explained_variance_ratio_.any()
    assert np.abs(model.transform(np.full((1, 5), 0.7))).max() < 1e-6


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_tiny_rows_in_single_precision_are_whitened(kind):
    rows = kind((RNG.standard_normal((50, 6)) * 1e-39).astype(np.float32))
    whitened = PCA(2, whiten=True).fit(rows).transform(rows)
    assert whitened.dtype == np.float32
    np.testing.assert_allclose(whitened.std(axis=0, ddof=1), 1.0, rtol=1e-5)


def test_blocks_are_multiplied_about_their_means_and_merged():
    X, Z = 1e7 + RNG.standard_normal((30, 6)), RNG.standard_normal((6, 2))
    A = X - X.mean(axis=0)
    parts = [GramProduct.from_block(rows, factor=Z, center=True) for rows in (X[:10], X[10:], X[:0])]
    actual = parts[0].merge(*parts[1:])
    np.testing.assert_allclose(actual.product, A.T @ A @ Z, rtol=1e-6)
    np.testing.assert_allclose(actual.energy, np.square(A).sum(), rtol=1e-8)
    np.testing.assert_allclose(actual.undo_centering().product, X.T @ X @ Z, rtol=1e-12)
    few = GramProduct.from_block(sparse.csr_array(np.eye(6)), factor=Z, center=True)
    np.testing.assert_allclose(actual.merge(few).product, X.T @ X @ Z + Z, rtol=1e-12)
    of_next_pass = GramProduct.from_block(sparse.csr_array(np.eye(6)), factor=Z, center=True, with_sums=False)
    np.testing.assert_array_equal(actual.merge(of_next_pass).product, actual.merge(few).product)
    few_rows = sparse.csr_array(np.eye(6))
    for summarize_block in (
        partial(Moments.from_block, center=True),
        partial(FrequentDirections.from_block, size=20, center=None),
    ):
        first, second, last = (summarize_block(rows) for rows in (X[:10], sparse.csr_array(X[10:]), few_rows))
        centered = first.merge(second)
        mixed = last.merge(centered)
        assert (first.center, centered.center, last.center, mixed.center) == (True, True, False, False)
        assert centered.energy == pytest.approx(np.square(A).sum(), rel=1e-8)
        for summary, gram in ((centered, A.T @ A), (mixed, X.T @ X + np.eye(6))):
            sketch = summary.gram if isinstance(summary, Moments) else summary.sketch.T @ summary.sketch
            np.testing.assert_allclose(sketch, gram, rtol=1e-12, atol=1e-5)


def test_a_share_of_the_variance_is_looked_for_again_when_rows_are_added():
    first, rest = np.outer(RNG.standard_normal(20), RNG.standard_normal(12)), RNG.standard_normal((200, 12))
    for share in (0.8, np.float32(0.8)):
        start = first + 1e-3 * rest[:20]
        model = PCA(share).partial_fit(start)
        assert model.n_components_ == 1
        assert model.partial_fit(rest).n_components_ == PCA(0.8).fit(np.r_[start, rest]).n_components_ > 5


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16])
def test_integers_of_numpy_are_numbers_of_components(kind):
    X = RNG.standard_normal((60, 40))
    actual, reference = (
        TruncatedSVD(k, solver="krylov", n_iter=2, n_oversamples=1).fit(X).singular_values_ for k in (3, kind(3))
    )
    np.testing.assert_array_equal(actual, reference)


def test_fit_without_a_summary_to_add_to_names_an_argument():
    X = RNG.standard_normal((50, 30))
    models = PCA(2, svd_solver="in_memory", n_passes=3), TruncatedSVD(2, solver="in_memory")
    for model, name in zip(models, ("svd_solver", "solver"), strict=True):
        with pytest.raises(ValueError, match=f"fit with {name}='frequent_directions'"):
            model.fit(X).partial_fit(X)
