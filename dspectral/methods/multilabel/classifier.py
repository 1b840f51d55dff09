"""Classifier of any number of labels by the method of moments, and the choice of its linear part."""

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from dspectral._compiled import compiled, read_only
from dspectral.engine import emits_events, expect_passes, is_lazy
from dspectral.inputs.labels import (
    admit_labels,
    checked_documents,
    label_matrix,
    label_names,
    labelled_streams,
)
from dspectral.inputs.parameters import RandomState
from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.documents import linear_features, word_rows
from dspectral.methods.multilabel.latent_states import LabelModel, Linear, Turned
from dspectral.methods.multilabel.passes import (
    COEFFICIENTS,
    Leading,
    first_pass,
    label_pass,
    most_own_words,
    second_pass,
)
from dspectral.methods.multilabel.prediction import LEAST_SCORE, LabelPrediction
from dspectral.methods.multilabel.recipe import MultiLabelRecipe, Settings
from dspectral.methods.multilabel.summaries import posteriors
from dspectral.registry import Array, has_arrays, saved
from dspectral.types import FloatArray, IntArray, KeepPath, RowsLike, is_sparse

N_MOMENT_PASSES = 3
"""Passes before those of EM."""
N_COPIES = 6
"""Arrays of the labels' coefficients and states that the choice of the linear part holds at once."""


