"""Similarity and analogies of vectors, against loops over single questions."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from dspectral.metrics import word_vectors
from dspectral.metrics.word_vectors import EPSILON, analogy_accuracy, word_similarity

RNG = np.random.default_rng(0)
WORDS = [f"w{i}" for i in range(30)]
VECTORS = RNG.standard_normal((30, 4))


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_similarity_is_the_rank_correlation_of_the_pairs_that_are_covered():
    draws = RNG.integers(40, size=(60, 2))
    pairs = [(f"w{a}", f"w{b}", float(k % 7)) for k, (a, b) in enumerate(draws)]
    known = [(a, b, s) for (a, b), (_, _, s) in zip(draws, pairs, strict=True) if max(a, b) < 30]
    found = word_similarity(WORDS, VECTORS, pairs)
    expected = spearmanr([cosine(VECTORS[a], VECTORS[b]) for a, b, _ in known], [s for _, _, s in known])
    assert found.spearman == pytest.approx(expected.statistic)
    assert found.n_pairs == len(known)
    assert found.coverage == len(known) / 60


@pytest.mark.parametrize("tile", [7, 4096])
@pytest.mark.parametrize("method", ["add", "mul"])
def test_analogies_are_answered_by_the_best_word_that_is_not_in_the_question(method, tile, monkeypatch):
    monkeypatch.setattr(word_vectors, "TILE", tile)
    right, questions = [], []
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    for a, b, c, d in RNG.permuted(np.tile(np.arange(30), (200, 1)), axis=1)[:, :4]:
        scores = np.full(30, -np.inf)
        for word in set(range(30)) - {a, b, c}:
            to = [(1 + unit[word] @ unit[given]) / 2 for given in (a, b, c)]
            added = unit[word] @ (unit[b] - unit[a] + unit[c])
            scores[word] = added if method == "add" else to[1] * to[2] / (to[0] + EPSILON)
        d = scores.argmax() if len(questions) % 2 else d  # noqa: PLW2901  every second one is answered rightly
        right.append(scores.argmax() == d)
        questions.append(tuple(f"w{i}" for i in (a, b, c, d)))
    found = analogy_accuracy(WORDS, VECTORS, [*questions, ("w1", "w2", "w3", "w99")], method=method)
    assert found.accuracy == pytest.approx(np.mean(right))
    assert (found.n_questions, found.coverage) == (200, 200 / 201)


def test_nothing_covered_is_not_a_number():
    assert math.isnan(word_similarity(WORDS, VECTORS, [("x", "y", 1)]).spearman)
    assert math.isnan(word_similarity(WORDS, VECTORS, [("w1", "w2", 1), ("w1", "w3", 1)]).spearman)
    assert math.isnan(analogy_accuracy(WORDS, VECTORS, [("x", "y", "z", "w1")]).accuracy)


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="no pair"):
        word_similarity(WORDS, VECTORS, [])
    with pytest.raises(ValueError, match="no analogy question"):
        analogy_accuracy(WORDS, VECTORS, [])
    with pytest.raises(ValueError, match="30 words, but 29 vectors"):
        word_similarity(WORDS, VECTORS[1:], [("w1", "w2", 1)])
    with pytest.raises(ValueError, match="method is 'sum'"):
        analogy_accuracy(WORDS, VECTORS, [("w1", "w2", "w3", "w4")], method="sum")
