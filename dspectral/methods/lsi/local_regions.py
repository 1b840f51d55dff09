"""Local regions: which documents of out-of-core rows make the space of each class, and those spaces."""

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.configuration import asked_memory_limit, memory_limit
from dspectral.engine import Blocks, is_lazy, lazy_rows, summarize
from dspectral.inputs.labels import ClassRows, LabelledStreams
from dspectral.linalg.block_sums import energy_of, scaled_rows
from dspectral.linalg.dense import right_axes
from dspectral.methods.lsi.linear_svm import Relevancy, TopScores
from dspectral.registry import saved
from dspectral.types import CheckedRows, Rows, RowsLike, is_sparse

REGION_ROWS = 1 << 20
"""Documents of all regions that one pass gathers, if there is more than one region."""
COPIES = 3.0
"""Memory of gathered documents, divided by what they take in their blocks: as pieces, put together, and decomposed."""


def row_bytes(given: RowsLike, X: CheckedRows) -> float:
    """Return the mean size of a row in memory; 0 where nobody knows it without a pass. Shapes: `X` (n, d)."""
    if hasattr(given, "n_bytes"):  # a store knows the bytes of its blocks
        n_bytes = given.n_bytes
    elif is_sparse(X):
        n_bytes = X.nnz * (X.dtype.itemsize + 4)
    else:  # Dask counts sparse blocks as if they were dense
        n_bytes = X.nbytes if isinstance(getattr(X, "_meta", X), np.ndarray) else 0
    return float(n_bytes) / max(1, int(X.shape[0]))


def groups_of_regions(sizes: Sequence[int], bytes_of_row: float) -> Iterator[slice]:
    """Yield runs of neighboring regions that are gathered by one pass."""
    most = REGION_ROWS
    if bytes_of_row:
        most = min(most, max(1, int(memory_limit() / (COPIES * bytes_of_row))))
    start, gathered = 0, 0
    for i, size in enumerate(sizes):
        if i > start and gathered + size > most:
            yield slice(start, i)
            start, gathered = i, 0
        gathered += size
    if len(sizes):
        yield slice(start, len(sizes))


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
    tol : float, default=1e-4
        Training stops where the largest entry of the gradient, divided by that at the start, is below this number.
    """

    a: float = 5.0
    b: float = 0.2
    tol: float = 1e-4


class LocalSpaces(NamedTuple):
    """The right singular vectors of each class's region, in the order of the classes. Shapes: `axes` (at most k, d)."""

    axes: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, rows: Rows, weights: NDArray[np.float64], *, n_components: int, seed: int) -> Self:
        """Decompose the region of one class. Shapes: `rows` (m, d), `weights` (m, 1)."""
        energy_of(rows)
        return cls((right_axes(scaled_rows(rows, weights[:, 0]), n_components, seed=seed),))

    def merge(self, *others: Self) -> Self:
        """Return the spaces of all classes, in their order."""
        return type(self)(tuple(axes for part in (self, *others) for axes in part.axes))


class Region(NamedTuple):
    """Documents that make the space of a class, in their order, and their weights. Shapes: `rows, weights` (m,)."""

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]


def members_of_classes(known: ClassRows, n_rows: int) -> list[NDArray[np.int64]]:
    """Return the documents of each class; none for a class that has none or all, which no machine can learn."""
    indicator = known.indicator.compute() if is_lazy(known.indicator) else known.indicator
    # By columns, the index arrays are the lists of documents.
    by_class = sparse.csc_array(indicator)
    by_class.sort_indices()
    rows = [by_class.indices[a:b].astype(np.int64) for a, b in pairwise(by_class.indptr.tolist())]
    sizes = np.diff(by_class.indptr)
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


def weighted_regions(
    data: LabelledStreams, rows: list[NDArray[np.int64]], relevancy: Relevancy, gamma: float
) -> list[Region]:
    """Return regions of the most relevant documents, ``gamma`` times as many as a class has (LRW), in one pass."""
    limits = np.array([min(math.ceil(gamma * len(mine)), data.n_rows) for mine in rows])
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

    A class is a task, which holds its region; regions are gathered together up to a million documents and
    ``dspectral.memory-limit``, more in more passes. Shapes: `X` (n, d); returns `axes` (at most n_components, d).
    """
    if not 1 <= n_components <= X.shape[1]:
        raise ValueError(
            f"n_components is {n_components}, but it must be from 1 to the number of columns, {X.shape[1]}"
        )
    of = partial(LocalSpaces.of, n_components=n_components, seed=seed)
    # A class that nothing can be told from has a space without axes, and no task.
    spaces = [np.zeros((0, X.shape[1]))] * len(regions)
    filled = [i for i, region in enumerate(regions) if len(region.rows)]
    regions = [regions[i] for i in filled]
    sizes = [len(region.rows) for region in regions]
    limit, needed = asked_memory_limit(), int(COPIES * bytes_of_row * max(sizes, default=0))
    if limit is not None and needed > limit:  # one that somebody has set
        raise MemoryError(
            f"the largest local region has {max(sizes):,} documents, whose decomposition takes {needed:,} bytes of "
            f"memory, but dspectral.memory-limit is {limit:,}: set it to {needed:,}, or lower gamma"
        )
    groups = list(groups_of_regions(sizes, bytes_of_row))
    # A group is as many regions as memory takes together. A document of several regions is gathered into each; the
    # blocks are read once for each group, and regions are decomposed side by side.
    for group in groups:
        axes = summarize(*_gather(X, regions[group]), of=of, name="local-svd").axes
        for i, of_class in zip(filled[group], axes, strict=True):
            spaces[i] = of_class
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
