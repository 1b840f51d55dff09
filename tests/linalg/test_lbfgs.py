import numpy as np
import pytest
from scipy.optimize import minimize

from dspectral.linalg.lbfgs import AskTellLBFGS

RNG = np.random.default_rng(0)
A, S = RNG.standard_normal((60, 12)) * 3.0 ** -np.arange(12), np.sign(RNG.standard_normal(60))


def squared_hinge(x, C=30.0):
    short = np.maximum(1 - S * (A @ x), 0)
    return x @ x / 2 + C * short @ short, x - 2 * C * A.T @ (S * short)


def test_it_finds_the_least_value_as_scipy_does():
    value, gradient = squared_hinge(np.zeros(12))
    descent = AskTellLBFGS(np.zeros(12), value, gradient, step=1 / (1 + 60 * np.sum(A**2)))
    values = []
    while descent.left > 1e-8:
        descent.tell(*squared_hinge(descent.trial))
        values.append(descent.value)
        assert len(values) < 200
    assert np.all(np.diff(values) <= 1e-9)
    expected = minimize(squared_hinge, np.zeros(12), jac=True, method="BFGS", options={"gtol": 1e-10})
    np.testing.assert_allclose(descent.x, expected.x, atol=1e-7)


def test_a_step_too_far_is_taken_back():
    descent = AskTellLBFGS(np.array([1.0]), 0.5, np.array([1.0]), step=10.0)
    assert descent.trial == pytest.approx([-9.0])
    descent.tell(40.5, np.array([-9.0]))
    assert descent.x == [1.0]
    assert descent.trial == pytest.approx([0.0])
