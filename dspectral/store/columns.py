"""What the columns of rows are, as far as it is known: models refuse rows of other columns than they were fitted on."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral import engine
from dspectral.text.hashing import HashingSettings

COLUMNS = "column_identity"
"""Attribute of stores and annotation of Dask arrays: their columns, or the store that knows them."""
VARIABLES, TERMS, FRAME = "variables of an AnnData file", "terms of a vocabulary", "columns of a DataFrame"
_REMEDIES = {
    VARIABLES: "open_store(path, align=model) reads the variables of a file in the order of the model, and in memory "
    "adata[:, model.feature_names_in_] has it",
    TERMS: "give rows of a store with the same terms, or texts counted by store.count of the store that was fitted on",
    FRAME: "X[list(model.feature_names_in_)] has the columns of the fit",
}
"""How rows with names of each kind get the columns of a model."""
COLUMN_PRESERVING_LAYERS = ("astype-", "rechunk-merge-", "rechunk-split-")
"""Names of Dask's layers whose arrays have the columns of those below, if they have as many."""
SELECTING_LAYERS = ("blocks-", "concatenate-", "getitem-")
"""Names of those that choose or join rows, or columns."""


class Columns(NamedTuple):
    """What columns are: names of a kind, shape (n_columns,), or the settings by which n-grams were hashed to them."""

    kind: str
    names: "NDArray[np.object_] | None" = None
    hashing: HashingSettings | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names) if self.hashing is None else self.hashing.n_features  # type: ignore[arg-type]


Known: TypeAlias = Columns | None
"""Columns, or None where nothing is known of them, as of arrays in memory."""


def named_columns(kind: str, names: Any) -> Columns:
    """Return columns with names."""
    known = np.empty(len(names), dtype=object)
    known[:] = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    return Columns(kind, known)


def hashed_columns(hashing: HashingSettings | None) -> Known:
    """Return columns of hashed n-grams."""
    return None if hashing is None else Columns("hashed n-grams", hashing=hashing)


def mark_columns(array: Any, source: Any) -> Any:
    """Annotate a Dask array with its columns, or with rows that have the same ones."""
    return engine.annotated(array, COLUMNS, source)


def columns_of(X: Any) -> Known:
    """Return the columns of a store or Dask array."""
    if not hasattr(X, "dask"):
        known: Known = getattr(X, COLUMNS, None) if hasattr(X, "counts") else None
        return known
    found = _get_layer_columns(X.dask, X.name) if hasattr(X.dask, "layers") else None
    return found if found is not None and found.n_columns == X.shape[1] else None


def _get_layer_columns(graph: Any, name: str) -> Known:
    """Return the columns of the array behind a layer, which it says itself or has from the layers below."""
    annotated = (getattr(graph.layers.get(name), "collection_annotations", None) or {}).get(COLUMNS)
    if annotated is not None:
        return annotated if isinstance(annotated, Columns) else columns_of(annotated)
    if not name.startswith(COLUMN_PRESERVING_LAYERS) and not (
        name.startswith(SELECTING_LAYERS) and _selects_whole_rows(graph.layers[name])
    ):
        return None
    below = [_get_layer_columns(graph, one) for one in graph.dependencies[name]]
    known = [one for one in below if one is not None]
    for other in known[1:]:
        if difference := _describe_difference(known[0], other):
            raise ValueError(
                f"X joins rows of different columns: {difference[0]} in some, {difference[1]} in others"
            )
    return known[0] if below and len(known) == len(below) else None


def _selects_whole_rows(layer: Any) -> bool:
    """Report whether a layer of Dask's chooses or joins whole rows, in the form that is known here."""

    def found(part: Any) -> Any:
        part = layer.get(part.key, part) if hasattr(part, "key") else part
        return getattr(part, "value", part)

    for key, task in layer.items():
        name = getattr(getattr(task, "func", None), "__name__", None)
        block = getattr(task, "target", task)
        match name, [found(part) for part in getattr(task, "args", ())]:
            case ("getitem", [_, (_, slice() as columns)]) | ("_getitem", [_, (_, (_, slice() as columns))]):
                if columns != slice(None):
                    return False
            case "concatenate_arrays", [_, _, 0]:
                pass
            case _ if not (hasattr(task, "value") or (isinstance(block, tuple) and block[-1] == key[-1])):
                return False
    return True


def fitted_columns(model: Any) -> Known:
    """Return the columns that a model was fitted on."""
    identity, names = getattr(model, "column_identity_", FRAME), getattr(model, "feature_names_in_", None)
    if isinstance(identity, HashingSettings):
        return hashed_columns(identity)
    return None if names is None else Columns(identity, names)


def learn_columns(model: Any, found: Known) -> None:
    """Keep the columns of a fit as scikit-learn keeps names, and what kind of columns they are."""
    vars(model).pop("column_identity_", None)
    if found is None:
        return
    if found.names is not None:
        model.feature_names_in_ = found.names
    if found.kind != FRAME:  # which scikit-learn itself compares, and warns where names are missing
        model.column_identity_ = found.hashing or found.kind


def check_columns(owner: Any, found: Known, what: str = "X") -> None:
    """Refuse rows of other columns than a model was fitted on, or a store holds, as far as both are known."""
    if found is None:
        return
    known, name = columns_of(owner) or fitted_columns(owner), type(owner).__name__
    if known is None or (difference := _describe_difference(found, known)) is None:
        return
    remedy = _REMEDIES.get(found.kind, "give rows of the same columns")
    if known.hashing is not None:
        remedy = f"build the store with hashing=NgramHashing(...) of the settings of {name}"
    elif found.names is not None and known.names is not None:
        found_names = set(found.names)
        missing = [one for one in known.names if one not in found_names]
        if missing:
            remedy = (
                f"{len(missing)} column(s) of {name} are not in {what}, {missing[0]!r} is the first: {remedy}"
            )
    raise ValueError(
        f"the columns of {what} are not those of {name}: {difference[0]} in {what}, but {difference[1]} in {name}; "
        f"{remedy}"
    )


def _describe_difference(found: Columns, known: Columns) -> tuple[str, str] | None:
    """Return the first difference between columns as two phrases, None if they are the same."""
    if found.hashing is not None and known.hashing is not None:
        pairs = zip(found.hashing._asdict().items(), known.hashing, strict=True)
        other = [
            (f"{name} = {here!r}", f"{name} = {there!r}") for (name, here), there in pairs if here != there
        ]
        return (", ".join(one for one, _ in other), ", ".join(one for _, one in other)) if other else None
    if found.names is None or known.names is None:
        return f"they are {found.kind}", f"they are {known.kind}"
    if found.names is known.names:
        return None
    n = min(len(found.names), len(known.names))
    places = np.flatnonzero(found.names[:n] != known.names[:n])
    if len(places):
        here, there = found.names[places[0]], known.names[places[0]]
        return f"column {places[0]} is {here!r}", f"{there!r}"
    same = len(found.names) == len(known.names)
    return None if same else (f"there are {len(found.names)}", f"there are {len(known.names)}")
