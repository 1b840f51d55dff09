"""Texts at the door of an estimator that holds all of them: a column of any kind becomes one packed block."""

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dspectral.engine import is_lazy
from dspectral.text.packing import Texts, text_blocks
from dspectral.types import Documents, RowsLike, is_sparse

if TYPE_CHECKING:
    from typing_extensions import TypeIs

TextColumn: TypeAlias = Texts | Documents
"""Texts in memory, or a block of texts that are packed already."""
TextsOrCounts: TypeAlias = "TextColumn | RowsLike"
"""Texts or counts, for estimators that count words themselves or are given counts."""


def as_documents(X: TextColumn) -> Documents:
    r"""Pack a column of texts into one block.

    >>> as_documents(text for text in ("play jazz", b"caf\xc3\xa9")).offsets
    array([ 0,  9, 14])
    """
    if isinstance(X, Documents):
        return X
    column: Any = X
    if not hasattr(column, "__iter__") and hasattr(column, "__getitem__") and hasattr(column, "__len__"):
        column = [column[i] for i in range(len(column))]
    blocks = list(text_blocks(column, block_bytes=sys.maxsize))
    return blocks[0] if blocks else Documents.of([])


def is_texts(X: object) -> "TypeIs[TextColumn]":
    """Report whether X is meant as texts: anything that is neither a matrix of numbers nor a store.

    >>> is_texts(["play jazz"]), is_texts(np.eye(2))
    (True, False)
    """
    if is_lazy(X) or is_sparse(X):
        return False
    return not (isinstance(X, np.ndarray) and X.dtype.kind in "biufc")
