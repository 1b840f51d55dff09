"""Model selection on leave-one-out scores of held-out documents."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.linalg import sparse_products
from dspectral.methods.multilabel.documents import linear_features, word_rows
from dspectral.methods.multilabel.latent_states import EigenbasisRegression, LabelModel, ScoringWeights
from dspectral.methods.multilabel.passes import MAX_COEFFICIENTS, FirstPassResult
from dspectral.methods.multilabel.prediction import MIN_SCORE, Threshold, shift_rows
from dspectral.methods.multilabel.recipe import Settings
from dspectral.methods.multilabel.summaries import compute_posteriors
from dspectral.types import Bools, CSRRows, Doubles, FloatArray, IntArray

MAX_CALIBRATED_LABELS = 10
"""Maximum number of labels with calibrated probabilities."""
MIN_DOCUMENTS, MIN_HELD_OUT, MAX_PRODUCTS, N_POOLED_SCORES = 30, 256, 1 << 29, 1 << 15
"""Minimum number of documents for model selection; minimum number held out; maximum number of products of features and
labels beyond that; number of scores for the scale of all labels."""
MANY_LABELS, MANY_LABELS_SCORING = 8.0, ScoringWeights(0.8, 20.0, 10.0)
"""Mean number of labels of a document from which this candidate is preferred: ridge regression ranks the first labels
better, and the precision of one label of each document is too noisy to show it."""
ROW_WEIGHTS = (0.0, 0.15, 0.3)
"""Candidate weights of the best score of a document in the threshold of its labels, in order of preference on ties."""
MAX_PREDICTED = 8
"""Maximum number of labels that a threshold predicts for each true label."""
STATE_PRIOR = 8.0
"""Number of pseudo-documents with average label rates added to each state."""


class Scoring(NamedTuple):
    """Selected scoring of labels.

    Shapes: `odds_scales` (L, 2): shift and scale of the log-odds; `label_scales` (L, 2): of the final scores, None for
    many labels. `n_held_out`: number of held-out documents. `threshold`: None without these.
    """

    linear: ScoringWeights
    regression: EigenbasisRegression
    odds_scales: Doubles
    n_held_out: int
    label_scales: Doubles | None
    threshold: Threshold | None = None


def select_scoring(leading: FirstPassResult, model: LabelModel, settings: Settings) -> Scoring:
    """Return the first scoring within one standard error of the best, with calibrated scales.

    Its penalty of the log-odds is the geometric mean over scorings within that error that only differ in it.
    """
    regression, candidates = EigenbasisRegression.from_sums(model.regression), settings.scoring_candidates
    n_labels = len(regression.labels)
    n = min(len(leading.sample.hashes), max(MIN_HELD_OUT, MAX_PRODUCTS // max(1, regression.labels.size)))
    n = min(n, max(MIN_DOCUMENTS, MAX_COEFFICIENTS // n_labels))
    if n < MIN_DOCUMENTS:
        plain = np.tile([0.0, 1.0], (n_labels, 1))
        return Scoring(candidates[0], regression, plain, 0, plain if n_labels <= MAX_CALIBRATED_LABELS else None)
    if regression.rates.sum() >= MANY_LABELS and len({candidate.odds_alpha for candidate in candidates}) > 1:
        candidates = (MANY_LABELS_SCORING, *candidates)
    held_out = LeaveOneOutScores.from_sample(leading, regression, model, settings, n)
    has_positives = regression.rates * n >= 1.0  # at least one expected positive document
    ridges = {alpha: held_out.ridge(alpha) for alpha in dict.fromkeys(candidate.alpha for candidate in candidates)}
    gains, common = _candidate_gains(held_out, candidates, ridges, has_positives)
    tied = [candidate for candidate, near in zip(candidates, select_near_best(gains), strict=True) if near]
    penalties = [each.odds_alpha for each in tied if each._replace(odds_alpha=tied[0].odds_alpha) == tied[0]]
    best = tied[0]._replace(odds_alpha=math.prod(penalties) ** (1 / len(penalties)))
    odds, common_scale = held_out.odds(best.odds_alpha), np.mean([common[alpha] for alpha in penalties], axis=0)
    scales = platt_scales(odds, held_out.truth, has_positives, common_scale)
    scores = scales[:, 0] + scales[:, 1] * odds + best.weight * ridges[best.alpha]
    scores += best.states * (held_out.states - scores)
    label_scales = probability_scales(scores, held_out.truth) if n_labels <= MAX_CALIBRATED_LABELS else None
    threshold = select_threshold(scores, held_out.truth > 0, settings.predict_for)
    return Scoring(best, regression, scales, n, label_scales, threshold)


def select_threshold(scores: FloatArray, truth: Bools, predict_for: str) -> Threshold:
    """Return the threshold of highest micro F1, or of highest subset accuracy for "subset". Shapes: both (n, L).

    >>> select_threshold(np.array([[3.0, 1.0], [0.5, 2.0]]), np.array([[True, False], [False, True]]), "f1")
    Threshold(level=1.5, row_weight=0.0)
    """
    sweep = sweep_subset_accuracy if predict_for == "subset" else sweep_micro_f1
    values = [sweep(shift_rows(scores, weight), truth) for weight in ROW_WEIGHTS]
    best = int(np.argmax([value for value, _ in values]))
    return Threshold(values[best][1], ROW_WEIGHTS[best])


def sweep_micro_f1(scores: FloatArray, truth: Bools) -> tuple[float, float]:
    """Return the highest micro F1 of a threshold, and the threshold."""
    flat, n_true = scores.ravel(), int(truth.sum())
    n = min(flat.size, MAX_PREDICTED * n_true + 2)
    first = np.argpartition(-flat, n - 1)[:n]
    order = first[np.argsort(-flat[first], kind="stable")]
    ordered = np.append(flat[order], flat[order[-1]] - 1)
    f1 = 2 * np.cumsum(truth.ravel()[order]) / (np.arange(1, n + 1) + n_true)
    f1[ordered[1:] == ordered[:-1]] = 0  # no threshold separates equal scores
    best = int(np.argmax(f1))
    return float(f1[best]), float(ordered[best : best + 2].mean())


def sweep_subset_accuracy(scores: FloatArray, truth: Bools) -> tuple[float, float]:
    """Return the highest share of documents with exactly the true labels above a threshold, and the threshold."""
    # A document is right for thresholds from its best wrong label up to its worst true one.
    low, high = (np.where(truth == side, fill, scores) for side, fill in ((True, -np.inf), (False, np.inf)))
    bounds = np.column_stack([low.max(axis=1), high.min(axis=1)])
    bounds = np.sort(bounds[bounds[:, 0] < bounds[:, 1]], axis=0)
    events = np.unique(np.append(bounds[np.isfinite(bounds)], scores.max()))
    levels = np.concatenate([events[:1] - 1, (events[1:] + events[:-1]) / 2, events[-1:] + 1])
    n_right = np.searchsorted(bounds[:, 0], levels, "right") - np.searchsorted(bounds[:, 1], levels, "right")
    best = int(np.argmax(n_right))
    return float(n_right[best] / len(scores)), float(levels[best])


def _candidate_gains(
    held_out: "LeaveOneOutScores",
    candidates: Sequence[ScoringWeights],
    ridges: Mapping[float, FloatArray],
    has_positives: Bools,
) -> tuple[FloatArray, dict[float, Doubles]]:
    """Return the gain of each candidate on each document, and the common label scale for each penalty."""
    truth, dtype, n = held_out.truth, held_out.truth.dtype, len(held_out.truth)
    # Cross-fitting: the scales of each half are fitted on the other. Halves by hash keep duplicates together.
    halves = [np.arange(n) < n // 2, np.arange(n) >= n // 2]
    gains, common = np.zeros((len(candidates), n)), {}
    n_first = max(MIN_DOCUMENTS, N_POOLED_SCORES // truth.shape[1])
    for penalty in dict.fromkeys(candidate.odds_alpha for candidate in candidates):
        odds, common_scale = held_out.odds(penalty), np.array([[0.0, 1.0]])
        first_odds, first_truth = odds[:n_first].reshape(-1, 1), truth[:n_first].reshape(-1, 1)
        add_scales(read_only(first_odds), read_only(first_truth), common_scale)
        common[penalty], calibrated_odds = common_scale, np.empty_like(odds)
        for half in halves:
            scales = platt_scales(odds[~half], truth[~half], has_positives, common_scale)
            shift, scale = scales.T.astype(dtype)
            calibrated_odds[half] = shift + scale * odds[half]
        for candidate, gain in zip(candidates, gains, strict=True):
            if candidate.odds_alpha == penalty:
                scores = calibrated_odds + dtype.type(candidate.weight) * ridges[candidate.alpha]
                if candidate.states:
                    scores += dtype.type(candidate.states) * (held_out.states - scores)
                labels = held_out.labels
                add_gains(read_only(scores), read_only(labels.indices), read_only(labels.indptr), gain)
    return gains, common


def _state_scores(
    posterior: FloatArray, truth: FloatArray, regression: EigenbasisRegression, model: LabelModel
) -> FloatArray:
    """Return log-probabilities of the labels given the states (n, L), excluding each document's own labels."""
    dtype = posterior.dtype
    shares = posterior / (model.label_state_counts[-1] - posterior + dtype.type(STATE_PRIOR))
    scores = shares @ (model.label_state_counts[:-1].T + STATE_PRIOR * regression.rates).astype(dtype)
    scores -= truth * np.einsum("ij,ij->i", shares, posterior)[:, None]
    return np.log(np.maximum(scores, dtype.type(MIN_SCORE)))


