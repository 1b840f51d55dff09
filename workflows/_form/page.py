"""A report as one HTML page that needs no other file."""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dask.utils import format_time
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .glossary import explained
from .report import Report, automatic, plain, versions
from .table import cell, constants, fields_of, number, numeric_fields, quantity, size, wide

ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.globals |= {
    "base64": lambda png: b64encode(png).decode("ascii"),
    "cell": cell,
    "fields_of": fields_of,
    "numeric_fields": numeric_fields,
    "quantity": quantity,
}


def page(report: Report) -> str:
    """Return the page: results, plots, and how they came about."""
    rows, same = _shown(report.table or report.rows)
    meanings = explained([*report.rows, *report.details])
    # Where each metric has a column of its own, the table has none of the name metric.
    shown = {*same, *fields_of(rows), *(row.get("metric") for row in [*rows, same])}
    return ENVIRONMENT.get_template("page.html").render(
        report=report,
        answer=report.answer or automatic(report.rows),
        rows=rows,
        same=same,
        meanings=meanings,
        listed=[name for name in meanings if name in shown or (name == "spread" and "metric" not in shown)],
        raw=[*report.rows, *report.details],
        took=_took(report.used),
        took_shortly=_took_shortly(report.used),
        arguments=_pairs("argument", report.arguments),
        versions=_pairs("name", versions()),
    )


def _shown(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of the page's table, and what all of them have in common, which is said once."""
    rows = wide(rows)
    same = constants(rows)
    if all(set(row) <= {*same, "value"} for row in rows):
        return rows, {}
    return [{field: value for field, value in row.items() if field not in same} for row in rows], same


def _pairs(name: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each entry; as text, for a version or a seed is not to be rounded."""
    return [{name: key, "value": _text(value)} for key, value in values.items()]


def _text(value: Any) -> str:
    value = plain(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)


def _took(used: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each number, with its unit; the memory of each process by its name."""
    rows = [
        {"what": "wall-clock time", "value": format_time(used["seconds"])},
        {"what": "CPU time of all processes", "value": format_time(used["cpu_seconds"])},
        {"what": "passes over the data", "value": number(used["passes"])},
        {"what": "peak memory, largest process", "value": size(used["peak_memory_bytes"])},
    ]
    for name, peak in used["memory"]["processes"].items():
        rows.append({"what": f"peak memory, {name}", "value": size(peak)})
    return [*rows, {"what": "workers lost", "value": number(used["workers_lost"])}]


def _took_shortly(used: Mapping[str, Any]) -> str:
    passes = f"{number(used['passes'])} pass{'' if used['passes'] == 1 else 'es'} over the data"
    return (
        f"{format_time(used['seconds'])} on the clock, {format_time(used['cpu_seconds'])} of processors' time, "
        f"{passes}, at most {size(used['peak_memory_bytes'])} of memory in one process."
    )
