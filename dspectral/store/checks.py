"""Sizes and names at the doors of the stores."""

import numpy as np

MOST = 2**62
"""Largest size: sums of such still fit 64 bits."""
ERRORS = ("strict", "replace")
"""Names of the ways to treat bytes that are not UTF-8."""


def check_size(name: str, value: int) -> int:
    """Return a number of bytes, rows or occurrences as an int.

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    value : int
        The number; Python's and NumPy's integers are taken.

    Returns
    -------
    int
        The number, which is 1 or more.

    Raises
    ------
    TypeError
        If the value is not an integer.
    ValueError
        If it is below 1, or beyond 2**62.

    Examples
    --------
    >>> check_size("block_rows", 0)
    Traceback (most recent call last):
    ...
    ValueError: block_rows is 0, but it must be 1 or more
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r:.60}, but it must be an integer of 1 or more")
    if not 1 <= value <= MOST:
        most = "" if value < 1 else f", and at most {MOST}"
        raise ValueError(f"{name} is {value}, but it must be 1 or more{most}")
    return int(value)


def check_name(name: str, value: str, options: tuple[str, ...]) -> None:
    """Refuse a name that is none of a few.

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    value : str
        The name given.
    options : tuple of str
        The names that are known.

    Raises
    ------
    ValueError
        If the value is none of them.
    """
    if value not in options:
        *first, last = map(repr, options)
        raise ValueError(f"{name} is {value!r:.60}, but it must be {', '.join(first)} or {last}")
