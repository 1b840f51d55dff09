"""Sums over all blocks of a store: where they are, and how they are added up anew."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspectral.store.arrays import Location, read_array
from dspectral.store.blocks import BlockInfo

TOTALS = ("column_sums", "document_frequency")
"""Names of the sums over all blocks, in the order of their digests."""


def totals_path(generation: int) -> str:
    """Return the path of the sums over all blocks, after so many appends."""
    return f"totals/{generation:04d}"


def sum_of_blocks(where: Location, blocks: Sequence[BlockInfo], part: str) -> NDArray[Any]:
    """Add up the sums that lie beside the rows of blocks.

    Shapes: returns (n_columns,).
    """
    store = where.open()
    first, *others = (read_array(where, store, block.name, part) for block in blocks)
    total = np.array(first)
    for one in others:
        total += one
    return total
