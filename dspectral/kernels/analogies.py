"""Analogy questions answered over a tile of the vocabulary at a time."""

import numpy as np
from numpy.typing import NDArray

from dspectral.kernels.compiled import compiled

EPSILON = 1e-3
"""Of 3CosMul, so that nothing is divided by zero."""


@compiled
def better_answers(
    cosines: NDArray[np.float32],
    rows: NDArray[np.int64],
    given: NDArray[np.int64],
    first: int,
    multiply: bool,
    best: NDArray[np.float32],
    answers: NDArray[np.int64],
) -> None:
    """Put the words of a tile in the place of worse answers.

    Parameters
    ----------
    cosines : ndarray of float32, shape (n_given, n_tile)
        Between all words that occur in a question and the words of the tile.
    rows : ndarray of int64, shape (n_questions, 3)
        a, b and c of each question, as rows of ``cosines``.
    given : ndarray of int64, shape (n_questions, 3)
        The same as words, which are no answers.
    first : int
        The tile's first word.
    multiply : bool
        3CosMul, not 3CosAdd.
    best : ndarray of float32, shape (n_questions,)
        Scores of the answers so far; changed in place.
    answers : ndarray of int64, shape (n_questions,)
        Changed in place; of equal ones the first stays.
    """
    small = np.float32(2 * EPSILON)
    one = np.float32(1)
    for q in range(len(rows)):
        a, b, c = cosines[rows[q, 0]], cosines[rows[q, 1]], cosines[rows[q, 2]]
        top, answer = best[q], answers[q]
        for j in range(cosines.shape[1]):
            score = (one + b[j]) * (one + c[j]) / (one + a[j] + small) if multiply else b[j] - a[j] + c[j]
            if score > top:
                word = first + j
                if word != given[q, 0] and word != given[q, 1] and word != given[q, 2]:
                    top, answer = score, word
        best[q], answers[q] = top, answer
