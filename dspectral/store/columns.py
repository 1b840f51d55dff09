"""Identity of columns and weighting of rows, which models compare with those of their fit."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dspectral import engine
from dspectral.linalg.block_sums import compute_energy
from dspectral.linalg.sparse_products import to_canonical_csr
from dspectral.text.hashing import HashingSettings
from dspectral.text.weighting import DocumentFrequencies, HasWeighting, Weighting
from dspectral.types import CSRRows, Rows, RowsLike, is_sparse

COLUMNS = "column_identity"
"""Attribute of stores and annotation of Dask arrays: their columns, or the store that has them."""
VARIABLES, TERMS, FRAME = "variables of an AnnData file", "terms of a vocabulary", "columns of a DataFrame"
_REMEDIES = {
    VARIABLES: "open_store(path, align=model) reads the variables of a file in the order of the model, and in memory "
    "adata[:, model.feature_names_in_] has it",
    TERMS: "pass rows of a store with the same terms, or texts counted by store.count of the store that was fitted on",
    FRAME: "X[list(model.feature_names_in_)] has the columns of the fit",
}
"""Advice for each kind of columns: how to get rows with the columns of a model."""
COLUMN_PRESERVING_LAYERS = ("astype-", "rechunk-merge-", "rechunk-split-")
"""Prefixes of Dask layers that keep the columns of their inputs."""
SELECTING_LAYERS = ("blocks-", "concatenate-", "getitem-")
"""Prefixes of Dask layers that select or concatenate rows or columns."""


class Columns(NamedTuple):
    """Identity of columns: names of a kind, shape (n_columns,), or the settings of hashed n-grams."""

    kind: str
    names: "NDArray[np.object_] | None" = None
    hashing: HashingSettings | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names) if self.hashing is None else self.hashing.n_features  # type: ignore[arg-type]


def columns_from_names(kind: str, names: Any) -> Columns:
    """Return the identity of columns with names."""
    strings = np.empty(len(names), dtype=object)
    strings[:] = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    return Columns(kind, strings)


def columns_from_hashing(hashing: HashingSettings | None) -> Columns | None:
    """Return the identity of columns of hashed n-grams."""
    return None if hashing is None else Columns("hashed n-grams", hashing=hashing)


def annotate_columns(array: object, source: object) -> Any:
    """Annotate a Dask array with its columns, or with an array or store that has the same columns."""
    return engine.annotate(array, COLUMNS, source)


def get_columns(X: Any) -> Columns | None:
    """Return the columns of a store or Dask array; None if they are unknown."""
    if not hasattr(X, "dask"):
        columns: Columns | None = getattr(X, COLUMNS, None) if hasattr(X, "counts") else None
    else:
        columns = _get_layer_columns(X.dask, X.name) if hasattr(X.dask, "layers") else None
        columns = columns if columns is not None and columns.n_columns == X.shape[1] else None
    return columns


def _get_layer_columns(graph: Any, name: str) -> Columns | None:
    """Return the columns of a layer, from its annotation or from the layers that it depends on."""
    annotate = (getattr(graph.layers.get(name), "collection_annotations", None) or {}).get(COLUMNS)
    if annotate is not None:
        return annotate if isinstance(annotate, Columns) else get_columns(annotate)
    if not name.startswith(COLUMN_PRESERVING_LAYERS) and not (
        name.startswith(SELECTING_LAYERS) and _selects_whole_rows(graph.layers[name])
    ):
        return None
    inputs = [_get_layer_columns(graph, dependency) for dependency in graph.dependencies[name]]
    input_columns = [columns for columns in inputs if columns is not None]
    for other in input_columns[1:]:
        if difference := _describe_difference(input_columns[0], other):
            raise ValueError(
                f"X concatenates rows with different columns ({difference[0]} in some rows, {difference[1]} in "
                "others): pass rows of the same columns"
            )
    return input_columns[0] if inputs and len(input_columns) == len(inputs) else None


def _selects_whole_rows(layer: Any) -> bool:
    """Report whether a Dask layer selects or concatenates whole rows; False for unknown task types."""

    def resolve(argument: Any) -> Any:
        argument = layer.get(argument.key, argument) if hasattr(argument, "key") else argument
        return getattr(argument, "value", argument)

    for key, task in layer.items():
        name = getattr(getattr(task, "func", None), "__name__", None)
        block = getattr(task, "target", task)
        match name, [resolve(part) for part in getattr(task, "args", ())]:
            case ("getitem", [_, (_, slice() as columns)]) | ("_getitem", [_, (_, (_, slice() as columns))]):
                if columns != slice(None):
                    return False
            case "concatenate_arrays", [_, _, 0]:
                pass
            case _ if not (hasattr(task, "value") or (isinstance(block, tuple) and block[-1] == key[-1])):
                return False
    return True


def get_fitted_columns(model: object) -> Columns | None:
    """Return the columns of a model's fit; None if they are unknown."""
    identity, names = getattr(model, "column_identity_", FRAME), getattr(model, "feature_names_in_", None)
    if isinstance(identity, HashingSettings):
        return columns_from_hashing(identity)
    return None if names is None else Columns(identity, names)


