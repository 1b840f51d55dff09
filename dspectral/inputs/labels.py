"""Validate labels: classes as an indicator matrix, and aligned streams of documents and labels."""

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize
from sklearn.utils.validation import column_or_1d

from dspectral.engine import as_dask_rows, is_lazy, map_rows
from dspectral.engine.around.memory import PassMemory, check_memory
from dspectral.engine.summary import MemoryEstimate
from dspectral.inputs.rows import get_row_dtype, validate_rows
from dspectral.inputs.texts import read_column
from dspectral.linalg.block_sums import check_indicator
from dspectral.types import (
    AnyArray,
    CheckedRows,
    CSRRows,
    HoldsRows,
    Rows,
    RowsLike,
    check_container,
    is_missing,
    is_sparse,
)

Classes: TypeAlias = "RowsLike | Sequence[Hashable]"
"""One label per document, or an indicator matrix with one column per class."""
MANY_NUMBERS = 1 << 25
"""Model size above which a fit warns that it takes a minute or more."""


class ClassRows(NamedTuple):
    """Indicator matrix (n, n_classes), sorted classes, and whether the input was one label per document."""

    indicator: Any
    classes: AnyArray
    exclusive: bool


def as_label_matrix(y: object) -> Any:
    """Return an indicator matrix (n, L) as an array; lazy and sparse ones are unchanged, masked arrays an error."""
    if is_lazy(y):
        return y
    check_container(y, "y")
    if np.ma.isMaskedArray(y):
        raise ValueError("y is a masked array, but labels must not be missing: fill them first")
    if is_sparse(y):
        return y
    try:
        return np.asarray(y)
    except ValueError as error:
        raise ValueError(
            "y is not an array: its rows differ in length, but each document must have one label, one row or a list of "
            "strings: convert lists of numbers by sklearn.preprocessing.MultiLabelBinarizer"
        ) from error


def as_label_array(y: object) -> Any:
    """Return labels (n,) or (n, 1) as (n,), or an indicator (n, L); reject values that NumPy would convert."""
    # np.asarray would convert a list of strings, numbers and NaN to strings.
    labels = as_label_matrix(np.array(y, dtype=object) if isinstance(y, list | tuple) else y)
    if is_lazy(labels) or is_sparse(labels):
        return labels
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    if labels.ndim != 1:
        return np.asarray(y)
    # A string enumeration member is converted to its value; NumPy would truncate its name.
    values = [str.__str__(label) if isinstance(label, str) else label for label in labels.tolist()]
    present = [label for label in values if label is not None]
    numbers = [label for label in present if isinstance(label, Real)]
    if any(map(is_missing, present)) or "" in present or not all(map(math.isfinite, numbers)):
        raise ValueError("a class is empty, NaN or infinity: use None for a document without a class")
    if labels.dtype.kind != "O":
        return labels
    if len({isinstance(label, str) for label in present}) > 1:
        raise ValueError("classes are numbers and strings, but must be of one type: convert them")
    plain = as_label_matrix(present)
    if len(present) == len(values) and plain.ndim == 1:  # numbers stay numbers
        return plain
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels


def is_nested(document: object) -> bool:
    """Report whether the labels of a document are a list, set or array."""
    is_excluded = isinstance(document, str | bytes | Mapping) or is_sparse(document)
    return isinstance(document, Iterable) and not is_excluded


def encode_label_lists(
    y: Any, classes: AnyArray | None = None, *, allow_column: bool = False
) -> tuple[Any, AnyArray | None]:
    """Return lists of labels as an indicator (n, L), and the labels (L,); any other y unchanged, and None.

    For given `classes`, documents with other labels get a one in an additional last column. With
    `allow_column`, a y whose lists all have one label is returned unchanged, as a column (n, 1) of classes, unless it
    is a Series.
    """
    is_column, documents = not isinstance(y, list | tuple), read_column(y)
    if documents is None or not all(is_nested(document) for document in documents):
        return y, None
    documents = [list(document) for document in documents]
    labels = [label for document in documents for label in document]
    is_class_column = all(len(document) == 1 for document in documents)
    has_strings = any(isinstance(label, str) for label in labels)
    if not has_strings or (allow_column and not is_column and is_class_column):
        return y, None
    for label in labels:
        if not isinstance(label, str) or not label:
            raise ValueError(f"y has the label {label!r:.60}, but labels in lists must be non-empty strings")
    names = np.unique(labels) if classes is None else np.asarray(classes)
    column_by_name = {name: column for column, name in enumerate(names.tolist())}
    columns = [sorted({column_by_name.get(label, len(names)) for label in document}) for document in documents]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.array([column for document in columns for column in document], dtype=np.int32)
    shape = (len(documents), max(len(names), int(indices.max()) + 1))
    return sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=shape), names


def encode_classes(y: Classes, n_rows: int) -> ClassRows:
    """Return classes, (n,) labels or an (n, n_classes) indicator, as an indicator matrix."""
    lazy, label_array = is_lazy(y), as_label_array(y)
    if label_array.shape[:1] != (n_rows,):
        raise ValueError(
            f"y has classes of {label_array.shape[0] if label_array.shape else 0} documents, but X has {n_rows}: "
            "they must be equal"
        )
    if len(label_array.shape) == 1 and not lazy:
        return _encode_labels(label_array)
    if len(label_array.shape) != 2:
        raise ValueError(
            f"y has {len(label_array.shape)} dimensions, but must be one label per document, or an indicator matrix"
        )
    if not label_array.shape[1]:
        raise ValueError("y is an indicator matrix without columns, but must have one for each class")
    if label_array.dtype.kind not in "biuf":
        raise TypeError(f"y is a matrix of {label_array.dtype}, but an indicator matrix must have numbers")
    if lazy:
        n_classes, label_array = label_array.shape[1], as_dask_rows(label_array)
        if n_classes == 1 and not is_sparse(label_array._meta):  # noqa: SLF001
            raise ValueError("y is a lazy column: call compute() on labels, or pass a sparse indicator matrix")
        indicator = map_rows(label_array, _as_indicator, n_columns=n_classes, sparse_output=True, name="classes")
    else:
        indicator = _as_indicator(label_array)
    return ClassRows(indicator, np.arange(label_array.shape[1]), exclusive=False)


