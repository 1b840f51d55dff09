"""Odd arguments for the public functions that take arrays or lists."""

import numpy as np
from scipy import sparse

from dspectral import metrics
from tests.bad_inputs.judging import NOT_FINITE, outcome

GOOD = {
    "average_mutual_information": lambda: (np.ones((3, 3)) + np.eye(3),),
    "document_auc": lambda: (np.eye(4), np.eye(4)),
    "label_propensities": lambda: (np.array([3, 2, 1]), 10),
    "ndcg_at": lambda: (np.eye(4), np.eye(4), 2),
    "precision_at": lambda: (np.eye(4), np.eye(4), 2),
    "propensity_precision_at": lambda: (np.eye(4), np.eye(4), 2, np.ones(4)),
    "edit_distance": lambda: ([1, 2, 3], [1, 3]),
    "frame_accuracy": lambda: ([[1, 2], [3]], [[1, 2], [4]]),
    "label_error_rate": lambda: ([[1, 2], [3]], [[1, 2], [4]]),
    "many_to_one": lambda: ([0, 1, 1], [0, 1, 0]),
    "one_to_one": lambda: ([0, 1, 1], [0, 1, 0]),
    "v_measure": lambda: ([0, 1, 1], [0, 1, 0]),
    "word_similarity": lambda: (
        ["a", "b", "c"],
        np.eye(3),
        [("a", "b", 1.0), ("b", "c", 2.0), ("a", "c", 3.0)],
    ),
    "analogy_accuracy": lambda: (["a", "b", "c", "d"], np.eye(4), [("a", "b", "c", "d")]),
}
MAY_BE_NAN = {
    "document_auc",
    "ndcg_at",
    "precision_at",
    "propensity_precision_at",
    "word_similarity",
    "analogy_accuracy",
}
"""Scores that are NaN where they are not defined."""
ODD = [
    None, 3, 2.5, -1, "x", b"x", True, object(), [], (), {}, [[]], [None], ["a", 1], [np.nan], [[1], [1, 2]], "abc",
    np.array(3), np.zeros(0), np.zeros((0, 4)), np.zeros((4, 0)), np.full((4, 4), np.nan), np.full((4, 4), np.inf),
    np.full((4, 4), -1), np.zeros((4, 4)), np.zeros((2, 2, 2)), np.zeros((4, 4), dtype=complex), np.array(["a", "b"]),
    np.array([None, None]), sparse.csr_array(np.eye(4)), sparse.coo_array(np.eye(4)), np.ma.masked_equal(np.eye(4), 0),
    [(), ()], [[1, 2], []], [["a"], ["b"]], np.arange(3), np.array([2**63 - 1, -(2**63)]), np.array([1e308, 1e308]),
    [10**30], iter([1, 2]), {1, 2},
]  # fmt: skip


def odd_argument(rng):
    """One argument of a metric is odd."""
    names = sorted(GOOD)
    name = names[rng.integers(len(names))]
    function, arguments = getattr(metrics, name), list(GOOD[name]())
    place = rng.integers(len(arguments))
    arguments[place] = ODD[rng.integers(len(ODD))]
    described = f"metrics.{name}, argument {place}: {arguments[place]!r:.60}"

    def run():
        found = outcome(lambda: function(*arguments))
        return (
            None if found.error is None and name in MAY_BE_NAN and found.fault == NOT_FINITE else found.fault
        )

    return described, run


FAMILIES = [odd_argument]
