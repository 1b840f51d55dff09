"""Write stores as AnnData files, and coordinates and components into AnnData objects or files."""

from collections.abc import Mapping
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dspectral.engine import as_dask_rows, collect_rows, is_lazy
from dspectral.store.anndata_files import (
    read_anndata_shape,
    read_element,
    read_variable_names,
    write_anndata_file,
    write_elements,
    write_into,
)
from dspectral.store.columns import VARIABLES, check_columns, columns_from_names
from dspectral.store.location import Location
from dspectral.store.rows import CountMatrix
from dspectral.text.weighting import HasWeighting, Weighting
from dspectral.types import AnyArray, Bools, RowsLike

if TYPE_CHECKING:
    from anndata import AnnData

FITTED_ATTRIBUTES = {
    "variance": "explained_variance_",
    "variance_ratio": "explained_variance_ratio_",
    "singular_values": "singular_values_",
    "singular_value_intervals": "singular_value_intervals_",
    "residuals": "residuals_",
    "energy": "energy_",
    "n_passes": "n_passes_",
    "n_samples_seen": "n_samples_seen_",
    "random_state": "random_state_",
    "solver": "solver_",
}
"""Names in ``uns`` and their estimator attributes; the first two names are those of scanpy."""


def write_anndata(
    store: CountMatrix,
    path: str | PathLike[str],
    *,
    weighting: Weighting | HasWeighting | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write the rows of a store as an AnnData file, block by block.

    Parameters
    ----------
    store : CountStore or AnnDataCounts
        Store to write, see :func:`dspectral.open_store`.
    path : str or path-like
        Path to write: HDF5 if it ends in .h5ad, .h5 or .hdf5, else a Zarr folder, local or an fsspec URL.
    weighting : Weighting or TfidfWeighting, optional
        Weighting of the rows; by default the counts are written.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    StoreError
        If the path exists, or is an HDF5 file that is not on a local disk.
    ImportError
        If AnnData or h5py is not installed; the extra ``anndata`` contains both.

    Notes
    -----
    One pass, with one block in memory at a time; each row name takes 60 bytes. A local file is written atomically.

    Examples
    --------
    >>> import numpy as np
    >>> from dspectral import open_store, write_counts
    >>> write_anndata(write_counts(np.eye(3), "memory://for-anndata"), "memory://identity.zarr")
    >>> open_store("memory://identity.zarr").shape
    (3, 3)
    """
    location = Location.from_url(path, storage_options)
    write_anndata_file(location, store.to_anndata(weighting=weighting))


def write_embedding(
    adata: "AnnData | str | PathLike[str]",
    estimator: Any,
    coordinates: RowsLike,
    *,
    key: str | None = None,
    mask_var: ArrayLike | str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write coordinates and components into an AnnData object or file, under the names that scanpy expects.

    Parameters
    ----------
    adata : AnnData, str or path-like
        Object in memory, or an .h5ad or .zarr file, whose other elements are neither read nor written.
    estimator : SketchedPCA, TruncatedSVD, or another with ``components_``
        Fitted estimator.
    coordinates : ndarray or Dask array, shape (n_obs, n_components)
        Result of ``estimator.transform``. A Dask array is written to a file in several blocks at a time.
    key : str, optional
        Name in ``obsm``, starting with ``"X_"``; by default ``"X_pca"`` for centered estimators, else ``"X_svd"``.
    mask_var : array of bool, str or None, default=None
        Mask of the variables in the fit, or its column of ``var``; components are zero for other variables.
    storage_options : dict, optional
        Options of the file system.

    Raises
    ------
    ValueError
        If the estimator has no components or was fitted on other variables, the shapes do not match the AnnData, or
        the key is invalid.
    StoreError
        If there is no AnnData file at the path, or another process has it open.

    Notes
    -----
    For the key ``"X_NAME"`` the coordinates are ``obsm["X_NAME"]`` and the components ``varm["NAME"]`` (``"PCs"`` for
    ``"X_pca"``). ``uns["NAME"]``, written last, holds parameters, variances, singular values, the certificate and the
    number of passes. Existing elements of these names are replaced.

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
        raise ValueError(f"{type(estimator).__name__} has no components_: pass a fitted SketchedPCA or TruncatedSVD")
    centered = bool(getattr(estimator, "center", False))
    key = key or ("X_pca" if centered else "X_svd")
    if not key.startswith("X_") or key == "X_" or "/" in key:
        raise ValueError(f"key={key!r} must be 'X_' and a name, such as 'X_svd'")
    name = key.removeprefix("X_")
    target = Location.from_url(adata, storage_options) if isinstance(adata, str | PathLike) else adata
    n_obs, n_vars = read_anndata_shape(target) if isinstance(target, Location) else target.shape
    rows: Any = as_dask_rows(coordinates) if is_lazy(coordinates) else np.asarray(coordinates)
    if rows.shape != (n_obs, len(components)):
        raise ValueError(
            f"coordinates have shape {rows.shape}, but the AnnData has {n_obs} observations and the estimator "
            f"{len(components)} components"
        )
    mask = select_variables(target, mask_var)
    names = read_variable_names(target) if isinstance(target, Location) else target.var_names
    if mask is None or len(mask) == len(names):
        names = np.asarray(names, dtype=object)
        check_columns(estimator, columns_from_names(VARIABLES, names if mask is None else names[mask]), "the AnnData")
    # All checks precede the first write: an error leaves the AnnData unchanged.
    params = {
        **{
            option: value
            for option, value in estimator.get_params().items()
            if isinstance(value, str | bool | np.bool_ | Real)
        },
        "zero_center": centered,
        "use_highly_variable": isinstance(mask_var, str) and mask_var == "highly_variable",
        **({"mask_var": mask_var} if isinstance(mask_var, str) else {}),
        "estimator": type(estimator).__name__,
    }
    elements = {
        f"obsm/{key}": rows,
        f"varm/{'PCs' if name == 'pca' else name}": build_loadings(components, n_vars, mask),
        f"uns/{name}": {"params": params, **build_uns(estimator)},
    }
    write_to_anndata(target, elements)


def write_to_anndata(target: "AnnData | Location", elements: Mapping[str, Any]) -> None:
    """Write elements into a file or an object, and into the backing file of the object if it is writable."""
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


def get_obs_column(target: "AnnData | Location", name: str) -> Any:
    """Return a column of ``obs``; raise ValueError if there is none of this name."""
    column = read_element(target, f"obs/{name}") if isinstance(target, Location) else target.obs.get(name)
    if column is None:
        raise ValueError(f"{name!r} must be a column of obs: add it")
    return column


def get_var_column(target: "AnnData | Location", name: str) -> Any:
    """Return a column of ``var``, or None if there is none of this name."""
    return read_element(target, f"var/{name}") if isinstance(target, Location) else target.var.get(name)


def select_variables(target: "AnnData | Location | None", mask_var: ArrayLike | str | None) -> Bools | None:
    """Return the mask of the variables in the fit, or None for all."""
    if mask_var is None:
        return None
    if target is None and isinstance(mask_var, str):
        raise ValueError(f"mask_var={mask_var!r} needs an AnnData, but X is a matrix: pass an array of bool")
    column = get_var_column(target, mask_var) if isinstance(mask_var, str) and target is not None else mask_var
    if column is None:
        raise ValueError(f"Did not find `adata.var[{mask_var!r}]`. Add it, or pass mask_var as an array of bool")
    values = np.asarray(column)
    if values.ndim != 1 or not all(isinstance(value, bool | np.bool_) for value in values.tolist()):
        name = f" {mask_var!r}" if isinstance(mask_var, str) else ""
        raise ValueError(f"mask_var{name} is {values[:3]} ..., but must be True or False, and none missing: fill it")
    return values.astype(bool)


def build_loadings(components: AnyArray, n_vars: int, mask: Bools | None) -> AnyArray:
    """Return the loadings, shape (n_vars, n_components): components as columns, zero outside the mask."""
    mask_array = np.ones(n_vars, dtype=bool) if mask is None else mask
    if len(mask_array) != n_vars or np.count_nonzero(mask_array) != components.shape[1]:
        raise ValueError(
            f"components have {components.shape[1]} columns, but the AnnData has {n_vars} variables, of which "
            f"mask_var selects {np.count_nonzero(mask_array)} of {len(mask_array)}: pass the mask used in fit"
        )
    loadings = np.zeros((n_vars, len(components)), dtype=components.dtype)
    loadings[mask_array] = components.T
    return loadings


def build_uns(estimator: Any) -> dict[str, Any]:
    """Return the results of a fitted estimator for ``uns``, in types that AnnData can write."""
    fitted = vars(estimator)
    results = {name: fitted[attribute] for name, attribute in FITTED_ATTRIBUTES.items() if attribute in fitted}
    if (certificate := fitted.get("certificate_")) is not None:
        results["certificate"] = {name: float(value) for name, value in certificate._asdict().items()}
    return results
