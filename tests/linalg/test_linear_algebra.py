import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral.linalg import dense as linalg
from dspectral.linalg import panels, sparse_products
from dspectral.linalg.dense import principal_axes
from dspectral.linalg.krylov import KrylovSpace
from dspectral.linalg.leading import find_leading_space, leading_right_vectors
from dspectral.linalg.panels import split_by_size
from dspectral.linalg.sparse_products import MIN_WIDE_COLUMNS
from tests.strategies import matrices

WIDTHS = [0, 1, 3, MIN_WIDE_COLUMNS - 1, MIN_WIDE_COLUMNS, MIN_WIDE_COLUMNS + 1, 2 * MIN_WIDE_COLUMNS]


@st.composite
def csr_and_width(draw):
    """A sparse matrix with empty rows and columns, and the width of what it is multiplied with."""
    n, d = draw(st.integers(0, 30)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A = sparse.random_array(
        (n, d),
        density=draw(st.sampled_from([0.0, 0.05, 0.3, 1.0])),
        format="csr",
        rng=rng,
        data_sampler=rng.normal,
    )
    of_A, of_Z = draw(st.sampled_from([(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float64)]))
    A = A.astype(of_A)
    if n and draw(st.booleans()):
        A = sparse.csr_array(A.multiply(rng.random((n, 1)) < 0.5)).astype(A.dtype)
    if draw(st.booleans()):
        A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return freeze(A), draw(st.sampled_from(WIDTHS)), of_Z, rng


def freeze(A):
    """Make the parts of a matrix read-only, as mapped and shared memory is."""
    for part in (A.data, A.indices, A.indptr) if sparse.issparse(A) else (A,):
        part.setflags(write=False)
    return A


def close(found, expected, dtype):
    assert found.dtype == dtype
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=200 * np.finfo(dtype).eps * scale)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn=csr_and_width(), order=st.sampled_from("CF"))
def test_sparse_products_are_those_of_scipy(drawn, order):
    A, width, dtype, rng = drawn
    exact = A.toarray().astype(np.float64)
    Z = freeze(np.asarray(rng.standard_normal((A.shape[1], width)), dtype=dtype, order=order))
    Y = freeze(np.asarray(rng.standard_normal((A.shape[0], width)), dtype=dtype, order=order))
    close(sparse_products.times(A, Z), exact @ Z, dtype)
    close(sparse_products.transpose_times(A, Y), exact.T @ Y, dtype)
    close(sparse_products.gram_times(A, Z), exact.T @ (exact @ Z), dtype)
    close(sparse_products.gram(A), exact.T @ exact, np.float64)
    close(sparse_products.column_sums(A), exact.sum(axis=0), np.float64)


# Dense


@pytest.fixture(params=[np.float32, np.float64])
def tall(request, monkeypatch):
    """A tall matrix, in several panels, the last of them short."""
    monkeypatch.setattr(panels, "PANEL", 64)
    return freeze(np.random.default_rng(3).standard_normal((150, 7)).astype(request.param))


def test_products_in_panels_are_the_products(tall):
    wide = tall.T
    parts = (wide[:2], wide[2:3], wide[3:])
    C = freeze(np.random.default_rng(0).standard_normal((4, 7)))
    for gram in (panels.row_gram(wide), panels.row_gram(*parts), panels.column_gram(tall)):
        assert gram.dtype == np.float64
        np.testing.assert_allclose(gram, tall.T.astype(float) @ tall, atol=1e3 * np.finfo(tall.dtype).eps)
    close(panels.combine_rows(C, *parts), C @ wide, tall.dtype)
    actual = panels.inner_products((tall[:, :2], tall[:, 2:]), tall[:, :3])
    np.testing.assert_allclose(actual, tall.T.astype(float) @ tall[:, :3], atol=1e3 * np.finfo(tall.dtype).eps)
    np.testing.assert_allclose(linalg.column_norms(tall), np.linalg.norm(tall, axis=0), rtol=1e-5)


def test_what_is_taken_out_of_a_matrix_and_what_is_left_are_the_matrix(tall):
    Q = np.linalg.qr(tall[:, :5])[0]
    # A column that is nearly all in the basis shows whether there was a second round.
    given = np.column_stack([tall[:, 5:], Q @ [1e-4, 1, 1, 1, 1] + 1e-4 * tall[:, 6]]).astype(tall.dtype)
    left = given.copy()
    coefficients, gram = panels.orthogonalize_against(left, (Q[:, :1], Q[:, 1:2], Q[:, 2:]))
    assert [each.shape for each in coefficients] == [(1, 3), (1, 3), (3, 3)]
    eps = np.finfo(tall.dtype).eps
    np.testing.assert_allclose(Q @ np.concatenate(coefficients) + left, given, atol=16 * eps)
    np.testing.assert_allclose(gram, left.T.astype(float) @ left, rtol=64 * eps, atol=1e-9)
    np.testing.assert_allclose(Q.T @ (left / np.linalg.norm(left, axis=0)), 0, atol=16 * eps)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(X=matrices(max_rows=30, max_columns=8), dtype=st.sampled_from([np.float32, np.float64]))
