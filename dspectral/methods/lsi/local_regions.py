"""Local regions: selection of the documents that define the space of each class, and their SVD, out of core."""

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from dspectral.configuration import get_explicit_memory_limit, get_memory_limit
from dspectral.engine import as_dask_rows, is_lazy, summarize
from dspectral.inputs.labels import ClassRows, LabeledStreams
from dspectral.inputs.sequences import as_memory_blocks
from dspectral.linalg.block_sums import compute_energy, multiply_each_row
from dspectral.linalg.leading import leading_right_vectors
from dspectral.methods.lsi.linear_svm import Relevancy, TopScores
from dspectral.registry import register_class
from dspectral.types import CheckedRows, Doubles, Int64s, Rows, RowsLike, is_sparse

REGION_ROWS = 1 << 20
"""Maximum number of documents that one pass gathers for several regions."""
COPIES = 3.0
"""Peak copies of the gathered documents: in blocks, concatenated, and in the SVD."""


def mean_row_nbytes(input_rows: RowsLike, X: CheckedRows) -> float:
    """Return the mean number of bytes of a row of X (n, d), or 0 if that would need a pass."""
    if hasattr(input_rows, "n_bytes"):  # stores record the bytes of their blocks
        n_bytes = input_rows.n_bytes
    elif is_sparse(X):
        n_bytes = X.nnz * (X.dtype.itemsize + 4)
    else:  # nbytes of a Dask array assumes dense blocks
        n_bytes = X.nbytes if isinstance(getattr(X, "_meta", X), np.ndarray) else 0
    return float(n_bytes) / max(1, int(X.shape[0]))


def group_regions(sizes: Sequence[int], row_nbytes: float) -> Iterator[slice]:
    """Yield slices of consecutive regions, one for each pass that gathers documents."""
    max_rows = REGION_ROWS
    if row_nbytes:
        max_rows = min(max_rows, max(1, int(get_memory_limit() / (COPIES * row_nbytes))))
    start, gathered = 0, 0
    for i, size in enumerate(sizes):
        if i > start and gathered + size > max_rows:
            yield slice(start, i)
            start, gathered = i, 0
        gathered += size
    if len(sizes):
        yield slice(start, len(sizes))


@register_class()
class LocalRecipe(NamedTuple):
    """Options of :class:`~dspectral.LocalLSI` that rarely need a change.

    Attributes
    ----------
    a : float, default=5.0
        Slope of the weights ``1 / (1 + exp(-a (r + b)))``, above 0; the published value is 5.0.
    b : float, default=0.2
        Shift of the weights; the published value is 0.2.
    tol : float, default=1e-4
        Training stops when the gradient's largest entry falls below this share of its initial value.
    """

    a: float = 5.0
    b: float = 0.2
    tol: float = 1e-4


class LocalSpaces(NamedTuple):
    """Right singular vectors of each class's region, in the order of the classes. Shapes: `axes` (<= k, d)."""

    axes: tuple[Doubles, ...]

    @classmethod
    def from_block(cls, rows: Rows, weights: Doubles, *, n_components: int, seed: int) -> Self:
        """Decompose the region of one class. Shapes: `rows` (m, d), `weights` (m, 1)."""
        compute_energy(rows)
        return cls((leading_right_vectors(multiply_each_row(rows, weights[:, 0]), n_components, seed=seed),))

    def merge(self, *others: Self) -> Self:
        """Return the spaces of all classes, in their order."""
        return type(self)(tuple(axes for part in (self, *others) for axes in part.axes))


class Region(NamedTuple):
    """Row numbers, ascending, and weights of the documents that define the space of a class, shape (m,) each."""

    rows: Int64s
    weights: Doubles


