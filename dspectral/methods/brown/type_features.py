"""Binary features of word types, such as spelling, and what they are worth in a cluster."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled


class TypeFeatures(NamedTuple):
    """Binary features of word types in CSR layout, for example spelling features.

    `starts` (n_types + 1,): type i has the features ``features[starts[i]:starts[i + 1]]``, without
    repetition; `features` (n_entries,): feature numbers below ``n_features``; `weights` (n_types,): weight of
    each feature of a type; `n_features`: number of different features.
    """

    starts: NDArray[np.int64]
    features: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_features: int

    @classmethod
    def none(cls, n_types: int) -> "TypeFeatures":
        """Return the features of types that have none."""
        return cls(np.zeros(n_types + 1, dtype=np.int64), np.empty(0, dtype=np.int32), np.zeros(n_types), 0)


@compiled
def _xlogx(x: float) -> float:
    return x * np.log(x) if x > 0.0 else 0.0


# With F[b, f] the weight of feature f in cluster b and F[b] its sum over f, features are worth
# sum_bf F log F - sum_b F[b] log F[b]: the part of their mutual information with the clusters that a move changes.
# Cost: O(n_clusters) logarithms for each feature of the type.
@compiled
def add_feature_gains(
    row: NDArray[np.int32],
    weight: float,
    table: NDArray[np.float64],
    sums: NDArray[np.float64],
    gains: NDArray[np.float64],
) -> None:
    """Add to the gain of each cluster what the features of a type are worth there.

    Shapes: `table` (n_clusters, n_features), `sums` (n_clusters,), `gains` (n_clusters,).
    """
    # What the objective gains if the type goes to cluster b: its features add to F[b, f], and all of them to F[b].
    for b in range(len(gains)):
        gain = _xlogx(sums[b]) - _xlogx(sums[b] + weight * len(row))
        for f in row:
            gain += _xlogx(table[b, f] + weight) - _xlogx(table[b, f])
        gains[b] += gain


@compiled
def put_features(
    row: NDArray[np.int32], weight: float, table: NDArray[np.float64], sums: NDArray[np.float64], b: int
) -> None:
    """Add the features of a type to a cluster, or take them out if the weight is negative.

    Shapes: `table` (n_clusters, n_features), `sums` (n_clusters,).
    """
    # Rounding may leave less than nothing of what was put in and taken out.
    for f in row:
        table[b, f] = max(0.0, table[b, f] + weight)
    sums[b] = max(0.0, sums[b] + weight * len(row))
