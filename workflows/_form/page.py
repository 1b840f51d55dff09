"""A report as one HTML page that needs no other file."""

import html
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from workflows._form.report import Plot, Report, plain, versions
from workflows._form.table import fields_of, is_number, number

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2.5rem auto; padding: 0 1rem;
  color: #1c2024; background: #fff; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
h2 { font-size: 1.1rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #8884; text-align: left; }
th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; }
img { max-width: 100%; background: #fff; }
figure { margin: 1rem 0 2rem; }
figcaption, .lead { color: #5c6670; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8ea; background: #16181b; }
  figcaption, .lead { color: #9aa3ab; }
}
"""


def page(report: Report) -> str:
    """Return the page: results, plots, and how they came about."""
    title = html.escape(report.workflow)
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="lead">{html.escape(report.description)}</p>',
        *(f"<p>{html.escape(note)}</p>" for note in report.notes),
        "<h2>Results</h2>",
        table(report.rows),
        *(_figure(plot) for plot in report.plots),
        *_folded(report.details),
        "<h2>What it took</h2>",
        table(_took(report.used)),
        "<h2>Arguments</h2>",
        table(_pairs("argument", report.arguments)),
        "<h2>Versions</h2>",
        table(_pairs("name", versions())),
    ]
    head = f'<meta charset="utf-8">\n<title>{title}</title>\n<style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _folded(details: list[dict[str, Any]]) -> list[str]:
    if not details:
        return []
    return [f"<details><summary>{len(details)} more rows</summary>{table(details)}</details>"]


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as an HTML table; a field that a row lacks is left blank."""
    if not rows:
        return "<p>None.</p>"
    fields = fields_of(rows)
    marks = [' class="number"' if all(is_number(row.get(name)) for row in rows) else "" for name in fields]
    head = "".join(f"<th{mark}>{html.escape(name)}</th>" for name, mark in zip(fields, marks, strict=True))
    lines = [f"<tr>{head}</tr>", *(f"<tr>{_cells(row, fields, marks)}</tr>" for row in rows)]
    return '<div class="scroll"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _cells(row: dict[str, Any], fields: list[str], marks: list[str]) -> str:
    texts = [html.escape(number(row[name])) if name in row else "" for name in fields]
    return "".join(f"<td{mark}>{text}</td>" for text, mark in zip(texts, marks, strict=True))


def _pairs(name: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each entry; as text, for a version or a seed is not to be rounded."""
    return [{name: key, "value": _text(value)} for key, value in values.items()]


def _text(value: Any) -> str:
    value = plain(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)


def _took(used: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each number, those of the processes with the process's name."""
    rows = [{"what": key, "value": value} for key, value in used.items() if not isinstance(value, Mapping)]
    for name, peak in used["memory"]["processes"].items():
        rows.append({"what": f"peak memory in bytes, {name}", "value": peak})
    return rows


def _figure(plot: Plot) -> str:
    source = f"data:image/png;base64,{b64encode(plot.png).decode('ascii')}"
    caption = html.escape(plot.caption)
    return f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'
