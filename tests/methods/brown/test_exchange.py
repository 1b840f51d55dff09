"""Merging and exchange against transcriptions that recompute everything."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from dspectral.methods.brown.agglomeration import merge_by_information, merge_window
from dspectral.methods.brown.exchange import TypeFeatures, average_mutual_information, exchange_sweep, to_bigram_counts
from dspectral.methods.brown.pair_counts import AdjacentCounts


def slow_window(points, weights, n_active):
    """The merge loop as printed: all pairs again at every step."""
    active, waiting, merges = [], list(enumerate(zip(points, weights, strict=True))), []
    while len(merges) < len(points) - 1:
        while waiting and len(active) <= n_active:
            active.append(waiting.pop(0))
        costs = {(a, b): v * w / (v + w) * np.sum((x - y) ** 2) for (a, (x, v)), (b, (y, w)) in combinations(active, 2)}
        a, b = min(costs, key=costs.get)
        clusters = dict(active)
        (x, v), (y, w) = clusters[a], clusters[b]
        active = [entry for entry in active if entry[0] not in (a, b)]
        active.append((len(points) + len(merges), ((v * x + w * y) / (v + w), v + w)))
        merges.append((min(a, b), max(a, b)))
    return merges


def bigrams(counts):
    return to_bigram_counts(AdjacentCounts.from_matrix(sparse.csr_array(counts)))


def random_counts(seed, n=25):
    rng = np.random.default_rng(seed)
    return rng.poisson(3 * np.outer(rng.random(n), rng.random(n)), (n, n))


@pytest.mark.parametrize("n_active", [1, 3, 8, 30])
def test_the_window_merges_as_the_plain_loop_does(n_active):
    rng = np.random.default_rng(n_active)
    points, weights = rng.standard_normal((30, 4)), rng.random(30) + 0.1
    merges, costs = merge_window(points, weights, n_active)
    assert [tuple(pair) for pair in merges.tolist()] == slow_window(points, weights, n_active)
    assert (costs >= 0).all()


def information_of_clusters(counts, labels):
    members = np.eye(labels.max() + 1)[labels]
    return average_mutual_information(members.T @ counts @ members)


def test_information_is_lost_as_recomputed():
    counts = random_counts(0, n=9).astype(float)
    merges, losses = merge_by_information(counts)
    labels, names, n = np.arange(9), list(range(9)), counts.sum()
    for step, (pair, loss) in enumerate(zip(merges.tolist(), losses, strict=True)):
        now = information_of_clusters(counts, labels)
        trials = {}
        for a, b in combinations(names, 2):
            merged = np.where(np.isin(labels, [a, b]), 9 + step, labels)
            trials[a, b] = now - information_of_clusters(counts, merged)
        assert trials[tuple(pair)] == pytest.approx(min(trials.values()), abs=1e-9)
        assert loss / n / np.log(2) == pytest.approx(trials[tuple(pair)], abs=1e-9)
        labels = np.where(np.isin(labels, pair), 9 + step, labels)
        names = [name for name in names if name not in pair] + [9 + step]


def test_large_counts_are_beyond_the_table():
    counts = random_counts(1) * 100_000
    few, many = (np.arange(25) % 3).astype(np.int32), (np.arange(25) % 3).astype(np.int32)
    exchange_sweep(bigrams(random_counts(1)), few, 3)
    exchange_sweep(bigrams(counts), many, 3)
    assert few.tolist() == many.tolist()


def features_of(seed, n=25, n_features=6):
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(n_features, rng.integers(0, 4), replace=False)) for _ in range(n)]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return TypeFeatures(starts, np.concatenate(rows).astype(np.int32), rng.random(n) * 20, n_features)


def worth_of_features(features, labels, m):
    table = np.zeros((m, features.n_features))
    for word, label in enumerate(labels):
        table[label, features.features[features.starts[word] : features.starts[word + 1]]] += features.weights[word]
    cells, sums = table[table > 0], table.sum(axis=1)
    return np.sum(cells * np.log(cells)) - np.sum(sums[sums > 0] * np.log(sums[sums > 0]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("featured", [False, True])
def test_a_sweep_moves_each_word_to_where_it_is_worth_most(seed, featured):
    counts, m = random_counts(seed), 4
    features = features_of(seed) if featured else None
    labels = np.random.default_rng(seed).permutation(np.arange(25) % m).astype(np.int32)
    expected = labels.copy()

    def worth(trial):
        information = information_of_clusters(counts, trial) * counts.sum() * np.log(2)
        return information + worth_of_features(features, trial, m) if featured else information

    for word in range(25):
        if np.sum(expected == expected[word]) == 1:
            continue
        trials = []
        for cluster in range(m):
            trial = expected.copy()
            trial[word] = cluster
            trials.append(worth(trial))
        if max(trials) > trials[expected[word]] + 1e-8:
            expected[word] = int(np.argmax(trials))
    plain = labels.copy()
    exchange_sweep(bigrams(counts), labels, m, features)
    exchange_sweep(bigrams(counts), plain, m)
    assert labels.tolist() == expected.tolist()
    assert (labels.tolist() != plain.tolist()) == featured
