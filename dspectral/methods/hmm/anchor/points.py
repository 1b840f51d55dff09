"""Word types as points: their contexts in few coordinates, and their spelling in some more."""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.cooccurrence.scaling import ContextScaling, CountTransform, check_transform
from dspectral.inputs.parameters import check_integer, check_option
from dspectral.linalg.dense import eigh_descending, fixed_signs, leading_left
from dspectral.methods.brown.clustering import SpectralBrownClustering
from dspectral.methods.brown.pair_counts import PairCounts
from dspectral.registry import saved
from dspectral.types import CSRRows

Reduction: TypeAlias = Literal["clusters", "cca", "svd", "random"]
N_CLUSTERS = 30
"""Clusters of neighbors, for ``reduction="clusters"``."""
CONTEXT: Literal["list", "bag"] = "list"
"""Whether the neighbors on the left and on the right are counted apart ("list") or together ("bag")."""
SMOOTHING = 0.0
"""Tokens with average contexts that are added to each word's."""
ROUNDING = 1e-20
"""Fraction of the mean square below which a variance is rounding: all points are then the same."""


@saved
class AnchorRecipe(NamedTuple):
    """Settings of an anchor HMM that ablations and papers change, and users rarely.

    Attributes
    ----------
    reduction : {"clusters", "cca", "svd", "random"}, default="clusters"
        Way in which contexts become coordinates: counted by Brown clusters of the neighbors; projected on canonical
        vectors (CCA) or singular vectors (SVD) of all contexts; or projected on random vectors.
    count_transform : {"sqrt", "log", "none"} or float, default="sqrt"
        Transform of the counts of contexts; a float is a power above 0. "none" keeps the estimate consistent.
    reselect : int, default=5
        Largest number of rounds in which each anchor is picked again, given the others.
    n_transition_em_iter : int, default=0
        Number of EM passes for the transitions alone, after they were set from moments.

    Examples
    --------
    >>> AnchorRecipe(reduction="cca").count_transform
    'sqrt'
    """

    reduction: Reduction = "clusters"
    count_transform: CountTransform = "sqrt"
    reselect: int = 5
    n_transition_em_iter: int = 0

    def check(self) -> None:
        """Raise a ValueError or a TypeError that names the first field which cannot be."""
        check_option("reduction", self.reduction, ("clusters", "cca", "svd", "random"))
        check_transform(self.count_transform)
        check_integer("reselect", self.reselect, at_least=0)
        check_integer("n_transition_em_iter", self.n_transition_em_iter, at_least=0)


class NeighborCounts(NamedTuple):
    """How often types stand beside each other, and at the ends of sentences.

    `pairs` (n_types, n_types): number of times that the type of the column directly follows that of the row;
    `counts` (n_types,): number of tokens of each type.
    """

    pairs: PairCounts
    counts: NDArray[np.int64]

    @property
    def first(self) -> NDArray[np.float64]:
        """Number of sentences that begin with each type."""
        return np.asarray(self.counts - self.pairs.n_preceding, dtype=np.float64)

    @property
    def last(self) -> NDArray[np.float64]:
        """Number of sentences that end with each type."""
        return np.asarray(self.counts - self.pairs.n_following, dtype=np.float64)

    def contexts(self, groups: CSRRows) -> CSRRows:
        """Count the neighbors of each type by group, the ends of sentences as one more group on each side.

        Shapes: `groups` (n_types, n_groups); returns (n_types, n_groups + 1).
        """
        # Through coordinates, so that the entries of each row are in the order of columns, and sums in one order.
        first, last = sparse.coo_array(self.first[:, None]), sparse.coo_array(self.last[:, None])
        following, preceding = self.pairs.times(groups)
        before = sparse.hstack([preceding, first], format="csr")
        after = sparse.hstack([following, last], format="csr")
        sides = before + after if CONTEXT == "bag" else sparse.hstack([before, after], format="csr")
        counts = sparse.csr_array(sides)
        counts.eliminate_zeros()
        return counts


def word_points(
    near: NeighborCounts,
    features: "CSRRows | None",
    recipe: AnchorRecipe,
    n_dimensions: int,
    spelling: float,
    random_state: int,
) -> NDArray[np.float64]:
    """Return a point for each type from its contexts and, with a weight of ``spelling``, from its spelling.

    A point is shrunk to the mean where a word has few tokens beside :data:`SMOOTHING`.
    """
    parts = [(context_points(near, recipe, n_dimensions, random_state), 1.0)]
    if features is not None:
        parts.append((spelling_points(features, near.counts, 2 * n_dimensions, random_state), spelling))
    points = join_points(parts, near.counts, n_dimensions)
    # Points are centered over tokens, so the mean is the origin and shrinking toward it is a multiplication. The floor
    # of 1 keeps a type without tokens from dividing 0 by 0.
    shrunk = near.counts / np.maximum(near.counts + SMOOTHING, 1.0)
    return np.asarray(points * shrunk[:, None])


