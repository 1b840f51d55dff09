"""Errors as sentences with the options of a program instead of parameters."""

import re
from asyncio import CancelledError
from collections.abc import Mapping
from concurrent.futures import CancelledError as FutureCancelledError

from distributed import KilledWorker
from distributed.comm import CommClosedError

LOST = (CancelledError, FutureCancelledError, CommClosedError)
"""Errors of a lost cluster between passes; within a pass the library raises ClusterError."""
OTHER_NAMES = {
    "ngram_range": "ngrams",
    "count_transform": "transform",
    "max_df": "max_document_frequency",
    "min_df": "min_document_frequency",
    "n_labels": "packages",
    "n_splits": "folds",
    "n_sweeps": "refine",
}
"""Parameters whose option has another name."""
FUNCTIONS = {
    "open_store opens it, ": "",
    "memory_limit of LocalCluster, --memory-limit of `dask worker`": "--memory-limit",
    "build_store or write_counts makes one": "`dspectral build-store` makes one",
    "build_corpus makes one": "`dspectral word-embeddings --store` makes one",
}
"""Advice of the library, as an option or command."""
VALUE = r"(?:'[^']*'|True|False|None|-?[\d.]*\d|)"
ADVICE = re.compile(
    rf"[;:] [^;:]*\b[a-z][a-z_]*={VALUE}(?=[ ,.]|$)[^;:]*$|, or [a-z]+ [a-z]+_[a-z_]+$|; [^;]*\bdspectral\.\w+\(.*$"
)
"""A last clause that names a parameter or a class."""


def sentence(error: BaseException, options: Mapping[str, str]) -> str:
    """Return the message of an error, with options instead of parameters.

    >>> sentence(ValueError("a store is there: append=True adds to it"), {"append": "--append"})
    'a store is there: --append adds to it'
    >>> sentence(FileNotFoundError(2, "No such file or directory", "a.txt"), {})
    'a.txt does not exist'
    """
    if isinstance(error, KilledWorker):
        return (
            f"{error.allowed_failures + 1} workers died one after the other at the same task, probably for lack of "
            "memory: raise --memory-limit, or lower --workers"
        )
    if isinstance(error, LOST):
        return (
            "the connection to the cluster was lost, or its tasks were cancelled: check that the scheduler runs, and "
            f"start this command again{_detail(error)}"
        )
    if isinstance(error, TimeoutError) and not str(error):
        return "timeout: check that the cluster and the storage can be reached"
    text = _of_file(error) if isinstance(error, OSError) else str(error)
    return in_options(" ".join(text.split()) or type(error).__name__, options)


def _detail(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f" ({text})" if text else ""


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Replace parameters by options in a message, and drop advice without an option.

    >>> in_options("n_components is 9, but X has 4; shrink='full' helps", {"n_components": "--n-components"})
    '--n-components is 9, but X has 4'
    """
    for function, words in FUNCTIONS.items():
        text = text.replace(function, words)
    if "columns_bits" in options:
        text = re.sub(r"\bn_features( = | is )(\d+)", _in_bits, text)
    names = {name: options[other] for name, other in OTHER_NAMES.items() if other in options} | dict(options)
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
    """Return a number of columns as a power of 2."""
    return f"--columns-bits{found[1]}{int(found[2]).bit_length() - 1}"


def _written(option: str, value: str) -> str:
    """Return an option with its value as typed; a flag has none."""
    return option if value in ("", "True") else f"{option} {value}"


def _of_file(error: OSError) -> str:
    """Return the message of an OSError about a file."""
    if error.errno is None or error.filename is None:
        return str(error)
    messages = {
        FileExistsError: f"{error.filename} must be a folder or new, but is a file",
        FileNotFoundError: f"{error.filename} does not exist",
        IsADirectoryError: f"{error.filename} must be a file, but is a folder",
        NotADirectoryError: f"the parent of {error.filename} must be a folder, but is a file",
        PermissionError: f"no permission to read or write {error.filename}",
    }
    return messages.get(type(error), f"{error.filename}: {(error.strerror or str(error)).lower()}")
