"""Cells in AnnData, files or arrays: where their rows are, the steps recorded for them, and sums of columns."""

import math
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from dspectral import engine
from dspectral.engine.summary import add_fields
from dspectral.io.anndata import write_to_anndata
from dspectral.linalg.block_sums import multiply_each_row
from dspectral.store.anndata import AnnDataCounts, open_anndata, open_backed
from dspectral.store.anndata_files import dense_matrix, read_element
from dspectral.store.counts import open_store
from dspectral.store.location import Location
from dspectral.store.rows import CountMatrix
from dspectral.types import (
    AnyArray,
    Bools,
    Doubles,
    Int64s,
    Rows,
    check_container,
    get_anndata_matrix,
    is_anndata,
    is_sparse,
)

ORDER = ("normalize_total", "log1p", "scale")
"""Steps in the order in which they apply; recording one removes itself and those after it."""


def open_data(data: Any, layer: str | None, obsm: str | None, *, copy: bool) -> tuple[Any, Any, Any]:
    """Return the target of the results (None for a matrix), the rows, and the value to return."""
    if isinstance(data, str | PathLike):
        if copy:
            raise ValueError(f"copy=True must be False for a file, to which results are written: {data}")
        location, path = Location.from_url(data, None), None if obsm is None else f"obsm/{obsm}"
        rows = dense_matrix(location, layer, path=path)
        if rows is None:
            rows = open_store(data, layer=layer) if path is None else open_anndata(location, path=path)
        if isinstance(rows, AnnDataCounts) or not isinstance(rows, CountMatrix):
            return location, rows, None
        data = rows  # a store of dspectral, which has no layers
    if is_anndata(data):
        if data.isbacked and (copy or data.is_view):
            raise ValueError(
                "the AnnData is backed by a file, so results cannot be written to a copy or a view of it: call "
                "to_memory() first, or pass the whole AnnData without copy"
            )
        target = data.copy() if copy else data
        return target, get_anndata_matrix(target, layer, obsm), target if copy else None
    if copy or layer is not None or obsm is not None:
        raise ValueError("layer, obsm and copy require an AnnData, but a matrix or store was given: omit them")
    if isinstance(data, CountMatrix):
        adata = data.to_anndata()
        return adata, data, adata
    if not (engine.is_lazy(data) or is_sparse(data)):
        check_container(data)
        data = np.asanyarray(data)  # a list or a data frame
    return None, data, None


def open_rows(X: Any) -> Any:
    """Return rows on disk, or of a Dask array, as lazy blocks of whole rows; return other rows unchanged."""
    X = open_backed(X)
    return engine.as_dask_rows(X) if engine.is_lazy(X) and not isinstance(X, CountMatrix) else X


class Scaling(NamedTuple):
    """Mean and standard deviation of the columns (d,), and the largest absolute value of scaled entries."""

    mean: Doubles
    std: Doubles
    zero_center: bool
    max_value: float

    def apply(self, rows: Rows) -> Rows:
        """Return scaled rows minus the scaled zero of each column, so that zeros stay zeros. Shapes: rows (n, d).

        Each entry v becomes ``c((v - m) / s) - c(-m / s)`` for the clip c; the difference is the same for all rows.
        """
        return map_entries(rows, self.scale_entries)

    def scale_entries(self, values: AnyArray, columns: Any) -> AnyArray:
        """Return the scaled values of entries, of which `columns` selects the column."""
        if not self.zero_center:
            return np.asarray(np.minimum(values / self.std[columns], self.max_value))
        zero = np.clip(-self.mean / self.std, -self.max_value, self.max_value)
        scaled = (values - self.mean[columns]) / self.std[columns]
        return np.asarray(np.clip(scaled, -self.max_value, self.max_value) - zero[columns])

    def to_dense(self, rows: Any) -> AnyArray:
        """Return scaled rows as scanpy has them, in which zeros are not zeros."""
        dense = np.asarray((rows.toarray() if is_sparse(rows) else rows) - self.mean)
        return np.clip(dense / self.std, -self.max_value, self.max_value).astype(rows.dtype)


