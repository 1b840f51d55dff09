"""Summary of the second pass: the third moment of words, and the words that go with the directions of the labels."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.engine.summary import add_fields
from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.document_rows import unit_rows, word_rows
from dspectral.methods.multilabel.moments import ThirdMoment
from dspectral.types import FloatArray, Rows


class SecondMoments(NamedTuple):
    """Moments of the words in whitened coordinates, and a product with the directions of the linear correction.

    `third`: second and third moments; `reached` (d, r): ``A_u' A_u D``, for A_u the weighted rows at unit
    length and D the directions.
    """

    third: ThirdMoment
    reached: FloatArray

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        whitening: FloatArray,
        counts: bool,
        distinct: bool,
        directions: FloatArray,
        column_weights: NDArray[np.float64],
    ) -> Self:
        """Summarize one block.

        Shapes: `rows` (n, d), `whitening` (d, k), `directions` (d, r), `column_weights` (d,).
        """
        third = ThirdMoment.of(rows, whitening=whitening, counts=counts, distinct=distinct)
        return cls(third, reached_from(rows, column_weights, directions))

    def merge(self, *others: Self) -> Self:
        """Return the moments and products of all rows."""
        return add_fields(self, *others)


def reached_from(rows: Rows, column_weights: NDArray[np.float64], directions: FloatArray) -> FloatArray:
    """Return ``A_u' A_u D``: the words of the documents that directions of words lead to.

    Shapes: `rows` (n, d), `column_weights` (d,), `directions` (d, r); returns (d, r).
    """
    if not directions.shape[1]:
        return np.zeros(directions.shape, dtype=np.float32)
    words = word_rows(rows, counts=False, dtype=np.float32)
    return sparse_products.gram_times(
        unit_rows(words, column_weights), directions.astype(np.float32, copy=False)
    )
