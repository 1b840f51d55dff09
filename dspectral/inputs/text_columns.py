"""Texts at the door of an estimator that holds them all: a column of any kind becomes one packed block."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dspectral.engine import is_lazy
from dspectral.types import Documents, RowsLike, is_sparse

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Texts: TypeAlias = Iterable[str] | Iterable[bytes] | Documents
"""What estimators take as texts: a list, generator, array or column of strings, or of bytes in UTF-8."""
TextsOrCounts: TypeAlias = "Texts | RowsLike"
"""What estimators take that count words themselves or are given counts."""


def as_documents(X: Texts) -> Documents:
    r"""Pack a column of texts into one block.

    Parameters
    ----------
    X : list, tuple, generator, one-dimensional array, or column of pandas, polars, Arrow or Hugging Face Datasets
        One ``str`` or UTF-8 ``bytes`` a text; or texts that are packed already.

    Returns
    -------
    Documents
        The texts in UTF-8, one after the other.

    Raises
    ------
    TypeError
        If X is a single string, a table, a matrix or lazy.
    ValueError
        If an element of X is not a text: its position is named.

    Examples
    --------
    >>> as_documents(text for text in ("play jazz", b"caf\xc3\xa9")).offsets
    array([ 0,  9, 14])
    >>> as_documents("play jazz")
    Traceback (most recent call last):
    ...
    TypeError: X is one string, 'play jazz', but it must be a list of texts: give [text] for a single one
    """
    if isinstance(X, Documents):
        return X
    if isinstance(X, str | bytes):
        raise TypeError(
            f"X is one string, {X[:40]!r}, but it must be a list of texts: give [text] for a single one"
        )
    if hasattr(X, "to_pylist"):  # Arrow's own scalars are no strings
        return as_documents(X.to_pylist())
    n_axes = len(getattr(X, "shape", (0,)))
    if (
        not isinstance(X, Iterable)
        or isinstance(X, Mapping | AbstractSet)
        or is_lazy(X)
        or is_sparse(X)
        or n_axes != 1
    ):
        raise TypeError(
            f"X is a {type(X).__name__}, but it must be a list or one column of texts"
            + (": choose the column by its name, not by a list of names" if n_axes == 2 else "")
        )
    return Documents.of([_encoded(text, i) for i, text in enumerate(X)])


def is_texts(X: object) -> "TypeIs[Texts]":
    """Report whether X is meant as texts: anything that is neither a matrix of numbers nor a store.

    Parameters
    ----------
    X : object
        What a user gave to an estimator that takes texts as well as counts.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_texts(["play jazz"]), is_texts(np.eye(2))
    (True, False)
    """
    if is_lazy(X) or is_sparse(X):
        return False
    return not (isinstance(X, np.ndarray) and X.dtype.kind in "biufc")


def _encoded(text: Any, number: int) -> bytes:
    try:
        if isinstance(text, str):
            return text.encode()
        bytes.decode(text)  # strict: what is not UTF-8 is an error here
        return bytes(text)
    except TypeError:
        raise ValueError(f"text {number} is {text!r:.60}, but it must be a string") from None
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise ValueError(f"text {number} is not UTF-8: {error.reason}") from None
