"""Local regions: which documents of out-of-core rows make the space of each class, and those spaces."""

import math
import warnings
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import Blocks, is_lazy, lazy_rows, summarize
from dspectral.inputs.labels import ClassRows, LabelledStreams
from dspectral.linalg.block_sums import energy_of
from dspectral.linalg.dense import right_axes
from dspectral.methods.lsi.class_products import scaled
from dspectral.methods.lsi.local_memory import groups_of_regions, refuse_large_regions
from dspectral.methods.lsi.squared_hinge import Relevancy, TopScores
from dspectral.registry import saved
from dspectral.types import CheckedRows, Rows

T = TypeVar("T")


@saved
class LocalRecipe(NamedTuple):
    """Settings of the weights of ``method="lrw"``, and of the training of all machines, that seldom need a change.

    Attributes
    ----------
    a : float, default=5.0
        Slope of the weights ``1 / (1 + exp(-a (r + b)))``, above 0; the published value is 5.0.
    b : float, default=0.2
        Shift of the weights; the published value is 0.2.
    initial_c : float, default=1.0
        C of the first classifier, the weight of its loss, which gives the relevancies r.
    tol : float, default=1e-4
        Training stops where the largest entry of the gradient, divided by that at the start, is below this number.
    max_iter : int, default=1000
        Number of passes that training may take; a ConvergenceWarning says that they were too few.

    Examples
    --------
    >>> LocalRecipe(a=3.0).max_iter
    1000
    """

    a: float = 5.0
    b: float = 0.2
    initial_c: float = 1.0
    tol: float = 1e-4
    max_iter: int = 1000


class LocalSpaces(NamedTuple):
    """The right singular vectors of each class's region.

    `axes` (at most k, d): orthonormal rows, in the order of the classes.
    """

    axes: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, rows: Rows, weights: NDArray[np.float64], *, n_components: int, seed: int) -> Self:
        """Decompose the region of one class.

        Shapes: `rows` (m, d), `weights` (m, 1).
        """
        energy_of(rows)
        if not rows.shape[0]:  # a class that nothing can be told from
            return cls((np.zeros((0, rows.shape[1])),))
        return cls((right_axes(scaled(rows, weights[:, 0]), n_components, seed=seed),))

    def merge(self, *others: Self) -> Self:
        """Return the spaces of all classes, in their order."""
        return type(self)(tuple(axes for part in (self, *others) for axes in part.axes))


class Region(NamedTuple):
    """Documents that make the space of a class.

    `rows` (m,): numbers of the documents, in their order; `weights` (m,): number by which each document is
    multiplied.
    """

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]


def members_of_classes(known: ClassRows, n_rows: int) -> list[NDArray[np.int64]]:
    """Return the documents of each class; none for a class that has none or all, which no machine can learn."""
    indicator = known.indicator.compute() if is_lazy(known.indicator) else known.indicator
    # By columns, the index arrays are the lists of documents.
    by_class = sparse.csc_array(indicator)
    by_class.sort_indices()
    rows = [part.astype(np.int64) for part in np.split(by_class.indices, by_class.indptr[1:-1])]
    sizes = np.array([len(mine) for mine in rows])
    if known.exclusive and len(rows) == 1 and sizes[0] == n_rows:
        raise ValueError(
            f"all documents (n_samples = {n_rows}) are in one class, {known.classes.tolist()[0]!r}, but a class "
            "must be told from others"
        )
    for named, amount in (("none", 0), ("all", n_rows)):
        names = known.classes[sizes == amount].tolist()
        if names:
            warnings.warn(
                f"{named} of the documents are in class {', '.join(map(repr, names[:5]))}"
                f"{' and others' if len(names) > 5 else ''}: its score is constant",
                UserWarning,
                stacklevel=3,
            )
    return [mine if len(mine) < n_rows else mine[:0] for mine in rows]


def relevant_regions(rows: list[NDArray[np.int64]]) -> list[Region]:
    """Return regions of each class's own documents, all weighing 1 (RDS)."""
    return [Region(mine, np.ones(len(mine))) for mine in rows]


def weighted_regions(
    data: LabelledStreams, rows: list[NDArray[np.int64]], relevancy: Relevancy, gamma: float
) -> list[Region]:
    """Return regions of the documents with the highest relevancy, ``gamma`` times as many as a class has (LRW).

    One pass. A task holds its block and ``8 n L`` bytes for the n rows in it; what comes back are numbers of
    rows, as many as the regions have.
    """
    limits = np.minimum([math.ceil(gamma * len(mine)) for mine in rows], data.n_rows)
    found = summarize(
        data.words, of=partial(TopScores.of, relevancy=relevancy, limits=limits), name="relevancy"
    )
    regions = []
    for mine, scores in zip(found.rows, found.scores, strict=True):
        # Documents in the order of the rows: they are then gathered in one sweep, and sums have one order.
        order = np.argsort(mine, kind="stable")
        regions.append(Region(mine[order], relevancy.of_scores(scores[order])))
    return regions


def local_spaces(
    X: CheckedRows, regions: list[Region], n_components: int, *, seed: int, bytes_of_row: float = 0.0
) -> tuple[list[NDArray[np.float64]], int]:
    """Decompose each region, and return its axes, and the number of passes over the rows.

    Shapes: `X` (n, d); returns `axes` (at most n_components, d).

    A class is a task, which holds its region. Regions are gathered together while they have a million documents, and
    take no more than ``dspectral.memory-limit``; more take more passes, and give the same axes.
    """
    if not 1 <= n_components <= X.shape[1]:
        raise ValueError(
            f"n_components is {n_components}, but it must be from 1 to the number of columns, {X.shape[1]}"
        )
    of = partial(LocalSpaces.of, n_components=n_components, seed=seed)
    spaces: list[NDArray[np.float64]] = []
    sizes = [len(region.rows) for region in regions]
    refuse_large_regions(sizes, bytes_of_row)
    groups = list(groups_of_regions(sizes, bytes_of_row))
    # A group is as many regions as memory takes together. A document of several regions is gathered into each; the
    # blocks are read once for each group, and regions are decomposed side by side.
    for group in groups:
        spaces += summarize(*_gather(X, regions[group]), of=of, name="local-svd").axes
    most = max(len(axes) for axes in spaces)
    if most < n_components:
        warnings.warn(
            f"n_components is {n_components}, but no class has more than {most} independent direction(s) in its "
            "region: spaces have as many as there are",
            UserWarning,
            stacklevel=3,
        )
    return spaces, len(groups)


def _gather(X: CheckedRows, regions: list[Region]) -> tuple[Any, Any]:
    """Return two streams with one block for each region: its rows, and their weights."""
    if not is_lazy(X):
        picked = [X[region.rows] for region in regions]
        weights = [region.weights[:, None] for region in regions]
        return Blocks(_same, picked, in_memory=True), Blocks(_same, weights, in_memory=True)
    # One fancy index for all regions reads every block once; rechunking makes each region one block, one task.
    sizes = {0: tuple(len(region.rows) for region in regions)}
    rows = lazy_rows(X)[np.concatenate([region.rows for region in regions])]
    weights = lazy_rows(np.concatenate([region.weights for region in regions])[:, None])
    return rows.rechunk(sizes), weights.rechunk(sizes)


def _same(block: T) -> T:
    return block
