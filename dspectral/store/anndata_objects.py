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

    Shapes: `rows` (n_rows, n_columns), `labels` (n_rows, n_labels).
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

    Shapes: `rows` (n_rows, n_columns); returns (n_rows, n_columns).
    """
    meta = sparse.csr_matrix((0, 0), dtype=rows.dtype)
    return rows.map_blocks(sparse.csr_matrix, dtype=rows.dtype, meta=meta)


def anndata_module() -> Any:
    """Import AnnData, which is an optional extra."""
    try:
        return import_module("anndata")
    except ImportError as error:
        raise ImportError("files and objects of AnnData need it: pip install 'dspectral[anndata]'") from error
