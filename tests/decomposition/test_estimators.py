"""Components, certificates, growing and parameters of the estimators: those of scikit-learn, for rows of every kind."""

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import sklearn
import sklearn.decomposition
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dspectral import PCA, SketchedPCA, TruncatedSVD, write_counts
from dspectral.datasets import low_rank_counts
from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.spectrum import GRAM_COLUMNS, block_summarizer
from tests.reference import optimal_residual, residual
from tests.strategies import zipf_counts

SOLVERS = ["frequent_directions", "gram", "nystrom", "krylov", "in_memory"]
ROWS = zipf_counts(300, 50, 12, n_topics=3)
DENSE = ROWS.toarray().astype(np.float64)


def csr_blocks(rows, size):
    meta = sparse.csr_array((0, 0), dtype=rows.dtype)
    return da.from_array(rows.toarray(), chunks=(size, -1)).map_blocks(sparse.csr_array, meta=meta)


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
@pytest.mark.parametrize("face", [SketchedPCA, TruncatedSVD])
def test_components_are_those_of_scikit_learn(any_kind, face, solver):
    reference = sklearn.decomposition
    centered = face is SketchedPCA
    truth = reference.PCA(3, svd_solver="full") if centered else reference.TruncatedSVD(3, algorithm="arpack")
    truth.fit(DENSE)
    actual = exact(face, solver).fit(any_kind)
    np.testing.assert_allclose(np.abs(actual.components_ @ truth.components_.T), np.eye(3), atol=1e-3)
    for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(actual, name), getattr(truth, name), rtol=1e-4 if centered else 1e-3)
    if centered:
        np.testing.assert_allclose(actual.mean_, truth.mean_, rtol=1e-4)
    assert actual.energy_ == pytest.approx(np.sum((DENSE - centered * DENSE.mean(axis=0)) ** 2))
    assert actual.n_samples_seen_ == 300
    assert_transforms_as(actual, truth, any_kind)


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


@pytest.mark.parametrize(
    ("solver", "n_passes", "excess"),
    [("frequent_directions", 1, 0.03), ("krylov", 2, 0.005), ("krylov", 3, 0.0015), ("gram", 1, 1e-9)],
)
def test_planted_topics_are_found_nearly_as_well_as_possible(topics, solver, n_passes, excess):
    lazy, center, A, best = topics
    actual = SketchedPCA(10, center=center, solver=solver, n_passes=n_passes).fit(lazy)
    assert residual(A, actual.components_.astype(np.float64)) <= (1 + excess) * best
    assert actual.n_passes_ == n_passes


@pytest.fixture(scope="module", params=[True, False], ids=["centered", "as it is"])
def topics(request):
    """Counts, whether they are to be centered, and the same rows with the residual of their best components."""
    lazy = low_rank_counts(4000, 700, 10, block_rows=1000).persist()
    dense = lazy.compute().toarray().astype(np.float64)
    A = dense - dense.mean(axis=0) if request.param else dense
    return lazy, request.param, A, optimal_residual(A, 10)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("lazy", [True, False])
def test_single_precision_stays_and_all_else_becomes_double(solver, dtype, lazy):
    X = DENSE.astype(dtype)
    for rows in (X, sparse.csr_array(X)):
        given_rows = csr_blocks(sparse.csr_array(X), 100) if lazy else rows
        actual = SketchedPCA(2, solver=solver, n_passes=2, sketch_size=100).fit(given_rows)
        expected = np.float32 if dtype == np.float32 else np.float64
        projected = actual.transform(given_rows)
        assert actual.components_.dtype == projected.dtype == np.asarray(projected).dtype == expected
        np.testing.assert_allclose(np.asarray(projected).std(axis=0, ddof=1) ** 2, actual.explained_variance_, rtol=0.1)


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
        with pytest.warns(UserWarning, match=rf"rank of .* is {rank}\b") as warned:
            model.fit(rows)
        assert len(warned) == 1
        truth = np.linalg.svd(X, compute_uv=False)[:rank]
        np.testing.assert_allclose(model.singular_values_[:rank], truth, rtol=1e-6)
        assert not model.singular_values_[rank:].any()
        assert model.components_.shape == (6, X.shape[1])
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.diag(np.arange(6) < rank), atol=1e-6)
        projected = np.asarray(model.transform(rows))
        assert not projected[:, rank:].any()
        np.testing.assert_allclose(model.inverse_transform(projected), X, atol=1e-6)
        assert np.isfinite(model.explained_variance_ratio_).all()


