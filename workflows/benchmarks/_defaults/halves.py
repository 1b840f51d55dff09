"""Two halves of a family's data sets, fixed by their names before anything was run."""

from collections.abc import Iterable

RULE = (
    "data sets in alphabetical order, every other one from the first on: defaults were designed on these, on their "
    "training sides alone; the figures of the others are what counts"
)
"""The split, as every report says it."""


def designed_on(names: Iterable[str]) -> set[str]:
    """Return the data sets that defaults were designed on.

    >>> sorted(designed_on(["bibtex", "medical", "enron"]))
    ['bibtex', 'medical']
    """
    return set(sorted(names)[::2])
