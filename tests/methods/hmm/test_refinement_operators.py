"""Refinement HMMs from population moments in closed form: what comes back is the model, to rounding."""

import numpy as np
import pytest

from dspectral._compiled import read_only
from dspectral.methods.hmm.chain import HiddenMarkov, m_step
from dspectral.methods.hmm.inference import compute_posteriors
from dspectral.methods.hmm.refinement.operators import Operators, compute_projections, find_operators, recover_counts
from dspectral.methods.hmm.refinement.recursions import decode_block
from dspectral.types import Sentences
from workflows._parts.drawn_sequences import draw_refinement_model

COUNT = 1e14  # sequences: what is regularised by their number vanishes


def population(model, n_labels, m):
    """Moments of one-hot views of the neighbouring token and label, and what projects them."""
    label = np.arange(model.n_states) // m
    visits = np.linalg.solve(np.eye(model.n_states) - model.transition.T, model.initial)
    before = model.transition.T * visits / visits[:, None]  # [s, r]: the state before s was r
    seen = np.zeros((model.n_states, n_labels, model.n_types))
    seen[np.arange(model.n_states), label] = model.emission.T
    seen = seen.reshape(model.n_states, -1)
    past = np.column_stack([before @ seen, model.initial / visits])
    future = np.column_stack([model.transition @ seen, model.final])
    width = past.shape[1]
    gram = np.zeros((n_labels, 2 * width + 1, 2 * width + 1))
    for a in range(n_labels):
        own = label == a
        p, f, n = past[own], future[own], visits[own]
        rows = np.column_stack([p, f, np.ones(m)])
        gram[a] = rows.T * n @ rows
        gram[a, :width, :width], gram[a, width:-1, width:-1] = np.diag(n @ p), np.diag(n @ f)
    found = compute_projections(COUNT * gram, m)
    one = np.ones((model.n_states, 1))
    p = np.einsum("sd,sdk->sk", np.hstack([past, one]), found.past[label])
    f = np.einsum("sd,sdk->sk", np.hstack([future, one]), found.future[label])
    joint, steps = np.zeros((n_labels, model.n_types, m, m)), np.zeros((n_labels, n_labels, m, m))
    first, last = np.zeros((n_labels, m)), np.zeros((n_labels, m))
    for s in range(model.n_states):
        joint[label[s]] += visits[s] * model.emission[:, s, None, None] * np.outer(f[s], p[s])
        first[label[s]] += model.initial[s] * f[s]
        last[label[s]] += visits[s] * model.final[s] * p[s]
        for r in range(model.n_states):
            steps[label[s], label[r]] += visits[s] * model.transition[s, r] * np.outer(f[r], p[s])
    return *(COUNT * part for part in (joint, steps, first, last)), found.n_refinements


def matched(found, model, m):
    """The order of the found states that is that of the model's, within each label."""
    order = []
    for start in range(0, model.n_states, m):
        own = slice(start, start + m)
        apart = np.abs(found.emission[:, own, None] - model.emission[:, None, own]).sum(axis=0)
        order += (start + apart.argmin(axis=0)).tolist()
    return order


@pytest.mark.parametrize(("n_labels", "m", "seed"), [(2, 1, 0), (2, 2, 1), (3, 2, 2), (2, 3, 3), (2, 4, 4)])
def test_population_moments_give_the_model_back(n_labels, m, seed):
    model = HiddenMarkov(*draw_refinement_model(n_labels * m, 15, 10.0, seed))
    actual = recover_counts(*population(model, n_labels, m))
    again = m_step(actual)
    order = matched(again, model, m)
    assert sorted(order) == list(range(model.n_states))
    np.testing.assert_allclose(again.emission[:, order], model.emission, atol=2e-6)
    np.testing.assert_allclose(again.transition[np.ix_(order, order)], model.transition, atol=2e-6)
    np.testing.assert_allclose(again.initial[order], model.initial, atol=2e-6)
    np.testing.assert_allclose(again.final[order], model.final, atol=2e-6)


def test_decoding_by_operators_is_that_of_the_joint_table():
    n_labels, m = 2, 2
    model = HiddenMarkov(*draw_refinement_model(n_labels * m, 6, 5.0, 3))
    actual = Operators(*(read_only(p) for p in find_operators(*population(model, n_labels, m))))
    sentences = Sentences.from_ids([[1, 4, 2], [3], [2, 2, 5, 6], []])
    out = np.empty((len(sentences.ids), n_labels))
    decode_block(read_only(sentences.ids), read_only(sentences.offsets), actual, out)
    expected = compute_posteriors(sentences, model).posterior.reshape(-1, n_labels, m).sum(axis=2)
    np.testing.assert_allclose(out, expected, atol=1e-7)
