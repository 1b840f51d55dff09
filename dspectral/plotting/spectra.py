"""A spectrum, and how much of it is certain."""

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike, NDArray

from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.spectrum import Certificate
from dspectral.plotting.style import BLUE, GREEN, ORANGE, axes_of, bare, plain_ticks
from dspectral.types import FloatArray

_ROUNDING = 1e-9
"""Share of the energy below which a certificate is that of a result exact but for rounding."""


class HasSingularValues(Protocol):
    """A fitted model with a spectrum, such as :class:`~dspectral.TruncatedSVD`."""

    @property
    def singular_values_(self) -> FloatArray:
        """Singular values in falling order."""
        ...


HasSpectrum: TypeAlias = HasSingularValues | FrequentDirections | ArrayLike
"""A fitted model, a sketch, or the singular values themselves."""


class Scree(NamedTuple):
    """Falling squared singular values (k,) from below, the most that they fall short, and their known sum."""

    values: NDArray[np.float64]
    energy: float
    energy_known: bool
    error: float | None


def plot_spectrum(model: HasSpectrum, ax: Axes | None = None) -> Axes:
    """Draw the singular values of a model, and the share of the energy that the first of them hold together.

    Parameters
    ----------
    model : estimator, summary or array-like
        A fitted model with ``singular_values_``, a Frequent Directions sketch, or singular values in falling order.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        Axes of the singular values on a logarithmic scale; the scale of the share is at the right.

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
    scree = scree_of(model)
    ax = axes_of(ax)
    number = np.arange(1, len(scree.values) + 1)
    # A logarithmic axis has no place for zeros, which are components beyond the rank.
    above = scree.values > 0
    marker = "o" if len(number) <= 60 else None
    ax.semilogy(number[above], np.sqrt(scree.values[above]), color=BLUE, marker=marker, markersize=4)
    ax.set(xlabel="component", ylabel="singular value")
    plain_ticks(ax)
    ax.yaxis.label.set_color(BLUE)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    bare(ax)
    shares = ax.twinx()
    shares.plot(number, np.cumsum(scree.values) / scree.energy, color=GREEN, linestyle="--")
    shares.set_ylim(0, 1.02)
    shares.yaxis.set_major_formatter(PercentFormatter(1.0))
    of = "all rows" if scree.energy_known else "these values"
    shares.set_ylabel(f"energy so far, of {of}", color=GREEN)
    shares.spines["top"].set_visible(False)
    return ax


def plot_certificate(
    model: HasSpectrum, ax: Axes | None = None, *, certificate: Certificate | float | None = None
) -> Axes:
    """Draw squared singular values against the certificate: which components are certain.

    A value found is at most the true one, which is at most the certificate above it: the shaded band. Components
    above the dashed line of the certificate are there; those below may be others than the true ones.

    Parameters
    ----------
    model : estimator, summary or array-like
        A model, sketch or falling singular values, as for :func:`plot_spectrum`.
    ax : Axes, default=None
        Axes to draw on; by default those of a new figure.
    certificate : Certificate or float, default=None
        The bound on the squared singular values; by default that of the model.

    Returns
    -------
    Axes
        Axes whose title says how many components stand above the certificate.

    Raises
    ------
    TypeError
        If the model has no singular values.
    ValueError
        If no certificate is known, or there is no singular value above zero.

    Examples
    --------
    >>> plot_certificate([3.0, 2.0, 1.0], certificate=2.0).get_title()
    '2 of 3 components stand above the certificate'
    """
    scree = scree_of(model)
    error = certificate.absolute if isinstance(certificate, Certificate) else certificate
    error = scree.error if error is None else float(error)
    if error is None:
        raise ValueError(f"{type(model).__name__} has no certificate: give certificate=")
    ax = axes_of(ax)
    number = np.arange(1, len(scree.values) + 1)
    above = scree.values > 0
    values, number = scree.values[above], number[above]
    if error <= _ROUNDING * scree.energy:
        ax.set_title(f"all {len(values)} components are exact but for rounding", fontsize=10)
        ax.semilogy(number, values, color=BLUE, marker="o", markersize=4, label="found")
    else:
        n_certain = int(np.sum(values > error))
        ax.fill_between(
            number, values, values + error, color=BLUE, alpha=0.18, linewidth=0, label="truth is here"
        )
        ax.semilogy(number, values, color=BLUE, linewidth=1)
        kinds = ((GREEN, "certain", slice(n_certain)), (BLUE, "found", slice(n_certain, None)))
        for color, label, part in kinds:
            if len(values[part]):
                ax.semilogy(number[part], values[part], "o", color=color, markersize=4, label=label)
        percent = (
            f"{100 * error / scree.energy:.2g} % of the energy" if scree.energy_known else f"{error:.3g}"
        )
        ax.axhline(error, color=ORANGE, linestyle="--", label=f"certificate, {percent}")
        ax.set_title(f"{n_certain} of {len(values)} components stand above the certificate", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    ax.set(xlabel="component", ylabel="squared singular value")
    plain_ticks(ax)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    bare(ax)
    return ax


def scree_of(model: HasSpectrum) -> Scree:
    """Return the squared singular values of whatever has some, without a pass over data."""
    found = getattr(model, "singular_values_", None)
    energy, certificate = getattr(model, "energy_", None), getattr(model, "certificate_", None)
    error = None if certificate is None else float(certificate.absolute)
    if found is None and hasattr(model, "sketch"):
        # A sketch is small, however many rows it stands for: nothing of the data is read.
        summary: Any = model
        found = np.linalg.svd(np.asarray(summary.sketch, dtype=np.float64), compute_uv=False)
        energy, error = summary.energy, float(summary.error)
    values = np.asarray(model if found is None else found)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        what = "is not fitted" if hasattr(model, "fit") else "has no singular values"
        raise TypeError(f"{type(model).__name__} {what}: give a fitted model, a sketch, or singular values")
    squares = np.sort(values.astype(np.float64) ** 2)[::-1]
    if not len(squares) or squares[0] <= 0 or not np.isfinite(squares).all():
        raise ValueError("there is no singular value above zero to draw")
    if energy is None and certificate is not None and certificate.relative > 0:
        # A certificate holds the bound and its share of the energy: their quotient is the energy.
        energy = certificate.absolute / certificate.relative
    known = energy is not None and float(energy) > 0
    # The sum of the parts may pass the energy by rounding; shares above 1 would not fit the axis.
    total = float(squares.sum()) if energy is None or not known else max(float(energy), float(squares.sum()))
    return Scree(squares, total, known, error)
