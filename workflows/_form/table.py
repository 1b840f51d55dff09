"""Formatting of numbers and tables."""

import math
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 10_000
"""Columns of a printed table: lines are not wrapped."""


def number(value: Any) -> str:
    """Return a value in few characters: four significant digits, thin thousands, a dash for nothing.

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


def size(n_bytes: float) -> str:
    """Return a number of bytes with its unit; 1 GB is 10^9 bytes, as for ``--memory-limit``.

    >>> [size(n) for n in (0, 999, 1500, 2_345_678, 1 << 30, 12_345_678_901_234)]
    ['0 B', '999 B', '1.5 kB', '2.35 MB', '1.07 GB', '12.3 TB']
    """
    scaled, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if abs(scaled) < 999.5:
            break
        scaled, unit = scaled / 1000, larger
    return f"{scaled:.3g} {unit}"


def is_bytes(name: str) -> bool:
    """Report whether a metric or field is a number of bytes.

    >>> [is_bytes(name) for name in ("bytes", "peak_memory_bytes_here", "exponent_of_bytes", "ratio_of_bytes", "f1")]
    [True, True, False, False, False]
    """
    words = name.split("_")
    return "bytes" in words and not words[0].startswith(("exponent", "ratio", "slope"))


def quantity(name: str, value: Any) -> str:
    """Return the value of a metric or field in few characters, bytes with their unit.

    >>> quantity("peak_memory_bytes", 1 << 29), quantity("accuracy", 0.123456)
    ('537 MB', '0.1235')
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return size(value) if is_number and is_bytes(name) else number(value)


def cell(row: dict[str, Any], field: str) -> str:
    """Return the formatted field of a row, empty if the row lacks it.

    >>> row = {"metric": "peak_memory_bytes", "value": 1 << 29, "batches": 1200}
    >>> [cell(row, field) for field in ("value", "batches", "seed")]
    ['537 MB', '1,200', '']
    """
    if field not in row:
        return ""
    return quantity(str(row.get("metric", "")) if field == "value" else field, row[field])


def constants(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields with the same value in all of two or more rows, except ``value``.

    >>> constants([{"data": "a", "seed": 1, "value": 2}, {"data": "a", "seed": 2, "value": 2}])
    {'data': 'a'}
    """
    if len(rows) < 2:
        return {}
    return {
        field: value
        for field, value in rows[0].items()
        if field != "value" and all(field in row and row[field] == value for row in rows)
    }


def wide(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each setting with a column for each metric, or unchanged rows if that is ambiguous.

    Settings are the fields of all rows. Fields of some rows are kept if the metrics of one setting agree in them; a
    spread has a column beside its metric.

    >>> wide([{"method": "a", "metric": m, "value": v} for m, v in (("f1", 0.5), ("seconds", 3))])
    [{'method': 'a', 'f1': 0.5, 'seconds': 3}]
    >>> same = [{"method": "a", "metric": "f1", "value": v} for v in (0.5, 0.6)]
    >>> wide(same) == same
    True
    """
    if len({row.get("metric") for row in rows}) < 2:
        return list(rows)
    per_value = ("metric", "value", "spread")
    settings = [f for f in rows[0] if f not in per_value and all(f in row for row in rows)]
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        of = found.setdefault(tuple(str(row[f]) for f in settings), {f: row[f] for f in settings})
        new = {row["metric"]: row["value"]}
        new |= {f"{row['metric']}_spread": v for f, v in row.items() if f == "spread"}
        new |= {f: v for f, v in row.items() if f not in settings and f not in per_value}
        if row["metric"] in of or any(of.get(f, v) != v for f, v in new.items()):
            return list(rows)
        of |= new
    return list(found.values())


def fields_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the fields of all rows, in order of their first appearance."""
    return list(dict.fromkeys(field for row in rows for field in row))


def numeric_fields(rows: Sequence[dict[str, Any]]) -> set[str]:
    """Return the fields with numbers, with or without an error; they are aligned to the right."""
    return {field for field in fields_of(rows) if all(_is_number(row.get(field)) for row in rows)}


def _is_number(value: Any) -> bool:
    with_error = isinstance(value, str) and " ± " in value
    return value is None or with_error or (isinstance(value, int | float) and not isinstance(value, bool))


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table; fields that all rows share are printed once above it.

    >>> print_table([{"data": "a", "n": 3, "value": 0.5}, {"data": "bb", "n": 3, "value": 1200}])
    in every row: n 3
    data   value
    ────────────
    a        0.5
    bb     1,200
    """
    if same := constants(rows):
        print("in every row: " + ", ".join(f"{field} {cell(same, field)}" for field in same))
        rows = [{field: value for field, value in row.items() if field not in same} for row in rows]
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
