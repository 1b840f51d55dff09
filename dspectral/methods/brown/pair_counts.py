"""Counts of following and preceding types, in memory or in blocks of a store."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
    return sparse.vstack(list(parts), format="csr")


def _iter_reordered(pairs: AdjacentCounts, order: Int64s) -> Iterator[PairBlock]:
    """Yield blocks in another order of the types, with renumbered columns; items begin with their first type."""
    # The new order is nearly that of the store, by decreasing counts, so that a block takes its rows from few others.
    firsts, new_ids = np.array([item[0] for item in pairs.items]), np.full(len(pairs.n_following), -1, dtype=np.int32)
    new_ids[order] = np.arange(len(order), dtype=np.int32)
    for start, stop in pairwise([*firsts[firsts < len(order)].tolist(), len(order)]):
        types, parts = order[start:stop], []
        owners = np.searchsorted(firsts, types, side="right") - 1
        for owner in np.unique(owners):
            block = pairs.read(pairs.items[owner])
            rows = types[owners == owner] - block.first
            parts.append((block.after[rows], block.before[rows]))
        places = np.argsort(np.argsort(owners, kind="stable"))
        sides = [_stack_rows(side)[places] for side in zip(*parts, strict=True)]
        shape = (len(types), len(order))
        after, before = (sparse.csr_array((a.data, new_ids[a.indices], a.indptr), shape=shape) for a in sides)
        before.sort_indices()  # like a transpose
        yield PairBlock(start, after, before)


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
