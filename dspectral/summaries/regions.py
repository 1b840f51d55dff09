"""Local spaces: the singular vectors of each class's own rows, where a block is a class."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.solvers.local_axes import right_axes
from dspectral.summaries.hybrid import scaled
from dspectral.summaries.moments import energy_of
from dspectral.types import FloatArray, Rows


class LocalSpaces(NamedTuple):
    """The right singular vectors of classes.

    Attributes
    ----------
    axes : tuple of ndarray of float64, shape (at most k, d) each
        In the order of the classes.
    """

    axes: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, rows: Rows, weights: FloatArray, *, n_components: int, seed: int) -> Self:
        """Decompose the rows of one class.

        Parameters
        ----------
        rows : csr_array or ndarray, shape (m, d)
        weights : ndarray, shape (m, 1)
            By which the rows are multiplied first.
        n_components : int
        seed : int

        Raises
        ------
        ValueError
            If the rows hold NaN or infinity.
        """
        energy_of(rows)
        return cls((right_axes(scaled(rows, weights[:, 0]), n_components, seed=seed),))

    def merge(self, *others: Self) -> Self:
        """Return the spaces of all classes."""
        return type(self)(tuple(axes for part in (self, *others) for axes in part.axes))
