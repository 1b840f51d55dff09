"""Principal components of AnnData by the names of scanpy: ``dspectral.pp.pca`` stands for ``scanpy.pp.pca``."""

from numbers import Integral
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from dspectral import engine
from dspectral.decomposition.estimators import SketchedPCA, TruncatedSVD
from dspectral.inputs.parameters import check_flag, check_integer, check_option
from dspectral.io.anndata import (
    build_loadings,
    build_uns,
    get_var_column,
    select_variables,
    write_to_anndata,
)
from dspectral.store.anndata import AnnDataCounts, open_anndata, open_backed
from dspectral.store.anndata_files import dense_matrix, prepare_elements, read_anndata_shape
from dspectral.store.counts import open_store
from dspectral.store.location import Location
from dspectral.types import check_container, get_anndata_matrix, is_anndata, is_sparse

if TYPE_CHECKING:
    from types import EllipsisType

    from anndata import AnnData
    from numpy.typing import ArrayLike, DTypeLike

    from dspectral.inputs.parameters import RandomState
    from dspectral.types import RowsLike

__all__ = ["pca"]

HIGHLY_VARIABLE = "highly_variable"
"""Column of ``var`` that is the mask where none is given."""
N_COMPS = 50
"""Components where none are asked for, as scanpy's ``settings.N_PCS``."""
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
"""Those of them that scanpy does not ignore, by the kind of rows and whether means are subtracted."""
GRAM_COLUMNS = 4096
"""Variables up to which the Gram matrix of as many cells or more is exact in one pass (134 MB)."""
N_PASSES, WIDTH = 11, 24
"""Passes over more variables, and columns of their products together for each component.

The 50th value of 20,000 x 30,000 cells with a flat tail is 1e-6 low, with half the columns 5e-4, with 8 passes 4e-5.
"""


