"""The best labels of documents, and what states say most."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import FloatArray, Rows

SCORE_BYTES = 64 << 20
"""Bytes of scores of all labels that are held while the best are picked."""


class Topic(NamedTuple):
    """A latent state by what it says most.

    Attributes
    ----------
    weight : float
        Its probability.
    words, labels : ndarray of int64
        Columns, the most probable first.
    """

    weight: float
    words: NDArray[np.int64]
    labels: NDArray[np.int64]


def topics(weights: NDArray[np.float64], words: FloatArray, labels: FloatArray, n: int = 10) -> list[Topic]:
    """Return the n most probable words and labels of each state, from distributions in columns."""
    best = [np.argsort(-columns, axis=0, kind="stable")[:n].T for columns in (words, labels)]
    return [Topic(float(weight), *ids) for weight, *ids in zip(weights, *best, strict=True)]


def best_labels(
    rows: Rows, *, score: Callable[[Rows], FloatArray], n_labels: int, top: int
) -> sparse.csr_array:
    """Return the shares of the best labels of each row, scoring :data:`SCORE_BYTES` of rows at a time.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
    score : callable
        From rows to scores of all labels.
    n_labels, top : int
    """
    itemsize = np.dtype(np.float64).itemsize
    step = max(1, SCORE_BYTES // (n_labels * itemsize))
    parts: Any = [
        _best_of(score(rows[start : start + step]), top) for start in range(0, max(1, rows.shape[0]), step)
    ]
    columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    indptr = top * np.arange(rows.shape[0] + 1)
    return sparse.csr_array((values.ravel(), columns.ravel(), indptr), shape=(rows.shape[0], n_labels))


def _best_of(scores: FloatArray, top: int) -> tuple[NDArray[np.int32], FloatArray]:
    """Columns and shares of the largest scores of each row, in the order of the columns."""
    scores = np.maximum(scores, 0)
    total = scores.sum(axis=1, keepdims=True)
    order = np.argpartition(-scores, top - 1, axis=1)[:, :top] if top < scores.shape[1] else None
    columns = np.sort(order, axis=1) if order is not None else np.tile(np.arange(top), (len(scores), 1))
    best = np.take_along_axis(scores, columns, axis=1) / np.where(total > 0, total, 1)
    return columns.astype(np.int32), best.astype(scores.dtype)


def ones_of(rows: sparse.csr_array) -> sparse.csr_array:
    """Return ones where rows have stored entries."""
    return sparse.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
