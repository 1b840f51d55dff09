"""Compilation of loops by Numba, and the form in which arrays are passed to them."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=np.generic)


def compiled(function: F) -> F:
    """Compile a loop at its first call, without the interpreter lock, and keep the machine code on disk.

    Parameters
    ----------
    function : callable
        Function of arrays, numbers and named tuples of them.

    Returns
    -------
    callable
        Compiled function with the same signature.

    Examples
    --------
    >>> @compiled  # doctest: +SKIP
    ... def twice(x):  # only in a file, beside which the machine code is kept
    ...     return 2 * x
    """
    loop: F = numba.njit(nogil=True, cache=True, boundscheck=False)(function)
    return loop


def read_only(array: NDArray[N]) -> NDArray[N]:
    """Return a contiguous read-only view, so that a loop is compiled once for all callers.

    Parameters
    ----------
    array : ndarray
        Array that is copied only if it is not contiguous.

    Returns
    -------
    ndarray
        View with the same dtype, shape and values.

    Examples
    --------
    >>> read_only(np.zeros(3)).flags.writeable
    False
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
