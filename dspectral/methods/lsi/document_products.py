"""Products with ``R'K R``, block by block, for each kind of similarity K between documents, and their spectrum."""

from functools import partial
from typing import Protocol

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
from dspectral.inputs.labels import labelled_streams
from dspectral.linalg.block_sums import float_rows
from dspectral.methods.lsi.class_products import ClassGramProduct, CrossProduct
from dspectral.methods.lsi.similarity_factors import Factor
from dspectral.types import CheckedRows, FloatArray, Rows


class DocumentProducts(Protocol):
    """Products with ``R'K R``; ``reads`` is the number of times that one product reads each block."""

    reads: int

    def gram(self) -> Moments:
        """Return ``R'K R`` itself, with the number and the sum of the rows."""
        ...

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'K R Z``, with the number, the sum and the energy of the rows."""
        ...


class IdentityProducts:
    """Products for K the identity.

    Shapes: `X` (n, d).
    """

    reads = 1

    def __init__(self, X: CheckedRows) -> None:
        self._X = X

    def gram(self) -> Moments:
        """Return ``R'R``."""
        return summarize(self._X, of=Moments.of, name="gram")

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'R Z``."""
        return summarize(self._X, of=partial(GramProduct.of, factor=Z), name="product")


class ClassProducts:
    """Products for K that is 1 on its diagonal and ``alpha z_i'z_j`` elsewhere, for z_i the classes of document i.

    Shapes: `X` (n, d), `classes` (n, n_classes).
    """

    reads = 1

    def __init__(self, X: CheckedRows, classes: CheckedRows, alpha: float) -> None:
        streams = labelled_streams(X, classes)
        self._words, self._classes, self._alpha = streams.words, streams.labels, alpha
        self._sums: NDArray[np.float64] | None = None

    def gram(self) -> Moments:
        """Return ``R'W R + alpha M'M``."""
        of = partial(ClassGramProduct.of, alpha=self._alpha)
        part = summarize(self._words, self._classes, of=of, name="gram")
        return Moments(part.n_rows, part.total, part.product + self._alpha * (part.sums.T @ part.sums))

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'W R Z + alpha M'(M Z)``."""
        of = partial(ClassGramProduct.of, factor=Z, alpha=self._alpha, with_sums=self._sums is None)
        part = summarize(self._words, self._classes, of=of, name="product")
        if self._sums is None:  # the class sums of the first pass serve all later ones
            self._sums = part.sums
        # Right to left: n_classes x r in between, and never the d x d matrix M'M.
        between = self._alpha * (self._sums.T @ (self._sums @ Z))
        return GramProduct(part.n_rows, part.total, part.energy, part.product + between.astype(Z.dtype))


class SimilarityProducts:
    """Products for K the identity plus ``alpha`` times a sparse matrix: two reads of the documents each.

    Shapes: `X` (n, d), `similarity` (n, n).
    """

    reads = 2

    def __init__(self, X: CheckedRows, similarity: sparse.csr_array, alpha: float) -> None:
        self._X, self._similarity, self._alpha = X, similarity, alpha

    def gram(self) -> Moments:
        """Refuse: ``R'K R`` would need all rows at once."""
        raise ValueError("solver 'gram' does not take document_similarity: 'auto' and 'krylov' do")

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'(K (R Z))``: the projected documents, ``8 n r`` bytes, meet in this process."""
        project = partial(_times, Z=Z)
        with numbered(is_pass=True):
            lazily = map_rows(self._X, project, n_columns=Z.shape[1], dtype=Z.dtype, name="project")
            projected = collect_rows(lazily)
        # R Z is taken in one pass and R' times the mixed rows in another: K couples documents of different blocks.
        mixed = projected + self._alpha * np.asarray(self._similarity @ projected, dtype=Z.dtype)
        streams = labelled_streams(self._X, mixed)
        part = summarize(streams.words, streams.labels, of=CrossProduct.of, name="product")
        return GramProduct(part.n_rows, part.total, part.energy, part.product)


def hybrid_spectrum(
    documents: DocumentProducts, root: Factor | None, plan: Plan, shape: tuple[int, int]
) -> Spectrum:
    """Return the spectrum of ``K^(1/2) R L``: right singular vectors, and squared singular values."""
    # The eigenvectors of L'(R'K R) L, of which a pass over the documents gives the matrix itself ("gram") or a
    # product with a block of vectors ("krylov", "nystrom"). Similarities of documents need every row at once, so
    # for them "auto" is never the former.
    check_size(plan, shape[1])
    solver = chosen_solver(plan, shape[1])
    if solver == "gram" and documents.reads > 1 and plan.solver == "auto":
        solver = "krylov"
    expect_passes(passes_of(plan, solver) * documents.reads)
    if solver == "gram":
        moments = documents.gram()
        if root is not None:  # L' (L' G)' = L' G L, as G is symmetric
            gram = root.transpose_times(root.transpose_times(moments.gram).T)
            moments = moments._replace(gram=np.asarray(gram, dtype=np.float64))
        return of_summary(moments, plan)
    if "frequent_directions" in solver:
        raise ValueError(f"solver {solver!r} does not take similarities: 'auto', 'gram' and 'krylov' do")

    # Rows, sums and energy of the product are those of R itself: they bound the error, and count documents.
    def multiply(Z: FloatArray) -> GramProduct:
        if root is None:
            return documents.product(Z)
        part = documents.product(root.times(Z))
        return part._replace(product=root.transpose_times(part.product))

    return krylov_spectrum(multiply, shape[1], plan, solver)


def _times(rows: Rows, *, Z: FloatArray) -> FloatArray:
    return np.asarray(float_rows(rows) @ Z, dtype=Z.dtype)