def context_points(
    near: NeighborCounts, recipe: AnchorRecipe, n_dimensions: int, random_state: int
) -> NDArray[np.float64]:
    """Return a point for each type from the types beside it.

    Shapes: returns (n_types, n_coordinates).
    """
    clustered = recipe.reduction == "clusters"
    n_types = len(near.counts)
    # Contexts are counted by cluster or by type. Clusters are few, so their rows are dense and need no further
    # reduction; types are as many as words.
    groups = cluster_groups(near, recipe, random_state) if clustered else sparse.eye_array(n_types).tocsr()
    counts = near.contexts(sparse.csr_array(groups))
    columns = np.asarray(counts.sum(axis=0), dtype=np.float64)
    # "reg" divides each row by its own transformed sum: a row is an estimate of the distribution of contexts.
    rows = ContextScaling.of(columns, transform=recipe.count_transform, scaling="reg").apply(counts)
    if clustered:
        return np.asarray(rows.toarray(), dtype=np.float64)
    if recipe.reduction == "random":
        rng = np.random.default_rng(random_state)
        return np.asarray(rows @ rng.standard_normal((rows.shape[1], n_dimensions)))
    if recipe.reduction == "svd":
        return leading_points(rows, near.counts, n_dimensions, random_state)
    # CCA: the left singular vectors of T(counts) scaled by the roots of both sums, times the singular values, are
    # the projected rows times the root of their own sum, which is divided out.
    scaling = ContextScaling.of(columns, transform=recipe.count_transform, scaling="cca")
    scaled = scaling.apply(counts).astype(np.float64)
    sizes = np.sqrt(scaling.transformed(np.asarray(counts.sum(axis=1))))
    k = min(n_dimensions, *scaled.shape)
    vectors, values = leading_left(scaled, k, random_state=random_state)
    return vectors * values / np.where(sizes > 0, sizes, 1.0)[:, None]


def cluster_groups(near: NeighborCounts, recipe: AnchorRecipe, random_state: int) -> CSRRows:
    """Return which type is in which cluster, as ones, shape (n_types, n_clusters)."""
    n_types = len(near.counts)
    # Clusters are of words that stand beside another word: no more than those can be asked for.
    n_beside = int(np.sum(near.pairs.n_following + near.pairs.n_preceding > 0))
    brown = SpectralBrownClustering(
        max(1, min(N_CLUSTERS, n_beside)),
        count_transform=recipe.count_transform,
        random_state=random_state,
    )
    labels = brown.clusters(near.pairs, near.counts)
    ones = np.ones(n_types)
    return sparse.csr_array((ones, labels, np.arange(n_types + 1)), shape=(n_types, int(labels.max()) + 1))


def leading_points(
    rows: CSRRows, counts: NDArray[np.int64], k: int, random_state: int
) -> NDArray[np.float64]:
    """Project rows on their leading right singular vectors, each row weighted by its count."""
    # Rows times the roots of their counts: least squares then weigh a type by its tokens, not as one of many types.
    weights = np.sqrt(counts)
    scaled = sparse.csr_array(sparse.diags_array(weights) @ rows)
    vectors, values = leading_left(scaled, min(k, *scaled.shape), random_state=random_state)
    return vectors * values / np.where(weights > 0, weights, 1.0)[:, None]


def spelling_points(
    features: CSRRows, counts: NDArray[np.int64], k: int, random_state: int
) -> NDArray[np.float64]:
    """Return a point for each type from its spelling: rows of unit length, in their leading directions."""
    # The features are ones, so a row's length is the root of their number.
    sizes = np.sqrt(np.diff(features.indptr))
    rows = sparse.csr_array(sparse.diags_array(1.0 / np.where(sizes > 0, sizes, 1.0)) @ features)
    return leading_points(rows, counts, k, random_state)


def join_points(
    parts: list[tuple[NDArray[np.float64], float]], counts: NDArray[np.int64], n_dimensions: int
) -> NDArray[np.float64]:
    """Put points side by side and keep their principal components.

    Shapes: `parts` (n_types, d_i), `counts` (n_types,); returns (n_types, at most n_dimensions).
    """
    # Means and variances are over tokens, so that rare types with noisy contexts do not set the scale.
    share = counts / counts.sum()
    columns = []
    for points, weight in parts:
        centered = points - share @ points
        variance, size = (float(share @ np.einsum("ij,ij->i", x, x)) for x in (centered, points))
        columns.append(centered * (weight / np.sqrt(variance) if variance > ROUNDING * size else 0.0))
    whole = np.concatenate(columns, axis=1)
    # Principal components through the small second-moment matrix: (contexts + spelling) coordinates squared.
    _, axes = eigh_descending(whole.T @ (share[:, None] * whole))
    return np.asarray(whole @ fixed_signs(axes[:, :n_dimensions].T).T)
