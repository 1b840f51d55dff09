"""Components, their output and their types: those of scikit-learn, for rows of every kind."""

import dask.array as da
import numpy as np
import pytest
import sklearn
import sklearn.decomposition
from scipy import sparse
from sklearn.pipeline import make_pipeline

from dspectral import SketchedPCA, TruncatedSVD, write_counts
from dspectral.datasets import low_rank_axes, low_rank_counts, low_rank_rows
from tests.decomposition.rows import DENSE, ROWS, SOLVERS, csr_blocks
from tests.reference import optimal_residual, residual


@pytest.fixture(scope="module", params=["dense", "CSR", "CSC matrix", "Dask dense", "Dask CSR", "store"])
def any_kind(request, tmp_path_factory):
    """The same rows, as each kind of array that an estimator takes."""
    if request.param == "store":
        path = tmp_path_factory.mktemp("store") / "counts.zarr"
        return write_counts(ROWS, str(path), block_rows=70)
    return {
        "dense": DENSE,
        "CSR": ROWS,
        "CSC matrix": sparse.csc_matrix(ROWS),
        "Dask dense": da.from_array(DENSE, chunks=(70, -1)),
        "Dask CSR": csr_blocks(ROWS, 70),
    }[request.param]


def exact(face, solver):
    """An estimator whose sketch has room for every direction."""
    return face(3, solver=solver, n_passes=3, sketch_size=100)


@pytest.mark.parametrize("solver", SOLVERS)
def test_components_are_those_of_scikit_learns_pca(any_kind, solver):
    truth = sklearn.decomposition.PCA(3, svd_solver="full").fit(DENSE)
    found = exact(SketchedPCA, solver).fit(any_kind)
    np.testing.assert_allclose(np.abs(found.components_ @ truth.components_.T), np.eye(3), atol=1e-3)
    for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_", "mean_"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), rtol=1e-4)
    assert found.energy_ == pytest.approx(np.sum((DENSE - DENSE.mean(axis=0)) ** 2))
    assert found.n_samples_seen_ == 300
    assert_transforms_as(found, truth, any_kind)


@pytest.mark.parametrize("solver", SOLVERS)
def test_components_are_those_of_scikit_learns_truncated_svd(any_kind, solver):
    truth = sklearn.decomposition.TruncatedSVD(3, algorithm="arpack", random_state=0).fit(DENSE)
    found = exact(TruncatedSVD, solver).fit(any_kind)
    np.testing.assert_allclose(np.abs(found.components_ @ truth.components_.T), np.eye(3), atol=1e-3)
    for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), rtol=1e-3)
    assert found.energy_ == pytest.approx(np.sum(DENSE**2))
    assert_transforms_as(found, truth, any_kind)


def assert_transforms_as(found, truth, rows):
    signs = np.sign(np.einsum("ij,ij->i", found.components_, truth.components_))
    projected = found.transform(rows)
    lazy = isinstance(getattr(rows, "counts", rows), da.Array)
    assert isinstance(projected, da.Array) == lazy
    if lazy:
        assert projected.chunks == ((70, 70, 70, 70, 20), (3,))
    np.testing.assert_allclose(np.asarray(projected), truth.transform(DENSE) * signs, atol=2e-2)
    back = found.inverse_transform(np.asarray(projected))
    np.testing.assert_allclose(back, truth.inverse_transform(truth.transform(DENSE)), atol=2e-2)


@pytest.mark.parametrize("solver", SOLVERS)
def test_uncentred_pca_is_the_truncated_svd_but_for_the_divisor_of_variances(solver):
    one = SketchedPCA(3, center=False, solver=solver, n_passes=3).fit(ROWS)
    other = TruncatedSVD(3, solver=solver, n_passes=3).fit(ROWS)
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_allclose(one.explained_variance_ * 299 / 300, other.explained_variance_)


@pytest.mark.parametrize(
    ("solver", "n_passes", "excess"),
    [("frequent_directions", 1, 0.03), ("krylov", 2, 0.005), ("krylov", 3, 0.0015), ("gram", 1, 1e-9)],
)
def test_planted_topics_are_found_nearly_as_well_as_possible(topics, solver, n_passes, excess):
    lazy, center, A, best = topics
    found = SketchedPCA(10, center=center, solver=solver, n_passes=n_passes).fit(lazy)
    assert residual(A, found.components_.astype(np.float64)) <= (1 + excess) * best
    assert found.n_passes_ == n_passes


@pytest.fixture(scope="module", params=[True, False], ids=["centered", "as it is"])
def topics(request):
    """Counts, whether they are to be centered, and the same rows with the residual of their best components."""
    lazy = low_rank_counts(4000, 1500, 10, block_rows=1000).persist()
    dense = lazy.compute().toarray().astype(np.float64)
    A = dense - dense.mean(axis=0) if request.param else dense
    return lazy, request.param, A, optimal_residual(A, 10)


