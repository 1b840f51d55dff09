"""scikit-learn face of the method of moments for many labels."""

from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import map_rows
from dspectral.inputs.labelled_rows import checked_documents, labelled_streams
from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.passes import (
    Settings,
    Tensor,
    first_pass,
    polishing_pass,
    second_pass,
    third_pass,
)
from dspectral.methods.multilabel.ranking import Topic, best_labels, ones_of, topics
from dspectral.methods.multilabel.state_statistics import posteriors
from dspectral.methods.multilabel.word_rows import linear_features, word_rows
from dspectral.registry import saved
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import FloatArray, Rows


@saved
class MomentMultiLabelClassifier(BaseEstimator):
    """Learn any number of labels in three passes: latent states of documents, from moments of words and labels.

    A document has one hidden state; words and labels are drawn independently given it. The states' words come
    from the second and third moments of the words, their labels from the moment of labels with pairs of words,
    all in k whitened coordinates. A rank-r linear correction, from sums of the same passes, adds what the
    states leave of the labels.

    Parameters
    ----------
    n_states : int
        k.
    moments : {"paper", "unbiased"}
        ``"paper"``: a word is paired with itself, as printed in equations 16 to 21. ``"unbiased"``: pairs and
        triples of distinct positions, which recover the model.
    counts : bool
        Whether words count as often as they occur; otherwise whether they occur. The unbiased moments recover
        the model from counts only: which words occur is no longer drawn independently.
    tensor : {"power", "diagonalise"}
        Power method with deflation, or simultaneous diagonalisation, which takes several times as long from some
        100 states on.
    smoothing : float
        Share of the corpus' own distribution in every state's words, from 0 to 1. With 0 the algorithm is the
        printed one, and a word of probability 0 is floored at 1e-12. EM mixes labels as it does words; real
        documents, whose words are far from independent, are then ranked best by 0.3 to 0.8.
    polish : int
        Passes of EM after the three.
    label_weight : float
        What a document's own labels count for in EM, where a word counts for 1: 0 for EM on words alone, 1 for
        that of the model, more for states that separate the labels. A document has many more words than labels.
    correction_rank : int, optional
        r, directions of the linear correction; ``n_states`` by default, 0 for none: the paper's model alone.
    alpha : float
        Its ridge penalty, in units of the features' mean eigenvalue.
    solver : {"auto", "gram", "frequent_directions", "range"}
        Of the first pass: the exact matrix of pairs (``"auto"`` up to 2,048 words: 32 MiB), a sketch by Frequent
        Directions, which is close to exact (``"auto"`` for unbiased moments of more words), or the range of one
        random product (``"auto"`` for others), which costs a fraction of it. What either errs in size, though not
        in direction, the second pass mends.
    sketch_size : int, optional
        Rows of the sketch, columns of the product; ``2 n_states + 10`` by default.
    fan_in : int
        Neighbours that a merge takes.
    random_state : int
        The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    state_weights_ : ndarray of float64, shape (n_states,)
        pi, largest first.
    word_distributions_ : ndarray, shape (n_words, n_states)
        mu, before smoothing.
    label_distributions_ : ndarray, shape (n_labels, n_states)
        gamma. A label never seen has probability 0 (or its share of the prior, after EM, half a count in each state).
    log_words_ : ndarray, shape (n_words, n_states)
        Logarithms after smoothing.
    directions_ : ndarray, shape (n_words, r)
    linear_ : ndarray, shape (n_labels, r + 1), or None
    document_frequency_, label_totals_ : ndarray of int64
    certificate_ : Certificate or None
        Of the sketch of the words: a bound on what it left out; None for ``"range"`` of unbiased moments.
    tensor_residual_ : float
        Share of the whitened third moment that the states leave unexplained.
    n_negative_, negative_mass_ : dict of str to int, float
        Of ``"words"`` and ``"labels"``: entries of the estimates that were below zero, and their share.
    log_likelihood_ : float
        Of a training document's words, under the states that the last pass began with.
    n_passes_ : int
        Reads of each block: 3, and ``polish``.
    solver_ : str
    n_features_in_ : int

    Notes
    -----
    A task holds its block and ``n_words (sketch_size + r)`` numbers in the first pass, ``n_words n_states`` in
    the second, with ``(n_words + n_labels) (n_states + r)`` in later ones; nothing grows with the documents. A
    document without words gets the scores of the states' weights alone; one without labels counts for words.

    References
    ----------
    Dasgupta 2016, "Multi-label learning with provable guarantee": equations 5 to 21, algorithm 1.

    Examples
    --------
    >>> from dspectral.datasets import sample_labelled_documents
    >>> words, labels, _ = sample_labelled_documents(2000, n_words=60, n_labels=12, n_states=3, seed=0)
    >>> model = MomentMultiLabelClassifier(3).fit(words, labels)
    >>> model.n_passes_, model.predict_proba(words[:4], top=2).nnz
    (3, 8)
    """

    def __init__(  # noqa: PLR0913  each choice is a parameter, as scikit-learn wants
        self,
        n_states: int = 50,
        *,
        moments: Literal["paper", "unbiased"] = "paper",
        counts: bool = False,
        tensor: Tensor = "power",
        smoothing: float = 0.01,
        polish: int = 0,
        label_weight: float = 16.0,
        correction_rank: int | None = None,
        alpha: float = 0.1,
        solver: str = "auto",
        sketch_size: int | None = None,
        fan_in: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_states = n_states
        self.moments = moments
        self.counts = counts
        self.tensor = tensor
        self.smoothing = smoothing
        self.polish = polish
        self.label_weight = label_weight
        self.correction_rank = correction_rank
        self.alpha = alpha
        self.solver = solver
        self.sketch_size = sketch_size
        self.fan_in = fan_in
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from documents and their labels.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts: not negative.
        y : ndarray, SciPy sparse or Dask array, shape (n_documents, n_labels), optional
            Not zero where a document has the label; by default the labels that the store X holds.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of its range; labels are missing, or of other documents; an entry is negative
            or not finite (its block, row and column are named); no document has a label, or three words; or
            there are fewer independent directions than states (the largest usable number is named).
        """
        settings = self._settings()
        X = checked_documents(self, X, reset=True)
        data = labelled_streams(X, y)
        leading = first_pass(data, settings)
        states = second_pass(data, leading, settings)
        model = third_pass(data, leading, states, settings)
        for _ in range(self.polish):
            model = polishing_pass(data, leading, model, settings)
        order = np.argsort(-model.weights, kind="stable")
        self.state_weights_ = model.weights[order]
        self.word_distributions_ = model.words.columns[:, order]
        self.label_distributions_ = model.labels.columns[:, order]
        self.log_words_ = model.log_words[:, order]
        self.directions_, self.linear_ = leading.directions, model.linear
        self.document_frequency_, self.label_totals_ = leading.document_frequency, leading.label_totals
        self.certificate_, self.solver_ = leading.certificate, leading.solver
        self.tensor_residual_ = states.cubes.residual
        parts = {"words": states.words, "labels": model.labels}
        self.n_negative_ = {name: part.n_negative for name, part in parts.items()}
        self.negative_mass_ = {name: part.negative_mass for name, part in parts.items()}
        self.log_likelihood_ = model.log_likelihood
        self.n_passes_ = 3 + self.polish
        self.n_documents_ = data.n_rows
        return self

    def decision_function(self, X: Any) -> Any:
        """Score every label: its probability given the words, and the linear correction.

        Parameters
        ----------
        X : as for ``fit``, shape (n_documents, n_words)

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_labels)
            Block by block for lazy input. Without a correction the scores of a document sum to 1.
        """
        check_is_fitted(self)
        X = checked_documents(self, X, reset=False)
        return map_rows(
            X, self._scores, n_columns=len(self.label_distributions_), dtype=self._dtype, name="score"
        )

    def predict_proba(self, X: Any, top: int | None = None) -> Any:
        """Return the probabilities of the most probable labels of each document.

        Parameters
        ----------
        X : as for ``fit``, shape (n_documents, n_words)
        top : int, optional
            Labels of a document: 10 by default, or all where there are fewer.

        Returns
        -------
        csr_array or (for lazy input) Dask array of CSR blocks, shape (n_documents, n_labels)
            ``top`` stored entries a row, zeros among them where fewer labels have a score above 0. A document's
            scores, those below 0 taken for 0, are divided by their sum over all labels.

        Raises
        ------
        ValueError
            If ``top`` is below 1 or above the number of labels.

        Notes
        -----
        Scores of all labels are held for 64 MiB of documents at a time.
        """
        check_is_fitted(self)
        X = checked_documents(self, X, reset=False)
        n_labels = len(self.label_distributions_)
        top = min(10, n_labels) if top is None else top
        if not 1 <= top <= n_labels:
            raise ValueError(f"top is {top}, but must be from 1 to the number of labels, {n_labels}")
        pick = partial(best_labels, score=self._scores, n_labels=n_labels, top=top)
        return map_rows(X, pick, n_columns=n_labels, dtype=self._dtype, sparse_output=True, name="rank")

    def predict(self, X: Any, top: int | None = None) -> Any:
        """Return the best labels of each document: as many as training documents have on average, or ``top``.

        Returns
        -------
        csr_array or (for lazy input) Dask array of CSR blocks, shape (n_documents, n_labels)
            Ones.
        """
        check_is_fitted(self)
        if top is None:
            top = max(1, round(float(self.label_totals_.sum()) / self.n_documents_))
        best = self.predict_proba(X, min(top, len(self.label_distributions_)))
        return map_rows(
            best, ones_of, n_columns=best.shape[1], dtype=self._dtype, sparse_output=True, name="predict"
        )

    def state_probabilities(self, X: Any) -> Any:
        """Return each document's distribution over the states (equation 14), shape (n_documents, n_states)."""
        check_is_fitted(self)
        X = checked_documents(self, X, reset=False)
        return map_rows(
            X, self._posterior, n_columns=len(self.state_weights_), dtype=self._dtype, name="states"
        )

    @property
    def topics_(self) -> list[Topic]:
        """The ten most probable words and labels of each state, the most probable state first."""
        check_is_fitted(self)
        return topics(self.state_weights_, self.word_distributions_, self.label_distributions_)

    @property
    def _dtype(self) -> Any:
        return self.log_words_.dtype

    def _settings(self) -> Settings:
        if self.moments not in ("paper", "unbiased"):
            raise ValueError(f"moments is {self.moments!r}, but must be 'paper' or 'unbiased'")
        if self.polish < 0:
            raise ValueError(f"polish is {self.polish}, but must be at least 0")
        rank = self.n_states if self.correction_rank is None else self.correction_rank
        return Settings(
            self.n_states, self.moments == "unbiased", self.counts, self.tensor, self.smoothing, rank,
            self.alpha, self.solver, self.sketch_size, self.fan_in, self.random_state,
            self.label_weight,
        ).checked()  # fmt: skip

    def _posterior(self, rows: Rows) -> FloatArray:
        words = word_rows(rows, counts=self.counts, dtype=self._dtype)
        scores = sparse_products.times(words, self.log_words_) + np.log(self.state_weights_)
        return posteriors(scores)[0].astype(self._dtype)

    def _scores(self, rows: Rows) -> FloatArray:
        scores = self._posterior(rows) @ self.label_distributions_.T
        if self.linear_ is None:
            return np.asarray(scores)
        weights = inverse_document_frequency(self.document_frequency_, self.n_documents_)
        words = word_rows(rows, counts=False, dtype=self._dtype)
        features = linear_features(words, weights, self.directions_)
        return np.asarray(scores + features @ self.linear_[:, :-1].T + self.linear_[:, -1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags
