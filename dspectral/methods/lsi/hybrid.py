"""Latent semantic indexing with side information about documents and terms."""

import math
from functools import partial
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.spectrum import (
    Spectrum,
    SVDOptions,
    check_size,
    krylov_spectrum,
    n_solver_passes,
    pad_components,
    select_solver,
    spectrum_from_summary,
)
from dspectral.engine import expect_passes, has_few_zeros, map_rows, summarize, tracked_fit
from dspectral.engine.summary import add_fields
from dspectral.inputs.labels import (
    Classes,
    check_label_memory,
    encode_classes,
    encode_label_lists,
    normalize_class_rows,
    pair_with_labels,
)
from dspectral.inputs.rows import RowTransformer, project, validate_rows
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg import sparse_products
from dspectral.linalg.block_sums import compute_energy, compute_gram, multiply_each_row, sum_rows
from dspectral.linalg.dense import fix_signs
from dspectral.methods.lsi.similarities import (
    Factor,
    TermSimilarity,
    as_similarity_matrix,
    check_weight,
    eigenvalue_range,
    factor,
    max_weight,
    resolve_similarity,
)
from dspectral.parameters import RandomState, check_real, resolve_seed
from dspectral.registry import register_class
from dspectral.types import CheckedRows, CheckpointPath, Doubles, FloatArray, Rows, RowsLike, is_sparse

N_COPIES = 4
"""Arrays of class sums in memory at once: of two tasks, merged, and of the first pass."""


class ClassGramProduct(NamedTuple):
    """``A'(W (A F))`` with W diagonal and a factor F, and the sums of the rows of each class.

    K is 1 on the diagonal and ``alpha z_i'z_j`` elsewhere, where z_i is the unit-length class indicator of row i, or
    zero. Then ``A'K A = A'W A + alpha M'M``: W is ``1 - alpha`` for rows with a class and 1 for others, and M (class
    sums) is ``Z'A``. Shapes: `total` (d,), `product` (d, r), `sums` (n_classes, d).
    """

    n_rows: int
    total: Doubles
    energy: float
    product: FloatArray
    sums: Doubles

    @classmethod
    def from_block(
        cls,
        rows: Rows,
        classes: sparse.csr_array,
        *,
        alpha: float,
        with_sums: bool = True,
        factor: FloatArray | None = None,
    ) -> Self:
        """Summarize one block. Shapes: `rows` (n, d), `classes` (n, n_classes), `factor` (d, r)."""
        # A' W A F is the Gram product of the rows scaled by the square roots of W. Cost: 4 nnz r operations, or
        # 4 n d r for dense rows, and nnz additions for each class of a row.
        energy = compute_energy(rows)
        has_class = np.diff(classes.indptr) > 0
        weighted = multiply_each_row(rows, np.where(has_class, math.sqrt(1.0 - alpha), 1.0))
        product: FloatArray
        if factor is None:
            product = compute_gram(weighted)
        elif is_sparse(weighted):
            product = sparse_products.gram_times(weighted, factor)
        else:
            weighted = np.asarray(weighted, dtype=factor.dtype)
            product = weighted.T @ (weighted @ factor)
        # An empty array without sums: summaries of all passes merge in the same way.
        sums = sparse.csr_array(classes.T) @ rows if with_sums else np.zeros((0, rows.shape[1]))
        sums = np.asarray(sums.toarray() if is_sparse(sums) else sums, dtype=np.float64)
        return cls(rows.shape[0], sum_rows(rows), energy, product, sums)

    def merge(self, *others: Self) -> Self:
        """Return the summary of all rows."""
        return add_fields(self, *others)


class DocumentProducts:
    """Products with ``R'K R``, where K is the identity or from classes. Shapes: `X` (n, d), `classes` (n, L)."""

    def __init__(self, X: CheckedRows, alpha: float = 0.0, classes: "CheckedRows | None" = None) -> None:
        self._X, self._alpha = X, alpha
        self._streams = None if classes is None else pair_with_labels(X, classes)
        self._sums: Doubles | None = None

    def needs_float64(self) -> bool:
        """Report whether dense rows without classes are decomposed, whose means may be large."""
        return self._streams is None and has_few_zeros(self._X, sparse_products.DENSE_SHARE)

    def gram(self, *, center: bool) -> Moments:
        """Return ``R'K R``, which is ``R'W R + alpha M'M`` for classes."""
        if self._streams is None:
            return summarize(self._X, summarize_block=partial(Moments.from_block, center=center), name="gram")
        summarize_block = partial(ClassGramProduct.from_block, alpha=self._alpha)
        n_rows, total, _, gram, sums = summarize(
            self._streams.words, self._streams.labels, summarize_block=summarize_block, name="gram"
        )
        return Moments(n_rows, total, gram + self._alpha * (sums.T @ sums))

    def product(self, Z: FloatArray) -> GramProduct:
        """Return ``R'K R Z``, with the number, the sum and the energy of the rows."""
        if self._streams is None:
            multiply = partial(GramProduct.from_block, factor=Z, center=True)
            return summarize(self._X, summarize_block=multiply, name="product")
        summarize_block = partial(
            ClassGramProduct.from_block, factor=Z, alpha=self._alpha, with_sums=self._sums is None
        )
        n_rows, total, energy, product, sums = summarize(
            self._streams.words, self._streams.labels, summarize_block=summarize_block, name="product"
        )
        if self._sums is None:  # class sums of the first pass are reused
            self._sums = sums
        # Right to left, so that the d x d matrix M'M is never formed.
        between = self._alpha * (self._sums.T @ (self._sums @ Z))
        return GramProduct(n_rows, total, energy, product + between.astype(Z.dtype))


