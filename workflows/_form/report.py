"""Results and costs of a run, as strict JSON."""

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import dspectral

from .schedulers import cpu_count
from .table import is_bytes, quantity

PACKAGES = ("numpy", "scipy", "dask", "distributed", "zarr", "scikit-learn", "numba")
COSTS = ("seconds", "documents_per_second", "rows", "columns", "nnz", "blocks")
"""Metrics of costs and sizes, not of results."""
MOST = 4
"""Maximum number of methods in a sentence."""


@dataclass
class Plot:
    """A picture: file name without extension, caption, and content."""

    name: str
    caption: str
    png: bytes


@dataclass
class Report:
    """Results of a run, except the model.

    `details` are rows that are not printed; `table`, if any, is shown instead of `rows`.
    """

    workflow: str
    description: str
    arguments: dict[str, Any]
    used: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)
    table: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answer: str = ""
    plots: list[Plot] = field(default_factory=list)

    def as_json(self) -> str:
        """Return strict JSON; NaN and infinity become ``null``."""
        content = {
            "workflow": self.workflow,
            "arguments": self.arguments,
            "versions": versions(),
            **self.used,
            "rows": [*self.rows, *self.details],
            "answer": self.answer or automatic(self.rows),
            "notes": self.notes,
            "plots": [f"{plot.name}.png" for plot in self.plots],
        }
        return json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def versions() -> dict[str, Any]:
    """Return versions of Python and of what takes part, the platform, and its number of processors."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "dspectral": dspectral.__version__,
        **{package: version(package) for package in PACKAGES},
        "cpu_count": cpu_count(),
    }


def plain(value: Any) -> Any:
    """Return a value as JSON knows it; NaN and infinities become None, paths and other objects text.

    >>> import numpy as np
    >>> from pathlib import Path
    >>> plain({"a": np.float32("nan"), "b": (np.int64(3), Path("x"))})
    {'a': None, 'b': [3, 'x']}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int | str):
        return value
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


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
