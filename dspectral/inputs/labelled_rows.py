"""Documents and their labels as two streams of blocks that are cut alike."""

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from dspectral.engine import Blocks, is_lazy, lazy_rows
from dspectral.inputs.rows import checked_rows
from dspectral.linalg.sparse_products import row_slice
from dspectral.types import is_sparse


class LabelledStreams(NamedTuple):
    """What :func:`dspectral.engine.summarize` reads.

    Attributes
    ----------
    words, labels : Blocks or Dask array
    n_rows, n_words, n_labels : int
    dtype : numpy.dtype
        Of the words' factors: float32 for float32 counts, else float64.
    """

    words: Any
    labels: Any
    n_rows: int
    n_words: int
    n_labels: int
    dtype: Any


def labelled_streams(X: Any, y: Any = None) -> LabelledStreams:
    """Pair documents with labels.

    Parameters
    ----------
    X : ndarray, SciPy sparse, Dask array, or store, shape (n, d)
    y : ndarray, SciPy sparse or Dask array, shape (n, L), optional
        By default the labels that the store X holds.

    Raises
    ------
    ValueError
        If there are no labels, they are not two-dimensional, or are of another number of documents.
    """
    y = getattr(X, "labels", None) if y is None else y
    if y is None:
        raise ValueError(
            "labels are required: fit requires y to be passed, but the target y is None, and X is no store that "
            "holds labels"
        )
    if not is_lazy(y) and not is_sparse(y):
        y = np.asarray(y)
    if y.dtype.kind not in "biuf":
        raise ValueError(f"Unknown label type: y holds {y.dtype}, but must be a matrix of numbers")
    if len(y.shape) != 2:
        raise ValueError(f"y has {len(y.shape)} dimension(s), but must be a matrix of documents and labels")
    (n_rows, n_words), (n_labelled, n_labels) = X.shape, y.shape
    if n_rows != n_labelled:
        raise ValueError(f"X has {n_rows} documents, but y has labels of {n_labelled}")
    if n_labels < 1:
        raise ValueError("y has no column: there must be at least one label")
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    words = lazy_rows(X)
    if is_lazy(X) or is_lazy(y):
        labels = lazy_rows(y)
        labels = labels if labels.chunks[0] == words.chunks[0] else labels.rechunk({0: words.chunks[0]})
        return LabelledStreams(words, labels, n_rows, n_words, n_labels, dtype)
    cut = partial(_blocks, sizes=words.chunks[0])
    return LabelledStreams(cut(X), cut(y), n_rows, n_words, n_labels, dtype)


def checked_documents(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Validate documents; a store keeps its labels."""
    checked = checked_rows(estimator, X, reset=reset)
    return X if hasattr(X, "labels") else checked


def _blocks(X: Any, sizes: tuple[int, ...]) -> Blocks:
    """Cut rows in memory where those of words are cut, whatever their own size."""
    borders = np.cumsum([0, *sizes])
    if is_sparse(X):
        X = sparse.csr_array(X)
        return Blocks(_same, [row_slice(X, int(a), int(b)) for a, b in pairwise(borders)], in_memory=True)
    return Blocks(_same, [X[a:b] for a, b in pairwise(borders)], in_memory=True)


def _same(block: Any) -> Any:
    return block
