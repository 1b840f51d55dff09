"""Moments of words against sums over distinct positions, one at a time."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import sparse

from dspectral.linalg.tensors import symmetric_tensor_from_pairs
from dspectral.methods.multilabel.passes import nystrom_eigenpairs
from dspectral.methods.multilabel.summaries import SecondMoments


def documents(rng, n, d=7, n_labels=4):
    return rng.poisson(0.7, size=(n, d)).astype(float), (rng.random((n, n_labels)) < 0.4).astype(float)


def beside(d):
    """Directions of a linear correction, of which there are none here, and weights of columns."""
    return {"directions": np.zeros((d, 0)), "column_weights": np.ones(d)}


def brute_force(X, W):
    """Moments over ordered pairs and triples of distinct positions, one word at a time."""
    k = W.shape[1]
    second, third = np.zeros((k, k)), np.zeros((k, k, k))
    for row in X.astype(int):
        words = np.repeat(np.arange(len(row)), row)
        for i, j in permutations(range(len(words)), 2):
            second += np.outer(W[words[i]], W[words[j]])
        for triple in combinations(range(len(words)), 3):
            for i, j, m in permutations(triple):
                third += np.einsum("a,b,c->abc", W[words[i]], W[words[j]], W[words[m]])
    return second, third


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_unbiased_moments_are_sums_over_distinct_positions(kind):
    rng = np.random.default_rng(0)
    X, _ = documents(rng, 12)
    W = rng.standard_normal((7, 3))
    actual = SecondMoments.from_block(kind(X), whitening=W, use_counts=True, exclude_self_pairs=True, **beside(7))
    second, third = brute_force(X, W)
    np.testing.assert_allclose(actual.second, second, atol=1e-9)
    np.testing.assert_allclose(symmetric_tensor_from_pairs(actual.third), third, atol=1e-9)
    n = X.sum(axis=1)
    assert actual.pairs == (n * (n - 1)).sum()
    assert actual.triples == (n * (n - 1) * (n - 2)).sum()


def test_the_printed_moments_pair_each_word_with_itself():
    rng = np.random.default_rng(1)
    X, _ = documents(rng, 20)
    W, A = rng.standard_normal((7, 3)), (X > 0).astype(float)
    actual = SecondMoments.from_block(X, whitening=W, use_counts=False, exclude_self_pairs=False, **beside(7))
    np.testing.assert_allclose(actual.second, W.T @ A.T @ A @ W)
    Y = A @ W
    np.testing.assert_allclose(symmetric_tensor_from_pairs(actual.third), np.einsum("na,nb,nc->abc", Y, Y, Y))
    assert actual.triples == (A.sum(axis=1) ** 3).sum()


def test_third_moment_in_single_precision_is_that_in_double():
    # More rows than are multiplied at a time: sums over these pieces are in double precision.
    rng = np.random.default_rng(4)
    rows, W = sparse.csr_array(rng.random((3000, 8)) < 0.4), rng.standard_normal((8, 3))
    wide, narrow = (
        SecondMoments.from_block(
            rows.astype(dtype),
            whitening=W.astype(dtype),
            use_counts=False,
            exclude_self_pairs=False,
            **beside(8),
        )
        for dtype in (np.float64, np.float32)
    )
    T = symmetric_tensor_from_pairs(wide.third)
    assert narrow.third.dtype == np.float64
    np.testing.assert_allclose(symmetric_tensor_from_pairs(narrow.third), T, atol=3e-6 * np.abs(T).max())


@pytest.mark.parametrize("k", [1, 3, 6])
def test_eigenpairs_from_one_product_are_exact_for_low_rank(k):
    rng = np.random.default_rng(k)
    low, diagonal = rng.standard_normal((60, k)) @ rng.standard_normal((k, 25)), np.linspace(1.0, 60.0, 25)
    A, Omega = np.concatenate([low, np.diag(np.sqrt(diagonal))]), rng.standard_normal((25, 18))
    for product in (low.T @ (low @ Omega), A.T @ (A @ Omega) - diagonal[:, None] * Omega):
        axes, values = nystrom_eigenpairs(product, Omega, 8)
        assert len(values) == k
        np.testing.assert_allclose(values, np.linalg.svd(low, compute_uv=False)[:k] ** 2, rtol=1e-6)
        np.testing.assert_allclose(low @ axes.T @ axes, low, atol=1e-6 * np.abs(low).max())
        np.testing.assert_allclose(axes @ axes.T, np.eye(k), atol=1e-6)