def probability_scales(scores: FloatArray, truth: FloatArray) -> Doubles:
    """Return the shift and scale (L, 2) from scores (n, L) to log-odds, by logistic regression.

    >>> probability_scales(np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[0.0], [1.0], [0.0], [1.0]])).round(1)
    array([[-2.2,  0.9]])
    """
    mean, spread = scores.mean(axis=0, dtype=np.float64), scores.std(axis=0, dtype=np.float64)
    spread[spread == 0] = 1.0
    n_true = truth.sum(axis=0, dtype=np.float64) + 0.5
    scales = np.column_stack([np.log(n_true / (len(truth) + 1 - n_true)), np.ones(len(mean))])
    add_scales(read_only((scores - mean) / spread), read_only(truth), scales)
    scale = np.maximum(scales[:, 1], 0) / spread
    return np.column_stack([scales[:, 0] - scale * mean, scale])


def platt_scales(odds: FloatArray, truth: FloatArray, has_positives: Bools, default_scales: Doubles) -> Doubles:
    """Return the Platt shift and scale (L, 2) of the log-odds of each label; the common ones without positives."""
    scales = np.repeat(default_scales, odds.shape[1], axis=0)
    label_scales = np.repeat(default_scales, int(has_positives.sum()), axis=0)
    add_scales(read_only(odds[:, has_positives]), read_only(truth[:, has_positives]), label_scales)
    scales[has_positives] = label_scales
    return scales


