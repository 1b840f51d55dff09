"""Numbers and tables as a person reads them."""

import math
from collections.abc import Sequence
from typing import Any


def number(value: Any) -> str:
    """Return a value in few characters: four significant digits, thin thousands, a dash for nothing.

    Examples
    --------
    >>> [number(value) for value in (1234567, 0.123456, 1234.56, 2.0, None, "hashing")]
    ['1,234,567', '0.1235', '1,235', '2', '-', 'hashing']
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def fields_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the fields of all rows, in order of their first appearance."""
    return list(dict.fromkeys(field for row in rows for field in row))


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as aligned text; a field that a row lacks is left blank.

    Examples
    --------
    >>> print(text_table([{"data": "a", "value": 0.5}, {"data": "bb", "value": 1200}]))
    data  value
    ----  -----
    a       0.5
    bb    1,200
    """
    fields = fields_of(rows)
    cells = [[number(row[field]) if field in row else "" for field in fields] for row in rows]
    widths = [max(len(line[i]) for line in [fields, *cells]) for i in range(len(fields))]
    right = [all(is_number(row.get(field)) for row in rows) for field in fields]
    lines = [fields, ["-" * width for width in widths], *cells]
    return "\n".join(_line(line, widths, right) for line in lines)


def is_number(value: Any) -> bool:
    """Return whether a value stands at the right of its column: a number, or none at all."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()
