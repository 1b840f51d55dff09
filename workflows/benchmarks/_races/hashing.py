"""Hashing text: words and their sequences of up to three, to 2^18 columns."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import dspectral

from .race import Contender, Found, Race, Settings
from .texts import documents

COLUMNS = 1 << 18
NGRAMS = (1, 3)


def make(folder: Path, s: Settings) -> str:
    """Write the documents as JSON, and the sums of the columns."""
    texts = documents(s)
    (folder / "documents.json").write_text(json.dumps(texts), encoding="utf-8")
    rows = dspectral.NgramHashing(COLUMNS, ngram_range=NGRAMS).transform(texts)
    np.savez(folder / "truth.npz", **sums(rows))
    return f"{len(texts):,} documents, {sum(map(len, texts)):,} characters, {rows.nnz:,} entries"


def accuracy(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return in how many columns the sums differ from the others'."""
    with np.load(folder / "truth.npz") as truth:
        return {"differing_columns": float(np.sum(truth["sums"] != found["sums"]))}


def sums(rows: Any) -> Found:
    """Return the sums of the columns: whole numbers, so no order of adding matters."""
    return {"sums": np.asarray(rows.sum(axis=0)).ravel()}


def held(folder: Path) -> list[str]:
    """Return the documents as strings."""
    found: list[str] = json.loads((folder / "documents.json").read_text(encoding="utf-8"))
    return found


def ours(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Hash strings in memory."""
    texts, hashing = held(folder), library.NgramHashing(COLUMNS, ngram_range=NGRAMS)
    return lambda: hashing.transform(texts)


def scikit_learn(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Hash strings in memory to the same columns, with the same signs."""
    texts = held(folder)
    hashing = library.HashingVectorizer(n_features=COLUMNS, ngram_range=NGRAMS, norm=None, dtype=np.float32)
    return lambda: hashing.transform(texts)


RACE = Race(
    "Count hashed n-grams of one to three words of documents in memory.",
    {
        "toy": {"documents": 200},
        "small": {"documents": 5_000},
        "middle": {"documents": None},
        "full": {"documents": None},
    },
    make,
    {
        "dspectral": Contender("dspectral", ours, sums),
        "scikit-learn HashingVectorizer": Contender("sklearn.feature_extraction.text", scikit_learn, sums),
    },
    accuracy,
)
