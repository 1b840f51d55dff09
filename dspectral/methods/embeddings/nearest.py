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

    Shapes: `vectors` (n_types, k); returns `ids` (n,), `scores` (n,).

    Levy and Goldberg 2014, "Linguistic regularities in sparse and explicit word representations".

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
