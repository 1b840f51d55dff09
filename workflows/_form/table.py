"""Numbers and tables as a person reads them."""

import math
from collections.abc import Sequence
from typing import Any

from dask.utils import format_bytes
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 10_000
"""Nothing is cut or folded: rows are wider than a terminal at times, and a name cut in two is harder to read."""


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


def cell(row: dict[str, Any], field: str) -> str:
    """Return what stands in a field of a row: nothing if the row lacks it, and bytes with their unit.

    Examples
    --------
    >>> row = {"metric": "peak_memory_bytes", "value": 1 << 29, "batches": 1200}
    >>> [cell(row, field) for field in ("value", "batches", "seed")]
    ['512.00 MiB', '1,200', '']
    """
    if field not in row:
        return ""
    quantity = str(row.get("metric", "")) if field == "value" else field
    is_bytes = quantity == "bytes" or (
        quantity.endswith("_bytes") and not quantity.startswith("exponent_of_")
    )
    if is_bytes and isinstance(row[field], int | float) and math.isfinite(row[field]):
        return format_bytes(int(row[field]))
    return number(row[field])


def fields_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the fields of all rows, in order of their first appearance."""
    return list(dict.fromkeys(field for row in rows for field in row))


def numeric_fields(rows: Sequence[dict[str, Any]]) -> set[str]:
    """Return the fields that stand at the right of their columns: each value is a number, or there is none."""
    return {field for field in fields_of(rows) if all(_is_number(row.get(field)) for row in rows)}


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as aligned text; a field that a row lacks is left blank.

    Examples
    --------
    >>> print_table([{"data": "a", "value": 0.5}, {"data": "bb", "value": 1200}])
    data   value
    ────────────
    a        0.5
    bb     1,200
    """
    right = numeric_fields(rows)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for field in fields_of(rows):
        table.add_column(Text(field), justify="right" if field in right else "left")
    for row in rows:
        table.add_row(*(Text(cell(row, field)) for field in fields_of(rows)))
    console = Console(width=WIDTH)
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))
