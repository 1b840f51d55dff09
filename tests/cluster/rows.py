"""The table of faults: what a test declares, and what was measured when it ran.

``make test-cluster`` writes ``docs/faults_table.md``.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

TABLE = Path(__file__).parents[2] / "docs" / "faults_table.md"
FIVE = ("SketchedPCA", "TruncatedSVD", "MomentMultiLabelClassifier", "TreePCA", "AnchorHMM")
"""Rows and sentences, one pass and several, with labels and without."""
HEAD = """\
<!-- Written by `make test-cluster`: each row is declared by the test in tests/cluster that makes the fault. -->

| Fault | When | Estimator or program | Lost | Repeated | Seconds until reported |
|---|---|---|---|---|---|
"""


class Row(NamedTuple):
    """What stands in a row of the table, apart from what is measured."""

    what: str
    phase: str
    of: str


class Measured(NamedTuple):
    """What was seen in a test."""

    lost: str
    redone: str
    told: str


def fault(what, phase, *names):
    """Declare a fault, and run the test once for each ``name``: of an estimator, or of a writer.

    Such a test is part of the long form: ``pytest tests/cluster --faults``.
    """

    def decorate(test):
        return pytest.mark.fault(what, phase)(pytest.mark.parametrize("name", names or FIVE)(test))

    return decorate


def faults(phase, acts):
    """Declare faults that differ only in what happens: an ``act`` for each."""
    marked = [pytest.param(act, marks=pytest.mark.fault(what, phase), id=what) for what, act in acts.items()]

    def decorate(test):
        return pytest.mark.parametrize("name", FIVE)(pytest.mark.parametrize("act", marked)(test))

    return decorate


def row_of(item):
    """The row of a collected test, or None for one that declares none."""
    mark = item.get_closest_marker("fault")
    return None if mark is None or not mark.args else Row(*mark.args, item.callspec.params["name"])


def write_rows(measured):
    """Write the table of what was run."""
    rows = "".join(f"| {' | '.join((*row, *seen))} |\n" for row, seen in measured.items())
    TABLE.write_text(HEAD + rows, encoding="utf-8")
