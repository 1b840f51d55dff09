"""Recursions along a chain of hidden states, one sentence at a time, rescaled at each token.

A token may be restricted to the states of its label. Label ``a`` has the states ``bounds[a]``, ...,
``bounds[a + 1] - 1``; unlabeled sentences use one label with all states. The row of a token starts at the first state
of its label.

An impossible sentence is processed to its end, with log-likelihood minus infinity. A token that no reachable state
emits is skipped (``NOT_EMITTED``). If no allowed state is reachable, the chain restarts with equal probabilities
(``UNREACHABLE``).

With n tokens and k states, each recursion costs ``O(n k^2)`` and works on rows of k numbers; ``pi``, ``A``, ``B`` and
``f`` are the fields ``initial``, ``transition``, ``emission`` and ``final`` of a model.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.types import Doubles, Int32s, Int64s

EMITTED, NOT_EMITTED, UNREACHABLE = 0, 1, 2
"""Kinds of tokens: emitted by a reachable state, emitted by none, or without a reachable state."""


@compiled
def normalize_row(row: Doubles, width: int) -> float:
    """Divide the first ``width`` entries of a row by their sum, in place, unless it is 0; return the sum."""
    total = 0.0
    for j in range(width):
        total += row[j]
    if total > 0.0:
        for j in range(width):
            row[j] /= total
    return total


@compiled
def filter_sentence(
    ids: Int32s,
    labels: Int32s,
    bounds: Int64s,
    model: HiddenMarkov,
    alpha: Doubles,
    scale: Doubles,
    kind: NDArray[np.int8],
) -> float:
    """Filter one sentence and return its log-likelihood, 0 for an empty sentence.

    Shapes: `ids, labels, scale, kind` (n,), `bounds` (n_labels + 1,), `alpha` (n, >= states of any label).
    """
    n, log_likelihood, possible = len(ids), 0.0, True
    # alpha[t, j] = B[x_t, j] * sum_i alpha[t - 1, i] A[i, j] / scale[t], and pi[j] in place of the sum at t = 0.
    # Invariant: rows before t sum to 1, so nothing underflows; the logarithms of the divisors sum to the
    # log-likelihood. The inner loop runs along a contiguous row of A.
    for t in range(n):
        low, high = bounds[labels[t]], bounds[labels[t] + 1]
        row, width = alpha[t], high - low
        if t == 0:
            for j in range(width):
                row[j] = model.initial[low + j]
        else:
            before = bounds[labels[t - 1]]
            n_before = bounds[labels[t - 1] + 1] - before
            add_weighted_rows(alpha[t - 1], n_before, model.transition, before, low, row, width)
        kind[t], scale[t] = apply_emission(row, width, model.emission[ids[t]], low)
        if kind[t] == EMITTED:
            log_likelihood += math.log(scale[t])
        else:
            possible = False
    # If lengths are not modeled, the final weights are ones and the sum is 1.
    if n > 0:
        low, ending = bounds[labels[n - 1]], 0.0
        for j in range(bounds[labels[n - 1] + 1] - low):
            ending += alpha[n - 1, j] * model.final[low + j]
        log_likelihood = log_likelihood + math.log(ending) if ending > 0.0 else -np.inf
    return log_likelihood if possible else -np.inf


ONE, TWO, THREE = np.uintp(1), np.uintp(2), np.uintp(3)
"""Unsigned integers: mixing signed and unsigned ones gives floats in NumPy."""


@compiled
def add_weighted_rows(
    weights: Doubles, n: int, matrix: Doubles, first: int, low: int, out: Doubles, width: int
) -> None:
    """Write the weighted sum of ``n`` rows of a matrix, for ``width`` columns; rows and columns have offsets."""
    # out[j] = sum_i weights[i] M[first + i, low + j], in the order of i: O(k^2). Unsigned indices need no check for
    # negative values, so the inner loop vectorizes; four rows at a time read and write ``out`` a quarter as often.
    top, column, length = np.uintp(first), np.uintp(low), np.uintp(width)
    for j in range(length):
        out[j] = 0.0
    for four in range(n // 4):
        i = np.uintp(4 * four)
        w, x, y, z = weights[i], weights[i + ONE], weights[i + TWO], weights[i + THREE]
        a, b, c, d = top + i, top + i + ONE, top + i + TWO, top + i + THREE
        for j in range(length):
            k = column + j
            out[j] = out[j] + w * matrix[a, k] + x * matrix[b, k] + y * matrix[c, k] + z * matrix[d, k]
    for rest in range(n - n % 4, n):
        i = np.uintp(rest)
        weight, a = weights[i], top + i
        for j in range(length):
            out[j] += weight * matrix[a, column + j]


@compiled
def apply_emission(row: Doubles, width: int, emission: Doubles, low: int) -> tuple[int, float]:
    """Multiply states by the emission of a token, normalize; return the kind and probability of the emission."""
    # The sum comes first: if it is 0, the predicted states stay.
    total = 0.0
    for j in range(width):
        total += row[j] * emission[low + j]
    if total > 0.0:
        for j in range(width):
            row[j] = row[j] * emission[low + j] / total
        return EMITTED, total
    # The divisor is then the sum of the predicted states. The backward recursion divides by it too, so that alpha
    # times beta still sums to 1.
    total = normalize_row(row, width)
    if total > 0.0:
        return NOT_EMITTED, total
    for j in range(width):
        row[j] = 1.0 / width
    return UNREACHABLE, 1.0


@compiled
def init_beta(n: int, labels: Int32s, bounds: Int64s, model: HiddenMarkov, alpha: Doubles, beta: Doubles) -> None:
    """Write the last row of beta: ``f[j] / sum_i alpha[n - 1, i] f[i]``, or ones where the sum is 0."""
    # ``ending`` is p(stop | x_1 .. x_n); dividing by it makes alpha * beta sum to 1.
    low = bounds[labels[n - 1]]
    width, ending = bounds[labels[n - 1] + 1] - low, 0.0
    for j in range(width):
        ending += alpha[n - 1, j] * model.final[low + j]
    for j in range(width):
        beta[j] = model.final[low + j] / ending if ending > 0.0 else 1.0


@compiled
def step_backward(
    token: int,
    label: int,
    previous_label: int,
    bounds: Int64s,
    model: HiddenMarkov,
    transposed: Doubles,
    scale: float,
    kind: int,
    rows: Doubles,
) -> None:
    """Write beta of the previous token to ``rows[2]``, given beta of this token in ``rows[0]``."""
    low, start = bounds[label], bounds[previous_label]
    width = bounds[previous_label + 1] - start
    # The chain restarts here, so beta before it is constant.
    if kind == UNREACHABLE:
        for i in range(width):
            rows[2, i] = 1.0
        return
    # beta[t, i] = sum_j A[i, j] B[x_{t+1}, j] beta[t + 1, j] / scale[t + 1], without B for a skipped token. With the
    # forward scale, alpha[t] * beta[t] sums to 1.
    n_after = bounds[label + 1] - low
    for j in range(n_after):
        weight = rows[0, j] / scale
        rows[1, j] = weight * model.emission[token, low + j] if kind == EMITTED else weight
    add_weighted_rows(rows[1], n_after, transposed, low, start, rows[2], width)


@compiled
def write_posteriors(
    ids: Int32s,
    offsets: Int64s,
    model: HiddenMarkov,
    transposed: Doubles,
    out: Doubles,
    log_likelihood: Doubles,
) -> None:
    """Write the posterior, shape (n_tokens, n_states), and the log-likelihood of each sentence."""
    n_states, max_length = len(model.initial), max_sentence_length(offsets)
    bounds, labels = np.array([0, n_states]), np.zeros(max_length, dtype=np.int32)
    scale, kind, rows = np.empty(max_length), np.empty(max_length, dtype=np.int8), np.empty((3, n_states))
    # The posterior is alpha * beta. ``out`` first holds alpha and is multiplied by beta backwards, which needs one row
    # of beta: rows[0] is beta[t] at token t.
    for s in range(len(offsets) - 1):
        words, alpha = ids[offsets[s] : offsets[s + 1]], out[offsets[s] : offsets[s + 1]]
        n = len(words)
        log_likelihood[s] = filter_sentence(words, labels[:n], bounds, model, alpha, scale, kind)
        if n > 0:
            init_beta(n, labels[:n], bounds, model, alpha, rows[0])
        for t in range(n - 1, -1, -1):
            if t < n - 1:
                step_backward(words[t + 1], 0, 0, bounds, model, transposed, scale[t + 1], kind[t + 1], rows)
                for j in range(n_states):
                    rows[0, j] = rows[2, j]
            for j in range(n_states):
                alpha[t, j] *= rows[0, j]
            normalize_row(alpha[t], n_states)


@compiled
def max_sentence_length(offsets: Int64s) -> int:
    """Return the number of tokens of the longest sentence."""
    # Buffers of this length are allocated once for a block.
    max_length = 0
    for s in range(len(offsets) - 1):
        max_length = max(max_length, offsets[s + 1] - offsets[s])
    return max_length


@compiled
def write_log_likelihoods(ids: Int32s, offsets: Int64s, model: HiddenMarkov, log_likelihood: Doubles) -> None:
    """Write the log-likelihood of each sentence by the forward recursion alone, with memory for one sentence."""
    max_length = max_sentence_length(offsets)
    bounds, labels = np.array([0, len(model.initial)]), np.zeros(max_length, dtype=np.int32)
    alpha, scale = np.empty((max_length, len(model.initial))), np.empty(max_length)
    kind = np.empty(max_length, dtype=np.int8)
    # O(n k^2) for a sentence of n tokens; all sentences share the buffer alpha.
    for s in range(len(offsets) - 1):
        words = ids[offsets[s] : offsets[s + 1]]
        log_likelihood[s] = filter_sentence(words, labels[: len(words)], bounds, model, alpha, scale, kind)
