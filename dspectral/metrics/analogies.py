"""How often word vectors complete an analogy: what is to c as b is to a."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.kernels.analogies import better_answers
from dspectral.metrics.similarity import numbers_of, unit

TILE = 4096
"""Words tried at once."""


class Analogies(NamedTuple):
    """Share of right answers to the questions whose four words have vectors.

    Attributes
    ----------
    accuracy : float
        NaN where there is no such question.
    n_questions : int
        Questions with vectors.
    coverage : float
        Their share of all questions.
    """

    accuracy: float
    n_questions: int
    coverage: float


def analogy_accuracy(
    words: Sequence[str],
    vectors: NDArray[Any],
    questions: Sequence[tuple[str, str, str, str]],
    *,
    method: Literal["add", "mul"] = "add",
) -> Analogies:
    """Answer each question with one of all words but the three in the question.

    Parameters
    ----------
    words : sequence of str
        Distinct.
    vectors : ndarray, shape (n_words, k)
    questions : sequence of (str, str, str, str)
        a, b, c, d: what is to c as b is to a? d is right.
    method : {"add", "mul"}
        3CosAdd, or 3CosMul with cosines moved to [0, 1].

    Returns
    -------
    Analogies

    Raises
    ------
    ValueError
        If there is no question, the method is unknown, or the words are not as many as the vectors.

    Notes
    -----
    With g distinct words in the questions, ``2 g n_words k`` flops of a product and 3 (``"mul"``: 6) times
    ``n_questions n_words`` more; ``4096 g`` numbers at once.

    References
    ----------
    Mikolov, Yih and Zweig 2013; Levy and Goldberg 2014.

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0, 0.1], [1.0, 1.0, 0.1], [0.0, 0.0, 1.0], [0.1, 1.0, 1.0]])
    >>> analogy_accuracy(["man", "woman", "king", "queen"], vectors, [("man", "woman", "king", "queen")])
    Analogies(accuracy=1.0, n_questions=1, coverage=1.0)
    """
    numbers = numbers_of(words, vectors)
    if not len(questions):
        raise ValueError("there is no analogy question to answer")
    if method not in ("add", "mul"):
        raise ValueError(f"method is {method!r}, but it must be 'add' or 'mul'")
    known = [[numbers[word] for word in q] for q in questions if all(word in numbers for word in q)]
    share = len(known) / len(questions)
    if not known:
        return Analogies(float("nan"), 0, share)
    asked = np.array(known)
    answers = _answers(unit(vectors).astype(np.float32), asked[:, :3], multiply=method == "mul")
    return Analogies(float(np.mean(answers == asked[:, 3])), len(asked), share)


def _answers(vectors: NDArray[np.float32], given: NDArray[np.int64], *, multiply: bool) -> NDArray[np.int64]:
    """Answer all questions tile by tile: a word that is in many questions is compared with the others once."""
    distinct, rows = np.unique(given, return_inverse=True)
    best = np.full(len(given), -np.inf, dtype=np.float32)
    answers = np.full(len(given), -1)
    for first in range(0, len(vectors), TILE):
        cosines = np.ascontiguousarray(vectors[distinct] @ vectors[first : first + TILE].T)
        better_answers(cosines, rows.reshape(given.shape), given, first, multiply, best, answers)
    return answers