def test_eigenvalues_descend_above_zero_and_rank_ignores_rounding(X, dtype):
    X = (X / max(1.0, np.abs(X).max())).astype(dtype)
    K = panels.column_gram(X)
    values, vectors = linalg.eigh_descending(K)
    assert (np.diff(values) <= 0).all()
    assert (values >= 0).all()
    # The product of float32 rows has float32 rounding: eigenvalues that it makes negative are cut to zero.
    np.testing.assert_allclose((vectors * values) @ vectors.T, K, rtol=0, atol=200 * np.finfo(dtype).eps)
    floor = 16 * np.finfo(dtype).eps * values[0]
    assert linalg.rounding_floor(values, dtype) == pytest.approx(floor)
    kept = linalg.leading_eigenpairs(K, dtype)
    np.testing.assert_array_equal(kept[0], values[values > floor])
    np.testing.assert_array_equal(kept[1], vectors[:, values > floor])
    for only_k in (False, True):
        few = linalg.leading_eigenpairs(K, dtype, k=1, only_k=only_k)
        np.testing.assert_allclose(few[0], kept[0][:1])
        np.testing.assert_allclose(K @ few[1], few[1] * few[0], atol=1e-12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(X=matrices(max_rows=40, max_columns=8), dtype=st.sampled_from([np.float32, np.float64]))
def test_an_orthonormal_basis_spans_the_columns(X, dtype):
    X = freeze(X.astype(dtype))
    Q = linalg.orthonormalize_columns(X)
    np.testing.assert_array_equal(linalg.orthonormalize_columns(X.copy(), overwrite=True), Q)
    eps = np.finfo(dtype).eps
    assert Q.dtype == dtype
    assert Q.shape[1] <= min(X.shape)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=400 * eps)
    left = X - Q @ (Q.T @ X)
    # What a Gram matrix cannot tell from rounding is the root of eps.
    assert np.linalg.norm(left, axis=0).max() <= 50 * np.sqrt(eps) * np.linalg.norm(X, axis=0).max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_badly_conditioned_columns_become_orthonormal_all_the_same(dtype):
    rng = np.random.default_rng(0)
    near = rng.standard_normal((200, 1)) + 3 * np.sqrt(np.finfo(dtype).eps) * rng.standard_normal((200, 5))
    Q = linalg.orthonormalize_columns((near * 10.0 ** np.arange(5)).astype(dtype))
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=100 * np.finfo(dtype).eps)


def test_rows_are_scaled_to_length_one_with_a_positive_peak():
    rows = freeze(np.array([[3.0, -4.0], [0.0, 0.0], [-2.0, 2.0]], dtype=np.float32))
    unit = linalg.normalize_rows(rows)
    np.testing.assert_allclose(unit, [[0.6, -0.8], [0, 0], [-(0.5**0.5), 0.5**0.5]], rtol=1e-6)
    np.testing.assert_array_equal(linalg.fix_signs(rows), [[-3, 4], [0, 0], [2, -2]])
    assert unit.dtype == linalg.fix_signs(rows).dtype == np.float32
    assert linalg.fix_signs(rows[:0]).shape == (0, 2)
    assert linalg.fix_signs(np.zeros((3, 0))).shape == (3, 0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(X=matrices(max_rows=20, max_columns=12), k=st.integers(1, 12))
def test_principal_axes_are_the_right_singular_vectors(X, k):
    axes, singular_values = principal_axes(freeze(X), k)
    truth = np.linalg.svd(X, compute_uv=False)
    r = len(axes)
    assert r == len(singular_values) == min(k, np.count_nonzero(truth**2 > 16 * np.finfo(float).eps * truth[0] ** 2))
    np.testing.assert_allclose(axes @ axes.T, np.eye(r), atol=1e-12)
    np.testing.assert_allclose(singular_values**2, truth[:r] ** 2, atol=1e-12 * max(1e-300, truth[0] ** 2))
    assert (axes[np.arange(r), np.argmax(np.abs(axes), axis=1)] > 0).all()


# Krylov spaces


def positive_semidefinite(d, rank, seed=0, decay=0.7):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((d, rank)))
    return (Q * decay ** np.arange(rank)) @ Q.T


