"""The table of a run in Markdown, as the documentation has it."""

from collections.abc import Sequence
from typing import Any

from ..._form.table import number

UNITS = {"bytes per second": "GB/s", "flops per second": "Gflop/s"}
"""Rates are written in thousand millions."""


def markdown(rows: Sequence[dict[str, Any]], *, gap: str, share: str) -> str:
    """Return a line for each loop, in the order of the rows: what it reaches of its limit, and its share of time."""
    gaps = [row for row in rows if row["metric"] == gap]
    threads = sorted({row["threads"] for row in gaps})
    head = [
        "loop",
        *(f"{n} thread{'s' * (n > 1)} | of the limit" for n in threads),
        "of the time of its method",
    ]
    lines = [_line(head), _line(["---"] * (2 + 2 * len(threads)))]
    for name in dict.fromkeys(row["method"] for row in gaps):
        reached = {row["threads"]: _reached(row) for row in gaps if row["method"] == name}
        shares = [
            f"{row['value']:.0%} of {row['data']}"
            for row in rows
            if row["metric"] == share and row["method"] == name
        ]
        lines.append(_line([name, *(reached[n] for n in threads), ", ".join(shares)]))
    return "\n".join(lines) + "\n"


def _reached(row: dict[str, Any]) -> str:
    rate = f"{number(row['reached'] / 1e9)} {UNITS[row['unit']]}"
    return f"{rate} | {row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
