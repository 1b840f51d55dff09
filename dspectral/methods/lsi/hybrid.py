"""Latent semantic indexing with side information about documents and terms."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.decomposition.moments import GramProduct
from dspectral.decomposition.plan import Plan, check_size, chosen_solver
from dspectral.decomposition.spectrum import Spectrum, krylov_spectrum, of_summary, pad_components
from dspectral.engine import map_rows
from dspectral.inputs.class_labels import class_rows, unit_class_rows
from dspectral.inputs.rows import checked_rows, project
from dspectral.linalg.dense import fixed_signs
from dspectral.methods.lsi.document_products import DocumentProducts, OfClasses, OfMatrix, Plain
from dspectral.methods.lsi.similarity_factors import (
    Factor,
    FactorKind,
    checked_similarity,
    checked_weight,
    eigenvalue_range,
    factor,
    largest_weight,
)
from dspectral.methods.lsi.term_similarity import matrix_of
from dspectral.registry import saved
from dspectral.types import FloatArray


@saved
class HybridLSI(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Latent semantic indexing of documents whose classes, and whose terms' meanings, are partly known.

    The singular vectors of ``K^(1/2) R S^(1/2)``, for rows R (documents by terms), ``K = I + alpha K'`` over
    documents and ``S = I + beta S'`` over terms. Documents, also new ones, are folded in without K:
    ``r L V`` with ``L L' = S`` and V the right singular vectors.

    Parameters
    ----------
    n_components : int
        k.
    document_classes : array-like, shape (n,), or indicator matrix, shape (n, n_classes), optional
        ``K'`` is 1 between documents of one class; of documents with several, the cosine of their indicators. A
        document without a class (None, or an empty row) is similar to none. By default ``y`` of :meth:`fit`.
    document_similarity : SciPy sparse or array, shape (n, n), optional
        ``K'`` itself, symmetric; its diagonal is left out. Instead of classes.
    term_similarity : TermSimilarity, SciPy sparse or array, shape (d, d), optional
        ``S'``, symmetric; its diagonal is left out. :func:`dspectral.term_similarity` makes it of word vectors.
    alpha, beta : float
        Weights of ``K'`` and ``S'``, at least 0, and below 1 and what keeps K and S positive definite
        (``admissible_alpha_``, ``admissible_beta_``). With both 0 this is :class:`~dspectral.TruncatedSVD`.
    factor : {"auto", "dense", "sparse", "polynomial"}
        How S is factored: Cholesky (``8 d^2`` bytes), sparse Cholesky by SuperLU, or its root as a polynomial,
        which takes products with ``S'`` alone. The answer is the same; ``"auto"`` is dense up to 1,024 terms,
        else polynomial.
    solver, n_passes, sketch_size, fan_in, random_state
        As for :class:`~dspectral.TruncatedSVD`; of its solvers ``"auto"``, ``"gram"``, ``"krylov"`` and
        ``"nystrom"``.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, d)
        ``(L V)'``: orthonormal rows where beta is 0, else ``C S^(-1) C' = I``. The entry largest in magnitude of
        each is positive.
    singular_values_ : ndarray of float64, shape (n_components,)
    admissible_alpha_, admissible_beta_ : float
        Weights must be below these; None where there is no such similarity.
    classes_ : ndarray or None
        The classes behind ``K'``.
    n_samples_seen_ : int
    solver_ : str
    n_passes_ : int
        Reads of each block. Class sums are taken in the first; ``document_similarity`` doubles them.

    Notes
    -----
    Of class similarities K is never formed: ``R'K R = R'W R + alpha M'M``, where M holds one row a class, the
    sum of its documents, and W is ``1 - alpha`` for documents with a class. A task holds its block and
    ``8 d (n_classes + r)`` bytes, for r the columns of a product, whatever the number of documents; labels in
    memory take theirs. ``document_similarity`` needs ``8 n r`` bytes in this process. With a weight above 0, numbers
    are in double precision, since class sums stand far above what else is there.

    A class with one document changes nothing: its row of K is that of the identity.

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
        n_components: int = 2,
        *,
        document_classes: Any = None,
        document_similarity: Any = None,
        term_similarity: Any = None,
        alpha: float = 0.0,
        beta: float = 0.0,
        factor: FactorKind = "auto",
        solver: str = "auto",
        n_passes: int = 5,
        sketch_size: int | None = None,
        fan_in: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.document_classes = document_classes
        self.document_similarity = document_similarity
        self.term_similarity = term_similarity
        self.alpha = alpha
        self.beta = beta
        self.factor = factor
        self.solver = solver
        self.n_passes = n_passes
        self.sketch_size = sketch_size
        self.fan_in = fan_in
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n, d)
        y : as ``document_classes``, optional
            Used where neither ``document_classes`` nor ``document_similarity`` is given, and alpha is not 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If alpha or beta is not admissible (the message says up to where they are), a similarity is of another
            size than the documents or terms, or for other terms; alpha is above 0 and nothing says what is alike,
            or beta; or X is not as :class:`~dspectral.TruncatedSVD` wants it.
        """
        given = X
        X = checked_rows(self, X, reset=True)
        root = self._root(given, X.shape[1])
        documents = self._documents(X, y)
        single = self.alpha == 0 and self.beta == 0 and X.dtype == np.float32
        found = hybrid_spectrum(documents, root, self._plan(np.float32 if single else np.float64), X.shape)
        self._set(found, root, documents.reads)
        return self

    def transform(self, X: Any) -> Any:
        """Fold documents in: ``X components_'``, for those that the fit has seen as for new ones.

        Parameters
        ----------
        X : as for ``fit``, shape (n, d)

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n, n_components)
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _plan(self, number: Any) -> Plan:
        return Plan(
            self.n_components,
            solver=self.solver,
            n_passes=self.n_passes,
            sketch_size=self.sketch_size,
            seed=self.random_state,
            dtype=number,
        )

    def _root(self, X: Any, n_terms: int) -> Factor | None:
        """Return the factor of S, or None for the identity."""
        self.admissible_beta_ = None
        if self.term_similarity is None:
            if self.beta != 0:
                raise ValueError(f"beta is {self.beta}, but there is no term_similarity that it could weigh")
            return None
        similarity = checked_similarity(
            matrix_of(self.term_similarity, X), n_terms, "term_similarity", "terms"
        )
        ends = eigenvalue_range(similarity)
        self.admissible_beta_ = largest_weight(ends[0])
        checked_weight(self.beta, self.admissible_beta_, "beta", "I + beta term_similarity")
        return factor(similarity, self.beta, self.factor, ends) if self.beta else None

    def _documents(self, X: Any, y: Any) -> DocumentProducts:
        """Return what multiplies by ``R'K R``."""
        self.admissible_alpha_, self.classes_ = None, None
        if self.document_similarity is not None:
            return self._documents_of_matrix(X)
        classes = y if self.document_classes is None else self.document_classes
        if classes is None:
            if self.alpha != 0:
                raise ValueError(
                    f"alpha is {self.alpha}, but nothing says which documents are alike: give classes"
                )
            return Plain(X, self.fan_in)
        self.admissible_alpha_ = 1.0
        checked_weight(self.alpha, 1.0, "alpha", "K, of class similarities,")
        if self.alpha == 0:
            return Plain(X, self.fan_in)
        found = class_rows(classes, X.shape[0])
        self.classes_ = found.classes
        return OfClasses(X, unit_class_rows(found.indicator), self.alpha, self.fan_in)

    def _documents_of_matrix(self, X: Any) -> DocumentProducts:
        if self.document_classes is not None:
            raise ValueError(
                "document_classes and document_similarity both say which documents are alike: give one"
            )
        similarity = checked_similarity(
            self.document_similarity, X.shape[0], "document_similarity", "documents"
        )
        self.admissible_alpha_ = largest_weight(eigenvalue_range(similarity)[0])
        checked_weight(self.alpha, self.admissible_alpha_, "alpha", "K = I + alpha document_similarity")
        return OfMatrix(X, similarity, self.alpha, self.fan_in) if self.alpha else Plain(X, self.fan_in)

    def _set(self, found: Spectrum, root: Factor | None, reads: int) -> None:
        axes = found.axes if root is None else root.times(np.ascontiguousarray(found.axes.T)).T
        self.components_ = fixed_signs(np.ascontiguousarray(axes))
        self.singular_values_ = np.sqrt(found.values)
        self.n_samples_seen_ = found.n_rows
        self.solver_ = found.solver
        self.n_passes_ = found.n_passes * reads


def hybrid_spectrum(
    documents: DocumentProducts, root: Factor | None, plan: Plan, shape: tuple[int, int]
) -> Spectrum:
    """Return the spectrum of ``K^(1/2) R L``: right singular vectors, and squared singular values."""
    check_size(plan, shape[1])
    solver = chosen_solver(plan, shape[1])
    if solver == "gram" and documents.reads > 1 and plan.solver == "auto":
        solver = "krylov"
    if solver == "gram":
        moments = documents.gram()
        if root is not None:
            gram = root.transpose_times(root.transpose_times(moments.gram).T)
            moments = moments._replace(gram=np.asarray(gram, dtype=np.float64))
        return pad_components(of_summary(moments, plan), plan)
    if "frequent_directions" in solver:
        raise ValueError(f"solver {solver!r} does not take similarities: 'auto', 'gram' and 'krylov' do")

    def multiply(Z: FloatArray) -> GramProduct:
        if root is None:
            return documents.product(Z)
        part = documents.product(root.times(Z))
        return part._replace(product=root.transpose_times(part.product))

    return pad_components(krylov_spectrum(multiply, shape[1], plan, solver), plan)
