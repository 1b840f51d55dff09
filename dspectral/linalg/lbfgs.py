"""L-BFGS by ask and tell: many functions can then be evaluated in the same pass over the data."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

PAIRS = 10
"""Steps that are remembered, with the changes of the gradient along them."""
_ARMIJO = 1e-4
"""Share of the decrease that the slope promises which a step must bring."""
_ROUNDING = 1e-14
"""Rise of the objective, relative to it, that counts as rounding."""


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
