"""Scores of states, labels, rankings and word vectors that scikit-learn does not have."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, groupby
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata, spearmanr

from dspectral.types import is_sparse

Doubles: TypeAlias = "NDArray[np.float64]"
Floats: TypeAlias = "NDArray[np.floating]"

EPSILON = 1e-3
"""Constant in the denominator of 3CosMul, which keeps it above zero."""
PANEL_WORDS = 512
"""Number of words whose scores for all questions are in memory at a time."""


def document_auc(scores: Any, truth: Any) -> Doubles:
    """Return the area under the ROC curve of each document over the labels; NaN where all or no labels are true."""
    scores, (rows, columns, n_true) = _check_scores(scores, truth)
    n_labels = scores.shape[1]
    ranks = rankdata(scores, axis=1)
    total = np.bincount(rows, weights=ranks[rows, columns], minlength=len(scores))
    n_pairs = n_true * (n_labels - n_true)
    above = total - n_true * (n_true + 1) / 2.0
    return np.where(n_pairs > 0, above / np.maximum(n_pairs, 1), np.nan)


def precision_at(scores: Any, truth: Any, k: int) -> Doubles:
    """Return the share of true labels among the k best of each document; NaN without a true label."""
    hits, n_true, _ = find_hits(scores, truth, k)
    return np.where(n_true > 0, hits.sum(axis=1) / k, np.nan)


def find_hits(scores: Any, truth: Any, k: int) -> tuple[Doubles, NDArray[np.int64], NDArray[np.int64]]:
    """Return whether each of the k best labels is true (n, k), the number of true labels, and the labels (n, k)."""
    scores, (rows, columns, n_true) = _check_scores(scores, truth)
    n, n_labels = scores.shape
    if not 1 <= k <= n_labels:
        raise ValueError(f"k={k!r:.60} must be an integer from 1 to {n_labels}, the number of labels")
    best, predicted = _top_labels(scores, k)
    is_true = np.isin(np.arange(n)[:, None] * n_labels + best, rows * n_labels + columns)
    return (is_true & predicted).astype(np.float64), n_true, best


def _top_labels(scores: Any, k: int) -> tuple[Any, NDArray[np.bool_]]:
    """Return the columns of the k best labels of each row, and whether each of them has a stored score."""
    if not is_sparse(scores):
        return np.argsort(-scores, axis=1, kind="stable")[:, :k], np.ones((len(scores), k), dtype=bool)
    # Sort all stored entries by row, falling score and column; `position` is the rank within the row.
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, row))
    position = np.arange(scores.nnz) - scores.indptr[row]
    best = np.zeros((scores.shape[0], k), dtype=np.int64)
    predicted = np.zeros_like(best, dtype=bool)
    keep = position < k
    best[row[keep], position[keep]] = scores.indices[order][keep]
    predicted[row[keep], position[keep]] = True
    return best, predicted


def _check_scores(scores: Any, truth: Any) -> tuple[Any, tuple[Any, Any, Any]]:
    """Validate the arguments; return the scores, and rows, columns and counts per row of the true labels."""
    scores, truth = (part.tocsr() if is_sparse(part) else np.asarray(part) for part in (scores, truth))
    if scores.dtype.kind == "b":  # Boolean arrays cannot be negated by `-`
        scores = scores.astype(np.int8)
    if scores.shape != truth.shape:
        raise ValueError(f"scores.shape={scores.shape} must equal truth.shape={truth.shape}")
    if np.isnan(scores.data if is_sparse(scores) else scores).any():
        raise ValueError("scores contains NaN, which cannot be ranked: replace it by a number")
    rows, columns = (np.asarray(part, dtype=np.int64) for part in truth.nonzero())
    return scores, (rows, columns, np.bincount(rows, minlength=truth.shape[0]).astype(np.int64))


def ndcg_at(scores: Any, truth: Any, k: int) -> Doubles:
    """Return the discounted gain of the k best labels, divided by that of the best possible ranking."""
    hits, n_true, _ = find_hits(scores, truth, k)
    discounts = 1.0 / np.log2(np.arange(2.0, k + 2.0))
    # The best ranking has all true labels first. Documents without labels divide by 1 and become NaN below.
    ideal = np.concatenate([[1.0], np.cumsum(discounts)])[np.minimum(n_true, k)]
    return np.where(n_true > 0, hits @ discounts / ideal, np.nan)


def propensity_precision_at(scores: Any, truth: Any, k: int, propensities: Doubles) -> tuple[Doubles, Doubles]:
    """Return the propensity-weighted precision, with labels weighted by ``1 / propensity``, and its maximum."""
    hits, n_true, columns = find_hits(scores, truth, k)
    gains = 1.0 / propensities
    gained = (hits * gains[columns]).sum(axis=1) / k
    true_gains = sparse.csr_array(truth).astype(np.float64)
    # Largest possible gain: the first k true labels of each row by falling 1 / p.
    true_gains.eliminate_zeros()
    true_gains.data = gains[true_gains.indices]
    # The sort keeps the entries of a row together, so `row` and `indptr` are valid after it.
    n_rows = true_gains.shape[0]
    row = np.repeat(np.arange(n_rows), np.diff(true_gains.indptr))
    order = np.lexsort((-true_gains.data, row))
    position = np.arange(true_gains.nnz) - true_gains.indptr[row]
    best = np.bincount(row, weights=np.where(position < k, true_gains.data[order], 0.0), minlength=n_rows)
    return np.where(n_true > 0, gained, np.nan), np.where(n_true > 0, best / k, np.nan)


def label_propensities(
    label_totals: NDArray[np.number], n_documents: int, *, a: float = 0.55, b: float = 1.5
) -> Doubles:
    """Return the propensity of each label: the probability that a true label is recorded, from its frequency."""
    # c of the paper, with exp(-a log(n_l + b)) = (n_l + b)^-a.
    scale = (np.log(n_documents) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + scale * (label_totals + b) ** -a))


def contingency_table(y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return the contingency table of two lists, values in order of first appearance."""
    rows, columns = _encode_values(y_true), _encode_values(y_pred)
    table = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    # `table[rows, columns] += 1` would count repeated pairs once.
    np.add.at(table, (rows, columns), 1)
    return table


