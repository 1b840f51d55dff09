"""Rows of a store as an AnnData object, in blocks of the kind that AnnData and scanpy compute with."""

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import dask.array as da
from scipy import sparse


def as_anndata(
    rows: da.Array,
    *,
    labels: da.Array | None,
    terms: Sequence[str] | None,
    provenance: dict[str, Any],
    lazy: bool,
) -> Any:
    """Return rows as an AnnData object.

    Parameters
    ----------
    rows : Dask array of CSR blocks, shape (n_rows, n_columns)
        The matrix ``X``.
    labels : Dask array of CSR blocks, shape (n_rows, n_labels), or None
        Labels, which become ``obsm["labels"]``.
    terms : sequence of str or None
        Names of the columns.
    provenance : dict
        Origin of the rows, kept as JSON in ``uns["dspectral"]``.
    lazy : bool
        Whether the rows stay on disk.

    Returns
    -------
    AnnData
        The object; ``X`` is a Dask array of ``csr_matrix`` blocks, or a ``csr_matrix`` if not ``lazy``.

    Raises
    ------
    ImportError
        If AnnData is not there.
    """
    matrices = {"X": as_matrices(rows), **({} if labels is None else {"labels": as_matrices(labels)})}
    if not lazy:
        matrices = dict(zip(matrices, da.compute(*matrices.values()), strict=True))
    anndata: Any = anndata_module()
    return anndata.AnnData(
        X=matrices.pop("X"),
        var=None if terms is None else {"var_names": list(terms)},
        obsm=matrices,
        uns={"dspectral": {"provenance": json.dumps(provenance)}},
    )


def as_matrices(rows: da.Array) -> da.Array:
    """Return the same rows in blocks that are a ``csr_matrix`` each: scanpy takes no ``csr_array``.

    Parameters
    ----------
    rows : Dask array of CSR blocks, shape (n_rows, n_columns)
        Rows.

    Returns
    -------
    Dask array of ``csr_matrix`` blocks, shape (n_rows, n_columns)
        The same rows, lazily; the arrays of a block are not copied.
    """
    meta = sparse.csr_matrix((0, 0), dtype=rows.dtype)
    return rows.map_blocks(sparse.csr_matrix, dtype=rows.dtype, meta=meta)


def anndata_module() -> Any:
    """Import AnnData, which is an optional extra.

    Returns
    -------
    module
        AnnData.

    Raises
    ------
    ImportError
        If it is not there.
    """
    try:
        return import_module("anndata")
    except ImportError as error:
        raise ImportError("files and objects of AnnData need it: pip install 'dspectral[anndata]'") from error
