"""Exchange sweeps that assign each word type but the anchors to one hidden state."""

import numpy as np
from numpy.typing import NDArray

from dspectral.methods.brown.exchange import BigramCounts, exchange_sweep
from dspectral.methods.brown.type_features import TypeFeatures
from dspectral.types import CSRRows, FloatArray


def sweep_types(
    pairs: CSRRows,
    membership: NDArray[np.float64],
    anchors: NDArray[np.int64],
    features: "CSRRows | None",
    weights: FloatArray,
    *,
    n_sweeps: int,
) -> NDArray[np.int32]:
    """Return one state for each type, beginning with that of its largest coefficient.

    Parameters
    ----------
    pairs : csr_array, shape (n_types, n_types)
        Number of times that the type of the column follows that of the row.
    membership : ndarray of float64, shape (n_types, n_states)
        ``p(h | x)``.
    anchors : ndarray of int64, shape (n_states,)
        Type that is the anchor of each state; it stays there.
    features : csr_array, shape (n_types, n_features), or None
        Ones where a type's spelling has a feature, which then counts beside its neighbors.
    weights : ndarray, shape (n_types,)
        Weight of the spelling of each type.
    n_sweeps : int
        Largest number of sweeps.

    Returns
    -------
    ndarray of int32, shape (n_types,)
        State of each type.
    """
    # Anchors stay in their own states: without them, states could change places and lose their meaning.
    n_states = membership.shape[1]
    labels: NDArray[np.int32] = np.argmax(membership, axis=1).astype(np.int32)
    # A state is named by its anchor, even where another coefficient of the anchor rounds higher.
    labels[anchors] = np.arange(n_states)
    adjacent = BigramCounts.of(pairs)
    marks = None if features is None else weigh_features(features, weights)
    # A sweep never lowers the mutual information of adjacent states (plus that with the spelling), so sweeps end; the
    # last ones move next to nothing, and stop where fewer than one type in a thousand moves.
    for _ in range(n_sweeps):
        moved = exchange_sweep(adjacent, labels, n_states, marks, fixed=anchors)
        if moved <= len(labels) // 1000:
            break
    return labels


def weigh_features(features: CSRRows, weights: FloatArray) -> TypeFeatures:
    """Divide the weight of each type equally among its spelling features, for exchange sweeps."""
    sizes = np.maximum(np.diff(features.indptr), 1)
    return TypeFeatures(
        features.indptr.astype(np.int64),
        features.indices.astype(np.int32),
        np.asarray(weights / sizes, dtype=np.float64),
        features.shape[1],
    )
