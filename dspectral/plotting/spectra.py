"""Plots of singular values and their error bounds."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.spectrum import Certificate
from dspectral.plotting.style import BLUE, GREEN, ORANGE, finish_axes, get_axes

_ROUNDING = 1e-9
"""Relative error below which a result counts as exact up to rounding."""


class Scree(NamedTuple):
    """Lower bounds on the squared singular values (k,), descending, their error bound, and the total energy."""

    values: NDArray[np.float64]
    energy: float
    energy_known: bool
    error: float | None


def plot_spectrum(model: Any, ax: Axes | None = None) -> Axes:
    """Plot the singular values of a model, intervals that hold the true ones, and their cumulative share of the energy.

    Parameters
    ----------
    model : estimator, summary or array-like
        A fitted model with ``singular_values_``, a Frequent Directions sketch, or singular values in descending order.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        Axes of the singular values, with a logarithmic scale; shares have a second axis at the right.

    Raises
    ------
    TypeError
        If the model has no singular values.
    ValueError
        If there is no singular value above zero.

    Examples
    --------
    >>> plot_spectrum([3.0, 2.0, 1.0]).get_ylabel()
    'singular value'
    """
    scree = compute_scree(model)
    ax = get_axes(ax)
    number = np.arange(1, len(scree.values) + 1)
    is_positive = scree.values > 0  # a logarithmic axis has no zero
    marker = "o" if len(number) <= 60 else None
    ax.semilogy(number[is_positive], np.sqrt(scree.values[is_positive]), color=BLUE, marker=marker, markersize=4)
    if (intervals := getattr(model, "singular_value_intervals_", None)) is not None:
        low, high = np.maximum(intervals[is_positive], ax.get_ylim()[0]).T
        ax.fill_between(number[is_positive], low, high, color=BLUE, alpha=0.2, linewidth=0)
    finish_axes(ax, ylabel="singular value")
    ax.yaxis.label.set_color(BLUE)
    shares = ax.twinx()
    shares.plot(number, np.cumsum(scree.values) / scree.energy, color=GREEN, linestyle="--")
    shares.set_ylim(0, 1.02)
    shares.yaxis.set_major_formatter(PercentFormatter(1.0))
    total = "all rows" if scree.energy_known else "these values"
    shares.set_ylabel(f"cumulative energy, share of {total}", color=GREEN)
    shares.spines["top"].set_visible(False)
    return ax


def plot_certificate(model: Any, ax: Axes | None = None, *, certificate: Certificate | float | None = None) -> Axes:
    """Plot squared singular values with their error bound, the certificate.

    Each true value exceeds the plotted one by at most the certificate: the shaded band. Components above the
    dashed line exist in the data; those below may be artifacts of the approximation.

    Parameters
    ----------
    model : estimator, summary or array-like
        A model, sketch or descending singular values, as for :func:`plot_spectrum`.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.
    certificate : Certificate or float, default=None
        Bound on the error of the squared singular values; by default that of the model.

    Returns
    -------
    Axes
        Axes; the title counts the components above the certificate.

    Raises
    ------
    TypeError
        If the model has no singular values.
    ValueError
        If there is no certificate, or no singular value above zero.

    Examples
    --------
    >>> plot_certificate([3.0, 2.0, 1.0], certificate=2.0).get_title()
    '2 of 3 components are above the certificate'
    """
    scree = compute_scree(model)
    error = certificate.absolute if isinstance(certificate, Certificate) else certificate
    error = scree.error if error is None else float(error)
    if error is None:
        raise ValueError(f"{type(model).__name__} must have a certificate, but has none: pass certificate=BOUND")
    ax = get_axes(ax)
    number = np.arange(1, len(scree.values) + 1)
    is_positive = scree.values > 0
    values, number = scree.values[is_positive], number[is_positive]
    if error <= _ROUNDING * scree.energy:
        ax.set_title(f"all {len(values)} components are exact up to rounding", fontsize=10)
        ax.semilogy(number, values, color=BLUE, marker="o", markersize=4, label="exact")
    else:
        n_certain = int(np.sum(values > error))
        ax.fill_between(
            number, values, values + error, color=BLUE, alpha=0.18, linewidth=0, label="range of true values"
        )
        ax.semilogy(number, values, color=BLUE, linewidth=1)
        kinds = ((GREEN, "certain", slice(n_certain)), (BLUE, "uncertain", slice(n_certain, None)))
        for color, label, part in kinds:
            if len(values[part]):
                ax.semilogy(number[part], values[part], "o", color=color, markersize=4, label=label)
        percent = f"{100 * error / scree.energy:.2g} % of the energy" if scree.energy_known else f"{error:.3g}"
        ax.axhline(error, color=ORANGE, linestyle="--", label=f"certificate, {percent}")
        ax.set_title(f"{n_certain} of {len(values)} components are above the certificate", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    finish_axes(ax, ylabel="squared singular value")
    return ax


def compute_scree(model: Any) -> Scree:
    """Return the squared singular values of a model, sketch or array, without a pass over data."""
    error = certificate = energy = None
    if isinstance(model, FrequentDirections):
        values = np.linalg.svd(np.asarray(model.sketch, dtype=np.float64), compute_uv=False)
        energy, error = model.energy, float(model.error)
    else:
        values = getattr(model, "singular_values_", model)
        energy, certificate = getattr(model, "energy_", None), getattr(model, "certificate_", None)
    if certificate is not None:
        error = float(certificate.absolute)
        if energy is None and certificate.relative > 0:
            energy = certificate.absolute / certificate.relative
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise TypeError(
            f"{type(model).__name__} has no singular values: pass a fitted model, a sketch, or singular values"
        )
    squares = np.sort(values.astype(np.float64) ** 2)[::-1]
    if not len(squares) or squares[0] <= 0 or not np.isfinite(squares).all():
        raise ValueError("at least one singular value must be finite and above zero, but none is")
    # The sum may exceed the energy by rounding.
    total = max(float(energy or 0.0), float(squares.sum()))
    return Scree(squares, total, bool(energy), error)
