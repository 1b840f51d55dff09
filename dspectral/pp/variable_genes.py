"""Highly variable genes, by sums of columns in one or two passes."""

from functools import partial
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from dspectral.io.anndata import get_obs_column, write_to_anndata
from dspectral.parameters import check_integer, check_option
from dspectral.pp.cells import (
    ColumnSums,
    Steps,
    map_entries,
    open_data,
    open_rows,
    read_record,
    read_steps,
    sum_columns,
)
from dspectral.store.anndata_files import import_optional, read_element, read_variable_names
from dspectral.store.location import Location
from dspectral.types import Doubles, Int64s, Rows, is_sparse

if TYPE_CHECKING:
    from os import PathLike

    from anndata import AnnData

FLAVORS = ("seurat", "cell_ranger", "seurat_v3", "seurat_v3_paper")
NORMAL_MAD = 0.6744897501960817
"""Median absolute deviation of a standard normal variable."""


def highly_variable_genes(
    adata: "AnnData | str | PathLike[str]",
    *,
    layer: str | None = None,
    n_top_genes: int | None = None,
    min_disp: float = 0.5,
    max_disp: float = np.inf,
    min_mean: float = 0.0125,
    max_mean: float = 3,
    span: float = 0.3,
    n_bins: int = 20,
    flavor: str = "seurat",
    subset: bool = False,
    inplace: bool = True,
    batch_key: str | None = None,
    check_values: bool = True,
) -> Any:
    """Mark the genes that vary most, as ``scanpy.pp.highly_variable_genes``.

    Parameters
    ----------
    adata : AnnData, or path of an .h5ad or .zarr file
        Cells, as for :func:`normalize_total`: logarithms, or counts for ``"seurat_v3"``.
    layer : str, optional
        Layer to read instead of ``X``.
    n_top_genes : int, optional
        Number of genes; by default those within the limits, or 2,000 for ``"seurat_v3"``.
    min_disp, max_disp, min_mean, max_mean : float
        Limits of the normalized dispersion and of the mean, without ``n_top_genes``.
    span : float, default=0.3
        Share of the genes in a local regression of ``"seurat_v3"``.
    n_bins : int, default=20
        Number of bins of means of ``"seurat"``, in which dispersions are normalized.
    flavor : {"seurat", "cell_ranger", "seurat_v3", "seurat_v3_paper"}, default="seurat"
        Method. ``"seurat_v3"`` takes two passes, and needs scikit-misc.
    subset : bool, default=False
        Whether other genes are removed, of an AnnData in memory without recorded steps.
    inplace : bool, default=True
        Whether the results become columns of ``var``.
    batch_key : str, optional
        Column of ``obs``: genes are ranked within each batch, and ranks are merged.
    check_values : bool, default=True
        Whether ``"seurat_v3"`` warns where the sums of the genes show that the entries are not counts.

    Returns
    -------
    None or DataFrame
        With ``inplace=False`` the columns that scanpy writes into ``var``.

    Notes
    -----
    One pass, or two for ``"seurat_v3"``. For cells on disk recorded steps apply first, see :func:`normalize_total`;
    for ``"seurat_v3"`` none does, since it ranks the stored counts.

    Examples
    --------
    >>> from anndata import AnnData
    >>> adata = AnnData(np.log1p(np.random.default_rng(0).poisson(1.0, (50, 900)).astype(float)))
    >>> highly_variable_genes(adata, n_top_genes=50)
    >>> bool(adata.var["highly_variable"].sum() >= 50)  # more where dispersions are equal
    True
    """
    check_option("flavor", flavor, FLAVORS)
    target, rows, returned = open_data(adata, layer, None, copy=False)
    if target is None or returned is not None:
        raise TypeError(f"adata is a {type(adata).__name__}, but must be AnnData or its file: use store.to_anndata()")
    if subset and inplace and (isinstance(target, Location) or target.isbacked or read_record(target, layer)):
        raise ValueError(
            "subset=True must be False for cells on disk and with recorded steps, whose totals are of all genes: pca "
            "reads the genes of var['highly_variable']"
        )
    n_top = None if n_top_genes is None else min(check_integer("n_top_genes", n_top_genes, at_least=1), rows.shape[1])
    batches, n_batches = None, 1
    if batch_key is not None:
        names, batches = np.unique(np.asarray(get_obs_column(target, batch_key)), return_inverse=True)
        n_batches = len(names)
    pd: Any = import_optional("pandas")
    rows = open_rows(rows)
    if flavor.startswith("seurat_v3"):
        n_top = min(2000, rows.shape[1]) if n_top is None else n_top
        sums = sum_columns(rows, n_batches, batches=batches)
        if check_values and any((sums_of != np.round(sums_of)).any() or sums_of.min() < 0 for sums_of in sums[1:]):
            warn(f"`{flavor=!r}` expects raw count data, but non-integers were found.", UserWarning, stacklevel=2)
        result = _rank_variances(pd, rows, batches, sums, flavor, n_top, span)
        dropped = [] if batch_key is not None else ["highly_variable_nbatches"]
    else:
        steps = read_steps(target, layer, before="scale")
        base = None
        if flavor == "seurat" and steps.log_base is None:
            stored = read_element(target, "uns/log1p") if isinstance(target, Location) else target.uns.get("log1p")
            base = (stored or {}).get("base") or 0.0
        elif flavor == "seurat":
            steps = steps._replace(log_base=None)
        transform = partial(_undo_logarithm, steps=steps, base=base)
        sums = sum_columns(rows, n_batches, batches=batches, transform=transform)
        limits = (min_mean, max_mean, min_disp, max_disp)
        result = _select_dispersions(pd, sums, flavor, n_bins, n_top, limits, by_batch=batch_key is not None)
        dropped = []
    result = result.drop(columns=dropped)
    if not inplace:
        names = read_variable_names(target) if isinstance(target, Location) else target.var_names
        result = result.set_index(pd.Index(np.asarray(names)))
        return result[result["highly_variable"]] if subset else result
    result = result.drop(columns="mean_bin", errors="ignore")
    write_to_anndata(target, {f"var/{name}": result[name].to_numpy() for name in result})
    write_to_anndata(target, {"uns/hvg": {"flavor": flavor}})
    if subset:
        target._inplace_subset_var(result["highly_variable"].to_numpy())  # noqa: SLF001  as scanpy does
    return None


