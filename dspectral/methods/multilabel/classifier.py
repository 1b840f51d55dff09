"""Classifier of any number of labels by the method of moments, and the choice of its settings on documents held out."""

from itertools import groupby, product
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.engine import emits_events, expect_passes, is_lazy
from dspectral.inputs.labels import checked_documents, label_matrix, label_names, labelled_streams
from dspectral.inputs.parameters import RandomState
from dspectral.linalg import sparse_products
from dspectral.linalg.dense import orthonormal_columns
from dspectral.methods.multilabel.documents import unit_rows, word_rows
from dspectral.methods.multilabel.latent_states import LabelModel, penalized_inverse, residual_regression
from dspectral.methods.multilabel.passes import (
    DocumentsInMemory,
    Leading,
    States,
    first_pass,
    label_pass,
    second_pass,
    wider_directions,
)
from dspectral.methods.multilabel.prediction import LabelPrediction
from dspectral.methods.multilabel.recipe import ALPHAS, EM_PASSES, SMOOTHINGS, MultiLabelRecipe, Settings
from dspectral.methods.multilabel.summaries import label_range, posteriors
from dspectral.registry import saved
from dspectral.types import FloatArray, IntArray, RowsLike, is_sparse

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


FEWEST = 30
"""Fewer documents held out than that say nothing."""
SCORES = 1 << 20
"""Most scores of labels of documents held out that are ranked for each candidate and quarter."""


