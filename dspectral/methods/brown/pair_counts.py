"""Counts of following and preceding types, in memory or in blocks of a store."""

import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.types import CSRRows, Doubles, Int64s


class PairBlock(NamedTuple):
    """Counts of the types directly after and before n consecutive types from number ``first``, one row per type."""

    first: int
    after: CSRRows
    before: CSRRows

    def concatenate_sides(self) -> CSRRows:
        """Return the counts after, then those before, as columns of one matrix, shape (n, 2 * n_types)."""
        a, b = self.after, self.before
        # scipy.sparse.hstack takes ten times as long.
        at_a = np.arange(a.nnz) + np.repeat(b.indptr[:-1], np.diff(a.indptr))
        at_b = np.arange(b.nnz) + np.repeat(a.indptr[1:], np.diff(b.indptr))
        data, indices = np.empty(a.nnz + b.nnz), np.empty(a.nnz + b.nnz, dtype=np.int32)
        data[at_a], data[at_b] = a.data, b.data
        indices[at_a], indices[at_b] = a.indices, b.indices + a.shape[1]
        rows = sparse.csr_array((data, indices, a.indptr + b.indptr), shape=(a.shape[0], 2 * a.shape[1]))
        rows.sort_indices()
        return rows


@dataclass(frozen=True, eq=False)
class AdjacentCounts:
    """Counts of adjacent types; each iteration reads the blocks by ``read(item)``.

    Shapes: `n_following, n_preceding` (n_types,).
    """

    read: Callable[[Any], PairBlock]
    items: Sequence[Any]
    n_following: Doubles
    n_preceding: Doubles
    nnz: int

    @classmethod
    def from_matrix(cls, counts: CSRRows) -> "AdjacentCounts":
        """Return the counts of a matrix in memory, shape (n_types, n_types), as one block."""
        rows, columns = (np.asarray(counts.sum(axis=axis), dtype=np.float64) for axis in (1, 0))
        block = PairBlock(0, counts, sparse.csr_array(counts.T.tocsr()))
        return cls(_return_block, (block,), rows, columns, counts.nnz)

    @property
    def in_memory(self) -> bool:
        """Whether the counts are one block in memory."""
        return self.read is _return_block

    def __iter__(self) -> Iterator[PairBlock]:
        return map(self.read, self.items)

    def times(self, factor: Any) -> tuple[Any, Any]:
        """Multiply the counts after and before by a matrix (n_types, m), reading the blocks once."""
        after, before = zip(*((block.after @ factor, block.before @ factor) for block in self), strict=True)
        return _concatenate_products(after), _concatenate_products(before)

    def concatenate(self) -> CSRRows:
        """Return the counts of following types as one matrix in memory."""
        after = [block.after for block in self]
        return after[0] if len(after) == 1 else _stack_rows(after)

    @contextmanager
    def reorder(self, order: Int64s) -> "Iterator[AdjacentCounts]":
        """Return a context manager that renumbers types: type ``order[i]`` becomes type i."""
        rows, columns = self.n_following[order], self.n_preceding[order]
        if self.in_memory:
            yield AdjacentCounts.from_matrix(sparse.csr_array(self.concatenate()[order][:, order]))
            return
        with tempfile.TemporaryDirectory(prefix="dspectral-") as folder:
            blocks = enumerate(_iter_reordered(self, order))
            items = [_write_block(Path(folder) / str(number), block) for number, block in blocks]
            yield AdjacentCounts(partial(_read_block, n_types=len(order)), items, rows, columns, self.nnz)


def _return_block(block: PairBlock) -> PairBlock:
    return block


def _concatenate_products(parts: tuple[Any, ...]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return _stack_rows(parts) if sparse.issparse(parts[0]) else np.concatenate(parts)


def _stack_rows(parts: "Sequence[CSRRows]") -> CSRRows:
    return sparse.csr_array(sparse.vstack(list(parts), format="csr"))


def _find_longest_increasing_subsequence(order: Int64s) -> NDArray[np.bool_]:
    """Return the mask of a longest increasing subsequence."""
    ends: list[int] = []  # smallest last number of an increasing subsequence of each length
    lengths = np.empty(len(order), dtype=np.int64)
    for i, number in enumerate(order.tolist()):
        lengths[i] = bisect_left(ends, number)
        ends[lengths[i] : lengths[i] + 1] = [number]
    is_kept, length = np.zeros(len(order), dtype=np.bool_), len(ends) - 1
    for i in range(len(order) - 1, -1, -1):
        if lengths[i] == length:
            is_kept[i], length = True, length - 1
    return is_kept


# The new order is nearly that of the store, by decreasing counts. The few other types are read first and inserted.
# Block boundaries are those of the store.
def _iter_reordered(pairs: AdjacentCounts, order: Int64s) -> Iterator[PairBlock]:
    """Yield blocks in another order of the types, with renumbered columns."""
    is_kept, new_ids = _find_longest_increasing_subsequence(order), np.full(len(pairs.n_following), -1, dtype=np.int32)
    new_ids[order] = np.arange(len(order), dtype=np.int32)
    moved = order[~is_kept]
    selected_blocks = [_select_rows(block, moved) for block in pairs]
    moved_types = np.concatenate([kept_types for kept_types, _, _ in selected_blocks])
    halves = (
        _stack_rows([after for _, after, _ in selected_blocks]),
        _stack_rows([before for _, _, before in selected_blocks]),
    )
    positions = np.full(len(pairs.n_following), -1, dtype=np.int64)
    positions[moved_types] = np.arange(len(moved_types))
    start = 0
    for block in pairs:
        n = block.after.shape[0]
        kept_types = np.flatnonzero(is_kept & (order >= block.first) & (order < block.first + n))
        is_last = block.first + n == len(pairs.n_following)
        stop = len(order) if is_last else int(kept_types[-1]) + 1 if len(kept_types) else start
        selected_types = order[start:stop]
        # Select from the rows of the block followed by the rows read first.
        rows = np.where(is_kept[start:stop], selected_types - block.first, n + positions[selected_types])
        sides = [_stack_rows([own, other])[rows] for own, other in zip(block[1:], halves, strict=True)]
        shape = (len(rows), len(order))
        after, before = (sparse.csr_array((a.data, new_ids[a.indices], a.indptr), shape=shape) for a in sides)
        before.sort_indices()  # like a transpose
        yield PairBlock(start, after, before)
        start = stop


def _select_rows(block: PairBlock, type_ids: Int64s) -> tuple[Int64s, CSRRows, CSRRows]:
    """Return the types of `type_ids` that are in a block, and their rows."""
    rows = type_ids - block.first
    rows = rows[(rows >= 0) & (rows < block.after.shape[0])]
    return rows + block.first, block.after[rows], block.before[rows]


def _write_block(path: Path, block: PairBlock) -> tuple[Path, int]:
    """Write a block to an uncompressed file; return the argument of :func:`_read_block`."""
    np.savez(path, *(part for half in block[1:] for part in (half.data, half.indices, half.indptr)))
    return path.with_suffix(".npz"), block.first


def _read_block(item: tuple[Path, int], *, n_types: int) -> PairBlock:
    path, first = item
    with np.load(path) as parts:
        a, b = (tuple(parts[f"arr_{i}"] for i in range(start, start + 3)) for start in (0, 3))
    shape = (len(a[2]) - 1, n_types)
    return PairBlock(first, sparse.csr_array(a, shape=shape), sparse.csr_array(b, shape=shape))
