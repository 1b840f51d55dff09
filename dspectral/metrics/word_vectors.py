"""Evaluation of word vectors on similarity judgments and analogies."""

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from dspectral._compiled import compiled
from dspectral.metrics.arguments import check_finite, check_hashable, check_list, check_matrix
from dspectral.types import Doubles, FloatArray, Int64s, is_sparse

REAL = int | float | np.integer | np.floating


class Similarity(NamedTuple):
    """Agreement on the pairs whose words both have vectors.

    `spearman`: rank correlation of cosines and judgments; NaN with fewer than two pairs or constant values. `n_pairs,
    coverage`: number of those pairs, and their share of all pairs.
    """

    spearman: float
    n_pairs: int
    coverage: float


def word_similarity(words: Sequence[str], vectors: FloatArray, pairs: Sequence[tuple[str, str, float]]) -> Similarity:
    """Return the rank correlation between cosines of word vectors and similarity judgments.

    Parameters
    ----------
    words : sequence of str
        Distinct words.
    vectors : ndarray, shape (n_words, k)
        Vector of each word, of any length.
    pairs : sequence of (str, str, float)
        Two words each, and their judged similarity.

    Returns
    -------
    Similarity
        Rank correlation, number of pairs that could be compared, and their share.

    Raises
    ------
    ValueError
        If there is no pair, or the numbers of words and vectors differ.

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> found = word_similarity(
    ...     ["cup", "mug", "sky"], vectors, [("cup", "mug", 9), ("cup", "sky", 1), ("cup", "x", 5)]
    ... )
    >>> round(found.spearman, 3), found.n_pairs, round(found.coverage, 3)
    (1.0, 2, 0.667)
    """
    row_by_word = index_words(words, vectors)
    pairs = check_entries("pairs", pairs, 2, 1)
    if not pairs:
        raise ValueError("pairs is empty, but must have at least one (word, word, number)")
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


def index_words(words: Sequence[str], vectors: FloatArray) -> dict[str, int]:
    """Return the row of the vector of each word, after validation."""
    word_list: list[Any] = check_hashable("words", check_list("words", words, "words"))
    if is_sparse(vectors):
        raise TypeError("vectors is sparse, but must be a dense array: use vectors.toarray()")
    n_vectors = len(check_finite("vectors", check_matrix("vectors", vectors)))
    if len(word_list) != n_vectors:
        raise ValueError(f"words has {len(word_list)} entries, but vectors has {n_vectors} rows: both must be equal")
    return {word: i for i, word in enumerate(word_list)}


def check_entries(name: str, entries: object, n_words: int, n_numbers: int = 0) -> list[tuple[Any, ...]]:
    """Return a list of tuples of words followed by numbers, or raise ValueError naming the invalid entry."""
    entry_list = check_list(name, entries, "tuples")
    for i, entry in enumerate(entry_list):
        fits = isinstance(entry, list | tuple) and len(entry) == n_words + n_numbers
        fits = fits and all(isinstance(word, Hashable) for word in entry[:n_words])
        if not fits or not all(isinstance(x, REAL) and np.isfinite(x) for x in entry[n_words:]):
            expected = ", ".join(["a word"] * n_words + ["a number"] * n_numbers)
            raise ValueError(f"{name}[{i}]={entry!r:.60} must be ({expected})")
    return entry_list


