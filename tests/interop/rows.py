"""Rows of the table of interoperation: what a test says about the other program that it runs."""

from pathlib import Path
from typing import NamedTuple

import pytest

TABLE = Path(__file__).parents[2] / "docs" / "interoperation_table.md"
DIRECTIONS = {
    "to": "from dspectral",
    "from": "into dspectral",
    "both": "both ways",
    "inside": "in its place",
}


class Row(NamedTuple):
    """What stands in a row of the table, apart from versions and outcome."""

    program: str
    direction: str
    checked: str


def row(program, direction, checked, *, packages=""):
    """Declare the row that a test checks.

    ``packages`` are distributions of PyPI, by default that of the program's name, in the table with their versions;
    the test is skipped without them.
    """
    return pytest.mark.interop(
        row=Row(program, DIRECTIONS[direction], checked),
        packages=tuple((packages or program.lower()).split()),
    )


def read_tables():
    """Return the committed outcomes of each row and versions of each package, by the version of Python."""
    outcomes, versions, pythons = {}, {}, []
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    for line in (line for line in lines if line.startswith("| ")):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0] in {"Program", "Package"}:
            pythons = cells[3:] if cells[0] == "Program" else cells[1:]
        elif len(cells) == 3 + len(pythons):
            outcomes[Row(*cells[:3])] = dict(zip(pythons, cells[3:], strict=True))
        elif len(cells) == 1 + len(pythons):
            versions[cells[0]] = dict(zip(pythons, cells[1:], strict=True))
    return outcomes, versions


def write_tables(outcomes, versions):
    """Write a line for each row and each package, with a column for each version of Python."""
    lines = ["<!-- Written by `make interop`: each row is declared by the test in tests/interop that checks it. -->\n"]
    pythons = sorted({python for cells in outcomes.values() for python in cells})
    for head, content in (("Program | Direction | What is checked", outcomes), ("Package", versions)):
        columns = [*head.split(" | "), *pythons]
        lines += ["\n", f"| {' | '.join(columns)} |\n", "|---" * len(columns) + "|\n"]
        for key, cells in content.items():
            first = key if isinstance(key, Row) else [key]
            lines.append(f"| {' | '.join([*first, *(cells.get(python, 'not run') for python in pythons)])} |\n")
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("".join(lines), encoding="utf-8")
