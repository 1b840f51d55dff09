"""Rows of the table of interoperation: what a test says about the other program that it runs."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).parent
TABLE = FOLDER.parent.parent / "docs" / "interoperation_table.md"
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
    """Declare the row that a test checks; literals alone, since the main suite reads them without running them.

    ``packages`` are distributions of PyPI, by default that of the program's name, in the table with their versions;
    the test is skipped without them.
    """
    return pytest.mark.interop(
        row=Row(program, DIRECTIONS[direction], checked),
        packages=tuple((packages or program.lower()).split()),
    )


def declared_rows():
    """Every row that is declared in this folder, in the order of the files."""
    found = []
    for path in sorted(FOLDER.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "row":
                program, direction, checked = map(ast.literal_eval, node.args)
                found.append(Row(program, DIRECTIONS[direction], checked))
    return found


def written_lines():
    """The rows of the committed table as they stand there, with their ends."""
    lines = TABLE.read_text(encoding="utf-8").splitlines(keepends=True) if TABLE.exists() else []
    return [line for line in lines if line.startswith("| 3")]


def written_rows():
    """Every row of the committed table and its outcome, by the version of Python."""
    found = {}
    for line in written_lines():
        python, program, _, direction, checked, outcome = (cell.strip() for cell in line.strip("| \n").split(" | "))
        found.setdefault(python, {})[Row(program, direction, checked)] = outcome
    return found
