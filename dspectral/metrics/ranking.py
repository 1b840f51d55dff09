"""Scores of label rankings, one number per document, NaN where undefined, so that blocks can be averaged."""

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
    return _nan_without_labels(hits.sum(axis=1) / k, n_true)


def ndcg_at(scores: Scores, truth: Truth, k: int) -> Doubles:
    """Return the discounted gain of the k best labels, divided by that of the best possible ranking.

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
    >>> ndcg_at(np.array([[0.9, 0.1, 0.5]]), np.array([[0, 0, 1]]), 2).round(4)
    array([0.6309])
    """
    hits, n_true, _ = find_hits(scores, truth, k)
    discounts = 1.0 / np.log2(np.arange(2.0, k + 2.0))
    # The best ranking has all true labels first. Documents without labels divide by 1 and become NaN below.
    ideal = np.concatenate([[1.0], np.cumsum(discounts)])[np.minimum(n_true, k)]
    return _nan_without_labels(hits @ discounts / ideal, n_true)


def propensity_precision_at(scores: Scores, truth: Truth, k: int, propensities: Doubles) -> tuple[Doubles, Doubles]:
    """Return the propensity-weighted precision, with labels weighted by ``1 / propensity``, and its maximum.

    Parameters
    ----------
    scores : ndarray or csr_array, shape (n, L)
        Score of each label. Entries not stored in sparse scores rank last and are never predicted.
    truth : csr_array or ndarray, shape (n, L)
        Matrix that is nonzero where a document has the label.
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
    propensities = check_finite("propensities", check_matrix("propensities", propensities, 1))
    if len(propensities) != truth.shape[1] or propensities.min(initial=1.0) <= 0:
        raise ValueError(
            f"propensities has {len(propensities)} values with minimum {propensities.min(initial=1.0):g}, but must "
            f"have one above 0 for each of {truth.shape[1]} labels: use label_propensities"
        )
    gains = 1.0 / propensities
    gained = (hits * gains[columns]).sum(axis=1) / k
    true_gains = sparse.csr_array(truth).astype(np.float64)
    # Largest possible gain: the first k true labels of each row by falling 1 / p.
    true_gains.eliminate_zeros()
    true_gains.data = gains[true_gains.indices]
    # The sort keeps the entries of a row together, so `row` and `indptr` are valid after it.
    n_rows = true_gains.shape[0]
    row = np.repeat(np.arange(n_rows), np.diff(true_gains.indptr))
    order = np.lexsort((-true_gains.data, row))
    position = np.arange(true_gains.nnz) - true_gains.indptr[row]
    best = np.bincount(row, weights=np.where(position < k, true_gains.data[order], 0.0), minlength=n_rows)
    return _nan_without_labels(gained, n_true), _nan_without_labels(best / k, n_true)


def label_propensities(
    label_totals: NDArray[np.number], n_documents: int, *, a: float = 0.55, b: float = 1.5
) -> Doubles:
    """Return the propensity of each label: the probability that a true label is recorded, from its frequency.

    Parameters
    ----------
    label_totals : ndarray, shape (L,)
        Number of training documents that have each label.
    n_documents : int
        Number of training documents.
    a : float, default=0.55
        Exponent of the model; the paper uses the default for most data sets.
    b : float, default=1.5
        Shift of the frequencies; the paper uses the default for most data sets.

    Returns
    -------
    ndarray of float64, shape (L,)
        Propensities between 0 and 1, increasing with the frequency.

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
        raise ValueError(f"label_totals contains {totals.min():g}, but each total must be 0 or more")
    if not isinstance(n_documents, Integral) or isinstance(n_documents, bool) or n_documents < 1:
        raise ValueError(f"n_documents={n_documents!r:.60} must be an integer of at least 1")
    # c of the paper, with exp(-a log(n_l + b)) = (n_l + b)^-a.
    scale = (np.log(n_documents) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (totals + b) ** -a))


def find_hits(scores: Scores, truth: Truth, k: int) -> tuple[Doubles, Int64s, Int64s]:
    """Return which of the k best labels are true (n, k), the number of true labels (n,), and the best labels (n, k)."""
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


def _top_labels(scores: Scores, k: int) -> tuple[Int64s, NDArray[np.bool_]]:
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


def _check_scores(scores: Scores, truth: Truth) -> tuple[Any, tuple[Int64s, Int64s, Int64s]]:
    """Validate the arguments; return the scores, and rows, columns and counts per row of the true labels."""
    scores, truth = check_matrix("scores", scores), check_matrix("truth", truth)
    if scores.dtype.kind == "b":  # Boolean arrays cannot be negated by `-`
        scores = scores.astype(np.int8)
    if scores.shape != truth.shape:
        raise ValueError(f"scores.shape={scores.shape} must equal truth.shape={truth.shape}")
    if np.isnan(scores.data if is_sparse(scores) else scores).any():
        raise ValueError("scores contains NaN, which cannot be ranked: replace it by a number")
    rows, columns = (np.asarray(part, dtype=np.int64) for part in truth.nonzero())
    return scores, (rows, columns, np.bincount(rows, minlength=truth.shape[0]).astype(np.int64))


def _nan_without_labels(values: Doubles, n_true: Int64s) -> Doubles:
    return np.asarray(np.where(n_true > 0, values, np.nan))
