"""Posteriors, likelihoods and most probable paths of blocks of sentences under a hidden Markov model."""

from typing import NamedTuple

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.methods.hmm.recursions import max_sentence_length, write_log_likelihoods, write_posteriors
from dspectral.types import Doubles, Int32s, Int64s, Sentences, check_ids


class Posteriors(NamedTuple):
    """Posteriors ``p(h_i = h | sentence)``, shape (n_tokens, n_states), and the log-likelihood of each sentence."""

    posterior: Doubles
    log_likelihood: Doubles


class StatePath(NamedTuple):
    """States of each token on the most probable path, and ``log p(sentence, path)`` of each sentence."""

    states: Int32s
    log_joint: Doubles


def compute_posteriors(sentences: Sentences, model: HiddenMarkov) -> Posteriors:
    """Return state posteriors of each token and log-likelihoods of sentences, in ``O(n_tokens n_states^2)``."""
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
    """Return the most probable path of each sentence, in ``O(n_tokens n_states^2)``; ties take the first state."""
    check_ids(sentences.ids, model.n_types)
    # The logarithm of an impossible step is minus infinity.
    with np.errstate(divide="ignore"):
        logs = HiddenMarkov(*(read_only(np.log(part)) for part in model))
    out = StatePath(np.zeros(len(sentences.ids), dtype=np.int32), np.empty(sentences.n_sentences))
    write_best_paths(read_only(sentences.ids), read_only(sentences.offsets), logs, out.states, out.log_joint)
    return out


@compiled
def write_best_paths(ids: Int32s, offsets: Int64s, log_model: HiddenMarkov, states: Int32s, log_joint: Doubles) -> None:
    """Write the most probable path of each sentence, and its joint log-probability."""
    n_states = len(log_model.initial)
    log_prob = np.empty((max_sentence_length(offsets), n_states))
    # log_prob[t, j] = max over paths h_1 .. h_t = j of log p(x_1 .. x_t, h_1 .. h_t). Only the maxima are
    # stored, so that the loop vectorizes; the path is recomputed backwards, O(k) for each token beside O(k^2).
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
        # If no state can end the sentence, the path starts from the best last state, with probability 0.
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
    """Write row ``t``: the log-probability of the best path into each state from row ``t - 1``."""
    # log_prob[t, j] = max_i log_prob[t - 1, i] + log A[i, j]: O(k^2). The inner loop runs along rows of A, without a
    # branch, four at a time, so that the row is read and written a quarter as often.
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
    """Return the larger of two numbers that are not NaN; ``max`` checks for NaN and is slower."""
    return y if y > x else x  # noqa: FURB136


@compiled
def previous_state(t: int, state: int, transition: Doubles, log_prob: Doubles) -> int:
    """Return the best state at token ``t`` before a given state of the next token; ties take the first."""
    top, best = -np.inf, -1
    for i in range(len(transition)):
        score = log_prob[t, i] + transition[i, state]
        if score > top:
            top, best = score, i
    # If no transition is possible, the best path up to here ends in the best state.
    return best if best >= 0 else int(np.argmax(log_prob[t]))


@compiled
def add_log_emission(t: int, token: int, emission: Doubles, log_prob: Doubles) -> bool:
    """Add the token's log-probabilities to row ``t``; return whether a path reaches and emits the token.

    A token without a possible state is skipped. If no state is reachable, all restart from 0.
    """
    n, reachable, seen = emission.shape[1], False, False
    for j in range(n):
        reachable |= log_prob[t, j] > -np.inf
    if not reachable:
        for j in range(n):
            log_prob[t, j] = 0.0
    # The first loop only tests, so that an impossible token leaves the row unchanged.
    for j in range(n):
        seen |= log_prob[t, j] + emission[token, j] > -np.inf
    if seen:
        for j in range(n):
            log_prob[t, j] += emission[token, j]
    return reachable and seen
