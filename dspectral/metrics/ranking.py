"""How well labels are ranked, a document at a time.

Every function returns one number a document, NaN where the score is not defined: a mean over any number of blocks
is then exact.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from dspectral.types import FloatArray, is_sparse


def document_auc(scores: FloatArray, truth: Any) -> NDArray[np.float64]:
    """Area under the ROC curve of each document's ranking of all labels; its mean is the macro average.

    Parameters
    ----------
    scores : ndarray, shape (n, L)
    truth : csr_array or ndarray, shape (n, L)
        Not zero where a document has the label.

    Returns
    -------
    ndarray of float64, shape (n,)
        Probability that a label of the document scores above one that is not its own, ties counted half; NaN for
        a document that has none of the labels, or all.

    Raises
    ------
    ValueError
        If the shapes differ or a score is NaN.

    Examples
    --------
    >>> document_auc(np.array([[0.9, 0.1, 0.5], [0.2, 0.2, 0.2]]), np.array([[1, 0, 0], [0, 1, 0]]))
    array([1. , 0.5])
    """
    rows, columns, n_true = _true_entries(scores, truth)
    n_labels = scores.shape[1]
    ranks = rankdata(scores, axis=1)
    total = np.bincount(rows, weights=ranks[rows, columns], minlength=len(scores))
    n_pairs = n_true * (n_labels - n_true)
    above = total - n_true * (n_true + 1) / 2.0
    return np.asarray(np.where(n_pairs > 0, above / np.maximum(n_pairs, 1), np.nan))


def precision_at(scores: Any, truth: Any, k: int) -> NDArray[np.float64]:
    """Share of the k best labels that are true.

    Parameters
    ----------
    scores : ndarray or csr_array, shape (n, L)
        Of sparse scores the entries that are not stored rank last, and are not predicted.
    truth : csr_array or ndarray, shape (n, L)
    k : int
        From 1 to L.

    Returns
    -------
    ndarray of float64, shape (n,)
        NaN for a document without labels.

    Examples
    --------
    >>> precision_at(np.array([[0.9, 0.1, 0.5]]), np.array([[1, 0, 0]]), 2)
    array([0.5])
    """
    hits, n_true, _ = hits_of(scores, truth, k)
    return _where_true(hits.sum(axis=1) / k, n_true)


def ndcg_at(scores: Any, truth: Any, k: int) -> NDArray[np.float64]:
    """Discounted gain of the k best labels, over that of the best ranking there could be.

    Parameters
    ----------
    scores, truth, k : as for :func:`precision_at`

    Examples
    --------
    >>> ndcg_at(np.array([[0.9, 0.1, 0.5]]), np.array([[0, 0, 1]]), 2).round(4)
    array([0.6309])
    """
    hits, n_true, _ = hits_of(scores, truth, k)
    discounts = 1.0 / np.log2(np.arange(2.0, k + 2.0))
    ideal = np.concatenate([[1.0], np.cumsum(discounts)])[np.minimum(n_true, k)]
    return _where_true(hits @ discounts / ideal, n_true)


def propensity_precision_at(
    scores: Any, truth: Any, k: int, propensities: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Precision that counts a rare label for more, and the best there could be.

    Parameters
    ----------
    scores, truth, k : as for :func:`precision_at`
    propensities : ndarray of float64, shape (L,)
        Of :func:`label_propensities`.

    Returns
    -------
    gained, possible : ndarray of float64, shape (n,)
        Sum of ``1 / p`` over the true labels among the k best, divided by k, and the same for the best k labels
        that the document has. The usual score is the sum of the first over the sum of the second.

    References
    ----------
    Jain, Prabhu and Varma 2016, "Extreme multi-label loss functions for recommendation, tagging, ranking and
    other missing label applications", equation 5.

    Examples
    --------
    >>> propensity_precision_at(np.array([[0.9, 0.1]]), np.array([[1, 1]]), 1, np.array([1.0, 0.5]))
    (array([1.]), array([2.]))
    """
    hits, n_true, columns = hits_of(scores, truth, k)
    gains = 1.0 / np.asarray(propensities, dtype=np.float64)
    gained = (hits * gains[columns]).sum(axis=1) / k
    own = sparse.csr_array(truth).astype(np.float64)
    own.eliminate_zeros()
    own.data = gains[own.indices]
    row = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
    order = np.lexsort((-own.data, row))
    place = np.arange(own.nnz) - own.indptr[row]
    best = np.bincount(row, weights=np.where(place < k, own.data[order], 0.0), minlength=own.shape[0])
    return _where_true(gained, n_true), _where_true(best / k, n_true)


def label_propensities(
    label_totals: NDArray[Any], n_documents: int, *, a: float = 0.55, b: float = 1.5
) -> NDArray[np.float64]:
    """Return how likely each label is to be noted down where it holds, from how often it is in training.

    Parameters
    ----------
    label_totals : ndarray, shape (L,)
        Training documents that have each label.
    n_documents : int
        Training documents.
    a, b : float
        Of the model; the defaults are the paper's for most sets.

    References
    ----------
    Jain, Prabhu and Varma 2016, section 3: ``1 / (1 + c exp(-a log(n_l + b)))``.

    Examples
    --------
    >>> label_propensities(np.array([0, 10, 1000]), 2000).round(3)
    array([0.103, 0.26 , 0.804])
    """
    scale = (np.log(n_documents) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (np.asarray(label_totals) + b) ** -a))


def hits_of(
    scores: Any, truth: Any, k: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Which of the k best labels are true, best first; ties go to the lower column.

    Returns
    -------
    hits : ndarray of float64, shape (n, k)
    n_true : ndarray of int64, shape (n,)
        Labels of each document.
    columns : ndarray of int64, shape (n, k)
        The labels.

    Raises
    ------
    ValueError
        If k is not from 1 to L, the shapes differ, or a score is NaN.
    """
    rows, columns, n_true = _true_entries(scores, truth)
    n, n_labels = scores.shape
    if not 1 <= k <= n_labels:
        raise ValueError(f"k is {k}, but must be from 1 to the number of labels, {n_labels}")
    best, predicted = _best(scores, k)
    flat = np.sort(rows * n_labels + columns)
    wanted = np.arange(n)[:, None] * n_labels + best
    place = np.minimum(np.searchsorted(flat, wanted), max(0, len(flat) - 1))
    found = (flat[place] == wanted) if len(flat) else np.zeros_like(wanted, dtype=bool)
    return (found & predicted).astype(np.float64), n_true, best


def _best(scores: Any, k: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    if not is_sparse(scores):
        return np.argsort(-scores, axis=1, kind="stable")[:, :k], np.ones((len(scores), k), dtype=bool)
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, row))
    place = np.arange(scores.nnz) - scores.indptr[row]
    best, predicted = (
        np.zeros((scores.shape[0], k), dtype=np.int64),
        np.zeros((scores.shape[0], k), dtype=bool),
    )
    keep = place < k
    best[row[keep], place[keep]] = scores.indices[order][keep]
    predicted[row[keep], place[keep]] = True
    return best, predicted


def _true_entries(scores: Any, truth: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    if scores.shape != truth.shape:
        raise ValueError(f"the scores are of shape {scores.shape}, but the truth of {truth.shape}")
    if np.isnan(scores.data if is_sparse(scores) else scores).any():
        raise ValueError("a score is NaN, which has no rank")
    rows, columns = (np.asarray(part, dtype=np.int64) for part in truth.nonzero())
    return rows, columns, np.bincount(rows, minlength=truth.shape[0]).astype(np.int64)


def _where_true(values: NDArray[np.float64], n_true: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(np.where(n_true > 0, values, np.nan))
