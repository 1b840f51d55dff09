"""Anchors, convex coefficients and chains, exact where moments are expectations; points by dense algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral.methods.brown.pair_counts import AdjacentCounts
from dspectral.methods.hmm.anchor.points import (
    NeighborCounts,
    compute_context_points,
    join_points,
)
from dspectral.methods.hmm.anchor.search import (
    chain_from_moments,
    emission_from_membership,
    find_anchors,
    project_to_simplex,
)
from dspectral.methods.hmm.chain import HiddenMarkov
from workflows._parts.drawn_sequences import draw_anchor_model


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 8), d=st.integers(1, 9))
def test_coefficients_meet_the_conditions_of_a_minimum(seed, k, d):
    rng = np.random.default_rng(seed)
    vertices, points = rng.standard_normal((k, d)), 2.0 * rng.standard_normal((20, d))
    p = project_to_simplex(points, vertices)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    slopes = (p @ vertices - points) @ vertices.T
    level = np.sum(p * slopes, axis=1, keepdims=True)
    assert (slopes - level > -1e-8).all()
    np.testing.assert_allclose((slopes - level)[p > 1e-9], 0.0, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_corners_are_found_also_if_the_first_choice_hides_one(seed):
    rng = np.random.default_rng(seed)
    corners = rng.standard_normal((5, 6))
    points = np.concatenate([rng.dirichlet(np.ones(5), 60) @ corners, corners])[rng.permutation(65)]
    actual = find_anchors(points, np.arange(65), 5)
    spread = np.linalg.norm(points[actual][:, None] - corners[None], axis=2).min(axis=0)
    np.testing.assert_allclose(spread, 0.0, atol=1e-12)


def expectations(model):
    """Expected first types, and pairs of adjacent types, per sentence: the chain is followed till it has died out."""
    states, first = model.initial, model.emission @ model.initial
    occupancy = np.linalg.solve(np.eye(model.n_states) - model.transition.T, states)
    joint = occupancy[:, None] * model.transition
    return first, model.emission @ joint @ model.emission.T, model.emission @ occupancy


@pytest.mark.parametrize(("seed", "n_states"), [(0, 2), (1, 3), (2, 5)])
def test_population_moments_give_the_model_back_but_for_rounding(seed, n_states):
    model = HiddenMarkov(*draw_anchor_model(n_states, 30, 8.0, 0.2, seed))
    first, pairs, counts = expectations(model)
    rows = np.concatenate([pairs.T, pairs, first[:, None]], axis=1)[1:] / counts[1:, None]
    anchors = find_anchors(rows, np.arange(30), n_states)
    assert sorted(anchors) == list(range(n_states))
    membership = np.zeros((31, n_states))
    membership[1:] = project_to_simplex(rows, rows[anchors])
    emission, marginal = emission_from_membership(membership, counts)
    actual = chain_from_moments(membership, emission, AdjacentCounts.from_matrix(sparse.csr_array(pairs)), first)
    order = np.argsort(anchors)
    occupancy = np.linalg.solve(np.eye(n_states) - model.transition.T, model.initial)
    np.testing.assert_allclose(marginal[order], occupancy / occupancy.sum(), atol=1e-8)
    np.testing.assert_allclose(actual.emission[:, order], model.emission, atol=1e-8)
    np.testing.assert_allclose(actual.initial[order], model.initial, atol=1e-7)
    inner = model.transition / model.transition.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(actual.transition[np.ix_(order, order)], inner, atol=1e-7)


@pytest.fixture
def near():
    rng = np.random.default_rng(0)
    pairs = rng.poisson(2.0, (12, 12)).astype(float)
    counts = np.maximum(pairs.sum(axis=0), pairs.sum(axis=1)) + rng.integers(0, 3, 12)
    return NeighborCounts(AdjacentCounts.from_matrix(sparse.csr_array(pairs)), counts.astype(np.int64))


def distances(rows):
    return np.linalg.norm(rows[:, None] - rows[None], axis=2)


def dense_contexts(near):
    pairs = near.pairs.concatenate().toarray()
    left = np.column_stack([pairs.T, near.counts - pairs.sum(axis=0)])
    right = np.column_stack([pairs, near.counts - pairs.sum(axis=1)])
    return np.column_stack([left, right])


def test_contexts_are_projected_on_leading_directions(near):
    counts = dense_contexts(near)
    rows = counts / counts.sum(axis=1)[:, None]
    _, _, directions = np.linalg.svd(np.sqrt(near.counts)[:, None] * rows, full_matrices=False)
    actual = compute_context_points(near, "consistent", 8, 0)
    np.testing.assert_allclose(distances(actual), distances(rows @ directions[:8].T), atol=1e-4)
    roots, columns = np.sqrt(counts), np.sqrt(np.maximum(counts.sum(axis=0), 1.0))
    scaled = roots / np.sqrt(np.sqrt(counts.sum(axis=1))[:, None] * columns)
    rows = roots / np.sqrt(counts.sum(axis=1))[:, None]
    _, _, directions = np.linalg.svd(scaled, full_matrices=False)
    actual = compute_context_points(near, "published", 8, 0)
    np.testing.assert_allclose(distances(actual), distances(rows / np.sqrt(columns) @ directions[:8].T), atol=1e-4)


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
