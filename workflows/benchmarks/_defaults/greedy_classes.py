"""Classes by the greedy search of Brown et al. 1992, plainly: the peer of the clusterings."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def greedy_classes(counts: sparse.csr_array, n_classes: int) -> NDArray[np.int64]:
    """Cluster types by the merges that lose least mutual information of adjacent classes.

    Every type in turn becomes a class of its own, and of all pairs of classes the cheapest is merged, so that there
    are never more than ``n_classes + 1`` (section 3 of the paper, and the usual tool's windowed search). A step takes
    the cube of the classes.

    Shapes: `counts` (n_types, n_types); returns (n_types,).

    >>> counts = np.array([[0, 0, 5, 4], [0, 0, 4, 5], [5, 4, 0, 0], [4, 5, 0, 0]])
    >>> greedy_classes(sparse.csr_array(counts), 2)
    array([0, 0, 1, 1])
    """
    n_types = counts.shape[0]
    m = min(n_classes, n_types)
    labels = np.minimum(np.arange(n_types), m)
    after, before = sparse.csr_array(counts), sparse.csr_array(counts.T)
    P = np.zeros((m + 1, m + 1))
    P[:m, :m] = after[:m, :m].toarray()
    for new in range(m, n_types):
        P[m], P[:, m] = (_of_classes(side, new, labels, m) for side in (after, before))
        kept, gone = _cheapest(P)
        P[kept] += P[gone]
        P[:, kept] += P[:, gone]
        P[gone], P[:, gone] = P[m], P[:, m]  # the newest class takes the place that is free
        P[gone, gone] = P[m, m]
        seen = labels[: new + 1]
        seen[seen == gone] = kept
        seen[seen == m] = gone
    return labels


def _of_classes(counts: sparse.csr_array, new: int, labels: NDArray[np.int64], m: int) -> NDArray[np.float64]:
    """Sum a type's counts by the classes of the types so far; its own class is ``m``."""
    at = slice(counts.indptr[new], counts.indptr[new + 1])
    others, values = counts.indices[at], counts.data[at]
    so_far = others <= new
    return np.bincount(labels[others[so_far]], weights=values[so_far], minlength=m + 1)


def _cheapest(P: NDArray[np.float64]) -> tuple[int, int]:
    """Return the two classes, the smaller number first, whose merge leaves most information."""
    total = P.sum()
    first, second = P.sum(axis=1), P.sum(axis=0)
    q = _information(P, first[:, None], second, total)
    # Before the merge of i and j: their rows and columns, less the four cells that these have in common.
    own = q.sum(axis=1) + q.sum(axis=0) - q.diagonal()
    best = (-np.inf, 0, 1)
    for i in range(len(P) - 1):
        j = np.arange(i + 1, len(P))
        rows = _information(P[i] + P[j], (first[i] + first[j])[:, None], second, total)
        columns = _information(P[:, i] + P[:, j].T, (second[i] + second[j])[:, None], first, total)
        at = np.arange(len(j))
        outside = rows.sum(axis=1) + columns.sum(axis=1)
        outside -= rows[:, i] + rows[at, j] + columns[:, i] + columns[at, j]
        cell = P[i, i] + P[i, j] + P[j, i] + P[j, j]
        inside = _information(cell, first[i] + first[j], second[i] + second[j], total)
        gained = outside + inside - own[i] - own[j] + q[i, j] + q[j, i]
        k = int(np.argmax(gained))
        best = max(best, (float(gained[k]), i, int(j[k])))
    return best[1], best[2]


def _information(
    cells: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64], total: float
) -> NDArray[np.float64]:
    """Return ``p log(p / (p1 p2))`` of counts, 0 where there are none, up to the factor of the total."""
    expected = first * second
    with np.errstate(divide="ignore", invalid="ignore"):
        found = cells * np.log(cells * total / expected)
    return np.where(cells > 0, found, 0.0)
