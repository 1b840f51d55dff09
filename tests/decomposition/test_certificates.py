"""Certificates bound the error of what is found."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral import SketchedPCA, TruncatedSVD
from tests.decomposition.rows import DENSE, ROWS, SOLVERS, csr_blocks
from tests.strategies import matrices


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(X=matrices(max_rows=40, max_columns=10), seed=st.integers(0, 5))
def test_what_is_found_is_orthonormal_and_from_below_and_within_the_certificate(solver, center, X, seed):
    A = X - X.mean(axis=0) if center else X
    truth = np.linalg.svd(A, compute_uv=False) ** 2
    if truth[0] <= 1e-7 * max(1.0, float(np.sum(X**2))):
        return  # no direction at all
    model = SketchedPCA(1, center=center, solver=solver, n_passes=2, sketch_size=3, random_state=seed)
    found = model.fit(da.from_array(X, chunks=(7, -1)))
    rounding = 1e-9 * max(1.0, float(np.sum(X**2)))
    values, certificate = found.singular_values_**2, found.certificate_
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(1), atol=1e-10)
    assert found.components_[0, np.argmax(np.abs(found.components_[0]))] > 0
    assert values[0] <= truth[0] + rounding
    assert truth[0] - values[0] <= certificate.absolute + rounding
    assert certificate.relative == pytest.approx(certificate.absolute / found.energy_)
    assert 0 <= found.explained_variance_ratio_.sum() <= 1 + 1e-9


@pytest.mark.parametrize("face", [SketchedPCA, TruncatedSVD])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_certificate_bounds_the_norm_of_what_a_sketch_lost(face, dtype):
    A = DENSE - DENSE.mean(axis=0) if face is SketchedPCA else DENSE
    found = face(5, solver="frequent_directions", sketch_size=12).fit(csr_blocks(ROWS.astype(dtype), 40))
    B = found.summary_.sketch.astype(np.float64)
    left = np.linalg.norm(A.T @ A - B.T @ B, 2)
    assert 0.2 * found.certificate_.absolute < left <= found.certificate_.absolute
    assert found.certificate_.absolute <= found.energy_ / 12


@pytest.mark.parametrize("face", [SketchedPCA, TruncatedSVD])
def test_the_certificate_of_one_product_bounds_the_norm_of_what_is_left(face):
    A = DENSE - DENSE.mean(axis=0) if face is SketchedPCA else DENSE
    found = face(12, solver="nystrom", sketch_size=12).fit(csr_blocks(ROWS.astype(np.float64), 40))
    kept = (found.components_.T * found.singular_values_**2) @ found.components_
    left = np.linalg.norm(A.T @ A - kept, 2)
    assert left <= found.certificate_.absolute < found.energy_
    # The trace of a positive semidefinite matrix is what bounds its norm.
    assert found.certificate_.absolute == pytest.approx(np.trace(A.T @ A - kept), rel=1e-6)


@pytest.mark.parametrize("face", [SketchedPCA, TruncatedSVD])
@pytest.mark.parametrize(("n_components", "n_passes"), [(1, 2), (4, 2), (4, 4), (12, 3)])
def test_the_certificate_of_a_krylov_space_bounds_the_error_of_every_squared_singular_value(
    face, n_components, n_passes
):
    A = DENSE - DENSE.mean(axis=0) if face is SketchedPCA else DENSE
    model = face(n_components, solver="krylov", n_passes=n_passes, sketch_size=12)
    found = model.fit(csr_blocks(ROWS.astype(np.float64), 40))
    lost = np.linalg.svd(A, compute_uv=False)[:n_components] ** 2 - found.singular_values_**2
    assert lost.min() >= -1e-9 * found.energy_
    assert lost.max() <= found.certificate_.absolute


def test_the_certificate_of_a_gram_matrix_is_rounding():
    found = SketchedPCA(4, solver="gram").fit(csr_blocks(ROWS, 40))
    truth = np.linalg.svd(DENSE - DENSE.mean(axis=0), compute_uv=False)[:4] ** 2
    assert np.abs(truth - found.singular_values_**2).max() <= found.certificate_.absolute < 1e-8
