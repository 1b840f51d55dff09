"""Linear support vector machines over blocks, one class against all others, all classes in the same passes."""

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from dspectral.estimators.label_streams import LabelledStreams, summarize_sharing
from dspectral.graph import blas_in_one_thread
from dspectral.summaries.hinge import Relevancy, SquaredHinge
from dspectral.types import FloatArray, Rows


class Training(NamedTuple):
    """How the machines are trained.

    Attributes
    ----------
    C : float
        Weight of the loss.
    tol : float
        Largest entry of the gradient at the end, in units of that at the start.
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
    """Train by L-BFGS: a pass gives the loss and the gradient of all classes.

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
    Fan and others 2008, "LIBLINEAR: a library for large linear classification"; Zhu and others 1997, algorithm 778.
    """
    n_words, n_labels = data.n_words, data.n_labels
    sizes = [n_words if spaces is None else len(spaces[j]) for j in range(n_labels)]
    cuts = np.cumsum(sizes)

    def lifted(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = np.split(theta, cuts)[:-1]
        if spaces is not None:
            parts = [space.T @ part for space, part in zip(spaces, parts, strict=True)]
        return np.ascontiguousarray(np.stack(parts, axis=1))

    def objective(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        part = _pass(data, lifted(theta), theta[cuts[-1] :], relevancy, training.fan_in)
        slopes = part.axes.T
        inside = (
            slopes if spaces is None else [space @ slope for space, slope in zip(spaces, slopes, strict=True)]
        )
        gradient = np.concatenate([*inside, part.offsets])
        return float(theta @ theta) / 2.0 + training.C * part.loss, theta + training.C * gradient

    found, n_passes = _minimum(objective, int(cuts[-1]) + n_labels, training)
    return LinearMachines(lifted(found), found[cuts[-1] :], n_passes)


def _minimum(objective: Any, size: int, training: Training) -> tuple[NDArray[np.float64], int]:
    """Return where a convex function is least, and how often it was asked."""
    with blas_in_one_thread():
        start = np.zeros(size)
        first = objective(start)
        limit = training.tol * float(np.max(np.abs(first[1]), initial=0.0))
        asked = 1

        def again(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal asked
            if asked == 1 and not theta.any():
                return first  # type: ignore[no-any-return]
            asked += 1
            return objective(theta)  # type: ignore[no-any-return]

        most = training.max_passes
        options = {"gtol": limit, "ftol": 0.0, "maxfun": most, "maxiter": most, "maxcor": 10}
        found = minimize(again, start, jac=True, method="L-BFGS-B", options=options)
    left = float(np.max(np.abs(found.jac), initial=0.0))
    if left > 10.0 * limit:
        warnings.warn(
            f"the machines stopped after {asked} passes with {left / limit:.3g} times the gradient that tol = "
            f"{training.tol:g} allows: raise max_passes or tol, or lower C",
            ConvergenceWarning,
            stacklevel=4,
        )
    return np.asarray(found.x), asked


def _pass(
    data: LabelledStreams,
    axes: NDArray[np.float64],
    offsets: NDArray[np.float64],
    relevancy: Relevancy | None,
    fan_in: int,
) -> SquaredHinge:
    shared: dict[str, FloatArray] = {"axes": axes}
    of = partial(SquaredHinge.of, offsets=offsets)
    if relevancy is not None:  # its large array travels as the other one
        shared["first"] = relevancy.axes
        of = partial(_weighted, offsets=offsets, relevancy=relevancy._replace(axes=np.zeros((0, 0))))
    part: SquaredHinge = summarize_sharing(
        data.words, data.labels, of=of, shared=shared, fan_in=fan_in, name="hinge"
    )
    return part


def _weighted(
    rows: Rows,
    members: Rows,
    *,
    axes: NDArray[np.float64],
    first: NDArray[np.float64],
    offsets: NDArray[np.float64],
    relevancy: Relevancy,
) -> SquaredHinge:
    relevancy = relevancy._replace(axes=first)
    return SquaredHinge.of(rows, members, axes=axes, offsets=offsets, relevancy=relevancy)
