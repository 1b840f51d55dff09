"""Identity of columns and weighting of rows, which models compare with those of their fit."""

from typing import Any, NamedTuple, TypeVar
from warnings import warn

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral import engine
from dspectral.linalg.block_sums import compute_energy
from dspectral.linalg.sparse_products import to_canonical_csr
from dspectral.text.hashing import HashingSettings
from dspectral.text.weighting import DocumentFrequencies, HasWeighting, Weighting
from dspectral.types import CSRRows, Rows, RowsLike, is_sparse

T = TypeVar("T")
VARIABLES, TERMS, FRAME = "variables of an AnnData file", "terms of a vocabulary", "columns of a DataFrame"
_REMEDIES = {
    VARIABLES: "open_store(path, align=model) reads the variables of a file in the order of the model",
    TERMS: "pass rows of a store with the same terms, or texts counted by store.count of the store of the fit",
    FRAME: "X[list(model.feature_names_in_)] has the columns of the fit",
}
"""Advice for each kind of columns: how to get rows with the columns of a model."""
_SOURCE, _DIGEST = "column_source", "weighting_digest"
"""Attributes of arrays that this package returns: their columns, or the store that has them; and their weighting."""
WEIGHTING_KEY = "weighting"
"""Entry of a store's provenance: the digest of the weighting of its rows."""


class Columns(NamedTuple):
    """Identity of columns: names of a kind, shape (n_columns,), or the settings of hashed n-grams."""

    kind: str
    names: "NDArray[np.object_] | None" = None
    hashing: HashingSettings | None = None


def columns_from_names(kind: str, names: Any) -> Columns:
    """Return the identity of columns with names."""
    strings = np.empty(len(names), dtype=object)
    strings[:] = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    return Columns(kind, strings)


def columns_from_hashing(hashing: HashingSettings | None) -> Columns | None:
    """Return the identity of columns of hashed n-grams."""
    return None if hashing is None else Columns("hashed n-grams", hashing=hashing)


def set_columns(array: T, source: object) -> T:
    """Give a Dask or SciPy array the columns of a source: a store, another such array, or an identity."""
    is_source = isinstance(source, Columns) or hasattr(type(source), "counts")
    vars(array)[_SOURCE] = source if is_source else getattr(source, _SOURCE, None)
    return array


def get_columns(X: Any) -> Columns | None:
    """Return the columns of a store, or of an array from :func:`set_columns`; None if they are unknown."""
    source = getattr(X, "__dict__", {}).get(_SOURCE, X)
    columns = source if isinstance(source, Columns) else getattr(source, "column_identity", None)
    return columns if isinstance(columns, Columns) else None


def get_weighting(X: Any) -> str | None:
    """Return the digest of the weighting of a store, or of an array from :func:`weigh_rows`; None if it is unknown."""
    attributes = getattr(X, "__dict__", {})
    store = attributes.get(_SOURCE, X)
    digest: str | None = attributes.get(_DIGEST) or getattr(store, "provenance", {}).get(WEIGHTING_KEY)
    return digest


def get_fitted_columns(model: object) -> Columns | None:
    """Return the columns of a model's fit; None if they are unknown."""
    identity, names = getattr(model, "column_identity_", FRAME), getattr(model, "feature_names_in_", None)
    if isinstance(identity, HashingSettings):
        return columns_from_hashing(identity)
    return None if names is None else Columns(identity, names)


def set_fitted_columns(model: Any, columns: Columns | None, weighting: str | None = None) -> None:
    """Set ``feature_names_in_``, ``column_identity_`` and ``weighting_`` of a model to those of its fit."""
    for name in ("column_identity_", "weighting_"):
        vars(model).pop(name, None)
    if weighting is not None:
        model.weighting_ = weighting
    if columns is None:
        return
    if columns.names is not None:
        model.feature_names_in_ = columns.names
    if columns.kind != FRAME:  # scikit-learn compares the names of data frames itself
        model.column_identity_ = columns.hashing or columns.kind


def check_columns(owner: object, columns: Columns | None, rows_label: str = "X") -> None:
    """Raise ValueError if columns differ from those of a model or store; unknown columns are accepted."""
    if columns is None or (owner_columns := get_columns(owner) or get_fitted_columns(owner)) is None:
        return
    name = type(owner).__name__
    if (difference := _describe_difference(columns, owner_columns)) is not None:
        remedy = _REMEDIES.get(columns.kind, "pass rows of the same columns")
        if owner_columns.hashing is not None:
            remedy = f"build the store with hashing=NgramHashing(...) and the settings of {name}"
        raise ValueError(
            f"the columns of {rows_label} differ from those of {name}: {difference[0]} in {rows_label}, but "
            f"{difference[1]} in {name}; {remedy}"
        )


def check_fitted_rows(model: object, columns: Columns | None, weighting: str | None, *, are_counts: bool) -> None:
    """Raise ValueError if columns or weighting differ from those of a fit; warn once if one of them is unknown."""
    check_columns(model, columns)
    name, fitted, fitted_weighting = type(model).__name__, get_fitted_columns(model), getattr(model, "weighting_", None)
    if fitted_weighting is not None and weighting != fitted_weighting and (weighting is not None or are_counts):
        rows = "counts" if weighting is None else "rows of another weighting"
        raise ValueError(
            f"{name} was fitted on weighted rows, but X has {rows}: use X.weighted(TfidfWeighting().fit(store)) with "
            "the store of the fit, or put TfidfWeighting() before the estimator in a Pipeline"
        )
    lost = "; rows have them as they come from a store, and lose them in dask.persist and in arithmetic"
    if columns is None and fitted is not None:  # the words of scikit-learn
        warn(f"X does not have valid feature names, but {name} was fitted with feature names{lost}", stacklevel=4)
    elif columns is not None and columns.names is not None and fitted is None:
        warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=4)
    elif fitted_weighting is not None and weighting is None:
        warn(f"X has no record of its weighting, but {name} was fitted on weighted rows", stacklevel=4)


def _describe_difference(a: Columns, b: Columns) -> tuple[str, str] | None:
    """Return the first difference between two identities as two phrases; None if they are equal."""
    if a.hashing is not None and b.hashing is not None:
        pairs = zip(a.hashing._asdict().items(), b.hashing, strict=True)
        different = [(f"{name} = {x!r}", f"{name} = {y!r}") for (name, x), y in pairs if x != y]
        return (", ".join(x for x, _ in different), ", ".join(y for _, y in different)) if different else None
    if a.names is None or b.names is None:
        return f"they are {a.kind}", f"they are {b.kind}"
    if a.names is b.names:
        return None
    n, m = len(a.names), len(b.names)
    if len(different_columns := np.flatnonzero(a.names[: min(n, m)] != b.names[: min(n, m)])):
        i = different_columns[0]
        return f"column {i} is {a.names[i]!r}", f"{b.names[i]!r}"
    return None if n == m else (f"there are {n}", f"there are {m}")


def weigh_rows(X: RowsLike, weighting: Weighting, *, n_columns: int, dtype: DTypeLike = np.float32) -> Any:
    """Apply a weighting to CSR rows. Shapes: `X` (n, d); returns (n, n_columns)."""
    rows = engine.map_rows(X, weighting.apply, n_columns=n_columns, dtype=dtype, sparse_output=True, name="weigh")
    vars(rows)[_DIGEST] = weighting.digest
    return set_columns(rows, X) if weighting.columns is None else rows


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