def unreadable(block):
    raise AssertionError("a block was read")


def test_lazy_projections_are_turned_back_lazily():
    model = SketchedPCA(3).fit(DENSE)
    projected = da.from_array(model.transform(DENSE), chunks=(70, -1))
    back = model.inverse_transform(projected.map_blocks(unreadable, meta=DENSE[:0]))
    assert (back.shape, back.dtype, back.chunks[0]) == (DENSE.shape, np.float64, (70, 70, 70, 70, 20))
    np.testing.assert_allclose(model.inverse_transform(projected), model.inverse_transform(np.asarray(projected)))
    for rows in (DENSE, da.from_array(DENSE)):
        with pytest.raises(ValueError, match=r"50 columns.*3, one for each component"):
            model.inverse_transform(rows)


@pytest.mark.parametrize(("width", "n_passes"), [(GRAM_COLUMNS, 3), (GRAM_COLUMNS + 1, 1), (GRAM_COLUMNS + 1, 3)])
def test_auto_takes_the_solver_that_it_documents(width, n_passes):
    wide = sparse.random_array((60, width), density=0.01, format="csr", rng=0, dtype=np.float32)
    actual = SketchedPCA(2, n_passes=n_passes).fit(wide)
    if width == GRAM_COLUMNS:
        assert (actual.solver_, actual.n_passes_) == ("gram", 1)
    else:
        assert (actual.solver_, actual.n_passes_) == ("in_memory", 1)
        with dask.config.set({"dspectral.in-memory-bytes": 0}):
            actual = actual.fit(wide)
        assert actual.solver_ == ("frequent_directions" if n_passes == 1 else "krylov")
        assert actual.n_passes_ == n_passes


def test_auto_uses_krylov_from_a_quarter_of_the_size_without_a_tolerance():
    wide = sparse.random_array((60, GRAM_COLUMNS + 1), density=0.01, format="csr", rng=0, dtype=np.float32)
    size = wide.data.nbytes + wide.indices.nbytes + wide.indptr.nbytes
    for limit, solver in ((4 * size, "in_memory"), (3 * size, "krylov")):
        with dask.config.set({"dspectral.in-memory-bytes": limit}):
            assert TruncatedSVD(2).fit(wide).solver_ == solver
            assert TruncatedSVD(2, tol=0.1).fit(wide).solver_ == "in_memory"
            assert SketchedPCA(2).fit(wide).solver_ == "in_memory"


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(200, 1500), (1500, 200), (50, 1500), (1500, 50)])
def test_small_rows_are_decomposed_exactly_in_memory_however_they_are_cut(tmp_path, shape, center, dtype):
    n_rows, n_used = shape
    rows = np.zeros((n_rows, GRAM_COLUMNS * 2), dtype=dtype)
    rows[:, :n_used] = zipf_counts(n_rows, n_used, 12, n_topics=3).toarray()[:, :n_used]
    rows = sparse.csr_array(rows)
    A = rows.toarray().astype(np.float64)[:, :n_used]
    A -= A.mean(axis=0) * center
    truth = np.linalg.svd(A, compute_uv=False)[:9] ** 2
    model = SketchedPCA(8, center=center)
    actual = model.fit(rows)
    assert (actual.solver_, actual.n_passes_) == ("in_memory", 1)
    eps = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(actual.singular_values_**2, truth[:8], rtol=eps)
    axes = actual.components_.astype(np.float64)
    np.testing.assert_allclose(axes @ axes.T, np.eye(8), atol=eps)
    np.testing.assert_allclose(np.linalg.norm(A @ axes[:, :n_used].T, axis=0) ** 2, truth[:8], rtol=eps)
    assert truth[8] <= actual.certificate_.absolute <= 2 * truth[8] or n_rows == 50
    if dtype == np.float64:  # a store keeps counts in single precision
        return
    bits = actual.components_.tobytes()
    store = write_counts(rows, str(tmp_path / "store"), block_rows=77)
    for scheduler in ("sync", "threads"):
        with dask.config.set(scheduler=scheduler):
            assert model.fit(store).components_.tobytes() == bits
    assert model.partial_fit(rows[:30]).n_samples_seen_ == n_rows + 30