def chosen(leading: Leading, states: States, settings: Settings, n_rows: int) -> tuple[Settings, int]:
    """Choose what is undecided, and return the settings and the number of documents held out in turn.

    Each quarter of the sample in turn is ranked by every candidate that learned from the others. A penalty is worth
    so many documents: what is best for those that learned is divided by how many times more there are.
    """
    sample = leading.sample
    if not settings.undecided or not len(sample.hashes):
        return settings, 0
    # Words and labels of those columns alone that the sample has; one more column stands for all other words.
    own = np.unique(sample.words.indices)
    shape = (sample.words.shape[0], len(own) + 1)
    ids = np.searchsorted(own, sample.words.indices)
    words = sparse.csr_array((sample.words.data, ids, sample.words.indptr), shape=shape)
    labels = sample.labels[:, np.unique(sample.labels.indices)]
    # Of those held out the ones that have a label are ranked, no more than can be ranked soon.
    most, folds = max(FEWEST, SCORES // max(1, labels.shape[1])), []
    for held_out in sample.quarters():
        ranked = np.flatnonzero(held_out & (np.diff(labels.indptr) > 0))[:most]
        parts = np.flatnonzero(~held_out), ranked
        folds.append([DocumentsInMemory(words[rows], labels[rows], words.dtype) for rows in parts])
    fewest = min(part.words.shape[0] for fold in folds for part in fold)
    if fewest < FEWEST or not all(fitted.labels.nnz for fitted, _ in folds):
        return settings, 0
    # What the passes found of these words, and of all others as one: those keep their share, so that smoothing mixes
    # in what it does in the passes; no document has them.
    count, columns, forward = leading.document_frequency, states.words.columns, states.whitening.forward
    left = np.maximum(1.0 - columns[own].sum(axis=0, keepdims=True), 0.0).astype(columns.dtype)
    nothing = np.zeros((1, forward.shape[1]), dtype=forward.dtype)
    leading = leading._replace(
        document_frequency=np.append(count[own], count.sum() - count[own].sum()),
        column_weights=np.append(leading.column_weights[own], 1.0),
    )
    states = states._replace(
        whitening=states.whitening._replace(forward=np.concatenate([forward[own], nothing])),
        words=states.words._replace(columns=np.concatenate([columns[own], left])),
    )
    tried: dict[str, tuple[Any, ...]] = {"n_em_iter": EM_PASSES, "smoothing": SMOOTHINGS, "alpha": ALPHAS}
    tried |= {name: (getattr(settings, name),) for name in tried if name not in settings.undecided}
    candidates = [
        settings._replace(**dict(zip(tried, values, strict=True))) for values in product(*tried.values())
    ]
    gains = np.concatenate([_tried(fold, leading, states, candidates) for fold in folds], axis=1)
    best = candidates[first_of_the_best(gains)]
    if "alpha" in settings.undecided:
        n_fitted = float(np.mean([fitted.words.shape[0] for fitted, _ in folds]))
        best = best._replace(alpha=best.alpha * n_fitted / n_rows)
    return best, gains.shape[1]


def first_of_the_best(gains: FloatArray) -> int:
    """Return the first candidate (row of gains) not worse than the best by one standard error of the difference."""
    # What differs by less than that is chance, and differences of rounding are smaller still.
    lost = gains[int(np.argmax(gains.mean(axis=1)))] - gains
    error = lost.std(axis=1) / np.sqrt(gains.shape[1])
    return int(np.argmax(lost.mean(axis=1) <= error))


def _tried(
    fold: list[DocumentsInMemory], leading: Leading, states: States, candidates: list[Settings]
) -> FloatArray:
    """Return what each candidate gains on each document held out, shape (n_candidates, n_documents)."""
    fitted, held_out = fold
    settings, dtype = candidates[0], states.whitening.forward.dtype
    # No label of a document held out may speak: directions that had heard them would ask for too small a penalty.
    rank, column_weights = min(settings.rank, len(leading.column_weights)), leading.column_weights
    found = label_range(fitted.words, fitted.labels, rank, settings.seed)
    scaled = found * column_weights[:, None].astype(np.float32)
    directions = orthonormal_columns(scaled.astype(dtype, copy=False))
    unit = unit_rows(fitted.words, column_weights, np.float32)
    reached = sparse_products.gram_times(unit, directions.astype(np.float32, copy=False))
    leading = leading._replace(
        directions=wider_directions(directions, reached),
        label_totals=np.bincount(fitted.labels.indices, minlength=fitted.labels.shape[1]),
    )
    # The same for all candidates.
    known, features = (
        sparse_products.times(unit_rows(part.words, column_weights, dtype), leading.directions)
        for part in fold
    )
    features = np.concatenate([features, np.ones((len(features), 1), dtype=features.dtype)], axis=1)
    fitted = fitted._replace(features=known)
    words, truth = word_rows(held_out.words, counts=settings.counts, dtype=dtype), held_out.labels
    gains = np.zeros((len(candidates), words.shape[0]))
    for smoothing in dict.fromkeys(one.smoothing for one in candidates):
        alike = [number for number, one in enumerate(candidates) if one.smoothing == smoothing]
        model, n_done = label_pass(fitted, leading, states, candidates[alike[0]]), 0
        # Candidates come with growing numbers of passes of EM: each goes on where the last one was.
        for n_em_iter, group in groupby(alike, key=lambda number: candidates[number].n_em_iter):
            for _ in range(n_done, n_em_iter):
                model = label_pass(fitted, leading, states, candidates[alike[0]], model)
            n_done = n_em_iter
            joint = sparse_products.times(words, model.log_words) + np.log(model.weights)
            probabilities = posteriors(joint)[0].astype(features.dtype)
            for number in group:
                alpha = candidates[number].alpha if settings.rank else None
                scores = held_out_scores(model, probabilities, features, alpha)
                add_gains(read_only(scores), read_only(truth.indices), read_only(truth.indptr), gains[number])
    return gains


def held_out_scores(
    model: LabelModel, states: FloatArray, features: FloatArray, alpha: float | None
) -> FloatArray:
    """Return scores (n, L) for a penalty of the linear correction, without one by the states alone."""
    if alpha is None:
        return np.asarray(states @ model.labels.columns.T)
    # P gamma' + F B' for B = (Y'F - gamma P'F) G^-1 is [F G^-1, P - F G^-1 F'P] [Y'F, gamma]': one product with all
    # labels, and none of these with r^2 numbers.
    labels = np.concatenate([model.regression.labels, model.labels.columns], axis=1)
    solved = features.astype(np.float64) @ penalized_inverse(model.regression.gram, alpha)
    left = np.concatenate([solved, states - solved @ model.regression.states], axis=1)
    return np.asarray(left.astype(labels.dtype) @ labels.T)


@compiled
def add_gains(scores: FloatArray, indices: IntArray, indptr: IntArray, gains: NDArray[np.float64]) -> None:
    """Add the area under the curve and the precision of the first label to the number of each document.

    Shapes: `scores` (n, L), `indices, indptr`: CSR places of the true labels, `gains` (n,).

    >>> gains = np.zeros(2)
    >>> add_gains(np.array([[0.9, 0.1], [0.2, 0.3]]), np.array([0, 0, 1]), np.array([0, 1, 3]), gains)
    >>> gains
    array([2. , 1.5])
    """
    # A true label's place among all scores takes one comparison with each; ranks of all would take a sort of each row.
    # An equal score counts half, and so does each pair of two true labels, which is then taken off.
    for i in range(indptr.size - 1):
        row, n_true = scores[i], indptr[i + 1] - indptr[i]
        first, won = np.argmax(row), -n_true * (n_true - 1) / 2
        for entry in range(indptr[i], indptr[i + 1]):
            own, below, equal = row[indices[entry]], 0, 0
            for other in range(row.size):
                below += row[other] < own
                equal += row[other] == own
            won += below + 0.5 * (equal - 1)
            gains[i] += indices[entry] == first
        pairs = n_true * (row.size - n_true)
        gains[i] += won / pairs if pairs > 0 else 0.5
