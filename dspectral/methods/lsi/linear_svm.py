"""Linear support vector machines over blocks, one class against all others, all classes in the same passes."""

import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dspectral.engine import blas_in_one_thread, summarize
from dspectral.inputs.labels import LabelledStreams
from dspectral.linalg.lbfgs import AskTellLBFGS
from dspectral.methods.lsi.squared_hinge import Relevancy, SquaredHinge

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
    """One linear machine for each class.

    Attributes
    ----------
    axes : ndarray of float64, shape (d, L)
        Weights of the columns, for each class.
    offsets : ndarray of float64, shape (L,)
        Intercept of each class.
    n_passes : int
        Passes over the rows that training took.
    """

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
    Minimizes ``(|w|^2 + c^2) / 2 + C sum max(0, 1 - y (w'z + c))^2`` for each class, as LIBLINEAR does. Features
    of rows are never formed: with ``z = f V x``, ``w'z = f x'(V'w)``. A task holds its block, ``8 n L`` bytes for
    the n rows in it and two arrays of ``8 d L``; this process some twenty times ``8 L k``.

    References
    ----------
    Fan and others 2008, "LIBLINEAR: a library for large linear classification".
    """
    with blas_in_one_thread():
        sizes = [data.n_words] * data.n_labels if spaces is None else [len(space) for space in spaces]
        # The machines start at zero, where every row falls short of its margin by 1: the size of the gradient there is
        # the scale of the tolerance.
        points = [np.zeros(size + 1) for size in sizes]
        first = _evaluate(data, training, points, spaces, relevancy)
        # The largest curvature is at most 1 + 2 C (|X|^2 + n), so the first step along the gradient is never too long.
        steepest = 1.0 / (1.0 + 2.0 * training.C * (first.energy + data.n_rows))
        descents = [
            AskTellLBFGS(point, value, gradient, step=steepest)
            for point, value, gradient in zip(points, first.values, first.gradients, strict=True)
        ]
        # Each class stops by its own gradient at zero: classes of other sizes have gradients of other sizes.
        limits = [training.tol * descent.left for descent in descents]
        n_passes = 1
        # Each turn is one pass, which evaluates every class at its own trial point. A class that is done keeps its
        # best point (it is evaluated again, but not told), until the slowest is done as well.
        while _worst(descents, limits) > 1.0 and n_passes < training.max_iter:
            found = _evaluate(data, training, [descent.trial for descent in descents], spaces, relevancy)
            for descent, value, gradient, limit in zip(
                descents, found.values, found.gradients, limits, strict=True
            ):
                if descent.left > limit:
                    descent.tell(value, gradient)
            n_passes += 1
    if _worst(descents, limits) > 1.0:
        _warn_of_early_stop(n_passes, _worst(descents, limits), training.tol)
    axes, offsets = _to_columns([descent.x for descent in descents], spaces)
    return LinearSVMs(axes, offsets, n_passes)


class _Evaluation(NamedTuple):
    """Objective and gradient of each class at a point, and the energy of the rows."""

    values: list[float]
    gradients: list[NDArray[np.float64]]
    energy: float


def _warn_of_early_stop(n_passes: int, excess: float, tol: float) -> None:
    warnings.warn(
        f"the machines stopped after {n_passes} passes with {excess:.3g} times the gradient that tol = {tol:g} "
        "allows: raise max_iter or tol, or lower C",
        ConvergenceWarning,
        stacklevel=4,
    )


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
) -> _Evaluation:
    """Return objective and gradient of each class at its point, from one pass over the rows."""
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
    return _Evaluation(values, gradients, part.energy)
