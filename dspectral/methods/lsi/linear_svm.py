"""Linear support vector machines over blocks, one class against all others, all classes in the same passes."""

import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dspectral.engine import blas_in_one_thread, summarize
from dspectral.inputs.labelled_rows import LabelledStreams
from dspectral.linalg.lbfgs import AskTellLBFGS
from dspectral.methods.lsi.squared_hinge import Relevancy, SquaredHinge


class Training(NamedTuple):
    """How the machines are trained.

    Attributes
    ----------
    C : float
        Weight of the loss.
    tol : float
        Largest entry of each class's gradient at the end, in units of that at the start.
    max_passes : int
    fan_in : int
    """

    C: float
    tol: float
    max_passes: int
    fan_in: int


class LinearMachines(NamedTuple):
    """One machine a class.

    Attributes
    ----------
    axes : ndarray of float64, shape (d, L)
    offsets : ndarray of float64, shape (L,)
    n_passes : int
    """

    axes: NDArray[np.float64]
    offsets: NDArray[np.float64]
    n_passes: int


def linear_machines(
    data: LabelledStreams,
    training: Training,
    *,
    spaces: list[NDArray[np.float64]] | None = None,
    relevancy: Relevancy | None = None,
) -> LinearMachines:
    """Train by L-BFGS, each class by its own, in the same passes: one gives the losses and gradients of all.

    Parameters
    ----------
    data : LabelledStreams
    training : Training
    spaces : list of ndarray, shape (k_c, d), optional
        Axes of the space in which each class's machine is trained; by default all columns.
    relevancy : Relevancy, optional
        Weighs each row in each class before it is folded in.

    Returns
    -------
    LinearMachines
        With ``axes`` already taken back from each class's space to columns.

    Notes
    -----
    Minimises ``(|w|^2 + c^2) / 2 + C sum max(0, 1 - y (w'z + c))^2`` for each class, as LIBLINEAR does. Features
    of rows are never formed: with ``z = f V x``, ``w'z = f x'(V'w)``. A task holds its block, ``8 n L`` bytes for
    the n rows in it and two arrays of ``8 d L``; this process some twenty times ``8 L k``.

    References
    ----------
    Fan and others 2008, "LIBLINEAR: a library for large linear classification".
    """
    with blas_in_one_thread():
        sizes = [data.n_words] * data.n_labels if spaces is None else [len(space) for space in spaces]
        points = [np.zeros(size + 1) for size in sizes]
        first = _evaluated(data, training, points, spaces, relevancy)
        steepest = 1.0 / (1.0 + 2.0 * training.C * (first.energy + data.n_rows))
        descents = [
            AskTellLBFGS(point, value, gradient, step=steepest)
            for point, value, gradient in zip(points, first.values, first.gradients, strict=True)
        ]
        limits = [training.tol * descent.left for descent in descents]
        n_passes = 1
        while _worst(descents, limits) > 1.0 and n_passes < training.max_passes:
            found = _evaluated(data, training, [descent.trial for descent in descents], spaces, relevancy)
            for descent, value, gradient, limit in zip(
                descents, found.values, found.gradients, limits, strict=True
            ):
                if descent.left > limit:
                    descent.tell(value, gradient)
            n_passes += 1
    if _worst(descents, limits) > 1.0:
        warnings.warn(
            f"the machines stopped after {n_passes} passes with {_worst(descents, limits):.3g} times the gradient that "
            f"tol = {training.tol:g} allows: raise max_passes or tol, or lower C",
            ConvergenceWarning,
            stacklevel=3,
        )
    axes, offsets = _lifted([descent.x for descent in descents], spaces)
    return LinearMachines(axes, offsets, n_passes)


class _Evaluated(NamedTuple):
    """Each class's objective at a point, and its gradient; and the energy of the rows."""

    values: list[float]
    gradients: list[NDArray[np.float64]]
    energy: float


def _worst(descents: list[AskTellLBFGS], limits: list[float]) -> float:
    """Return how far the class that is furthest from its end is, in units of what is allowed."""
    return max(
        descent.left / limit if limit else 0.0 for descent, limit in zip(descents, limits, strict=True)
    )


def _lifted(
    points: list[NDArray[np.float64]], spaces: list[NDArray[np.float64]] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return axes, shape (d, L), and offsets, which are the last entries."""
    parts = [point[:-1] for point in points]
    if spaces is not None:
        parts = [space.T @ part for space, part in zip(spaces, parts, strict=True)]
    return np.ascontiguousarray(np.stack(parts, axis=1)), np.array([point[-1] for point in points])


def _evaluated(
    data: LabelledStreams,
    training: Training,
    points: list[NDArray[np.float64]],
    spaces: list[NDArray[np.float64]] | None,
    relevancy: Relevancy | None,
) -> _Evaluated:
    """Return what one pass says of each class."""
    part = _pass(data, *_lifted(points, spaces), relevancy, training.fan_in)
    values, gradients = [], []
    for j, point in enumerate(points):
        slope = part.axes[:, j] if spaces is None else spaces[j] @ part.axes[:, j]
        values.append(float(point @ point) / 2.0 + training.C * float(part.loss[j]))
        gradients.append(point + training.C * np.append(slope, part.offsets[j]))
    return _Evaluated(values, gradients, part.energy)


def _pass(
    data: LabelledStreams,
    axes: NDArray[np.float64],
    offsets: NDArray[np.float64],
    relevancy: Relevancy | None,
    fan_in: int,
) -> SquaredHinge:
    of = partial(SquaredHinge.of, axes=axes, offsets=offsets, relevancy=relevancy)
    return summarize(data.words, data.labels, of=of, fan_in=fan_in, name="hinge")
