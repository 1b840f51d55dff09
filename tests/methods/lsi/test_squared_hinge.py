"""Loss and gradient of linear machines, and the rows with the highest scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import approx_fprime, minimize

from dspectral.methods.lsi.linear_svm import Relevancy, SquaredHinge, SteppedLBFGS, TopScores
from tests.strategies import cuts, split

N, D, L = 25, 6, 3
RNG = np.random.default_rng(4)
ROWS = RNG.poisson(0.6, (N, D)).astype(float)
MEMBERS = sparse.csr_array((RNG.random((N, L)) < 0.4).astype(float))
RELEVANCY = Relevancy(RNG.standard_normal((D, L)), RNG.standard_normal(L), 1.7, 0.3)


@pytest.mark.parametrize("relevancy", [None, RELEVANCY])
def test_the_gradient_is_that_of_the_loss(relevancy):
    def loss(theta):
        axes, offsets = theta[: D * L].reshape(D, L), theta[D * L :]
        f = 1.0
        if relevancy is not None:
            f = 1 / (1 + np.exp(-1.7 * (ROWS @ relevancy.axes + relevancy.offsets + 0.3)))
        margins = (2 * MEMBERS.toarray() - 1) * (f * (ROWS @ axes) + offsets)
        return np.sum(np.maximum(0, 1 - margins) ** 2)

    theta = RNG.standard_normal(D * L + L)
    axes, offsets = theta[: D * L].reshape(D, L), theta[D * L :]
    actual = SquaredHinge.from_block(sparse.csr_array(ROWS), MEMBERS, axes=axes, offsets=offsets, relevancy=relevancy)
    assert actual.loss.sum() == pytest.approx(loss(theta))
    gradient = np.concatenate([actual.axes.ravel(), actual.offsets])
    np.testing.assert_allclose(gradient, approx_fprime(theta, loss), atol=1e-3)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(borders=cuts(N), limit=st.integers(1, N))
def test_the_highest_rows_are_those_of_a_stable_sort_however_it_is_cut(borders, limit):
    whole = RELEVANCY._replace(axes=np.round(RELEVANCY.axes))  # counts and whole axes: many scores are equal
    limits = np.array([limit, 1, N])
    first, *others = [TopScores.from_block(block, relevancy=whole, limits=limits) for block in split(ROWS, borders)]
    actual = first.merge(*others)
    scores = whole.scores(ROWS)
    for j in range(L):
        expected = np.argsort(-scores[:, j], kind="stable")[: limits[j]]
        np.testing.assert_array_equal(actual.rows[j], expected)
        np.testing.assert_array_equal(actual.scores[j], scores[expected, j])


OTHER = np.random.default_rng(0)
A, S = OTHER.standard_normal((60, 12)) * 3.0 ** -np.arange(12), np.sign(OTHER.standard_normal(60))


def squared_hinge(x, C=30.0):
    short = np.maximum(1 - S * (A @ x), 0)
    return x @ x / 2 + C * short @ short, x - 2 * C * A.T @ (S * short)


def test_it_finds_the_least_value_as_scipy_does():
    value, gradient = squared_hinge(np.zeros(12))
    descent = SteppedLBFGS(np.zeros(12), value, gradient, step=1 / (1 + 60 * np.sum(A**2)))
    values = []
    while descent.gradient_norm > 1e-8:
        descent.update(*squared_hinge(descent.trial))
        values.append(descent.value)
        assert len(values) < 200
    assert np.all(np.diff(values) <= 1e-9)
    expected = minimize(squared_hinge, np.zeros(12), jac=True, method="BFGS", options={"gtol": 1e-10})
    np.testing.assert_allclose(descent.x, expected.x, atol=1e-7)