def pca(
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
) -> Any:
    """Find the principal components of cells, in memory or not, and keep them where scanpy keeps them.

    Parameters
    ----------
    data : AnnData, path of an .h5ad or .zarr file, store, or matrix of shape (n_obs, n_vars)
        Cells. ``X`` may be sparse by rows, dense, a Dask array of either, or on disk (``backed``, ``read_lazy``).
    n_comps : int, optional
        Number of components; by default 50, or one less than the cells or variables where these are 50 or fewer.
    layer : str, optional
        Layer to decompose in place of ``X``; ``"raw"``, where no layer has this name, is ``raw.X``.
    obsm : str, optional
        Array of ``obsm`` to decompose in place of ``X``, with all of its columns.
    mask_var : array of bool, str or None, optional
        Variables to decompose, or their column of ``var``; by default ``"highly_variable"`` where ``var`` has it. None
        takes all.
    zero_center : bool, default=True
        Whether means are subtracted, by rank-one corrections: sparse rows stay sparse.
    svd_solver, chunked, chunk_size : str, bool and int, optional
        Accepted as scanpy accepts them, with its warnings of a solver that it ignores. They change nothing: each of
        its solvers stands for the same components, and the size of the data alone decides on passes and blocks.
    tol : float, default=0.0
        Share of the best energy of ``n_comps`` components that may be lost, certified: passes over more than 4,096
        variables end as soon as it is reached. 0 takes eleven.
    rng, random_state : int, RandomState, Generator or None, default=None and 0
        Seed of the passes over more than 4,096 variables: one of the two.
    return_info : bool, default=False
        Whether components and variances of a matrix are returned, too.
    use_highly_variable : bool, optional
        Former name of a mask: True is ``mask_var="highly_variable"``, and False is ``mask_var=None``.
    dtype : data-type, default="float32"
        Type of the coordinates.
    key_added : str, optional
        Name in ``obsm``, ``varm`` and ``uns``; by default ``"X_pca"``, ``"PCs"`` and ``"pca"``.
    copy : bool, default=False
        Whether results go into a copy of an AnnData object, which is returned.

    Returns
    -------
    None, AnnData, ndarray, Dask array or tuple
        None where results went into ``data``; the AnnData with ``copy=True`` or of a store (its rows lazily in
        ``X``); of a matrix its coordinates, shape (n_obs, n_comps), and with ``return_info`` a tuple of these,
        components (n_comps, n_vars), ratios of variance and variances.

    Raises
    ------
    ValueError
        If parameters do not fit the data, or it holds NaN or infinity.
    StoreError
        If there is no AnnData file at a path, or it cannot be written to, before anything is computed.

    Warns
    -----
    UserWarning
        If scanpy would ignore ``svd_solver``, or a matrix on disk is stored by columns and read once for each block.

    Notes
    -----
    Results are ``obsm["X_pca"]``, ``varm["PCs"]`` (zero outside the mask) and ``uns["pca"]``: ``params``, ``variance``
    and ``variance_ratio``, and ``components`` of an array of ``obsm``. What scanpy has no name for is in
    ``uns["dspectral"]["pca"]``: ``certificate``, ``n_passes``, ``solver`` and others. They go into the file of a path,
    of which nothing else is changed, and of an AnnData that is backed by a file open for writing (``backed="r+"``).

    Up to 4,096 variables one pass sums the exact Gram matrix, ``8 n_vars^2`` bytes a task; above, rows that fit
    ``dspectral.in-memory-bytes`` are decomposed in memory, and others by block Krylov passes. Another pass makes the
    coordinates. See :class:`~dspectral.SketchedPCA` and, without centering, :class:`~dspectral.TruncatedSVD`.

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
    kind = SketchedPCA if check_flag("zero_center", zero_center) else TruncatedSVD
    mask_var = _check_mask_option(mask_var, use_highly_variable, layer, obsm)
    keys = [_check_key(key_added) or name for name in ("X_pca", "PCs", "pca")]
    seed, dtype = _check_seed(rng, random_state), np.dtype(dtype)
    check_flag("return_info", return_info)
    target, rows, found = _open_data(data, layer, obsm, copy=check_flag("copy", copy))
    if svd_solver is not None and not isinstance(target, Location):
        _warn_ignored_solver(svd_solver, rows, centered=bool(zero_center))
    rows = engine.wrap_disk_array(rows)
    if mask_var is ...:
        mask_var = (
            HIGHLY_VARIABLE
            if target is not None and get_var_column(target, HIGHLY_VARIABLE) is not None
            else None
        )
    mask = select_variables(target, mask_var)
    n_vars = _check_shape(target, rows, layer, obsm)
    if mask is not None:
        rows = _select_columns(rows, mask)
    k = _check_n_comps(n_comps, rows.shape, svd_solver)
    if isinstance(target, Location):
        prepare_elements(target, ("obsm", "varm", "uns"), (rows.shape[0] + n_vars) * k * dtype.itemsize)
    model = kind(
        k,
        solver="gram" if rows.shape[1] <= min(rows.shape[0], GRAM_COLUMNS) else "auto",
        n_passes=None if tol else N_PASSES,
        sketch_size=None if tol else min(WIDTH * k, rows.shape[1]),
        tol=tol,
        random_state=seed,
    ).fit(rows)
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
    ours = build_uns(model, centered=zero_center, mask_var=None)
    ours["n_blocks"] = engine.as_dask_rows(rows).numblocks[0]
    del ours["params"]
    facts = {"params": params, **{name: ours.pop(name) for name in ("variance", "variance_ratio")}}
    elements = {f"obsm/{keys[0]}": coordinates}
    if obsm is None:
        elements[f"varm/{keys[1]}"] = build_loadings(model.components_, n_vars, mask)
    else:
        facts["components"] = model.components_.T
    write_to_anndata(target, {**elements, f"uns/dspectral/{keys[2]}": ours, f"uns/{keys[2]}": facts})
    return found


def _check_mask_option(
    mask_var: Any, use_highly_variable: bool | None, layer: str | None, obsm: str | None
) -> Any:
    """Return the mask by its present name; an array of ``obsm`` has none, and no layer beside it."""
    if use_highly_variable is not None:
        if mask_var is not ...:
            raise ValueError("mask_var and use_highly_variable are both given: leave the second out")
        mask_var = HIGHLY_VARIABLE if use_highly_variable else None
    if obsm is None:
        return mask_var
    if layer is not None:
        raise ValueError(
            f"layer is {layer!r} and obsm is {obsm!r}, but one matrix is decomposed: leave one out"
        )
    if mask_var is not ... and mask_var is not None:
        raise ValueError(
            "Argument `mask_var` is incompatible with `obsm`. It selects columns of X: leave it out"
        )
    return None


def _check_key(key: str | None) -> str | None:
    """Return a name of results, which may lie in a file."""
    if key is not None and (not isinstance(key, str) or not key or "/" in key):
        raise ValueError(f"key_added is {key!r}, but it must be a name without '/', such as 'X_counts'")
    return key


def _check_seed(rng: Any, random_state: Any) -> Any:
    """Return the one seed of two that is given."""
    if rng is None:
        return random_state
    if isinstance(random_state, Integral) and random_state == 0:
        return np.random.default_rng(rng)
    raise TypeError("rng and random_state are both given: leave the second out")


def _check_n_comps(n_comps: Any, shape: tuple[int, int], svd_solver: str | None) -> int:
    """Return how many components are found."""
    least = min(shape)
    k = min(N_COMPS, least - 1) if n_comps is None else check_integer("n_comps", n_comps)
    if not 1 <= k <= least:
        raise ValueError(
            f"n_components={k} must be between 1 and min(n_samples, n_features)={least} with "
            f"svd_solver={svd_solver or 'arpack'!r} and every other: give n_comps in this range"
        )
    return k


def _check_shape(target: Any, rows: Any, layer: str | None, obsm: str | None) -> int:
    """Return the number of variables for which results are kept; refuse rows that are cut or do not fit them."""
    shape, chunks = rows.shape, getattr(rows, "chunks", ((), ()))
    if len(shape) != 2:
        raise ValueError(f"the matrix has shape {shape}, but must have two axes: cells and variables")
    if len(chunks[1]) > 1:
        raise ValueError(
            f"Only dask arrays with chunking along the first axis are supported, but this one of shape {shape} is cut "
            f"into {len(chunks[1])} chunks of columns: call X.rechunk({{1: -1}}) first"
        )
    if target is None:
        return int(shape[1])
    n_obs, n_vars = read_anndata_shape(target) if isinstance(target, Location) else target.shape
    if shape[0] != n_obs or (obsm is None and shape[1] != n_vars):
        raise ValueError(
            f"layer {layer!r} has shape {shape}, but there are {n_obs} observations and {n_vars} variables, beside "
            "which results are kept: make an AnnData of it, such as adata.raw.to_adata()"
        )
    return int(n_vars)


def _warn_ignored_solver(svd_solver: str, X: Any, *, centered: bool) -> None:
    """Warn where scanpy ignores a solver of such rows."""
    is_dask = hasattr(X, "dask")
    sparse = is_sparse(X._meta) if is_dask else is_sparse(X) or engine.is_lazy(X)  # noqa: SLF001  of its blocks
    kind = f"a {'sparse' if sparse else 'dense'} {'dask array' if is_dask else 'matrix'}"
    taken = SCANPY_SOLVERS[kind, centered]
    if svd_solver not in taken:
        is_legacy = svd_solver == "lobpcg" and centered and kind == "a sparse matrix"
        warn(
            f"Ignoring svd_solver={svd_solver!r} when using {kind} with zero_center={centered}: "
            f"{'it is legacy code of scanpy, which has' if is_legacy else 'scanpy has'} "
            f"{', '.join(taken) or 'none'} there, and each stands for the same components. Leave it out",
            FutureWarning if is_legacy else UserWarning,
            stacklevel=3,
        )


def _open_data(data: Any, layer: str | None, obsm: str | None, *, copy: bool) -> tuple[Any, Any, Any]:
    """Return where results go (None: nowhere), the rows, and what is returned in the end."""
    if isinstance(data, str | PathLike):
        if copy:
            raise ValueError(f"copy is True, but {data} is a file, into which results are written")
        where, path = Location.from_url(data, None), None if obsm is None else f"obsm/{obsm}"
        rows = dense_matrix(where, layer, path=path)
        if rows is None:
            rows = open_store(data, layer=layer) if path is None else open_anndata(where, path=path)
        if hasattr(rows, "dask") or isinstance(rows, AnnDataCounts):
            return where, rows, None
        return _open_data(rows, None, None, copy=False)  # a store of ours, which has no layer
    if is_anndata(data):
        if data.isbacked and (copy or data.is_view):
            raise ValueError(
                "the AnnData is backed by a file, and copies and views of it take no results: read it into memory by "
                "to_memory(), or take the whole of it"
            )
        target = data.copy() if copy else data
        return target, open_backed(get_anndata_matrix(target, layer, obsm)), target if copy else None
    if copy or layer is not None or obsm is not None:
        raise ValueError("layer and copy are for an AnnData, but a matrix or store was given; obsm is, too")
    if hasattr(data, "to_anndata"):
        adata = data.to_anndata()
        return adata, data, adata
    if not (engine.is_lazy(data) or is_sparse(data)):
        check_container(data)
        data = np.asanyarray(data)  # of a list or a data frame
    return None, data, None


def _select_columns(rows: Any, mask: NDArray[np.bool_]) -> Any:
    """Return the columns of a mask, lazily where rows are."""
    if len(mask) != rows.shape[1] or not mask.any():
        said = ": The shape of the mask do not match the data." if len(mask) != rows.shape[1] else ""
        raise ValueError(
            f"mask_var takes {np.count_nonzero(mask)} of {len(mask)} variables, but must take one or more of "
            f"{rows.shape[1]}{said}"
        )
    lazy = engine.is_lazy(rows)
    kind = engine.as_dask_rows(rows)._meta if lazy else rows  # noqa: SLF001  the kind of its blocks
    return engine.map_rows(
        rows,
        itemgetter((slice(None), np.flatnonzero(mask))),
        n_columns=int(np.count_nonzero(mask)),
        dtype=kind.dtype,
        sparse_output=is_sparse(kind),
        name="select",
    )
