"""Linear one-vs-rest support vector machines over blocks; all classes share the passes."""

import warnings
from collections import deque
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from dspectral.engine import summarize
from dspectral.engine.summary import add_fields
from dspectral.inputs.labels import LabeledStreams
from dspectral.linalg import sparse_products
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.linalg.block_sums import compute_energy, to_float_rows
from dspectral.registry import register_class
from dspectral.types import Doubles, FloatArray, Int64s, Rows, is_sparse

MAX_PAIRS = 10
"""Number of stored pairs of a step and its gradient change."""
_ARMIJO = 1e-4
"""Armijo constant: a step must achieve this share of the linear decrease."""
_ROUNDING = 1e-14
"""Relative increase of the objective that counts as rounding."""


@register_class({"axes": "d n_classes", "offsets": "n_classes"})
class Relevancy(NamedTuple):
    """Logistic weight of a document in the space of each class: ``1 / (1 + exp(-a (x'w + c + b)))``."""

    axes: Doubles
    offsets: Doubles
    a: float
    b: float

    def scores(self, rows: Rows) -> Doubles:
        """Return ``x'w + c`` for each row and class, shape (n, L)."""
        return multiply_rows(rows, self.axes) + self.offsets

    def weights_from_scores(self, scores: Doubles) -> Doubles:
        """Return the weights for given scores, shape (n, L)."""
        return expit(self.a * (scores + self.b))

    def weights(self, rows: Rows) -> Doubles:
        """Return the weight of each row in each class, between 0 and 1, shape (n, L)."""
        return self.weights_from_scores(self.scores(rows))


class SquaredHinge(NamedTuple):
    """Loss and gradient of ``sum over rows of max(0, 1 - y (f x'u + c))^2`` for each class.

    y is 1 where the row is in the class and else -1; f is the weight of the row in the class, or 1. Shapes: `loss`
    (L,); `axes` (d, L), `offsets` (L,): derivatives with respect to u and c.
    """

    n_rows: int
    energy: float
    loss: Doubles
    axes: Doubles
    offsets: Doubles

    @classmethod
    def from_block(
        cls,
        rows: Rows,
        members: Rows,
        *,
        axes: Doubles,
        offsets: Doubles,
        relevancy: Relevancy | None = None,
    ) -> Self:
        """Summarize one block. Shapes: `rows` (n, d), `members` (n, L), `axes` (d, L), `offsets` (L,)."""
        # With h = max(0, 1 - y (f x'u + c)), the loss is sum h^2; its derivatives are sum -2 y h with respect to c, and
        # sum -2 y h f x with respect to u. One product with the rows and one with their transpose serve all classes.
        # Cost: 4 nnz L operations (twice that with relevancies), four arrays of n x L numbers.
        energy = compute_energy(rows)
        weights = None if relevancy is None else relevancy.weights(rows)
        scores = multiply_rows(rows, axes)
        if weights is not None:
            scores *= weights
        scores += offsets
        signs = np.full(scores.shape, -1.0)  # y of each row and class: one class against all others
        signs[(members.toarray() if is_sparse(members) else members) != 0] = 1.0
        shortfall = np.maximum(1.0 - signs * scores, 0.0)
        slope = -2.0 * signs * shortfall
        # The weight f does not multiply the intercept, so the derivative by c is summed first.
        by_offset = slope.sum(axis=0)
        if weights is not None:
            slope *= weights
        loss = np.einsum("ij,ij->j", shortfall, shortfall)
        numbers = to_float_rows(rows)
        if is_sparse(numbers):
            by_axis = np.asarray(sparse_products.transpose_times(numbers, slope), dtype=np.float64)
        else:
            by_axis = np.asarray(np.asarray(numbers, dtype=np.float64).T @ slope)
        return cls(rows.shape[0], energy, loss, by_axis, by_offset)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


class TopScores(NamedTuple):
    """Row numbers and scores of the ``limits`` (L,) best rows of each class, highest score first."""

    n_rows: int
    limits: Int64s
    rows: tuple[Int64s, ...]
    scores: tuple[Doubles, ...]

    @classmethod
    def from_block(cls, rows: Rows, *, relevancy: Relevancy, limits: Int64s) -> Self:
        """Summarize one block, csr_array or ndarray, shape (n, d)."""
        compute_energy(rows)  # raises on NaN or infinity
        scores = relevancy.scores(rows)
        # A stable sort of negated scores keeps equal scores in row order; reversing a sort would not.
        order = [np.argsort(-scores[:, j], kind="stable")[:limit] for j, limit in enumerate(limits)]
        return cls(len(scores), limits, tuple(order), tuple(scores[p, j] for j, p in enumerate(order)))

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        summaries = (self, *others)
        # Row numbers count from the start of each summary. A stable sort keeps equal scores in row order, so the
        # result does not depend on the blocks.
        starts = np.cumsum([0, *(part.n_rows for part in summaries)])
        rows, scores = [], []
        for j, limit in enumerate(self.limits):
            numbers = np.concatenate([part.rows[j] + start for part, start in zip(summaries, starts, strict=False)])
            values = np.concatenate([part.scores[j] for part in summaries])
            best = np.argsort(-values, kind="stable")[:limit]
            rows.append(numbers[best])
            scores.append(values[best])
        return type(self)(int(starts[-1]), self.limits, tuple(rows), tuple(scores))


