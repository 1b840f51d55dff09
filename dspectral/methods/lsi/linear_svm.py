"""Linear support vector machines over blocks, one class against all others, all classes in the same passes."""

import warnings
from collections import deque
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from dspectral.engine import summarize
from dspectral.engine.summary import add_fields
from dspectral.inputs.labels import LabelledStreams
from dspectral.linalg import sparse_products
from dspectral.linalg.blas import blas_in_one_thread
from dspectral.linalg.block_sums import energy_of, float_rows
from dspectral.registry import Array, has_arrays, saved
from dspectral.types import FloatArray, Rows, is_sparse

PAIRS = 10
"""Steps that are remembered, with the changes of the gradient along them."""
_ARMIJO = 1e-4
"""Share of the decrease that the slope promises which a step must bring."""
_ROUNDING = 1e-14
"""Rise of the objective, relative to it, that counts as rounding."""


@has_arrays(
    {
        "axes": Array("d n_classes"),
        "offsets": Array("n_classes"),
    }
)
@saved
class Relevancy(NamedTuple):
    """Weight of a document in the space of each class: ``1 / (1 + exp(-a (x'w + c + b)))``."""

    axes: NDArray[np.float64]
    offsets: NDArray[np.float64]
    a: float
    b: float

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Return ``x'w + c`` for each row and class, shape (n, L)."""
        return products(rows, self.axes) + self.offsets

    def of_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights that belong to scores, shape (n, L)."""
        return np.asarray(expit(self.a * (scores + self.b)))

    def weights(self, rows: Rows) -> NDArray[np.float64]:
        """Return the weight of each row in each class, between 0 and 1, shape (n, L)."""
        return self.of_scores(self.scores(rows))


class SquaredHinge(NamedTuple):
    """Loss and gradient of ``sum over rows of max(0, 1 - y (f x'u + c))^2`` for each class.

    y is 1 where the row is in the class and else -1; f is the weight of the row in the class, or 1. Shapes: `loss`
    (L,); `axes` (d, L), `offsets` (L,): derivatives by u and c.
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
        """Summarize one block. Shapes: `rows` (n, d), `members` (n, L), `axes` (d, L), `offsets` (L,)."""
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
        numbers = float_rows(rows)
        if is_sparse(numbers):
            by_axis = np.asarray(sparse_products.transpose_times(numbers, slope), dtype=np.float64)
        else:
            by_axis = np.asarray(np.asarray(numbers, dtype=np.float64).T @ slope)
        return cls(rows.shape[0], energy, loss, by_axis, by_offset)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


class TopScores(NamedTuple):
    """Numbers and scores of the rows with the ``limits`` (L,) highest scores of each class, highest first."""

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


Spaces = list[NDArray[np.float64]]
"""Axes of each class's space, shape ``(k_c, d)`` each."""


class Training(NamedTuple):
    """Settings of the training.

    Attributes
    ----------
    C : float
        Weight of the loss against the penalty.
    tol : float
        Largest entry of each class's gradient at the end, divided by that at the start.
    max_iter : int
        Number of passes that training may take.
    """

    C: float
    tol: float = 1e-4
    max_iter: int = 1000


class LinearSVMs(NamedTuple):
    """One linear machine for each class, and the passes that training took. Shapes: `axes` (d, L), `offsets` (L,)."""

    axes: NDArray[np.float64]
    offsets: NDArray[np.float64]
    n_passes: int


def train_linear_svms(
    data: LabelledStreams,
    training: Training,
    *,
    spaces: Spaces | None = None,
    relevancy: Relevancy | None = None,
) -> LinearSVMs:
    """Train by L-BFGS, each class by its own, in the same passes: one gives the losses and gradients of all.

    Parameters
    ----------
    data : LabelledStreams
        Rows, and for each row which classes it is in.
    training : Training
        Weight of the loss, and when to stop.
    spaces : list of ndarray, shape (k_c, d), optional
        Axes of the space in which each class's machine is trained; by default all columns.
    relevancy : Relevancy, optional
        Weights of each row in each class, by which it is multiplied before it is folded in.

    Returns
    -------
    LinearSVMs
        Machines whose ``axes`` are already taken back from each class's space to columns.

    Notes
    -----
    Minimizes ``(|w|^2 + c^2) / 2 + C sum max(0, 1 - y (w'z + c))^2`` for each class, as LIBLINEAR does. A task holds
    its block, ``8 n L`` bytes for the n rows in it and two arrays of ``8 d L``.

    References
    ----------
    Fan and others 2008, "LIBLINEAR: a library for large linear classification".
    """
    with blas_in_one_thread():
        sizes = [data.n_words] * data.n_labels if spaces is None else [len(space) for space in spaces]
        # The machines start at zero, where every row falls short of its margin by 1: the size of the gradient there is
        # the scale of the tolerance.
        points = [np.zeros(size + 1) for size in sizes]
        values, gradients, energy = _evaluate(data, training, points, spaces, relevancy)
        # The largest curvature is at most 1 + 2 C (|X|^2 + n), so the first step along the gradient is never too long.
        steepest = 1.0 / (1.0 + 2.0 * training.C * (energy + data.n_rows))
        descents = [
            AskTellLBFGS(point, value, gradient, step=steepest)
            for point, value, gradient in zip(points, values, gradients, strict=True)
        ]
        # Each class stops by its own gradient at zero: classes of other sizes have gradients of other sizes.
        limits = [training.tol * descent.left for descent in descents]
        n_passes = 1
        # Each turn is one pass, which evaluates every class at its own trial point. A class that is done keeps its
        # best point (it is evaluated again, but not told), until the slowest is done as well.
        while _worst(descents, limits) > 1.0 and n_passes < training.max_iter:
            trials = [descent.trial for descent in descents]
            values, gradients, _ = _evaluate(data, training, trials, spaces, relevancy)
            for descent, value, gradient, limit in zip(descents, values, gradients, limits, strict=True):
                if descent.left > limit:
                    descent.tell(value, gradient)
            n_passes += 1
    if (excess := _worst(descents, limits)) > 1.0:
        warnings.warn(
            f"the machines stopped after {n_passes} passes with {excess:.3g} times the gradient that "
            f"tol = {training.tol:g} allows: raise tol, or lower C",
            ConvergenceWarning,
            stacklevel=3,
        )
    axes, offsets = _to_columns([descent.x for descent in descents], spaces)
    return LinearSVMs(axes, offsets, n_passes)


class AskTellLBFGS:
    """Minimize one smooth, strongly convex function whose values a caller computes.

    Ask for :attr:`trial`, evaluate the function there, and :meth:`tell` the result; repeat until :attr:`left` is
    small. `x, value, gradient`: best point so far, with its objective and gradient; `trial` (p,): point at which the
    function is to be evaluated next. Nocedal and Wright 2006, "Numerical optimization", algorithms 7.4 and 3.1.
    Shapes: `x` (p,), `gradient` (p,).

    >>> curvature = np.array([1.0, 10.0, 100.0])
    >>> search = AskTellLBFGS(np.ones(3), 55.5, curvature, step=0.01)
    >>> for _ in range(20):
    ...     x = search.trial
    ...     search.tell(float(curvature @ x**2) / 2, curvature * x)
    >>> search.left < 1e-6
    True
    """

    def __init__(
        self, x: NDArray[np.float64], value: float, gradient: NDArray[np.float64], *, step: float
    ) -> None:
        self.x, self.value, self.gradient = x, value, gradient
        self._scale, self._part = step, 1.0
        self._pairs: deque[tuple[NDArray[np.float64], NDArray[np.float64], float]] = deque(maxlen=PAIRS)
        self._set_direction()

    @property
    def left(self) -> float:
        """Largest entry of the gradient in magnitude."""
        return float(np.max(np.abs(self.gradient), initial=0.0))

    def tell(self, value: float, gradient: NDArray[np.float64]) -> None:
        """Report the objective at ``trial``, and so choose the next trial point.

        If the Armijo condition holds, the point is accepted and a new L-BFGS direction computed; otherwise the step
        is shortened by parabolic interpolation, clipped to [0.1, 0.5] of the last. Shapes: `gradient` (p,).
        """
        slope = float(self._direction @ self.gradient)
        # Near the minimum the objective changes by less than its own rounding: without the slack no step would be
        # taken any more.
        slack = _ROUNDING * abs(self.value)
        if value > self.value + _ARMIJO * self._part * slope + slack:
            # Minimum of the parabola through the value and slope at x and the value at the trial point.
            rise = value - self.value - self._part * slope
            best = -slope * self._part**2 / (2.0 * rise)
            self._part = min(max(best, 0.1 * self._part), 0.5 * self._part)
            self.trial = self.x + self._part * self._direction
            return
        moved, changed = self.trial - self.x, gradient - self.gradient
        along = float(moved @ changed)
        if along > 0:  # true for a convex function, but for rounding
            self._pairs.append((moved, changed, along))
            self._scale = along / float(changed @ changed)
        self.x, self.value, self.gradient = self.trial, value, gradient
        self._set_direction()

    def _set_direction(self) -> None:
        """Multiply minus the gradient by the inverse Hessian that the remembered pairs imply (two-loop recursion)."""
        # Two loops over at most PAIRS pairs, `4 p` flops for each in either. The first, newest pair first, subtracts
        # multiples of the changes of the gradient; the second, oldest first, adds multiples of the steps. Between them
        # `_scale` stands for the inverse Hessian in all directions that no pair has seen.
        direction = -self.gradient
        shares = []
        for moved, changed, along in reversed(self._pairs):
            shares.append(float(moved @ direction) / along)
            direction = direction - shares[-1] * changed
        direction = self._scale * direction
        for (moved, changed, along), share in zip(self._pairs, reversed(shares), strict=True):
            direction = direction + (share - float(changed @ direction) / along) * moved
        self._direction, self._part = direction, 1.0
        self.trial = self.x + direction


def _worst(descents: list[AskTellLBFGS], limits: list[float]) -> float:
    """Return the largest gradient that a class has left, divided by what is allowed for it."""
    return max(
        descent.left / limit if limit else 0.0 for descent, limit in zip(descents, limits, strict=True)
    )


def _to_columns(
    points: list[NDArray[np.float64]], spaces: Spaces | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weights of columns, shape (d, L), and intercepts, the last entries of the points."""
    # A machine in a space is one of columns: w'(V x) = (V'w)'x, so passes need not know the spaces.
    parts = [point[:-1] for point in points]
    if spaces is not None:
        parts = [space.T @ part for space, part in zip(spaces, parts, strict=True)]
    return np.ascontiguousarray(np.stack(parts, axis=1)), np.array([point[-1] for point in points])


def _evaluate(
    data: LabelledStreams,
    training: Training,
    points: list[NDArray[np.float64]],
    spaces: Spaces | None,
    relevancy: Relevancy | None,
) -> tuple[list[float], list[NDArray[np.float64]], float]:
    """Return objective and gradient of each class at its point, from one pass, and the energy of the rows."""
    axes, offsets = _to_columns(points, spaces)
    of = partial(SquaredHinge.of, axes=axes, offsets=offsets, relevancy=relevancy)
    part = summarize(data.words, data.labels, of=of, name="hinge")
    values, gradients = [], []
    for j, point in enumerate(points):
        # By the chain rule the gradient in a space is V times the gradient in columns.
        slope = part.axes[:, j] if spaces is None else spaces[j] @ part.axes[:, j]
        # The last entry of a point is its intercept, which is penalized as well: LIBLINEAR's choice.
        values.append(float(point @ point) / 2.0 + training.C * float(part.loss[j]))
        gradients.append(point + training.C * np.append(slope, part.offsets[j]))
    return values, gradients, part.energy
