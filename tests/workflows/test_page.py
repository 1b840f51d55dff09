import json

import pytest

from workflows._form.page import page
from workflows._form.report import Plot, Report


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
        {"data": "Elbe", "method": "plumb", "metric": "peak_memory_bytes", "value": 1 << 29},
        {"data": "Elbe", "method": "plumb", "metric": "exponent_of_peak_memory_bytes", "value": 1.02},
    ]
    return Report("rivers", "Measure rivers.", {"seed": 7}, used, rows)


def test_page_begins_with_answer_and_picture_and_folds_the_rest(report):
    report.answer = "The `Elbe` is 7 m deep."
    report.plots = [Plot("depth", "Depth of rivers.", b"one"), Plot("width", "Width of rivers.", b"two")]
    report.details = [{"data": "Elbe", "method": "plumb", "metric": "seconds", "value": 3.0}]
    actual = page(report)
    order = [
        "The <code>Elbe</code> is 7 m deep.",
        "Depth of rivers.",
        "Results",
        "Width of rivers.",
        "<summary>Time, passes and memory",
        "<summary>Arguments",
        "<summary>Versions",
        "<summary>All 3 rows",
    ]
    places = [actual.index(text) for text in order]
    assert places == sorted(places)
    assert actual.index("<h2>Results") > actual.index('<p class="answer">')
    assert json.loads(report.as_json())["answer"] == report.answer
