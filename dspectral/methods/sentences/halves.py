"""Second halves of a representation: the directions of words, their rarity, or both."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.linalg import sparse_products
from dspectral.linalg.dense import unit_rows
from dspectral.text.weighting import Weighting
from dspectral.types import CSRRows

Half: TypeAlias = Literal["sent", "sketch", "idf", "idf+sent"]
HALVES: tuple[Half, ...] = ("sent", "sketch", "idf", "idf+sent")
"""Directions weighed by rarity, directions alone, rarity alone, and rarity beside directions weighed by it."""


def half_of(present: CSRRows, projection: NDArray[np.float32], kind: Half) -> CSRRows:
    """Return one of the second halves of sentences.

    Shapes: `present` (n_sentences, n_words), `projection` (n_words, n_components); returns (n_sentences,
    n_components).

    >>> present = sparse.csr_array(np.array([[1, 1], [0, 1]], dtype=np.float32))
    >>> P = np.array([[3, 0], [4, 0]], dtype=np.float32)
    >>> half_of(present, P, "sent").toarray(), half_of(present, P, "idf").toarray().round(2)
    (array([[1., 0.],
           [1., 0.]]), array([[0.6, 0.8],
           [0. , 1. ]]))
    """
    if kind == "idf+sent":
        sides = [half_of(present, projection, side) for side in ("idf", "sent")]
        # Each of length one, both together too.
        return sparse.csr_array(sparse.hstack(sides, format="csr") * np.sqrt(0.5))
    if kind == "idf":
        lengths = np.sqrt(np.einsum("ij,ij->i", projection, projection, dtype=np.float64))
        return Weighting(column_weights=lengths, norm="l2").apply(present.astype(np.float64))
    vectors = unit_rows(projection) if kind == "sketch" else projection
    rows = unit_rows(sparse_products.times(present, np.asarray(vectors)))
    return sparse.csr_array(rows.astype(np.float64))
