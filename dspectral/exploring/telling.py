"""Which words tell most about a text: those that cluster in few documents."""

import numpy as np
from numpy.typing import NDArray


def telling(
    counts: NDArray[np.int64], document_frequency: NDArray[np.int64], n_documents: int
) -> NDArray[np.float64]:
    """Return how telling each word is: the root of its count times its residual inverse document frequency.

    Shapes: `counts` (n_words,), `document_frequency` (n_words,); returns (n_words,).

    Church and Gale 1995, "Inverse document frequency (IDF): a measure of deviations from Poisson".

    >>> telling(np.array([50, 50]), np.array([10, 40]), 100).round(1)
    array([14.,  0.])
    """
    n = max(1, n_documents)
    seen = document_frequency > 0
    df = np.where(seen, document_frequency, 1)
    # Were the c tokens of a word thrown on n documents at random, a share 1 - exp(-c / n) of these would have it
    # (Poisson). expm1 keeps its digits where c is far below n.
    expected = -np.expm1(-counts / n)
    residual = np.log2(n / df) + np.log2(np.where(counts > 0, expected, 1.0))
    return np.asarray(np.where(seen, np.sqrt(counts) * np.maximum(0.0, residual), 0.0))
