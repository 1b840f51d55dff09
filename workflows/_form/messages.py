"""Errors as sentences for a person at a shell, who knows options and files but no Python."""

import re
from asyncio import CancelledError
from collections.abc import Mapping
from concurrent.futures import CancelledError as FutureCancelledError

from distributed import KilledWorker
from distributed.comm import CommClosedError

LOST = (CancelledError, FutureCancelledError, CommClosedError)
"""What is raised where a cluster is lost between passes; within one, the library says it."""
OTHER_NAMES = {
    "ngram_range": "ngrams",
    "count_transform": "transform",
    "n_labels": "packages",
    "n_splits": "folds",
    "n_sweeps": "refine",
}
"""Parameters of the library that programs take by an option of another name."""
FUNCTIONS = {
    "dspectral.store.discard_unfinished": "discard_unfinished=True",
    "memory_limit of LocalCluster, --memory-limit of `dask worker`": "--memory-limit",
    "build_store or write_counts makes one": "`dspectral build-store` makes one",
    "build_corpus makes one": "`dspectral word-embeddings --store` makes one",
}
"""What messages of the library advise, as a program does it."""
VALUE = r"(?:'[^']*'|True|False|None|-?[\d.]*\d|)"
ADVICE = re.compile(
    rf"[;:] [^;:]*\b[a-z][a-z_]*={VALUE}(?=[ ,.]|$)[^;:]*$|, or [a-z]+ [a-z]+_[a-z_]+$|; [^;]*\bdspectral\.\w+\(.*$"
)
"""A last clause about a parameter, or about a class of the library."""


def sentence(error: BaseException, options: Mapping[str, str]) -> str:
    """Return what an error says, in the words of a program's options.

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
    if isinstance(error, LOST):
        return (
            "the connection to the cluster was lost, or its work was cancelled: see whether its scheduler still runs, "
            f"and start this again once it does{_detail(error)}"
        )
    if isinstance(error, TimeoutError) and not str(error):
        return "something did not answer in time: see whether the cluster and the storage can be reached"
    text = _of_file(error) if isinstance(error, OSError) else str(error)
    return in_options(" ".join(text.split()) or type(error).__name__, options)


def _detail(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f" ({text})" if text else ""


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Let a sentence name options and not parameters; advice on one that the program does not offer is left out.

    >>> in_options("n_components is 9, but X has 4; shrink='full' helps", {"n_components": "--n-components"})
    '--n-components is 9, but X has 4'
    """
    for function, words in FUNCTIONS.items():
        text = text.replace(function, words)
    if "columns_bits" in options:
        text = re.sub(r"\bn_features( = | is )(\d+)", _in_bits, text)
    names = {name: options[of] for name, of in OTHER_NAMES.items() if of in options} | dict(options)
    for name, option in names.items():
        text = re.sub(
            rf"(?<![\w.=-]){name}=({VALUE})(?![\w'])",
            lambda found, option=option: _written(option, found[1].strip("'")),
            text,
        )
        follows = "" if "_" in name else r"(?= is [^,]*, but| (?:must )?be ')"
        text = re.sub(rf"(?<![\w./='-]){name}\b{follows}(?![./\\=('])", option, text)
    return ADVICE.sub("", text)


def _in_bits(found: re.Match[str]) -> str:
    """Return a number of columns as the power of 2 that it is."""
    return f"--columns-bits{found[1]}{int(found[2]).bit_length() - 1}"


def _written(option: str, value: str) -> str:
    """Return an option with its value as they are typed; a flag has none."""
    return option if value in ("", "True") else f"{option} {value}"


def _of_file(error: OSError) -> str:
    """Return what the system says of a file, in words."""
    if error.errno is None or error.filename is None:
        return str(error)
    said = {
        FileExistsError: f"{error.filename} is a file, but must be a folder or new",
        FileNotFoundError: f"there is no file or folder {error.filename}",
        IsADirectoryError: f"{error.filename} is a folder, but must be a file",
        NotADirectoryError: f"{error.filename} lies in something that is no folder",
        PermissionError: f"{error.filename} must not be read or written by this user",
    }
    return said.get(type(error), f"{error.filename}: {(error.strerror or str(error)).lower()}")
