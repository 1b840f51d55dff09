"""Products with ``R'K R``, block by block, for each kind of similarity K between documents."""

from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.engine import collect_rows, map_rows, summarize
from dspectral.inputs.labelled_rows import labelled_streams
from dspectral.methods.lsi.class_products import ClassProduct, CrossProduct
from dspectral.types import FloatArray, Rows


class DocumentProducts(Protocol):
    """What multiplies by ``R'K R``; ``reads`` is how often a product reads each block."""

    reads: int

    def gram(self) -> Moments:
        """Return ``R'K R`` itself, with the number and the sum of the rows."""
        ...

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'K R Z``, with the number, the sum and the energy of the rows."""
        ...


class Plain:
    """K is the identity."""

    reads = 1

    def __init__(self, X: Any, fan_in: int) -> None:
        self._X, self._fan_in = X, fan_in

    def gram(self) -> Moments:
        """Return ``R'R``."""
        return summarize(self._X, of=Moments.of, fan_in=self._fan_in, name="gram")

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'R Z``."""
        return summarize(self._X, of=partial(GramProduct.of, factor=Z), fan_in=self._fan_in, name="product")


class OfClasses:
    """K is ``1`` on its diagonal and ``alpha z_i'z_j`` elsewhere: the class sums of the first pass serve all."""

    reads = 1

    def __init__(self, X: Any, classes: Any, alpha: float, fan_in: int) -> None:
        streams = labelled_streams(X, classes)
        self._words, self._classes = streams.words, streams.labels
        self._alpha, self._fan_in = alpha, fan_in
        self._sums: Any = None

    def gram(self) -> Moments:
        """Return ``R'W R + alpha M'M``."""
        of = partial(ClassProduct.of, alpha=self._alpha)
        part = summarize(self._words, self._classes, of=of, fan_in=self._fan_in, name="gram")
        return Moments(part.n_rows, part.total, part.product + self._alpha * (part.sums.T @ part.sums))

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'W R Z + alpha M'(M Z)``."""
        of = partial(ClassProduct.of, factor=Z, alpha=self._alpha, with_sums=self._sums is None)
        part = summarize(self._words, self._classes, of=of, fan_in=self._fan_in, name="product")
        if self._sums is None:
            self._sums = part.sums
        between = self._alpha * (self._sums.T @ (self._sums @ Z))
        return GramProduct(part.n_rows, part.total, part.energy, part.product + between.astype(Z.dtype))


class OfMatrix:
    """K is ``I + alpha`` times a sparse matrix: the documents must meet in this process, two reads a product."""

    reads = 2

    def __init__(self, X: Any, similarity: sparse.csr_array, alpha: float, fan_in: int) -> None:
        self._X, self._similarity = X, similarity
        self._alpha, self._fan_in = alpha, fan_in

    def gram(self) -> Moments:
        """Refuse: ``R'K R`` would need all rows at once."""
        raise ValueError("solver 'gram' does not take document_similarity: 'auto' and 'krylov' do")

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'(K (R Z))``."""
        projected = collect_rows(
            map_rows(self._X, partial(_times, Z=Z), n_columns=Z.shape[1], dtype=Z.dtype, name="project")
        )
        mixed = projected + self._alpha * np.asarray(self._similarity @ projected, dtype=Z.dtype)
        streams = labelled_streams(self._X, mixed)
        part = summarize(
            streams.words, streams.labels, of=CrossProduct.of, fan_in=self._fan_in, name="product"
        )
        return GramProduct(part.n_rows, part.total, part.energy, part.product)


def _times(rows: Rows, *, Z: FloatArray) -> FloatArray:
    return np.asarray(rows @ Z, dtype=Z.dtype)
