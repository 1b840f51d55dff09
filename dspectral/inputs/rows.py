"""Validate and project rows, and keep lazy results lazy."""

from collections.abc import Callable
from functools import wraps
from inspect import signature, unwrap
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import metadata_routing
from sklearn.utils.validation import check_array, validate_data

from dspectral import engine
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import check_finite_rows, is_dense, iter_dense_panels
from dspectral.run_plan import RunPlan
from dspectral.store.columns import (
    FRAME,
    check_fitted_rows,
    columns_from_names,
    get_columns,
    get_weighting,
    set_fitted_columns,
)
from dspectral.types import Doubles, FloatArray, Rows, RowsLike, check_container, is_sparse, unwrap_xarray

_NUMBERS = "biuf"


def is_dask_frame(X: object) -> bool:
    """Return whether X is a Dask DataFrame (not a column of one)."""
    return hasattr(type(X), "to_dask_array") and getattr(X, "ndim", 0) == 2 and hasattr(X, "dtypes")


def frame_to_rows(X: Any) -> Any:
    """Convert a Dask DataFrame to a Dask array, in one pass that counts the rows; return other input unchanged."""
    if not is_dask_frame(X):
        return X
    invalid_columns = [
        f"{name!r} ({dtype})"
        for name, dtype in X.dtypes.items()
        if not isinstance(dtype, np.dtype) or dtype.kind not in _NUMBERS
    ]
    if invalid_columns:
        raise TypeError(
            f"X is a Dask DataFrame whose column(s) {', '.join(invalid_columns)} are not numeric: select the others, "
            "such as X[['a', 'b']]; use NgramHashing or build_store for a column of texts"
        )
    # Partitions are read to count their rows.
    rows = X.to_dask_array(lengths=True)
    # Empty partitions are removed: a block has at least one row.
    sizes = rows.chunks[0]
    if len(sizes) > 1 and 0 in sizes and sum(sizes):
        rows = rows.rechunk({0: tuple(size for size in sizes if size)})
    return rows