@pytest.mark.parametrize("n_columns", [50, GRAM_COLUMNS + 1])
def test_variance_share_needs_as_few_components_as_in_scikit_learn(n_columns):
    rows = sparse.csr_array((ROWS.data, ROWS.indices, ROWS.indptr), shape=(300, n_columns)).astype(np.float64)
    for share in (0.3, 0.95):
        actual = SketchedPCA(share).fit(rows)
        truth = sklearn.decomposition.PCA(share, svd_solver="full").fit(DENSE)
        assert len(actual.components_) == truth.n_components_
        assert actual.transform(rows).shape == (300, truth.n_components_)
    assert actual.partial_fit(rows).components_.shape == (truth.n_components_, n_columns)
    for wrong in (1.5, 0.0):
        with pytest.raises((TypeError, ValueError), match=rf"^n_components.*{wrong}"):
            SketchedPCA(wrong).fit(rows)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "exact"}, "solver.*'exact'.*'auto'.*'frequent_directions'"),
        ({"n_passes": 0}, "n_passes.*0.*1000000"),
        ({"n_components": 0}, "n_components.*0.*1"),
        ({"n_components": 60}, r"^n_components.*60.*\b50\b"),
        ({"sketch_size": 1}, "sketch_size.*1.*n_components.*2"),
    ],
)
@pytest.mark.parametrize("rows", [ROWS, csr_blocks(ROWS, 70)], ids=["memory", "lazy"])
def test_a_parameter_that_makes_no_sense_is_named(parameters, message, rows):
    with pytest.raises((ValueError, TypeError), match=message):
        SketchedPCA(**{"n_components": 2, **parameters}).fit(rows)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_seed_gives_the_same_bits_and_another_an_answer_as_good(solver):
    one, same, other = (SketchedPCA(3, solver=solver, n_passes=4, random_state=seed).fit(DENSE) for seed in (0, 0, 1))
    assert one.components_.tobytes() == same.components_.tobytes()
    assert (one.components_.tobytes() != other.components_.tobytes()) == (solver in ("nystrom", "krylov"))
    allowed = max(one.certificate_.absolute, other.certificate_.absolute)
    assert np.abs(one.singular_values_**2 - other.singular_values_**2).max() <= allowed


@pytest.mark.parametrize("face", [SketchedPCA, TruncatedSVD])
@pytest.mark.parametrize("solver", ["frequent_directions", "gram"])
def test_adding_rows_is_merging_and_agrees_with_a_fit_on_all(face, solver):
    model = face(4, solver=solver, sketch_size=12)
    first, second = ROWS[:110], ROWS[110:]
    of = block_summarizer(model.fit(ROWS)._make_options(np.float32), solver)
    merged = of(first).merge(of(second))
    grown = face(4, solver=solver, sketch_size=12).partial_fit(first)
    assert grown.n_samples_seen_ == 110
    assert grown.partial_fit(second) is grown
    for actual, expected in zip(grown.summary_, merged, strict=True):
        np.testing.assert_array_equal(actual, expected)
    whole = model.fit(ROWS)
    assert grown.n_samples_seen_ == whole.n_samples_seen_ == 300
    assert grown.energy_ == pytest.approx(whole.energy_)
    np.testing.assert_allclose(grown.mean_, whole.mean_)
    allowed = grown.certificate_.absolute + whole.certificate_.absolute
    assert np.abs(grown.singular_values_**2 - whole.singular_values_**2).max() <= allowed