@pytest.mark.parametrize("solver", ["frequent_directions", "gram", "krylov"])
def test_the_angle_to_the_true_subspace_falls_as_rows_grow(solver):
    sines = []
    for n_rows in (1200, 4800, 19200):
        X = low_rank_rows(n_rows, 40, 3, noise=0.5, block_rows=600)
        found = TruncatedSVD(3, solver=solver, n_passes=3, sketch_size=20).fit(X)
        cosines = np.linalg.svd(found.components_ @ low_rank_axes(40, 3).T, compute_uv=False)
        sines.append(np.sqrt(1 - cosines.min() ** 2))
    assert sines[1] < 0.65 * sines[0]  # the square root of four times as many rows
    assert sines[2] < 0.65 * sines[1]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("lazy", [True, False])
def test_single_precision_stays_and_all_else_becomes_double(solver, dtype, lazy):
    X = DENSE.astype(dtype)
    for rows in (X, sparse.csr_array(X)):
        given_rows = csr_blocks(sparse.csr_array(X), 100) if lazy else rows
        found = SketchedPCA(2, solver=solver, n_passes=2, sketch_size=100).fit(given_rows)
        expected = np.float32 if dtype == np.float32 else np.float64
        projected = found.transform(given_rows)
        assert found.components_.dtype == projected.dtype == np.asarray(projected).dtype == expected
        np.testing.assert_allclose(
            np.asarray(projected).std(axis=0, ddof=1) ** 2, found.explained_variance_, rtol=0.1
        )


@pytest.mark.parametrize("solver", [*SOLVERS, "median_frequent_directions"])
@pytest.mark.parametrize(
    ("X", "rank"),
    [
        (np.random.default_rng(0).standard_normal((3, 9)), 3),
        (np.outer(np.arange(9.0), np.arange(8.0)), 1),
        (np.eye(9)[:, :8] * [3, 2, 1, 0, 0, 0, 0, 0], 3),
        (np.zeros((5, 8)), 0),
    ],
)
def test_directions_that_rows_do_not_have_are_zero_after_one_warning(solver, X, rank):
    for rows in (X, sparse.csr_array(X), da.from_array(X, chunks=(2, -1))):
        model = TruncatedSVD(6, solver=solver, sketch_size=14)
        with pytest.warns(UserWarning, match=rf"only {rank} independent direction\(s\)") as warned:
            model.fit(rows)
        assert len(warned) == 1
        truth = np.linalg.svd(X, compute_uv=False)[:rank]
        np.testing.assert_allclose(model.singular_values_[:rank], truth, rtol=1e-6)
        assert not model.singular_values_[rank:].any()
        assert model.components_.shape == (6, X.shape[1])
        np.testing.assert_allclose(
            model.components_ @ model.components_.T, np.diag(np.arange(6) < rank), atol=1e-6
        )
        projected = np.asarray(model.transform(rows))
        assert not projected[:, rank:].any()
        np.testing.assert_allclose(model.inverse_transform(projected), X, atol=1e-6)
        assert np.isfinite(model.explained_variance_ratio_).all()


def test_columns_have_names():
    assert SketchedPCA(2).fit(DENSE).get_feature_names_out().tolist() == ["sketchedpca0", "sketchedpca1"]


def test_pandas_output_is_for_rows_in_memory_and_lazy_rows_stay_lazy():
    model = SketchedPCA(2).set_output(transform="pandas")
    frame = model.fit_transform(DENSE)
    assert frame.columns.tolist() == ["sketchedpca0", "sketchedpca1"]
    np.testing.assert_array_equal(frame, model.transform(DENSE))
    lazy = da.from_array(DENSE, chunks=(70, -1)).map_blocks(unreadable, meta=DENSE[:0])
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(model.transform(lazy), da.Array)
        assert isinstance(model.fit_transform(csr_blocks(ROWS, 70)), da.Array)
        assert isinstance(make_pipeline(TruncatedSVD(2)).fit_transform(csr_blocks(ROWS, 70)), da.Array)


def unreadable(block):
    raise AssertionError("a block was read")


def test_lazy_projections_are_turned_back_lazily():
    model = SketchedPCA(3).fit(DENSE)
    projected = da.from_array(model.transform(DENSE), chunks=(70, -1))
    back = model.inverse_transform(projected.map_blocks(unreadable, meta=DENSE[:0]))
    assert (back.shape, back.dtype, back.chunks[0]) == (DENSE.shape, np.float64, (70, 70, 70, 70, 20))
    np.testing.assert_allclose(
        model.inverse_transform(projected), model.inverse_transform(np.asarray(projected))
    )
    for rows in (DENSE, da.from_array(DENSE)):
        with pytest.raises(ValueError, match="X has 50 columns, but there are 3 components"):
            model.inverse_transform(rows)
