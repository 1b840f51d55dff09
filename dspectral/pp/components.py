"""Drop-in replacement for ``scanpy.pp.pca``: principal components of AnnData in memory or on disk."""

from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from dspectral import engine
from dspectral.decomposition.base import EXACT_RESIDUAL_TOL
from dspectral.decomposition.estimators import SketchedPCA, TruncatedSVD
from dspectral.io.anndata import (
    build_loadings,
    build_uns,
    get_var_column,
    select_variables,
    write_to_anndata,
)
from dspectral.parameters import check_integer, check_option
from dspectral.pp.cells import Steps, fit_scaling, open_data, open_rows, read_steps
from dspectral.store.anndata_files import create_groups, read_anndata_shape
from dspectral.store.location import Location, is_local
from dspectral.types import is_sparse

if TYPE_CHECKING:
    from os import PathLike
    from types import EllipsisType

    from anndata import AnnData
    from numpy.typing import ArrayLike, DTypeLike

    from dspectral.parameters import RandomState
    from dspectral.types import RowsLike

__all__ = ["pca"]

HIGHLY_VARIABLE = "highly_variable"
"""Column of ``var`` that is the default mask."""
N_COMPS = 50
"""Default number of components, as scanpy's ``settings.N_PCS``."""
SOLVERS = None, "auto", "full", "arpack", "randomized", "covariance_eigh", "tsqr", "lobpcg"
"""Solvers of scanpy."""
SCANPY_SOLVERS = {
    ("a dense matrix", True): ("auto", "full", "arpack", "randomized", "covariance_eigh"),
    ("a sparse matrix", True): ("arpack", "covariance_eigh"),
    ("a dense dask array", True): ("auto", "full", "tsqr", "randomized", "covariance_eigh"),
    ("a sparse dask array", True): ("covariance_eigh",),
    ("a dense matrix", False): ("arpack", "randomized"),
    ("a sparse matrix", False): ("arpack", "randomized"),
    ("a dense dask array", False): ("tsqr", "randomized"),
    ("a sparse dask array", False): (),
}
"""Solvers that scanpy does not ignore, by the kind of matrix and whether it is centered."""
GRAM_COLUMNS = 4096
"""Largest number of variables for the exact Gram matrix in one pass (134 MB)."""
PASSES = {"memory": (20, 12), "disk": (17, 14), "remote": (11, 24)}
"""Number of passes for more variables, and total number of columns of all products per component, by source.

Narrow products need fewer columns in total for values to 1e-5, but more passes, each of which reads the rows.
"""
MIN_WIDTH = 8
"""Smallest number of columns of a product: equal singular values beyond it would be found late."""