def _undo_logarithm(rows: Rows, _batch: Int64s, *, steps: Steps, base: float | None) -> Rows:
    """Return rows after some steps, without their logarithm to a base (0: the natural one) if it is not None."""
    rows = steps.apply(rows)
    factor = np.log(base) if base else 1.0
    return rows if base is None else map_entries(rows, lambda values, _: np.expm1(values * factor))


def _clip(rows: Rows, batch: Int64s, *, limits: Doubles) -> Rows:
    """Return rows whose entries are at most the limit of their batch and column. Shapes: limits (b, d)."""
    if not is_sparse(rows):
        return np.minimum(rows.astype(np.float64), limits[batch])
    of_entries = np.repeat(batch, np.diff(rows.indptr))
    return map_entries(rows.astype(np.float64), lambda values, columns: np.minimum(values, limits[of_entries, columns]))


def _select_dispersions(
    pd: Any,
    sums: ColumnSums,
    flavor: str,
    n_bins: int,
    n_top: int | None,
    limits: tuple[float, ...],
    *,
    by_batch: bool,
) -> Any:
    """Return the columns of var for the flavors that compare dispersions of genes of similar mean."""
    means, variances = sums.mean_and_variance()
    n_batches, n_genes = means.shape
    parts = []
    for mean, variance, squares in zip(means, variances, sums.squares, strict=True):
        genes = np.flatnonzero(squares > 0) if by_batch else np.arange(n_genes)
        part = _normalize_dispersions(pd, mean[genes], variance[genes], flavor, n_bins)
        part["highly_variable"] = _is_selected(part, n_top, limits)
        if not by_batch:
            return part
        part = part.drop(columns="mean_bin").astype({"highly_variable": int})
        parts.append(part.set_index(genes).reindex(range(n_genes), fill_value=0))
    result = pd.concat(parts)
    columns = {"means": "mean", "dispersions": "mean", "dispersions_norm": "mean", "highly_variable": "sum"}
    result = result.groupby(level=0).agg(columns)
    result["highly_variable_nbatches"] = result["highly_variable"]
    result["highly_variable_intersection"] = result["highly_variable_nbatches"] == n_batches
    if n_top is None:
        result["dispersions_norm"] = result["dispersions_norm"].fillna(0)
        result["highly_variable"] = _is_selected(result, None, limits)
        return result
    order = result.sort_values(["highly_variable_nbatches", "dispersions_norm"], ascending=False, kind="stable").index
    return result.assign(highly_variable=result.index.isin(order[:n_top]))


