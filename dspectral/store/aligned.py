"""Columns of a store in the order of a model, found by their names."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from dspectral.store.columns import Columns, fitted_columns, named_columns
from dspectral.store.rows import OpenedCounts, Pieces, SummedInPass
from dspectral.types import CSRRows, Int64s


@dataclass(frozen=True, eq=False, repr=False)
class AlignedCounts(SummedInPass):
    """Some columns of a store, in any order, as ``open_store(path, align=model)`` reads them.

    Attributes
    ----------
    of : CountStore or AnnDataCounts
        Where the columns are from.
    order : ndarray of int, shape (n_columns,)
        Their numbers there.
    identity : Columns
        What the columns are.
    """

    of: OpenedCounts
    order: Int64s
    identity: Columns

    def __repr__(self) -> str:
        return f"{self.n_columns} columns of {self.of!r}"

    def __getattr__(self, name: str) -> Any:
        # Where the rows lie, and what a store says of their making and labels, holds for some of their columns.
        if name in ("where", "provenance", "labels", "read_labels", "n_labels"):
            return getattr(self.of, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def column_identity(self) -> Columns:
        """What the columns are."""
        return self.identity

    @property
    def pieces(self) -> Pieces:
        """The sources of its blocks."""
        read, items, n_bytes = self.of.pieces
        return Pieces(partial(read_columns, read=read, order=self.order), items, n_bytes)

    @property
    def block_rows(self) -> list[int]:
        """Number of rows of each block."""
        return self.of.block_rows

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return len(self.order)

    @property
    def nnz(self) -> int:
        """Number of stored entries: one pass."""
        return int(self.document_frequency.sum())

    def documents(self, rows: Any, part: str) -> list[str] | None:
        """Return the ids or texts of some rows, None where the store kept none."""
        return self.of.documents(rows, part)


def read_columns(item: Any, *, read: Callable[[Any], CSRRows], order: Int64s) -> CSRRows:
    """Read some columns of a block. Shapes: returns (n_rows, len(order))."""
    rows = sparse.csr_array(read(item)[:, order])
    rows.sort_indices()
    return rows


def align_columns(store: Any, like: Any) -> OpenedCounts:
    """Return the columns of a store that have the names of a model's, or names of a list, in that order."""
    wanted, there, url = fitted_columns(like), store.column_identity, store.where.url
    if wanted is None and (isinstance(like, Sequence | np.ndarray) or hasattr(like, "to_list")):
        wanted = named_columns("names", list(like))
    if wanted is None or wanted.names is None or isinstance(like, str):
        raise ValueError(
            f"align is {like!r:.60}, which has no names of columns: give a model that was fitted on columns with "
            "names, or a list of names"
        )
    if there is None or there.names is None:
        raise ValueError(f"the columns of {url} have no names, by which align finds them: leave align out")
    counts, asked = Counter(there.names), Counter(wanted.names)
    missing = [name for name in asked if name not in counts]
    if missing:
        raise ValueError(
            f"{len(missing)} of the {len(asked)} columns of align are not in {url}, {missing[0]!r} is the first: fit "
            "on columns that both have"
        )
    if repeated := [name for name in asked if counts[name] > 1 or asked[name] > 1]:
        raise ValueError(
            f"{repeated[0]!r} is the name of several columns, in {url} or of align, which cannot be told apart: make "
            "names unique, as adata.var_names_make_unique() does"
        )
    places = {name: number for number, name in enumerate(there.names)}
    order = np.array([places[name] for name in wanted.names], dtype=np.int64)
    if np.array_equal(order, np.arange(len(there.names))):
        return store  # type: ignore[no-any-return]
    return AlignedCounts(store, order, Columns(there.kind, there.names[order]))
