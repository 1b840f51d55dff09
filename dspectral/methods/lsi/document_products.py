"""Products with ``R'K R``, block by block, for each kind of similarity K between documents, and their spectrum."""

import math
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.spectrum import (
    Plan,
    Spectrum,
    check_size,
    chosen_solver,
    krylov_spectrum,
    of_summary,
    passes_of,
)
from dspectral.engine import collect_rows, expect_passes, map_rows, numbered, summarize
from dspectral.engine.summary import add_fields
from dspectral.inputs.labels import labelled_streams
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import energy_of, float_rows, gram_of, scaled_rows, total_of
from dspectral.methods.lsi.similarities import Factor
from dspectral.types import CheckedRows, FloatArray, Rows, is_sparse


class ClassGramProduct(NamedTuple):
    """``A'(W (A Z))`` with W diagonal, beside the sums of the rows of each class.

    With K 1 on the diagonal and ``alpha z_i'z_j`` elsewhere (z_i of length 1 holds the classes of row i, or is zero),
    ``A'K A = A'W A + alpha M'M``: W is ``1 - alpha`` for rows with a class and 1 for others, and M holds the class
    sums ``Z'A``. Shapes: `total` (d,), `product` (d, r), `sums` (n_classes, d).
    """

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray
    sums: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        rows: Rows,
        classes: sparse.csr_array,
        *,
        alpha: float,
        with_sums: bool = True,
        factor: FloatArray | None = None,
    ) -> Self:
        """Summarize one block. Shapes: `rows` (n, d), `classes` (n, n_classes), `factor` (d, r)."""
        # A' W A Z is the Gram product of rows that are multiplied by the roots of W. Cost: 4 nnz r operations, or
        # 4 n d r for dense rows; the sums add one pass over the entries for each class of a row.
        # K is 1 on its diagonal: alpha z'z + (1 - alpha) for a document with classes, whose row z has unit length, and
        # 1 alone for one without any. Hence the two values of W.
        energy = energy_of(rows)
        has_class = np.diff(classes.indptr) > 0
        weighted = scaled_rows(rows, np.where(has_class, math.sqrt(1.0 - alpha), 1.0))
        product: FloatArray
        if factor is None:
            product = gram_of(weighted)
        elif is_sparse(weighted):
            product = sparse_products.gram_times(weighted, factor)
        else:
            weighted = np.asarray(weighted, dtype=factor.dtype)
            product = weighted.T @ (weighted @ factor)
        # Without sums an array all the same, so that summaries of all passes merge in the same way.
        sums = sparse.csr_array(classes.T) @ rows if with_sums else np.zeros((0, rows.shape[1]))
        sums = np.asarray(sums.toarray() if is_sparse(sums) else sums, dtype=np.float64)
        return cls(rows.shape[0], total_of(rows), energy, product, sums)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


class CrossProduct(NamedTuple):
    """``A'B`` (d, r) for rows A and B that belong together, with the sum (d,) and the energy of A's rows."""

    n_rows: int
    total: NDArray[np.float64]
    energy: float
    product: FloatArray

    @classmethod
    def of(cls, rows: Rows, others: FloatArray) -> Self:
        """Summarize one block of A, shape (n, d), and of B, shape (n, r)."""
        energy = energy_of(rows)  # first, so that nothing is multiplied by infinity
        if is_sparse(rows):
            product = sparse_products.transpose_times(rows, np.ascontiguousarray(others))
        else:
            product = np.asarray(rows, dtype=others.dtype).T @ others
        return cls(rows.shape[0], total_of(rows), energy, product)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


