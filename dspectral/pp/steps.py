"""Normalization, logarithm and scale of cells: applied in memory, recorded for cells on disk."""

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dspectral import engine
from dspectral.io.anndata import get_obs_column, write_to_anndata
from dspectral.parameters import check_real
from dspectral.pp.cells import (
    Scaling,
    Steps,
    fit_scaling,
    is_recorded,
    map_entries,
    open_data,
    open_rows,
    read_steps,
    record_step,
    set_matrix,
    sum_cells,
    sum_columns,
)
from dspectral.store.anndata_files import import_optional
from dspectral.types import get_anndata_matrix, is_anndata, is_sparse

if TYPE_CHECKING:
    from anndata import AnnData
    from numpy.typing import ArrayLike, NDArray

    from dspectral.types import Int64s, Rows, RowsLike


def normalize_total(
    adata: "AnnData | str | PathLike[str]",
    *,
    target_sum: float | None = None,
    exclude_highly_expressed: bool = False,
    max_fraction: float = 0.05,
    key_added: str | None = None,
    layer: str | None = None,
    inplace: bool = True,
    copy: bool = False,
) -> Any:
    """Divide the counts of each cell by their sum, as ``scanpy.pp.normalize_total``.

    Parameters
    ----------
    adata : AnnData, or path of an .h5ad or .zarr file
        Cells. In memory they are changed in place. For a file, a backed or a lazy AnnData the step is recorded.
    target_sum : float, optional
        Sum of a cell afterwards; by default the median of the sums above 0, which takes a pass.
    exclude_highly_expressed : bool, default=False
        Whether genes with more than ``max_fraction`` of the counts of some cell are left out of the sums.
    max_fraction : float, default=0.05
        Share of the counts of a cell above which a gene is left out.
    key_added : str, optional
        Column of ``obs`` for the sums, divided by ``target_sum``.
    layer : str, optional
        Layer to normalize instead of ``X``.
    inplace : bool, default=True
        Whether the cells change; else normalized rows are returned, which are lazy for cells on disk.
    copy : bool, default=False
        Whether a copy of an AnnData in memory is changed and returned.

    Returns
    -------
    None, AnnData or dict
        The copy, with ``copy=True``. With ``inplace=False`` normalized rows ``"X"`` and ``"norm_factor"``, the sums
        divided by ``target_sum``.

    Notes
    -----
    Recorded steps are in ``uns["dspectral"]["steps"]``; :func:`pca` and :func:`highly_variable_genes` apply them to
    each block that they read. ``X`` stays as it is. Steps apply in the order normalization, logarithm, scale; recording
    one again replaces it and removes later ones, so that a script may be repeated.

    Examples
    --------
    >>> from anndata import AnnData
    >>> adata = AnnData(np.array([[1.0, 3.0], [2.0, 0.0]]))
    >>> normalize_total(adata, target_sum=10)
    >>> adata.X
    array([[ 2.5,  7.5],
           [10. ,  0. ]])
    """
    if copy and not inplace:
        raise ValueError("copy=True and inplace=False exclude each other: pass only one")
    target, rows, returned = _open_cells(adata, layer, copy=copy)
    genes = None
    if exclude_highly_expressed:
        large = sum_columns(rows, transform=_MarkLarge(check_real("max_fraction", max_fraction)))
        genes = large.total[0] == 0
    totals = None
    if target_sum is None or key_added is not None or not inplace:
        lazy = engine.map_rows(rows, _SumCells(genes), n_columns=1, name="cell-totals")
        totals = np.asarray(engine.collect_rows(lazy))[:, 0]
    if target_sum is None and totals is not None:
        target_sum = float(np.median(totals[totals > 0])) if totals.any() else 1.0
    target_sum = check_real("target_sum", target_sum, at_least=0.0)
    if totals is not None and not inplace:
        return {"X": Steps(target_sum, genes).map_rows(rows), "norm_factor": totals / target_sum}
    if is_recorded(target, rows):
        values = {"target_sum": target_sum, **({} if genes is None else {"genes": genes})}
        record_step(target, layer, "normalize_total", values)
    else:
        set_matrix(target, layer, Steps(target_sum, genes).map_rows(rows))
    if key_added is not None and totals is not None:
        write_to_anndata(target, {f"obs/{key_added}": totals / target_sum})
    return returned


