"""The sentence that a report's page opens with, where a workflow gives none."""

from collections.abc import Sequence
from typing import Any

from .table import is_bytes, quantity

COSTS = ("seconds", "documents_per_second", "rows", "columns", "nnz", "blocks")
"""Metrics that say what a run took or read, not what it found; so are bytes."""
MOST = 4
"""Methods that a sentence names."""


def automatic(rows: Sequence[dict[str, Any]]) -> str:
    """Return what the first data set and metric of rows say of each method; nothing where there are no numbers.

    >>> automatic([{"data": "news", "method": m, "metric": "f1", "value": v} for m, v in (("a", 0.5), ("b", 0.25))])
    'f1 on news is 0.5 with a and 0.25 with b.'
    """
    numbers = [row for row in rows if isinstance(row.get("value"), int | float)]
    if not numbers:
        return ""
    first = next((row for row in numbers if not _is_cost(row["metric"])), numbers[0])
    values: dict[str, list[float]] = {}
    for row in numbers:
        if (row["data"], row["metric"]) == (first["data"], first["metric"]):
            values.setdefault(str(row["method"]), []).append(row["value"])
    said = [f"{_said(first['metric'], of)} with {method}" for method, of in list(values.items())[:MOST]]
    more = f"; {len(values) - MOST} more methods are in the table" if len(values) > MOST else ""
    return f"{str(first['metric']).replace('_', ' ')} on {first['data']} is {_listed(said)}{more}."


def _is_cost(metric: str) -> bool:
    return metric.endswith(COSTS) or is_bytes(metric)


def _said(metric: str, values: list[float]) -> str:
    low, high = quantity(metric, min(values)), quantity(metric, max(values))
    return low if low == high else f"{low} to {high}"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
