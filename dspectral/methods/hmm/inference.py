"""A hidden Markov chain gives posteriors, likelihoods and most probable paths of blocks of sentences."""

from typing import NamedTuple

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.methods.hmm.chain import HiddenMarkov, check_ids
from dspectral.methods.hmm.recursions import max_sentence_length, write_log_likelihoods, write_posteriors
from dspectral.types import Doubles, Int32s, Int64s, Sentences


class Posteriors(NamedTuple):
    """Posteriors ``p(h_i = h | sentence)``, shape (n_tokens, n_states), and the log-likelihood of each sentence."""

    posterior: Doubles
    log_likelihood: Doubles


class StatePath(NamedTuple):
    """The state of each token on the most probable path, and ``log p(sentence, path)`` of each sentence."""

    states: Int32s
    log_joint: Doubles


def compute_posteriors(sentences: Sentences, model: HiddenMarkov) -> Posteriors:
    """Return the posterior of each token's state, and each sentence's log-likelihood, in ``O(n_tokens n_states^2)``."""
    check_ids(sentences.ids, model.n_types)
    out = Posteriors(np.empty((len(sentences.ids), model.n_states)), np.empty(sentences.n_sentences))
    write_posteriors(
        read_only(sentences.ids),
        read_only(sentences.offsets),
        model.as_read_only(),
        read_only(model.transition.T),
        out.posterior,
        out.log_likelihood,
    )
    return out


def log_likelihoods(sentences: Sentences, model: HiddenMarkov) -> Doubles:
    """Return the log-likelihood of each sentence, minus infinity where it is impossible."""
    check_ids(sentences.ids, model.n_types)
    out = np.empty(sentences.n_sentences)
    write_log_likelihoods(read_only(sentences.ids), read_only(sentences.offsets), model.as_read_only(), out)
    return out


def viterbi(sentences: Sentences, model: HiddenMarkov) -> StatePath:
    """Return the most probable states of each sentence, first ones of equals, in ``O(n_tokens n_states^2)``."""
    check_ids(sentences.ids, model.n_types)
    # The logarithm of 0 is minus infinity, which is just what an impossible step should cost.
    with np.errstate(divide="ignore"):
        logs = HiddenMarkov(*(read_only(np.log(part)) for part in model))
    out = StatePath(np.zeros(len(sentences.ids), dtype=np.int32), np.empty(sentences.n_sentences))
    write_best_paths(read_only(sentences.ids), read_only(sentences.offsets), logs, out.states, out.log_joint)
    return out


@compiled
def write_best_paths(
    ids: Int32s, offsets: Int64s, log_model: HiddenMarkov, states: Int32s, log_joint: Doubles
) -> None:
    """Find the most probable path of each sentence."""
    n_states = len(log_model.initial)
    log_prob = np.empty((max_sentence_length(offsets), n_states))
    # log_prob[t, j] = max over paths h_1 .. h_t = j of log p(x_1 .. x_t, h_1 .. h_t). The maxima alone are kept, as a
    # loop without places runs on whole registers; the path is read backwards from them, O(k) a token beside O(k^2).
    for s in range(len(offsets) - 1):
        first, n, possible = offsets[s], offsets[s + 1] - offsets[s], True
        log_joint[s] = 0.0
        if n == 0:
            continue
        for t in range(n):
            if t == 0:
                for j in range(n_states):
                    log_prob[0, j] = log_model.initial[j]
            else:
                extend_paths(t, log_model.transition, log_prob)
            possible = add_log_emission(t, ids[first + t], log_model.emission, log_prob) and possible
        # Where no state can end the sentence, the path is read from the best state without the end, so that there is an
        # answer, and its probability is reported as 0.
        best = log_prob[n - 1] + log_model.final
        if np.max(best) == -np.inf:
            best, possible = log_prob[n - 1], False
        state = int(np.argmax(best))
        log_joint[s] = best[state] if possible else -np.inf
        states[first + n - 1] = state
        for t in range(n - 2, -1, -1):
            state = previous_state(t, state, log_model.transition, log_prob)
            states[first + t] = state


@compiled
def extend_paths(t: int, transition: Doubles, log_prob: Doubles) -> None:
    """Write row ``t``: the log-probability of the best way into each state from the row before."""
    # log_prob[t, j] = max_i log_prob[t - 1, i] + log A[i, j]: O(k^2). The inner loop runs along rows of A, without a
    # branch, and takes four of them at a time, so that the row is read and written a quarter as often.
    n, b = len(transition), t - 1
    for j in range(n):
        log_prob[t, j] = -np.inf
    for i in range(0, n - 3, 4):
        w, x, y, z = log_prob[b, i], log_prob[b, i + 1], log_prob[b, i + 2], log_prob[b, i + 3]
        for j in range(n):
            top = max_without_nan(log_prob[t, j], w + transition[i, j])
            top = max_without_nan(top, x + transition[i + 1, j])
            top = max_without_nan(top, y + transition[i + 2, j])
            log_prob[t, j] = max_without_nan(top, z + transition[i + 3, j])
    for i in range(n - n % 4, n):
        for j in range(n):
            log_prob[t, j] = max_without_nan(log_prob[t, j], log_prob[b, i] + transition[i, j])


@compiled
def max_without_nan(x: float, y: float) -> float:
    """Return the larger of two numbers, neither of which is NaN: one instruction, where ``max`` looks for NaN too."""
    return y if y > x else x  # noqa: FURB136  as the line above says


@compiled
def previous_state(t: int, state: int, transition: Doubles, log_prob: Doubles) -> int:
    """Return where at token ``t`` the best way into the next token's state comes from; of equal ones, the first."""
    top, found = -np.inf, -1
    for i in range(len(transition)):
        score = log_prob[t, i] + transition[i, state]
        if score > top:
            top, found = score, i
    # No state is reachable: whatever comes next, the path up to here is the best one so far.
    return found if found >= 0 else int(np.argmax(log_prob[t]))


@compiled
def add_log_emission(t: int, token: int, emission: Doubles, log_prob: Doubles) -> bool:
    """Add a token's log-probabilities to row ``t``; return whether a path was left and the token is possible on one.

    A token that is impossible everywhere is skipped; where no path was left, all states start anew from 0.
    """
    n, reachable, seen = emission.shape[1], False, False
    for j in range(n):
        reachable |= log_prob[t, j] > -np.inf
    # Where nothing is reachable all states are, at no cost: the sentence is impossible already, and its path goes on.
    if not reachable:
        for j in range(n):
            log_prob[t, j] = 0.0
    # Two loops: the first only looks, so that an impossible token leaves the row as it is.
    for j in range(n):
        seen |= log_prob[t, j] + emission[token, j] > -np.inf
    if seen:
        for j in range(n):
            log_prob[t, j] += emission[token, j]
    return reachable and seen