def log1p(
    data: "AnnData | RowsLike | str | PathLike[str]",
    *,
    base: float | None = None,
    copy: bool = False,
    chunked: bool | None = None,  # noqa: ARG001
    chunk_size: int | None = None,  # noqa: ARG001
    layer: str | None = None,
    obsm: str | None = None,
) -> Any:
    """Take the logarithm of 1 + X, as ``scanpy.pp.log1p``.

    Parameters
    ----------
    data : AnnData, path of an .h5ad or .zarr file, or matrix of shape (n_obs, n_vars)
        Cells, as for :func:`normalize_total`.
    base : float, optional
        Base of the logarithm; by default e.
    copy : bool, default=False
        Whether a copy of an AnnData in memory is changed and returned.
    chunked, chunk_size : bool and int, optional
        No effect, for compatibility with scanpy: rows are always processed in blocks.
    layer : str, optional
        Layer to transform instead of ``X``.
    obsm : str, optional
        Array of ``obsm`` to transform instead of ``X``, of an AnnData in memory.

    Returns
    -------
    None, AnnData or matrix
        The copy, with ``copy=True``. For a matrix its logarithm.

    Examples
    --------
    >>> log1p(np.array([[0.0, 1.0, 3.0]]), base=2)
    array([[0., 1., 2.]])
    """
    steps = Steps(log_base=0.0 if base is None else check_real("base", base, at_least=1.0))
    if not isinstance(data, str | PathLike) and not is_anndata(data):
        return steps.map_rows(open_data(data, layer, obsm, copy=copy)[1])
    target, rows, returned = _open_cells(data, layer, obsm, copy=copy)
    if is_recorded(target, rows):
        record_step(target, layer, "log1p", {"base": steps.log_base})
    else:
        set_matrix(target, layer, steps.map_rows(_map_earlier(target, layer, obsm, rows, "log1p")), obsm)
        target.uns["log1p"] = {"base": base}
    return returned


