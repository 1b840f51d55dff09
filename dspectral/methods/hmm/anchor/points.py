"""Word types as points: what stands beside them in few coordinates, and how they are spelled in some more."""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.cooccurrence.scaling import ContextScaling
from dspectral.linalg.dense import eigh_descending, fixed_signs
from dspectral.linalg.svd import leading_left
from dspectral.methods.brown.clustering import SpectralBrownClustering

Reduction: TypeAlias = Literal["clusters", "cca", "svd", "random"]
REDUCTIONS = ("clusters", "cca", "svd", "random")
ROUNDING = 1e-20
"""Share of the mean square below which a variance is rounding: points are then all the same."""


class Neighbours(NamedTuple):
    """How often types stand beside each other, and at the ends of sentences.

    Attributes
    ----------
    pairs : csr_array of float64, shape (n_types, n_types)
        How often the second directly follows the first.
    counts : ndarray of int64, shape (n_types,)
        Tokens of each type.
    """

    pairs: sparse.csr_array
    counts: NDArray[np.int64]

    @property
    def first(self) -> NDArray[np.float64]:
        """How often each type begins a sentence."""
        return np.asarray(self.counts - self.pairs.sum(axis=0), dtype=np.float64)

    @property
    def last(self) -> NDArray[np.float64]:
        """How often each type ends a sentence."""
        return np.asarray(self.counts - self.pairs.sum(axis=1), dtype=np.float64)

    def contexts(self, groups: Any, *, context: str) -> sparse.csr_array:
        """Count the neighbours of each type by group, the ends of sentences as one more on each side.

        Parameters
        ----------
        groups : csr_array, shape (n_types, n_groups)
            Ones.
        context : {"list", "bag"}
            Whether the two sides are apart.
        """
        before: Any = [self.pairs.T @ groups, self.first[:, None]]
        after: Any = [self.pairs @ groups, self.last[:, None]]
        left, right = sparse.hstack(before, format="csr"), sparse.hstack(after, format="csr")
        counts = left + right if context == "bag" else sparse.hstack([left, right], format="csr")
        counts = sparse.csr_array(counts)
        counts.eliminate_zeros()
        return counts


class Reducing(NamedTuple):
    """How contexts become coordinates.

    Attributes
    ----------
    reduction : str
    context : str
    transform : str or float
    n_dimensions : int
    n_clusters : int
    random_state : int
    """

    reduction: Reduction
    context: str
    transform: Any
    n_dimensions: int
    n_clusters: int
    random_state: int


def context_points(near: Neighbours, how: Reducing) -> NDArray[np.float64]:
    """Return a point for each type, shape (n_types, at most n_dimensions, or as many as clusters give).

    With T the transform, a row is ``T(contexts) / T(sum of contexts)`` projected: by random numbers, by the leading
    right singular vectors of all rows weighted by tokens, by those of the rows scaled for CCA, or, with
    ``"clusters"``, not at all, but contexts are then clusters of words.
    """
    clustered = how.reduction == "clusters"
    groups = cluster_groups(near, how) if clustered else sparse.eye_array(len(near.counts), format="csr")
    counts = near.contexts(groups, context=how.context)
    columns = np.asarray(counts.sum(axis=0), dtype=np.float64)
    rows = ContextScaling.of(columns, transform=how.transform, scaling="reg").apply(counts)
    if clustered:
        return np.asarray(rows.toarray(), dtype=np.float64)
    if how.reduction == "random":
        rng = np.random.default_rng(how.random_state)
        return np.asarray(rows @ rng.standard_normal((rows.shape[1], how.n_dimensions)))
    if how.reduction == "svd":
        return leading_points(rows, near.counts, how.n_dimensions, how.random_state)
    scaling = ContextScaling.of(columns, transform=how.transform, scaling="cca")
    scaled = scaling.apply(counts).astype(np.float64)
    sizes = np.sqrt(scaling.transformed(np.asarray(counts.sum(axis=1))))
    k = min(how.n_dimensions, *scaled.shape)
    vectors, values = leading_left(scaled, k, random_state=how.random_state)
    return vectors * values / np.where(sizes > 0, sizes, 1.0)[:, None]


def cluster_groups(near: Neighbours, how: Reducing) -> sparse.csr_array:
    """Return which type is in which cluster, as ones."""
    n_types = len(near.counts)
    beside = int(np.sum(np.asarray(near.pairs.sum(axis=0) + near.pairs.sum(axis=1)) > 0))
    brown = SpectralBrownClustering(
        max(1, min(how.n_clusters, beside)), count_transform=how.transform, random_state=how.random_state
    )
    labels = brown.clusters(near.pairs, near.counts)
    ones = np.ones(n_types)
    return sparse.csr_array((ones, labels, np.arange(n_types + 1)), shape=(n_types, int(labels.max()) + 1))


def leading_points(
    rows: sparse.csr_array, counts: NDArray[np.int64], k: int, random_state: int
) -> NDArray[np.float64]:
    """Project rows on their leading right singular vectors, each row weighted by its count."""
    weights = np.sqrt(counts)
    scaled = sparse.csr_array(sparse.diags_array(weights) @ rows)
    vectors, values = leading_left(scaled, min(k, *scaled.shape), random_state=random_state)
    return vectors * values / np.where(weights > 0, weights, 1.0)[:, None]


def spelled_points(
    table: sparse.csr_array, counts: NDArray[np.int64], k: int, random_state: int
) -> NDArray[np.float64]:
    """Return a point for each type from its marks: rows of unit length, in their leading directions."""
    sizes = np.sqrt(np.diff(table.indptr))
    rows = sparse.csr_array(sparse.diags_array(1.0 / np.where(sizes > 0, sizes, 1.0)) @ table)
    return leading_points(rows, counts, k, random_state)


def joined(
    parts: list[tuple[NDArray[np.float64], float]], counts: NDArray[np.int64], n_dimensions: int
) -> NDArray[np.float64]:
    """Put points side by side, each part centred, scaled to variance 1 and times its weight, in few dimensions.

    Parameters
    ----------
    parts : list of (ndarray of shape (n_types, d_i), float)
    counts : ndarray of int64, shape (n_types,)
        Weights of the types in means and variances.
    n_dimensions : int
        Of the principal components kept.

    Returns
    -------
    ndarray of float64, shape (n_types, at most n_dimensions)
    """
    share = counts / counts.sum()
    columns = []
    for points, weight in parts:
        centred = points - share @ points
        variance, size = (float(share @ np.einsum("ij,ij->i", x, x)) for x in (centred, points))
        columns.append(centred * (weight / np.sqrt(variance) if variance > ROUNDING * size else 0.0))
    whole = np.concatenate(columns, axis=1)
    _, axes = eigh_descending(whole.T @ (share[:, None] * whole))
    return np.asarray(whole @ fixed_signs(axes[:, :n_dimensions].T).T)