def hybrid_spectrum(
    documents: DocumentProducts, root: Factor | None, options: SVDOptions, shape: tuple[int, int]
) -> Spectrum:
    """Return the spectrum of ``K^(1/2) R L``: right singular vectors and squared singular values."""
    # These are the eigenvectors of L'(R'K R) L. One pass computes the matrix itself ("gram") or its product with a
    # block of vectors ("krylov").
    check_size(options, shape[1])
    solver = select_solver(options, shape[1])
    expect_passes(n_solver_passes(options, solver))
    doubles = root is None and documents.needs_float64()
    if solver == "gram":
        moments = documents.gram(center=root is None)
        if root is not None:  # L' (L' G)' = L' G L, as G is symmetric
            gram = root.transpose_times(root.transpose_times(moments.gram).T)
            moments = moments._replace(gram=np.asarray(gram, dtype=np.float64))
        return spectrum_from_summary(moments, options)

    # The number, sum and energy of rows refer to R itself; they bound the error and count documents.
    def summarize(summarize_block: Any) -> GramProduct:
        Z = summarize_block.keywords["factor"]
        if root is None:
            return documents.product(Z)
        part = documents.product(root.times(Z)).undo_centering()
        return part._replace(product=root.transpose_times(part.product))

    product_options = options._replace(dtype=np.float64) if doubles else options
    result = krylov_spectrum(summarize, shape[1], product_options)
    return result._replace(axes=result.axes.astype(options.dtype, copy=False))


Similarity: TypeAlias = FloatArray | sparse.sparray | sparse.spmatrix
"""A symmetric matrix of similarities."""
MAX_COMPONENTS, AUTO_ALPHA = 300, 0.5
"""For ``"auto"``: the maximum number of components, and the weight of classes."""
SOLVER, N_PASSES = "auto", 5
"""Solver, as in :class:`~dspectral.TruncatedSVD`, and number of passes of ``"krylov"``."""