def scale(
    data: "AnnData | RowsLike | str | PathLike[str]",
    *,
    zero_center: bool = True,
    max_value: float | None = None,
    copy: bool = False,
    layer: str | None = None,
    obsm: str | None = None,
    mask_obs: "ArrayLike | str | None" = None,
) -> Any:
    """Divide each gene by its standard deviation, after its mean is subtracted, as ``scanpy.pp.scale``.

    Parameters
    ----------
    data : AnnData, path of an .h5ad or .zarr file, or matrix in memory of shape (n_obs, n_vars)
        Cells, as for :func:`normalize_total`. A sparse matrix in memory becomes dense if centered, as in scanpy; for
        cells on disk zeros stay zeros, because :func:`pca` subtracts the mean of all rows.
    zero_center : bool, default=True
        Whether the mean is subtracted.
    max_value : float, optional
        Largest absolute value after scaling; larger ones are set to it.
    copy : bool, default=False
        Whether a copy of an AnnData in memory is changed and returned.
    layer : str, optional
        Layer to scale instead of ``X``.
    obsm : str, optional
        Array of ``obsm`` to scale instead of ``X``, of an AnnData in memory. Means and deviations are not written.
    mask_obs : array of bool or str, optional
        Cells to scale, of an AnnData in memory, or their column in ``obs``; by default all.

    Returns
    -------
    None, AnnData or matrix
        The copy, with ``copy=True``. For a matrix the scaled one. Means and deviations are ``var["mean"]`` and
        ``var["std"]``.

    Notes
    -----
    One pass.

    Examples
    --------
    >>> from anndata import AnnData
    >>> adata = AnnData(np.array([[0.0], [2.0], [4.0]]))
    >>> scale(adata, max_value=0.5)
    >>> adata.X.ravel(), adata.var["std"].item()
    (array([-0.5,  0. ,  0.5]), 2.0)
    """
    if (layer or obsm) is None and (isinstance(data, np.ndarray) or is_sparse(data)):
        adata: Any = import_optional("anndata").AnnData(data.copy())
        scale(adata, zero_center=zero_center, max_value=max_value, mask_obs=mask_obs)
        return adata.X
    target, rows, returned = _open_cells(data, layer, obsm, copy=copy)
    limit = None if max_value is None else check_real("max_value", max_value, at_least=0.0)
    rows, mask = _map_earlier(target, layer, obsm, rows, "scale"), None
    if mask_obs is not None:
        if is_recorded(target, rows):
            raise ValueError("mask_obs must be None for cells on disk: scale them in memory")
        mask = np.flatnonzero(get_obs_column(target, mask_obs) if isinstance(mask_obs, str) else mask_obs)
    selected = rows if mask is None else rows[mask]
    scaling: Scaling = fit_scaling(selected, zero_center=zero_center, max_value=limit)
    if is_recorded(target, rows):
        record_step(target, layer, "scale", scaling._asdict())
    else:
        if not np.issubdtype(rows.dtype, np.floating):
            rows, selected = rows.astype(np.float64), selected.astype(np.float64)
        scaled = scaling.to_dense(selected) if zero_center else Steps(scaling=scaling).map_rows(selected)
        if mask is not None:
            rows = rows.toarray() if is_sparse(rows) and zero_center else rows.copy()
            rows[mask] = scaled
            scaled = rows
        set_matrix(target, layer, scaled, obsm)
    if obsm is not None:
        return returned
    suffix = "" if mask is None else f" of {mask_obs}" if isinstance(mask_obs, str) else " with mask"
    write_to_anndata(target, {f"var/mean{suffix}": scaling.mean, f"var/std{suffix}": scaling.std})
    return returned


class _SumCells:
    """Function of a block: the totals of its rows over some genes."""

    def __init__(self, genes: "NDArray[np.bool_] | None") -> None:
        self.genes = genes

    def __call__(self, rows: "Rows") -> "Rows":
        return sum_cells(rows, self.genes)


class _MarkLarge:
    """Function of a block: 1 where an entry is above a share of its row's total, else 0."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, rows: "Rows", _batch: "Int64s") -> "Rows":
        limits = self.share * sum_cells(rows)[:, 0]
        if not is_sparse(rows):
            return np.asarray(rows > limits[:, None], dtype=np.float64)
        of_entries = np.repeat(limits, np.diff(rows.indptr))
        return map_entries(rows.astype(np.float64), lambda values, _: values > of_entries)


def _map_earlier(target: Any, layer: str | None, obsm: str | None, rows: Any, step: str) -> Any:
    """Return rows after the steps that are recorded before a step; of arrays of ``obsm`` none is."""
    return rows if obsm is not None else read_steps(target, layer, before=step).map_rows(rows)


def _open_cells(data: Any, layer: str | None, obsm: str | None = None, *, copy: bool) -> tuple[Any, Any, Any]:
    """Return target, rows and the value to return, of an AnnData or a file of it."""
    target, rows, returned = open_data(data, layer, obsm, copy=copy)
    if target is None or (returned is not None and not copy):
        raise TypeError(f"data is a {type(data).__name__}, but must be AnnData or its file: use store.to_anndata()")
    if obsm is not None and (layer is not None or is_recorded(target, rows)):
        raise ValueError(f"obsm={obsm!r} must be None with a layer, and for cells on disk: load them into memory")
    if not is_recorded(target, rows) and target.is_view:  # writing into a view would change its parent
        target._init_as_actual(target.copy())  # noqa: SLF001  as scanpy does
        rows = get_anndata_matrix(target, layer, obsm)
    return target, open_rows(rows), returned
