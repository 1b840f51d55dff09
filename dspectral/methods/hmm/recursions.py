"""Recursions along a chain of hidden states, one sentence at a time, rescaled at each token.

A token may be bound to some of the states: those of its label. Label ``a`` owns the states ``bounds[a]``, ...,
``bounds[a + 1] - 1``; where nothing is known, one label owns them all. Whatever is written for a token starts at the
first state of its label.

A sentence that the model gives no probability is read on all the same, so that there is something to decode: a
token that no reachable state emits says nothing (``BLIND``), and where no allowed state is reachable the chain
starts anew, all states alike (``BROKEN``). Its log-likelihood is minus infinity.
"""

import math
from typing import Any

import numpy as np

from dspectral._compiled import compiled

SEEN, BLIND, BROKEN = 0, 1, 2
"""What a token is to the sentence before it."""


@compiled
def scaled(row: Any, width: Any) -> Any:
    """Divide the first entries of a row by their sum, in place, and return the sum; 0 leaves them as they are."""
    total = 0.0
    for j in range(width):
        total += row[j]
    if total > 0.0:
        for j in range(width):
            row[j] /= total
    return total


@compiled
def forward_sentence(
    ids: Any, labels: Any, bounds: Any, model: Any, alpha: Any, scale: Any, kind: Any
) -> Any:
    """Filter one sentence, and return its log-likelihood.

    Parameters
    ----------
    ids, labels : ndarray of int32, shape (n,)
    bounds : ndarray of int64, shape (n_labels + 1,)
    model : HiddenMarkov
    alpha : ndarray of float64, shape (n, at least the most states of a label)
        Written: what is probable given the tokens so far; rows sum to 1.
    scale : ndarray of float64, shape (n,)
        Written: the probability of each token given those before it.
    kind : ndarray of int8, shape (n,)
        Written: ``SEEN``, ``BLIND`` or ``BROKEN``.

    Returns
    -------
    float
        Of a sentence without tokens, 0.
    """
    n, log_likelihood, possible = len(ids), 0.0, True
    for t in range(n):
        low, high = bounds[labels[t]], bounds[labels[t] + 1]
        row, width = alpha[t], high - low
        if t == 0:
            for j in range(width):
                row[j] = model.initial[low + j]
        else:
            before = bounds[labels[t - 1]]
            for j in range(width):
                row[j] = 0.0
            for i in range(bounds[labels[t - 1] + 1] - before):
                weight, steps = alpha[t - 1, i], model.transition[before + i]
                for j in range(width):
                    row[j] += weight * steps[low + j]
        kind[t], scale[t] = weighted(row, width, model.emission[ids[t]], low)
        if kind[t] == SEEN:
            log_likelihood += math.log(scale[t])
        else:
            possible = False
    if n > 0:
        low, ending = bounds[labels[n - 1]], 0.0
        for j in range(bounds[labels[n - 1] + 1] - low):
            ending += alpha[n - 1, j] * model.final[low + j]
        log_likelihood = log_likelihood + math.log(ending) if ending > 0.0 else -np.inf
    return log_likelihood if possible else -np.inf


@compiled
def weighted(row: Any, width: Any, emission: Any, low: Any) -> Any:
    """Weight predicted states by a token, in place; return what the token is and its probability."""
    total = 0.0
    for j in range(width):
        total += row[j] * emission[low + j]
    if total > 0.0:
        for j in range(width):
            row[j] *= emission[low + j]
        return SEEN, scaled(row, width)
    total = scaled(row, width)
    if total > 0.0:
        return BLIND, total
    for j in range(width):
        row[j] = 1.0 / width
    return BROKEN, 1.0


@compiled
def backward_start(n: Any, labels: Any, bounds: Any, model: Any, alpha: Any, beta: Any) -> None:
    """Write the last row of beta: how much likelier the sentence's end is from each state than on average."""
    low = bounds[labels[n - 1]]
    width, ending = bounds[labels[n - 1] + 1] - low, 0.0
    for j in range(width):
        ending += alpha[n - 1, j] * model.final[low + j]
    for j in range(width):
        beta[j] = model.final[low + j] / ending if ending > 0.0 else 1.0


