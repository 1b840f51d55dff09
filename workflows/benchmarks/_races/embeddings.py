"""Word vectors of sentences drawn from a Brown model, in which words of one class behave alike."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import dspectral
import numpy as np

from .brown import draw
from .race import Contender, Found, Race, Settings
from .places import scratch

WINDOW = 2
LEAST_COUNT = 5
"""Of a word that is scored."""


def accuracy(folder: Path, s: Settings, found: Found) -> dict[str, float]:
    """Return the share of words whose nearest neighbor is of their class; chance is one over the classes."""
    common = np.isin(found["words"], np.load(folder / "common.npy"))
    vectors = found["vectors"][common].astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    classes = np.array([int(word[1:]) % s["classes"] for word in found["words"][common]])
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -np.inf)
    return {"same_class_nearest": float(np.mean(classes[alike.argmax(axis=1)] == classes))}