def list_class_members(class_rows: ClassRows, n_rows: int) -> list[Int64s]:
    """Return the row numbers of each class; empty for a class with none or all of the documents."""
    indicator = class_rows.indicator.compute() if is_lazy(class_rows.indicator) else class_rows.indicator
    # The index array of a CSC column is the list of its documents.
    by_class = sparse.csc_array(indicator)
    by_class.sort_indices()
    rows = [by_class.indices[a:b].astype(np.int64) for a, b in pairwise(by_class.indptr.tolist())]
    sizes = np.diff(by_class.indptr)
    if class_rows.exclusive and len(rows) == 1 and sizes[0] == n_rows:
        raise ValueError(
            f"all documents (n_samples = {n_rows}) are in one class, {class_rows.classes.tolist()[0]!r}, but at least "
            "two are needed: add documents of other classes"
        )
    for quantity, amount in (("none", 0), ("all", n_rows)):
        names = class_rows.classes[sizes == amount].tolist()
        if names:
            warnings.warn(
                f"{quantity} of the documents are in class {', '.join(map(repr, names[:5]))}"
                f"{' and others' if len(names) > 5 else ''}: the score of such a class is constant",
                UserWarning,
                stacklevel=3,
            )
    return [members if len(members) < n_rows else members[:0] for members in rows]


def find_weighted_regions(data: LabeledStreams, rows: list[Int64s], relevancy: Relevancy, gamma: float) -> list[Region]:
    """Return the regions of LRW, ``gamma`` times as many most relevant documents as a class has, in one pass."""
    limits = np.array([min(math.ceil(gamma * len(members)), data.n_rows) for members in rows])
    select_best = partial(TopScores.from_block, relevancy=relevancy, limits=limits)
    top_scores = summarize(data.words, summarize_block=select_best, name="relevancy")
    regions = []
    for members, scores in zip(top_scores.rows, top_scores.scores, strict=True):
        # In row order, documents are gathered sequentially, and sums have one order.
        order = np.argsort(members, kind="stable")
        regions.append(Region(members[order], relevancy.weights_from_scores(scores[order])))
    return regions


def decompose_regions(
    X: CheckedRows, regions: list[Region], n_components: int, *, seed: int, row_nbytes: float = 0.0
) -> tuple[list[Doubles], int]:
    """Return the axes (<= n_components, d) of each region, one task each, and the number of passes."""
    if not 1 <= n_components <= X.shape[1]:
        raise ValueError(f"n_components={n_components} must be from 1 to {X.shape[1]}, the number of columns of X")
    summarize_block = partial(LocalSpaces.from_block, n_components=n_components, seed=seed)
    # A class without a region has a space without axes, and no task.
    spaces = [np.zeros((0, X.shape[1]))] * len(regions)
    filled = [i for i, region in enumerate(regions) if len(region.rows)]
    regions = [regions[i] for i in filled]
    sizes = [len(region.rows) for region in regions]
    limit, needed = get_explicit_memory_limit(), int(COPIES * row_nbytes * max(sizes, default=0))
    if limit is not None and needed > limit:  # only a limit that the user has set
        raise MemoryError(
            f"the largest local region has {max(sizes):,} documents, and its SVD needs {needed:,} bytes, but "
            f"dspectral.memory-limit is {limit:,}: set it to {needed:,}, or lower gamma"
        )
    groups = list(group_regions(sizes, row_nbytes))
    # A group is as many regions as fit in memory. Each group reads the blocks once, and its regions are decomposed
    # in parallel. A document of several regions is copied into each.
    for group in groups:
        axes = summarize(*_gather(X, regions[group]), summarize_block=summarize_block, name="local-svd").axes
        for i, class_axes in zip(filled[group], axes, strict=True):
            spaces[i] = class_axes
    max_rank = max(len(axes) for axes in spaces)
    if max_rank < n_components:
        warnings.warn(
            f"n_components={n_components} exceeds {max_rank}, the largest rank of a class's region: spaces have fewer "
            "components; lower n_components",
            UserWarning,
            stacklevel=3,
        )
    return spaces, len(groups)


def _gather(X: CheckedRows, regions: list[Region]) -> tuple[Any, Any]:
    """Return two streams with one block for each region: rows and weights."""
    if not is_lazy(X):
        weights = as_memory_blocks([region.weights[:, None] for region in regions])
        return as_memory_blocks([X[region.rows] for region in regions]), weights
    # One fancy index for all regions reads every block once; rechunking makes each region one block.
    sizes = {0: tuple(len(region.rows) for region in regions)}
    rows = as_dask_rows(X)[np.concatenate([region.rows for region in regions])]
    column = as_dask_rows(np.concatenate([region.weights for region in regions])[:, None])
    return rows.rechunk(sizes), column.rechunk(sizes)
