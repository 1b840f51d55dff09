"""Errors as sentences for a person at a shell, who knows options and files but no Python."""

import re
from collections.abc import Mapping

from distributed import KilledWorker

OTHER_NAMES = {
    "n_features": "columns_bits",
    "ngram_range": "ngrams",
    "count_transform": "transform",
    "n_sweeps": "refine",
}
"""Parameters of the library that programs take by an option of another name."""
VALUE = r"(?:'[^']*'|True|False|None|-?[\d.]*\d|)"
ADVICE = re.compile(rf"[;:,] [^;:,]*\b[a-z][a-z_]*={VALUE}(?=[ ,.]|$)[^;:]*$")
"""A last clause about a parameter."""


def sentence(error: BaseException, options: Mapping[str, str]) -> str:
    """Return what an error says, in the words of a program's options.

    Parameters
    ----------
    error : BaseException
        One that comes of what was asked for.
    options : mapping of str to str
        The option of each parameter, ``{"columns_bits": "--columns-bits"}`` for instance.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> sentence(ValueError("a store is there: append=True adds to it"), {"append": "--append"})
    'a store is there: --append adds to it'
    >>> sentence(FileNotFoundError(2, "No such file or directory", "a.txt"), {})
    'there is no file or folder a.txt'
    """
    if isinstance(error, KilledWorker):
        return (
            f"{error.allowed_failures + 1} workers ended, one after the other, at the same task, most often for lack "
            "of memory: give each more by --memory-limit, or start fewer by --workers"
        )
    text = _of_file(error) if isinstance(error, OSError) else str(error)
    return in_options(" ".join(text.split()) or type(error).__name__, options)


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Let a sentence name options and not parameters; advice on one that the program does not offer is left out.

    Parameters
    ----------
    text : str
        A sentence of the library, where ``name=value`` and ``name is value, but`` are parameters.
    options : mapping of str to str
        As of :func:`sentence`.

    Returns
    -------
    str
        The sentence.

    Examples
    --------
    >>> in_options("n_components is 9, but X has 4; shrink='full' helps", {"n_components": "--n-components"})
    '--n-components is 9, but X has 4'
    """
    names = {name: options[of] for name, of in OTHER_NAMES.items() if of in options} | dict(options)
    for name in sorted(names, key=len, reverse=True):
        option = names[name]
        text = re.sub(
            rf"(?<![\w.=-]){name}=({VALUE})(?![\w'])",
            lambda found, option=option: _written(option, found[1].strip("'")),
            text,
        )
        follows = "" if "_" in name else r"(?= is [^,]*, but)"
        text = re.sub(rf"(?<![\w./=-]){name}\b{follows}(?![./\\=(])", option, text)
    return ADVICE.sub("", text)


def _written(option: str, value: str) -> str:
    """Return an option with its value as they are typed; a flag has none."""
    return option if value in ("", "True") else f"{option} {value}"


def _of_file(error: OSError) -> str:
    """Return what the system says of a file, in words."""
    if error.errno is None or error.filename is None:
        return str(error)
    said = {
        FileNotFoundError: f"there is no file or folder {error.filename}",
        IsADirectoryError: f"{error.filename} is a folder, but must be a file",
        NotADirectoryError: f"{error.filename} lies in something that is no folder",
        PermissionError: f"{error.filename} must not be read or written by this user",
    }
    return said.get(type(error), f"{error.filename}: {(error.strerror or str(error)).lower()}")