def set_fitted_columns(model: Any, columns: Columns | None) -> None:
    """Set ``feature_names_in_`` and ``column_identity_`` of a model to the columns of its fit."""
    vars(model).pop("column_identity_", None)
    if columns is None:
        return
    if columns.names is not None:
        model.feature_names_in_ = columns.names
    if columns.kind != FRAME:  # scikit-learn compares the names of data frames itself
        model.column_identity_ = columns.hashing or columns.kind


def check_columns(owner: object, columns: Columns | None, rows_label: str = "X") -> None:
    """Raise ValueError if columns differ from those of a model or store; unknown columns are accepted."""
    if columns is None:
        return
    owner_columns, name = get_columns(owner) or get_fitted_columns(owner), type(owner).__name__
    if owner_columns is None or (difference := _describe_difference(columns, owner_columns)) is None:
        return
    remedy = _REMEDIES.get(columns.kind, "pass rows of the same columns")
    if owner_columns.hashing is not None:
        remedy = f"build the store with hashing=NgramHashing(...) and the settings of {name}"
    elif columns.names is not None and owner_columns.names is not None:
        names = set(columns.names)
        missing = [column for column in owner_columns.names if column not in names]
        if missing:
            remedy = f"{len(missing)} column(s) of {name} are not in {rows_label}, {missing[0]!r} comes first: {remedy}"
    raise ValueError(
        f"the columns of {rows_label} differ from those of {name}: {difference[0]} in {rows_label}, but "
        f"{difference[1]} in {name}; {remedy}"
    )


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
    n = min(len(a.names), len(b.names))
    different_columns = np.flatnonzero(a.names[:n] != b.names[:n])
    if len(different_columns):
        i = different_columns[0]
        return f"column {i} is {a.names[i]!r}", f"{b.names[i]!r}"
    return None if len(a.names) == len(b.names) else (f"there are {len(a.names)}", f"there are {len(b.names)}")


_WEIGH_PREFIX = "weigh-block-"
"""Prefix of the layer name of weighted rows; the digest of the weighting follows."""
WEIGHTING_KEY = "weighting"
"""Entry of a store's provenance: the digest of the weighting of its rows."""


def weigh_rows(X: RowsLike, weighting: Weighting, *, n_columns: int, dtype: DTypeLike = np.float32) -> Any:
    """Apply a weighting to CSR rows. Shapes: `X` (n, d); returns (n, n_columns)."""
    name = f"{_WEIGH_PREFIX}{weighting.digest}"  # Dask's dashboard shows the group "weigh-block"
    rows = engine.map_rows(X, weighting.apply, n_columns=n_columns, dtype=dtype, sparse_output=True, name=name)
    keeps_columns = engine.is_lazy(rows) and weighting.columns is None
    return annotate_columns(rows, X) if keeps_columns else rows


def get_weightings(X: RowsLike) -> set[str]:
    """Return the digests of all weightings that were applied to rows."""
    stored = getattr(X, "provenance", {}).get(WEIGHTING_KEY)
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
