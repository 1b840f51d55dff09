"""Sentences as trees: TMPCA by its name alone, tuned, as published, and beside PCA, means and plain words."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dspectral import TreePCA, WordEmbedding

from ..._form import form
from ..._parts.labelled_texts import Split, Texts
from ..._parts.least_squares import LeastSquares
from ..._parts.text_classifiers import (
    Average,
    Classifier,
    Concatenated,
    Output,
    Settings,
    SupportVectors,
    Tree,
    Words,
)
from ...tmpca_classification import known_words, mean_vector
from ..tree_features import SETS, sides, some_of
from .family import Family, Found

MOST = 1500
"""Texts of a training side that are learned from; of a larger one so many are drawn."""
DIMENSIONS = 100
"""Length of a word's vector, and of all vectors of a tree."""
GRID: dict[str, tuple[Any, ...]] = {
    "output": ("root", "levels", "pooled", "sliding"),
    "length": (16, 32, 64),
}
"""What a person would try."""


class Way(NamedTuple):
    """What texts are turned into, what learns from that, and what was chosen."""

    features: Any
    machine: SupportVectors | LeastSquares
    settings: str


def found(run: form.Run, data: Path, name: str, _scratch: str) -> Iterator[Found]:
    """Learn from a data set in each way, all with the same word vectors, learned from all its training texts."""
    seed = run.arguments.seed
    whole = sides(data, SETS[name], choose=False, seed=seed)
    split = Split(_drawn(whole.train, seed), whole.test)
    with run.measure(f"{name}: learn word vectors"):
        embedding = WordEmbedding(DIMENSIONS, min_count=2, random_state=seed).fit(whole.train.words)
    run.passes += embedding.n_passes_
    words, matrix = known_words((embedding.words_, embedding.vectors_))
    centered = matrix - mean_vector(words, matrix, whole.train.words)
    default = TreePCA()
    settings = Settings((words, centered), matrix.shape[1], default.length, "none", seed)

    def tree(output: Output, length: int) -> Way:
        features = Tree(settings._replace(length=length), [1], output=output)
        return Way(features, LeastSquares(seed), f"{output}, {length} words")

    yield _learned(run, f"{name}: default", tree(default.output, default.length), split)
    with run.measure(f"{name}: tune"):
        ways = [tree(*values) for values in product(*GRID.values())]
        errors = [Classifier(way.features, way.machine).fit(split.train).inner_error for way in ways]
    best = list(product(*GRID.values()))[int(np.argmin(errors))]
    yield _learned(run, f"{name}: tuned", tree(*best), split)
    published = tree("root", default.length)._replace(machine=SupportVectors(seed))
    yield _learned(run, f"{name}: as published", published, split)
    yield _learned(run, f"{name}: PCA", Way(Concatenated(settings), LeastSquares(seed), ""), split)
    yield _learned(run, f"{name}: mean of the words", Way(Average(settings), LeastSquares(seed), ""), split)
    yield _learned(run, f"{name}: words", Way(Words(), SupportVectors(seed), ""), split)


def _drawn(texts: Texts, seed: int) -> Texts:
    """Draw texts of a large training side; a label with one text has no share to draw, and is left out."""
    if len(texts.words) <= MOST:
        return texts
    _, numbers, counts = np.unique(texts.labels, return_inverse=True, return_counts=True)
    return some_of(texts.at(np.flatnonzero(counts[numbers] > 1)), MOST, seed)


def _learned(run: form.Run, what: str, way: Way, split: Split) -> Found:
    classifier = Classifier(way.features, way.machine)
    with run.measure(what) as used:
        classifier.fit(split.train)
    run.passes += way.features.n_passes
    accuracy = 1.0 - float(np.mean(classifier.wrong(split.test)))
    return Found(what.partition(": ")[2], way.settings, used.cpu_seconds, {"accuracy": accuracy})


FAMILY = Family(tuple(SETS), found)
"""What the table asks for."""
