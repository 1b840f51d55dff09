"""Points of words against their definitions, by dense algebra."""

import numpy as np
import pytest
from scipy import sparse

from dspectral.methods.brown.pair_counts import PairCounts
from dspectral.methods.hmm.anchor import points
from dspectral.methods.hmm.anchor.points import (
    AnchorRecipe,
    NeighborCounts,
    context_points,
    join_points,
    spelling_points,
)
from dspectral.methods.hmm.anchor.word_types import feature_table


@pytest.fixture
def near():
    rng = np.random.default_rng(0)
    pairs = rng.poisson(2.0, (12, 12)).astype(float)
    counts = np.maximum(pairs.sum(axis=0), pairs.sum(axis=1)) + rng.integers(0, 3, 12)
    return NeighborCounts(PairCounts.of(sparse.csr_array(pairs)), counts.astype(np.int64))


@pytest.fixture(autouse=True)
def few_clusters(monkeypatch):
    monkeypatch.setattr(points, "N_CLUSTERS", 3)


def reduced(near, reduction, *, transform="sqrt", k=4):
    return context_points(near, AnchorRecipe(reduction, transform), k, 0)


def distances(rows):
    return np.linalg.norm(rows[:, None] - rows[None], axis=2)


def dense_contexts(near, context):
    pairs = near.pairs.whole().toarray()
    left = np.column_stack([pairs.T, near.counts - pairs.sum(axis=0)])
    right = np.column_stack([pairs, near.counts - pairs.sum(axis=1)])
    return left + right if context == "bag" else np.column_stack([left, right])


@pytest.mark.parametrize("context", ["list", "bag"])
@pytest.mark.parametrize("transform", ["sqrt", "none"])
def test_each_reduction_is_the_projection_it_says(near, context, transform, monkeypatch):
    monkeypatch.setattr(points, "CONTEXT", context)
    counts = dense_contexts(near, context)
    t = np.sqrt if transform == "sqrt" else np.asarray
    rows = t(counts) / t(counts.sum(axis=1))[:, None]
    _, _, directions = np.linalg.svd(np.sqrt(near.counts)[:, None] * rows, full_matrices=False)
    found = reduced(near, "svd", transform=transform, k=8)
    np.testing.assert_allclose(distances(found), distances(rows @ directions[:8].T), atol=1e-4)
    columns = np.where(counts.sum(axis=0) > 0, t(counts.sum(axis=0)), 1.0)
    scaled = t(counts) / np.sqrt(np.outer(t(counts.sum(axis=1)), columns))
    _, _, directions = np.linalg.svd(scaled, full_matrices=False)
    found = reduced(near, "cca", transform=transform, k=8)
    np.testing.assert_allclose(
        distances(found), distances(rows / np.sqrt(columns) @ directions[:8].T), atol=1e-4
    )
    assert reduced(near, "random", transform=transform).shape == (12, 4)


def test_clusters_are_columns_of_their_own_and_rows_add_up(near):
    found = reduced(near, "clusters", transform="none")
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.shape == (12, 2 * (3 + 1))


def test_parts_weigh_as_much_as_is_said_whatever_their_units():
    rng = np.random.default_rng(1)
    counts, one, two = rng.integers(1, 9, 50), rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    share = counts / counts.sum()
    first = join_points([(one, 1.0), (two, 0.5)], counts, 5)
    again = join_points([(1000.0 * one + 7.0, 1.0), (two / 50.0, 0.5)], counts, 5)
    np.testing.assert_allclose(distances(first), distances(again), atol=1e-9)
    assert share @ (first**2).sum(axis=1) == pytest.approx(1.25)
    np.testing.assert_allclose(share @ first, 0.0, atol=1e-12)
    assert not join_points([(np.full((50, 3), 0.1), 1.0)], counts, 2).any()


def test_words_with_the_same_spelling_features_are_the_same_point():
    table = feature_table([None, ("a", "ed"), ("A", "ing"), ("a", "ed"), ("0", "")])
    found = spelling_points(table, np.array([0, 3, 2, 1, 1]), 4, 0)
    np.testing.assert_allclose(found[1], found[3], atol=1e-12)
    np.testing.assert_allclose(found[0], 0.0, atol=1e-12)
    assert distances(found)[1, 2] > 0.1
