"""Lists that word vectors are scored on: judgements of similarity, and analogies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np


class WordList(NamedTuple):
    """A list, or a part of one: pairs with a score, or questions."""

    name: str
    part: str
    pairs: list[tuple[str, str, float]] | None = None
    questions: list[tuple[str, str, str, str]] | None = None


def read_lists(similarity: Sequence[str], analogies: Sequence[str], parts: Sequence[str], seed: int) -> list[WordList]:
    """Read the parts asked for of all lists."""
    lists = []
    for path in similarity:
        pairs = [(a, b, number(path, value)) for a, b, value in fields_of(path, 3)]
        lists += [WordList(name_of(path), part, pairs=part_of(pairs, part, seed)) for part in parts]
    for path in analogies:
        questions = [tuple(fields) for fields in fields_of(path, 4)]
        lists += [WordList(name_of(path), part, questions=part_of(questions, part, seed)) for part in parts]
    return lists


def part_of(entries: list[Any], part: str, seed: int) -> list[Any]:
    """Return a list, or one of its two random halves, in its order."""
    if part == "all":
        return entries
    first = np.zeros(len(entries), dtype=bool)
    first[np.random.default_rng(seed).permutation(len(entries))[: len(entries) // 2]] = True
    return [entry for entry, is_first in zip(entries, first, strict=True) if is_first == (part == "first")]


def fields_of(path: str, n: int) -> list[list[str]]:
    """Return the last columns of a TSV with a header, in lower case."""
    rows = []
    with fsspec.open(path, "rt", encoding="utf-8", compression="infer") as file:
        next(iter(file), None)
        for line_number, line in enumerate(file, start=2):
            fields = line.lower().rstrip("\r\n").split("\t")
            if len(fields) < n:
                raise ValueError(f"{path}, line {line_number} has {len(fields)} columns, but needs {n}")
            rows.append(fields[-n:])
    return rows


def number(path: str, text: str) -> float:
    """Read a score."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path} has the score {text!r}, which is not a number") from None


def name_of(path: str) -> str:
    """Name data by its file, without endings.

    >>> name_of("wordsim/ws353.tsv"), name_of("mix6m.txt.gz")
    ('ws353', 'mix6m')
    """
    return Path(path).name.split(".")[0]
