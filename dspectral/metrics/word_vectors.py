"""How well word vectors agree with judgments of similarity, and complete analogies."""

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
    """Agreement on the pairs whose two words have vectors.

    `spearman`: rank correlation of cosines and judgments, where equal values share their rank; NaN where fewer than two
    pairs are left, or one side is constant. `n_pairs, coverage`: number of those pairs, and their share among all.
    """

    spearman: float
    n_pairs: int
    coverage: float


def word_similarity(
    words: Sequence[str], vectors: FloatArray, pairs: Sequence[tuple[str, str, float]]
) -> Similarity:
    """Correlate the cosines of word vectors with judgments.

    Parameters
    ----------
    words : sequence of str
        Distinct words.
    vectors : ndarray, shape (n_words, k)
        The vector of each word; lengths do not matter.
    pairs : sequence of (str, str, float)
        Two words each, and how similar people find them.

    Returns
    -------
    Similarity
        Rank correlation, number of pairs that could be compared, and their share.

    Raises
    ------
    ValueError
        If there is no pair, or the words are not as many as the vectors.

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> found = word_similarity(
    ...     ["cup", "mug", "sky"], vectors, [("cup", "mug", 9), ("cup", "sky", 1), ("cup", "x", 5)]
    ... )
    >>> round(found.spearman, 3), found.n_pairs, round(found.coverage, 3)
    (1.0, 2, 0.667)
    """
    row_of = index_words(words, vectors)
    pairs = check_entries("pairs", pairs, 2, 1)
    if not pairs:
        raise ValueError("there is no pair of words to compare")
    known = [(row_of[a], row_of[b], score) for a, b, score in pairs if a in row_of and b in row_of]
    share = len(known) / len(pairs)
    if len(known) < 2:
        return Similarity(float("nan"), len(known), share)
    first, second, judged = (np.array(column) for column in zip(*known, strict=True))
    # Only the words of the pairs are scaled, not the whole vocabulary.
    cosines = np.einsum("ij,ij->i", *(normalize_vectors(np.asarray(vectors)[ids]) for ids in (first, second)))
    # Ranks of a constant have no correlation; SciPy would warn and return NaN as well.
    if np.ptp(judged) == 0 or np.ptp(cosines) == 0:
        return Similarity(float("nan"), len(known), share)
    return Similarity(float(spearmanr(cosines, judged).statistic), len(known), share)


def index_words(words: Sequence[str], vectors: FloatArray) -> dict[str, int]:
    """Return the row of each word's vector."""
    known: list[Any] = check_hashable("words", check_list("words", words, "words"))
    if is_sparse(vectors):
        raise TypeError("vectors is sparse, but it must be an array")
    n_vectors = len(check_finite("vectors", check_matrix("vectors", vectors)))
    if len(known) != n_vectors:
        raise ValueError(f"there are {len(known)} words, but {n_vectors} vectors")
    return {word: i for i, word in enumerate(known)}


def check_entries(name: str, entries: object, n_words: int, n_numbers: int = 0) -> list[tuple[Any, ...]]:
    """Return a list of entries of some words, then some numbers each."""
    found = check_list(name, entries, "tuples")
    for i, entry in enumerate(found):
        fits = isinstance(entry, list | tuple) and len(entry) == n_words + n_numbers
        fits = fits and all(isinstance(word, Hashable) for word in entry[:n_words])
        if not fits or not all(isinstance(x, REAL) and np.isfinite(x) for x in entry[n_words:]):
            wanted = ", ".join(["a word"] * n_words + ["a number"] * n_numbers)
            raise ValueError(f"{name}[{i}] is {entry!r:.60}, but it must be ({wanted})")
    return found


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
    given: Int64s,
    first: int,
    multiply: bool,
    best: NDArray[np.float32],
    answers: Int64s,
) -> None:
    """Replace answers (n_questions,) by words of a tile (n_given, n_tile) that score higher."""
    # Invariant: answers[q] is the best word before column j for question q, best[q] its score. 3CosAdd is
    # b.w - a.w + c.w; 3CosMul is (1 + b.w) (1 + c.w) / (1 + a.w + 2 epsilon), four times the published score, whose
    # cosines are moved to [0, 1]. Three cosines are read for each pair of a question and a word. Whether a word is
    # one of the three given ones is asked only when it would win, which is seldom.
    small = np.float32(2 * EPSILON)
    one = np.float32(1)
    for q in range(len(rows)):
        a, b, c = cosines[rows[q, 0]], cosines[rows[q, 1]], cosines[rows[q, 2]]
        top, answer = best[q], answers[q]
        for j in range(cosines.shape[1]):
            score = (one + b[j]) * (one + c[j]) / (one + a[j] + small) if multiply else b[j] - a[j] + c[j]
            # A strict comparison leaves equal scores to the word that comes first, in whatever tiles the words are
            # read.
            if score > top:
                word = first + j
                if word != given[q, 0] and word != given[q, 1] and word != given[q, 2]:
                    top, answer = score, word
        best[q], answers[q] = top, answer


TILE = 4096
"""Words whose cosines with the questions are held at a time."""


class Analogies(NamedTuple):
    """Share of right answers to the questions whose words have vectors, or NaN, and the number and share of those."""

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
    """Answer each question with one of all words but the three in the question.

    Parameters
    ----------
    words : sequence of str
        Distinct words.
    vectors : ndarray, shape (n_words, k)
        The vector of each word; lengths do not matter.
    questions : sequence of (str, str, str, str)
        The words a, b, c and d of each question "what is to c as b is to a?", whose right answer is d.
    method : {"add", "mul"}, default="add"
        Score of a candidate: 3CosAdd, or 3CosMul with cosines moved to [0, 1].

    Returns
    -------
    Analogies
        Accuracy, number of questions that could be asked, and their share.

    Raises
    ------
    ValueError
        If there is no question, the method is unknown, or the words are not as many as the vectors.

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
    row_of = index_words(words, vectors)
    questions = check_entries("questions", questions, 4)
    if not questions:
        raise ValueError("there is no analogy question to answer")
    if method not in ("add", "mul"):
        raise ValueError(f"method is {method!r}, but it must be 'add' or 'mul'")
    known = [[row_of[word] for word in q] for q in questions if all(word in row_of for word in q)]
    share = len(known) / len(questions)
    if not known:
        return Analogies(float("nan"), 0, share)
    asked = np.array(known)
    answers = _answers(normalize_vectors(vectors).astype(np.float32), asked[:, :3], multiply=method == "mul")
    return Analogies(float(np.mean(answers == asked[:, 3])), len(asked), share)


def _answers(vectors: NDArray[np.float32], given: Int64s, *, multiply: bool) -> Int64s:
    """Answer all questions tile by tile: a word that is in many questions is compared with the others once."""
    # Cost: one product of the distinct given words with each tile, and TILE numbers for each of them in memory, in
    # place of all cosines of all words.
    distinct, rows = np.unique(given, return_inverse=True)
    best = np.full(len(given), -np.inf, dtype=np.float32)
    answers = np.full(len(given), -1)
    for first in range(0, len(vectors), TILE):
        # One matrix product a tile, in place of three cosines for each question and word.
        cosines = np.ascontiguousarray(vectors[distinct] @ vectors[first : first + TILE].T)
        update_best_answers(cosines, rows.reshape(given.shape), given, first, multiply, best, answers)
    return answers