def normalize_vectors(vectors: FloatArray) -> Doubles:
    """Scale vectors to length 1 in double precision; zeros stay zero."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


EPSILON = 1e-3
"""Constant in the denominator of 3CosMul, which keeps it above zero."""


@compiled
def update_best_answers(
    cosines: NDArray[np.float32],
    rows: Int64s,
    question_words: Int64s,
    first: int,
    multiply: bool,
    best: NDArray[np.float32],
    answers: Int64s,
) -> None:
    """Replace answers (n_questions,) in place by words of a panel of cosines (n_given, n_panel) with higher scores."""
    # Invariant: answers[q] is the best word before column j for question q, best[q] its score. 3CosAdd is
    # b.w - a.w + c.w; 3CosMul is (1 + b.w) (1 + c.w) / (1 + a.w + 2 epsilon), four times the published score with
    # cosines shifted to [0, 1]. Cost: three cosines per question and word. The given words are excluded only when they
    # would win, which is rare.
    small = np.float32(2 * EPSILON)
    one = np.float32(1)
    for q in range(len(rows)):
        a, b, c = cosines[rows[q, 0]], cosines[rows[q, 1]], cosines[rows[q, 2]]
        top, answer = best[q], answers[q]
        for j in range(cosines.shape[1]):
            score = (one + b[j]) * (one + c[j]) / (one + a[j] + small) if multiply else b[j] - a[j] + c[j]
            # Strict comparison: ties go to the first word, whatever the panels.
            if score > top:
                word = first + j
                if word != question_words[q, 0] and word != question_words[q, 1] and word != question_words[q, 2]:
                    top, answer = score, word
        best[q], answers[q] = top, answer


PANEL_WORDS = 4096
"""Number of words whose cosines with the questions are in memory at a time."""


class Analogies(NamedTuple):
    """Accuracy on the questions whose words all have vectors (or NaN), and the number and share of those questions."""

    accuracy: float
    n_questions: int
    coverage: float


def analogy_accuracy(
    words: Sequence[str],
    vectors: FloatArray,
    questions: Sequence[tuple[str, str, str, str]],
    *,
    method: Literal["add", "mul"] = "add",
) -> Analogies:
    """Return the accuracy of answers to analogy questions, chosen among all words but the three of the question.

    Parameters
    ----------
    words : sequence of str
        Distinct words.
    vectors : ndarray, shape (n_words, k)
        Vector of each word, of any length.
    questions : sequence of (str, str, str, str)
        The words a, b, c and d of each question "what is to c as b is to a?", whose right answer is d.
    method : {"add", "mul"}, default="add"
        Score of a candidate: 3CosAdd, or 3CosMul with cosines shifted to [0, 1].

    Returns
    -------
    Analogies
        Accuracy, number of questions whose words all have vectors, and their share.

    Raises
    ------
    ValueError
        If there is no question, the method is unknown, or the numbers of words and vectors differ.

    Notes
    -----
    With g distinct words in the questions, ``2 g n_words k`` flops; ``4096 g`` numbers are held at a time.

    References
    ----------
    Mikolov, Yih and Zweig 2013, "Linguistic regularities in continuous space word representations"; Levy and
    Goldberg 2014, "Linguistic regularities in sparse and explicit word representations", equations 3 and 4.

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0, 0.1], [1.0, 1.0, 0.1], [0.0, 0.0, 1.0], [0.1, 1.0, 1.0]])
    >>> analogy_accuracy(["man", "woman", "king", "queen"], vectors, [("man", "woman", "king", "queen")])
    Analogies(accuracy=1.0, n_questions=1, coverage=1.0)
    """
    row_by_word = index_words(words, vectors)
    questions = check_entries("questions", questions, 4)
    if not questions:
        raise ValueError("questions is empty, but must have at least one (a, b, c, d)")
    if method not in ("add", "mul"):
        raise ValueError(f"method={method!r} must be 'add' or 'mul'")
    question_rows = [[row_by_word[word] for word in q] for q in questions if all(word in row_by_word for word in q)]
    share = len(question_rows) / len(questions)
    if not question_rows:
        return Analogies(float("nan"), 0, share)
    rows = np.array(question_rows)
    answers = _find_answers(normalize_vectors(vectors).astype(np.float32), rows[:, :3], multiply=method == "mul")
    return Analogies(float(np.mean(answers == rows[:, 3])), len(rows), share)


def _find_answers(vectors: NDArray[np.float32], question_words: Int64s, *, multiply: bool) -> Int64s:
    """Return the best word for each question, by panels of words."""
    # Cost: one product of the distinct given words with each panel, and PANEL_WORDS numbers for each in memory.
    distinct, rows = np.unique(question_words, return_inverse=True)
    best = np.full(len(question_words), -np.inf, dtype=np.float32)
    answers = np.full(len(question_words), -1)
    for first in range(0, len(vectors), PANEL_WORDS):
        # One matrix product per panel instead of three cosines for each question and word.
        cosines = np.ascontiguousarray(vectors[distinct] @ vectors[first : first + PANEL_WORDS].T)
        update_best_answers(cosines, rows.reshape(question_words.shape), question_words, first, multiply, best, answers)
    return answers
