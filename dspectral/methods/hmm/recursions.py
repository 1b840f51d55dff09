"""Recursions along a chain of hidden states, one sentence at a time, rescaled at each token.

A token may be restricted to some of the states: those of its label. Label ``a`` owns the states ``bounds[a]``, ...,
``bounds[a + 1] - 1``; where nothing is known, one label owns them all. Whatever is written for a token starts at the
first state of its label.

A sentence to which the model gives no probability is read to its end all the same, so that there is something to
decode: a token that no reachable state emits is skipped (``NOT_EMITTED``), and where no allowed state is reachable the
chain starts anew, with all states equally probable (``UNREACHABLE``). Its log-likelihood is minus infinity.

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
"""Kinds of tokens: one that a reachable state emits, one that none emits, one before which no state is reachable."""


@compiled
def normalize_row(row: Doubles, width: int) -> float:
    """Divide the first entries of a row by their sum, in place, and return the sum; 0 leaves them as they are."""
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
    """Filter one sentence, and return its log-likelihood; that of a sentence without tokens is 0.

    Shapes: `ids, labels, scale, kind` (n,), `bounds` (n_labels + 1,), `alpha` (n, at least the most states of a label).
    """
    n, log_likelihood, possible = len(ids), 0.0, True
    # alpha[t, j] = B[x_t, j] * sum_i alpha[t - 1, i] A[i, j] / scale[t], and pi[j] in place of the sum at t = 0.
    # Invariant: rows before t sum to 1, so products of small numbers never underflow; the logarithms of the
    # divisors add up to the log-likelihood. The inner loop runs along a row of A, that is along memory.
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
    # Where lengths are not modeled, the final weights are ones, and the sum adds the logarithm of 1.
    if n > 0:
        low, ending = bounds[labels[n - 1]], 0.0
        for j in range(bounds[labels[n - 1] + 1] - low):
            ending += alpha[n - 1, j] * model.final[low + j]
        log_likelihood = log_likelihood + math.log(ending) if ending > 0.0 else -np.inf
    return log_likelihood if possible else -np.inf


ONE, TWO, THREE = np.uintp(1), np.uintp(2), np.uintp(3)
"""Numbers without a sign: with one, NumPy would make floats of indices."""


@compiled
def add_weighted_rows(
    weights: Doubles, n: int, matrix: Doubles, first: int, low: int, out: Doubles, width: int
) -> None:
    """Write the weighted sum of ``n`` rows of a matrix from row ``first``, in ``width`` columns from column ``low``."""
    # out[j] = sum_i weights[i] M[first + i, low + j], added in the order of i: O(k^2). Indices without a sign need no
    # check for negative ones, so that the inner loop runs on whole registers; four rows are added at a time, so that
    # ``out`` is read and written a quarter as often.
    top, left, length = np.uintp(first), np.uintp(low), np.uintp(width)
    for j in range(length):
        out[j] = 0.0
    for four in range(n // 4):
        i = np.uintp(4 * four)
        w, x, y, z = weights[i], weights[i + ONE], weights[i + TWO], weights[i + THREE]
        a, b, c, d = top + i, top + i + ONE, top + i + TWO, top + i + THREE
        for j in range(length):
            k = left + j
            out[j] = out[j] + w * matrix[a, k] + x * matrix[b, k] + y * matrix[c, k] + z * matrix[d, k]
    for rest in range(n - n % 4, n):
        i = np.uintp(rest)
        weight, a = weights[i], top + i
        for j in range(length):
            out[j] += weight * matrix[a, left + j]


@compiled
def apply_emission(row: Doubles, width: int, emission: Doubles, low: int) -> tuple[int, float]:
    """Multiply predicted states by a token's emission and normalize, in place; return its kind and probability."""
    # The sum is taken before anything is written: where it is 0, the predicted states are kept as they are.
    total = 0.0
    for j in range(width):
        total += row[j] * emission[low + j]
    if total > 0.0:
        for j in range(width):
            row[j] = row[j] * emission[low + j] / total
        return EMITTED, total
    # The divisor of a blind token is the sum of its predicted states, not a probability. The way back divides by the
    # same number, so that alpha times beta still sums to 1.
    total = normalize_row(row, width)
    if total > 0.0:
        return NOT_EMITTED, total
    for j in range(width):
        row[j] = 1.0 / width
    return UNREACHABLE, 1.0


@compiled
def init_beta(
    n: int, labels: Int32s, bounds: Int64s, model: HiddenMarkov, alpha: Doubles, beta: Doubles
) -> None:
    """Write the last row of beta: ``f[j] / sum_i alpha[n - 1, i] f[i]``, or ones where the sum is 0."""
    # ``ending`` is p(stop | x_1 .. x_n); divided by it, alpha * beta sums to 1 at the last token as at all others.
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
    before: int,
    bounds: Int64s,
    model: HiddenMarkov,
    transposed: Doubles,
    scale: float,
    kind: int,
    rows: Doubles,
) -> None:
    """Step back over a token: from beta in ``rows[0]`` to that of the token before in ``rows[2]``."""
    low, start = bounds[label], bounds[before]
    width = bounds[before + 1] - start
    # After a broken token the chain starts anew, so it says nothing about the states before it.
    if kind == UNREACHABLE:
        for i in range(width):
            rows[2, i] = 1.0
        return
    # beta[t, i] = sum_j A[i, j] B[x_{t+1}, j] beta[t + 1, j] / scale[t + 1], the emission left out of a token that
    # is blind. Divided by the forward scale, alpha[t] * beta[t] sums to 1 without another normalization.
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
    """Smooth each sentence: write its posterior, shape (n_tokens, n_states), and its log-likelihood."""
    n_states, max_length = len(model.initial), max_sentence_length(offsets)
    bounds, labels = np.array([0, n_states]), np.zeros(max_length, dtype=np.int32)
    scale, kind, rows = np.empty(max_length), np.empty(max_length, dtype=np.int8), np.empty((3, n_states))
    # The posterior is alpha * beta. Alpha is written to ``out`` and multiplied by beta on the way back, so only one
    # row of beta is ever held: rows[0] is beta[t] when token t is multiplied.
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
    # Buffers are made once a block, for this many tokens, rather than for each sentence.
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
    # O(n k^2) for a sentence of n tokens; alpha is written over by the next one, as nothing comes back along it.
    for s in range(len(offsets) - 1):
        words = ids[offsets[s] : offsets[s + 1]]
        log_likelihood[s] = filter_sentence(words, labels[: len(words)], bounds, model, alpha, scale, kind)
