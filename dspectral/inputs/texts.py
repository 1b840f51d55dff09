"""Validate texts, and clone estimators with shared parameters."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from warnings import warn

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import is_lazy
from dspectral.text.packing import Texts, iterate_texts, pack_texts
from dspectral.types import Documents, RowsLike, is_missing, is_sparse

if TYPE_CHECKING:
    from typing_extensions import TypeIs


TextColumn: TypeAlias = Texts | Documents
"""Texts in memory, or a packed block of texts."""
TextsOrCounts: TypeAlias = "TextColumn | RowsLike"
"""Texts, or counts of their words."""


def as_documents(X: TextColumn, *, missing: str = "error") -> Documents:
    r"""Pack a column of texts into one block; missing texts are errors, or empty texts with a warning."""
    if isinstance(X, Documents):
        return X
    column: Any = X
    if not hasattr(column, "__iter__") and hasattr(column, "__getitem__") and hasattr(column, "__len__"):
        column = [column[i] for i in range(len(column))]
    positions: list[str] = []

    def replace(position: str) -> bytes:
        positions.append(position)
        return b""

    replace_missing = replace if missing == "empty" else None
    blocks = list(pack_texts(column, block_bytes=sys.maxsize, replace_missing=replace_missing))
    if positions:
        warn(f"{len(positions)} missing text(s) are read as empty: {positions[0]}", stacklevel=4)
    return blocks[0] if blocks else Documents.from_strings([])


def get_row_labels(X: Any) -> Any:
    """Return the labels of the rows of a pandas column, None if there are none but 0, 1, 2, ...

    >>> get_row_labels(["a"])
    """
    labels = getattr(X, "index", None)
    is_default = labels is None or callable(labels) or type(labels).__name__ == "RangeIndex"
    return None if is_default else labels


def is_text_collection(X: object) -> "TypeIs[TextColumn]":
    """Return whether X is a collection of texts: neither a numeric matrix nor lazy rows.

    >>> is_text_collection(["play jazz"]), is_text_collection(np.eye(2))
    (True, False)
    """
    if is_lazy(X) or is_sparse(X):
        return False
    return not (isinstance(X, np.ndarray) and X.dtype.kind in "biufc")


def read_column(X: Any) -> list[Any] | None:
    """Return the values of a list, or of a column of pandas, polars, Arrow or a data set; None for anything else."""
    if isinstance(X, list | tuple):
        return list(X)
    is_numeric = getattr(getattr(X, "dtype", None), "kind", "O") in "biufc"
    is_column = isinstance(X, Iterable) and not isinstance(X, str | bytes | Mapping | Iterator)
    if not is_column or is_numeric or is_lazy(X) or is_sparse(X) or len(getattr(X, "shape", (0,))) != 1:
        return None
    return list(iterate_texts(X))


def is_text_column(X: Any) -> "TypeIs[TextColumn]":
    """Return whether X is texts: Documents, an iterator, or a list or column whose first item, if any, is a string."""
    if isinstance(X, Documents | Iterator):
        return True
    column = read_column(X)
    return column is not None and isinstance(next((x for x in column if not is_missing(x)), None), str | bytes)


E = TypeVar("E", bound=BaseEstimator)


def clone_with_shared(estimator: E, *names: str) -> E:
    """Return an unfitted clone that shares the named parameters, such as a large table, instead of copying them."""
    stripped = copy(estimator)
    for name in names:
        setattr(stripped, name, None)
    clone: E = BaseEstimator.__sklearn_clone__(stripped)
    for name in names:
        value = getattr(estimator, name)
        setattr(clone, name, copy(value) if hasattr(value, "get_params") else value)
    return clone


def is_fitted(estimator: BaseEstimator) -> bool:
    """Return whether an estimator is fitted or needs no fit."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True
