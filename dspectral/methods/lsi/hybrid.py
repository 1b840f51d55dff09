"""Latent semantic indexing with side information about documents and terms."""

from functools import partial
from math import isfinite
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dspectral.decomposition.spectrum import Plan, Spectrum, pad_components
from dspectral.engine import emits_events, map_rows
from dspectral.inputs.fitted_facts import FittedFactsMixin
from dspectral.inputs.labels import Classes, class_rows, unit_class_rows
from dspectral.inputs.parameters import RandomState, check_real, resolve_seed
from dspectral.inputs.rows import LazyOutputMixin, checked_rows, project
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg.dense import fixed_signs
from dspectral.methods.lsi.document_products import DocumentProducts, hybrid_spectrum
from dspectral.methods.lsi.similarities import (
    Factor,
    TermSimilarity,
    checked_similarity,
    checked_weight,
    eigenvalue_range,
    factor,
    largest_weight,
    matrix_of,
)
from dspectral.registry import saved
from dspectral.types import CheckedRows, RowsLike

Similarity: TypeAlias = NDArray[np.floating[Any]] | sparse.sparray | sparse.spmatrix
"""A symmetric matrix of similarities."""
COMPONENTS, HALF = 300, 0.5
"""What ``"auto"`` takes: of components at most, and of the largest admissible weight."""
SOLVER, N_PASSES = "auto", 5
"""Solver of the decomposition, as for :class:`~dspectral.TruncatedSVD`, and the passes of ``"krylov"``."""