class DocumentProducts:
    """Products with ``R'K R``, for K the identity, that of classes, or ``I + alpha`` times a sparse similarity.

    That of classes is 1 on its diagonal and ``alpha z_i'z_j`` elsewhere, for z_i the classes of document i. `reads` is
    the number of times that one product reads each block: twice for a similarity.

    Shapes: `X` (n, d), `classes` (n, n_classes), `similarity` (n, n).
    """

    def __init__(
        self,
        X: CheckedRows,
        alpha: float = 0.0,
        *,
        classes: "CheckedRows | None" = None,
        similarity: sparse.csr_array | None = None,
    ) -> None:
        self._X, self._alpha, self._similarity = X, alpha, similarity
        self._streams = None if classes is None else labelled_streams(X, classes)
        self._sums: NDArray[np.float64] | None = None
        self.reads = 1 if similarity is None else 2

    def gram(self) -> Moments:
        """Return ``R'K R`` itself, ``R'W R + alpha M'M`` for classes; a similarity would need all rows at once."""
        if self._streams is None:
            return summarize(self._X, of=Moments.of, name="gram")
        of = partial(ClassGramProduct.of, alpha=self._alpha)
        part = summarize(self._streams.words, self._streams.labels, of=of, name="gram")
        return Moments(part.n_rows, part.total, part.product + self._alpha * (part.sums.T @ part.sums))

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'K R Z``, with the number, the sum and the energy of the rows."""
        if self._similarity is not None:
            return self._through_documents(self._similarity, Z)
        if self._streams is None:
            return summarize(self._X, of=partial(GramProduct.of, factor=Z), name="product")
        of = partial(ClassGramProduct.of, factor=Z, alpha=self._alpha, with_sums=self._sums is None)
        part = summarize(self._streams.words, self._streams.labels, of=of, name="product")
        if self._sums is None:  # the class sums of the first pass serve all later ones
            self._sums = part.sums
        # Right to left: n_classes x r in between, and never the d x d matrix M'M.
        between = self._alpha * (self._sums.T @ (self._sums @ Z))
        return GramProduct(part.n_rows, part.total, part.energy, part.product + between.astype(Z.dtype))

    def _through_documents(self, similarity: sparse.csr_array, Z: FloatArray) -> GramProduct:
        """Return ``R'(K (R Z))``: the projected documents, ``8 n r`` bytes, meet in this process."""
        project = partial(_times, Z=Z)
        with numbered(is_pass=True):
            lazily = map_rows(self._X, project, n_columns=Z.shape[1], dtype=Z.dtype, name="project")
            projected = collect_rows(lazily)
        # R Z is taken in one pass and R' times the mixed rows in another: K couples documents of different blocks.
        mixed = projected + self._alpha * np.asarray(similarity @ projected, dtype=Z.dtype)
        streams = labelled_streams(self._X, mixed)
        part = summarize(streams.words, streams.labels, of=CrossProduct.of, name="product")
        return GramProduct(part.n_rows, part.total, part.energy, part.product)


def hybrid_spectrum(
    documents: DocumentProducts, root: Factor | None, plan: Plan, shape: tuple[int, int]
) -> Spectrum:
    """Return the spectrum of ``K^(1/2) R L``: right singular vectors, and squared singular values."""
    # The eigenvectors of L'(R'K R) L, of which a pass over the documents gives the matrix itself ("gram") or a
    # product with a block of vectors. Similarities of documents need every row at once: for them it is the latter.
    check_size(plan, shape[1])
    solver = chosen_solver(plan, shape[1]) if documents.reads == 1 else "krylov"
    expect_passes(passes_of(plan, solver) * documents.reads)
    if solver == "gram":
        moments = documents.gram()
        if root is not None:  # L' (L' G)' = L' G L, as G is symmetric
            gram = root.transpose_times(root.transpose_times(moments.gram).T)
            moments = moments._replace(gram=np.asarray(gram, dtype=np.float64))
        return of_summary(moments, plan)

    # Rows, sums and energy of the product are those of R itself: they bound the error, and count documents.
    def multiply(Z: FloatArray) -> GramProduct:
        if root is None:
            return documents.product(Z)
        part = documents.product(root.times(Z))
        return part._replace(product=root.transpose_times(part.product))

    return krylov_spectrum(multiply, shape[1], plan, solver)


def _times(rows: Rows, *, Z: FloatArray) -> FloatArray:
    return np.asarray(float_rows(rows) @ Z, dtype=Z.dtype)
