"""Word vectors of sentences drawn from a Brown model, in which the words of one class behave alike."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .brown import make, sentences, word_class
from .race import Contender, Found, Race, Settings

WINDOW = 2
LEAST_COUNT = 5
"""Of a word that is scored."""


def accuracy(folder: Path, s: Settings, found: Found) -> dict[str, float]:
    """Return the share of words whose nearest neighbor is of their class; chance is one over the classes."""
    words, counts = np.unique([word for line in sentences(folder) for word in line], return_counts=True)
    common = np.isin(found["words"], words[counts >= LEAST_COUNT])
    vectors = found["vectors"][common].astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    classes = np.array([word_class(word, s["classes"]) for word in found["words"][common]])
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -np.inf)
    return {"same_class_nearest": float(np.mean(classes[alike.argmax(axis=1)] == classes))}


def ours(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Read the text, write the corpus to disk, count and decompose."""
    place = str(Path(tempfile.mkdtemp(dir=folder), "corpus.zarr"))
    model = library.WordEmbedding(s["length"], window=WINDOW)
    return lambda: model.fit(library.build_corpus(str(folder / "sentences.txt"), place))


def our_vectors(model: Any) -> Found:
    """Return words and vectors."""
    return {"words": np.array(model.words_), "vectors": model.vectors_}


def word2vec(
    library: ModuleType, folder: Path, s: Settings, *, skip_gram: bool, epochs: int
) -> Callable[[], Any]:
    """Read the text, and learn from it as often as there are epochs."""
    settings = {"vector_size": s["length"], "window": WINDOW, "min_count": 1, "workers": 1, "seed": 0}
    file = str(folder / "sentences.txt")
    return lambda: library.Word2Vec(corpus_file=file, sg=int(skip_gram), epochs=epochs, **settings)


def their_vectors(model: Any) -> Found:
    """Return words and vectors."""
    return {"words": np.array(model.wv.index_to_key), "vectors": model.wv.vectors}


def _peer(*, skip_gram: bool, epochs: int) -> Contender:
    prepare = partial(word2vec, skip_gram=skip_gram, epochs=epochs)
    return Contender("gensim.models", prepare, their_vectors)


RACE = Race(
    "Learn a vector for each word, from a file of text.",
    {
        "toy": {"sentences": 300, "classes": 4, "words": 60, "length": 8},
        "small": {"sentences": 10_000, "classes": 20, "words": 2_000, "length": 50},
        "middle": {"sentences": 20_000, "classes": 40, "words": 4_000, "length": 100},
        "full": {"sentences": 350_000, "classes": 100, "words": 50_000, "length": 300},
    },
    make,
    {
        "dspectral": Contender("dspectral", ours, our_vectors),
        "gensim skip-gram, 5 epochs": _peer(skip_gram=True, epochs=5),
        "gensim skip-gram, 20 epochs": _peer(skip_gram=True, epochs=20),
        "gensim CBOW, 20 epochs": _peer(skip_gram=False, epochs=20),
    },
    accuracy,
)
