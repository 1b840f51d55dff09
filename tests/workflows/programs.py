"""All programs and their parsers, and how a test runs one."""

import json
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from dspectral.__main__ import list_programs
from workflows._form.options import Parser

WORKFLOWS = Path(__file__).parents[2] / "workflows"
NAMES = sorted(
    f"{prefix}{name.replace('-', '_')}"
    for folder, prefix in ((WORKFLOWS, ""), (WORKFLOWS / "benchmarks", "benchmarks."))
    for name in list_programs(folder)
)


class Parsed(Exception):  # noqa: N818  no error: it carries the parser out of a program
    pass


def parser_of(name, monkeypatch) -> Parser:
    """The parser of a program, as it is when the program reads its command line."""

    def stop(self, _args=None, _namespace=None):
        raise Parsed(self)

    monkeypatch.setattr(Parser, "parse_args", stop)
    with pytest.raises(Parsed) as caught:
        import_module(f"workflows.{name}").main([])
    return caught.value.args[0]


def words(text: str) -> list[str]:
    """A command line as one types it."""
    return shlex.split(text)


def report_of(program, out, *options):
    """Run a program, and return its report."""
    import_module(f"workflows.{program}").main([*map(str, options), "--out", str(out), "--debug"])
    return json.loads((out / "report.json").read_text())


def values_of(report, *fields):
    """Values of the rows of a report by some of their fields."""
    return {tuple(row.get(field) for field in fields): row["value"] for row in report["rows"]}
