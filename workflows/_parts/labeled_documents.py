"""Documents whose labels have names, as workflows are given them: which file, which fields, which labels count."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import fsspec
import numpy as np
from scipy import sparse

from dspectral.io import LabeledText, read_labeled_records
from dspectral.store import CountStore

from .._form import form
from .known_collections import read_newsgroups, read_reuters

SHOWN = 10
"""Labels that a note names."""


class Side(NamedTuple):
    """Training or test documents: the path of their text, as jsonl, the labels of each, and how many have none."""

    path: str
    labels: list[tuple[str, ...]]
    n_unlabeled: int = 0


def read(arguments: argparse.Namespace, side: str) -> Iterator[LabeledText]:
    """Read a side ("train" or "test") with the reader that its path asks for."""
    path = getattr(arguments, side)
    system, root = fsspec.url_to_fs(path)
    folder = system.isdir(root)
    if root.endswith(".sgm") or (folder and system.glob(f"{root}/*.sgm")):
        return read_reuters(path, side)
    if folder:
        return read_newsgroups(path)
    return read_labeled_records(path, text=arguments.text, label=arguments.label)


def labels_that_count(arguments: argparse.Namespace) -> list[str]:
    """Return the labels that enough training documents have."""
    totals = Counter(label for one in read(arguments, "train") for label in set(one.labels))
    labels = sorted(label for label, total in totals.items() if total >= arguments.min_documents)
    if len(labels) < 2:
        raise ValueError(
            f"{arguments.train} has {len(labels)} label(s) with {arguments.min_documents} or more documents, but "
            "there must be two"
        )
    return labels


def written(arguments: argparse.Namespace, side: str, labels: list[str], path: str, *, unlabeled: bool = False) -> Side:
    """Write a side's text as jsonl, and return its labels; documents without a label if asked for.

    Of the training side labels that do not count are left out. Of the test side they stay: they cannot be found, and
    are errors.
    """
    kept, known, n_unlabeled = [], set(labels), 0
    with Path(path).open("w", encoding="utf-8") as file:
        for one in read(arguments, side):
            n_unlabeled += not one.labels
            own = tuple(label for label in dict.fromkeys(one.labels) if side == "test" or label in known)
            if own or unlabeled:
                file.write(json.dumps({"text": one.text}) + "\n")
                kept.append(own)
    if not any(known.intersection(own) for own in kept):
        raise ValueError(f"no document of {getattr(arguments, side)} has a label that the training side has")
    return Side(path, kept, n_unlabeled)


def not_learned(labels: Iterable[Iterable[str]], learned: Iterable[str]) -> Counter[str]:
    """Return the labels of test documents that were not learned, and how many documents have each.

    >>> not_learned([("tea",), ("ice", "tea"), ()], ["tea"])
    Counter({'ice': 1})
    """
    known = set(learned)
    return Counter(sorted(label for own in labels for label in own if label not in known))


def note_not_learned(run: form.Run, missed: Mapping[str, int], n_unlabeled: int = 0) -> None:
    """Note the labels of test documents that no method can find, and test documents without a label."""
    if missed:
        named = ", ".join(f"{label} {count}" for label, count in list(missed.items())[:SHOWN])
        more = f" and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
        run.note(
            f"{len(missed)} label(s) of test documents are unseen in training, or in too few documents to be learned, "
            f"and count as errors: {named}{more}"
        )
    if n_unlabeled:
        run.note(f"{n_unlabeled} test document(s) without a label are not scored")


def most_frequent(store: CountStore, n_terms: int) -> np.ndarray:
    """Return the columns of the terms that occur most often, in order."""
    return np.sort(np.argsort(-store.column_sums, kind="stable")[:n_terms])


def indicator(labels: list[tuple[str, ...]], names: list[str]) -> sparse.csr_array:
    """Return 1 where a document has a label.

    >>> indicator([("tea",), ()], ["tea", "food"]).toarray()
    array([[1., 0.],
           [0., 0.]])
    """
    number = {label: column for column, label in enumerate(names)}
    rows = np.repeat(np.arange(len(labels)), [len(one) for one in labels])
    columns = [number[label] for one in labels for label in one]
    return sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(labels), len(names)))


def name_of(path: str) -> str:
    """Name data by its file, or by its folder where the file is just called train or all or the like.

    >>> name_of("newsgroups20/train.jsonl.gz"), name_of("topics.tsv")
    ('newsgroups20', 'topics')
    """
    file = Path(path)
    stem = file.name.split(".")[0]
    side = stem == "all" or stem.endswith("train")
    return file.parent.name if side and file.parent.name else stem
