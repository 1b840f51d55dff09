"""Rows at the door of an estimator, and their projection."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dspectral.engine import is_lazy, lazy_rows
from dspectral.linalg import sparse_products
from dspectral.store.weighted_rows import weightings_of
from dspectral.types import FloatArray, Rows, RowsLike, is_sparse


def project(rows: Rows, *, axes: FloatArray, offset: FloatArray | None) -> FloatArray:
    """Return the coordinates of one block of rows along axes.

    Parameters
    ----------
    rows : csr_array or ndarray, shape (n, d)
        One block.
    axes : ndarray of float, shape (d, k)
        One column for each coordinate.
    offset : ndarray of float, shape (k,), or None
        Coordinates that are subtracted, those of the mean for instance.

    Returns
    -------
    ndarray of the type of ``axes``, shape (n, k)
        The coordinates.
    """
    many = sparse_products.times
    projected = many(rows, axes) if is_sparse(rows) else np.asarray(rows, dtype=axes.dtype) @ axes
    return projected if offset is None else projected - offset.astype(projected.dtype)


def checked_rows(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Validate rows at an estimator's door: in-memory ones as scikit-learn does, lazy ones by their shape.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and, of rows weighted as they are read, ``weighting_`` (the digest of the weighting).
    X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_rows, n_columns)
        Rows to fit on or to transform.
    reset : bool
        True in ``fit``: what is known of the rows is written to the estimator. False elsewhere, ``partial_fit``
        included: it is compared.

    Returns
    -------
    ndarray, csr_array or Dask array, shape (n_rows, n_columns)
        The rows of a floating type, or the Dask array behind them.

    Raises
    ------
    ValueError
        If rows in memory hold NaN or infinity, the width differs from that in ``fit``, or rows are weighted
        otherwise than those in ``fit``.
    """
    _check_weighting(estimator, X, reset=reset)
    if is_lazy(X):
        X = lazy_rows(X)
        if reset:
            estimator.n_features_in_ = X.shape[1]
        elif X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but {type(estimator).__name__} was fitted on "
                f"{estimator.n_features_in_}"
            )
        return X
    return validate_data(estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)


def _check_weighting(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> None:
    """Keep the digest of the rows' weighting, or compare it with the one that was kept.

    Nothing is known of arrays in memory, which pass. Counts of a store are known to be no weighted rows.
    """
    found, name = weightings_of(X) if is_lazy(X) else set(), type(estimator).__name__
    if len(found) > 1:
        raise ValueError(f"X holds rows of {len(found)} weightings: weigh all of them by one, {_MENDING}")
    digest = next(iter(found), None)
    if reset:
        vars(estimator).pop("weighting_", None)
        if digest is not None:
            estimator.weighting_ = digest
        return
    known = getattr(estimator, "weighting_", None)
    if known is None or digest == known:
        return
    if digest is not None:
        raise ValueError(
            f"X is weighted by other frequencies than the rows that {name} was fitted on: weigh X by those, {_MENDING}"
        )
    if hasattr(X, "counts"):
        raise ValueError(
            f"{name} was fitted on weighted rows, but X is a store of counts: weigh X, {_MENDING}"
        )


_MENDING = (
    "X.weighted(TfidfWeighting().fit(store)) with the store that was fitted on, or put TfidfWeighting() before the "
    "estimator in a Pipeline"
)
