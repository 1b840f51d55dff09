"""Labels at the door: classes of documents as an indicator matrix, and streams of documents and labels cut alike."""

import math
import warnings
from collections.abc import Hashable, Sequence
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d

from dspectral.engine import Blocks, is_lazy, lazy_rows, map_rows
from dspectral.engine.around.memory import PassMemory, check_memory
from dspectral.engine.blocks import slices_of
from dspectral.engine.summary import Need
from dspectral.inputs.rows import checked_rows, row_dtype
from dspectral.inputs.sequences import in_memory_blocks
from dspectral.linalg.block_sums import refuse_not_indicator
from dspectral.linalg.sparse_products import canonical_rows
from dspectral.types import (
    CheckedRows,
    CSRRows,
    HoldsRows,
    Rows,
    RowsLike,
    is_missing,
    is_sparse,
    refuse_other_containers,
)

Classes: TypeAlias = "RowsLike | Sequence[Hashable]"
"""A label for each document, or an indicator matrix with a column for each class."""
MANY_NUMBERS = 1 << 25
"""Numbers of a model of labels above which a fit warns before it begins, as it takes a minute or more."""


class ClassRows(NamedTuple):
    """Membership of documents in classes (n, n_classes), the sorted labels, and whether each document was given one."""

    indicator: Any
    classes: NDArray[Any]
    exclusive: bool


def label_matrix(y: Any) -> Any:
    """Return an indicator matrix as an array, lazy and sparse ones as they are; masks are refused.

    Shapes: `y` (n, L); returns (n, L).
    """
    if is_lazy(y):
        return y
    refuse_other_containers(y, "y")
    if np.ma.isMaskedArray(y):
        raise ValueError("y is a masked array, but missing labels have no meaning here: fill them first")
    if is_sparse(y):
        return y
    try:
        return np.asarray(y)
    except ValueError as error:
        raise ValueError(
            "y is no array: its rows differ in length, or are not rows, but must be one label or one row a document"
        ) from error


def label_array(y: Any) -> Any:
    """Return labels in memory as an array, a column of them flattened, and refuse what NumPy would make others of.

    Shapes: `y` (n,), (n, 1) or an indicator (n, L); lazy and sparse ones are returned as they are.
    """
    # Of strings, numbers and NaN in one list NumPy would make strings alone.
    labels = label_matrix(np.array(y, dtype=object) if isinstance(y, list | tuple) else y)
    if is_lazy(labels) or is_sparse(labels):
        return labels
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    if labels.ndim != 1:
        return np.asarray(y)
    if labels.dtype.kind in "OU" and any(isinstance(label, str) and not label for label in labels.tolist()):
        raise ValueError("a class is an empty string: a document without a class has the label None")
    if labels.dtype.kind != "O":
        return labels
    # A member of an enumeration that is a string stands for its value; NumPy would cut its name.
    values = [str.__str__(label) if isinstance(label, str) else label for label in labels.tolist()]
    present = [label for label in values if label is not None]
    if any(is_missing(label) or _is_infinite(label) for label in present):
        raise ValueError("a class is NaN or infinity: a document without a class has the label None")
    if len({isinstance(label, str) for label in present}) > 1:
        raise ValueError("classes are numbers and strings at once: give labels of one kind")
    plain = label_matrix(present)
    if len(present) == len(values) and plain.ndim == 1:  # numbers stay numbers
        return plain
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels


def _is_infinite(label: object) -> bool:
    return isinstance(label, Real) and not math.isfinite(label)


def class_rows(y: Classes, n_rows: int) -> ClassRows:
    """Return classes as an indicator matrix. Shapes: `y` (n,)."""
    lazy, given = is_lazy(y), label_array(y)
    if given.shape[:1] != (n_rows,):
        raise ValueError(
            f"there are classes for {given.shape[0] if given.shape else 0} documents, but X has {n_rows}"
        )
    if len(given.shape) == 1 and not lazy:
        return _encode_labels(given)
    if len(given.shape) != 2:
        raise ValueError(
            f"classes have {len(given.shape)} dimensions: give one label a document, or an indicator matrix"
        )
    if not given.shape[1]:
        raise ValueError(
            "classes are an indicator matrix without a column, but there must be one for each class"
        )
    if given.dtype.kind not in "biuf":
        raise TypeError(f"classes are a matrix of {given.dtype}, but an indicator matrix holds numbers")
    if lazy:
        n_classes, given = given.shape[1], lazy_rows(given)
        if n_classes == 1 and not is_sparse(given._meta):  # noqa: SLF001
            raise ValueError(
                "classes are a lazy column: call compute() for labels, and make an indicator sparse"
            )
        indicator = map_rows(given, _indicator, n_columns=n_classes, sparse_output=True, name="classes")
    else:
        indicator = _indicator(given)
    return ClassRows(indicator, np.arange(given.shape[1]), exclusive=False)


def admit_labels(n_labels: int, n_each: int, n_copies: int) -> None:
    """Refuse labels whose model does not fit in memory, and warn of one that takes long, before a block is read.

    `n_each`: numbers of the model for each label; `n_copies`: how often this process holds them at once.
    """
    n_bytes = 8 * n_labels * n_each * n_copies
    if n_labels * n_each > MANY_NUMBERS:
        warnings.warn(
            f"y has {n_labels:,} labels, and their model {n_labels * n_each:,} numbers: the fit takes minutes and "
            f"{n_bytes / 1e9:.1f} GB of memory; remove columns of y with few documents to shorten it",
            UserWarning,
            stacklevel=4,
        )
    check_memory(PassMemory(Need(0, n_bytes), 0, 0, 1), None, "labels")