@compiled
def backward_step(
    token: Any,
    label: Any,
    before: Any,
    bounds: Any,
    model: Any,
    transposed: Any,
    scale: Any,
    kind: Any,
    rows: Any,
) -> None:
    """Step back over a token.

    Parameters
    ----------
    token, label : int
        Of the token stepped over.
    before : int
        The label of the token stepped to.
    bounds : ndarray of int64, shape (n_labels + 1,)
    model : HiddenMarkov
    transposed : ndarray of float64, shape (n_states, n_states)
        The transitions, from columns to rows: then the innermost loop runs along memory.
    scale : float
    kind : int
        As the forward recursion left them for the token stepped over.
    rows : ndarray of float64, shape (3, width)
        The first is beta of the token stepped over; written: the second, that beta times the token's emission over
        its scale, and the third, beta of the token stepped to.
    """
    low, start = bounds[label], bounds[before]
    width = bounds[before + 1] - start
    for i in range(width):
        rows[2, i] = 1.0 if kind == BROKEN else 0.0
    if kind == BROKEN:
        return
    for j in range(bounds[label + 1] - low):
        weight = rows[0, j] / scale
        if kind == SEEN:
            weight *= model.emission[token, low + j]
        rows[1, j] = weight
        steps = transposed[low + j]
        for i in range(width):
            rows[2, i] += weight * steps[start + i]


@compiled
def posterior_block(
    ids: Any, offsets: Any, model: Any, transposed: Any, out: Any, log_likelihood: Any
) -> None:
    """Smooth each sentence.

    Parameters
    ----------
    ids : ndarray of int32, shape (n_tokens,)
    offsets : ndarray of int64, shape (n_sentences + 1,)
    model : HiddenMarkov
    transposed : ndarray of float64, shape (n_states, n_states)
    out : ndarray of float64, shape (n_tokens, n_states)
        Written; rows sum to 1.
    log_likelihood : ndarray of float64, shape (n_sentences,)
        Written.
    """
    n_states, longest = len(model.initial), longest_of(offsets)
    bounds, labels = np.array([0, n_states]), np.zeros(longest, dtype=np.int32)
    scale, kind, rows = np.empty(longest), np.empty(longest, dtype=np.int8), np.empty((3, n_states))
    for s in range(len(offsets) - 1):
        words, alpha = ids[offsets[s] : offsets[s + 1]], out[offsets[s] : offsets[s + 1]]
        n = len(words)
        log_likelihood[s] = forward_sentence(words, labels[:n], bounds, model, alpha, scale, kind)
        if n > 0:
            backward_start(n, labels[:n], bounds, model, alpha, rows[0])
        for t in range(n - 1, -1, -1):
            if t < n - 1:
                backward_step(words[t + 1], 0, 0, bounds, model, transposed, scale[t + 1], kind[t + 1], rows)
                rows[0] = rows[2]
            for j in range(n_states):
                alpha[t, j] *= rows[0, j]
            scaled(alpha[t], n_states)


@compiled
def longest_of(offsets: Any) -> Any:
    """Return the tokens of the longest sentence."""
    longest = 0
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@compiled
def expected_block(
    ids: Any, labels: Any, offsets: Any, bounds: Any, model: Any, transposed: Any, counts: Any
) -> Any:
    """Add up what is expected to have happened in each sentence, given its tokens and labels.

    Parameters
    ----------
    ids, labels : ndarray of int32, shape (n_tokens,)
    offsets : ndarray of int64, shape (n_sentences + 1,)
    bounds : ndarray of int64, shape (n_labels + 1,)
    model : HiddenMarkov
    transposed : ndarray of float64, shape (n_states, n_states)
    counts : HiddenMarkov
        Counts in place of probabilities; added to. Those of transitions are still to be multiplied by the
        transitions.

    Returns
    -------
    log_likelihood : float
        Of the sentences that are possible.
    n_sentences : int
        How many these are; those without tokens are neither.
    n_impossible : int
        Those that have no probability; they add nothing.
    """
    longest, width = longest_of(offsets), np.max(bounds[1:] - bounds[:-1])
    alpha, scale = np.empty((longest, width)), np.empty(longest)
    kind, rows = np.empty(longest, dtype=np.int8), np.empty((3, width))
    log_likelihood, n_sentences, n_impossible = 0.0, 0, 0
    for s in range(len(offsets) - 1):
        words, tags = ids[offsets[s] : offsets[s + 1]], labels[offsets[s] : offsets[s + 1]]
        found = forward_sentence(words, tags, bounds, model, alpha, scale, kind)
        if len(words) == 0:
            continue
        if found == -np.inf:
            n_impossible += 1
            continue
        log_likelihood += found
        n_sentences += 1
        expected_sentence(words, tags, bounds, model, transposed, alpha, scale, rows, counts)
    return log_likelihood, n_sentences, n_impossible


