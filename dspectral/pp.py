"""Principal components of AnnData by the names of scanpy: ``dspectral.pp.pca`` stands for ``scanpy.pp.pca``."""

from operator import itemgetter
from os import PathLike
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dspectral import engine
from dspectral.decomposition.estimators import SketchedPCA, TruncatedSVD
from dspectral.inputs.parameters import RandomState, check_flag, check_option
from dspectral.io.anndata import chosen_variables, facts_of, loadings_of, place_elements, var_column
from dspectral.store.anndata import AnnDataCounts
from dspectral.store.anndata_files import dense_matrix, shape_of_anndata
from dspectral.store.counts import open_store
from dspectral.store.location import Location
from dspectral.types import RowsLike, is_sparse

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["pca"]

N_COMPS = 50
"""Components where none are asked for, as scanpy's ``settings.N_PCS``."""
SOLVERS = None, "auto", "full", "arpack", "randomized", "covariance_eigh", "tsqr", "lobpcg"
"""Solvers of scanpy."""
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
    mask_var: ArrayLike | str | EllipsisType | None = ...,
    zero_center: bool = True,
    svd_solver: str | None = None,
    chunked: bool = False,  # noqa: ARG001
    chunk_size: int | None = None,  # noqa: ARG001
    tol: float = 0.0,
    random_state: RandomState = 0,
    use_highly_variable: bool | None = None,
    dtype: DTypeLike = "float32",
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
        Layer to decompose in place of ``X``; of a path or store also ``"raw"``.
    mask_var : array of bool, str or None, optional
        Variables to decompose, or their column of ``var``; by default ``"highly_variable"`` where ``var`` has it. None
        takes all.
    zero_center : bool, default=True
        Whether means are subtracted, by rank-one corrections: sparse rows stay sparse.
    svd_solver, chunked, chunk_size : str, bool and int, optional
        Taken as scanpy takes them. They change nothing: each of its solvers stands for the same components, and the
        size of the data alone decides on passes and blocks.
    tol : float, default=0.0
        Share of the best energy of ``n_comps`` components that may be lost, certified: passes over more than 4,096
        variables end as soon as it is reached. 0 takes eleven.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the passes over more than 4,096 variables.
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
    None, AnnData, ndarray or Dask array
        None where results went into ``data``; the AnnData with ``copy=True`` or of a store (its rows lazily in
        ``X``); of a matrix its coordinates, shape (n_obs, n_comps).

    Raises
    ------
    ValueError
        If parameters do not fit the data, or it holds NaN or infinity.
    StoreError
        If there is no AnnData file at a path, or it is open elsewhere.

    Notes
    -----
    Results are ``obsm["X_pca"]``, ``varm["PCs"]`` (zero outside the mask) and ``uns["pca"]``: ``params``,
    ``variance``, ``variance_ratio``, and ours, among them ``certificate``, ``n_passes`` and ``plan``. They go into the
    file of a path, of which nothing else is changed, and of an AnnData that is backed by a file open for writing
    (``backed="r+"``).

    Up to 4,096 variables one pass sums the exact Gram matrix, ``8 n_vars^2`` bytes a task; above, rows that fit
    ``dspectral.in-memory-bytes`` are decomposed in memory, and others by block Krylov passes. Another pass makes the
    coordinates. See :class:`~dspectral.SketchedPCA` and, without centering, :class:`~dspectral.TruncatedSVD`.

    Examples
    --------
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> adata = AnnData(np.random.default_rng(0).poisson(1.0, (200, 40)).astype(np.float32))
    >>> pca(adata, n_comps=5)
    >>> adata.obsm["X_pca"].shape, adata.varm["PCs"].shape, adata.uns["pca"]["n_passes"]
    ((200, 5), (40, 5), 1)
    """
    place, rows, found = _opened(data, layer, copy=check_flag("copy", copy))
    n_obs, n_vars = shape_of_anndata(place) if isinstance(place, Location) else rows.shape
    check_option("svd_solver", svd_solver, SOLVERS)
    if use_highly_variable is not None:
        if mask_var is not ...:
            raise ValueError("mask_var and use_highly_variable are both given: leave the second out")
        mask_var = "highly_variable" if use_highly_variable else None
    if mask_var is ...:
        name = "highly_variable"
        mask_var = name if place is not None and var_column(place, name) is not None else None
    if isinstance(mask_var, str) and place is None:
        raise ValueError(f"mask_var is {mask_var!r}, but a matrix has no var: give an array of bool")
    mask = chosen_variables(place, mask_var)
    if mask is not None:
        rows = _columns(rows, mask)
    least = min(rows.shape)
    k = min(N_COMPS, least - 1) if n_comps is None else n_comps
    kind = SketchedPCA if check_flag("zero_center", zero_center) else TruncatedSVD
    model = kind(
        k,
        solver="gram" if rows.shape[1] <= min(n_obs, GRAM_COLUMNS) else "auto",
        n_passes=None if tol else N_PASSES,
        sketch_size=None if tol else min(WIDTH * k, rows.shape[1]),
        tol=tol,
        random_state=random_state,
    ).fit(rows)
    coordinates = model.transform(rows).astype(dtype, copy=False)
    if place is None:
        return coordinates
    in_obsm, in_varm, in_uns = (key_added or name for name in ("X_pca", "PCs", "pca"))
    facts = facts_of(model, centered=zero_center, mask_var=mask_var)
    n_blocks = engine.lazy_rows(rows).numblocks[0]
    facts["plan"] = {"solver": model.solver_, "n_passes": model.n_passes_, "n_blocks": n_blocks}
    if layer is not None:
        facts["params"]["layer"] = layer
    place_elements(
        place,
        {
            f"obsm/{in_obsm}": coordinates,
            f"varm/{in_varm}": loadings_of(model.components_, n_vars, mask),
            f"uns/{in_uns}": facts,
        },
    )
    return found


def _opened(data: Any, layer: str | None, *, copy: bool) -> tuple[Any, Any, Any]:
    """Return where results go (None: nowhere), the rows, and what is returned in the end."""
    if isinstance(data, str | PathLike):
        if copy:
            raise ValueError(f"copy is True, but {data} is a file, into which results are written")
        where = Location.of(data, None)
        dense = dense_matrix(where, layer)
        rows: Any = open_store(data, layer=layer) if dense is None else dense
        if dense is not None or isinstance(rows, AnnDataCounts):
            return where, rows, None
        data, layer = rows, None  # which a store of ours does not have
    place, rows, found = None, data, None
    if hasattr(data, "to_anndata"):
        place = found = data.to_anndata()
    elif all(hasattr(type(data), part) for part in ("obsm", "varm", "layers")):
        if data.isbacked and (copy or data.is_view):
            raise ValueError(
                "the AnnData is backed by a file, and copies and views of it take no results: read it into memory by "
                "to_memory(), or take the whole of it"
            )
        place = data.copy() if copy else data
        rows = engine.dense_rows(place.X if layer is None else place.layers[layer])
        found, layer = (place if copy else None), None
    if layer is not None or (copy and place is None):
        raise ValueError("layer and copy are for an AnnData, but a matrix or store was given")
    return place, rows, found


def _columns(rows: Any, mask: NDArray[np.bool_]) -> Any:
    """Return the columns of a mask, lazily where rows are."""
    if len(mask) != rows.shape[1] or not mask.any():
        raise ValueError(
            f"mask_var takes {np.count_nonzero(mask)} of {len(mask)} variables, but must take one or more of "
            f"{rows.shape[1]}"
        )
    lazy = engine.is_lazy(rows)
    kind = engine.lazy_rows(rows)._meta if lazy else rows  # noqa: SLF001  the kind of its blocks
    return engine.map_rows(
        rows,
        itemgetter((slice(None), np.flatnonzero(mask))),
        n_columns=int(np.count_nonzero(mask)),
        dtype=kind.dtype,
        sparse_output=is_sparse(kind),
        name="select",
    )
