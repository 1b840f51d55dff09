"""The real text of the races: files that were named, or what the Python standard library says of itself."""

import itertools
from collections.abc import Iterator
from functools import cache

import fsspec

import dspectral

from .race import Settings


def documents(settings: Settings) -> list[str]:
    """Return the documents of a size: a line of the files each, or a docstring or run of comments."""
    if settings["text"]:
        found = list(itertools.islice(_lines(settings["text"]), settings["documents"]))
    else:
        found = _docstrings()[: settings["documents"]]
    if not found:
        raise ValueError(f"no line of {' '.join(settings['text'])} holds any text")
    return found


@cache
def _docstrings() -> list[str]:
    return dspectral.datasets.standard_library_documents().texts


def _lines(patterns: list[str]) -> Iterator[str]:
    files = fsspec.open_files(patterns, mode="rt", encoding="utf-8", compression="infer")
    if not files:
        raise FileNotFoundError(f"no file matches {' or '.join(patterns)}")
    for opened in files:
        with opened as file:
            yield from filter(None, map(str.strip, file))
