"""What races found, as rows of a report and as a page of tables."""

from collections.abc import Mapping
from typing import Any

from ..._form.table import quantity
from .racing import Lane, ratios

COSTS = ("cpu_seconds", "seconds", "peak_memory_bytes", "working_memory_bytes")
TITLES = {
    "cpu_seconds": "CPU s",
    "seconds": "wall s",
    "peak_memory_bytes": "memory",
    "working_memory_bytes": "of that its own",
}


def rows_of(lanes: Mapping[str, Lane]) -> list[dict[str, Any]]:
    """Return a row for each contender and metric: medians, and the quartiles of the ratio."""
    first, rows = next(iter(lanes.values())), []
    for name, lane in lanes.items():
        values: dict[str, Any] = {metric: lane.middle(metric) for metric in metrics_of(lane)}
        if lane.runs:
            low, middle, high = ratios(lane, first)
            quartiles = {"cpu_ratio_lower_quartile": low, "cpu_ratio_upper_quartile": high}
            values |= {"cpu_ratio": middle, **quartiles, "repetitions": len(lane.runs)}
        if lane.out:
            values["not_run"] = lane.out
        rows += [{"method": name, "metric": metric, "value": value} for metric, value in values.items()]
    return rows


def metrics_of(lane: Lane) -> list[str]:
    """Return the metrics of a lane's runs, costs first."""
    return [metric for run in lane.runs[:1] for metric in run if metric != "repetition"]


def section(name: str, task: str, data: str, lanes: Mapping[str, Lane]) -> str:
    """Return a race as a section of a page in Markdown."""
    first = next(iter(lanes))
    scores = list(dict.fromkeys(m for lane in lanes.values() for m in metrics_of(lane) if m not in COSTS))
    heads = [
        "",
        *TITLES.values(),
        f"CPU over {first} (quartiles)",
        *(score.replace("_", " ") for score in scores),
    ]
    lines = [f"## {name}", "", f"{task} {data}.", "", _line(heads), _line(["---"] * len(heads))]
    for contender, lane in lanes.items():
        if not lane.runs:
            lines.append(_line([contender, lane.out, *[""] * (len(heads) - 2)]))
            continue
        low, middle, high = ratios(lane, lanes[first])
        ratio = "1" if contender == first else f"{middle:.3g} ({low:.3g} to {high:.3g})"
        costs = [quantity(metric, round(lane.middle(metric), 3)) for metric in COSTS]
        own = [quantity(score, lane.middle(score)) for score in scores]
        ended = f"{contender}; {lane.out}" if lane.out else contender
        lines.append(_line([ended, *costs, ratio, *own]))
    return "\n".join([*lines, ""])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def lost(lanes: Mapping[str, Lane]) -> list[str]:
    """Return a sentence for each peer who took fewer CPU seconds than the first contender, with the scores of both.

    >>> taken = (("dspectral", 2.0, 0.75), ("peer", 1.0, 0.5), ("slow", 3.0, 0.5))
    >>> runs = {who: [{"repetition": 0, "cpu_seconds": s, "auc": auc}] for who, s, auc in taken}
    >>> lost({who: Lane(own) for who, own in runs.items()})
    ['peer took 0.5 of the CPU seconds of dspectral; auc 0.5 against 0.75']
    """
    (name, first), *others = lanes.items()
    said = []
    for peer, lane in others:
        ratio = float(ratios(lane, first)[1])
        if peer.startswith("dspectral") or not ratio < 1.0:
            continue
        scores = [metric for metric in metrics_of(lane) if metric not in COSTS]
        both = [
            f"{score} {quantity(score, lane.middle(score))} against {quantity(score, first.middle(score))}"
            for score in scores
        ]
        said.append("; ".join([f"{peer} took {ratio:.2g} of the CPU seconds of {name}", *both]))
    return said
