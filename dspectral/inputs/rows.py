"""Rows at the door of an estimator, and their projection."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dspectral.engine import is_lazy, lazy_rows
from dspectral.linalg import sparse_products
from dspectral.types import FloatArray, Rows, is_sparse


def project(rows: Rows, *, axes: FloatArray, offset: FloatArray | None) -> FloatArray:
    """Return the coordinates of one block of rows along axes, shape (d, k), less an offset."""
    many = sparse_products.times
    projected = many(rows, axes) if is_sparse(rows) else np.asarray(rows, dtype=axes.dtype) @ axes
    return projected if offset is None else projected - offset.astype(projected.dtype)


def checked_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Validate rows at an estimator's door: in-memory ones as scikit-learn does, lazy ones by their shape."""
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