def validate_rows(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Validate rows, shape (n_rows, n_columns), in memory or lazy; lazy ones are not read.

    With ``reset``, as in ``fit``, the number of columns is stored, with the names of data frames and the columns and
    weighting of lazy rows; else they are compared. Float32 is kept, other types become float64.
    """
    columns, weighting = get_columns(X), get_weighting(X)
    are_counts = hasattr(type(X), "counts") or columns is not None
    if is_dask_frame(X) and all(isinstance(name, str) for name in X.columns):  # type: ignore[union-attr]
        columns = columns_from_names(FRAME, X.columns)  # type: ignore[union-attr]
    has_names = hasattr(X, "columns") and not is_dask_frame(X)  # which scikit-learn compares
    if not (reset or has_names):
        check_fitted_rows(estimator, columns, weighting, are_counts=are_counts)
    if engine.is_lazy(X) or is_dask_frame(X):
        rows = _validate_lazy(estimator, frame_to_rows(X), reset=reset)
        if reset:
            set_fitted_columns(estimator, columns, weighting)
        return rows
    X = unwrap_xarray(X)
    check_container(X)
    check_lossless(X)
    kinds = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
    if reset or has_names:
        rows = validate_data(estimator, X, reset=reset, **kinds)
    else:
        rows = check_array(X, estimator=estimator, input_name="X", **kinds)
        _check_width(estimator, rows.shape[1])
    if reset:  # slices of rows in memory lose names, so that only data frames have them in a fit
        set_fitted_columns(estimator, None)
    return sparse_products.to_canonical_csr(rows) if is_sparse(rows) else rows


def check_lossless(X: object) -> None:
    """Raise a ValueError for masked or complex arrays, whose conversion to real numbers loses data."""
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":  # objects may be convertible
        _refuse_kind(dtype)
    if np.ma.isMaskedArray(X):
        raise ValueError("X is a masked array, but entries must not be missing: fill them first")


def _validate_lazy(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    array = engine.as_dask_rows(X, needs_sizes=reset)
    _refuse_kind(array.dtype)
    name, (n_rows, n_columns) = type(estimator).__name__, array.shape
    for number, axis_name in ((n_rows, "sample"), (n_columns, "feature")):
        if number == 0:
            raise ValueError(
                f"Found array with 0 {axis_name}(s) (shape={array.shape}) while a minimum of 1 is required by {name}."
            )
    if reset:
        validate_data(estimator, array, skip_check_array=True)  # forgets the names of an earlier fit on a DataFrame
    else:
        _check_width(estimator, n_columns)
    if array.dtype in (np.float32, np.float64):
        return array
    nbytes = engine.get_block_nbytes(array)
    # A sparse entry of r + 4 bytes grows to 8 + 4 bytes.
    new_nbytes = None if nbytes is None else [n * 12 // (array.dtype.itemsize + 4) for n in nbytes]
    return engine.set_block_nbytes(array.astype(np.float64), new_nbytes)


def _check_width(estimator: BaseEstimator, n_columns: int) -> None:
    if n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_columns} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input."
        )


def _refuse_kind(dtype: np.dtype[Any]) -> None:
    """Raise a ValueError unless entries of this type are real numbers."""
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has {dtype}")
    if dtype.kind not in _NUMBERS:
        raise ValueError(
            f"X has {dtype}, but its entries must be real numbers: convert them, for example by X.astype('float32')"
        )


def get_row_dtype(dtype: DTypeLike) -> type[np.float32 | np.float64]:
    """Return the precision of results for rows: float32 for float32, else float64."""
    return np.float32 if dtype == np.float32 else np.float64


@np.errstate(under="ignore")
def project(rows: Rows, *, axes: FloatArray, mean: Doubles | None = None, dtype: DTypeLike | None = None) -> FloatArray:
    """Return ``(rows - mean) @ axes``, shape (n, k), for rows (n, d), mean (d,) and axes (d, k)."""
    check_finite_rows(rows)
    dtype = np.dtype(dtype or axes.dtype)
    if mean is not None and is_dense(rows):
        # Subtracting before multiplying avoids cancellation; `correction` restores the rounding error of the mean.
        wide = np.result_type(rows.dtype, dtype)
        axes = axes if is_whitened_in_double(axes, dtype) else axes.astype(dtype, copy=False)
        shift = mean.astype(wide)
        panels = [panel.astype(axes.dtype, copy=False) @ axes for panel in iter_dense_panels(rows, shift, dtype=wide)]
        projected = np.concatenate([np.zeros((0, axes.shape[1]), dtype=dtype), *panels]) - (mean - shift) @ axes
        return np.asarray(projected, dtype=dtype)
    projected = sparse_products.times(rows, axes) if is_sparse(rows) else np.asarray(rows, dtype=axes.dtype) @ axes
    offset = 0.0 if mean is None else (mean @ axes).astype(axes.dtype)
    return np.asarray(projected - offset, dtype=dtype)


def is_whitened_in_double(axes: FloatArray, dtype: DTypeLike) -> bool:
    """Return whether axes over standard deviations are so large that products of `dtype` may overflow."""
    return bool(np.abs(axes).max(initial=0.0) > float(np.finfo(np.dtype(dtype)).max) ** 0.5)


class RunPlanMixin:
    """Mixin of the method ``plan``."""

    def plan(
        self,
        X: object,
        y: object = None,
        *,
        workers: int | None = None,
        memory_limit: str | float | None = None,
        **fit_params: Any,
    ) -> RunPlan:
        """Return the run plan of ``fit(X, y)``: passes, tasks, bytes and memory.

        Parameters
        ----------
        X : object
            Data as ``fit`` takes it.
        y : object, optional
            Target as ``fit`` takes it.
        workers : int, optional
            Number of worker processes, as for :func:`dspectral.plan`.
        memory_limit : str or float, optional
            Memory limit of each worker, such as ``"2 GB"``.
        **fit_params : object
            Further arguments of ``fit``.

        Returns
        -------
        RunPlan
            Run plan, see :func:`dspectral.plan`.
        """
        arguments = (X,) if y is None else (X, y)
        return engine.plan(self, *arguments, workers=workers, memory_limit=memory_limit, **fit_params)


class LazyOutputMixin:
    """Mixin that keeps results for lazy input as Dask arrays, whatever ``set_output`` requests.

    Must precede scikit-learn's classes in the bases.

    >>> import dask.array as da
    >>> import numpy as np
    >>> from dspectral import TruncatedSVD
    >>> svd = TruncatedSVD(1).set_output(transform="pandas").fit(np.eye(3))
    >>> type(svd.transform(np.eye(3))).__name__, type(svd.transform(da.eye(3))).__name__
    ('DataFrame', 'Array')
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # `out` is not metadata to be routed.
        if "out" in signature(getattr(cls, "transform", cls)).parameters:
            cls.__metadata_request__transform = {"out": metadata_routing.UNUSED}  # type: ignore[attr-defined]
        super().__init_subclass__(**kwargs)  # scikit-learn wraps the methods here
        for name in ("transform", "fit_transform"):
            method = getattr(cls, name, None)
            if method is not None:
                # Includes inherited methods: TransformerMixin wraps fit_transform.
                setattr(cls, name, _keep_lazy_output(method))


def _keep_lazy_output(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that bypasses scikit-learn's output wrapper if X is lazy."""
    inner = unwrap(method)

    @wraps(method)
    def call_method(self: object, X: object, *args: Any, **kwargs: Any) -> Any:
        # A corpus in a store is lazy. `is False`, since a Delayed has every attribute.
        is_stored_corpus = getattr(getattr(X, "sentences", None), "in_memory", True) is False
        lazy = engine.is_lazy(X) or is_dask_frame(X) or is_stored_corpus or kwargs.get("out") is not None
        return (inner if lazy else method)(self, X, *args, **kwargs)

    return call_method


class RowTransformer(RunPlanMixin, LazyOutputMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of transformers of rows, sparse ones too, to coordinates along ``components_``."""

    components_: Any

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SparseOutput:
    """Mixin that accepts ``set_output``, which pipelines call on every step, but keeps rows sparse."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Disable scikit-learn's wrapping of the results of ``transform``."""
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)  # type: ignore[call-arg]

    def set_output(self, *, transform: str | None = None) -> Self:  # noqa: ARG002  as scikit-learn calls it
        """Accept a container for dense results, without effect: the rows of this transformer stay sparse."""
        return self