@has_arrays(
    {
        "classes_": Array("classes_", ""),
        "state_weights_": Array("k", at_least=0, sums=0),
        "word_distributions_": Array("n_features_in_ k", at_least=0),
        "label_distributions_": Array("classes_ k", at_least=0),
        "log_words_": Array("n_features_in_ k", finite=False),
        "directions_": Array("n_features_in_ s"),
        "own_words_": Array("m", "i", at_least=0, below="n_features_in_"),
        "linear_": Array("classes_ m+s+1", optional=True),
        "state_labels_": Array("classes_ k", at_least=0, optional=True),
        "document_frequency_": Array("n_features_in_", "i", at_least=0, below="n_documents_+1"),
        "label_totals_": Array("classes_", "i", at_least=0, below="n_documents_+1"),
        "label_scales_": Array("classes_ 2", optional=True),
    }
)
@saved
class MomentMultiLabelClassifier(LabelPrediction):
    """Learn any number of labels in three passes: latent states of documents, from moments of words and labels.

    A document has one hidden state; words and labels are drawn independently given it. The states' words come
    from the second and third moments of the words, their labels from the moment of labels with pairs of words,
    all in k whitened coordinates. A linear part, from sums of the same passes, scores labels by all words, or by the
    most telling ones and r directions; without one, or if left-out documents say so, the states score them.

    Parameters
    ----------
    n_states : int or "auto", default="auto"
        Number of states k. ``"auto"`` is 50, or as many as the words have independent directions.
    smoothing : float, default=0.9
        Share of the corpus' own distribution in every state's words, from 0 to 1. With 0 the algorithm is the
        printed one, and a word of probability 0 is floored at 1e-12. EM mixes labels as it does words.
        The default suits real documents, whose words are far from independent.
    n_em_iter : int, default=0
        Number of EM passes after the three of the moments.
    label_weight : float, default=16.0
        Weight of a label's log-likelihood relative to a word's in the E-step. 0 ignores labels; 1 is the model's
        likelihood; larger values make states follow the few labels rather than the many words.
    correction_rank : int, optional
        Number r of directions of the linear part that are found by the labels, where words are more than 2,048;
        ``n_states`` by default, 0 for no linear part: the paper's model alone. As many again are those of the words
        that the first lead to.
    recipe : MultiLabelRecipe, optional
        How the moments are taken and decomposed, by default as in the paper, and the penalty of the linear part, by
        default chosen. See :class:`~dspectral.MultiLabelRecipe`.
    random_state : int, RandomState, Generator or None, default=0
        Seed. The same seed and blocks give the same bits under every scheduler.

    Attributes
    ----------
    n_states_ : int
        Number of states.
    smoothing_ : float
        Share of the corpus.
    n_em_iter_ : int
        Number of EM passes.
    alpha_ : float or None
        Penalty of the log-odds, as it was given or chosen; None where there is no linear part.
    n_held_out_ : int
        Number of documents that the linear part was chosen on; 0 without one, or where there are fewer than 30.
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
        Words that have coefficients of their own: all that occur, where they are at most 2,048 and their coefficients
        for all labels 16 million, else the most telling.
    directions_ : ndarray, shape (n_words, s)
        Directions beside these words, at most 2 r; none where all words have coefficients.
    linear_ : ndarray, shape (n_labels, m + s + 1), or None
        Coefficients of the linear part: of the words, of the directions, and the intercept.
    state_share_ : float
        Share of a score that is the logarithm of the label's probability given the states, from 0 to 1.
    state_labels_ : ndarray, shape (n_labels, n_states), or None
        Probabilities of the labels in each state where states score beside the linear part.
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
    label_scales_ : ndarray, shape (n_labels, 2), or None
        Shift and scale that make a probability's log-odds of each score; None for more than ten labels, or without a
        linear part.
    labels_each_ : int or None
        Number of labels that each of the held-out documents has; None where these differ.
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
    in the second, with ``(n_words + n_labels) (n_states + 2 r)`` in later ones, and ``q (q + n_labels)`` in the last
    for q = m + s features; nothing grows with the documents. A document without labels counts for words.

    One eigendecomposition of the features' Gram matrix serves all labels and penalties: a Newton step of logistic
    regressions from the labels' rates, and ridge regression. Penalties, and a shift and a scale for the log-odds of
    each label, are learned on the at most 4,096 documents with the smallest hashes of their words, each scored by what
    all others teach.

    States count words, or see which occur. In the linear part a document of fractions, as TfidfTransformer gives
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
        smoothing: float = 0.9,
        n_em_iter: int = 0,
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
    def fit(self, X: RowsLike, y: "RowsLike | None" = None, *, keep: KeepPath = None) -> Self:
        """Learn from documents and their labels.

        Parameters
        ----------
        X : ndarray, SciPy sparse, Dask array of dense or CSR blocks, or store, shape (n_documents, n_words)
            Counts of words, not negative.
        y : ndarray, DataFrame, SciPy sparse or Dask array, shape (n_documents, n_labels), optional
            Matrix of 1 where a document has the label and 0 elsewhere, or of bool; by default the labels that the
            store X holds.
        keep : str or Path, optional
            Folder or URL for checkpoints, as :func:`dspectral.keep` takes it.

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
        data = labelled_streams(X, labels)
        if data.n_labels == 1 and not settings.rank:
            raise ValueError(
                "y has 1 label, but correction_rank=0 scores labels by their shares of a state, and these must be "
                "at least 2: leave correction_rank out, or give y a column for documents without the label"
            )
        most = most_own_words(data.n_labels)
        n_features = min(most, data.n_words) + 2 * min(settings.rank, data.n_words) * (data.n_words > most)
        n_each = min(settings.n_states, data.n_words) + (n_features + 1 if settings.rank else 0)
        admit_labels(data.n_labels, n_each, N_COPIES)
        expect_passes(N_MOMENT_PASSES + settings.n_em_iter)
        leading = first_pass(data, settings)
        leading, states = second_pass(data, leading, settings)
        # The last pass alone sums for the linear part.
        plain = leading._replace(directions=leading.directions[:, :0], own_words=leading.own_words[:0])
        model = label_pass(data, plain if settings.n_em_iter else leading, states, settings)
        for left in range(settings.n_em_iter - 1, -1, -1):
            model = label_pass(data, plain if left else leading, states, settings, model)
        # The tensor's order of states is an accident of its decomposition; the most probable state comes first.
        order = np.argsort(-model.weights, kind="stable")
        self.state_weights_ = model.weights[order]
        self.word_distributions_ = model.words.columns[:, order]
        self.label_distributions_ = model.labels.columns[:, order]
        self.log_words_ = model.log_words[:, order]
        self.directions_, self.own_words_, self.linear_ = leading.directions, leading.own_words, None
        self.alpha_, self.n_held_out_, self.state_share_, self.state_labels_ = None, 0, 1.0, None
        self.label_scales_, self.labels_each_ = None, None
        if settings.rank:
            turned = Turned.of(model.regression)
            linear, scales, self.n_held_out_, self.label_scales_ = chosen(leading, turned, model, settings)
            each = np.unique(np.diff(leading.sample.labels.indptr))
            self.labels_each_ = int(each[0]) if len(each) == 1 and each[0] else None
            self.linear_ = turned.coefficients(linear, scales)
            self.alpha_, self.state_share_ = linear.odds_alpha, linear.states
            if linear.states:
                having = model.known[:-1] + PRIOR * turned.rates[:, None]
                self.state_labels_ = (having / (model.known[-1] + PRIOR))[:, order].astype(model.known.dtype)
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


