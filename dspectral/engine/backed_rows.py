"""Sparse matrices that AnnData left on disk: what ``adata.X`` is in backed mode."""

from typing import Any

import dask.array as da

CHUNK_BYTES = 32 << 20
"""Bytes of a block in memory, as far as the mean length of the rows tells."""
ENTRY_BYTES = 16
"""Most bytes of an entry: a float64 and an int64."""


def is_backed(X: object) -> bool:
    """Report whether ``X`` is a sparse matrix that AnnData holds on disk.

    >>> is_backed([[1.0]])
    False
    """
    # Told by its parts: AnnData need not be there, and its classes have no public names. A Delayed has every part.
    return isinstance(getattr(X, "format", None), str) and hasattr(X, "group") and hasattr(X, "to_memory")


def backed_rows(X: Any) -> da.Array:
    """Return the rows of a sparse matrix on disk as AnnData reads them lazily.

    Shapes: `X` (n_rows, n_columns); returns (n_rows, n_columns).
    """
    if X.format != "csr":
        raise TypeError(
            f"X is a {X.format}_matrix on disk, stored by columns, but rows are read: pass X.to_memory(), or write it "
            "as scipy.sparse.csr_matrix"
        )
    from anndata.experimental import read_elem_lazy  # noqa: PLC0415  whoever has such a matrix has AnnData

    n_rows, n_columns = X.shape
    n_entries = X.group["indices"].shape[0]
    # Rows times bytes a row is CHUNK_BYTES, with n_entries / n_rows entries in a mean row. Where rows are of very
    # unequal length, so are the blocks.
    block_rows = max(1, CHUNK_BYTES * n_rows // max(1, ENTRY_BYTES * n_entries))
    rows: da.Array = read_elem_lazy(X.group, chunks=(min(block_rows, n_rows), n_columns))
    return rows