def _encode_values(values: Iterable[Hashable]) -> NDArray[np.int64]:
    """Encode values as integers in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


def many_to_one(y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> float:
    """Return the accuracy when each state is mapped to its most frequent tag."""
    table = contingency_table(y_true, y_pred)
    return float(table.max(axis=0).sum() / table.sum())


def one_to_one(y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> float:
    """Return the accuracy under the best one-to-one mapping of states to tags."""
    table = contingency_table(y_true, y_pred)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def frame_accuracy(y_true: Sequence[Sequence[Hashable]], y_pred: Sequence[Sequence[Hashable]]) -> float:
    """Return the share of frames, over all sequences, whose label is correct."""
    pairs = zip(chain.from_iterable(y_true), chain.from_iterable(y_pred), strict=True)
    return float(np.mean([true_label == found_label for true_label, found_label in pairs]))


def label_error_rate(y_true: Sequence[Sequence[Hashable]], y_pred: Sequence[Sequence[Hashable]]) -> float:
    """Return the edit distance between predicted and true runs of labels, divided by the number of true runs."""
    # The rate of all sequences together, not a mean of rates.
    edits = n_runs = 0
    for true_labels, found_labels in zip(y_true, y_pred, strict=True):
        true_runs = [label for label, _ in groupby(true_labels)]
        edits += edit_distance(true_runs, [label for label, _ in groupby(found_labels)])
        n_runs += len(true_runs)
    return edits / n_runs


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the smallest number of insertions, deletions and substitutions that turn one sequence into the other."""
    # Invariant: row[j] is the distance between the first i values of `first` and the first j values of `second`.
    row = list(range(len(second) + 1))
    for i, value in enumerate(first, start=1):
        before, row = row, [i]
        for j, candidate in enumerate(second, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (value != candidate)))
    return row[-1]