def pca(  # noqa: PLR0913
    data: "AnnData | RowsLike | str | PathLike[str]",
    n_comps: int | None = None,
    *,
    layer: str | None = None,
    obsm: str | None = None,
    mask_var: "ArrayLike | str | EllipsisType | None" = ...,
    zero_center: bool = True,
    svd_solver: str | None = None,
    chunked: bool = False,  # noqa: ARG001
    chunk_size: int | None = None,  # noqa: ARG001
    tol: float = 0.0,
    rng: "RandomState" = None,
    random_state: "RandomState" = 0,
    return_info: bool = False,
    use_highly_variable: bool | None = None,
    dtype: "DTypeLike" = "float32",
    key_added: str | None = None,
    copy: bool = False,
    scale: bool = False,
    max_value: float | None = None,
) -> Any:
    """Compute the principal components of cells, in memory or on disk, and store them where scanpy stores them.

    Steps of :func:`normalize_total`, :func:`log1p` and :func:`scale` that are recorded for cells on disk apply first.

    Parameters
    ----------
    data : AnnData, path of an .h5ad or .zarr file, store, or matrix of shape (n_obs, n_vars)
        Cells. ``X`` may be sparse by rows, dense, a Dask array of either, or on disk (``backed``, ``read_lazy``).
    n_comps : int, optional
        Number of components; by default 50, or one less than the smaller number of cells and variables if that is at
        most 50.
    layer : str, optional
        Layer to decompose instead of ``X``. ``"raw"`` is ``raw.X`` if no layer has this name.
    obsm : str, optional
        Array of ``obsm`` to decompose instead of ``X``, with all of its columns.
    mask_var : array of bool, str or None, optional
        Mask of variables, or its column in ``var``; by default ``"highly_variable"`` if ``var`` has it. None uses all
        variables.
    zero_center : bool, default=True
        Whether means are subtracted. Rank-one corrections keep sparse rows sparse.
    svd_solver, chunked, chunk_size : str, bool and int, optional
        No effect, for compatibility with scanpy, with its warnings of ignored solvers. All of its solvers compute the
        same components; the size of the data determines passes and blocks.
    tol : float, default=0.0
        Maximum share of the energy lost relative to the best ``n_comps`` components. Passes over more than 4,096
        variables stop when a certified bound is below `tol`. 0 takes 20 passes in memory, 17 over a local file or Dask
        array, and 11 over a URL.
    rng, random_state : int, RandomState, Generator or None, default=None and 0
        Seed for more than 4,096 variables. Pass only one of the two.
    return_info : bool, default=False
        Whether components and variances of a matrix are returned, too. Results of an AnnData have them in ``varm`` and
        ``uns``, so True has no effect, as in scanpy.
    use_highly_variable : bool, optional
        Deprecated name of the mask: True is ``mask_var="highly_variable"``, and False is ``mask_var=None``.
    dtype : data-type, default="float32"
        Type of the coordinates.
    key_added : str, optional
        Name in ``obsm``, ``varm`` and ``uns``; by default ``"X_pca"``, ``"PCs"`` and ``"pca"``.
    copy : bool, default=False
        Whether results go into a copy of an AnnData object, which is returned.
    scale, max_value : bool, default=False, and float, optional
        Whether variables are divided by their standard deviations, after which centered values are clipped to
        ``max_value``, as by :func:`scale` before. Sparse rows stay sparse, and take one more pass.

    Returns
    -------
    None, AnnData, ndarray, Dask array or tuple
        None if results were written to ``data``. The AnnData with ``copy=True`` or for a store (with lazy ``X``). For a
        matrix its coordinates, shape (n_obs, n_comps), and with ``return_info`` a tuple of these, components (n_comps,
        n_vars), ratios of variance and variances.

    Raises
    ------
    ValueError
        If parameters do not match the data, or it contains NaN or infinity.
    StoreError
        If there is no AnnData file at a path, or it is not writable. This is checked before the computation.

    Warns
    -----
    UserWarning
        If scanpy would ignore ``svd_solver``, or a matrix on disk is stored by columns and read once per block.

    Notes
    -----
    Results are ``obsm["X_pca"]``, ``varm["PCs"]`` (zero outside the mask) and ``uns["pca"]``: ``params``, ``variance``
    and ``variance_ratio``, and ``components`` for an array of ``obsm``. Results without a name in scanpy are in
    ``uns["dspectral"]["pca"]``: ``certificate``, ``n_passes``, ``solver`` and others. For a path, or an AnnData backed
    by a file open for writing (``backed="r+"``), results are written to the file, and nothing else is changed.

    Up to 4,096 variables one pass computes the exact Gram matrix, ``8 n_vars^2`` bytes per task. With more variables,
    rows that fit ``dspectral.in-memory-bytes`` are decomposed in memory, and others by block Krylov passes. One more
    pass computes the coordinates. See :class:`~dspectral.SketchedPCA` and, without centering,
    :class:`~dspectral.TruncatedSVD`.

    Examples
    --------
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> adata = AnnData(np.random.default_rng(0).poisson(1.0, (200, 40)).astype(np.float32))
    >>> pca(adata, n_comps=5)
    >>> adata.obsm["X_pca"].shape, adata.varm["PCs"].shape, adata.uns["dspectral"]["pca"]["n_passes"]
    ((200, 5), (40, 5), 1)
    """
    check_option("svd_solver", svd_solver, SOLVERS)
    kind = SketchedPCA if zero_center else TruncatedSVD
    mask_var = _resolve_mask_option(mask_var, use_highly_variable, layer, obsm)
    if key_added is not None and (not key_added or "/" in key_added):
        raise ValueError(f"key_added={key_added!r} must be a name without '/', such as 'X_counts'")
    keys = [key_added or name for name in ("X_pca", "PCs", "pca")]
    if rng is not None and random_state != 0:
        raise TypeError("rng and random_state are both given, but exclude each other: pass rng only")
    seed, dtype = random_state if rng is None else np.random.default_rng(rng), np.dtype(dtype)
    target, rows, returned = open_data(data, layer, obsm, copy=bool(copy))
    if svd_solver is not None and not isinstance(target, Location):
        _warn_ignored_solver(svd_solver, rows, centered=bool(zero_center))
    rows = open_rows(rows)
    if mask_var is ...:
        has_default = target is not None and get_var_column(target, HIGHLY_VARIABLE) is not None
        mask_var = HIGHLY_VARIABLE if has_default else None
    mask = select_variables(target, mask_var)
    n_vars = _check_shape(target, rows.shape, layer, obsm)
    steps = read_steps(None if obsm else target, layer)
    if mask is not None:
        steps = steps.select(_select_columns(rows, mask))
    rows = _apply_steps(steps, rows, bool(scale), max_value, bool(zero_center))
    max_comps = min(rows.shape)
    k = min(N_COMPS, max_comps - 1) if n_comps is None else check_integer("n_comps", n_comps)
    if not 1 <= k <= max_comps:
        raise ValueError(f"n_comps={k} must be from 1 to {max_comps}, the smaller number of cells and variables")
    if isinstance(target, Location):
        create_groups(target, ("obsm", "varm", "uns"))
    is_remote = isinstance(target, Location) and not is_local(target.open_file_system()[0])
    source = "remote" if is_remote else "disk" if engine.is_lazy(rows) else "memory"
    model = kind(k, **_select_solver(rows.shape, k, tol, source), random_state=seed)
    model._residual_tol = 0.0 if tol else EXACT_RESIDUAL_TOL  # noqa: SLF001  of the same package
    model.fit(rows)
    coordinates = model.transform(rows).astype(dtype, copy=False)
    if target is None:
        info = model.components_, model.explained_variance_ratio_, model.explained_variance_
        return (coordinates, *info) if return_info else coordinates
    params = {
        "zero_center": bool(zero_center),
        "use_highly_variable": isinstance(mask_var, str) and mask_var == HIGHLY_VARIABLE,
        "mask_var": mask_var if isinstance(mask_var, str) else mask,
        **({} if layer is None else {"layer": layer}),
        **({} if obsm is None else {"obsm": obsm}),
    }
    uns = build_uns(model)
    uns["n_blocks"] = engine.as_dask_rows(rows).numblocks[0]
    facts = {"params": params, **{name: uns.pop(name) for name in ("variance", "variance_ratio")}}
    elements = {f"obsm/{keys[0]}": coordinates}
    if obsm is None:
        elements[f"varm/{keys[1]}"] = build_loadings(model.components_, n_vars, mask)
    else:
        facts["components"] = model.components_.T
    write_to_anndata(target, {**elements, f"uns/dspectral/{keys[2]}": uns, f"uns/{keys[2]}": facts})
    return returned


