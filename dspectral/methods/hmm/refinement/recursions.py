"""Loops over labelled sequences: what came before and what comes after a token, and products of the two."""

from typing import Any

from dspectral._compiled import compiled


@compiled
def views(block: Any, vectors: Any, memory: Any, run_memory: Any, n_labels: Any, step: Any, out: Any) -> None:
    """Write decaying sums over the tokens on one side of each token, itself left out.

    Parameters
    ----------
    block : LabelledSentences
    vectors : ndarray of float64, shape (n_types, k)
        One for each type.
    memory, run_memory : ndarray of float64
        Decays from token to token, of sums over all of the sentence, and of sums that end where the label changes.
    n_labels : int
    step : {1, -1}
        1 sums what came before, -1 what comes after.
    out : ndarray of float64, shape (n_tokens, len(memory) * (k + n_labels + 1) + len(run_memory) * (k + 1))
        Written. For each decay: the sum of the vectors, of each label, and of ones.
    """
    k, width = vectors.shape[1], out.shape[1]
    for s in range(len(block.offsets) - 1):
        first, last = block.offsets[s], block.offsets[s + 1]
        for q in range(last - first):
            i = first + q if step > 0 else last - 1 - q
            row, place = out[i], 0
            if q == 0:
                for c in range(width):
                    row[c] = 0.0
                continue
            j = i - step
            before, vector, label = out[j], vectors[block.ids[j]], block.labels[j]
            for decay in memory:
                for c in range(k):
                    row[place + c] = decay * before[place + c] + vector[c]
                for c in range(k, k + n_labels + 1):
                    row[place + c] = decay * before[place + c]
                row[place + k + label] += 1.0
                row[place + k + n_labels] += 1.0
                place += k + n_labels + 1
            same = label == block.labels[i]
            for decay in run_memory:
                for c in range(k):
                    row[place + c] = decay * before[place + c] + vector[c] if same else 0.0
                row[place + k] = decay * before[place + k] + 1.0 if same else 0.0
                place += k + 1


@compiled
def add_products(block: Any, past: Any, future: Any, joint: Any, steps: Any, first: Any, last: Any) -> None:
    """Add the products of projected views to the sums of their kind.

    Parameters
    ----------
    block : LabelledSentences
    past, future : ndarray of float64, shape (n_tokens, m)
    joint : ndarray of float64, shape (n_labels, n_types, m, m)
        Added to: future times past at each token, for its label and type.
    steps : ndarray of float64, shape (n_labels, n_labels, m, m)
        Added to: the next token's future times past, for the label and the next.
    first : ndarray of float64, shape (n_labels, m)
        Added to: the future of first tokens.
    last : ndarray of float64, shape (n_labels, m)
        Added to: the past of last tokens.
    """
    for s in range(len(block.offsets) - 1):
        start, stop = block.offsets[s], block.offsets[s + 1]
        for i in range(start, stop):
            label = block.labels[i]
            add_outer(joint[label, block.ids[i]], future[i], past[i])
            if i + 1 < stop:
                add_outer(steps[label, block.labels[i + 1]], future[i + 1], past[i])
        if start < stop:
            first[block.labels[start]] += future[start]
            last[block.labels[stop - 1]] += past[stop - 1]


@compiled
def add_outer(total: Any, left: Any, right: Any) -> None:
    """Add the outer product of two vectors."""
    for r in range(len(left)):
        for c in range(len(right)):
            total[r, c] += left[r] * right[c]


@compiled
def decode_block(ids: Any, offsets: Any, operators: Any, out: Any) -> Any:
    """Find what each label has of each token, by chain products of operators.

    Parameters
    ----------
    ids : ndarray of int32, shape (n_tokens,)
    offsets : ndarray of int64, shape (n_sentences + 1,)
    operators : Operators
    out : ndarray of float64, shape (n_tokens, n_labels)
        Written; rows sum to 1.

    Returns
    -------
    int
        How many shares came out negative, and were set to 0.
    """
    n_labels, _, m, _ = operators.emission.shape
    n_negative, longest = 0, 0
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    states, here, back = operators.first.copy(), operators.first.copy(), operators.first.copy()
    kept = operators.first.repeat(max(1, longest)).reshape(n_labels, m, max(1, longest))
    for s in range(len(offsets) - 1):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        states[:] = operators.first
        for t in range(n):
            kept[:, :, t] = states
            emit(operators.emission, ids[start + t], states, here)
            move(operators.transition, here, states)
            rescale(states)
        back[:] = operators.last
        for t in range(n - 1, -1, -1):
            absorb(operators.emission, ids[start + t], back, here)
            n_negative += label_shares(here, kept[:, :, t], out[start + t])
            retreat(operators.transition, here, back)
            rescale(back)
    return n_negative


@compiled
def emit(emission: Any, token: Any, states: Any, out: Any) -> None:
    """Apply a token's operators to column vectors, label by label."""
    n_labels, m = states.shape
    for a in range(n_labels):
        for r in range(m):
            total = 0.0
            for c in range(m):
                total += emission[a, token, r, c] * states[a, c]
            out[a, r] = total


@compiled
def absorb(emission: Any, token: Any, states: Any, out: Any) -> None:
    """Apply a token's operators to row vectors, label by label."""
    n_labels, m = states.shape
    for a in range(n_labels):
        for c in range(m):
            total = 0.0
            for r in range(m):
                total += states[a, r] * emission[a, token, r, c]
            out[a, c] = total


@compiled
def move(transition: Any, states: Any, out: Any) -> None:
    """Apply the operators from label to label to column vectors."""
    n_labels, m = states.shape
    for b in range(n_labels):
        for r in range(m):
            total = 0.0
            for a in range(n_labels):
                for c in range(m):
                    total += transition[a, b, r, c] * states[a, c]
            out[b, r] = total


@compiled
def retreat(transition: Any, states: Any, out: Any) -> None:
    """Apply the operators from label to label to row vectors."""
    n_labels, m = states.shape
    for a in range(n_labels):
        for c in range(m):
            total = 0.0
            for b in range(n_labels):
                for r in range(m):
                    total += states[b, r] * transition[a, b, r, c]
            out[a, c] = total


@compiled
def rescale(states: Any) -> None:
    """Divide by the largest magnitude, in place: the sign and the ratios are what counts."""
    n_labels, m = states.shape
    top = 0.0
    for a in range(n_labels):
        for c in range(m):
            top = max(top, abs(states[a, c]))
    if top > 0.0:
        for a in range(n_labels):
            for c in range(m):
                states[a, c] /= top


@compiled
def label_shares(back: Any, states: Any, out: Any) -> Any:
    """Write each label's share, negative ones as 0, and return how many those are."""
    n_labels, m = states.shape
    n_negative, total = 0, 0.0
    for a in range(n_labels):
        out[a] = 0.0
        for c in range(m):
            out[a] += back[a, c] * states[a, c]
        if out[a] < 0.0:
            n_negative += 1
            out[a] = 0.0
        total += out[a]
    for a in range(n_labels):
        out[a] = out[a] / total if total > 0.0 else 1.0 / n_labels
    return n_negative
