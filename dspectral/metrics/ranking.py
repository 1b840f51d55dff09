"""How well labels are ranked, one number for each document, NaN where undefined: blocks can be averaged afterwards."""

from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from dspectral.metrics.arguments import check_finite, check_matrix
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s, is_sparse

Scores: TypeAlias = "NDArray[np.number] | CSRRows"
"""Score of each label: dense or CSR rows, shape ``(n_documents, n_labels)``."""
Truth: TypeAlias = "NDArray[np.number] | NDArray[np.bool_] | CSRRows"
"""Dense or CSR rows that are not zero where a document has a label, shape ``(n_documents, n_labels)``."""


def document_auc(scores: FloatArray, truth: Truth) -> Doubles:
    """Return the area under the ROC curve of each document's ranking of all labels.

    Its mean over the documents is the macro average (``average="samples"`` in scikit-learn).

    Parameters
    ----------
    scores : ndarray, shape (n, L)
        Score of each label; higher ranks first.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is not zero where a document has the label.

    Returns
    -------
    ndarray of float64, shape (n,)
        Probability that a true label scores above another, ties counting half; NaN for none of the labels, or all.

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
        raise TypeError("scores is sparse, but each label needs a score: give an array")
    n_labels = scores.shape[1]
    # Mann and Whitney: the pairs won are the sum of the true labels' ranks less that of ranks 1, 2, ..., n_true.
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
        Score of each label. Entries that sparse scores do not store rank last, and are not predicted.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is not zero where a document has the label.
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
    return _nan_without_labels(hits.sum(axis=1) / k, n_true)


def ndcg_at(scores: Scores, truth: Truth, k: int) -> Doubles:
    """Return the discounted gain of the k best labels, divided by that of the best possible ranking.

    Parameters
    ----------
    scores : ndarray or csr_array, shape (n, L)
        Score of each label. Entries that sparse scores do not store rank last, and are not predicted.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is not zero where a document has the label.
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
    >>> ndcg_at(np.array([[0.9, 0.1, 0.5]]), np.array([[0, 0, 1]]), 2).round(4)
    array([0.6309])
    """
    hits, n_true, _ = find_hits(scores, truth, k)
    discounts = 1.0 / np.log2(np.arange(2.0, k + 2.0))
    # The best ranking has all true labels first; a document without any is divided by 1 and is NaN anyway.
    ideal = np.concatenate([[1.0], np.cumsum(discounts)])[np.minimum(n_true, k)]
    return _nan_without_labels(hits @ discounts / ideal, n_true)


def propensity_precision_at(
    scores: Scores, truth: Truth, k: int, propensities: Doubles
) -> tuple[Doubles, Doubles]:
    """Return the precision that weights a label by ``1 / propensity``, and the largest possible one.

    Parameters
    ----------
    scores : ndarray or csr_array, shape (n, L)
        Score of each label. Entries that sparse scores do not store rank last, and are not predicted.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is not zero where a document has the label.
    k : int
        Number of labels predicted for each document, from 1 to L.
    propensities : ndarray of float64, shape (L,)
        Propensity p of each label, as :func:`label_propensities` returns them.

    Returns
    -------
    gained : ndarray of float64, shape (n,)
        Sum of ``1 / p`` over the true labels among the k best, divided by k; NaN for a document without labels.
    possible : ndarray of float64, shape (n,)
        The same for the k labels of the document with the largest ``1 / p``. The usual score is the sum of
        ``gained`` over the sum of ``possible``.

    Raises
    ------
    ValueError
        If k is not from 1 to L, the shapes differ, or a score is NaN.

    References
    ----------
    Jain, Prabhu and Varma 2016, "Extreme multi-label loss functions for recommendation, tagging, ranking and
    other missing label applications", equation 5.

    Examples
    --------
    >>> propensity_precision_at(np.array([[0.9, 0.1]]), np.array([[1, 1]]), 1, np.array([1.0, 0.5]))
    (array([1.]), array([2.]))
    """
    hits, n_true, columns = find_hits(scores, truth, k)
    truth = check_matrix("truth", truth)
    known = check_finite("propensities", check_matrix("propensities", propensities, 1))
    if len(known) != truth.shape[1] or known.min(initial=1.0) <= 0:
        raise ValueError(
            f"propensities are {len(known)} from {known.min(initial=1.0):g}, but there must be one above 0 for each "
            f"of {truth.shape[1]} labels"
        )
    gains = 1.0 / known
    gained = (hits * gains[columns]).sum(axis=1) / k
    own = sparse.csr_array(truth).astype(np.float64)
    # The largest possible gain: within each row the true labels by falling 1 / p, of which the first k count.
    own.eliminate_zeros()
    own.data = gains[own.indices]
    # The sort keeps the entries of a row together, so ``row`` and ``indptr`` hold before it and after it.
    row = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
    order = np.lexsort((-own.data, row))
    position = np.arange(own.nnz) - own.indptr[row]
    best = np.bincount(row, weights=np.where(position < k, own.data[order], 0.0), minlength=own.shape[0])
    return _nan_without_labels(gained, n_true), _nan_without_labels(best / k, n_true)


def label_propensities(
    label_totals: NDArray[np.number], n_documents: int, *, a: float = 0.55, b: float = 1.5
) -> Doubles:
    """Return how likely each label is to be recorded where it holds, estimated from its frequency in training.

    Parameters
    ----------
    label_totals : ndarray, shape (L,)
        Number of training documents that have each label.
    n_documents : int
        Number of training documents.
    a : float, default=0.55
        Exponent of the model; the default is the paper's for most data sets.
    b : float, default=1.5
        Shift of the frequencies; the default is the paper's for most data sets.

    Returns
    -------
    ndarray of float64, shape (L,)
        Propensities between 0 and 1, which grow with the frequency.

    Raises
    ------
    ValueError
        If a total is negative or not finite, or there is no document.

    References
    ----------
    Jain, Prabhu and Varma 2016, section 3: ``1 / (1 + c exp(-a log(n_l + b)))``.

    Examples
    --------
    >>> label_propensities(np.array([0, 10, 1000]), 2000).round(3)
    array([0.103, 0.26 , 0.804])
    """
    totals = check_finite("label_totals", check_matrix("label_totals", label_totals, 1))
    if totals.min(initial=0.0) < 0:
        raise ValueError(f"label_totals hold {totals.min():g}, but each must be 0 or more")
    if not isinstance(n_documents, Integral) or isinstance(n_documents, bool) or n_documents < 1:
        raise ValueError(f"n_documents is {n_documents!r:.60}, but it must be an integer of at least 1")
    # This is c of the paper; exp(-a log(n_l + b)) is (n_l + b)^-a, one power in place of two functions.
    scale = (np.log(n_documents) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (totals + b) ** -a))


def find_hits(scores: Scores, truth: Truth, k: int) -> tuple[Doubles, Int64s, Int64s]:
    """Mark which of the k best labels are true (n, k), best first, ties going to the lower column."""
    scores, (rows, columns, n_true) = _check_scores(scores, truth)
    n, n_labels = scores.shape
    if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= k <= n_labels:
        raise ValueError(f"k is {k!r:.60}, but must be from 1 to the number of labels, {n_labels}")
    best, predicted = _top_labels(scores, k)
    # Entries (i, j) become numbers i L + j, so one binary search finds every predicted entry among the true ones:
    # n k log(number of true entries) comparisons, and nothing of size n L.
    flat = np.sort(rows * n_labels + columns)
    wanted = np.arange(n)[:, None] * n_labels + best
    # A search may point beyond the last entry; there the last one is compared instead, and differs.
    position = np.minimum(np.searchsorted(flat, wanted), max(0, len(flat) - 1))
    found = (flat[position] == wanted) if len(flat) else np.zeros_like(wanted, dtype=bool)
    return (found & predicted).astype(np.float64), n_true, best


def _top_labels(scores: Scores, k: int) -> tuple[Int64s, NDArray[np.bool_]]:
    """Return the columns of the k best labels of each row, and whether each of them has a stored score."""
    if not is_sparse(scores):
        return np.argsort(-scores, axis=1, kind="stable")[:, :k], np.ones((len(scores), k), dtype=bool)
    # One sort of all stored entries by row, falling score and column: ``position`` is then the rank within the row.
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, row))
    position = np.arange(scores.nnz) - scores.indptr[row]
    best = np.zeros((scores.shape[0], k), dtype=np.int64)
    predicted = np.zeros_like(best, dtype=bool)
    keep = position < k
    best[row[keep], position[keep]] = scores.indices[order][keep]
    predicted[row[keep], position[keep]] = True
    return best, predicted


def _check_scores(scores: Scores, truth: Truth) -> tuple[Any, tuple[Int64s, Int64s, Int64s]]:
    """Return the scores, and rows and columns of the true labels with the number of each row's, once checked."""
    scores, truth = check_matrix("scores", scores), check_matrix("truth", truth)
    if scores.dtype.kind == "b":  # bools have no order that can be turned round
        scores = scores.astype(np.int8)
    if scores.shape != truth.shape:
        raise ValueError(f"the scores are of shape {scores.shape}, but the truth of {truth.shape}")
    if np.isnan(scores.data if is_sparse(scores) else scores).any():
        raise ValueError("a score is NaN, which has no rank")
    rows, columns = (np.asarray(part, dtype=np.int64) for part in truth.nonzero())
    return scores, (rows, columns, np.bincount(rows, minlength=truth.shape[0]).astype(np.int64))


def _nan_without_labels(values: Doubles, n_true: Int64s) -> Doubles:
    return np.asarray(np.where(n_true > 0, values, np.nan))
