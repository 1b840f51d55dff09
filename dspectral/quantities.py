"""Sizes and numbers as text."""

import math


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes as text in kB, MB, GB, TB or PB.

    >>> format_bytes(999), format_bytes(2_500_000), format_bytes(12e9)
    ('999 bytes', '2.5 MB', '12 GB')
    """
    if n_bytes < 1000:
        return f"{n_bytes:.0f} bytes"
    # Decimal units, as for disks and networks.
    unit = min(int(math.log10(n_bytes)) // 3, 5)
    number = n_bytes / 1000**unit
    return f"{number:.{1 if number < 10 else 0}f} {' kMGTP'[unit]}B"
