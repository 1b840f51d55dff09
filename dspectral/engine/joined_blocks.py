"""Consecutive blocks that one task reads together: where a summary is much larger than a block, most work is its own.

How many blocks are joined depends on their bytes and on the summary, never on the machine, so that results do not
either. Runs begin at the first block and are filled in order: rows that come later leave all runs but the last one as
they are, and with them the partial results that are kept.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
from scipy import sparse

from dspectral.engine.configuration import joined_bytes
from dspectral.engine.row_blocks import Shape, checked_block, slices_of
from dspectral.types import CSRRows, Rows

MOST = 8
"""Blocks that one task reads at the most: what many cores share should not become few tasks."""
SAID = "bytes_of_blocks"
"""Where the layer of an array says how large its blocks are."""


def say_bytes(array: da.Array, n_bytes: Sequence[int] | None) -> da.Array:
    """Let an array of sparse blocks say how large they will be in memory."""
    if n_bytes is not None:
        array.dask.layers[array.name].collection_annotations = {SAID: np.asarray(n_bytes, dtype=np.int64)}
    return array


def bytes_said(array: da.Array) -> list[int] | None:
    """Return how large the blocks of an array are in memory.

    >>> from dspectral import write_counts
    >>> bytes_said(write_counts(np.eye(4), "memory://said", block_rows=2).counts)
    [28, 28]
    >>> bytes_said(da.ones((2, 2)))
    """
    layer = getattr(array.dask, "layers", {}).get(array.name)
    said = (getattr(layer, "collection_annotations", None) or {}).get(SAID)
    return None if said is None or len(said) != array.numblocks[0] else [int(one) for one in said]


def spans_of(arrays: Sequence[da.Array], target: int) -> list[range]:
    """Return the blocks that each task reads.

    >>> from dspectral import write_counts
    >>> rows = write_counts(np.eye(5), "memory://spans", block_rows=1).counts
    >>> spans_of([rows], 40), spans_of([rows], 0) == [range(i, i + 1) for i in range(5)]
    ([range(0, 2), range(2, 4), range(4, 5)], True)
    """
    n_blocks = arrays[0].numblocks[0]
    said = [bytes_said(array) for array in arrays] if target else [None]
    target = min(target, joined_bytes())
    if any(one is None for one in said):
        return [range(i, i + 1) for i in range(n_blocks)]
    sizes = [sum(of_block) for of_block in zip(*filter(None, said), strict=True)]
    # Invariant: the blocks before starts[-1] are in finished runs; `filled` bytes are in the one that grows.
    starts, filled = [0], 0
    for i, size in enumerate(sizes):
        if i > starts[-1] and (filled + size > target or i - starts[-1] == MOST):
            starts.append(i)
            filled = 0
        filled += size
    return [range(*ends) for ends in pairwise([*starts, n_blocks])]


def join(first: int, shapes: Sequence[Shape], *blocks: Any) -> CSRRows:
    """Check consecutive blocks of one stream, and put them together."""
    checked = []
    for number, (block, shape) in enumerate(zip(blocks, shapes, strict=True), first):
        try:
            checked.append(checked_block(block, shape))
        except ValueError as error:
            raise ValueError(f"row block {number}: {error}") from error
    joined = sparse.csr_array(sparse.vstack([sparse.csr_array(one) for one in checked], format="csr"))
    joined.has_canonical_format = True  # each block was, and rows are not shared
    return joined


def cut_again(joined: Sequence[CSRRows], sizes: Sequence[int]) -> Iterator[tuple[Rows, ...]]:
    """Cut what was joined into its blocks again."""
    return zip(*(slices_of(rows, sizes) for rows in joined), strict=True)