@saved
class HybridLSI(
    FittedFactsMixin,
    TopTermsMixin,
    LazyOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Latent semantic indexing of documents whose classes, and whose terms' meanings, are partly known.

    The singular vectors of ``K^(1/2) R S^(1/2)``, for rows R (documents by terms), ``K = I + alpha K'`` over
    documents and ``S = I + beta S'`` over terms. Documents, also new ones, are folded in without K:
    ``r L V`` with ``L L' = S`` and V the right singular vectors.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components k. ``"auto"`` is 300, or as many as there are directions.
    alpha : float or "auto", default="auto"
        Weight of the similarity ``K'`` of documents, at least 0, and below 1 and what keeps K positive definite
        (``admissible_alpha_``). ``"auto"`` is half of that, or 0 where nothing says which documents are alike. With
        alpha and beta both 0 this is :class:`~dspectral.TruncatedSVD`.
    beta : float, default=0.0
        Weight of the similarity ``S'`` of terms, at least 0, and below 1 and what keeps S positive definite
        (``admissible_beta_``).
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, d)
        Factored components ``(L V)'``: orthonormal rows where beta is 0, else ``C S^(-1) C' = I``. The entry largest
        in magnitude of each row is positive.
    singular_values_ : ndarray of float64, shape (n_components,)
        Singular values of ``K^(1/2) R S^(1/2)``, largest first.
    alpha_ : float
        Weight that was used.
    admissible_alpha_, admissible_beta_ : float or None
        Values that the weights must stay below; None where there is no such similarity.
    classes_ : ndarray or None
        Classes behind ``K'``.
    random_state_ : int
        Seed that the fit used.
    n_samples_seen_ : int
        Number of documents.
    solver_ : str
        Solver that was used.
    n_passes_ : int
        Reads of each block. Class sums are taken in the first; ``document_similarity`` doubles them.

    Notes
    -----
    For class similarities K is never formed: ``R'K R = R'W R + alpha M'M``, where M holds one row a class, the sum of
    its documents, and W is ``1 - alpha`` for documents with a class. A task holds its block and ``8 d (n_classes +
    r)`` bytes, for r the columns of a product. ``document_similarity`` needs ``8 n r`` bytes in this process. Weights
    above 0 take double precision.

    In a Pipeline similarities reach :meth:`fit` by name (``pipeline.fit(X, y,
    hybridlsi__term_similarity=similarity)``) or by metadata routing (``set_fit_request``). Cross-validation cuts
    classes and terms rightly, but only the rows of ``document_similarity``: give classes there.

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

    @emits_events
    def fit(
        self,
        X: RowsLike,
        y: "Classes | None" = None,
        *,
        document_similarity: Similarity | None = None,
        term_similarity: TermSimilarity | Similarity | None = None,
    ) -> Self:
        """Find the components.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
            Documents by terms.
        y : array-like, shape (n,), or indicator matrix, shape (n, n_classes), optional
            Classes of the documents: ``K'`` is 1 between documents of one class, and, for documents with several, the
            cosine of their indicators. A document without a class (None, or an empty row) is similar to none.
        document_similarity : SciPy sparse or array, shape (n, n), optional
            ``K'`` itself, symmetric; its diagonal is left out. It takes the place of y.
        term_similarity : TermSimilarity, SciPy sparse or array, shape (d, d), optional
            ``S'``, symmetric; its diagonal is left out. :func:`dspectral.term_similarity` makes it from word vectors.

        Returns
        -------
        HybridLSI
            The estimator itself.

        Raises
        ------
        ValueError
            If alpha or beta is not admissible (the bound is named) or has no similarity, or a similarity does not
            fit.
        """
        self.random_state_ = resolve_seed(self.random_state)
        rows: CheckedRows = checked_rows(self, X, reset=True)
        beta = check_real("beta", self.beta)
        root = self._root(matrix_of(term_similarity, X), rows.shape[1])
        documents = self._documents(rows, y, document_similarity)
        # Class sums grow with the documents of a class and stand far above single entries: float32 would lose these.
        single = self.alpha_ == 0 and beta == 0 and rows.dtype == np.float32
        plan = Plan(
            self._n_components(rows),
            solver=SOLVER,
            n_passes=N_PASSES,
            seed=self.random_state_,
            dtype=np.float32 if single else np.float64,
        )
        found = hybrid_spectrum(documents, root, plan, rows.shape)
        found = found if self.n_components == "auto" else pad_components(found, plan)
        self._set(found, root, documents.reads)
        return self

    def transform(self, X: RowsLike) -> Any:
        """Fold documents in: ``X components_'``, for those that the fit has seen as for new ones.

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
        X = checked_rows(self, X, reset=False)
        fold_in = partial(project, axes=np.ascontiguousarray(self.components_.T), offset=None)
        return map_rows(
            X, fold_in, n_columns=len(self.components_), dtype=self.components_.dtype, name="fold-in"
        )

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _root(self, similarity: Similarity | None, n_terms: int) -> Factor | None:
        """Return the factor of S, or None for the identity."""
        self.admissible_beta_ = None
        if similarity is None:
            if self.beta != 0:
                raise ValueError(f"beta is {self.beta}, but there is no term_similarity that it could weigh")
            return None
        matrix = checked_similarity(similarity, n_terms, "term_similarity", "terms")
        ends = eigenvalue_range(matrix)
        self.admissible_beta_ = largest_weight(ends[0])
        checked_weight(self.beta, self.admissible_beta_, "beta", "I + beta term_similarity")
        return factor(matrix, self.beta, ends) if self.beta else None

    def _n_components(self, X: CheckedRows) -> int:
        if self.n_components != "auto":
            return self.n_components
        return int(min(COMPONENTS, *(size for size in X.shape if isfinite(size))))

    def _weight(self, admissible: float, matrix: str) -> float:
        """Return the weight of the similarity of documents, half of the admissible one where it is not given."""
        alpha = HALF * admissible if self.alpha == "auto" else check_real("alpha", self.alpha)
        checked_weight(alpha, admissible, "alpha", matrix)
        return alpha

    def _documents(
        self, X: CheckedRows, y: "Classes | None", similarity: Similarity | None
    ) -> DocumentProducts:
        """Return the products with ``R'K R`` for the similarity of documents that is given."""
        self.admissible_alpha_, self.classes_ = None, None
        if similarity is not None:
            matrix = checked_similarity(similarity, X.shape[0], "document_similarity", "documents")
            self.admissible_alpha_ = largest_weight(eigenvalue_range(matrix)[0])
            self.alpha_ = self._weight(self.admissible_alpha_, "K = I + alpha document_similarity")
            return DocumentProducts(X, self.alpha_, similarity=matrix if self.alpha_ else None)
        if y is None:
            self.alpha_ = 0.0 if self.alpha == "auto" else check_real("alpha", self.alpha)
            if self.alpha_ != 0:
                raise ValueError(
                    f"alpha is {self.alpha}, but nothing says which documents are alike: give classes"
                )
            return DocumentProducts(X)
        self.admissible_alpha_ = 1.0
        self.alpha_ = self._weight(1.0, "K, of class similarities,")
        if self.alpha_ == 0:
            return DocumentProducts(X)
        known = class_rows(y, X.shape[0])
        self.classes_ = known.classes
        return DocumentProducts(X, self.alpha_, classes=unit_class_rows(known.indicator))

    def _set(self, found: Spectrum, root: Factor | None, reads: int) -> None:
        # Right singular vectors are in the coordinates of L; components are L V, so that rows fold in by a product.
        axes = found.axes if root is None else root.times(np.ascontiguousarray(found.axes.T)).T
        self.components_ = fixed_signs(np.ascontiguousarray(axes))
        self.singular_values_ = np.sqrt(found.values)
        self.n_samples_seen_ = found.n_rows
        self.solver_ = found.solver
        self.n_passes_ = found.n_passes * reads
