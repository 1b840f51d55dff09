"""Cubes of a symmetric tensor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral.linalg.tensors import (
    batched_power_method,
    contract,
    joint_diagonalize,
    power_method,
    simultaneous_diagonalization,
    symmetric_tensor_from_pairs,
    tensor_from_components,
)

SOLVERS = [power_method, batched_power_method, simultaneous_diagonalization]


def sampled(k, seed, noise=0.0):
    """Cubes of random orthonormal vectors, and the tensor with symmetric noise."""
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.standard_normal((k, k)))[0]
    values = np.sort(rng.uniform(1.0, 4.0, k))[::-1]
    N = rng.standard_normal((k, k, k))
    N = sum(N.transpose(axes) for axes in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
    return values, vectors, tensor_from_components(values, vectors) + noise * N / np.linalg.norm(N)


@pytest.mark.parametrize("solve", SOLVERS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(k=st.integers(1, 12), seed=st.integers(0, 10_000))
def test_exact_cubes_are_found_to_rounding_with_their_signs(solve, k, seed):
    values, vectors, T = sampled(k, seed)
    actual = solve(T, seed=1)
    np.testing.assert_allclose(actual.values, values, atol=1e-7)
    overlap = vectors.T @ actual.vectors
    np.testing.assert_allclose(overlap.max(axis=0), 1.0, atol=1e-7)
    assert actual.residual < 1e-6


def test_all_solvers_agree_and_err_no_more_than_the_noise():
    values, vectors, T = sampled(20, 3, noise=0.1)
    power, *others = (solve(T) for solve in SOLVERS)
    for actual in (power, *others):
        np.testing.assert_allclose(actual.values, values, atol=0.1)
        np.testing.assert_allclose((vectors.T @ actual.vectors).max(axis=0), 1.0, atol=0.01)
    for actual in others:
        np.testing.assert_allclose(power.values, actual.values, atol=0.02)
        np.testing.assert_allclose((power.vectors * actual.vectors).sum(axis=0), 1.0, atol=0.01)


@pytest.mark.parametrize("size", [0.0, 1e-300])
def test_rounds_come_to_an_end_on_a_tensor_of_nothing(size):
    actual = batched_power_method(np.full((3, 3, 3), size))
    assert actual.vectors.shape == (3, 3)
    np.testing.assert_allclose(actual.values, 0.0, atol=1e-290)


def test_a_contraction_and_an_unfolded_sum_are_what_einsum_gives():
    rng = np.random.default_rng(0)
    Y, M = rng.standard_normal((30, 4)), rng.standard_normal((4, 3))
    T = np.einsum("ni,nj,nk->ijk", Y, Y, Y)
    upper, lower = np.triu_indices(4)
    np.testing.assert_allclose(symmetric_tensor_from_pairs(Y.T @ (Y[:, upper] * Y[:, lower])), T)
    np.testing.assert_allclose(contract(T, M), np.einsum("ijk,ia,jb,kc->abc", T, M, M, M))


def test_matrices_with_one_basis_become_diagonal_from_any_start():
    rng = np.random.default_rng(0)
    basis, start = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    matrices = np.stack([basis @ np.diag(rng.standard_normal(6)) @ basis.T for _ in range(3)])
    for U in (joint_diagonalize(matrices), joint_diagonalize(matrices, start)):
        turned = U.T @ matrices @ U
        assert np.abs(turned - turned * np.eye(6)).max() < 1e-8
        np.testing.assert_allclose(U.T @ U, np.eye(6), atol=1e-12)


def test_a_matrix_with_nothing_on_its_diagonal_is_turned_by_an_eighth():
    swap = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    U = joint_diagonalize(swap)
    actual = U.T @ swap[0] @ U
    np.testing.assert_allclose(np.sort(np.diag(actual)), [-1.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(actual[0, 1], 0.0, atol=1e-12)
