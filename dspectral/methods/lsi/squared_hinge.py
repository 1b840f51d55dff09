"""Summaries of rows for linear classifiers with the squared hinge loss, one class against all others."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dspectral.engine.summary import add_fields
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of, float_rows
from dspectral.registry import saved
from dspectral.types import FloatArray, Rows, is_sparse


@saved
class Relevancy(NamedTuple):
    """Weight of a document in the space of each class: ``1 / (1 + exp(-a (x'w + c + b)))``.

    Attributes
    ----------
    axes : ndarray of float64, shape (d, L)
        Vector w of each class.
    offsets : ndarray of float64, shape (L,)
        Intercept c of each class.
    a : float
        Slope of the weights, above 0.
    b : float
        Shift of the weights.
    """

    axes: NDArray[np.float64]
    offsets: NDArray[np.float64]
    a: float
    b: float

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Return ``x'w + c`` for each row and class, shape (n, L).

        Parameters
        ----------
        rows : csr_array or ndarray, shape (n, d)
            One block of rows.

        Returns
        -------
        ndarray of float64, shape (n, L)
            Score of each row for each class.
        """
        return products(rows, self.axes) + self.offsets

    def of_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights that belong to scores.

        Parameters
        ----------
        scores : ndarray of float64, shape (n, L)
            Score of each row for each class.

        Returns
        -------
        ndarray of float64, shape (n, L)
            Weights between 0 and 1.
        """
        return np.asarray(expit(self.a * (scores + self.b)))

    def weights(self, rows: Rows) -> NDArray[np.float64]:
        """Return the weight of each row in each class, shape (n, L).

        Parameters
        ----------
        rows : csr_array or ndarray, shape (n, d)
            One block of rows.

        Returns
        -------
        ndarray of float64, shape (n, L)
            Weights between 0 and 1.
        """
        return self.of_scores(self.scores(rows))


class SquaredHinge(NamedTuple):
    """Loss and gradient of ``sum over rows of max(0, 1 - y (f x'u + c))^2`` for each class.

    y is 1 where the row is in the class and else -1; f is the weight of the row in the class, or 1.

    `n_rows`: number of rows; `energy`: squared Frobenius norm of the rows; `loss` (L,): loss of each class;
    `axes` (d, L): derivative of each class's loss by its u; `offsets` (L,): derivative of each class's loss
    by its c.
    """

    n_rows: int
    energy: float
    loss: NDArray[np.float64]
    axes: NDArray[np.float64]
    offsets: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        rows: Rows,
        members: Rows,
        *,
        axes: NDArray[np.float64],
        offsets: NDArray[np.float64],
        relevancy: Relevancy | None = None,
    ) -> Self:
        """Summarize one block.

        Shapes: `rows` (n, d), `members` (n, L), `axes` (d, L), `offsets` (L,).
        """
        # With the margin's shortfall h = max(0, 1 - y (f x'u + c)), the loss is sum h^2, its derivative by c is
        # sum -2 y h, and by u it is sum -2 y h f x: one product with the rows and one with their transpose give
        # all classes. Cost: 4 nnz L operations (twice that with relevancies), four arrays of n x L numbers.
        energy = energy_of(rows)
        weights = None if relevancy is None else relevancy.weights(rows)
        scores = products(rows, axes)
        if weights is not None:
            scores *= weights
        scores += offsets
        signs = np.full(scores.shape, -1.0)  # y of each row and class: one class against all others
        signs[(members.toarray() if is_sparse(members) else members) != 0] = 1.0
        short = np.maximum(1.0 - signs * scores, 0.0)
        slope = -2.0 * signs * short
        # The intercept is not multiplied by the weight f, so its derivative is summed before the slope takes that
        # factor.
        by_offset = slope.sum(axis=0)
        if weights is not None:
            slope *= weights
        loss = np.einsum("ij,ij->j", short, short)
        return cls(rows.shape[0], energy, loss, _transpose_products(rows, slope), by_offset)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


class TopScores(NamedTuple):
    """The rows with the highest scores of each class, equal ones in their order.

    `n_rows`: number of rows seen; `limits` (L,): number of rows wanted for each class; `rows`: for each class
    the numbers of its rows, highest score first; `scores`: for each class the scores of those rows.
    """

    n_rows: int
    limits: NDArray[np.int64]
    rows: tuple[NDArray[np.int64], ...]
    scores: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, rows: Rows, *, relevancy: Relevancy, limits: NDArray[np.int64]) -> Self:
        """Summarize one block, csr_array or ndarray, shape (n, d)."""
        energy_of(rows)  # names an entry that is not finite
        scores = relevancy.scores(rows)
        # Scores are negated before a stable sort, since a reversed stable sort would put equal scores in reverse order.
        places = [np.argsort(-scores[:, j], kind="stable")[:limit] for j, limit in enumerate(limits)]
        return cls(len(scores), limits, tuple(places), tuple(scores[p, j] for j, p in enumerate(places)))

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        parts = (self, *others)
        # Row numbers count from the start of each part. A stable sort of parts in row order keeps equal scores in
        # row order, so the result does not depend on where the rows were cut.
        starts = np.cumsum([0, *(part.n_rows for part in parts)])
        rows, scores = [], []
        for j, limit in enumerate(self.limits):
            numbers = np.concatenate(
                [part.rows[j] + start for part, start in zip(parts, starts, strict=False)]
            )
            values = np.concatenate([part.scores[j] for part in parts])
            best = np.argsort(-values, kind="stable")[:limit]
            rows.append(numbers[best])
            scores.append(values[best])
        return type(self)(int(starts[-1]), self.limits, tuple(rows), tuple(scores))


def products(rows: Rows, axes: FloatArray) -> NDArray[np.float64]:
    """Return ``rows @ axes`` in double precision, for rows of any type of numbers."""
    rows = float_rows(rows)
    if is_sparse(rows):
        axes = np.asarray(axes, dtype=np.float64)
        return np.asarray(sparse_products.times(rows, axes), dtype=np.float64)
    return np.asarray(rows, dtype=np.float64) @ axes


def _transpose_products(rows: Rows, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``rows' @ right`` in double precision, for rows of any type of numbers."""
    rows = float_rows(rows)
    if is_sparse(rows):
        return np.asarray(sparse_products.transpose_times(rows, right), dtype=np.float64)
    return np.asarray(np.asarray(rows, dtype=np.float64).T @ right)
