"""Multi-label classifier by the method of moments."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dspectral.engine import collect_rows, expect_passes, is_lazy, map_rows, tracked_fit
from dspectral.inputs.labels import (
    LabeledStreams,
    as_label_matrix,
    check_label_memory,
    encode_label_lists,
    get_label_names,
    pair_with_labels,
    validate_documents,
)
from dspectral.inputs.rows import RunPlanMixin
from dspectral.inputs.top_terms import TopTermsMixin
from dspectral.linalg.block_sums import check_indicator
from dspectral.methods.multilabel.held_out import STATE_PRIOR, Scoring, select_scoring
from dspectral.methods.multilabel.latent_states import LabelModel
from dspectral.methods.multilabel.passes import (
    FirstPassResult,
    SecondPassResult,
    em_pass,
    first_pass,
    get_max_own_words,
    label_pass,
    second_pass,
)
from dspectral.methods.multilabel.prediction import LabelScorer, LabelTopic
from dspectral.methods.multilabel.recipe import MultiLabelRecipe, PredictFor, Settings
from dspectral.parameters import RandomState, check_integer
from dspectral.registry import register_class
from dspectral.text.weighting import inverse_document_frequency
from dspectral.types import AnyArray, CheckpointPath, FloatArray, IntArray, Rows, RowsLike, is_sparse

N_MOMENT_PASSES = 3
"""Passes before those of EM."""
N_COPIES = 7
"""Arrays of label coefficients and states in memory during the selection of the linear part."""


@register_class(
    {
        "classes_": "classes_",
        "state_weights_": "k",
        "word_distributions_": "n_features_in_ k",
        "label_distributions_": "classes_ k",
        "log_words_": "n_features_in_ k",
        "directions_": "n_features_in_ s",
        "own_words_": "m",
        "linear_": "classes_ *",
        "state_labels_": "classes_ k",
        "document_frequency_": "n_features_in_",
        "label_totals_": "classes_",
        "label_scales_": "classes_ 2",
    }
)
class MomentMultiLabelClassifier(RunPlanMixin, TopTermsMixin, ClassifierMixin, BaseEstimator):
    """Classify documents with any number of labels in three passes, by latent states and a linear model.

    Each document has one hidden state, and its words and labels are independent given the state. Second and third
    moments of words give the word distribution of each state; moments of labels with pairs of words give its label
    distribution, all in k whitened coordinates. A linear model from sums of the same passes scores labels by all
    words, or by the most informative ones and r directions. Held-out documents decide how much the states contribute.

    Parameters
    ----------
    n_states : int or "auto", default="auto"
        Number of states k. ``"auto"`` is 50, or the rank of the words if that is lower.
    smoothing : float, default=0.9
        Weight, from 0 to 1, of the corpus distribution in the word distribution of each state; EM smooths labels
        likewise. 0 is the published algorithm, with probabilities of at least 1e-12. The default suits real
        documents, whose words are far from independent.
    n_em_iter : int, default=0
        Number of EM passes after the three passes of moments.
    label_weight : float, default=16.0
        Weight of the log-likelihood of a label relative to that of a word in the E-step. 0 ignores labels; 1 is the
        likelihood of the model; larger values balance few labels against many words.
    correction_rank : int, optional
        Number r of label directions of the linear model, used for more than 2,048 words; the default is ``n_states``.
        The second pass adds up to r further directions. 0 disables the linear model, as in the paper.
    predict_for : {"f1", "subset", "mean_number"}, default="f1"
        What :meth:`predict` maximizes on held-out documents: micro F1 or subset accuracy, by one threshold of the
        scores. If all documents have the same number of labels, each gets so many. ``"mean_number"`` predicts the
        rounded mean number of labels, as does a fit without a linear model or with fewer than 30 documents.
    recipe : MultiLabelRecipe, optional
        Further options; the default is ``MultiLabelRecipe()``.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    n_states_ : int
        Number of states.
    alpha_ : float or None
        Given or selected penalty of the log-odds; None without a linear model.
    n_held_out_ : int
        Number of held-out documents for model selection; 0 without a linear model or if fewer than 30.
    classes_ : ndarray, shape (n_labels,)
        Names of the labels: the columns of y if it was a DataFrame, else numbers.
    state_weights_ : ndarray of float64, shape (n_states,)
        Probabilities pi of the states, largest first.
    word_distributions_ : ndarray, shape (n_words, n_states)
        Probabilities mu of the words in each state, before smoothing.
    label_distributions_ : ndarray, shape (n_labels, n_states)
        Probabilities gamma of the labels in each state.
    log_words_ : ndarray, shape (n_words, n_states)
        Logarithms of the words' probabilities after smoothing.
    own_words_ : ndarray of int, shape (m,)
        Words with a coefficient each: all words that occur if there are at most 2,048 with at most 16 million
        coefficients for all labels; otherwise the most informative ones.
    directions_ : ndarray, shape (n_words, s)
        Directions, at most 2 r; none if all words have coefficients.
    linear_ : ndarray, shape (n_labels, m + s + 1), or None
        Coefficients of the linear model: words, directions, intercept.
    state_share_ : float
        Weight of the states in the score, from 0 to 1.
    state_labels_ : ndarray, shape (n_labels, n_states), or None
        Label probabilities of each state for scores that combine states and linear model.
    document_frequency_ : ndarray of int64, shape (n_words,)
        Number of training documents that have each word.
    label_totals_ : ndarray of int64, shape (n_labels,)
        Number of training documents that have each label.
    certificate_ : Certificate
        Error bound of the sketch of the words.
    tensor_residual_ : float
        Unexplained share of the whitened third moment.
    negative_mass_ : dict of str to float
        Share of the mass that was negative in the estimates of ``"words"`` and ``"labels"``.
    log_likelihood_ : float
        Mean log-likelihood of the words of a training document, under the states before the last pass.
    label_scales_ : ndarray, shape (n_labels, 2), or None
        Shift and scale from scores to log-odds; None for more than ten labels or without a linear model.
    threshold_ : Threshold or None
        Fields ``level`` and ``row_weight``: labels are predicted where the score minus ``row_weight`` times the best
        score of the document is above ``level``. None with ``labels_each_``.
    labels_each_ : int or None
        Number of labels that are predicted for every document; None with a threshold.
    indicator_dtype_ : str or None
        Dtype of the dense indicator matrix that :meth:`predict` returns; None where y was sparse or lazy.
    n_documents_ : int
        Number of training documents.
    n_passes_ : int
        Number of passes: 3 plus ``n_em_iter``.
    solver_ : str
        Solver of the first pass.
    random_state_ : int
        Seed of the fit.
    n_features_in_ : int
        Number of words.

    Notes
    -----
    A task holds its block and ``n_words (sketch_size + r)`` numbers in the first pass, ``n_words (n_states + 2 r)``
    in the second, with ``(n_words + n_labels) (n_states + 2 r)`` in later ones, and ``q (q + n_labels)`` in the last
    for q = m + s features, independent of the number of documents. Documents without labels contribute their words.

    Eigenvectors of the Gram matrix of the features serve all labels and penalties: all of them, or for more than 512
    features and few labels a fifth, and conjugate gradients. They give one Newton step of logistic regression from
    the label rates, and ridge regression. Penalties, shifts and scales of the log-odds of each label, are selected by
    leave-one-out scores of at most 4,096 documents, those with the smallest hashes.

    States use word counts or occurrence. The linear model uses fractional values, such as those of TfidfTransformer,
    as they are, and weights whole numbers by inverse document frequency.

    More states than the rank of the words raise an error; a label absent from a fold is never predicted.

    References
    ----------
    Dasgupta 2016, "Multi-label learning with provable guarantee": equations 5 to 21, algorithm 1.

    Examples
    --------
    >>> from dspectral.datasets import sample_labeled_documents
    >>> words, labels, _ = sample_labeled_documents(2000, n_words=60, n_labels=12, n_states=3, seed=0)
    >>> model = MomentMultiLabelClassifier(3).fit(words, labels)
    >>> model.n_passes_, model.predict_proba(words[:4]).shape, model.top_labels(words[:4], 2).nnz
    (3, (4, 12), 8)
    """

    def __init__(
        self,
        n_states: int | Literal["auto"] = "auto",
        *,
        smoothing: float = 0.9,
        n_em_iter: int = 0,
        label_weight: float = 16.0,
        correction_rank: int | None = None,
        predict_for: PredictFor = "f1",
        recipe: MultiLabelRecipe | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_states = n_states
        self.smoothing = smoothing
        self.n_em_iter = n_em_iter
        self.label_weight = label_weight
        self.correction_rank = correction_rank
        self.predict_for = predict_for
        self.recipe = recipe
        self.random_state = random_state

    @classmethod
    def as_published(cls, n_states: int = 50, **parameters: Any) -> Self:
        """Return an estimator with the published algorithm: no smoothing, EM or linear model; deflation for the tensor.

        Parameters
        ----------
        n_states : int, default=50
            Number of states.
        **parameters : object
            Further parameters of the constructor, which override the published ones.

        Returns
        -------
        MomentMultiLabelClassifier
            The unfitted estimator.

        Examples
        --------
        >>> published = MomentMultiLabelClassifier.as_published(3)
        >>> published.smoothing, published.n_em_iter, published.correction_rank, published.recipe.tensor
        (0.0, 0, 0, 'power')
        """
        recipe = parameters.pop("recipe", None) or MultiLabelRecipe()
        if isinstance(recipe, MultiLabelRecipe) and recipe.tensor == "auto":
            recipe = recipe._replace(tensor="power")
        published = {"smoothing": 0.0, "n_em_iter": 0, "correction_rank": 0, "recipe": recipe}
        return cls(n_states, **{**published, **parameters})

    @tracked_fit
    def fit(self, X: RowsLike, y: "RowsLike | None" = None, *, checkpoints: CheckpointPath = None) -> Self:
        """Learn from documents and their labels.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words, not negative.
        y : ndarray, DataFrame, SciPy sparse or Dask array, shape (n_documents, n_labels), or lists of labels, optional
            Matrix of 1 where a document has the label and 0 elsewhere, or of bool; or a list of strings for each
            document, such as the column ``frame["labels"].str.split(";")``. The default is the labels of the store X.
        checkpoints : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.checkpoints` takes it.

        Returns
        -------
        MomentMultiLabelClassifier
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, labels are missing or have the wrong shape, an entry is negative or not
            finite, or there are more states than the rank of the words.
        """
        # The summary of each pass is the input of the next. Memory does not grow with the number of documents.
        settings = Settings.from_estimator(self)
        data, classes = self._check_data(X, y, settings)
        check_label_memory(data.n_labels, _n_numbers_per_label(data, settings), N_COPIES)
        expect_passes(N_MOMENT_PASSES + settings.n_em_iter)
        leading = first_pass(data, settings)
        leading, states = second_pass(data, leading, settings)
        model = self._run_label_passes(data, leading, states, settings)
        order = self._set_states(model)
        scoring = select_scoring(leading, model, settings) if settings.rank else None
        self._set_linear_part(leading, model, scoring, order)
        self._set_diagnostics(data, leading, states, model, settings)
        self._set_prediction(leading, scoring, settings)
        self.classes_ = classes
        return self

    def _check_data(self, X: RowsLike, y: "RowsLike | None", settings: Settings) -> tuple[LabeledStreams, AnyArray]:
        """Return documents and labels as streams, and the names of the labels."""
        self.random_state_ = settings.seed
        X = validate_documents(self, X, reset=True)
        y, names = encode_label_lists(getattr(X, "labels", None) if y is None else y)
        is_matrix = y is None or is_lazy(y) or is_sparse(y)
        labels: Any = y if is_matrix else as_label_matrix(y)
        data = pair_with_labels(X, labels)
        if data.n_labels == 1 and not settings.rank:
            raise ValueError(
                "y has 1 label, but correction_rank=0 needs at least 2: omit correction_rank, or add a column to y for "
                "documents without the label"
            )
        self.indicator_dtype_ = None if is_matrix else labels.dtype.str
        return data, get_label_names(y, data.n_labels) if names is None else names

    @staticmethod
    def _run_label_passes(
        data: LabeledStreams, leading: FirstPassResult, states: SecondPassResult, settings: Settings
    ) -> LabelModel:
        """Estimate the labels of each state in one pass, and run the passes of EM."""
        # Only the last pass computes sums for the linear model.
        plain = leading._replace(directions=leading.directions[:, :0], own_words=leading.own_words[:0])
        model = label_pass(data, plain if settings.n_em_iter else leading, states, settings)
        for n_remaining in range(settings.n_em_iter - 1, -1, -1):
            model = em_pass(data, plain if n_remaining else leading, model, settings)
        return model

    def _set_states(self, model: LabelModel) -> IntArray:
        """Set the attributes of the states, most probable first; return their order in the model."""
        order = np.argsort(-model.weights, kind="stable")
        self.state_weights_ = model.weights[order]
        self.word_distributions_ = model.words.columns[:, order]
        self.label_distributions_ = model.labels.columns[:, order]
        self.log_words_ = model.log_words[:, order]
        return order

    def _set_linear_part(
        self, leading: FirstPassResult, model: LabelModel, scoring: Scoring | None, order: IntArray
    ) -> None:
        """Set the attributes of the linear model and of the selection on held-out documents."""
        self.directions_, self.own_words_ = leading.directions, leading.own_words
        self.linear_ = self.alpha_ = self.state_labels_ = self.label_scales_ = None
        self.state_share_, self.n_held_out_ = 1.0, 0
        if scoring is None:
            return
        self.linear_ = scoring.regression.coefficients(scoring.linear, scoring.odds_scales)
        self.alpha_, self.state_share_ = scoring.linear.odds_alpha, scoring.linear.states
        self.n_held_out_, self.label_scales_ = scoring.n_held_out, scoring.label_scales
        if scoring.linear.states:
            having = model.label_state_counts[:-1] + STATE_PRIOR * scoring.regression.rates[:, None]
            self.state_labels_ = (having / (model.label_state_counts[-1] + STATE_PRIOR))[:, order].astype(
                model.label_state_counts.dtype
            )

    def _set_prediction(self, leading: FirstPassResult, scoring: Scoring | None, settings: Settings) -> None:
        """Set the threshold of the labels, or a number of labels of each document."""
        numbers = np.unique(np.diff(leading.sample.labels.indptr)).tolist()
        mean_number = max(1, round(float(self.label_totals_.sum()) / self.n_documents_))
        self.labels_each_ = numbers[0] if len(numbers) == 1 and numbers[0] else mean_number
        self.threshold_ = None
        if scoring and scoring.threshold and len(numbers) > 1 and settings.predict_for != "mean_number":
            self.threshold_, self.labels_each_ = scoring.threshold, None

    def _set_diagnostics(
        self,
        data: LabeledStreams,
        leading: FirstPassResult,
        states: SecondPassResult,
        model: LabelModel,
        settings: Settings,
    ) -> None:
        """Set counts, error bounds and sizes of the fit."""
        self.document_frequency_, self.label_totals_ = leading.document_frequency, leading.label_totals
        self.certificate_, self.solver_ = leading.certificate, leading.solver
        self.tensor_residual_, self.log_likelihood_ = states.tensor.residual, model.log_likelihood
        parts = {"words": states.words, "labels": model.labels}
        self.negative_mass_ = {name: part.negative_mass for name, part in parts.items()}
        self.n_states_, self.n_documents_ = len(model.weights), data.n_rows
        self.n_passes_ = N_MOMENT_PASSES + settings.n_em_iter

    def _term_weights(self) -> FloatArray:
        return self.word_distributions_.T

    def decision_function(self, X: RowsLike) -> Any:
        """Return the score of every label: of the linear model, or else its probability given the words.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_labels)
            Scores on the scale of log-odds; without a linear model, probabilities that sum to 1 in each row.
        """
        return self._map_rows(self._scorer.scores, X, len(self.classes_), "score")

    def predict_proba(self, X: RowsLike) -> Any:
        """Return the probability of every label for at most ten labels, else scores normalized to sum 1.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_labels)
            For at most ten labels with a linear model, a calibrated probability of each label. Otherwise
            ``log(1 + exp(score))``, or the score of the states, divided by the row sum; :meth:`top_labels` needs less
            memory.
        """
        return self._map_rows(self._scorer.normalized_scores, X, len(self.classes_), "share")

    def top_labels(self, X: RowsLike, n: int = 10) -> Any:
        """Return the largest entries of :meth:`predict_proba` for each document.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.
        n : int, default=10
            Maximum number of labels for each document.

        Returns
        -------
        csr_array or (for lazy input) Dask array of CSR blocks, shape (n_documents, n_labels)
            ``n`` positive stored entries in each row.
        """
        check_is_fitted(self)
        n = min(check_integer("n", n, at_least=1), len(self.classes_))
        return self._map_rows(partial(self._scorer.top_labels, n=n), X, len(self.classes_), "rank", sparse_output=True)

    def predict(self, X: RowsLike) -> Any:
        """Return the labels above ``threshold_``, or a fixed number of best labels if ``labels_each_`` is set.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray, csr_array or (for lazy input) Dask array of CSR blocks, shape (n_documents, n_labels)
            Indicator matrix: dense where that of the fit was, CSR where it was sparse or lazy.
        """
        check_is_fitted(self)
        select = partial(self._scorer.select, threshold=self.threshold_, n=self.labels_each_ or 1)
        predicted = self._map_rows(select, X, len(self.classes_), "predict", sparse_output=True)
        dense = self.indicator_dtype_ is not None and not is_lazy(predicted)
        return predicted.toarray().astype(self.indicator_dtype_) if dense else predicted

    def score(self, X: RowsLike, y: "RowsLike | None" = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the subset accuracy: the share of documents with exactly the true labels predicted.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.
        y : ndarray, SciPy sparse or Dask array, shape (n_documents, n_labels), or lists of labels, optional
            True labels; the default is the labels of the store X.
        sample_weight : array-like, shape (n_documents,), optional
            Weight of each document.

        Returns
        -------
        float
            Subset accuracy, as in scikit-learn.
        """
        y, names = encode_label_lists(getattr(X, "labels", None) if y is None else y, self.classes_)
        y = collect_rows(y)
        # Sparse indicators stay sparse.
        true: Any = sparse.csr_array(y) if is_sparse(y) else np.asarray(y)
        check_indicator(true)
        true = true != 0
        predicted = collect_rows(self.predict(X)) != 0
        if names is not None:  # labels that fit has not seen add a column
            predicted.resize(true.shape)
        return float(accuracy_score(true, predicted, sample_weight=sample_weight))

    def state_probabilities(self, X: RowsLike) -> Any:
        """Return the distribution over states of each document (equation 14).

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words.

        Returns
        -------
        ndarray or (for lazy input) Dask array, shape (n_documents, n_states)
            Probabilities of the states given the words.
        """
        return self._map_rows(self._scorer.states, X, len(self.state_weights_), "states")

    @property
    def topics_(self) -> list[LabelTopic]:
        """The ten most probable words and labels of each state, the most probable state first."""
        check_is_fitted(self)
        columns = self.word_distributions_, self.label_distributions_
        best = [np.argsort(-values, axis=0, kind="stable")[:10].T for values in columns]
        return [LabelTopic(float(weight), *ids) for weight, *ids in zip(self.state_weights_, *best, strict=True)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    @property
    def _scorer(self) -> LabelScorer:
        check_is_fitted(self)
        weights = inverse_document_frequency(self.document_frequency_, self.n_documents_)
        counts = (self.recipe or MultiLabelRecipe()).counts
        labels = self.label_distributions_ if self.state_labels_ is None else self.state_labels_
        return LabelScorer(
            self.log_words_, np.log(self.state_weights_), labels, weights,
            self.own_words_, self.directions_, self.linear_, self.state_share_, counts, self.label_scales_,
        )  # fmt: skip

    def _map_rows(self, function: Callable[[Any], Rows], X: RowsLike, n_columns: int, name: str, **options: Any) -> Any:
        X = validate_documents(self, X, reset=False)
        dtype = self.log_words_.dtype
        return map_rows(X, function, n_columns=n_columns, dtype=dtype, name=name, **options)


def _n_numbers_per_label(data: LabeledStreams, settings: Settings) -> int:
    """Return the number of model parameters of each label."""
    max_words = get_max_own_words(data.n_labels)
    n_features = min(max_words, data.n_words) + 2 * min(settings.rank, data.n_words) * (data.n_words > max_words)
    return min(settings.n_states, data.n_words) + (n_features + 1 if settings.rank else 0)
