"""Least squares as a classifier of thousands of dense features, in a few matrix products and factorizations."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

PENALTIES = (0.00001, 0.00005, 0.0002, 0.001, 0.004, 0.02)
"""What is tried, each a share of the trace of the Gram matrix."""
INNER_FOLDS = 3
DEGREE = 2
"""Degree of the kernel that programs offer."""
LEAST_SCALE = 1e-6
"""Deviation of a feature of unit rows below which it is constant but for rounding, and left out."""


class LeastSquares:
    """Ridge regression on each label, 1 for its own rows and else -1, its penalty chosen by cross-validation.

    Rows are scaled to unit length, then features to unit variance. A fold and a penalty cost one Cholesky
    factorization of the smaller Gram matrix, whatever the number of labels.
    """

    def __init__(self, seed: int, degree: int = 1) -> None:
        self.seed, self.degree = seed, degree

    def fit(self, rows: NDArray[Any], labels: NDArray[Any]) -> "LeastSquares":
        """Learn from labelled rows."""
        X = _unit(rows)
        deviation = X.std(axis=0)
        self.mean, self.scale = (
            X.mean(axis=0),
            np.where(deviation > LEAST_SCALE, deviation, np.float32(np.inf)),
        )
        A = self._standardized(X)
        self.labels, y = np.unique(labels, return_inverse=True)
        Y = np.where(y[:, None] == np.arange(len(self.labels)), 1.0, -1.0).astype(np.float32)
        tried = np.zeros(len(PENALTIES))
        folds = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=self.seed)
        for rest, held in folds.split(A, y):
            products = self._products(A[held], A[rest])
            shift = Y[rest].mean(axis=0)
            for i, weights in enumerate(self._solutions(A[rest], Y[rest] - shift, PENALTIES)):
                tried[i] += np.count_nonzero((products @ weights + shift).argmax(axis=1) != y[held])
        self.inner_error = float(tried.min() / len(y))
        self.penalty = PENALTIES[int(tried.argmin())]
        self.shift = Y.mean(axis=0)
        (self.weights,) = self._solutions(A, Y - self.shift, [self.penalty])
        self.known = A if self.degree > 1 else None
        return self

    def predict(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the label of each row."""
        products = self._products(self._standardized(_unit(rows)), self.known)
        return np.asarray(self.labels[(products @ self.weights + self.shift).argmax(axis=1)])

    def _standardized(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        X -= self.mean
        X /= self.scale
        return X

    def _products(self, B: NDArray[np.float32], A: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """Return what weights are of: features themselves, or the kernel with each row that was learned from."""
        return B if A is None or self.degree == 1 else kernel(B, A, self.degree)

    def _solutions(
        self, A: NDArray[np.float32], Y: NDArray[np.float32], penalties: Sequence[float]
    ) -> Iterator[NDArray[np.float32]]:
        if self.degree > 1:
            yield from solutions(kernel(A, A, self.degree), Y, penalties)
        elif A.shape[1] <= len(A):  # the smaller of the two Gram matrices is factorized
            yield from solutions(A.T @ A, A.T @ Y, penalties)
        else:
            yield from (A.T @ weights for weights in solutions(A @ A.T, Y, penalties))


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows of unit length, which the caller may write to."""
    return normalize(np.array(rows, dtype=np.float32), copy=False)


def kernel(B: NDArray[np.float32], A: NDArray[np.float32], degree: int) -> NDArray[np.float32]:
    """Return ``(1 + b @ a / d) ** degree`` for each row b of B and a of A."""
    products = B @ A.T
    products /= A.shape[1]
    products += 1.0
    products **= degree
    return products


def solutions(
    gram: NDArray[np.float32], right: NDArray[np.float32], penalties: Sequence[float]
) -> Iterator[NDArray[np.float32]]:
    """Yield the solution of the normal equations for each penalty, a share of the trace; overwrite the diagonal."""
    diagonal = gram.diagonal().copy()
    trace = diagonal.sum(dtype=np.float64)
    for penalty in penalties:
        np.fill_diagonal(gram, diagonal + np.float32(penalty * trace))
        yield cho_solve(cho_factor(gram, check_finite=False), right, check_finite=False)
