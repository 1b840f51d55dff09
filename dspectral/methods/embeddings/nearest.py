"""Vectors nearest to a sum of others, or to the answer of an analogy."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dspectral.types import FloatArray

EPSILON = 1e-3
"""Number that 3CosMul adds to each denominator, so that nothing is divided by zero."""


def nearest(
    vectors: FloatArray,
    positive: Sequence[int],
    negative: Sequence[int] = (),
    *,
    n: int = 10,
    method: Literal["add", "mul"] = "add",
    hidden: Sequence[int] = (),
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the vectors nearest to those given, which are not among the answers.

    Parameters
    ----------
    vectors : ndarray, shape (n_types, k)
        Vectors of length 1, or zero.
    positive, negative : sequence of int
        Rows that the answers should be near to and far from; at least one of either.
    n : int, default=10
        Number of answers; fewer are returned where there are not so many vectors.
    method : {"add", "mul"}, default="add"
        ``"add"`` scores by the cosine with the sum of the vectors (3CosAdd); ``"mul"`` by the product of the cosines
        with the positive ones, each moved to [0, 1], over that with the negative ones (3CosMul).
    hidden : sequence of int, default=()
        Rows that are never an answer.

    Returns
    -------
    ids : ndarray of int64, shape (n,)
        Rows, the nearest first; equally near ones in their order.
    scores : ndarray, shape (n,)
        Score of each answer.

    Raises
    ------
    ValueError
        If nothing is given, or the method is unknown.

    References
    ----------
    Levy and Goldberg 2014, "Linguistic regularities in sparse and explicit word representations".

    Examples
    --------
    >>> nearest(np.eye(3)[[0, 1, 0]], [0], n=2)[0]
    array([2, 1])
    """
    if not len(positive) and not len(negative):
        raise ValueError("at least one word must be given to be near to, or far from")
    if method == "add":
        target = vectors[list(positive)].sum(axis=0) - vectors[list(negative)].sum(axis=0)
        length = float(np.linalg.norm(target))
        scores = vectors @ (target / length if length else target)
    elif method == "mul":
        # Cosines are moved to [0, 1]: products of negative ones would change the order.
        near = (1 + vectors @ vectors[list(positive)].T) / 2
        far = (1 + vectors @ vectors[list(negative)].T) / 2
        scores = near.prod(axis=1) / (far + EPSILON).prod(axis=1)
    else:
        raise ValueError(f"method is {method!r}, but it must be 'add' or 'mul'")
    # All vectors are sorted, stably: ties are answered in the order of the vocabulary on every machine.
    left_out = [*positive, *negative, *hidden]
    scores = scores.copy()
    scores[left_out] = -np.inf
    order = np.argsort(-scores, kind="stable")[: min(n, len(vectors) - len(set(left_out)))]
    return order, scores[order]
