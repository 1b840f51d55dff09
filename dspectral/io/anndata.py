"""Stores to AnnData files, and fitted directions back into AnnData, in memory or on disk."""

from collections.abc import Mapping
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dspectral.engine import collect_rows, is_lazy, lazy_rows
from dspectral.store.anndata_files import (
    read_element,
    shape_of_anndata,
    variable_names,
    write_elements,
    write_into,
    write_whole,
)
from dspectral.store.columns import VARIABLES, check_columns, named_columns
from dspectral.store.location import Location
from dspectral.store.rows import OpenedCounts
from dspectral.text.weighting import HasWeighting, Weighting
from dspectral.types import RowsLike

if TYPE_CHECKING:
    from anndata import AnnData

FITTED_ATTRIBUTES = {
    "variance": "explained_variance_",
    "variance_ratio": "explained_variance_ratio_",
    "singular_values": "singular_values_",
    "energy": "energy_",
    "n_passes": "n_passes_",
    "n_samples_seen": "n_samples_seen_",
    "random_state": "random_state_",
    "solver": "solver_",
}
"""Names in ``uns``, and the attributes of an estimator that they hold; the first two are scanpy's."""


class HasComponents(Protocol):
    """A fitted estimator of directions, such as :class:`~dspectral.TruncatedSVD`."""

    components_: NDArray[Any]

    def get_params(self) -> dict[str, Any]:
        """Return the parameters."""
        ...


