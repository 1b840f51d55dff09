"""Local regions: which documents of out-of-core rows make the space of each class, and those spaces."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import Blocks, is_lazy, lazy_rows, summarize
from dspectral.inputs.class_labels import ClassRows
from dspectral.inputs.labelled_rows import LabelledStreams
from dspectral.linalg.block_sums import energy_of
from dspectral.linalg.svd import right_axes
from dspectral.methods.lsi.class_products import scaled
from dspectral.methods.lsi.squared_hinge import Highest, Relevancy
from dspectral.types import FloatArray, Rows


class LocalSpaces(NamedTuple):
    """The right singular vectors of classes.

    Attributes
    ----------
    axes : tuple of ndarray of float64, shape (at most k, d) each
        In the order of the classes.
    """

    axes: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, rows: Rows, weights: FloatArray, *, n_components: int, seed: int) -> Self:
        """Decompose the rows of one class.

        Parameters
        ----------
        rows : csr_array or ndarray, shape (m, d)
        weights : ndarray, shape (m, 1)
            By which the rows are multiplied first.
        n_components : int
        seed : int

        Raises
        ------
        ValueError
            If the rows hold NaN or infinity.
        """
        energy_of(rows)
        return cls((right_axes(scaled(rows, weights[:, 0]), n_components, seed=seed),))

    def merge(self, *others: Self) -> Self:
        """Return the spaces of all classes."""
        return type(self)(tuple(axes for part in (self, *others) for axes in part.axes))


REGION_ROWS = 1 << 20
"""Documents of all regions that one pass gathers, if there is more than one region."""


class Region(NamedTuple):
    """Documents of a class, in the order of the rows, and by what each is multiplied.

    Attributes
    ----------
    rows : ndarray of int64, shape (m,)
    weights : ndarray of float64, shape (m,)
    """

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]


def checked_members(known: ClassRows, n_rows: int) -> list[NDArray[np.int64]]:
    """Return the documents of each class.

    Raises
    ------
    ValueError
        If a class has none, one, or all of the documents.
    """
    indicator = known.indicator.compute() if is_lazy(known.indicator) else known.indicator
    by_class = sparse.csc_array(indicator)
    by_class.sort_indices()
    rows = [part.astype(np.int64) for part in np.split(by_class.indices, by_class.indptr[1:-1])]
    for name, mine in zip(known.classes.tolist(), rows, strict=True):
        if len(mine) == n_rows:
            raise ValueError(
                f"class {name!r} has all documents (n_samples = {n_rows}), but must be told from others: leave it out"
            )
        if len(mine) < 2:
            raise ValueError(
                f"class {name!r} has {len(mine)} document(s), but a local space needs at least 2: leave it out"
            )
    return rows


def relevant_regions(rows: list[NDArray[np.int64]]) -> list[Region]:
    """Return regions of each class's own documents, all weighing 1 (RDS)."""
    return [Region(mine, np.ones(len(mine))) for mine in rows]


def weighted_regions(
    data: LabelledStreams, rows: list[NDArray[np.int64]], relevancy: Relevancy, gamma: float, fan_in: int
) -> list[Region]:
    """Return regions of the documents with the highest relevancy, ``gamma`` times as many as a class has (LRW).

    Notes
    -----
    One pass. A task holds its block and ``8 n L`` bytes for the n rows in it; what comes back are numbers of
    rows, as many as the regions have.
    """
    limits = np.minimum([math.ceil(gamma * len(mine)) for mine in rows], data.n_rows)
    of = partial(Highest.of, relevancy=relevancy, limits=limits)
    found = summarize(data.words, of=of, fan_in=fan_in, name="relevancy")
    regions = []
    for mine, scores in zip(found.rows, found.scores, strict=True):
        order = np.argsort(mine, kind="stable")
        regions.append(Region(mine[order], relevancy.of_scores(scores[order])))
    return regions


def local_spaces(
    X: Any, regions: list[Region], n_components: int, *, fan_in: int, seed: int
) -> tuple[list[NDArray[np.float64]], int]:
    """Decompose each region, and return its axes, and passes over the rows.

    Parameters
    ----------
    X : ndarray, SciPy sparse, or Dask array, shape (n, d)
    regions : list of Region
    n_components : int
    fan_in, seed : int

    Returns
    -------
    axes : list of ndarray of float64, shape (at most n_components, d)
        Of each region as many as it has independent directions.
    n_passes : int

    Raises
    ------
    ValueError
        If no region has ``n_components`` independent directions; the largest usable number is named.

    Notes
    -----
    A class is a task, which holds its region. Regions are gathered together while they have ``REGION_ROWS``
    documents; more take more passes.
    """
    most = min(X.shape[1], max(len(region.rows) for region in regions))
    if not 1 <= n_components <= most:
        raise ValueError(_too_many(n_components, most))
    of = partial(LocalSpaces.of, n_components=n_components, seed=seed)
    spaces: list[NDArray[np.float64]] = []
    groups = list(_groups(regions))
    for group in groups:
        streams = _gathered(X, group)
        spaces += summarize(*streams, of=of, fan_in=fan_in, name="local-svd").axes
    most = max(len(axes) for axes in spaces)
    if most < n_components:
        raise ValueError(_too_many(n_components, most))
    return spaces, len(groups)


def _too_many(n_components: int, most: int) -> str:
    return (
        f"n_components is {n_components}, but must be from 1 to {most}: no class has more independent directions "
        "in its region"
    )


def _groups(regions: list[Region]) -> Iterator[list[Region]]:
    """Yield neighbours that are small enough together."""
    group: list[Region] = []
    for region in regions:
        if group and sum(len(one.rows) for one in (*group, region)) > REGION_ROWS:
            yield group
            group = []
        group.append(region)
    yield group


def _gathered(X: Any, regions: list[Region]) -> tuple[Any, Any]:
    """Return two streams with a block a region: its rows, and their weights."""
    if not is_lazy(X):
        picked = [X[region.rows] for region in regions]
        weights = [region.weights[:, None] for region in regions]
        return Blocks(_same, picked, in_memory=True), Blocks(_same, weights, in_memory=True)
    sizes = {0: tuple(len(region.rows) for region in regions)}
    rows = lazy_rows(X)[np.concatenate([region.rows for region in regions])]
    weights = lazy_rows(np.concatenate([region.weights for region in regions])[:, None])
    return rows.rechunk(sizes), weights.rechunk(sizes)


def _same(block: Any) -> Any:
    return block