@compiled
def expected_sentence(
    words: Any,
    tags: Any,
    bounds: Any,
    model: Any,
    transposed: Any,
    alpha: Any,
    scale: Any,
    rows: Any,
    counts: Any,
) -> None:
    """Go back over a sentence that was filtered, and add to the counts."""
    n = len(words)
    backward_start(n, tags, bounds, model, alpha, rows[0])
    for t in range(n - 1, -1, -1):
        low, high = bounds[tags[t]], bounds[tags[t] + 1]
        if t < n - 1:
            after = bounds[tags[t + 1]]
            backward_step(
                words[t + 1], tags[t + 1], tags[t], bounds, model, transposed, scale[t + 1], SEEN, rows
            )
            for i in range(high - low):
                steps, weight = counts.transition[low + i], alpha[t, i]
                for j in range(bounds[tags[t + 1] + 1] - after):
                    steps[after + j] += weight * rows[1, j]
            rows[0] = rows[2]
        for j in range(high - low):
            share = alpha[t, j] * rows[0, j]
            counts.emission[words[t], low + j] += share
            if t == 0:
                counts.initial[low + j] += share
            if t == n - 1:
                counts.final[low + j] += share


@compiled
def viterbi_block(ids: Any, offsets: Any, log_model: Any, states: Any, log_joint: Any) -> None:
    """Find the best path of each sentence.

    Parameters
    ----------
    ids : ndarray of int32, shape (n_tokens,)
    offsets : ndarray of int64, shape (n_sentences + 1,)
    log_model : HiddenMarkov
        Logarithms of probabilities, its transitions from columns to rows.
    states : ndarray of int32, shape (n_tokens,)
        Written.
    log_joint : ndarray of float64, shape (n_sentences,)
        Written: the log-probability of each sentence and its path together.
    """
    n_states, longest = len(log_model.initial), longest_of(offsets)
    back = np.empty((longest, n_states), dtype=np.int32)
    best, after = np.empty(n_states), np.empty(n_states)
    for s in range(len(offsets) - 1):
        first, n, possible = offsets[s], offsets[s + 1] - offsets[s], True
        log_joint[s] = 0.0
        if n == 0:
            continue
        for t in range(n):
            if t == 0:
                after[:] = log_model.initial
            else:
                best_steps(best, log_model.transition, back[t], after)
            best, after = after, best
            possible = log_weighted(best, log_model.emission[ids[first + t]]) and possible
        if np.max(best + log_model.final) > -np.inf:
            best += log_model.final
        else:
            possible = False
        state = np.argmax(best)
        log_joint[s] = best[state] if possible else -np.inf
        for t in range(n - 1, -1, -1):
            states[first + t] = state
            state = back[t, state] if t > 0 else state


@compiled
def best_steps(best: Any, transition: Any, back: Any, after: Any) -> None:
    """Write the best way into each state: where from, and its log-probability; of equals, the first."""
    for j in range(len(best)):
        after[j], back[j] = best[0] + transition[j, 0], 0
        for i in range(1, len(best)):
            score = best[i] + transition[j, i]
            if score > after[j]:
                after[j], back[j] = score, i
    if np.max(after) == -np.inf:
        back[:] = np.argmax(best)


@compiled
def log_weighted(best: Any, emission: Any) -> Any:
    """Add a token's log-probabilities, in place, unless none is left; return whether one is."""
    if np.max(best) == -np.inf:
        best[:] = 0.0
        log_weighted_by(best, emission)
        return False
    return log_weighted_by(best, emission)


@compiled
def log_weighted_by(best: Any, emission: Any) -> Any:
    """Add a token's log-probabilities, in place, if that leaves one; return whether it does."""
    top = -np.inf
    for j in range(len(best)):
        top = max(top, best[j] + emission[j])
    if top == -np.inf:
        return False
    for j in range(len(best)):
        best[j] += emission[j]
    return True
