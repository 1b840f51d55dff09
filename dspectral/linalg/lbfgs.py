"""L-BFGS that is told values and gradients: many functions can then be evaluated in the same pass over data."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

PAIRS = 10
"""Steps, with the changes of the gradient along them, that are remembered."""
_ENOUGH = 1e-4
_ROUNDING = 1e-14


class AskTellLBFGS:
    """The descent to the least value of one smooth, strongly convex function.

    Ask for :attr:`trial`, evaluate the function there, and :meth:`tell` what it is; again, until :attr:`left` is small.

    Parameters
    ----------
    x : ndarray, shape (p,)
        Start.
    value : float
    gradient : ndarray, shape (p,)
        At the start.
    step : float
        First step, in units of the gradient: at most one over the largest curvature.

    Attributes
    ----------
    x, value, gradient
        The best point so far.
    trial : ndarray, shape (p,)
        Where the function is to be evaluated next.

    References
    ----------
    Nocedal and Wright 2006, "Numerical optimization", algorithms 7.4 and 3.1.

    Examples
    --------
    >>> curvature = np.array([1.0, 10.0, 100.0])
    >>> descent = AskTellLBFGS(np.ones(3), 55.5, curvature, step=0.01)
    >>> for _ in range(20):
    ...     x = descent.trial
    ...     descent.tell(float(curvature @ x**2) / 2, curvature * x)
    >>> descent.left < 1e-6
    True
    """

    def __init__(
        self, x: NDArray[np.float64], value: float, gradient: NDArray[np.float64], *, step: float
    ) -> None:
        self.x, self.value, self.gradient = x, value, gradient
        self._scale, self._part = step, 1.0
        self._pairs: deque[tuple[NDArray[np.float64], NDArray[np.float64], float]] = deque(maxlen=PAIRS)
        self._aim()

    @property
    def left(self) -> float:
        """Largest entry of the gradient."""
        return float(np.max(np.abs(self.gradient), initial=0.0))

    def tell(self, value: float, gradient: NDArray[np.float64]) -> None:
        """Take the value and the gradient at the trial point: go there, or turn back half-way."""
        slope = float(self._direction @ self.gradient)
        slack = _ROUNDING * abs(self.value)
        if value > self.value + _ENOUGH * self._part * slope + slack:
            rise = value - self.value - self._part * slope
            best = -slope * self._part**2 / (2.0 * rise)
            self._part = min(max(best, 0.1 * self._part), 0.5 * self._part)
            self.trial = self.x + self._part * self._direction
            return
        moved, changed = self.trial - self.x, gradient - self.gradient
        along = float(moved @ changed)
        if along > 0:  # of a convex function it is, but for rounding
            self._pairs.append((moved, changed, along))
            self._scale = along / float(changed @ changed)
        self.x, self.value, self.gradient = self.trial, value, gradient
        self._aim()

    def _aim(self) -> None:
        """Set out in the direction of minus the gradient, as the remembered curvature turns it."""
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
