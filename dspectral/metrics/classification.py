"""F1 of predicted classes, one or several a document."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import is_sparse


class F1Scores(NamedTuple):
    """F1 over all classes.

    Attributes
    ----------
    weighted : float
        Mean over classes, each weighing as many documents as it has.
    micro : float
        Of the true and false positives and the false negatives of all classes together.
    macro : float
        Mean over classes.
    """

    weighted: float
    micro: float
    macro: float


def f1_scores(true: Any, predicted: Any) -> F1Scores:
    """F1 of each class, averaged in three ways.

    Parameters
    ----------
    true, predicted : array-like of labels, shape (n,), or indicator matrices, ndarray or SciPy sparse, (n, L)
        One label a document; or, where not zero, the labels that a document has.

    Returns
    -------
    F1Scores
        Of single labels, over the classes that are in either; of indicators, over all columns. A class that is
        in neither has an F1 of 0. The numbers are those of scikit-learn's ``f1_score``, which lives above this
        floor.

    Raises
    ------
    ValueError
        If the shapes differ, or there is no document.

    Examples
    --------
    >>> [round(value, 3) for value in f1_scores(["a", "a", "b", "c"], ["a", "b", "b", "b"])]
    [0.458, 0.5, 0.389]
    """
    true, predicted = (side if is_sparse(side) else np.asarray(side) for side in (true, predicted))
    if true.shape != predicted.shape or len(true.shape) not in (1, 2):
        raise ValueError(
            f"true has shape {true.shape} and predicted {predicted.shape}, but both must be (n,) or (n, L) alike"
        )
    if not true.shape[0]:
        raise ValueError("there is no document to score")
    if len(true.shape) == 1:
        classes = np.unique(np.concatenate([true, predicted]))
        true, predicted = (_one_each(side, classes) for side in (true, predicted))
    true, predicted = (sparse.csr_array(side != 0).astype(np.int64) for side in (true, predicted))
    hits, wanted, found = (_totals(side) for side in (true * predicted, true, predicted))
    each = _f1(hits, wanted, found)
    n_wanted = wanted.sum()
    weighted = float(each @ wanted / n_wanted) if n_wanted else 0.0
    return F1Scores(weighted, float(_f1(hits.sum(), n_wanted, found.sum())), float(each.mean()))


def _one_each(labels: NDArray[Any], classes: NDArray[Any]) -> sparse.csr_array:
    columns = np.searchsorted(classes, labels)
    indptr = np.arange(len(labels) + 1)
    return sparse.csr_array((np.ones(len(labels)), columns, indptr), shape=(len(labels), len(classes)))


def _totals(indicator: Any) -> NDArray[np.int64]:
    return np.asarray(sparse.csr_array(indicator).sum(axis=0)).ravel()


def _f1(hits: Any, wanted: Any, found: Any) -> NDArray[np.float64]:
    return np.asarray(2.0 * hits / np.maximum(wanted + found, 1))
