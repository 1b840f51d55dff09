"""Sizes and names at the doors of the stores."""

import numpy as np

MOST = 2**62
"""Largest size: sums of such still fit 64 bits."""
ERRORS = ("strict", "replace")
"""Names of the ways to treat bytes that are not UTF-8."""


def check_size(name: str, value: int) -> int:
    """Return a number of bytes, rows or occurrences as an int.

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
    """Refuse a name that is none of a few."""
    if value not in options:
        *first, last = map(repr, options)
        raise ValueError(f"{name} is {value!r:.60}, but it must be {', '.join(first)} or {last}")
