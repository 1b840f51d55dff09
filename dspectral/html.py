"""Sizes and numbers as text, and HTML tables for notebooks, without scripts."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from numbers import Real
from typing import TypeAlias

import numpy as np

SHOWN = 6
"""Maximum number of names of a list in a card."""
LONGEST = 60
"""Maximum number of characters of a name in a card."""
Facts: TypeAlias = Iterable[tuple[str, object]]


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


def number(value: float) -> str:
    """Return an integer with thousands separators, or another number with four digits."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return f"{int(value):,}" if whole else f"{value:.4g}"


def share(part: float, whole: float) -> str:
    """Return a part as a percentage.

    >>> share(1, 8), share(1, 3_000_000), share(0, 0)
    ('12.5 %', '3.3e-05 %', '0 %')
    """
    percent = 100.0 * part / whole if whole else 0.0
    return f"{percent:.3g} %" if percent == 0 or percent >= 0.001 else f"{percent:.1e} %"


def names(values: Sequence[object], max_shown: int = SHOWN) -> str:
    """Return the number of names in a list and the first of them."""
    first = (text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..." for text in map(str, values[:max_shown]))
    return f"{len(values):,}: {', '.join(first)}{', ...' if len(values) > max_shown else ''}"


def card(title: str, facts: Facts) -> str:
    """Return facts as an HTML table with a caption; those that are None are left out."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(_format_cell(value))}</td></tr>"
        for name, value in facts
        if value is not None
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _format_cell(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return number(float(value)) if isinstance(value, Real) else str(value)
