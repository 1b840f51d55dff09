"""The protocol of summaries, their memory estimates, and the merge of summaries by adding fields."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dspectral.types import is_sparse

T = TypeVar("T", bound=tuple[Any, ...])


class BlockSize(NamedTuple):
    """Size of the largest block of a pass, known before it is read; `n_other_columns`: columns of the other streams."""

    n_rows: int
    n_columns: int
    itemsize: int
    is_sparse: bool
    n_other_columns: int = 0


class MemoryEstimate(NamedTuple):
    """Memory of a summary, estimated before a block is read by ``estimate_block_memory(block, **bound)`` of its class.

    `summary`: maximum bytes of a summary; `work`: maximum bytes that computing it takes besides the block; `block`:
    minimum bytes of rows for one summary; `is_sketch`: whether both grow with the number of columns of a sketch.
    """

    summary: int
    work: int
    block: int = 0
    is_sketch: bool = False


def min_block_bytes(summary: int) -> int:
    """Return the minimum bytes of rows for one large summary: beyond 16 MB of rows its merges cost little."""
    return min(2 * summary, max(1 << 24, summary // 4))


def get_memory_estimate(summarize_block: Callable[..., Any], block: BlockSize) -> MemoryEstimate:
    """Return the memory estimate of a summary function, zeros if its class has none."""
    inner = getattr(summarize_block, "func", summarize_block)
    keywords = dict(getattr(summarize_block, "keywords", {}))
    kind: Any = getattr(inner, "__self__", None)
    if not hasattr(kind, "estimate_block_memory") or inner != kind.from_block:
        return MemoryEstimate(0, 0)
    return kind.estimate_block_memory(block, **keywords)


class Summary(Protocol):
    """Summary of one block of rows: a named tuple of arrays and numbers, of bounded size.

    ``tests/laws.py`` checks that

    - ``S.from_block(block)`` does not change the block;
    - ``merge`` is pure, and merging the summaries of two blocks in row order gives the summary of both blocks,
      exactly or within the bound that the summary states;
    - the summary of an empty block is an identity of ``merge``;
    - the same summaries in the same order give the same bits.
    """

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows, with the rows of ``others`` after those of ``self``."""
        ...


def get_nbytes(content: Any) -> int:
    """Return the bytes of all arrays in a summary."""
    if isinstance(content, tuple | list):
        return sum(map(get_nbytes, content))
    if is_sparse(content):
        parts = (getattr(content, name, None) for name in ("data", "indices", "indptr"))
        return sum(part.nbytes for part in parts if part is not None)
    return content.nbytes if isinstance(content, np.ndarray) else 0


def add_fields(*summaries: T) -> T:
    """Merge summaries by adding each field."""
    return type(summaries[0])(*map(_add_values, zip(*summaries, strict=True)))


def _add_values(values: tuple[Any, ...]) -> Any:
    first = values[0]
    if first is None or isinstance(first, bool):  # a setting, equal in all summaries
        return first
    # A summary inside a summary is a tuple too, but has its own merge.
    if hasattr(first, "merge"):
        return first.merge(*values[1:])
    if isinstance(first, tuple):
        return add_fields(*values)
    if isinstance(first, np.ndarray):
        return _add_arrays(values) if first.dtype.kind == "f" else np.add.reduce(values)
    return math.fsum(values) if isinstance(first, float) else sum(values)


def _add_arrays(arrays: tuple[NDArray[np.floating[Any]], ...]) -> NDArray[np.floating[Any]]:
    """Add arrays from left to right in the memory of the result; ``np.add.reduce`` would stack them first."""
    first, *others = arrays
    if not others:
        return first.copy()
    # The first sum replaces a copy of the first array, which saves one pass over memory.
    total = np.empty(first.shape, dtype=first.dtype)
    np.add(first, others[0], out=total)
    for array in others[1:]:
        total += array
    return total
