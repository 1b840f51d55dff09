"""Classifier of any number of labels by the method of moments, with the interface of scikit-learn."""

from typing import Any, Literal, Self

import numpy as np

from dspectral.engine import emits_events, expect_passes, is_lazy
from dspectral.inputs.labels import checked_documents, label_matrix, label_names, labelled_streams
from dspectral.inputs.parameters import RandomState
from dspectral.methods.multilabel.choosing import chosen
from dspectral.methods.multilabel.latent_states import residual_regression
from dspectral.methods.multilabel.passes import first_pass, label_pass, second_pass
from dspectral.methods.multilabel.prediction import LabelPrediction
from dspectral.methods.multilabel.recipe import EM_PASSES, MultiLabelRecipe, Settings
from dspectral.registry import saved
from dspectral.types import RowsLike, is_sparse

N_MOMENT_PASSES = 3
"""Passes before those of EM."""


@saved
class MomentMultiLabelClassifier(LabelPrediction):
    """Learn any number of labels in three passes: latent states of documents, from moments of words and labels.

    A document has one hidden state; words and labels are drawn independently given it. The states' words come
    from the second and third moments of the words, their labels from the moment of labels with pairs of words,
    all in k whitened coordinates. A rank-r linear correction, from sums of the same passes, adds what the
    states leave of the labels.

    Parameters
    ----------
    n_states : int or "auto", default="auto"
        Number of states k. ``"auto"`` is 100, or as many as the words have independent directions.
    smoothing : float or "auto", default="auto"
        Share of the corpus' own distribution in every state's words, from 0 to 1. With 0 the algorithm is the
        printed one, and a word of probability 0 is floored at 1e-12. EM mixes labels as it does words.
        ``"auto"`` is chosen on documents held out: large for real documents, whose words are far from independent.
    n_em_iter : int or "auto", default="auto"
        Number of EM passes after the three of the moments; ``"auto"`` is 0, or 2 where these rank held-out documents
        better.
    label_weight : float, default=16.0
        Weight of a label's log-likelihood relative to a word's in the E-step. 0 ignores labels; 1 is the model's
        likelihood; larger values make states follow the few labels rather than the many words.
    correction_rank : int, optional
        Number r of directions of the linear correction that are found by the labels; ``n_states`` by default, 0 for
        none: the paper's model alone. As many again are those of the words that the first lead to.
    recipe : MultiLabelRecipe, optional
        How the moments are taken and decomposed, by default as in the paper, and the ridge penalty of the linear
        correction, by default chosen on documents held out. See :class:`~dspectral.MultiLabelRecipe`.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    n_states_ : int
        Number of states.
    smoothing_ : float
        Share of the corpus, as it was given or chosen.
    n_em_iter_ : int
        Number of EM passes, as it was given or chosen.
    alpha_ : float or None
        Ridge penalty of the linear correction, as it was given or chosen; None where there is no correction.
    n_held_out_ : int
        Number of documents that settings were chosen on; 0 where nothing was to choose, or a quarter has fewer than
        30.
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
    directions_ : ndarray, shape (n_words, s)
        Directions of the linear correction's features, at most 2 r of them.
    linear_ : ndarray, shape (n_labels, s + 1), or None
        Coefficients of the linear correction, with the intercept in the last column.
    document_frequency_ : ndarray of int64, shape (n_words,)
        Number of training documents that have each word.
    label_totals_ : ndarray of int64, shape (n_labels,)
        Number of training documents that have each label.
    certificate_ : Certificate or None
        Bound on what the sketch of the words left out; None for solver ``"range"`` of unbiased moments.
    tensor_residual_ : float
        Share of the whitened third moment that the states leave unexplained.
    n_negative_, negative_mass_ : dict of str to int, dict of str to float
        Number of entries of the estimates of ``"words"`` and ``"labels"`` that were below zero, and their share.
    log_likelihood_ : float
        Mean log-likelihood of a training document's words, under the states that the last pass began with.
    indicator_dtype_ : str or None
        Type of the dense indicator matrix that :meth:`predict` returns; None where y was sparse or lazy.
    n_documents_ : int
        Number of training documents.
    n_passes_ : int
        Reads of each block: 3, and ``n_em_iter_``.
    solver_ : str
        Solver of the first pass.
    random_state_ : int
        Seed that the fit used.
    n_features_in_ : int
        Number of words.

    Notes
    -----
    A task holds its block and ``n_words (sketch_size + r)`` numbers in the first pass, ``n_words (n_states + 2 r)``
    in the second, with ``(n_words + n_labels) (n_states + 2 r)`` in later ones; nothing grows with the documents. A
    document without words gets the scores of the states' weights alone; one without labels counts for words.

    Settings are chosen on a sample that the first pass keeps: at most 8,192 documents of 2 million entries, those
    with the smallest hashes of their words. Each quarter of them in turn is ranked by what the others teach, in
    memory, with each candidate. Of those as good as the best within a standard error, the first is taken: smoothing
    0.9 and no EM come first.

    States count words, or see which occur. In the linear correction a document of fractions, as TfidfTransformer gives
    them, has its own weights; one of whole numbers has inverse document frequencies.

    More states than the words have independent directions are refused; a label absent from a fold is never predicted.

    References
    ----------
    Dasgupta 2016, "Multi-label learning with provable guarantee": equations 5 to 21, algorithm 1.

    Examples
    --------
    >>> from dspectral.datasets import sample_labelled_documents
    >>> words, labels, _ = sample_labelled_documents(2000, n_words=60, n_labels=12, n_states=3, seed=0)
    >>> model = MomentMultiLabelClassifier(3).fit(words, labels)
    >>> model.n_passes_, model.predict_proba(words[:4]).shape, model.top_labels(words[:4], 2).nnz
    (3, (4, 12), 8)
    """

    def __init__(
        self,
        n_states: int | Literal["auto"] = "auto",
        *,
        smoothing: float | Literal["auto"] = "auto",
        n_em_iter: int | Literal["auto"] = "auto",
        label_weight: float = 16.0,
        correction_rank: int | None = None,
        recipe: MultiLabelRecipe | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_states = n_states
        self.smoothing = smoothing
        self.n_em_iter = n_em_iter
        self.label_weight = label_weight
        self.correction_rank = correction_rank
        self.recipe = recipe
        self.random_state = random_state

    @classmethod
    def as_published(cls, n_states: int = 50, **parameters: Any) -> Self:
        """Return the algorithm as printed: no smoothing, no EM, no linear correction, one state after the other.

        Parameters
        ----------
        n_states : int, default=50
            Number of states.
        **parameters : object
            Further parameters of the constructor, which take the place of the published ones.

        Returns
        -------
        MomentMultiLabelClassifier
            An estimator that is not fitted.

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

    @emits_events
    def fit(self, X: RowsLike, y: "RowsLike | None" = None) -> Self:
        """Learn from documents and their labels.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words, not negative.
        y : ndarray, DataFrame, SciPy sparse or Dask array, shape (n_documents, n_labels), optional
            Matrix that is not zero where a document has the label; by default the labels that the store X holds.

        Returns
        -------
        MomentMultiLabelClassifier
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is out of its range, labels are missing or do not fit, an entry is negative or not finite
            (it is named), or there are fewer independent directions than states.
        """
        # Each pass reads all blocks and merges their summaries; what a pass finds is the input of the next. Only
        # the model and the summaries grow with words, labels and states, nothing grows with the documents.
        settings = Settings.of(self)
        self.random_state_ = settings.seed
        X = checked_documents(self, X, reset=True)
        y = getattr(X, "labels", None) if y is None else y
        labels: Any = y
        if not (y is None or is_lazy(y) or is_sparse(y)):
            labels = label_matrix(y)
            if labels.dtype.kind == "f" and np.any(labels != np.rint(labels)):
                raise ValueError(
                    "Unknown label type: y holds fractions, but must be an indicator matrix of documents and labels"
                )
        data = labelled_streams(X, labels)
        most = max(EM_PASSES) if "n_em_iter" in settings.undecided else settings.n_em_iter
        expect_passes(N_MOMENT_PASSES + most)
        leading = first_pass(data, settings)
        leading, states = second_pass(data, leading, settings)
        settings, self.n_held_out_ = chosen(leading, states, settings, data.n_rows)
        expect_passes(1 + settings.n_em_iter, anew=True)
        model = label_pass(data, leading, states, settings)
        for _ in range(settings.n_em_iter):
            model = label_pass(data, leading, states, settings, model)
        # The tensor's order of states is an accident of its decomposition; the most probable state comes first.
        order = np.argsort(-model.weights, kind="stable")
        self.state_weights_ = model.weights[order]
        self.word_distributions_ = model.words.columns[:, order]
        self.label_distributions_ = model.labels.columns[:, order]
        self.log_words_ = model.log_words[:, order]
        self.directions_, self.linear_, self.alpha_ = leading.directions, None, None
        if settings.rank:
            self.linear_ = residual_regression(model.regression, model.labels.columns, settings.alpha)
            self.alpha_ = settings.alpha
        self.document_frequency_, self.label_totals_ = leading.document_frequency, leading.label_totals
        self.certificate_, self.solver_ = leading.certificate, leading.solver
        self.tensor_residual_, self.log_likelihood_ = states.tensor.residual, model.log_likelihood
        parts = {"words": states.words, "labels": model.labels}
        self.n_negative_ = {name: part.n_negative for name, part in parts.items()}
        self.negative_mass_ = {name: part.negative_mass for name, part in parts.items()}
        self.n_states_, self.smoothing_, self.n_em_iter_ = len(order), settings.smoothing, settings.n_em_iter
        self.classes_ = label_names(y, data.n_labels)
        self.indicator_dtype_ = None if is_lazy(y) or is_sparse(y) else labels.dtype.str
        self.n_documents_, self.n_passes_ = data.n_rows, N_MOMENT_PASSES + settings.n_em_iter
        return self
