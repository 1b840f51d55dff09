"""Loops over labeled sequences: decaying sums (views), their moments, and products of operators."""

import numpy as np

from dspectral._compiled import compiled
from dspectral.methods.hmm.recursions import max_sentence_length
from dspectral.methods.hmm.refinement.operators import Operators
from dspectral.types import Doubles, Int32s, Int64s, LabeledSentences


@compiled
def write_views(
    block: LabeledSentences,
    vectors: Doubles,
    memory: Doubles,
    run_memory: Doubles,
    n_labels: int,
    step: int,
    out: Doubles,
) -> None:
    """Write decaying sums over the tokens on one side of each token, exclusive, shape (n_tokens, width)."""
    k, width = vectors.shape[1], out.shape[1]
    # out[i] = decay * out[j] + [vector, label, 1] of token j = i - step, the neighbor on that side: O(width) for each
    # token. Invariant: row j is final before row i.
    for s in range(len(block.offsets) - 1):
        first, last = block.offsets[s], block.offsets[s + 1]
        for q in range(last - first):
            i = first + q if step > 0 else last - 1 - q
            row, column = out[i], 0
            if q == 0:
                for c in range(width):
                    row[c] = 0.0
                continue
            j = i - step
            before, vector, label = out[j], vectors[block.ids[j]], block.labels[j]
            for decay in memory:
                for c in range(k):
                    row[column + c] = decay * before[column + c] + vector[c]
                for c in range(k, k + n_labels + 1):
                    row[column + c] = decay * before[column + c]
                row[column + k + label] += 1.0
                row[column + k + n_labels] += 1.0
                column += k + n_labels + 1
            # Sums of a run restart where the label changes.
            same = label == block.labels[i]
            for decay in run_memory:
                for c in range(k):
                    row[column + c] = decay * before[column + c] + vector[c] if same else 0.0
                row[column + k] = decay * before[column + k] + 1.0 if same else 0.0
                column += k + 1


@compiled
def add_products(
    block: LabeledSentences,
    past: Doubles,
    future: Doubles,
    joint: Doubles,
    steps: Doubles,
    first: Doubles,
    last: Doubles,
) -> None:
    """Add the products of projected views, (n_tokens, m) each, to ``OperatorMoments``: O(m^2) for each token."""
    for s in range(len(block.offsets) - 1):
        start, stop = block.offsets[s], block.offsets[s + 1]
        # Each token adds one outer product for its label and type, and one for its label and the next label of the
        # sentence.
        for i in range(start, stop):
            label = block.labels[i]
            add_outer(joint[label, block.ids[i]], future[i], past[i])
            if i + 1 < stop:
                add_outer(steps[label, block.labels[i + 1]], future[i + 1], past[i])
        if start < stop:
            for c in range(past.shape[1]):
                first[block.labels[start], c] += future[start, c]
                last[block.labels[stop - 1], c] += past[stop - 1, c]


@compiled
def add_outer(total: Doubles, left: Doubles, right: Doubles) -> None:
    """Add the outer product of two vectors."""
    for r in range(len(left)):
        for c in range(len(right)):
            total[r, c] += left[r] * right[c]


@compiled
def decode_block(ids: Int32s, offsets: Int64s, operators: Operators, out: Doubles) -> None:
    """Write the probability of each label at each token, shape (n_tokens, n_labels), from products of operators."""
    n_labels, _, m, _ = operators.emission.shape
    max_length = max_sentence_length(offsets)
    states, emitted, backward = operators.first.copy(), operators.first.copy(), operators.first.copy()
    # Row vectors are multiplied by transposed operators, in views that take no memory.
    emission_left = operators.emission.transpose((0, 1, 3, 2))
    transition_left = operators.transition.transpose((1, 0, 3, 2))
    states_before = np.empty((n_labels, m, max(1, max_length)))
    # Column vectors go forward: s_0 = first, s_{t+1}[b] = sum_a T[a][b] O[a][x_t] s_t[a]. Row vectors come back:
    # r_{n-1} = last, r_{t-1}[a] = sum_b r_t[b] O[b][x_t] T[a][b]. The share of label a at token t is
    # r_t[a] O[a][x_t] s_t[a] divided by the sum over labels. Both are rescaled at each token to avoid underflow.
    # O(n (n_labels m)^2) time; ``states_before`` holds s_t of one sentence.
    for s in range(len(offsets) - 1):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        copy_vectors(operators.first, states)
        for t in range(n):
            copy_vectors(states, states_before[:, :, t])
            multiply_emission(operators.emission, ids[start + t], states, emitted)
            multiply_transition(operators.transition, emitted, states)
            rescale(states)
        copy_vectors(operators.last, backward)
        for t in range(n - 1, -1, -1):
            multiply_emission(emission_left, ids[start + t], backward, emitted)
            write_label_shares(emitted, states_before[:, :, t], out[start + t])
            multiply_transition(transition_left, emitted, backward)
            rescale(backward)


@compiled
def multiply_emission(emission: Doubles, token: int, states: Doubles, out: Doubles) -> None:
    """Apply a token's operators to column vectors, label by label."""
    # out[a] = O[a][x] s[a]: n_labels m^2 products, along contiguous rows.
    n_labels, m = states.shape
    for a in range(n_labels):
        for r in range(m):
            total = 0.0
            for c in range(m):
                total += emission[a, token, r, c] * states[a, c]
            out[a, r] = total


@compiled
def multiply_transition(transition: Doubles, states: Doubles, out: Doubles) -> None:
    """Apply the operators from label to label to column vectors."""
    # out[b] = sum_a T[a][b] s[a]: (n_labels m)^2 products, the dominant cost of a token.
    n_labels, m = states.shape
    for b in range(n_labels):
        for r in range(m):
            total = 0.0
            for a in range(n_labels):
                for c in range(m):
                    total += transition[a, b, r, c] * states[a, c]
            out[b, r] = total


@compiled
def rescale(states: Doubles) -> None:
    """Divide by the largest magnitude in place."""
    n_labels, m = states.shape
    # Entries may be negative, so their sum may be 0.
    top = 0.0
    for a in range(n_labels):
        for c in range(m):
            top = max(top, abs(states[a, c]))
    if top > 0.0:
        for a in range(n_labels):
            for c in range(m):
                states[a, c] /= top


@compiled
def copy_vectors(vectors: Doubles, out: Doubles) -> None:
    """Copy vectors; slice assignment would take Numba seconds to compile."""
    for a in range(len(vectors)):
        for c in range(vectors.shape[1]):
            out[a, c] = vectors[a, c]


@compiled
def write_label_shares(backward: Doubles, states: Doubles, out: Doubles) -> None:
    """Write the probability of each label, with negative ones set to 0."""
    n_labels, m = states.shape
    total = 0.0
    for a in range(n_labels):
        out[a] = 0.0
        for c in range(m):
            out[a] += backward[a, c] * states[a, c]
        out[a] = max(out[a], 0.0)
        total += out[a]
    for a in range(n_labels):
        out[a] = out[a] / total if total > 0.0 else 1.0 / n_labels