class Similarity(NamedTuple):
    """Agreement on the pairs whose words both have vectors."""

    spearman: float
    n_pairs: int
    coverage: float


def word_similarity(words: Sequence[str], vectors: Floats, pairs: Sequence[tuple[str, str, float]]) -> Similarity:
    """Return the rank correlation between cosines of word vectors and similarity judgments."""
    row_by_word = {word: row for row, word in enumerate(words)}
    scored_pairs = [
        (row_by_word[a], row_by_word[b], score) for a, b, score in pairs if a in row_by_word and b in row_by_word
    ]
    share = len(scored_pairs) / len(pairs)
    if len(scored_pairs) < 2:
        return Similarity(float("nan"), len(scored_pairs), share)
    first, second, judgments = (np.array(column) for column in zip(*scored_pairs, strict=True))
    # Normalize only the vectors of the pairs.
    cosines = np.einsum("ij,ij->i", *(normalize_vectors(np.asarray(vectors)[ids]) for ids in (first, second)))
    # The correlation with a constant is undefined; SciPy would warn and return NaN.
    if np.ptp(judgments) == 0 or np.ptp(cosines) == 0:
        return Similarity(float("nan"), len(scored_pairs), share)
    return Similarity(float(spearmanr(cosines, judgments).statistic), len(scored_pairs), share)


def normalize_vectors(vectors: Floats) -> Doubles:
    """Scale vectors to length 1 in double precision; zeros stay zero."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


class Analogies(NamedTuple):
    """Accuracy on the questions whose words all have vectors (or NaN), and the number and share of those questions."""

    accuracy: float
    n_questions: int
    coverage: float


def analogy_accuracy(
    words: Sequence[str],
    vectors: Floats,
    questions: Sequence[tuple[str, str, str, str]],
    *,
    method: Literal["add", "mul"] = "add",
) -> Analogies:
    """Return the accuracy of answers to analogy questions, chosen among all words but the three of the question."""
    row_by_word = {word: row for row, word in enumerate(words)}
    question_rows = [[row_by_word[word] for word in q] for q in questions if all(word in row_by_word for word in q)]
    share = len(question_rows) / len(questions)
    if not question_rows:
        return Analogies(float("nan"), 0, share)
    rows = np.array(question_rows)
    answers = _find_answers(normalize_vectors(vectors).astype(np.float32), rows[:, :3], multiply=method == "mul")
    return Analogies(float(np.mean(answers == rows[:, 3])), len(rows), share)


def _find_answers(vectors: NDArray[np.float32], question_words: NDArray[np.int64], *, multiply: bool) -> Any:
    """Return the best word for each question, by panels of words; ties go to the first word."""
    # Cost: one product of the distinct given words with each panel, and PANEL_WORDS numbers for each question.
    distinct, rows = np.unique(question_words, return_inverse=True)
    rows = rows.reshape(question_words.shape)
    questions = np.arange(len(question_words))
    best, answers = np.full(len(questions), -np.inf, dtype=np.float32), np.full(len(questions), -1)
    for first in range(0, len(vectors), PANEL_WORDS):
        cosines = vectors[distinct] @ vectors[first : first + PANEL_WORDS].T
        a, b, c = (cosines[rows[:, i]] for i in range(3))
        # 3CosMul is four times the published score with cosines shifted to [0, 1].
        scores = (1 + b) * (1 + c) / (1 + a + np.float32(2 * EPSILON)) if multiply else b - a + c
        for words in question_words.T - first:
            is_here = (words >= 0) & (words < scores.shape[1])
            scores[questions[is_here], words[is_here]] = -np.inf
        winners = scores.argmax(axis=1)
        is_better = scores[questions, winners] > best
        best[is_better] = scores[questions, winners][is_better]
        answers[is_better] = first + winners[is_better]
    return answers
