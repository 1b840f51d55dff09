"""Documents and their labels as two streams of blocks that are cut alike."""

from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import BaseEstimator

from dspectral.engine import Blocks, is_lazy, lazy_rows, refuse_other_containers
from dspectral.engine.row_blocks import slices_of
from dspectral.inputs.rows import checked_rows, row_dtype
from dspectral.linalg.sparse_products import canonical_rows
from dspectral.types import CheckedRows, HoldsRows, Rows, RowsLike, is_sparse


class LabelledStreams(NamedTuple):
    """Documents and their labels as :func:`dspectral.engine.summarize` reads them, cut alike.

    `words, labels`: rows of word counts, and rows of labels; `n_rows, n_words, n_labels`: numbers of
    documents, words and labels; `dtype`: precision of what is made from the words.
    """

    words: Any
    labels: Any
    n_rows: int
    n_words: int
    n_labels: int
    dtype: Any


def labelled_streams(X: "CheckedRows | HoldsRows", y: "RowsLike | None" = None) -> LabelledStreams:
    """Pair documents with labels, block by block.

    Shapes: `X` (n, d), `y` (n, L).
    """
    given: Any = getattr(X, "labels", None) if y is None else y
    if given is None:
        raise ValueError(
            "labels are required: fit requires y to be passed, but the target y is None, and X is no store that "
            "holds labels"
        )
    if not is_lazy(given):
        refuse_other_containers(given, "y")
        given = given if is_sparse(given) else np.asarray(given)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"Unknown label type: y holds {given.dtype}, but must be a matrix of numbers")
    if len(given.shape) != 2:
        raise ValueError(
            f"y has {len(given.shape)} dimension(s), but must be a matrix of documents and labels"
        )
    (n_rows, n_words), (n_labelled, n_labels) = X.shape, given.shape
    if n_rows != n_labelled:
        raise ValueError(f"X has {n_rows} documents, but y has labels of {n_labelled}")
    if n_labels < 1:
        raise ValueError("y has no column: there must be at least one label")
    words = lazy_rows(X)
    if is_lazy(X) or is_lazy(given):
        labels = lazy_rows(given)
        # Labels follow the cuts of the words: those are the larger blocks.
        labels = labels if labels.chunks[0] == words.chunks[0] else labels.rechunk({0: words.chunks[0]})
        return LabelledStreams(words, labels, n_rows, n_words, n_labels, row_dtype(X.dtype))
    cut = partial(_blocks, sizes=words.chunks[0])
    return LabelledStreams(cut(cast("Rows", X)), cut(given), n_rows, n_words, n_labels, row_dtype(X.dtype))


def checked_documents(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Validate documents; a store is returned as it is, with its labels.

    Shapes: `X` (n, d).
    """
    checked = checked_rows(estimator, X, reset=reset)
    return X if hasattr(X, "labels") else checked


def _blocks(X: Rows, sizes: tuple[int, ...]) -> Blocks:
    """Cut rows in memory where those of words are cut, whatever their own size."""
    X = canonical_rows(X) if is_sparse(X) else X
    return Blocks(_same, list(slices_of(X, sizes)), in_memory=True)


def _same(block: Rows) -> Rows:
    return block
