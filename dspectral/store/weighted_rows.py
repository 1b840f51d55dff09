"""Lazily weighted rows; the name of their Dask layer contains the digest of the weighting."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from dspectral import engine
from dspectral.linalg.block_sums import compute_energy
from dspectral.linalg.sparse_products import to_canonical_csr
from dspectral.store.columns import annotate_columns
from dspectral.text.weighting import DocumentFrequencies, HasWeighting, Weighting
from dspectral.types import CSRRows, Rows, RowsLike, is_sparse

_WEIGH_PREFIX = "weigh-block-"
"""Prefix of the layer name of weighted rows; the digest of the weighting follows."""
KEY = "weighting"
"""Entry of a store's provenance: the digest of the weighting of its rows."""


def weigh_rows(X: RowsLike, weighting: Weighting, *, n_columns: int, dtype: DTypeLike = np.float32) -> Any:
    """Apply a weighting to CSR rows. Shapes: `X` (n, d); returns (n, n_columns)."""
    name = f"{_WEIGH_PREFIX}{weighting.digest}"  # Dask's dashboard shows the group "weigh-block"
    rows = engine.map_rows(X, weighting.apply, n_columns=n_columns, dtype=dtype, sparse_output=True, name=name)
    keeps_columns = engine.is_lazy(rows) and weighting.columns is None
    return annotate_columns(rows, X) if keeps_columns else rows


def get_weightings(X: RowsLike) -> set[str]:
    """Return the digests of all weightings that were applied to rows."""
    stored = getattr(X, "provenance", {}).get(KEY)
    array = getattr(X, "counts", X)
    layers = map(str, getattr(getattr(array, "dask", None), "layers", {}))
    passes = [pass_name for pass_name in map(engine.get_pass_name, layers) if pass_name.startswith(_WEIGH_PREFIX)]
    return {pass_name.removeprefix(_WEIGH_PREFIX) for pass_name in passes} | ({stored} if stored else set())


def as_weighting(weighting: Weighting | HasWeighting, n_columns: int) -> Weighting:
    """Return the weighting of an estimator, or the given one; raise if it does not fit ``n_columns`` columns."""
    resolved_weighting = weighting if isinstance(weighting, Weighting) else weighting.weighting
    if (
        resolved_weighting.columns is None
        and resolved_weighting.column_weights is not None
        and len(resolved_weighting.column_weights) != n_columns
    ):
        raise ValueError(
            f"the weighting has {len(resolved_weighting.column_weights)} column weights, but the rows have {n_columns} "
            "columns: fit it on rows of the same columns"
        )
    return resolved_weighting


def to_csr_counts(rows: Rows) -> CSRRows:
    """Convert a block of counts to floating-point CSR rows without duplicates; raise for NaN and infinity."""
    compute_energy(rows)
    float_rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    return to_canonical_csr(float_rows if is_sparse(float_rows) else sparse.csr_array(float_rows))


def count_document_frequencies(rows: Rows) -> DocumentFrequencies:
    """Count the nonzero rows of each column of one block."""
    return DocumentFrequencies.from_block(to_csr_counts(rows))
