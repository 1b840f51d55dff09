"""Transformer from counts to tf-idf weighted rows, by learned document frequencies."""

from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import expect_passes, map_rows, summarize, tracked_fit
from dspectral.inputs.rows import RunPlanMixin, SparseOutput, validate_rows
from dspectral.parameters import check_option
from dspectral.registry import register_class
from dspectral.store.columns import (
    count_document_frequencies,
    get_weighting,
    set_columns,
    to_csr_counts,
    weigh_rows,
)
from dspectral.store.rows import CountMatrix
from dspectral.text.weighting import (
    DocumentFrequencies,
    Norm,
    TermFrequency,
    Unseen,
    Weighting,
    inverse_document_frequency,
)
from dspectral.types import CheckpointPath, Doubles, Int64s, RowsLike

Idf: TypeAlias = Literal["smooth", "plain"]
"""Form of the inverse document frequency: that of scikit-learn, or of textbooks."""


@register_class({"idf_": "n_features_in_", "document_frequency_": "n_features_in_"})
class TfidfWeighting(RunPlanMixin, SparseOutput, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Learn document frequencies from counts, and weight rows by tf-idf, out of core.

    New rows are weighted by the document frequencies of the rows in :meth:`fit`. Equal to scikit-learn's
    ``TfidfTransformer``, for columns that are empty in these rows only with ``unseen="keep"``.

    Parameters
    ----------
    norm : {"l1", "l2", None}, default="l2"
        Norm of the weighted rows; empty rows stay empty.
    idf : {"smooth", "plain", None}, default="smooth"
        Inverse document frequency: ``log((1 + n) / (1 + df)) + 1``; ``log(n / df) + 1`` with weight 0 for empty columns
        (scikit-learn: infinity); or none.
    tf : {"count", "binary", "sqrt", "log", "sublinear"}, default="count"
        Function of a count c: c, 1, ``sqrt|c|``, ``log(1 + |c|)`` or ``1 + log|c|``. The sign of c is kept, except for
        "binary".
    unseen : {"drop", "keep"}, default="drop"
        Weight of columns that are empty in :meth:`fit`: 0 for "drop", like the vocabulary of ``TfidfVectorizer``; for
        "keep" the largest weight, that of df = 0, like ``TfidfTransformer``. Without ``idf`` every column is kept.

    Attributes
    ----------
    idf_ : ndarray of float64, shape (n_columns,)
        Weight of each column. Absent where ``idf`` is None.
    document_frequency_ : ndarray of int64, shape (n_columns,)
        Number of rows in which each column is not zero. Absent where ``idf`` is None.
    n_documents_ : int
        Number of rows in the fit. Absent where ``idf`` is None.
    n_passes_ : int
        Number of passes over the rows in ``fit``: 0 for a store or if ``idf`` is None, else 1.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    One pass over the rows, and none over a store. Lazy rows are weighted when they are read. Weighted rows carry a hash
    of the weighting until other rows are computed from them. An estimator fitted on lazy ones raises an error for rows
    of another weighting, and warns about rows without a hash.

    References
    ----------
    Sparck Jones 1972, "A statistical interpretation of term specificity and its application in retrieval".

    Examples
    --------
    >>> counts = np.array([[3, 0, 1], [2, 0, 0], [3, 2, 0]])
    >>> weights = TfidfWeighting().fit(counts)
    >>> weights.idf_.round(2)
    array([1.  , 1.69, 1.69])
    """

    document_frequency_: Int64s
    idf_: Doubles
    n_documents_: int

    def __init__(
        self,
        *,
        norm: Norm | None = "l2",
        idf: Idf | None = "smooth",
        tf: TermFrequency = "count",
        unseen: Unseen = "drop",
    ) -> None:
        self.norm = norm
        self.idf = idf
        self.tf = tf
        self.unseen = unseen

    @tracked_fit
    def fit(self, X: RowsLike, y: ArrayLike | None = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Count the nonzero rows of each column.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_rows, n_columns)
            Counts. A store has its document frequencies, and is not read.
        y : ignored
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        ValueError
            If a parameter is invalid, an entry is NaN or infinite, or the rows are weighted already.
        """
        return self._learn_frequencies(X, reset=True)

    @tracked_fit
    def partial_fit(self, X: RowsLike, y: ArrayLike | None = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Count additional rows; earlier rows are not read again.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_rows, n_columns)
            Counts, with the same number of columns.
        y : ignored
            Not used, present for API consistency.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        self
            This transformer, with the frequencies of all rows.
        """
        return self._learn_frequencies(X, reset=not hasattr(self, "n_passes_"))

    def transform(self, X: RowsLike) -> Any:
        """Weight rows by the learned frequencies.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_rows, n_columns)
            Counts; they are not modified.

        Returns
        -------
        csr_array, or Dask array of CSR blocks for lazy rows, shape (n_rows, n_columns)
            Weighted rows in the precision of the counts, sparse whatever ``set_output`` requests.
        """
        check_is_fitted(self)
        weighting = self.weighting
        rows = self._validate_counts(X, reset=False)
        if isinstance(X, CountMatrix):
            return X.weighted(weighting)
        dtype = np.float32 if rows.dtype == np.float32 else np.float64
        # Rows of a store were checked when they were written; other rows are converted to finite CSR first.
        rows = map_rows(rows, to_csr_counts, n_columns=rows.shape[1], dtype=dtype, sparse_output=True, name="check")
        weighted = weigh_rows(rows, weighting, n_columns=rows.shape[1], dtype=dtype)
        return set_columns(weighted, X)

    @property
    def weighting(self) -> Weighting:
        """Learned weighting, for :meth:`CountStore.weighted`.

        Raises
        ------
        NotFittedError
            If the transformer is not fitted.
        """
        check_is_fitted(self)
        self._check_parameters()
        return Weighting(self.tf, None if self.idf is None else self.idf_, None, self.norm)

    def _check_parameters(self) -> None:
        check_option("norm", self.norm, ("l1", "l2", None))
        check_option("idf", self.idf, ("smooth", "plain", None))
        check_option("tf", self.tf, get_args(TermFrequency))
        check_option("unseen", self.unseen, get_args(Unseen))
        if self.unseen == "keep" and self.idf == "plain":
            raise ValueError(
                "unseen='keep' must be 'drop' with idf='plain', since the weight of unseen columns is infinite"
            )

    def _validate_counts(self, X: RowsLike, *, reset: bool) -> Any:
        """Validate parameters and counts; raise an error for texts and for weighted rows."""
        self._check_parameters()
        if isinstance(X, list | tuple) and len(X) and isinstance(X[0], str | bytes):
            raise TypeError("X has texts, but must have counts: put NgramHashing() before TfidfWeighting()")
        if get_weighting(X):
            raise ValueError("X is weighted already, but TfidfWeighting needs counts: pass the store itself")
        return validate_rows(self, X, reset=reset)

    def _learn_frequencies(self, X: RowsLike, *, reset: bool) -> Self:
        rows = self._validate_counts(X, reset=reset)
        if self.idf is None:
            self.n_passes_ = 0
            return self
        # A store has its frequencies: no pass.
        n_passes = 0 if isinstance(X, CountMatrix) else 1
        if isinstance(X, CountMatrix):
            frequencies = DocumentFrequencies(X.n_rows, X.document_frequency)
        else:
            expect_passes(1)
            frequencies = summarize(rows, summarize_block=count_document_frequencies, name="count")
        if not reset:
            frequencies = DocumentFrequencies(self.n_documents_, self.document_frequency_).merge(frequencies)
        return self._set(frequencies, n_passes)

    def _set(self, frequencies: DocumentFrequencies, n_passes: int) -> Self:
        self.n_documents_, self.document_frequency_ = frequencies
        self.idf_ = inverse_document_frequency(
            self.document_frequency_, self.n_documents_, smooth=self.idf == "smooth", unseen=self.unseen
        )
        self.n_passes_ = n_passes
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
