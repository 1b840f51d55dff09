"""Data sets of documents and sentences in classes, as tf-idf over the most frequent terms of the training side."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from ..._form.tsv import read_tsv
from ..._parts.lsi_methods import Documents

TERMS = 8000
"""Most frequent terms that are kept, as in ``lsi-classification``."""
MOST = 2000
"""Documents of a side that are read; of a larger one so many are drawn."""


class Texts(NamedTuple):
    """Texts of one side, each with the classes that it has."""

    texts: list[str]
    labels: list[tuple[str, ...]]

    def at(self, rows: Any) -> "Texts":
        """Return the texts at these places."""
        return Texts([self.texts[row] for row in rows], [self.labels[row] for row in rows])


class Files(NamedTuple):
    """Where a data set is.

    `train, test`: TSV or jsonl below the folder of all data sets; `label`: column of the class, or of a list
    of classes; `text`: columns of the text.
    """

    train: str
    test: str
    label: str = "label"
    text: tuple[str, ...] = ("text",)


SETS = {
    "atis": Files("intent/atis/train.tsv.gz", "intent/atis/test.tsv", "intent"),
    "banking77": Files("intent/banking77/train.tsv.gz", "intent/banking77/test.tsv.gz", "intent"),
    "clinc150": Files("intent/clinc150/train.tsv.gz", "intent/clinc150/test.tsv.gz", "intent"),
    "imdb": Files("sentiment/imdb/train.tsv.gz", ""),
    "movie_reviews": Files("sentiment/movie_reviews/all.tsv.gz", ""),
    "newsgroups20": Files("newsgroups20/train.jsonl.gz", "newsgroups20/test.jsonl.gz"),
    "reuters21578": Files(
        "reuters21578/modapte_train.jsonl.gz",
        "reuters21578/modapte_test.jsonl.gz",
        "topics",
        ("title", "text"),
    ),
    "sms_spam": Files("sms_spam/all.tsv.gz", ""),
    "snips": Files("intent/snips/train.tsv.gz", "intent/snips/test.tsv", "intent"),
    "sst2": Files("sentiment/sst2/train.tsv.gz", "sentiment/sst2/test.tsv"),
    "trec": Files("sentences/trec/train.tsv.gz", "sentences/trec/test.tsv", "coarse"),
}
"""Files by the name of the data set."""


class Sides(NamedTuple):
    """A data set, weighted.

    `train, test`: ; `exclusive`: whether each document has one class.
    """

    train: Documents
    test: Documents
    exclusive: bool


def read_documents(data: Path, name: str) -> Sides:
    """Return the training and the test side of a data set."""
    train, test = read_sides(data, name)
    counted = TfidfVectorizer(max_features=TERMS, min_df=2)
    rows = [counted.fit_transform(train.texts), counted.transform(test.texts)]
    totals: dict[str, int] = {}
    for label in (label for labels in train.labels for label in set(labels)):
        totals[label] = totals.get(label, 0) + 1
    known = sorted(label for label, total in totals.items() if total > 1)
    sides = []
    for side, weights in zip((train, test), rows, strict=True):
        own = [[label for label in labels if label in totals and totals[label] > 1] for labels in side.labels]
        members = sparse.csr_array(MultiLabelBinarizer(classes=known).fit_transform(own).astype(np.float64))
        kept = np.flatnonzero(members.sum(axis=1))
        sides.append(Documents(sparse.csr_array(weights)[kept], members[kept]))
    exclusive = all(int(side.members.sum(axis=1).max()) == 1 for side in sides)
    return Sides(sides[0], sides[1], exclusive)


def read_sides(data: Path, name: str) -> tuple[Texts, Texts]:
    """Read both sides, at most so many texts of each."""
    files = SETS[name]
    train = _read(data / files.train, files)
    rng = np.random.default_rng(0)
    if files.test:
        return _some(train, rng), _some(_read(data / files.test, files), rng)
    order = rng.permutation(len(train.texts))
    cut = len(order) // 4
    return _some(train.at(np.sort(order[cut:])), rng), _some(train.at(np.sort(order[:cut])), rng)


def _some(side: Texts, rng: np.random.Generator) -> Texts:
    if len(side.texts) <= MOST:
        return side
    return side.at(np.sort(rng.permutation(len(side.texts))[:MOST]))


def _read(path: Path, files: Files) -> Texts:
    texts, labels = [], []
    for record in _records(path, files):
        own = record[files.label]
        labels.append((own,) if isinstance(own, str) else tuple(own))
        texts.append(" ".join(record[column] for column in files.text))
    return Texts(texts, labels)


def _records(path: Path, files: Files) -> Iterator[dict[str, Any]]:
    if ".jsonl" not in path.name:
        yield from read_tsv(str(path), (*files.text, files.label))
        return
    with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as file:
        yield from map(json.loads, file)