def label_names(y: object, n_labels: int) -> NDArray[Any]:
    """Return the names of the columns of an indicator matrix: those of a data frame, else numbers."""
    columns = getattr(y, "columns", None)
    return np.arange(n_labels) if columns is None else np.array(list(columns))


def unit_class_rows(indicator: CheckedRows) -> CheckedRows:
    """Scale the rows of an indicator to length 1; rows of zeros stay zero.

    Shapes: `indicator` (n, n_classes); returns (n, n_classes).
    """
    if not is_lazy(indicator):
        return _normalize_block(cast("CSRRows", indicator))
    return map_rows(
        indicator, _normalize_block, n_columns=indicator.shape[1], sparse_output=True, name="classes"
    )


def _encode_labels(labels: NDArray[Any]) -> ClassRows:
    """Assign numbers to the labels in sorted order."""
    # `is not None` one by one: an array of strings compares to None as a whole.
    has_label = np.array([label is not None for label in labels.tolist()], dtype=bool)
    if not has_label.any():
        raise ValueError("no document has a class")
    present = labels[has_label]
    present = np.array(present.tolist()) if present.dtype.kind == "O" else present
    if present.dtype.kind == "f" and not np.all(np.isfinite(present)):
        raise ValueError("a class is NaN or infinity: a document without a class has the label None")
    if present.ndim != 1 or present.dtype.kind not in "biufSUMm":
        raise TypeError(f"a class is {present.tolist()[0]!r:.60}, but classes must be strings or numbers")
    classes, numbers = np.unique(present, return_inverse=True)
    coordinates = (np.flatnonzero(has_label), numbers)
    indicator = sparse.csr_array((np.ones(len(numbers)), coordinates), shape=(len(labels), len(classes)))
    return ClassRows(indicator, classes, exclusive=True)


def _indicator(rows: Rows) -> CSRRows:
    """Return a block of an indicator in double precision, without stored zeros; refuse what is neither 0 nor 1."""
    block: Any = sparse.csr_array(rows) if is_sparse(rows) else rows
    refuse_not_indicator(block)
    block_indicator = sparse.csr_array(block != 0).astype(np.float64)
    block_indicator.eliminate_zeros()
    return block_indicator


def _normalize_block(rows: CSRRows) -> CSRRows:
    """Scale the rows of one block of an indicator."""
    # All entries are 1, so that the length of a row is the root of their number.
    lengths = np.diff(rows.indptr)
    data = np.repeat(1.0 / np.sqrt(np.maximum(lengths, 1)), lengths)
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


class LabelledStreams(NamedTuple):
    """Documents and their labels as :func:`dspectral.engine.summarize` reads them, cut alike."""

    words: Any
    labels: Any
    n_rows: int
    n_words: int
    n_labels: int
    dtype: Any


def labelled_streams(X: "CheckedRows | HoldsRows", y: "RowsLike | None" = None) -> LabelledStreams:
    """Pair documents with labels, block by block. Shapes: `X` (n, d), `y` (n, L)."""
    given: Any = getattr(X, "labels", None) if y is None else y
    if given is None:
        raise ValueError(
            "labels are required: fit requires y to be passed, but the target y is None, and X is no store that "
            "holds labels"
        )
    given = label_matrix(given)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"Unknown label type: y holds {given.dtype}, but must be a matrix of numbers")
    if len(given.shape) != 2:
        raise ValueError(
            f"Unknown label type: y has {len(given.shape)} dimension(s), but must be a matrix of documents and labels"
        )
    (n_rows, n_words), (n_labelled, n_labels) = X.shape, given.shape
    if n_rows != n_labelled:
        raise ValueError(f"X has {n_rows} documents, but y has labels of {n_labelled}")
    if n_labels < 1:
        raise ValueError("y has no column: there must be at least one label")
    words = lazy_rows(X)
    if is_lazy(X) or is_lazy(given):
        labels = lazy_rows(given)
        # Labels follow the cuts of the words: those are the larger blocks.
        labels = labels if labels.chunks[0] == words.chunks[0] else labels.rechunk({0: words.chunks[0]})
        return LabelledStreams(words, labels, n_rows, n_words, n_labels, row_dtype(X.dtype))
    split = partial(_split_rows, sizes=words.chunks[0])
    return LabelledStreams(
        split(cast("Rows", X)), split(given), n_rows, n_words, n_labels, row_dtype(X.dtype)
    )


def checked_documents(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Validate documents; a store is returned as it is, with its labels. Shapes: `X` (n, d)."""
    checked = checked_rows(estimator, X, reset=reset)
    return X if hasattr(X, "labels") else checked


def _split_rows(X: Rows, sizes: tuple[int, ...]) -> Blocks:
    """Cut rows in memory where those of words are cut, whatever their own size."""
    X = canonical_rows(X) if is_sparse(X) else X
    return in_memory_blocks(list(slices_of(X, sizes)))
