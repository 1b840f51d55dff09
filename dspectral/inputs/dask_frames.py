"""Dask DataFrames of numbers as rows: a Dask array of their partitions, which are read when it is."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

_NUMBERS = "biuf"


def is_dask_frame(X: object) -> bool:
    """Report whether X is a Dask DataFrame.

    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> frame = dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1)
    >>> is_dask_frame(frame), is_dask_frame(frame["a"])
    (True, False)
    """
    return hasattr(type(X), "to_dask_array") and getattr(X, "ndim", 0) == 2 and hasattr(X, "dtypes")


def rows_of_frame(X: Any) -> Any:
    """Return the rows of a Dask DataFrame as a Dask array, one block a partition; all else as it is.

    One pass over the frame, which counts the rows of each partition: neither Dask nor this library knows them
    beforehand. ``X.to_dask_array(lengths=[...])`` with the counts takes none.
    """
    if not is_dask_frame(X):
        return X
    others = [f"{name!r} ({dtype})" for name, dtype in X.dtypes.items() if _kind(dtype) not in _NUMBERS]
    if others:
        raise TypeError(
            f"X is a Dask DataFrame whose column(s) {', '.join(others)} hold no plain numbers: pass the others, as in "
            "X[['a', 'b']]; a column of texts is for NgramHashing or build_store"
        )
    # This is the pass: a partition must be read to know how many rows it has.
    rows = X.to_dask_array(lengths=True)
    # Partitions without rows are left out: a block has at least one.
    sizes = rows.chunks[0]
    if len(sizes) > 1 and 0 in sizes and sum(sizes):
        rows = rows.rechunk({0: tuple(size for size in sizes if size)})
    return rows


def check_column_names(estimator: BaseEstimator, X: Any, *, reset: bool) -> None:
    """Keep the names of the columns of a Dask DataFrame, or compare them with those of the fit."""
    names = list(X.columns)
    if reset:
        if all(isinstance(name, str) for name in names):
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    known = list(getattr(estimator, "feature_names_in_", names))
    if known != names:
        raise ValueError(
            f"the columns of X are {', '.join(map(str, names))}, but {type(estimator).__name__} was fitted on "
            f"{', '.join(map(str, known))}"
        )


def _kind(dtype: Any) -> str:
    return dtype.kind if isinstance(dtype, np.dtype) else "O"