def multiply_rows(rows: Rows, axes: FloatArray) -> Doubles:
    """Return ``rows @ axes`` in double precision, for rows of any numeric dtype."""
    rows = to_float_rows(rows)
    if is_sparse(rows):
        axes = np.asarray(axes, dtype=np.float64)
        return np.asarray(sparse_products.times(rows, axes), dtype=np.float64)
    return np.asarray(rows, dtype=np.float64) @ axes


Spaces = list[Doubles]
"""Axes of each class's space, shape ``(k_c, d)`` each."""


class LinearSVMs(NamedTuple):
    """One linear SVM for each class, and the number of training passes. Shapes: `axes` (d, L), `offsets` (L,)."""

    axes: Doubles
    offsets: Doubles
    n_passes: int


def train_linear_svms(
    data: LabeledStreams,
    C: float,
    tol: float = 1e-4,
    max_iter: int = 1000,
    *,
    spaces: Spaces | None = None,
    relevancy: Relevancy | None = None,
) -> LinearSVMs:
    """Train one SVM for each class by L-BFGS; each pass computes the losses and gradients of all classes.

    Parameters
    ----------
    data : LabeledStreams
        Rows, and an indicator of the classes of each row.
    C : float
        Weight of the loss against the penalty.
    tol : float, default=1e-4
        Training stops when the gradient's largest entry falls below this share of its initial value.
    max_iter : int, default=1000
        Maximum number of passes.
    spaces : list of ndarray, shape (k_c, d), optional
        Axes of the space in which each class's SVM is trained; by default all columns.
    relevancy : Relevancy, optional
        Weights of each row in each class, which multiply the row before projection.

    Returns
    -------
    LinearSVMs
        SVMs with ``axes`` in terms of the columns of X.

    Notes
    -----
    Minimizes ``(|w|^2 + c^2) / 2 + C sum max(0, 1 - y (w'z + c))^2`` for each class, as LIBLINEAR does. A task holds
    its block, ``8 n L`` bytes for its n rows and two arrays of ``8 d L``.

    References
    ----------
    Fan and others 2008, "LIBLINEAR: a library for large linear classification".
    """
    with blas_in_one_thread():
        sizes = [data.n_words] * data.n_labels if spaces is None else [len(space) for space in spaces]
        # All SVMs start at zero; the gradient there scales the tolerance.
        points = [np.zeros(size + 1) for size in sizes]
        values, gradients, energy = _evaluate(data, C, points, spaces, relevancy)
        # The curvature is at most 1 + 2 C (|X|^2 + n), so this first step along the gradient cannot overshoot.
        first_step = 1.0 / (1.0 + 2.0 * C * (energy + data.n_rows))
        starts = zip(points, values, gradients, strict=True)
        descents = [SteppedLBFGS(*start, step=first_step) for start in starts]
        # Gradients scale with the size of a class, so each class has its own tolerance.
        limits = [tol * descent.gradient_norm for descent in descents]
        n_passes = 1
        # Each iteration is one pass, which evaluates every class at its own trial point. A converged class keeps its
        # best point until all have converged.
        while _max_gradient_ratio(descents, limits) > 1.0 and n_passes < max_iter:
            trials = [descent.trial for descent in descents]
            values, gradients, _ = _evaluate(data, C, trials, spaces, relevancy)
            for descent, value, gradient, limit in zip(descents, values, gradients, limits, strict=True):
                if descent.gradient_norm > limit:
                    descent.update(value, gradient)
            n_passes += 1
    if (excess := _max_gradient_ratio(descents, limits)) > 1.0:
        warnings.warn(
            f"the SVMs did not converge within {n_passes} passes: the gradient is {excess:.3g} times the limit of "
            f"tol={tol:g}; increase tol or decrease C",
            ConvergenceWarning,
            stacklevel=3,
        )
    axes, offsets = _unpack_weights([descent.x for descent in descents], spaces)
    return LinearSVMs(axes, offsets, n_passes)


