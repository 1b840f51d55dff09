"""Texts at the door of an estimator: a column of any kind becomes a list of strings."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import is_lazy
from dspectral.types import RowsLike, is_sparse

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class Column(Protocol):
    """A column of a table, for example of pandas, polars or Hugging Face Datasets."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def __getitem__(self, index: int, /) -> Any:
        """Return the value of one row."""
        ...


Texts: TypeAlias = Iterable[str] | Iterable[bytes] | NDArray[np.str_] | NDArray[np.object_] | Column
"""What estimators take as texts; bytes are decoded as UTF-8."""
TextsOrCounts: TypeAlias = "Texts | RowsLike"
"""What estimators take that count words themselves or are given counts."""


def as_texts(X: Texts) -> list[str]:
    r"""Return a column of texts as a list of strings.

    Parameters
    ----------
    X : list, tuple, generator, one-dimensional array, or column of pandas, polars or Hugging Face Datasets
        One ``str`` or UTF-8 ``bytes`` a text. An object that has only ``__len__`` and ``__getitem__`` is read by
        position.

    Returns
    -------
    list of str

    Raises
    ------
    TypeError
        If X is a single string, a table, a matrix or lazy.
    ValueError
        If an element of X is not a text: its position is named.

    Examples
    --------
    >>> as_texts(text for text in ("play jazz", b"caf\xc3\xa9"))
    ['play jazz', 'café']
    >>> as_texts("play jazz")
    Traceback (most recent call last):
    ...
    TypeError: X is one string, 'play jazz', but it must be a list of texts: give [text] for a single one
    """
    return [
        text if isinstance(text, str) else _decoded(text, i) for i, text in enumerate(elements(X, "texts"))
    ]


def elements(X: Iterable[Any] | Column, kind: str) -> list[Any]:
    """Return the elements of a list, a generator or a column of a table.

    Parameters
    ----------
    X : iterable or column
        Anything with ``__iter__``, or with ``__len__`` and ``__getitem__``.
    kind : str
        What the elements are, for the message.

    Returns
    -------
    list

    Raises
    ------
    TypeError
        If X is a single string, a table, a matrix, lazy, or nothing that has elements.
    """
    if isinstance(X, str | bytes):
        raise TypeError(
            f"X is one string, {X[:40]!r}, but it must be a list of {kind}: give [text] for a single one"
        )
    n_axes = len(getattr(X, "shape", (0,)))
    if isinstance(X, Mapping) or is_lazy(X) or is_sparse(X) or n_axes != 1:
        shape = f" of shape {X.shape}" if hasattr(X, "shape") else ""
        raise TypeError(
            f"X is a {type(X).__name__}{shape}, but it must be a list or one column of {kind}"
            + (": choose the column by its name, not by a list of names" if n_axes == 2 else "")
        )
    if isinstance(X, np.ndarray):
        return list(X.tolist())  # Python's own strings instead of NumPy's
    if isinstance(X, Iterable):
        return list(X)
    if hasattr(X, "__len__") and hasattr(X, "__getitem__"):
        return [X[i] for i in range(len(X))]
    raise TypeError(f"X is a {type(X).__name__}, but it must be a list or one column of {kind}")


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


def _decoded(text: Any, number: int) -> str:
    try:
        return bytes.decode(text)
    except TypeError:
        raise ValueError(f"text {number} is {text!r:.60}, but it must be a string") from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"text {number} is not UTF-8: byte {error.start} is {text[error.start]:#x}"
        ) from None