def run(C, width, n_steps, dtype=np.float64, seed=1):
    C = C.astype(dtype)
    space = KrylovSpace.start(np.random.default_rng(seed).standard_normal((len(C), width)).astype(dtype))
    for _ in range(n_steps - 1):
        space = space.extend(C @ space.newest)
    return space, space.close(C @ space.newest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("width", "n_steps"), [(1, 5), (4, 1), (4, 3), (7, 4)])
def test_a_space_is_orthonormal_and_gives_the_nystrom_approximation(width, n_steps, dtype):
    C = positive_semidefinite(40, 30)
    space, best = run(C, width, n_steps, dtype)
    K = np.concatenate(space.basis, axis=1).astype(float)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(K.T @ K, np.eye(K.shape[1]), atol=2000 * eps)
    expected = C @ K @ np.linalg.solve(K.T @ C @ K, K.T @ C)
    B = best.rows(np.ones(len(best.values)))
    assert B.dtype == dtype
    np.testing.assert_allclose(B.T @ B, expected, atol=200 * eps)
    np.testing.assert_allclose(B @ B.T, np.diag(best.values), atol=200 * eps)
    assert np.linalg.eigvalsh(C - B.T.astype(float) @ B).min() >= -200 * eps  # never above C


def test_a_space_that_holds_everything_is_exact_and_then_empty():
    C = positive_semidefinite(20, 6)
    space, best = run(C, 4, 3)
    np.testing.assert_allclose(best.values, 0.7 ** np.arange(6), rtol=1e-9)
    again = space.extend(C @ space.newest)
    assert sum(block.shape[1] for block in again.basis) <= 4 + 6
    assert run(C, 4, 6)[0].newest.shape == (20, 0)
    np.testing.assert_allclose(run(C, 4, 6)[1].values, 0.7 ** np.arange(6), rtol=1e-9)


def test_rows_spread_over_columns_from_released_parts_are_the_same():
    tall = np.random.default_rng(2).standard_normal((20_000, 8))  # whole pages to be given back
    first = KrylovSpace.start(np.random.default_rng(0).standard_normal((20_000, 8)))
    best = first.close(tall @ (tall.T @ first.newest))
    rows = best.rows(np.ones(3))
    columns = np.sort(np.random.default_rng(1).permutation(30_000)[:20_000])
    spread = best.rows(np.ones(3), columns=columns, n_columns=30_000, release_parts=True)
    np.testing.assert_array_equal(spread[:, columns], rows)
    assert np.count_nonzero(spread) <= rows.size


@settings(max_examples=40, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(0, 9), max_size=20), most=st.integers(1, 12))
def test_runs_are_as_long_as_the_budget_allows_and_cover_all_items(sizes, most):
    runs = split_by_size(np.asarray(sizes, dtype=np.int64), most)
    assert [i for start, stop in runs for i in range(start, stop)] == list(range(len(sizes)))
    for start, stop in runs:
        assert sum(sizes[start:stop]) <= most or stop == start + 1
        assert stop == len(sizes) or sum(sizes[start : stop + 1]) > most


def test_equal_eigenvalues_have_as_many_pairs_as_requested():
    K = 3.0 * (np.eye(300) - np.full((300, 300), 1.0 / 300))  # LAPACK finds one pair of ten
    values, vectors = linalg.eigh_descending(K, 10)
    np.testing.assert_allclose(values, np.full(10, 3.0))
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-12)


@pytest.mark.parametrize("k", [3, 40])
def test_leading_space_of_equal_values_misses_none_and_bounds_the_others(k):
    values = np.repeat([3.0, 2.0, 1.0], 320)  # a block of 16 columns finds 16 of each
    space = find_leading_space(lambda Z: values[:, None] * Z, 960, k, seed=0, dtype=np.float64)
    np.testing.assert_allclose(np.square(space.vectors).T @ values, values[:k], rtol=1e-9)
    assert (space.bounds >= values[: k + 1] - 1e-9).all()
    assert space.bounds[-1] < 2.0 * values[k]


def test_right_vectors_of_equal_blocks_have_all_equal_values():
    rng = np.random.default_rng(0)
    block = sparse.random_array((30, 28), density=0.2, rng=rng)
    rows = sparse.csr_array(sparse.block_diag([block] * 32))
    truth = np.linalg.svd(block.toarray(), compute_uv=False)[0]
    axes = leading_right_vectors(rows, 20)
    np.testing.assert_allclose(np.linalg.norm(rows @ axes.T, axis=0), np.full(20, truth), rtol=1e-9)