class Steps(NamedTuple):
    """Steps from stored counts to rows; None where a step is left out.

    Totals are of all columns; later steps apply to the selected columns only.
    """

    target_sum: float | None = None
    total_genes: Bools | None = None
    columns: Int64s | None = None
    log_base: float | None = None
    scaling: Scaling | None = None

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Steps":
        """Return the steps of a record in ``uns``."""
        total: dict[str, Any] = record.get("normalize_total", {})
        scaling: dict[str, Any] | None = record.get("scale")
        genes = total.get("genes")
        return cls(
            None if not total else float(total["target_sum"]),
            None if genes is None else np.asarray(genes),
            log_base=float(record["log1p"]["base"]) if "log1p" in record else None,
            scaling=None if scaling is None else Scaling(**scaling),
        )

    def select(self, columns: Int64s) -> "Steps":
        """Return the steps to some of the columns."""
        scaling = self.scaling
        if scaling is not None:
            scaling = scaling._replace(mean=scaling.mean[columns], std=scaling.std[columns])
        return self._replace(columns=columns, scaling=scaling)

    def is_selection(self) -> bool:
        """Report whether no step changes values."""
        return all(step is None for step in self._replace(columns=None))

    def apply(self, rows: Rows) -> Rows:
        """Return the rows after all steps, shape (n, n_columns); integers become float32, as in scanpy."""
        if not (self.is_selection() or np.issubdtype(rows.dtype, np.floating)):
            rows = rows.astype(np.float32)
        if self.target_sum is not None:
            totals = sum_cells(rows, self.total_genes)[:, 0]
            factors = np.divide(self.target_sum, totals, out=np.ones(len(totals)), where=totals != 0)
            rows = multiply_each_row(rows, factors)
        if self.columns is not None:
            rows = rows[:, self.columns]
        if self.log_base is not None:
            rows = map_entries(rows, partial(log_entries, base=self.log_base))
        return rows if self.scaling is None else self.scaling.apply(rows)

    def map_rows(self, rows: Any) -> Any:
        """Return the rows after all steps, lazily for lazy rows."""
        if self.is_selection() and self.columns is None:
            return rows
        kind = engine.as_dask_rows(rows)._meta if engine.is_lazy(rows) else rows  # noqa: SLF001  of its blocks
        dtype = kind.dtype if self.is_selection() or np.issubdtype(kind.dtype, np.floating) else np.float32
        n_columns = rows.shape[1] if self.columns is None else len(self.columns)
        sparse_output = is_sparse(kind)
        return engine.map_rows(
            rows, self.apply, n_columns=n_columns, dtype=dtype, sparse_output=sparse_output, name="steps"
        )


def map_entries(rows: Rows, function: Callable[[AnyArray, Any], AnyArray]) -> Rows:
    """Return ``function(values, columns)`` of the stored entries, in the type of the rows."""
    if not is_sparse(rows):
        return np.asarray(function(np.asarray(rows), slice(None)), dtype=rows.dtype)
    data = np.asarray(function(rows.data, rows.indices), dtype=rows.dtype)
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def log_entries(values: AnyArray, _columns: object, *, base: float) -> AnyArray:
    """Return the logarithm of 1 + values to a base; 0 is the natural logarithm."""
    return np.asarray(np.log1p(values) / (np.log(base) if base else 1.0))


def sum_cells(rows: Rows, genes: Bools | None = None) -> Doubles:
    """Return the total of each row over some columns, shape (n, 1)."""
    selected: Any = rows if genes is None else rows[:, np.flatnonzero(genes)]
    return np.asarray(selected.sum(axis=1, dtype=np.float64)).reshape(-1, 1)


