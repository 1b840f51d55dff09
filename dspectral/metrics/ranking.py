"""Scores of label rankings, one number per document, NaN where undefined, so that blocks can be averaged."""

from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dspectral.types import Bools, CSRRows, Doubles, FloatArray, Int64s, is_sparse, trim_csr

Scores: TypeAlias = "NDArray[np.number] | CSRRows"
"""Score of each label: dense or CSR rows, shape ``(n_documents, n_labels)``."""
Truth: TypeAlias = "NDArray[np.number] | Bools | CSRRows"
"""Dense or CSR rows that are nonzero where a document has a label, shape ``(n_documents, n_labels)``."""


def document_auc(scores: FloatArray, truth: Truth) -> Doubles:
    """Return the area under the ROC curve of each document's ranking of all labels.

    Its mean over the documents is the macro average (``average="samples"`` in scikit-learn).

    Parameters
    ----------
    scores : ndarray, shape (n, L)
        Score of each label; higher ranks first.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is nonzero where a document has the label.

    Returns
    -------
    ndarray of float64, shape (n,)
        Probability that a true label scores above another, ties counting half. NaN if no label or every label is true.

    Raises
    ------
    ValueError
        If the shapes differ or a score is NaN.

    Examples
    --------
    >>> document_auc(np.array([[0.9, 0.1, 0.5], [0.2, 0.2, 0.2]]), np.array([[1, 0, 0], [0, 1, 0]]))
    array([1. , 0.5])
    """
    scores, (rows, columns, n_true) = _check_scores(scores, truth)
    if is_sparse(scores):
        raise TypeError("scores is sparse, but must be a dense array with a score for each label: use scores.toarray()")
    n_labels = scores.shape[1]
    # Mann-Whitney statistic: sum of the ranks of the true labels minus that of the ranks 1, 2, ..., n_true.
    ranks = rankdata(scores, axis=1)
    total = np.bincount(rows, weights=ranks[rows, columns], minlength=len(scores))
    n_pairs = n_true * (n_labels - n_true)
    above = total - n_true * (n_true + 1) / 2.0
    return np.asarray(np.where(n_pairs > 0, above / np.maximum(n_pairs, 1), np.nan))


def precision_at(scores: Scores, truth: Truth, k: int) -> Doubles:
    """Return the share of the k best labels that are true, for each document.

    Parameters
    ----------
    scores : ndarray or csr_array, shape (n, L)
        Score of each label. Entries not stored in sparse scores rank last and are never predicted.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is nonzero where a document has the label.
    k : int
        Number of labels predicted for each document, from 1 to L.

    Returns
    -------
    ndarray of float64, shape (n,)
        A share from 0 to 1; NaN for a document without labels.

    Raises
    ------
    ValueError
        If k is not from 1 to L, the shapes differ, or a score is NaN.

    Examples
    --------
    >>> precision_at(np.array([[0.9, 0.1, 0.5]]), np.array([[1, 0, 0]]), 2)
    array([0.5])
    """
    hits, n_true, _ = find_hits(scores, truth, k)
    return np.asarray(np.where(n_true > 0, hits.sum(axis=1) / k, np.nan))


def find_hits(scores: Scores, truth: Truth, k: int) -> tuple[Doubles, Int64s, Int64s]:
    """Return which of the k best labels of each document are true.

    Parameters
    ----------
    scores : ndarray or csr_array, shape (n, L)
        Score of each label. Entries not stored in sparse scores rank last and are never predicted.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is nonzero where a document has the label.
    k : int
        Number of labels predicted for each document, from 1 to L.

    Returns
    -------
    hits : ndarray of float64, shape (n, k)
        1 where the label at this rank is true, else 0.
    n_true : ndarray of int64, shape (n,)
        Number of true labels.
    best : ndarray of int64, shape (n, k)
        Columns of the k best labels.

    Raises
    ------
    ValueError
        If k is not from 1 to L, the shapes differ, or a score is NaN.

    Examples
    --------
    >>> find_hits(np.array([[0.9, 0.1, 0.5]]), np.array([[1, 0, 0]]), 2)
    (array([[1., 0.]]), array([1]), array([[0, 2]]))
    """
    scores, (rows, columns, n_true) = _check_scores(scores, truth)
    n, n_labels = scores.shape
    if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= k <= n_labels:
        raise ValueError(f"k={k!r:.60} must be an integer from 1 to {n_labels}, the number of labels")
    best, predicted = _top_labels(scores, k)
    # Encode entries (i, j) as i L + j and search the true ones: n k log(nnz) comparisons, and no array of size n L.
    flat = np.sort(rows * n_labels + columns)
    best_cells = np.arange(n)[:, None] * n_labels + best
    # A position beyond the last entry is clipped to the last one, which differs.
    position = np.minimum(np.searchsorted(flat, best_cells), max(0, len(flat) - 1))
    is_true = (flat[position] == best_cells) if len(flat) else np.zeros_like(best_cells, dtype=bool)
    return (is_true & predicted).astype(np.float64), n_true, best


def _top_labels(scores: Scores, k: int) -> tuple[Int64s, Bools]:
    """Return the columns of the k best labels of each row, and whether each of them has a stored score."""
    if not is_sparse(scores):
        return np.argsort(-scores, axis=1, kind="stable")[:, :k], np.ones((len(scores), k), dtype=bool)
    # Sort all stored entries by row, falling score and column; `position` is the rank within the row.
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, row))
    position = np.arange(scores.nnz) - scores.indptr[row]
    best = np.zeros((scores.shape[0], k), dtype=np.int64)
    predicted = np.zeros_like(best, dtype=bool)
    keep = position < k
    best[row[keep], position[keep]] = scores.indices[order][keep]
    predicted[row[keep], position[keep]] = True
    return best, predicted


def _check_scores(scores: Any, truth: Any) -> tuple[Any, tuple[Int64s, Int64s, Int64s]]:
    """Validate the arguments; return the scores, and rows, columns and counts per row of the true labels."""
    scores, truth = (trim_csr(part.tocsr()) if is_sparse(part) else np.asarray(part) for part in (scores, truth))
    if scores.dtype.kind == "b":  # Boolean arrays cannot be negated by `-`
        scores = scores.astype(np.int8)
    if scores.shape != truth.shape:
        raise ValueError(f"scores.shape={scores.shape} must equal truth.shape={truth.shape}")
    if np.isnan(scores.data if is_sparse(scores) else scores).any():
        raise ValueError("scores contains NaN, which cannot be ranked: replace it by a number")
    rows, columns = (np.asarray(part, dtype=np.int64) for part in truth.nonzero())
    return scores, (rows, columns, np.bincount(rows, minlength=truth.shape[0]).astype(np.int64))
