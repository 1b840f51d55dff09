"""How often word vectors complete an analogy: what is to c as b is to a."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.metrics.similarity import numbers_of, unit

EPSILON = 1e-3
"""Of 3CosMul, so that nothing is divided by zero."""
STEP = 512
"""Questions answered at once."""


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
    ``2 n_questions n_words k`` flops (three times that for ``"mul"``); 512 x n_words numbers at once.

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
    unit_vectors = unit(vectors).astype(np.float32)
    right = 0
    for start in range(0, len(asked), STEP):
        some = asked[start : start + STEP]
        scores = _scores(unit_vectors, some, method)
        scores[np.arange(len(some))[:, None], some[:, :3]] = -np.inf
        right += int(np.sum(scores.argmax(axis=1) == some[:, 3]))
    return Analogies(right / len(asked), len(asked), share)


def _scores(vectors: NDArray[np.float32], asked: NDArray[np.int64], method: str) -> NDArray[np.float32]:
    a, b, c = (vectors[asked[:, i]] for i in range(3))
    if method == "add":
        return np.asarray((b - a + c) @ vectors.T)
    near = (1 + b @ vectors.T) * (1 + c @ vectors.T)
    return np.asarray(near / (1 + a @ vectors.T + 2 * EPSILON))