def _normalize_dispersions(pd: Any, mean: Doubles, variance: Doubles, flavor: str, n_bins: int) -> Any:
    """Return means, dispersions, and dispersions normalized within bins of means."""
    mean = np.where(mean == 0, 1e-12, mean)
    dispersion = variance / mean
    if flavor == "seurat":
        dispersion, mean = np.log(np.where(dispersion == 0, np.nan, dispersion)), np.log1p(mean)
        bins: Any = n_bins
    else:
        bins = [-np.inf, *np.percentile(mean, np.arange(10, 105, 5)), np.inf]
    result = pd.DataFrame({"means": mean, "dispersions": dispersion})
    result["mean_bin"] = pd.cut(result["means"], bins)
    groups = result["dispersions"].groupby(result["mean_bin"], observed=True)
    if flavor == "seurat":
        center, spread = groups.transform("mean"), groups.transform("std")
        alone = spread.isna()  # a single gene in its bin has the normalized dispersion 1
        center, spread = center.mask(alone, 0.0), spread.mask(alone, center)
    else:
        center = groups.transform("median")
        deviation = (result["dispersions"] - center).abs()
        spread = deviation.groupby(result["mean_bin"], observed=True).transform("median") / NORMAL_MAD
    result["dispersions_norm"] = (result["dispersions"] - center) / spread
    return result


def _is_selected(genes: Any, n_top: int | None, limits: tuple[float, ...]) -> NDArray[np.bool_]:
    """Return which genes have the n largest normalized dispersions, or lie within the limits."""
    norm = genes["dispersions_norm"].to_numpy()
    if n_top is None:
        min_mean, max_mean, min_disp, max_disp = limits
        mean, norm = genes["means"].to_numpy(), np.nan_to_num(norm)
        return np.asarray((mean > min_mean) & (mean < max_mean) & (norm > min_disp) & (norm < max_disp))
    known = np.sort(norm[~np.isnan(norm)])[::-1]  # none in a batch of one cell
    return np.asarray(norm >= known[min(n_top, len(known)) - 1]) if len(known) else np.zeros(len(norm), dtype=bool)


def _rank_variances(
    pd: Any, rows: Any, batches: Int64s | None, sums: ColumnSums, flavor: str, n_top: int, span: float
) -> Any:
    """Return the columns of var by the variances of counts that a regression on their means standardizes."""
    loess: Any = import_optional("skmisc.loess").loess
    n_batches, (mean, variance) = len(sums.n_rows), sums.mean_and_variance()
    spread = np.ones_like(mean)
    for b in range(n_batches):
        varies = variance[b] > 0
        model = loess(np.log10(mean[b, varies]), np.log10(variance[b, varies]), span=span, degree=2)
        model.fit()
        spread[b, varies] = np.sqrt(10**model.outputs.fitted_values)
    n = sums.n_rows[:, None]
    clipped = sum_columns(rows, n_batches, batches=batches, transform=partial(_clip, limits=spread * np.sqrt(n) + mean))
    normalized = (n * mean**2 + clipped.squares - 2 * clipped.total * mean) / ((n - 1) * spread**2)
    ranks = np.argsort(np.argsort(-normalized, axis=1), axis=1).astype(np.float32)
    ranks[ranks >= n_top] = np.nan
    whole = ColumnSums(*(field.sum(axis=0, keepdims=True) for field in sums))
    means, variances = (array[0] for array in whole.mean_and_variance())
    result = pd.DataFrame(
        {
            "highly_variable": False,
            "highly_variable_rank": pd.DataFrame(ranks).median().to_numpy(),
            "means": means,
            "variances": variances,
            "variances_norm": normalized.mean(axis=0),
            "highly_variable_nbatches": np.isfinite(ranks).sum(axis=0),
        }
    )
    keys, ascending = ["highly_variable_rank", "highly_variable_nbatches"], [True, False]
    if flavor == "seurat_v3_paper":
        keys, ascending = keys[::-1], ascending[::-1]
    order = result.sort_values(keys, ascending=ascending, na_position="last").index
    result.loc[order[:n_top], "highly_variable"] = True
    return result