FEW = 10
"""Labels up to which each has a probability of its own."""
FEWEST, LEAST, WORK, SCORES = 30, 256, 1 << 29, 1 << 20
"""Documents to choose by: fewer say nothing; if more than that, so many products of features and labels. Scores from
which one scale for all labels is learned."""
PRIOR = 8.0
"""Documents with all labels at their rates that are added to each state."""


def chosen(
    leading: Leading, turned: Turned, model: LabelModel, settings: Settings
) -> tuple[Linear, NDArray[np.float64], int, NDArray[np.float64] | None]:
    """Choose how labels are scored by a sample, each of whose documents is scored by what all others teach.

    Returns it, the scales of the log-odds (L, 2), the number of documents, and the scales of all scores (L, 2) where
    labels are few.
    """
    sample, candidates = leading.sample, settings.candidates
    scales = np.tile([0.0, 1.0], (len(turned.labels), 1))
    n = min(len(sample.hashes), max(LEAST, WORK // max(1, turned.labels.size)))
    n = min(n, max(FEWEST, COEFFICIENTS // len(turned.labels)))
    few = len(turned.labels) <= FEW
    if n < FEWEST:
        return candidates[0], scales, 0, scales if few else None
    words, truth = sample.words[:n], sample.labels[:n]
    told = turned.rates * n >= 1.0  # labels that so many documents say something about
    dtype = turned.values.dtype
    own, wide = linear_features(words, leading.column_weights, leading.own_words, leading.directions, dtype)
    m = own.shape[1]
    Z = sparse_products.times(own, np.ascontiguousarray(turned.turn[:m])) + wide[:, :-1] @ turned.turn[m:]
    Z -= (turned.mean @ turned.turn).astype(dtype)
    Y = truth.toarray().astype(dtype)
    out = LeftOut(Z, Z * Z, Y, turned)
    rows = word_rows(words, counts=settings.counts, dtype=dtype)
    P = posteriors(sparse_products.times(rows, model.log_words) + np.log(model.weights))[0].astype(dtype)
    shares = P / (model.known[-1] - P + dtype.type(PRIOR))
    said = shares @ (model.known[:-1].T + PRIOR * turned.rates).astype(dtype)
    said -= Y * np.einsum("ij,ij->i", shares, P)[:, None]  # a document is not counted itself
    said = np.log(np.maximum(said, dtype.type(LEAST_SCORE)))
    ridges = {alpha: out.ridge(alpha) for alpha in dict.fromkeys(each.alpha for each in candidates)}
    # Halves by the hash, so that copies are in the same one: each is ranked by scales that the other taught.
    halves = [np.arange(n) < n // 2, np.arange(n) >= n // 2]
    gains, of_all = np.zeros((len(candidates), n)), {}
    most = max(FEWEST, SCORES // len(turned.labels))
    for penalty in dict.fromkeys(one.odds_alpha for one in candidates):
        odds, one = out.odds(penalty), np.array([[0.0, 1.0]])
        add_scales(read_only(odds[:most].reshape(-1, 1)), read_only(Y[:most].reshape(-1, 1)), one)
        of_all[penalty], ranked = one, np.empty_like(odds)
        for half in halves:
            shift, scale = scaled(odds[~half], Y[~half], told, one).T.astype(dtype)
            ranked[half] = shift + scale * odds[half]
        for each, gain in zip(candidates, gains, strict=True):
            if each.odds_alpha == penalty:
                both = ranked + dtype.type(each.weight) * ridges[each.alpha]
                if each.states:
                    both += dtype.type(each.states) * (said - both)
                add_gains(read_only(both), read_only(truth.indices), read_only(truth.indptr), gain)
    best = candidates[first_of_the_best(gains)]
    odds = out.odds(best.odds_alpha)
    scales = scaled(odds, Y, told, of_all[best.odds_alpha])
    if not few:
        return best, scales, n, None
    both = scales[:, 0] + scales[:, 1] * odds + best.weight * ridges[best.alpha]
    both += best.states * (said - both)
    return best, scales, n, probability_scales(both, Y)


def probability_scales(scores: FloatArray, truth: FloatArray) -> NDArray[np.float64]:
    """Return shift and scale (L, 2) of scores (n, L) that make log-odds of them, by logistic regression.

    >>> probability_scales(np.array([[100.0], [101.0], [102.0], [103.0]]), np.array([[0], [1], [0], [1]])).round(1)
    array([[-41.2,   0.4]])
    """
    scales = np.empty((scores.shape[1], 2))
    for label, (score, true) in enumerate(zip(scores.T.astype(np.float64), truth.T, strict=True)):
        rate, spread = float(true.mean()), score.std() or 1.0
        if rate in (0.0, 1.0):  # nothing to tell apart
            scales[label] = (2 * rate - 1) * np.log(2 * len(true) + 1), 0.0
            continue
        found = LogisticRegression().fit(((score - score.mean()) / spread)[:, None], true)
        scale = max(0.0, float(found.coef_[0, 0]) / spread)
        scales[label] = float(found.intercept_[0]) - float(found.coef_[0, 0]) * score.mean() / spread, scale
    return scales


def scaled(
    odds: FloatArray, truth: FloatArray, told: NDArray[np.bool_], one: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what makes log-odds true of each label: a shift and a scale (L, 2), those of all for labels not told."""
    each = np.repeat(one, odds.shape[1], axis=0)
    own = np.repeat(one, int(told.sum()), axis=0)
    add_scales(read_only(odds[:, told]), read_only(truth[:, told]), own)
    each[told] = own
    return each


@compiled
def add_scales(odds: FloatArray, truth: FloatArray, scales: NDArray[np.float64]) -> None:
    """Fit ``shift + scale * odds`` (column by column) to labels by logistic regression, close to the scales given.

    Shapes: `odds, truth` (n, L), `scales` (L, 2): where it starts, with a penalty of 1 on the squares of what is added.

    >>> scales = np.array([[0.0, 1.0]])
    >>> add_scales(np.zeros((3, 1)), np.array([[1.0], [1.0], [0.0]]), scales)
    >>> scales.round(1)
    array([[0.3, 1. ]])
    """
    # Newton's method in two unknowns, with steps of at most 1 and 0.3: where labels are told apart it would overshoot.
    for label in range(odds.shape[1]):
        shift, scale = scales[label, 0], scales[label, 1]
        for _ in range(12):
            g0, g1 = shift - scales[label, 0], scale - scales[label, 1]
            h00, h01, h11 = 1.0, 0.0, 1.0
            for i in range(odds.shape[0]):
                x = odds[i, label]
                p = 1.0 / (1.0 + np.exp(-min(max(shift + scale * x, -30.0), 30.0)))
                left, weight = p - truth[i, label], p * (1.0 - p)
                g0, g1 = g0 + left, g1 + left * x
                h00, h01, h11 = h00 + weight, h01 + weight * x, h11 + weight * x * x
            determinant = h00 * h11 - h01 * h01
            by0, by1 = (h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant
            within = max(1.0, abs(by0), abs(by1) / 0.3)
            shift, scale = shift - by0 / within, scale - by1 / within
            if abs(by0) + abs(by1) < 1e-3:
                break
        scales[label, 0], scales[label, 1] = shift, scale


class LeftOut(NamedTuple):
    """Documents that are scored as if each had not been learned from, without a second fit.

    Shapes: `features, squares` (n, q): turned; `truth` (n, L).
    """

    features: FloatArray
    squares: FloatArray
    truth: FloatArray
    turned: Turned

    def ridge(self, alpha: float) -> FloatArray:
        """Return the scores (n, L) of the ridge regression."""
        start = self.turned.rates.astype(self.truth.dtype)
        share = self.squares @ (1 / (self.turned.values[:, None] + start.dtype.type(alpha)))
        return self._without(self.features @ self.turned.ridge(alpha).T + start, self.truth, share)

    def odds(self, alpha: float) -> FloatArray:
        """Return the log-odds (n, L)."""
        start, spread = self.turned.log_odds.astype(self.truth.dtype), self.turned.spread
        share = self.squares @ (spread / (spread * self.turned.values + start.dtype.type(alpha))).T
        target = start + (self.truth - 1 / (1 + np.exp(-start))) / spread[:, 0]
        return self._without(self.features @ self.turned.odds(alpha).T + start, target, share)

    def _without(self, found: FloatArray, target: FloatArray, share: FloatArray) -> FloatArray:
        # A linear smoother that listens to a document's own target by a share h says (found - h target) / (1 - h)
        # where it has not heard it.
        share = np.minimum(share + 1.0 / self.turned.n_rows, 0.999).astype(found.dtype)
        return np.asarray((found - share * target) / (1 - share))


def first_of_the_best(gains: FloatArray) -> int:
    """Return the first candidate (row of gains) not worse than the best by one standard error of the difference."""
    # What differs by less than that is chance, and differences of rounding are smaller still.
    lost = gains[int(np.argmax(gains.mean(axis=1)))] - gains
    error = lost.std(axis=1) / np.sqrt(gains.shape[1])
    return int(np.argmax(lost.mean(axis=1) <= error))


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
