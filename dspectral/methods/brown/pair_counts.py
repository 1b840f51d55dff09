"""Counts of adjacent types: what follows each type and what comes before it, in memory or in blocks of a store."""

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

from dspectral.types import CSRRows, Doubles, Int32s, Int64s


class PairBlock(NamedTuple):
    """How often the column's type stands directly after, and before, each of n types from number ``first``."""

    first: int
    after: CSRRows
    before: CSRRows

    def concatenate_sides(self) -> CSRRows:
        """Return the types after, then those before, as columns of one matrix, shape (n, 2 * n_types)."""
        a, b = self.after, self.before
        # SciPy would go through coordinates, at ten times the time. Entries of a row lie behind those of all rows
        # before it: both halves of them.
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
    """How often types are adjacent, read block by block as often as asked, each by ``read(item)``.

    Shapes: `n_following, n_preceding` (n_types,).
    """

    read: Callable[[Any], PairBlock]
    items: Sequence[Any]
    n_following: Doubles
    n_preceding: Doubles
    nnz: int

    @classmethod
    def from_matrix(cls, counts: CSRRows) -> "AdjacentCounts":
        """Take a matrix in memory, shape (n_types, n_types), as one block."""
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
        """Multiply counts of types after, and before, by a matrix (n_types, m), in one reading."""
        products = [(block.after @ factor, block.before @ factor) for block in self]
        return _concatenate_products([after for after, _ in products]), _concatenate_products(
            [before for _, before in products]
        )

    def whole(self) -> CSRRows:
        """Return how often the column's type follows the row's as one matrix in memory."""
        after = [block.after for block in self]
        return after[0] if len(after) == 1 else _stack_rows(after)

    @contextmanager
    def reorder(self, order: Int64s) -> "Iterator[AdjacentCounts]":
        """Give types other numbers while a block of code runs: the type at position i of ``order`` becomes i."""
        rows, columns = self.n_following[order], self.n_preceding[order]
        if self.in_memory:
            yield AdjacentCounts.from_matrix(sparse.csr_array(self.whole()[order][:, order]))
            return
        with tempfile.TemporaryDirectory(prefix="dspectral-") as folder:
            items = [
                _write_block(Path(folder) / str(number), block)
                for number, block in enumerate(_iter_reordered(self, order))
            ]
            yield AdjacentCounts(partial(_read_block, n_types=len(order)), items, rows, columns, self.nnz)


def _return_block(block: PairBlock) -> PairBlock:
    return block


def _concatenate_products(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return _stack_rows(parts) if sparse.issparse(parts[0]) else np.concatenate(parts)


def _stack_rows(parts: "Sequence[CSRRows]") -> CSRRows:
    return sparse.csr_array(sparse.vstack(list(parts), format="csr"))


def _longest_rising_subsequence(order: Int64s) -> NDArray[np.bool_]:
    """Return which numbers are of a longest rising subsequence: all others stand elsewhere in the new order."""
    ends: list[int] = []  # the least last number of a rising subsequence of each length
    lengths = np.empty(len(order), dtype=np.int64)
    for i, number in enumerate(order.tolist()):
        lengths[i] = bisect_left(ends, number)
        ends[lengths[i] : lengths[i] + 1] = [number]
    stays, wanted = np.zeros(len(order), dtype=np.bool_), len(ends) - 1
    for i in range(len(order) - 1, -1, -1):
        if lengths[i] == wanted:
            stays[i], wanted = True, wanted - 1
    return stays


# Types come in nearly the order of the store, which is that of falling counts: the few that stand elsewhere are read
# once before, and put where they belong. A block of the result ends where one of the store ends.
def _iter_reordered(pairs: AdjacentCounts, order: Int64s) -> Iterator[PairBlock]:
    """Yield blocks in another order of the types, in which columns have their new numbers."""
    stays, number = _longest_rising_subsequence(order), np.full(len(pairs.n_following), -1, dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    moved = order[~stays]
    kept = [_select_rows(block, moved) for block in pairs]
    elsewhere = np.concatenate([here for here, _, _ in kept])
    halves = _stack_rows([after for _, after, _ in kept]), _stack_rows([before for _, _, before in kept])
    place = np.full(len(pairs.n_following), -1, dtype=np.int64)
    place[elsewhere] = np.arange(len(elsewhere))
    start = 0
    for block in pairs:
        n = block.after.shape[0]
        here = np.flatnonzero(stays & (order >= block.first) & (order < block.first + n))
        is_last = block.first + n == len(pairs.n_following)
        stop = len(order) if is_last else int(here[-1]) + 1 if len(here) else start
        asked = order[start:stop]
        # Rows of the block, then those from elsewhere: one index picks from both.
        rows = np.where(stays[start:stop], asked - block.first, n + place[asked])
        after, before = (
            _renumber_columns(sparse.csr_array(_stack_rows([own, other])[rows]), number, len(order))
            for own, other in zip(block[1:], halves, strict=True)
        )
        before.sort_indices()  # as those of a transpose are
        yield PairBlock(start, after, before)
        start = stop


def _select_rows(block: PairBlock, numbers: Int64s) -> tuple[Int64s, CSRRows, CSRRows]:
    """Return those of some types that are in a block, and their rows."""
    rows = numbers - block.first
    rows = rows[(rows >= 0) & (rows < block.after.shape[0])]
    return rows + block.first, block.after[rows], block.before[rows]


def _renumber_columns(rows: CSRRows, number: Int32s, n: int) -> CSRRows:
    return sparse.csr_array((rows.data, number[rows.indices], rows.indptr), shape=(rows.shape[0], n))


def _write_block(path: Path, block: PairBlock) -> tuple[Path, int]:
    """Write a block to a file, not compressed; return what :func:`_read_block` takes."""
    np.savez(path, *(part for half in block[1:] for part in (half.data, half.indices, half.indptr)))
    return path.with_suffix(".npz"), block.first


def _read_block(item: tuple[Path, int], *, n_types: int) -> PairBlock:
    path, first = item
    with np.load(path) as parts:
        a, b = (tuple(parts[f"arr_{i}"] for i in range(start, start + 3)) for start in (0, 3))
    shape = (len(a[2]) - 1, n_types)
    return PairBlock(first, sparse.csr_array(a, shape=shape), sparse.csr_array(b, shape=shape))