def write_anndata(
    store: OpenedCounts,
    path: str | PathLike[str],
    *,
    weighting: Weighting | HasWeighting | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write the rows of a store as a file of AnnData, block by block.

    Parameters
    ----------
    store : CountStore or AnnDataCounts
        Store as ``open_store`` returns it.
    path : str or path-like
        File to write: HDF5 if its name ends in .h5ad, .h5 or .hdf5, else a folder of Zarr, local or a fsspec URL.
    weighting : Weighting or TfidfWeighting, optional
        Weighting of the rows; by default they are the counts.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    StoreError
        If there is something at the path, or an HDF5 file is not to be on a local disk.
    ImportError
        If AnnData or h5py is not there: the extra ``anndata`` brings both.

    Notes
    -----
    One pass, with one block in memory at a time; names of rows take 60 bytes of memory each. A local file has its
    name only when all of it is written.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import open_store, write_counts
    >>> write_anndata(write_counts(np.eye(3), "memory://for-anndata"), "memory://identity.zarr")
    >>> open_store("memory://identity.zarr").shape
    (3, 3)
    """
    where = Location.of(path, storage_options)
    write_whole(where, store.to_anndata(weighting=weighting))


def write_embedding(
    adata: "AnnData | str | PathLike[str]",
    estimator: HasComponents,
    coordinates: RowsLike,
    *,
    key: str | None = None,
    mask_var: ArrayLike | str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write coordinates and directions into an AnnData, in memory or on disk, under the names that scanpy looks for.

    Parameters
    ----------
    adata : AnnData, str or path-like
        Object in memory, or an .h5ad or .zarr file, of which nothing else is read or written.
    estimator : SketchedPCA, TruncatedSVD, or another with ``components_``
        Fitted estimator.
    coordinates : ndarray or Dask array, shape (n_obs, n_components)
        Result of ``estimator.transform``. A Dask array is written to a file some blocks at a time.
    key : str, optional
        Name in ``obsm``, ``"X_"`` and a name; by default ``"X_pca"`` of centered estimators and ``"X_svd"`` of others.
    mask_var : array of bool, str or None, default=None
        Variables that the estimator was fitted on, or their column of ``var``; directions are zero on the others.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    ValueError
        If the estimator has no components or was fitted on other variables, coordinates or components do not fit the
        AnnData, or the key is no name.
    StoreError
        If there is no AnnData file at the path, or it is open elsewhere.

    Notes
    -----
    For the key ``"X_NAME"`` the coordinates are ``obsm["X_NAME"]``, the components ``varm["NAME"]`` (``"PCs"`` of
    ``"X_pca"``), and ``uns["NAME"]`` holds parameters, variances, singular values, the certificate and the number of
    passes. What was there under these names is replaced. ``uns`` is written last.

    Examples
    --------
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> from dspectral import SketchedPCA
    >>> adata = AnnData(np.random.default_rng(0).random((20, 4)))
    >>> pca = SketchedPCA(2).fit(adata.X)
    >>> write_embedding(adata, pca, pca.transform(adata.X))
    >>> adata.obsm["X_pca"].shape, adata.varm["PCs"].shape, adata.uns["pca"]["n_passes"]
    ((20, 2), (4, 2), 1)
    """
    components = getattr(estimator, "components_", None)
    if components is None:
        raise ValueError(
            f"{type(estimator).__name__} has no components_: fit a SketchedPCA or TruncatedSVD, and pass that"
        )
    centered = bool(getattr(estimator, "center", False))
    key = key or ("X_pca" if centered else "X_svd")
    if not key.startswith("X_") or key == "X_" or "/" in key:
        raise ValueError(f"key is {key!r}, but names of coordinates are 'X_' and a name, such as 'X_svd'")
    name = key.removeprefix("X_")
    target: Any = adata
    if isinstance(adata, str | PathLike):
        target = Location.of(adata, storage_options)
    n_obs, n_vars = shape_of_anndata(target) if isinstance(target, Location) else target.shape
    rows: Any = lazy_rows(coordinates) if is_lazy(coordinates) else np.asarray(coordinates)
    if rows.shape != (n_obs, len(components)):
        raise ValueError(
            f"coordinates have shape {rows.shape}, but the AnnData has {n_obs} observations and the estimator "
            f"{len(components)} components"
        )
    mask = chosen_variables(target, mask_var)
    names = variable_names(target) if isinstance(target, Location) else target.var_names
    if names is not None and (mask is None or len(mask) == len(names)):
        names = np.asarray(names, dtype=object)
        check_columns(
            estimator, named_columns(VARIABLES, names if mask is None else names[mask]), "the AnnData"
        )
    # All is checked by now, and nothing written: an error leaves the AnnData as it was.
    elements = {
        f"obsm/{key}": rows,
        f"varm/{'PCs' if name == 'pca' else name}": loadings_of(components, n_vars, mask),
        f"uns/{name}": facts_of(estimator, centered=centered, mask_var=mask_var),
    }
    place_elements(target, elements)


def place_elements(target: "AnnData | Location", elements: Mapping[str, Any]) -> None:
    """Put elements into a file or into an object, and into the file behind that if it is open for writing."""
    if isinstance(target, Location):
        write_elements(target, elements)
        return
    elements = {path: collect_rows(value) if is_lazy(value) else value for path, value in elements.items()}
    for path, value in elements.items():
        group, *inner, name = path.split("/")
        values = getattr(target, group)
        for key in inner:
            values = values.setdefault(key, {})
        values[name] = value
    if target.isbacked and target.file["/"].file.mode == "r+":
        write_into(target.file["/"], elements)


def var_column(target: "AnnData | Location", name: str) -> Any:
    """Return a column of ``var``, or None if it has none of this name."""
    return read_element(target, f"var/{name}") if isinstance(target, Location) else target.var.get(name)


def chosen_variables(
    target: "AnnData | Location | None", mask_var: ArrayLike | str | None
) -> NDArray[np.bool_] | None:
    """Return which variables an estimator was fitted on."""
    if mask_var is None:
        return None
    if target is None and isinstance(mask_var, str):
        raise ValueError(f"mask_var is {mask_var!r}, but a matrix has no var: give an array of bool")
    column = var_column(target, mask_var) if isinstance(mask_var, str) else mask_var
    if column is None:
        raise ValueError(
            f"mask_var is {mask_var!r}, but var has no column of this name. Did not find `adata.var[{mask_var!r}]`. "
            "Add the column, or pass an array of bool"
        )
    n_missing = int(np.sum(column.isna())) if hasattr(column, "isna") else 0
    if n_missing:
        raise ValueError(
            f"{f'mask_var {mask_var!r}' if isinstance(mask_var, str) else 'mask_var'} has {n_missing} missing values "
            "(NA), but they must be True or False: fill them first, as by fillna(False)"
        )
    values = np.asarray(column)
    if values.ndim != 1 or not all(value in (True, False) for value in values.tolist()):
        raise ValueError(
            f"mask_var has the values {values[:3]} ..., but they must be True or False: Mask array must be boolean."
        )
    return values.astype(bool)


def loadings_of(components: NDArray[Any], n_vars: int, mask: NDArray[np.bool_] | None) -> NDArray[Any]:
    """Return the components as columns with a row for each variable."""
    mask_array = np.ones(n_vars, dtype=bool) if mask is None else mask
    if len(mask_array) != n_vars or np.count_nonzero(mask_array) != components.shape[1]:
        raise ValueError(
            f"components have {components.shape[1]} columns, but the AnnData has {n_vars} variables, of which "
            f"mask_var selects {np.count_nonzero(mask_array)} of {len(mask_array)}: pass the mask used in fit"
        )
    # As scanpy's: variables that were left out have loadings of 0.
    loadings = np.zeros((n_vars, len(components)), dtype=components.dtype)
    loadings[mask_array] = components.T
    return loadings


def facts_of(estimator: HasComponents, *, centered: bool, mask_var: ArrayLike | str | None) -> dict[str, Any]:
    """Return what ``uns`` says of a fitted estimator, in values that every AnnData writes."""
    # scanpy asks for these by name.
    mask_name = mask_var if isinstance(mask_var, str) else None
    params: dict[str, Any] = {"zero_center": centered, "use_highly_variable": mask_name == "highly_variable"}
    if mask_name is not None:
        params["mask_var"] = mask_name
    parameters = {
        name: value
        for name, value in estimator.get_params().items()
        if isinstance(value, str | bool | np.bool_ | Real)
    }
    attributes = {
        name: getattr(estimator, attribute)
        for name, attribute in FITTED_ATTRIBUTES.items()
        if hasattr(estimator, attribute)
    }
    certificate = getattr(estimator, "certificate_", None)
    if certificate is not None:
        attributes["certificate"] = {name: float(value) for name, value in certificate._asdict().items()}
    return {"params": {**parameters, **params, "estimator": type(estimator).__name__}, **attributes}
