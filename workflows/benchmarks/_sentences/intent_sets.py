"""Data sets of short questions and commands with intents, and public queries without."""

from pathlib import Path

import fsspec
import numpy as np

from ..._form.tsv import read_tsv
from ..._parts.intent_scores import Labelled

SETS = {
    "atis": ("intent/atis/train.tsv.gz", "intent/atis/test.tsv", "intent"),
    "banking77": ("intent/banking77/train.tsv.gz", "intent/banking77/test.tsv.gz", "intent"),
    "clinc150": ("intent/clinc150/train.tsv.gz", "intent/clinc150/test.tsv.gz", "intent"),
    "snips": ("intent/snips/train.tsv.gz", "intent/snips/test.tsv", "intent"),
    "trec": ("sentences/trec/train.tsv.gz", "sentences/trec/test.tsv", "coarse"),
}
"""Training side, test side and column of the intents, by the data set's name."""
QUERIES = "queries"
"""Folder of public queries, one a line, of other subjects."""


def read_intents(data: Path, name: str) -> tuple[Labelled, Labelled]:
    """Return the training and the test side of a data set.

    Parameters
    ----------
    data : Path
        Folder of all data sets.
    name : str
        One of :data:`SETS`.

    Returns
    -------
    tuple of Labelled
        Training sentences and test sentences with their intents.
    """
    *paths, column = SETS[name]
    train, test = (read_side(data / path, column) for path in paths)
    return train, test


def read_side(path: Path, column: str) -> Labelled:
    """Read one side.

    Parameters
    ----------
    path : Path
        A TSV with a header.
    column : str
        Column of the intents, beside ``text``.

    Returns
    -------
    Labelled
        Sentences and intents.
    """
    rows = read_tsv(str(path), ("text", column))
    return Labelled([row["text"] for row in rows], np.asarray([row[column] for row in rows]))


def held_out(train: Labelled, seed: int, share: float = 0.25) -> tuple[Labelled, Labelled]:
    """Part training sentences in two, so that something can be designed without a test side.

    Parameters
    ----------
    train : Labelled
        The training side.
    seed : int
        Seed of the parting.
    share : float, default=0.25
        Share that is held out.

    Returns
    -------
    tuple of Labelled
        What is learned from, and what is held out.

    Examples
    --------
    >>> whole = Labelled(["a", "b", "c", "d"], np.array(["x", "x", "y", "y"]))
    >>> [len(part.texts) for part in held_out(whole, seed=0)]
    [3, 1]
    """
    order = np.random.default_rng(seed).permutation(len(train.texts))
    cut = round(share * len(order))
    return train.at(np.sort(order[cut:])), train.at(np.sort(order[:cut]))


def read_queries(data: Path, most: int, seed: int) -> list[str]:
    """Draw public queries.

    Parameters
    ----------
    data : Path
        Folder of all data sets.
    most : int
        Number of queries; all where there are fewer.
    seed : int
        Seed of the draw.

    Returns
    -------
    list of str
        Queries in random order, so that the first are a sample of all.
    """
    lines: list[str] = []
    for path in sorted((data / QUERIES).glob("*.txt*")):
        with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as file:
            lines += [line.rstrip("\n") for line in file]
    order = np.random.default_rng(seed).permutation(len(lines))[:most]
    return [lines[place] for place in order]