class SteppedLBFGS:
    """Minimize one smooth, strongly convex function whose values a caller computes.

    The caller evaluates the function at :attr:`trial` and passes the result to :meth:`update`, until
    :attr:`gradient_norm` is small. `x` (p,), `value`, `gradient` (p,): best point so far, its objective and gradient;
    `trial` (p,): next point to evaluate. Nocedal and Wright 2006, "Numerical optimization", algorithms 7.4 and 3.1.

    >>> curvature = np.array([1.0, 10.0, 100.0])
    >>> search = SteppedLBFGS(np.ones(3), 55.5, curvature, step=0.01)
    >>> for _ in range(20):
    ...     x = search.trial
    ...     search.update(float(curvature @ x**2) / 2, curvature * x)
    >>> search.gradient_norm < 1e-6
    True
    """

    def __init__(self, x: Doubles, value: float, gradient: Doubles, *, step: float) -> None:
        self.x, self.value, self.gradient = x, value, gradient
        self._scale, self._step_size = step, 1.0
        self._pairs: deque[tuple[Doubles, Doubles, float]] = deque(maxlen=MAX_PAIRS)
        self._set_direction()

    @property
    def gradient_norm(self) -> float:
        """Largest entry of the gradient in magnitude."""
        return float(np.max(np.abs(self.gradient), initial=0.0))

    def update(self, value: float, gradient: Doubles) -> None:
        """Take the objective and gradient (p,) at ``trial`` and set the next trial point.

        If the Armijo condition holds, the point is accepted and a new L-BFGS direction computed. Otherwise the step
        is shortened by parabolic interpolation, clipped to [0.1, 0.5] of the last.
        """
        slope = float(self._direction @ self.gradient)
        # Near the minimum the objective changes by less than its rounding; without slack every step would be rejected.
        slack = _ROUNDING * abs(self.value)
        if value > self.value + _ARMIJO * self._step_size * slope + slack:
            # Minimum of the parabola through the value and slope at x and the value at the trial point.
            rise = value - self.value - self._step_size * slope
            best = -slope * self._step_size**2 / (2.0 * rise)
            self._step_size = min(max(best, 0.1 * self._step_size), 0.5 * self._step_size)
            self.trial = self.x + self._step_size * self._direction
            return
        step, gradient_change = self.trial - self.x, gradient - self.gradient
        curvature = float(step @ gradient_change)
        if curvature > 0:  # always true for a convex function, except for rounding
            self._pairs.append((step, gradient_change, curvature))
            self._scale = curvature / float(gradient_change @ gradient_change)
        self.x, self.value, self.gradient = self.trial, value, gradient
        self._set_direction()

    def _set_direction(self) -> None:
        """Set the direction: minus the L-BFGS inverse Hessian times the gradient (two-loop recursion)."""
        # Two loops over at most PAIRS pairs, `4 p` flops for each. The first, newest pair first, subtracts multiples
        # of the gradient changes; the second, oldest first, adds multiples of the steps. In between, `_scale`
        # approximates the inverse Hessian in directions outside the pairs.
        direction = -self.gradient
        shares = []
        for step, gradient_change, curvature in reversed(self._pairs):
            shares.append(float(step @ direction) / curvature)
            direction = direction - shares[-1] * gradient_change
        direction = self._scale * direction
        for (step, gradient_change, curvature), share in zip(self._pairs, reversed(shares), strict=True):
            direction = direction + (share - float(gradient_change @ direction) / curvature) * step
        self._direction, self._step_size = direction, 1.0
        self.trial = self.x + direction


def _max_gradient_ratio(descents: list[SteppedLBFGS], limits: list[float]) -> float:
    """Return the largest ratio of a class's gradient norm to its limit."""
    return max(descent.gradient_norm / limit if limit else 0.0 for descent, limit in zip(descents, limits, strict=True))


def _unpack_weights(points: list[Doubles], spaces: Spaces | None) -> tuple[Doubles, Doubles]:
    """Return column weights, shape (d, L), and intercepts, the last entries of the points."""
    # Weights in a space translate to columns by w'(V x) = (V'w)'x, so tasks never need the spaces.
    weights = [point[:-1] for point in points]
    if spaces is not None:
        weights = [space.T @ part for space, part in zip(spaces, weights, strict=True)]
    return np.ascontiguousarray(np.stack(weights, axis=1)), np.array([point[-1] for point in points])


def _evaluate(
    data: LabeledStreams,
    C: float,
    points: list[Doubles],
    spaces: Spaces | None,
    relevancy: Relevancy | None,
) -> tuple[list[float], list[Doubles], float]:
    """Return objective and gradient of each class at its point, and the energy of the rows, from one pass."""
    axes, offsets = _unpack_weights(points, spaces)
    summarize_block = partial(SquaredHinge.from_block, axes=axes, offsets=offsets, relevancy=relevancy)
    summary = summarize(data.words, data.labels, summarize_block=summarize_block, name="hinge")
    values, gradients = [], []
    for j, point in enumerate(points):
        # Chain rule: the gradient in a space is V times the gradient in columns.
        slope = summary.axes[:, j] if spaces is None else spaces[j] @ summary.axes[:, j]
        # The intercept, the last entry of a point, is penalized too, as in LIBLINEAR.
        values.append(float(point @ point) / 2.0 + C * float(summary.loss[j]))
        gradients.append(point + C * np.append(slope, summary.offsets[j]))
    return values, gradients, summary.energy
