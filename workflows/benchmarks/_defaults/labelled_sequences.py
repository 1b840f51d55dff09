"""Sequences whose tokens have labels: words with tags, names or slots, and spoken digits as codes of their frames."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dspectral.io import read_conll

from ..._form.tsv import read_tsv
from ..._parts.sequences import Side, Task, read_recordings, strings

MOST = 2000
"""Sequences of a side that are read; of a larger one so many are drawn."""
SPOKEN: dict[str, Any] = {"codes": 256, "per_string": 5, "label_column": "digit", "seed": 0}
"""How recordings become strings, as in ``sequence-labelling``."""


def read_task(data: Path, name: str) -> Task:
    """Return the training and the test side of a data set."""
    train, test = SETS[name](data)
    return Task(name, _some(train), _some(test))


def _some(side: Side) -> Side:
    if len(side.tokens) <= MOST:
        return side
    kept = np.sort(np.random.default_rng(0).permutation(len(side.tokens))[:MOST]).tolist()
    return Side([side.tokens[number] for number in kept], [side.labels[number] for number in kept])


def _columns(data: Path, *, folder: str, train: str = "train.conll.gz") -> tuple[Side, Side]:
    sides = []
    for file in (train, "test.conll.gz"):
        found = read_conll(str(data / folder / file), word_column=1, tag_column=2)
        sides.append(Side(found.words, found.tags))
    return sides[0], sides[1]


def _slots(data: Path) -> tuple[Side, Side]:
    sides = []
    for file in ("train.tsv.gz", "test.tsv"):
        rows = read_tsv(str(data / "intent" / "atis" / file), ("text", "slots_bio"))
        sides.append(Side([row["text"].split() for row in rows], [row["slots_bio"].split() for row in rows]))
    return sides[0], sides[1]


def _spoken(data: Path) -> tuple[Side, Side]:
    found = read_recordings(data / "fsdd", SPOKEN["label_column"])
    train, test = ([one for one in found if one.fields["split"] == side] for side in ("train", "test"))
    task = strings("fsdd", train, test, argparse.Namespace(**SPOKEN))
    return task.train, task.test


SETS: dict[str, Callable[[Path], tuple[Side, Side]]] = {
    "atis_slots": _slots,
    "de_gsd": partial(_columns, folder="pos/de_gsd", train="dev.conll.gz"),
    "en_ewt": partial(_columns, folder="pos/en_ewt"),
    "fr_sequoia": partial(_columns, folder="pos/fr_sequoia"),
    "fsdd": _spoken,
    "id_gsd": partial(_columns, folder="pos/id_gsd"),
    "pt_gsd": partial(_columns, folder="pos/pt_gsd"),
    "sv_lines": partial(_columns, folder="pos/sv_lines"),
    "wikiann_en": partial(_columns, folder="ner/wikiann_en"),
    "wnut17": partial(_columns, folder="ner/wnut17"),
}
"""Readers by the name of the data set."""
