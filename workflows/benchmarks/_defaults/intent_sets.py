"""Data sets of sentences, questions, commands and titles in known classes, and public queries without."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np

from dspectral.datasets import standard_library_intents

from ..._form.tsv import read_tsv
from ..._parts.intent_scores import Labelled


class Source(NamedTuple):
    """Where the sentences of a data set are.

    `train, test`: TSV or jsonl below the folder of all data sets; `label`: column of the class; `text`:
    column of the sentence; `read`: makes a sentence of the text, for example one of its lines; `several`:
    what parts several classes of one sentence in a TSV.
    """

    train: str
    test: str
    label: str
    text: str = "text"
    read: Callable[[str], str] = str
    several: str = ""


def subject(post: str) -> str:
    r"""Return the subject of a post of a newsgroup, without the marks of an answer; nothing where there is none.

    Lines end with tabs in some copies.

    >>> subject("From: me\nSubject: Re: Hot tea\n\nWhere?")
    'Hot tea'
    """
    found = re.search(r"(?:^|[\t\n])Subject:[ \t]*(?:re:[ \t]*)*([^\t\n]*)", post, re.IGNORECASE)
    return found[1].strip() if found else ""


SETS: dict[str, Source | None] = {
    "atis": Source("intent/atis/train.tsv.gz", "intent/atis/test.tsv", "intent"),
    "banking77": Source("intent/banking77/train.tsv.gz", "intent/banking77/test.tsv.gz", "intent"),
    "clinc150": Source("intent/clinc150/train.tsv.gz", "intent/clinc150/test.tsv.gz", "intent"),
    "goemotions": Source(
        "multilabel/goemotions/train.tsv.gz", "multilabel/goemotions/test.tsv.gz", "label_ids", several=","
    ),
    "newsgroups": Source("newsgroups20/train.jsonl.gz", "newsgroups20/test.jsonl.gz", "label", read=subject),
    "reuters": Source(
        "reuters21578/modapte_train.jsonl.gz", "reuters21578/modapte_test.jsonl.gz", "topics", "title"
    ),
    "sms": Source("sms_spam/all.tsv.gz", "", "label"),
    "snips": Source("intent/snips/train.tsv.gz", "intent/snips/test.tsv", "intent"),
    "sst5": Source("sentiment/sst5/train.tsv.gz", "sentiment/sst5/test.tsv.gz", "label"),
    "standard_library": None,
    "trec": Source("sentences/trec/train.tsv.gz", "sentences/trec/test.tsv", "coarse"),
}
"""Sources by the data set's name; that of the standard library is Python itself, as in the demo."""
QUERIES = "queries"
"""Folder of public queries, one a line, of other subjects."""


def read_intents(data: Path, name: str) -> tuple[Labelled, Labelled]:
    """Return the training and the test side of a data set."""
    source = SETS[name]
    if source is None:
        found = standard_library_intents()
        return (
            Labelled(found.train_texts, np.asarray(found.train_labels)),
            Labelled(found.test_texts, np.asarray(found.test_labels)),
        )
    train = read_side(data / source.train, source)
    if not source.test:
        return held_out(train, seed=0)
    return train, read_side(data / source.test, source)


def read_side(path: Path, source: Source) -> Labelled:
    """Read one side."""
    texts, labels = [], []
    for record in records(path, source):
        own = record[source.label]
        if isinstance(own, str):
            own = own.split(source.several) if source.several else [own]
        text = source.read(record[source.text])
        if len(own) == 1 and text:
            texts.append(text)
            labels.append(own[0])
    return Labelled(texts, np.asarray(labels))


def records(path: Path, source: Source) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table or the objects of a jsonl."""
    if ".jsonl" not in path.name:
        yield from read_tsv(str(path), (source.text, source.label))
        return
    with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as file:
        yield from map(json.loads, file)


def held_out(train: Labelled, seed: int, share: float = 0.25) -> tuple[Labelled, Labelled]:
    """Part training sentences in two, so that something can be designed without a test side.

    >>> whole = Labelled(["a", "b", "c", "d"], np.array(["x", "x", "y", "y"]))
    >>> [len(part.texts) for part in held_out(whole, seed=0)]
    [3, 1]
    """
    order = np.random.default_rng(seed).permutation(len(train.texts))
    cut = round(share * len(order))
    return train.at(np.sort(order[cut:])), train.at(np.sort(order[:cut]))


def read_queries(data: Path, most: int, seed: int) -> list[str]:
    """Draw public queries."""
    lines: list[str] = []
    for path in sorted((data / QUERIES).glob("*.txt*")):
        with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as file:
            lines += [line.rstrip("\n") for line in file]
    order = np.random.default_rng(seed).permutation(len(lines))[:most]
    return [lines[place] for place in order]
