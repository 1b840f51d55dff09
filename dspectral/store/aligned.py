"""Stores whose columns are selected and ordered by name, as a fitted model expects them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from scipy import sparse

from dspectral.store.columns import Columns, columns_from_names, get_fitted_columns
from dspectral.store.rows import BlockReader, CountMatrix, LazyTotalsMixin, delegate_to_source
from dspectral.types import CSRRows, Int64s


@dataclass(frozen=True, eq=False, repr=False)
class AlignedCounts(LazyTotalsMixin):
    """Selected columns of a store in any order; ``open_store(path, align=model)`` returns them.

    Attributes
    ----------
    store : CountStore or AnnDataCounts
        The store.
    order : ndarray of int, shape (n_columns,)
        Column indices in the store.
    identity : Columns
        Names of the selected columns.
    """

    store: CountMatrix
    order: Int64s
    identity: Columns
    # These attributes of the store do not depend on its columns.
    location, provenance, labels, read_labels, n_labels, block_rows = map(
        delegate_to_source, ("location", "provenance", "labels", "read_labels", "n_labels", "block_rows")
    )
    column_identity = property(attrgetter("identity"))

    def __repr__(self) -> str:
        return f"{self.n_columns} columns of {self.store!r}"

    @property
    def block_reader(self) -> BlockReader:
        """The sources of its blocks."""
        read, items, n_bytes = self.store.block_reader
        return BlockReader(partial(read_columns, read=read, order=self.order), items, n_bytes)

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return len(self.order)

    @property
    def nnz(self) -> int:
        """Number of stored entries: one pass."""
        return int(self.document_frequency.sum())

    def documents(self, rows: Any, kind: str) -> list[str] | None:
        """Return the ids or texts of some rows; None if the store has none."""
        return self.store.documents(rows, kind)


def read_columns(item: object, *, read: Callable[[Any], CSRRows], order: Int64s) -> CSRRows:
    """Read a block and select columns. Shapes: returns (n_rows, len(order))."""
    rows = sparse.csr_array(read(item)[:, order])
    rows.sort_indices()
    return rows


def align_columns(store: Any, model: Any) -> CountMatrix:
    """Select the columns of a store by the names of a model's columns, or by a list of names."""
    requested_columns, stored, url = get_fitted_columns(model), store.column_identity, store.location.url
    if requested_columns is None and (isinstance(model, Sequence | np.ndarray) or hasattr(model, "to_list")):
        requested_columns = columns_from_names("names", list(model))
    if requested_columns is None or requested_columns.names is None or isinstance(model, str):
        raise ValueError(
            f"align={model!r:.60} has no column names: pass a model fitted on columns with names, or a list of names"
        )
    if stored is None or stored.names is None:
        raise ValueError(f"align needs column names, but {url} has none: leave align out")
    available, requested = Counter(stored.names), Counter(requested_columns.names)
    missing = [name for name in requested if name not in available]
    if missing:
        raise ValueError(
            f"{len(missing)} of the {len(requested)} columns of align are not in {url}; the first is {missing[0]!r}: "
            "fit the model on columns that are in both"
        )
    if repeated := [name for name in requested if available[name] > 1 or requested[name] > 1]:
        raise ValueError(
            f"several columns of {url} or of align have the name {repeated[0]!r}: make the names unique, for example "
            "with adata.var_names_make_unique()"
        )
    positions = {name: number for number, name in enumerate(stored.names)}
    order = np.array([positions[name] for name in requested_columns.names], dtype=np.int64)
    if np.array_equal(order, np.arange(len(stored.names))):
        return store
    return AlignedCounts(store, order, Columns(stored.kind, stored.names[order]))
