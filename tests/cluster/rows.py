"""The table of faults: what a test declares, and what was measured when it ran.

``make test-cluster`` writes ``docs/faults_table.md``; the ordinary suite holds that table to what tests declare.
"""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).parent
TABLE = FOLDER.parent.parent / "docs" / "faults_table.md"
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


DECLARED = []
"""Every row that an imported test declares."""


def fault(what, phase, *names):
    """Declare a fault, and run the test once for each ``name``: of an estimator, or of a writer.

    Such a test is part of the long form: ``pytest tests/cluster --faults``.
    """
    DECLARED.extend(Row(what, phase, name) for name in names or FIVE)

    def decorate(test):
        return pytest.mark.fault(what, phase)(pytest.mark.parametrize("name", names or FIVE)(test))

    return decorate


def faults(phase, acts):
    """Declare faults that differ only in what happens: an ``act`` for each."""
    for what in acts:
        fault(what, phase)
    marked = [pytest.param(act, marks=pytest.mark.fault(what, phase), id=what) for what, act in acts.items()]

    def decorate(test):
        return pytest.mark.parametrize("act", marked)(pytest.mark.parametrize("name", FIVE)(test))

    return decorate


def row_of(item):
    """The row of a collected test, or None for one that declares none."""
    mark = item.get_closest_marker("fault")
    return None if mark is None or not mark.args else Row(*mark.args, item.callspec.params["name"])


def declared_rows():
    """Every row that is declared in this folder, in the order of the files."""
    for name in ("test_schedulers", "test_storage", "test_workers"):
        import_module(f"tests.cluster.{name}")
    return DECLARED


def written_rows():
    """Every row of the committed table, and what was measured."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| ")]
    return {Row(*line[:3]): Measured(*line[3:]) for line in cells[1:]}


def write_rows(measured):
    """Write the table anew; a declared row that was not measured now stays as it was."""
    known = {**written_rows(), **measured}
    rows = [(row, known[row]) for row in declared_rows() if row in known]
    TABLE.write_text(HEAD + "".join(f"| {' | '.join((*row, *seen))} |\n" for row, seen in rows), encoding="utf-8")
