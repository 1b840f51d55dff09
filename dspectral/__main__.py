"""The command ``dspectral``, which lists and runs the programs.

Programs are the modules with a ``main`` in ``dspectral/programs/``, or in ``workflows/`` of a checkout.
"""

import argparse
import ast
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dspectral import __version__

INSTALLED = Path(__file__).parent / "programs"
CHECKOUT = Path(__file__).parents[1] / "workflows"


def list_programs(folder: Path) -> dict[str, str]:
    """Return the name of each program in a folder, and the first sentence of its description."""
    sentences = {}
    for path in sorted(folder.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            paragraph = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
            sentences[path.stem.replace("_", "-")] = paragraph.partition(". ")[0].rstrip(".") + "."
    return sentences


def main(argv: list[str] | None = None) -> None:
    """Run the command."""
    folder = INSTALLED if INSTALLED.is_dir() else CHECKOUT
    sentences = list_programs(folder)
    parser = _parser()
    arguments = parser.parse_args(argv)
    name = (arguments.program or "").replace("_", "-")
    if not name:
        parser.print_help()
        _print_programs(sentences)
    elif name == "list":
        _print_programs(sentences)
    elif name in sentences:
        _run(folder, name, arguments.options)
    else:
        matches = get_close_matches(name, [*sentences, "list"], n=1, cutoff=0.5)
        hint = f"did you mean {matches[0]}?" if matches else "`dspectral list` shows all programs"
        parser.exit(2, f"dspectral: error: {arguments.program} is not a program: {hint}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "dspectral",
        description="Spectral learning on text that does not fit in memory.",
        epilog="`dspectral list` shows all programs, `dspectral PROGRAM --help` the options of one.",
    )
    parser.add_argument("--version", action="version", version=f"dspectral {__version__}")
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="name of a program, or list")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTIONS", help="options of the program")
    return parser


def _print_programs(sentences: Mapping[str, str]) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("program", no_wrap=True)
    table.add_column("what it does")
    for name, sentence in sentences.items():
        table.add_row(name, Text(sentence))
    Console().print(table)


def _run(folder: Path, name: str, options: list[str]) -> None:
    """Call the ``main`` of a program, whose messages then begin with ``dspectral NAME``."""
    package = "dspectral.programs"
    if folder == CHECKOUT:
        package = folder.name
        sys.path.insert(0, str(folder.parent))
    try:
        command = import_module(f"{package}._form.options").COMMAND
        started = command.set((f"dspectral {name}", options))
        try:
            import_module(f"{package}.{name.replace('-', '_')}").main(options)
        finally:
            command.reset(started)
    except KeyboardInterrupt:  # during the import, before the program handles it
        sys.stderr.write(f"dspectral {name}: interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
