"""From a merged summary to principal axes."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dspectral.kernels.linalg import combine_rows, eigh_descending, fixed_signs, numerical_rank, row_gram
from dspectral.types import FloatArray


def principal_axes(sketch: FloatArray, k: int) -> tuple[FloatArray, NDArray[np.float64]]:
    """Return the first right singular vectors of a wide matrix, and its singular values.

    Parameters
    ----------
    sketch : ndarray, shape (r, d)
    k : int
        At most the numerical rank is returned.

    Returns
    -------
    axes : ndarray, shape (k', d)
        Orthonormal rows; in each the entry largest in magnitude is positive.
    singular_values : ndarray of float64, shape (k',)

    Examples
    --------
    >>> axes, singular_values = principal_axes(np.array([[0.0, 3.0], [-2.0, 0.0]]), 2)
    >>> np.abs(axes), singular_values
    (array([[0., 1.],
           [1., 0.]]), array([3., 2.]))
    """
    values, vectors = eigh_descending(row_gram(sketch))
    k = min(k, numerical_rank(values, sketch.dtype))
    axes = combine_rows((vectors[:, :k] / np.sqrt(values[:k])).T, sketch)
    # A second, small round: the first leaves them orthogonal only to eps times the condition.
    again, rotation = scipy.linalg.eigh(row_gram(axes))
    axes = combine_rows(((rotation / np.sqrt(again)) @ rotation.T), axes)
    return fixed_signs(axes), np.sqrt(values[:k])
