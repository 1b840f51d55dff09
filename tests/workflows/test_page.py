import ast
from pathlib import Path

import pytest

from workflows._form.glossary import COLUMNS, METRICS
from workflows._form.page import page
from workflows._form.report import Report

ROOT = Path(__file__).parent.parent.parent / "workflows"


@pytest.fixture
def report():
    used = {
        "seconds": 93.4,
        "cpu_seconds": 1000.0,
        "passes": 3,
        "peak_memory_bytes": 3 << 29,
        "memory": {"processes": {"this process": 3 << 29, "tcp://10.0.0.1:1": 1 << 20}},
        "workers_lost": 0,
    }
    rows = [
        {"data": "Elbe", "method": "plumb", "metric": "peak_memory_bytes", "value": 1 << 29, "draws": 5},
        {"data": "Elbe", "method": "plumb", "metric": "exponent_of_peak_memory_bytes", "value": 1.02},
    ]
    return Report("rivers", "Measure rivers.", {"seed": 7}, used, rows)


def test_bytes_and_seconds_have_units_on_the_page(report):
    found = page(report)
    for shown in (
        '<td class="number">512.00 MiB</td>',
        ">1.50 GiB<",
        ">1.00 MiB<",
        ">93.40 s<",
        ">16m 40s<",
        ">1.02<",
    ):
        assert shown in found, shown


def test_the_columns_and_metrics_of_a_report_are_explained_and_no_others(report):
    found = page(report)
    assert f"<dt>draws</dt><dd>{COLUMNS['draws']}</dd>" in found
    assert f'<th class="number" title="{COLUMNS["draws"]}">draws</th>' in found
    assert f"<dd>{METRICS['peak_memory_bytes']}</dd>" in found
    assert "intent" not in found


def test_every_field_of_every_workflow_is_explained():
    """Those that are written out as keywords of ``row`` and ``detail``."""
    named = {
        keyword.arg: path.name
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("row", "detail")
        for keyword in node.keywords
        if keyword.arg
    }
    assert "unlabeled" in named
    assert {name: path for name, path in named.items() if name not in COLUMNS} == {}