@compiled
def add_scales(odds: FloatArray, truth: FloatArray, scales: Doubles) -> None:
    """Fit ``shift + scale * odds`` to each label (column) by logistic regression, shrunk to the given scales.

    Shapes: `odds, truth` (n, L), `scales` (L, 2): start, overwritten by the fit; the penalty is the squared distance.

    >>> scales = np.array([[0.0, 1.0]])
    >>> add_scales(np.zeros((3, 1)), np.array([[1.0], [1.0], [0.0]]), scales)
    >>> scales.round(1)
    array([[0.3, 1. ]])
    """
    # Newton's method in two unknowns, with steps of at most 1 and 0.3, since it overshoots on separable labels.
    for label in range(odds.shape[1]):
        shift, scale = scales[label, 0], scales[label, 1]
        for _ in range(12):
            g0, g1 = shift - scales[label, 0], scale - scales[label, 1]
            h00, h01, h11 = 1.0, 0.0, 1.0
            for i in range(odds.shape[0]):
                x = odds[i, label]
                p = 1.0 / (1.0 + np.exp(-min(max(shift + scale * x, -30.0), 30.0)))
                residual, weight = p - truth[i, label], p * (1.0 - p)
                g0, g1 = g0 + residual, g1 + residual * x
                h00, h01, h11 = h00 + weight, h01 + weight * x, h11 + weight * x * x
            determinant = h00 * h11 - h01 * h01
            shift_step, scale_step = (h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant
            step_divisor = max(1.0, abs(shift_step), abs(scale_step) / 0.3)
            shift, scale = shift - shift_step / step_divisor, scale - scale_step / step_divisor
            if abs(shift_step) + abs(scale_step) < 1e-2:
                break
        scales[label, 0], scales[label, 1] = shift, scale


class LeaveOneOutScores(NamedTuple):
    """Leave-one-out scores of held-out documents without a second fit.

    Shapes: `features, squares` (n, r): in the eigenbasis; `rest` (n, L): products of the features with the rest of
    ``Y'F``; `rest_squares` (n, 1): squared lengths outside of the eigenbasis; `truth` (n, L); `labels`: the same,
    sparse; `states` (n, L): log-probabilities of the labels given the states.
    """

    features: FloatArray
    squares: FloatArray
    rest: FloatArray
    rest_squares: FloatArray
    truth: FloatArray
    labels: CSRRows
    states: FloatArray
    regression: EigenbasisRegression

    @classmethod
    def from_sample(
        cls,
        leading: FirstPassResult,
        regression: EigenbasisRegression,
        model: LabelModel,
        settings: Settings,
        n: int,
    ) -> "LeaveOneOutScores":
        """Return the first ``n`` documents of the sample in the eigenbasis."""
        words, labels, dtype = leading.sample.words[:n], leading.sample.labels[:n], regression.values.dtype
        word_features, direction_features = linear_features(
            words, leading.column_weights, leading.own_words, leading.directions, dtype
        )
        m, mean, directions = word_features.shape[1], regression.mean, direction_features[:, :-1]

        def multiply(columns: FloatArray) -> FloatArray:
            """Return the product of the centered features with columns (q, c)."""
            product = sparse_products.times(word_features, np.ascontiguousarray(columns[:m]))
            product += directions @ columns[m:]
            return product - (mean @ columns).astype(dtype)

        features = multiply(regression.eigenvectors)
        squares = features * features
        rest = multiply(regression.products.T) - features @ regression.labels.T
        lengths = word_features.power(2).sum(axis=1) + np.einsum("ij,ij->i", directions, directions)
        lengths -= 2 * multiply(mean[:, None].astype(dtype))[:, 0] + mean @ mean
        rest_squares = np.maximum(lengths - squares.sum(axis=1), 0).astype(dtype)[:, None]
        truth = labels.toarray().astype(dtype)
        rows = word_rows(words, keep_counts=settings.counts, dtype=dtype)
        scores = sparse_products.times(rows, model.log_words) + np.log(model.weights)
        states = _state_scores(compute_posteriors(scores)[0].astype(dtype), truth, regression, model)
        return cls(features, squares, rest, rest_squares, truth, labels, states, regression)

    def ridge(self, alpha: float) -> FloatArray:
        """Return the scores (n, L) of the ridge regression."""
        start = self.regression.rates.astype(self.truth.dtype)
        return self._exclude_own_target(np.ones((1, 1), dtype=start.dtype), alpha, start, self.truth)

    def odds(self, alpha: float) -> FloatArray:
        """Return the log-odds (n, L)."""
        start, spread = self.regression.log_odds.astype(self.truth.dtype), self.regression.spread
        target = start + (self.truth - 1 / (1 + np.exp(-start))) / spread[:, 0]
        return self._exclude_own_target(spread, alpha, start, target)

    def _exclude_own_target(
        self, spread: FloatArray, alpha: float, start: FloatArray, target: FloatArray
    ) -> FloatArray:
        # A linear smoother with leverage h has the leave-one-out score (score - h target) / (1 - h).
        inside, outside = self.regression.inverses(spread, alpha)
        scores = self.features @ (self.regression.labels * inside).T + self.rest * outside.T + start
        share = self.squares @ (spread * inside).T + self.rest_squares * (spread * outside).T
        share = np.minimum(share + share.dtype.type(1.0 / self.regression.n_rows), 0.999)
        return (scores - share * target) / (1 - share)


def select_near_best(gains: FloatArray) -> Bools:
    """Return a mask of candidates (rows of gains) whose mean gain is within one standard error of the best."""
    loss = gains[int(np.argmax(gains.mean(axis=1)))] - gains
    error = loss.std(axis=1) / np.sqrt(gains.shape[1])
    return loss.mean(axis=1) <= error


@compiled
def add_gains(scores: FloatArray, indices: IntArray, indptr: IntArray, gains: Doubles) -> None:
    """Add the AUC and the precision at 1 of each document to its gain.

    Shapes: `scores` (n, L), `indices, indptr`: true labels as CSR, `gains` (n,).

    >>> gains = np.zeros(2)
    >>> add_gains(np.array([[0.9, 0.1], [0.2, 0.3]]), np.array([0, 0, 1]), np.array([0, 1, 3]), gains)
    >>> gains
    array([2. , 1.5])
    """
    # The rank of a true label takes one comparison with each score, cheaper than sorting the row. Ties count half;
    # pairs of two true labels are subtracted.
    for i in range(indptr.size - 1):
        row, n_true = scores[i], indptr[i + 1] - indptr[i]
        first, n_won_pairs = np.argmax(row), -n_true * (n_true - 1) / 2
        for entry in range(indptr[i], indptr[i + 1]):
            own_score, below, equal = row[indices[entry]], 0, 0
            for other in range(row.size):
                below += row[other] < own_score
                equal += row[other] == own_score
            n_won_pairs += below + 0.5 * (equal - 1)
            gains[i] += indices[entry] == first
        pairs = n_true * (row.size - n_true)
        gains[i] += n_won_pairs / pairs if pairs > 0 else 0.5