@register_class({"components_": "k n_features_in_", "singular_values_": "k"})
class HybridLSI(TopTermsMixin, RowTransformer, BaseEstimator):
    """Latent semantic indexing that uses classes of documents and similarities of terms.

    Computes singular vectors of ``K^(1/2) R S^(1/2)``, for rows R (documents by terms), ``K = I + alpha K'`` over
    documents and ``S = I + beta S'`` over terms. :meth:`transform` projects documents without K: ``r L V``, with
    ``L L' = S`` and V the right singular vectors.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components k. ``"auto"`` is 300, or the smaller dimension of X.
    alpha : float or "auto", default="auto"
        Weight of the document similarity ``K'``, at least 0 and below 1. ``"auto"`` is 0.5, or 0 without classes. With
        alpha and beta both 0 the result is that of :class:`~dspectral.TruncatedSVD`.
    beta : float, default=0.0
        Weight of the term similarity ``S'``, at least 0 and below ``admissible_beta_``, a bound of at most 1 that
        keeps S positive definite.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, d)
        Components ``C = (L V)'``: orthonormal rows if beta is 0, else ``C S^(-1) C' = I``. The entry largest in
        magnitude of each row is positive.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of ``K^(1/2) R S^(1/2)``, largest first.
    alpha_ : float
        Weight that was used.
    admissible_alpha_, admissible_beta_ : float or None
        Upper bounds (exclusive) of the weights; None without such a similarity.
    classes_ : ndarray or None
        Classes that define ``K'``.
    random_state_ : int
        Seed that the fit used.
    n_samples_seen_ : int
        Number of documents.
    solver_ : str
        Solver that was used.
    n_passes_ : int
        Number of passes.

    Notes
    -----
    For classes K is never formed: ``R'K R = R'W R + alpha M'M``, where M holds the sum of the documents of each class,
    and W is ``1 - alpha`` for documents with a class and 1 for others. A task holds its block and
    ``8 d (n_classes + r)`` bytes, where r is the number of columns of a product. Weights above 0 require double
    precision.

    In a Pipeline, pass similarities to :meth:`fit` by name (``pipeline.fit(X, y,
    hybridlsi__term_similarity=similarity)``) or by metadata routing (``set_fit_request``).

    References
    ----------
    Kolomeitsev and Shagadatov, "Hybrid latent semantic indexing"; Frolov and Oseledets 2018, "HybridSVD: when
    collaborative information is not enough", equations 4 to 7.

    Examples
    --------
    >>> R = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> hybrid = HybridLSI(1, alpha=0.5).fit(R, ["a", "b", "a", "b"])
    >>> hybrid.transform(R).ravel().round(2), hybrid.singular_values_.round(2)
    (array([1.18, 1.18, 0.55, 0.55]), array([2.16]))
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        alpha: float | Literal["auto"] = "auto",
        beta: float = 0.0,
        random_state: RandomState = 0,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta
        self.random_state = random_state

    @tracked_fit
    def fit(
        self,
        X: RowsLike,
        y: "Classes | None" = None,
        *,
        term_similarity: TermSimilarity | Similarity | None = None,
        checkpoints: CheckpointPath = None,
    ) -> Self:
        """Find the components.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents by terms.
        y : array-like, shape (n,), lists of labels, or indicator matrix, shape (n, n_classes), optional
            Classes of the documents: ``K'`` is 1 between documents of one class, and, for documents with several, the
            cosine of their indicators. A document without a class (None, or an empty row) is similar to none.
        term_similarity : TermSimilarity, SciPy sparse or array, shape (d, d), optional
            Symmetric ``S'``; its diagonal is ignored. :func:`dspectral.term_similarity` computes it from word vectors.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        HybridLSI
            The estimator itself.

        Raises
        ------
        ValueError
            If alpha or beta is out of bounds or lacks a similarity, or a similarity has a wrong shape or is asymmetric.
        """
        self.random_state_ = resolve_seed(self.random_state)
        rows: CheckedRows = validate_rows(self, X, reset=True)
        beta = check_real("beta", self.beta)
        root = self._term_factor(resolve_similarity(term_similarity, X), rows.shape[1])
        documents = self._make_products(rows, y)
        # Class sums are far larger than single entries, which would be lost in float32.
        single = self.alpha_ == 0 and beta == 0 and rows.dtype == np.float32
        n_components: Any = self.n_components
        if n_components == "auto":
            n_components = int(min(MAX_COMPONENTS, *(size for size in rows.shape if math.isfinite(size))))
        dtype = np.float32 if single else np.float64
        options = SVDOptions(n_components, solver=SOLVER, n_passes=N_PASSES, seed=self.random_state_, dtype=dtype)
        result = hybrid_spectrum(documents, root, options, rows.shape)
        result = result if self.n_components == "auto" else pad_components(result, options)
        # Components are L V, so that transform is a single product.
        axes = result.axes if root is None else root.times(np.ascontiguousarray(result.axes.T)).T
        self.components_ = fix_signs(np.ascontiguousarray(axes))
        self.singular_values_ = np.sqrt(result.values)
        self.n_samples_seen_, self.solver_ = result.n_rows, result.solver
        self.n_passes_ = result.n_passes
        return self

    def transform(self, X: RowsLike) -> Any:
        """Return ``X components_'``, the coordinates of training or new documents.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents by terms.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, n_components)
            Coordinates of the documents.
        """
        check_is_fitted(self)
        X = validate_rows(self, X, reset=False)
        fold_in = partial(project, axes=np.ascontiguousarray(self.components_.T))
        return map_rows(X, fold_in, n_columns=len(self.components_), dtype=self.components_.dtype, name="fold-in")

    def _term_factor(self, similarity: Similarity | None, n_terms: int) -> Factor | None:
        """Return the factor of S, or None for the identity."""
        self.admissible_beta_ = None
        if similarity is None:
            if self.beta != 0:
                raise ValueError(f"beta={self.beta} needs a term_similarity: pass one to fit, or set beta=0")
            return None
        matrix = as_similarity_matrix(similarity, n_terms)
        ends = eigenvalue_range(matrix)
        self.admissible_beta_ = max_weight(ends[0])
        check_weight(self.beta, self.admissible_beta_, "beta", "I + beta term_similarity")
        return factor(matrix, self.beta, ends) if self.beta else None

    def _make_products(self, X: CheckedRows, y: "Classes | None") -> DocumentProducts:
        """Return the products with ``R'K R`` for the given classes."""
        self.admissible_alpha_, self.classes_ = None if y is None else 1.0, None
        auto = 0.0 if y is None else AUTO_ALPHA
        self.alpha_ = auto if isinstance(self.alpha, str) and self.alpha == "auto" else check_real("alpha", self.alpha)
        if y is None and self.alpha_ != 0:
            raise ValueError(f"alpha={self.alpha} needs y: pass it to fit, or set alpha=0")
        check_weight(self.alpha_, 1.0, "alpha", "K, of class similarities,")
        if y is None or self.alpha_ == 0:
            return DocumentProducts(X)
        y, names = encode_label_lists(y, allow_column=True)
        class_rows = encode_classes(y, X.shape[0])
        self.classes_ = class_rows.classes if names is None else names
        check_label_memory(len(class_rows.classes), X.shape[1], N_COPIES)
        return DocumentProducts(X, self.alpha_, normalize_class_rows(class_rows.indicator))
