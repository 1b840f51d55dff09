"""Exact vocabularies: which words and pairs of words there are, and how often each document has each."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import dspectral

from .hashing import held, sums
from .hashing import make as hashed
from .race import Contender, Found, Race, Settings

NGRAMS = (1, 2)
LEAST_DOCUMENTS = 2
SETTINGS = dspectral.VocabularySettings(NGRAMS, min_document_frequency=LEAST_DOCUMENTS)


def make(folder: Path, s: Settings) -> str:
    """Write the documents as JSON and as lines, and how often each term occurs."""
    data = hashed(folder, s)
    lines = [" ".join(text.split()) for text in held(folder)]
    (folder / "documents.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    store = dspectral.build_store(
        str(folder / "documents.txt"), str(folder / "truth.zarr"), vocabulary=SETTINGS
    )
    np.savez(folder / "truth.npz", **ordered(store.counts.compute()))
    documents_and_characters = data.rpartition(", ")[0]
    return f"{documents_and_characters}, {store.n_columns:,} terms"


def ordered(rows: Any) -> Found:
    """Return how often each term occurs, in order of size: columns may be numbered in any order."""
    return {"sums": np.sort(sums(rows)["sums"])}


def accuracy(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return how many terms are missing or counted otherwise."""
    with np.load(folder / "truth.npz") as truth:
        here, there = truth["sums"], found["sums"]
    n = min(len(here), len(there))
    differing = np.sum(here[-n:] != there[-n:]) + abs(len(here) - len(there))
    return {"differing_columns": float(differing)}


def ours(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Read the file twice, and write a store to disk."""
    place = Path(tempfile.mkdtemp(dir=folder), "counts.zarr")
    return lambda: library.build_store(str(folder / "documents.txt"), str(place), vocabulary=SETTINGS)


def scikit_learn(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Count strings that are in memory, and leave the rows there."""
    texts = held(folder)
    counting = library.CountVectorizer(ngram_range=NGRAMS, min_df=LEAST_DOCUMENTS, dtype=np.float32)
    return lambda: counting.fit_transform(texts)


RACE = Race(
    "Find all words and pairs of words that are in two documents or more, and count them in each document.",
    {
        "toy": {"documents": 200},
        "small": {"documents": 5_000},
        "middle": {"documents": None},
        "full": {"documents": None},
    },
    make,
    {
        "dspectral, file to store": Contender(
            "dspectral", ours, lambda store: ordered(store.counts.compute())
        ),
        "scikit-learn CountVectorizer, in memory": Contender(
            "sklearn.feature_extraction.text", scikit_learn, ordered
        ),
    },
    accuracy,
)
