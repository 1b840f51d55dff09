"""What an intent classifier is given: labels and settings, checked at its door."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from dspectral.inputs.parameters import check_real


def checked_labels(y: ArrayLike, n_texts: int) -> NDArray[Any]:
    """Return one label for each sentence.

    Shapes: `y` (n_texts,); returns (n_texts,).

    >>> checked_labels(["music", "travel"], 2).tolist()
    ['music', 'travel']
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}, but it must hold one label a sentence")
    if len(labels) != n_texts:
        raise ValueError(f"there are {n_texts} sentences, but {len(labels)} labels")
    if labels.dtype.kind == "O":
        missing = [i for i, label in enumerate(labels.tolist()) if _is_missing(label)]
        if missing:
            raise ValueError(f"label {missing[0]} is {labels[missing[0]]}, but each sentence needs an intent")
    check_classification_targets(labels)
    return labels


def _is_missing(label: object) -> bool:
    return not isinstance(label, str) and str(label) in ("None", "nan", "<NA>", "NaT")


def numbers(name: str, value: float | Sequence[float], *, at_least: float) -> list[float]:
    """Return a parameter that is one number or several as a list.

    >>> numbers("C", 0.3, at_least=0.0), numbers("C", (0.3, 1.0), at_least=0.0)
    ([0.3], [0.3, 1.0])
    """
    # As objects: a text stays a text and None stays None, for check_real to name.
    found = np.atleast_1d(np.asarray(value, dtype=object)).tolist()
    if not found:
        raise ValueError(f"{name} is empty, but it must be a number or a sequence of numbers")
    return [check_real(name, number, at_least=at_least) for number in found]