def check_label_memory(n_labels: int, n_each: int, n_copies: int) -> None:
    """Raise a MemoryError if ``n_copies`` of ``n_each`` numbers per label do not fit; warn about large models."""
    n_bytes = 8 * n_labels * n_each * n_copies
    if n_labels * n_each > MANY_NUMBERS:
        warnings.warn(
            f"y has {n_labels:,} labels, so the model has {n_labels * n_each:,} numbers: fitting takes minutes and "
            f"{n_bytes / 1e9:.1f} GB of memory; remove labels with few documents to reduce this",
            UserWarning,
            stacklevel=4,
        )
    check_memory(PassMemory(MemoryEstimate(0, n_bytes), 0, 0, 1), None, "labels")


def get_label_names(y: object, n_labels: int) -> AnyArray:
    """Return the column names of an indicator DataFrame, else column numbers."""
    columns = getattr(y, "columns", None)
    return np.arange(n_labels) if columns is None else np.array(list(columns))


def normalize_class_rows(indicator: CheckedRows) -> CheckedRows:
    """Scale the rows of an indicator matrix (n, n_classes) to unit norm; empty rows stay empty."""
    if not is_lazy(indicator):
        return _normalize_block(cast("CSRRows", indicator))
    return map_rows(indicator, _normalize_block, n_columns=indicator.shape[1], sparse_output=True, name="classes")


def _encode_labels(labels: AnyArray) -> ClassRows:
    """Return the indicator matrix of labels (n,), None for documents without a class."""
    # Comparing an array of strings with None is not elementwise.
    has_label = np.array([label is not None for label in labels.tolist()], dtype=bool)
    if not has_label.any():
        raise ValueError("y has no class, but at least one document must have one")
    present = labels[has_label]
    present = np.array(present.tolist()) if present.dtype.kind == "O" else present
    if present.ndim != 1 or present.dtype.kind not in "biufSUMm":
        raise TypeError(f"class {present.tolist()[0]!r:.60} must be a string or a number")
    classes, numbers = np.unique(present, return_inverse=True)
    coordinates = (np.flatnonzero(has_label), numbers)
    indicator = sparse.csr_array((np.ones(len(numbers)), coordinates), shape=(len(labels), len(classes)))
    return ClassRows(indicator, classes, exclusive=True)


def _as_indicator(rows: Rows) -> CSRRows:
    """Return a block of an indicator as float64 CSR; raise a ValueError if an entry is neither 0 nor 1."""
    block: Any = sparse.csr_array(rows) if is_sparse(rows) else rows
    check_indicator(block)
    block_indicator = sparse.csr_array(block != 0).astype(np.float64)
    block_indicator.eliminate_zeros()
    return block_indicator


def _normalize_block(rows: CSRRows) -> CSRRows:
    """Scale the rows of an indicator block to unit norm."""
    normalized: CSRRows = normalize(rows)
    return normalized


class LabeledStreams(NamedTuple):
    """Aligned streams of documents and labels for :func:`dspectral.engine.summarize`."""

    words: Any
    labels: Any
    n_rows: int
    n_words: int
    n_labels: int
    dtype: Any


def pair_with_labels(X: "CheckedRows | HoldsRows", y: "RowsLike | None" = None) -> LabeledStreams:
    """Return aligned streams of documents `X` (n, d) and labels `y` (n, L)."""
    label_matrix: Any = getattr(X, "labels", None) if y is None else y
    if label_matrix is None:
        raise ValueError(
            "labels are required: fit requires y to be passed, but the target y is None, and X is not a store with "
            "labels"
        )
    label_matrix = as_label_matrix(label_matrix)
    if label_matrix.dtype.kind not in "biuf" or len(label_matrix.shape) != 2:
        raise ValueError(
            f"Unknown label type: y has dtype {label_matrix.dtype} and shape {label_matrix.shape}, but must be a "
            'numeric matrix (n_documents, n_labels), or lists of labels: split a column by y.str.split(";")'
        )
    (n_rows, n_words), (n_labeled, n_labels) = X.shape, label_matrix.shape
    if n_rows != n_labeled:
        raise ValueError(f"y has {n_labeled} rows, but must have {n_rows}, the number of documents of X")
    if n_labels < 1:
        raise ValueError("y has no columns, but must have at least one label")
    words: Any = X
    if is_lazy(X) or is_lazy(label_matrix):
        words, label_matrix = as_dask_rows(X), as_dask_rows(label_matrix)
        # Labels are rechunked like the words, whose blocks are larger.
        if label_matrix.chunks[0] != words.chunks[0]:
            label_matrix = label_matrix.rechunk({0: words.chunks[0]})
    return LabeledStreams(words, label_matrix, n_rows, n_words, n_labels, get_row_dtype(X.dtype))


def validate_documents(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Validate documents (n, d); a store is returned unchanged, with its labels."""
    checked = validate_rows(estimator, X, reset=reset)
    return X if hasattr(X, "labels") else checked