def _select_solver(shape: tuple[int, int], k: int, tol: float, source: str) -> dict[str, Any]:
    """Return the solver of a matrix, with the number of passes and columns from a source if there is no tolerance."""
    options = {"solver": "gram" if shape[1] <= min(shape[0], GRAM_COLUMNS) else "auto", "tol": tol}
    if tol:
        return options
    n_passes, width = PASSES[source]
    n_columns = min(max(width * k, MIN_WIDTH * (n_passes - 1)), shape[1])
    return {**options, "n_passes": n_passes, "sketch_size": n_columns}


def _resolve_mask_option(mask_var: Any, use_highly_variable: bool | None, layer: str | None, obsm: str | None) -> Any:
    """Return ``mask_var``; raise ValueError for options that exclude each other."""
    has_mask = mask_var is not ...
    if use_highly_variable is not None:
        if has_mask:
            raise ValueError("mask_var and use_highly_variable exclude each other: pass mask_var only")
        mask_var = HIGHLY_VARIABLE if use_highly_variable else None
    if obsm is not None and (layer is not None or (has_mask and mask_var is not None)):
        raise ValueError(f"obsm={obsm!r} excludes mask_var and layer={layer!r}: pass only one")
    return mask_var if obsm is None else None


def _check_shape(target: Any, shape: tuple[int, ...], layer: str | None, obsm: str | None) -> int:
    """Return the number of variables of the results; raise ValueError if the matrix does not match them."""
    if len(shape) != 2:
        raise ValueError(f"the matrix has shape {shape}, but must have two axes, cells and variables: reshape it")
    if target is None:
        return int(shape[1])
    n_obs, n_vars = read_anndata_shape(target) if isinstance(target, Location) else target.shape
    if shape[0] != n_obs or (obsm is None and shape[1] != n_vars):
        raise ValueError(
            f"layer {layer!r} has shape {shape}, but must match the {n_obs} observations and {n_vars} variables of the "
            "AnnData: make an AnnData of it, for example by adata.raw.to_adata()"
        )
    return int(n_vars)


def _warn_ignored_solver(svd_solver: str, X: Any, *, centered: bool) -> None:
    """Warn if scanpy ignores this solver for this kind of matrix."""
    is_dask = hasattr(X, "dask")
    sparse = is_sparse(X._meta) if is_dask else is_sparse(X) or engine.is_lazy(X)  # noqa: SLF001  of its blocks
    kind = f"a {'sparse' if sparse else 'dense'} {'dask array' if is_dask else 'matrix'}"
    if svd_solver not in SCANPY_SOLVERS[kind, centered]:
        warn(
            f"Ignoring svd_solver={svd_solver!r} when using {kind} with zero_center={centered}, as scanpy does: all "
            "solvers compute the same components. Omit svd_solver",
            stacklevel=3,
        )


def _apply_steps(steps: Steps, rows: Any, scale: bool, max_value: float | None, zero_center: bool) -> Any:
    """Return the rows after the steps, and scaled if `scale`, lazily for lazy rows."""
    if scale:
        scaled = steps._replace(scaling=None).map_rows(rows)
        steps = steps._replace(scaling=fit_scaling(scaled, zero_center=zero_center, max_value=max_value))
    if steps.scaling is not None and steps.scaling.zero_center and not zero_center:
        raise ValueError("zero_center=False must be True for cells that scale has centered")
    return steps.map_rows(rows)


def _select_columns(rows: Any, mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the numbers of the columns of a mask; raise ValueError unless it fits the rows."""
    columns = np.flatnonzero(mask)
    if len(mask) != rows.shape[1] or not len(columns):
        raise ValueError(
            f"mask_var selects {len(columns)} of {len(mask)} variables, but must select one or more of {rows.shape[1]}"
        )
    return columns
