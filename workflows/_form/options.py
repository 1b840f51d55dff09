"""The command line that all programs share: how they are called, and how options are read, explained and refused."""

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dspectral.paths import expand_path

COMMAND: ContextVar[tuple[str, list[str]] | None] = ContextVar("command", default=None)
"""Command and options that started the program, such as ``("dspectral demo", [])``; None under ``python -m``."""
PACKAGE = __name__.removesuffix("._form.options")
"""``workflows`` in the repository, ``dspectral.programs`` in the wheel."""
MOST_BITS = 30
"""Of a column's number."""
LEAST_MEMORY = 300_000_000
"""Bytes that a worker takes with its packages before it holds any data: 165 to 300 million, by method."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """States the default of each option that has one, as it is when the help is printed."""

    def _get_help_string(self, action: argparse.Action) -> str:
        written, stated = action.help or "", default_of(action).replace("%", "%%")
        if not stated:
            return written
        # A program that shares the option may have no default, and says in words what that means.
        without = re.sub(r" *\(default: [^)]*\)", "", written)
        return f"{without} (default: {stated})".lstrip()


def default_of(action: argparse.Action) -> str:
    """Return an option's default as it would be typed; nothing for flags, what is required, and no value.

    >>> parser = argparse.ArgumentParser()
    >>> default_of(parser.add_argument("--shares", nargs="+", default=[0.0, 0.5]))
    '0.0 0.5'
    """
    is_value = action.option_strings and action.nargs != 0 and not action.required
    if not is_value or action.default in (None, [], (), argparse.SUPPRESS):
        return ""
    return typed(action.default)


def typed(value: Any) -> str:
    """Return a value as it would be typed at a shell.

    >>> print(typed([1, 2.0, "no sweeps"]))
    1 2.0 'no sweeps'
    """
    if type(value) in (list, tuple):
        return " ".join(map(typed, value))
    return shlex.quote(str(value))


class Parser(argparse.ArgumentParser):
    """Reads a command line, and refuses a wrong one in a sentence."""

    def __init__(self, name: str, description: str | None) -> None:
        command = COMMAND.get()
        prog = command[0] if command else f"python -m {PACKAGE}.{name}"
        super().__init__(prog=prog, description=description, formatter_class=Formatter)
        self.register("type", float, number)
        self.register("type", int, whole_number)
        self.check: Callable[[argparse.Namespace], None] = lambda _: None
        """Checks that need all options; calls `error`."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> argparse.Namespace:
        """Read the command line; the result also has ``prog``, and ``options``: the option of each value."""
        result, unknown = self.parse_known_args(args, namespace)
        options = {action.dest: action.option_strings[-1] for action in self._actions if action.option_strings}
        if unknown:
            near = get_close_matches(unknown[0], options.values(), n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            kind = "there is no option" if unknown[0].startswith("-") else "nothing is expected to be called"
            self.error(f"{kind} {unknown[0]}{hint}")
        result.prog, result.options = self.prog, options
        self.check(result)
        return result

    def error(self, message: str) -> Any:
        """Say what is wrong and where to read on, and exit with code 2."""
        end = "" if message.endswith("?") else "."
        self.exit(2, f"{self.prog}: error: {message}{end} `{self.prog} --help` explains all options.\n")


def check_options(module: str, options: Callable[[], Parser]) -> None:
    """Parse the options if the module is the running program: errors and ``--help`` exit before slow imports."""
    command = COMMAND.get()
    if module == "__main__":
        options().parse_args()
    elif command and module == f"{PACKAGE}.{command[0].split()[-1].replace('-', '_')}":
        options().parse_args(command[1])


def positive(text: str) -> int:
    """Read a whole number of at least 1, as a ``type`` of argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def local_path(text: str) -> Path:
    """Read a path of this machine, as a ``type`` of argparse; ``~`` is expanded where the shell left it."""
    path = expand_path(text)
    if "://" in path:
        raise argparse.ArgumentTypeError(f"{text!r} is a URL, but a path on this machine is needed")
    return Path(path)


def bits(text: str) -> int:
    """Read how many bits of a hash number the columns, as a ``type`` of argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_BITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST_BITS}")
    return int(text)


def whole_number(text: str) -> int:
    """Read a whole number, as the ``type`` that argparse takes for ``int``."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Read a number, as the ``type`` that argparse takes for ``float``."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def share(text: str) -> float:
    """Read a number from 0 to 1, as a ``type`` of argparse."""
    value = number(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1")
    return value


def memory_limit(text: str) -> str:
    """Check what Dask takes for the memory of a worker, as a ``type`` of argparse.

    >>> memory_limit("2GB"), memory_limit("0.25"), memory_limit("auto"), memory_limit("0")
    ('2GB', '0.25', 'auto', '0')
    """
    right = "write 2GB or 500MB, a share of this machine's memory such as 0.25, auto, or 0 for no limit"
    try:
        size = LEAST_MEMORY if text == "auto" else _parse_bytes(text)
        is_share = 0.0 < float(text) <= 1.0 if text.replace(".", "", 1).isdecimal() else False
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of memory: {right}") from None
    if 0 < size < LEAST_MEMORY and not is_share:
        raise argparse.ArgumentTypeError(
            f"{text!r} is less memory than a worker takes before it holds any data: write 300MB or more, or 0 for no "
            "limit"
        )
    return text


def _parse_bytes(text: str) -> int:
    from dask.utils import parse_bytes  # noqa: PLC0415  slow to import

    return int(parse_bytes(text))