class ColumnSums(NamedTuple):
    """Summary: number of rows (b,), and sums and sums of squares of the columns (b, d), of b batches of rows."""

    n_rows: Int64s
    total: Doubles
    squares: Doubles

    @classmethod
    def from_block(
        cls,
        rows: Rows,
        numbers: Int64s,
        *,
        n_batches: int,
        batches: Int64s | None = None,
        transform: Callable[[Rows, Int64s], Rows] | None = None,
    ) -> Self:
        """Summarize a block whose rows have some numbers (n, 1) and ``batches[numbers]``."""
        batch = np.zeros(len(numbers), np.int64) if batches is None else batches[numbers[:, 0]]
        rows = rows if transform is None else transform(rows, batch)
        n_columns, sums = rows.shape[1], list[Any]()
        if is_sparse(rows):
            values, place = rows.data.astype(np.float64), rows.indices.astype(np.int64)
            if n_batches > 1:
                place += n_columns * np.repeat(batch, np.diff(rows.indptr))
            shape = n_batches, n_columns
            sums = [np.bincount(place, part, math.prod(shape)).reshape(shape) for part in (values, values**2)]
        else:
            dense, shape = np.asarray(rows, dtype=np.float64), (n_batches, len(batch))
            members = sparse.csr_array((np.ones(len(batch)), (batch, np.arange(len(batch)))), shape=shape)
            sums = [np.asarray(members @ part) for part in (dense, dense**2)]
        return cls(np.bincount(batch, minlength=n_batches), *sums)

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        return add_fields(self, *others)

    def mean_and_variance(self) -> tuple[Doubles, Doubles]:
        """Return means and unbiased variances of the columns of each batch, shape (b, d); NaN for a single row."""
        n = self.n_rows[:, None]
        mean = self.total / n
        return mean, np.maximum(self.squares - n * mean**2, 0.0) / np.where(n > 1, n - 1, np.nan)


def sum_columns(rows: Any, n_batches: int = 1, **options: Any) -> ColumnSums:
    """Sum the columns of rows in one pass; `options` are those of ``ColumnSums.from_block``."""
    stream = engine.as_dask_rows(rows) if engine.is_lazy(rows) else rows
    summarize_block = partial(ColumnSums.from_block, n_batches=n_batches, **options)
    numbers = engine.get_row_numbers(stream)
    return engine.summarize(stream, numbers, summarize_block=summarize_block, name="column-sums")


def fit_scaling(rows: Any, *, zero_center: bool, max_value: float | None) -> Scaling:
    """Return the scaling of rows in one pass; constant columns are divided by 1."""
    mean, variance = (array[0] for array in sum_columns(rows).mean_and_variance())
    std = np.sqrt(variance)
    std[std == 0] = 1
    return Scaling(mean, std, bool(zero_center), np.inf if max_value is None else float(max_value))


def is_recorded(target: Any, rows: Any) -> bool:
    """Report whether steps are recorded rather than applied: for cells on disk, and for lazy ones."""
    return isinstance(target, Location) or target.isbacked or engine.is_lazy(rows)


def read_record(target: Any, layer: str | None) -> dict[str, Any]:
    """Return the record of the steps of a matrix of AnnData."""
    path = _record_path(layer)
    if isinstance(target, Location):
        return read_element(target, path) or {}
    record: Any = target.uns
    for name in path.split("/")[1:]:
        record = record.get(name, {})
    return dict(record)


def record_step(target: Any, layer: str | None, name: str, values: dict[str, Any]) -> None:
    """Record a step of a matrix of AnnData in place of itself and of later ones."""
    earlier = ORDER[: ORDER.index(name)]
    record = {step: kept for step, kept in read_record(target, layer).items() if step in earlier}
    write_to_anndata(target, {_record_path(layer): {**record, name: values}})


def set_matrix(target: Any, layer: str | None, rows: Any, obsm: str | None = None) -> None:
    """Replace a matrix of an AnnData in memory, in the class of the old one, and remove the record of its steps."""
    old = get_anndata_matrix(target, layer, obsm)
    if is_sparse(old) and is_sparse(rows):
        rows = type(old)(rows)
    if obsm is not None:
        target.obsm[obsm] = rows
        return
    if layer is None:
        target.X = rows
    else:
        target.layers[layer] = rows
    if read_record(target, layer):
        write_to_anndata(target, {_record_path(layer): {}})


def read_steps(target: Any, layer: str | None, before: str | None = None) -> Steps:
    """Return the recorded steps of a matrix of AnnData, at most those before another step."""
    record = {} if target is None else read_record(target, layer)
    earlier = ORDER if before is None else ORDER[: ORDER.index(before)]
    return Steps.from_record({name: values for name, values in record.items() if name in earlier})


def _record_path(layer: str | None) -> str:
    return "uns/dspectral/steps/" + ("X" if layer is None else f"layers/{layer}")
