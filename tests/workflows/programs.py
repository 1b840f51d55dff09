"""All programs and their parsers, for the tests that go over all of them."""

import shlex
from importlib import import_module
from pathlib import Path

import pytest

from dspectral.__main__ import programs
from workflows._form.options import Parser

WORKFLOWS = Path(__file__).parents[2] / "workflows"
NAMES = sorted(
    f"{prefix}{name.replace('-', '_')}"
    for folder, prefix in ((WORKFLOWS, ""), (WORKFLOWS / "benchmarks", "benchmarks."))
    for name in programs(folder)
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
