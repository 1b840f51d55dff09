"""Recursions along chains, held against the joint table of all paths."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral.methods.hmm.chain import HiddenMarkov, m_step
from dspectral.methods.hmm.expected_counts import ExpectedCounts
from dspectral.methods.hmm.inference import compute_posteriors, log_likelihoods, viterbi
from dspectral.types import LabeledSentences, Sentences


def a_model(seed, n_states=3, n_types=4, zeros=False, lengths=True):
    rng = np.random.default_rng(seed)
    initial, emission = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_types), n_states).T
    steps = rng.dirichlet(np.ones(n_states + lengths), n_states)
    if zeros:
        emission[rng.random(emission.shape) < 0.3] = 0.0
        steps[rng.random(steps.shape) < 0.3] = 0.0
    final = steps[:, n_states] if lengths else np.ones(n_states)
    return HiddenMarkov(initial, steps[:, :n_states], emission, final).as_read_only()


def joint_table(words, model):
    """Probability of each path together with the words: a table with one axis a token."""
    table = np.zeros((model.n_states,) * len(words))
    for path in product(range(model.n_states), repeat=len(words)):
        p = model.initial[path[0]] * model.final[path[-1]]
        for i, (word, state) in enumerate(zip(words, path, strict=True)):
            p *= model.emission[word, state] * (model.transition[path[i - 1], state] if i else 1.0)
        table[path] = p
    return table


def marginal(table, *axes):
    return table.sum(axis=tuple(i for i in range(table.ndim) if i not in axes))


def some_sentences(seed, n=6, n_types=4):
    rng = np.random.default_rng(seed)
    return Sentences.from_ids([rng.integers(n_types, size=rng.integers(1, 6)).tolist() for _ in range(n)])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), zeros=st.booleans(), lengths=st.booleans())
def test_posteriors_paths_and_likelihoods_are_those_of_the_joint_table(seed, zeros, lengths):
    model, sentences = a_model(seed, zeros=zeros, lengths=lengths), some_sentences(seed)
    smoothed, path, forward = (
        compute_posteriors(sentences, model),
        viterbi(sentences, model),
        log_likelihoods(sentences, model),
    )
    np.testing.assert_allclose(smoothed.posterior.sum(axis=1), 1.0)
    for i in range(sentences.n_sentences):
        table, part = joint_table(sentences.sentence(i), model), slice(*sentences.offsets[i : i + 2])
        if table.sum() == 0:
            assert smoothed.log_likelihood[i] == path.log_joint[i] == forward[i] == -np.inf
            continue
        assert smoothed.log_likelihood[i] == pytest.approx(np.log(table.sum()))
        assert forward[i] == pytest.approx(np.log(table.sum()))
        assert path.log_joint[i] == pytest.approx(np.log(table.max()))
        assert table[tuple(path.states[part])] == pytest.approx(table.max())
        expected = [marginal(table, t) / table.sum() for t in range(table.ndim)]
        np.testing.assert_allclose(smoothed.posterior[part], expected, atol=1e-12)


@pytest.mark.parametrize("bounds", [[0, 5], [0, 2, 5]])
def test_expected_counts_are_those_of_the_joint_table_of_states(bounds):
    model, sentences = a_model(2, n_states=5), some_sentences(2)
    labels = np.random.default_rng(0).integers(len(bounds) - 1, size=len(sentences.ids)).astype(np.int32)
    block = LabeledSentences(sentences.ids, labels, sentences.offsets)
    label_of = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    total, counts = 0.0, HiddenMarkov(*(np.zeros(part.shape) for part in model))
    for i in range(sentences.n_sentences):
        part = slice(*sentences.offsets[i : i + 2])
        table = joint_table(sentences.ids[part], model)
        for t, label in enumerate(labels[part]):
            blocked = [slice(None)] * table.ndim
            blocked[t] = np.flatnonzero(label_of != label)
            table[tuple(blocked)] = 0.0
        total += np.log(table.sum())
        table /= table.sum()
        counts.initial[:] += marginal(table, 0)
        counts.final[:] += marginal(table, table.ndim - 1)
        for t, word in enumerate(sentences.ids[part]):
            counts.emission[word] += marginal(table, t)
            if t:
                counts.transition[:] += marginal(table, t - 1, t)
    actual = ExpectedCounts.from_block(block, model=model, bounds=np.array(bounds))
    assert actual.log_likelihood == pytest.approx(total)
    assert actual.n_sentences == sentences.n_sentences
    for computed, expected in zip(actual.counts, counts, strict=True):
        np.testing.assert_allclose(computed, expected, atol=1e-12)


def test_a_long_sentence_does_not_underflow():
    model = a_model(0, n_types=1000)
    sentences = Sentences.from_ids([np.random.default_rng(0).integers(1000, size=20000).tolist()])
    smoothed = compute_posteriors(sentences, model)
    assert np.isfinite(smoothed.log_likelihood[0])
    assert smoothed.log_likelihood[0] < -1e5
    assert np.isfinite(viterbi(sentences, model).log_joint[0])


def test_impossible_sentence_is_read_without_its_impossible_token():
    emission = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    model = HiddenMarkov(np.array([1.0, 0.0]), np.array([[0.5, 0.5], [0.0, 1.0]]), emission, np.ones(2))
    sentences = Sentences.from_ids([[0, 2, 1], [1, 1], [1, 0], [0]])
    smoothed, path = compute_posteriors(sentences, model), viterbi(sentences, model)
    assert smoothed.log_likelihood.tolist() == [-np.inf] * 3 + [0.0]
    assert path.log_joint.tolist() == [-np.inf] * 3 + [0.0]
    np.testing.assert_allclose(smoothed.posterior.sum(axis=1), 1.0)
    assert path.states[2] == 1
    assert smoothed.posterior[2].argmax() == 1
    actual = ExpectedCounts.from_block(sentences, model=model)
    assert (actual.n_sentences, actual.n_impossible) == (1, 3)
    assert actual.counts.emission.sum() == 1.0


def test_of_equal_paths_the_one_through_the_first_states_is_taken():
    even = HiddenMarkov(np.full(3, 1 / 3), np.full((3, 3), 1 / 3), np.full((2, 3), 1 / 2), np.ones(3))
    assert viterbi(Sentences.from_ids([[0, 1, 1, 0], [1]]), even).states.tolist() == [0, 0, 0, 0, 0]


def test_states_without_counts_are_followed_by_everything_alike():
    zero = HiddenMarkov(np.zeros(2), np.zeros((2, 2)), np.zeros((4, 2)), np.zeros(2))
    model = m_step(zero)
    assert model.initial.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(model.transition, 1 / 3)
    np.testing.assert_allclose(model.emission, 0.25)
    assert m_step(zero, model_lengths=False).final.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [-1, 4])
def test_ids_out_of_range_are_named(bad):
    sentences = Sentences.from_ids([[0, bad]])
    for function in (
        compute_posteriors,
        viterbi,
        log_likelihoods,
        lambda s, m: ExpectedCounts.from_block(s, model=m),
    ):
        with pytest.raises(ValueError, match=f"token 1.*{bad}"):
            function(sentences, a_model(0))
