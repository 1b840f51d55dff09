"""Sentences to vectors: TMPCA, and the principal components of all vectors of a sentence at once.

Sentences come from two Brown models that share their classes of words and differ in which class follows which.
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import dspectral

from .brown import word_class
from .race import Contender, Found, Race, Settings

RIDGE = 1e-3


def make(folder: Path, s: Settings) -> str:
    """Write the vectors of the words of each sentence, and the model that it comes from."""
    rng, parts = np.random.default_rng(s["seed"]), []
    table = rng.standard_normal((s["classes"], s["dimensions"]))
    for model in (0, 1):
        sample = dspectral.datasets.brown_model_sentences(
            s["sentences"] // 2,
            n_classes=s["classes"],
            n_words=10 * s["classes"],
            length=s["length"],
            seed=s["seed"] + model,
        )
        classes = [[word_class(word, s["classes"]) for word in line] for line in sample.sentences]
        parts.append(table[np.array(classes)])
    vectors = np.concatenate(parts).astype(np.float32)
    vectors += rng.standard_normal(vectors.shape, dtype=np.float32)
    order = rng.permutation(len(vectors))
    np.save(folder / "vectors.npy", vectors[order])
    np.save(folder / "truth.npy", np.repeat([-1.0, 1.0], len(vectors) // 2)[order])
    return f"{len(vectors):,} sentences of {s['length']} vectors of {s['dimensions']} numbers"


def accuracy(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return how many of a quarter of the sentences a linear classifier of the others puts to the right model."""
    truth, features = np.load(folder / "truth.npy"), found["features"].astype(np.float64)
    features = np.column_stack([(features - features.mean(axis=0)) / (features.std(axis=0) + 1e-9), truth**0])
    cut = 3 * len(truth) // 4
    gram = features[:cut].T @ features[:cut] + RIDGE * cut * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, features[:cut].T @ truth[:cut])
    return {"accuracy": float(np.mean(np.sign(features[cut:] @ weights) == truth[cut:]))}


def ours(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Join neighbors level by level."""
    X, model = np.load(folder / "vectors.npy"), library.TreePCA(s["dimensions"], length=s["length"])
    return lambda: {"features": model.fit_transform(X)}


def our_pca(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Take the components of whole sentences, from their Gram matrix."""
    X = np.load(folder / "vectors.npy")
    model = library.SketchedPCA(s["dimensions"], solver="gram")
    return lambda: {"features": model.fit_transform(X.reshape(len(X), -1))}


def their_pca(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Take the components of whole sentences by the solver that scikit-learn chooses."""
    X, model = np.load(folder / "vectors.npy"), library.PCA(s["dimensions"], random_state=0)
    return lambda: {"features": model.fit_transform(X.reshape(len(X), -1))}


RACE = Race(
    "Make a vector of each sentence, from the vectors of its words in their order.",
    {
        "toy": {"sentences": 200, "classes": 4, "length": 4, "dimensions": 4},
        "small": {"sentences": 2_000, "classes": 8, "length": 32, "dimensions": 16},
        "middle": {"sentences": 4_000, "classes": 8, "length": 64, "dimensions": 32},
        "full": {"sentences": 4_000, "classes": 8, "length": 128, "dimensions": 32},
    },
    make,
    {
        "dspectral TreePCA": Contender("dspectral", ours),
        "dspectral PCA of whole sentences": Contender("dspectral", our_pca),
        "scikit-learn PCA of whole sentences": Contender("sklearn.decomposition", their_pca),
    },
    accuracy,
)