def test_only_one_pass_can_grow():
    assert not hasattr(TruncatedSVD(solver="krylov"), "partial_fit")
    wide = sparse.random_array((60, GRAM_COLUMNS + 1), density=0.05, format="csr", rng=0)
    assert isinstance(TruncatedSVD(2, n_passes=1).partial_fit(wide).summary_, FrequentDirections)


@pytest.mark.parametrize("solver", ["frequent_directions", "gram"])
def test_added_rows_fill_components_that_were_zero(solver):
    model = SketchedPCA(3, center=False, solver=solver)
    for rows, message in (([[4.0, 0, 0]], "is 1 "), ([[0, 3.0, 0]], "is 2 ")):
        with pytest.warns(UserWarning, match=message):
            model.partial_fit(rows)
    np.testing.assert_allclose(model.partial_fit([[0, 0, 2.0]]).singular_values_, [4, 3, 2])


@pytest.mark.parametrize("solver", ["krylov", "nystrom", "frequent_directions"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("power", [-60, -45, 35, 45])
def test_float32_rows_of_any_size_are_decomposed_alike(solver, center, power):
    rng = np.random.default_rng(0)
    X = (rng.random((90, 4)) @ rng.random((4, 30)) + 0.1 * rng.random((90, 30))).astype(np.float32)
    pca = SketchedPCA(3, solver=solver, center=center, n_passes=3)
    actual = clone(pca).fit(X * np.float32(2.0**power))
    expected = clone(pca).fit(X)
    np.testing.assert_allclose(actual.singular_values_ / 2.0**power, expected.singular_values_, rtol=1e-3)
    np.testing.assert_allclose(actual.certificate_.relative, expected.certificate_.relative, rtol=1e-2, atol=1e-6)
    # Squares beyond the range of float32 are formed in double precision.
    far = clone(pca).fit(sparse.csr_array(X * np.float32(2.0 ** (2 * power))))
    np.testing.assert_allclose(far.singular_values_ / 4.0**power, expected.singular_values_, rtol=1e-3)


I = np.arange(1.0, 501.0)
SPECTRA = {
    "1 / i": 1 / I,
    "1 / sqrt(i)": I**-0.5,
    "i^-1.5": I**-1.5,
    "1 / i^2": I**-2.0,
    "geometric": 0.95**I,
    "two levels": np.where(I <= 12, 10.0, 1.0),
    "topics and noise": np.concatenate([300.0 / I[:10], np.ones(490)]),
    "few directions": np.where(I <= 25, 1.0 / I, 0.0),
    "noise alone": np.linspace(2.0, 0.1, 500) ** 2,
    "all alike": np.ones(500),
}
FLAT = {"noise alone": 3}
"""Passes that are read in vain where values beyond the components are nearly theirs, else 1."""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("law", SPECTRA)
def test_lost_energy_is_certified_and_few_passes_are_wasted(law, dtype):
    rows = sparse.csr_array(np.diag(np.sqrt(SPECTRA[law]))).astype(dtype)
    lazy, tol, k = csr_blocks(rows, 250), 2e-3, 8
    best, energy = SPECTRA[law][:k].sum(), SPECTRA[law].sum()

    def fitted(seed=0, n_passes=None, tol=tol):
        model = TruncatedSVD(k, solver="krylov", n_passes=n_passes, tol=tol, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            actual = model.fit(lazy)
        lost = (best - np.sum((rows @ actual.components_.T.astype(np.float64)) ** 2)) / energy
        assert lost <= actual.certificate_.lost + 1e-14
        assert np.all(SPECTRA[law][:k] - actual.singular_values_**2 <= actual.certificate_.absolute)
        return actual, lost

    needed = next(p for p in range(1, 13) if fitted(n_passes=p, tol=1e-12)[1] <= tol)
    for seed in range(3):
        actual, _ = fitted(seed)
        assert actual.certificate_.lost <= tol
        assert actual.n_passes_ <= needed + FLAT.get(law, 1)


@pytest.mark.parametrize(("solver", "tol"), [("krylov", 1e-4), ("in_memory", 1e-15), ("gram", 1e-15)])
def test_a_tolerance_that_is_met_but_for_rounding_is_met(solver, tol):
    rows = sparse.random_array((6000, 220), density=0.02, rng=3, dtype=np.float32)
    rows = sparse.csr_array(rows @ sparse.diags_array(0.7 ** np.arange(220), dtype=np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TruncatedSVD(10, solver=solver, tol=tol).fit(csr_blocks(rows, 1500))
    assert model.n_passes_ < 5
    assert model.certificate_.lost > tol
    best = np.linalg.svd(rows.toarray().astype(np.float64), compute_uv=False) ** 2
    actual = np.square(rows @ model.components_.T.astype(np.float64)).sum()
    assert best[:10].sum() - actual < (tol + 1e-6) * best.sum()


def test_what_was_reached_is_said_where_the_passes_do_not_suffice():
    model = SketchedPCA(5, solver="krylov", n_passes=2, tol=1e-4)
    with pytest.warns(ConvergenceWarning, match=r"^tol.*0.0001.*2 pass"):
        model.fit(csr_blocks(zipf_counts(400, 300, 12, n_topics=3), 100))
    assert 1e-4 < model.certificate_.lost < 1
    for wrong in (-0.1, 2.0, np.nan):
        with pytest.raises(ValueError, match=rf"^tol.*{wrong}.*0.0.*1.0"):
            SketchedPCA(2, tol=wrong).fit(ROWS)


@pytest.mark.parametrize("n_columns", [50, GRAM_COLUMNS + 1])
def test_scikit_learn_arguments_give_its_results_from_lazy_blocks(n_columns):
    rows = sparse.csr_array((ROWS.data, ROWS.indices, ROWS.indptr), shape=(300, n_columns)).astype(np.float64)
    lazy, reference = csr_blocks(rows, 70), sklearn.decomposition
    for whiten in (False, True):
        asked = {"n_components": 3, "svd_solver": "full", "whiten": whiten}
        truth = reference.PCA(**asked).fit(rows.toarray())
        with dask.config.set({"dspectral.in-memory-bytes": 0}):
            actual = PCA(**asked).fit(lazy)
        assert (actual.solver_ == "krylov") == (n_columns > GRAM_COLUMNS)
        for name in ("explained_variance_", "noise_variance_", "mean_", "n_components_", "n_samples_"):
            np.testing.assert_allclose(getattr(actual, name), getattr(truth, name), rtol=1e-4, atol=1e-9)
        signs = np.sign(np.einsum("ij,ij->i", actual.components_, truth.components_))
        projected = np.asarray(actual.transform(lazy))
        np.testing.assert_allclose(projected, truth.transform(rows.toarray()) * signs, atol=1e-2)
        back = truth.inverse_transform(truth.transform(rows.toarray()))
        np.testing.assert_allclose(actual.inverse_transform(projected), back, atol=1e-2)
    svd = TruncatedSVD(3, solver="krylov", n_iter=2, n_oversamples=4).fit(rows)
    assert svd.n_passes_ == 3
    exact = TruncatedSVD(3, solver="krylov", algorithm="arpack").fit(rows)
    assert exact.certificate_.lost <= 1e-5
    with pytest.raises(ValueError, match=r"algorithm.*'lanczos'.*'randomized'.*'arpack'"):
        TruncatedSVD(3, algorithm="lanczos").fit(rows)
