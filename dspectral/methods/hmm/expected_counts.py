"""The E-step of EM, out of core: expected counts of starts, steps, emissions and ends, and likelihoods."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from dspectral._compiled import compiled, read_only
from dspectral.engine.summary import add_fields
from dspectral.methods.hmm.chain import HiddenMarkov
from dspectral.methods.hmm.inference import log_likelihoods
from dspectral.methods.hmm.recursions import EMITTED, filter_sentence, init_beta, max_sentence_length, step_backward
from dspectral.types import Doubles, Int32s, Int64s, LabeledSentences, Sentences, check_ids


class ExpectedCounts(NamedTuple):
    """Expected counts of starts, steps, emissions and ends, and the log-likelihood of the possible sentences."""

    counts: HiddenMarkov
    log_likelihood: float
    n_sentences: int
    n_impossible: int

    @classmethod
    def from_block(
        cls, sentences: Sentences | LabeledSentences, *, model: HiddenMarkov, bounds: Int64s | None = None
    ) -> Self:
        """Summarize one block by the forward and the backward recursion over each sentence."""
        check_ids(sentences.ids, model.n_types)
        if bounds is not None and isinstance(sentences, LabeledSentences):
            check_ids(sentences.labels, len(bounds) - 1, "label")
            state_bounds, labels = np.asarray(bounds, dtype=np.int64), sentences.labels
        else:  # a single label with all states
            state_bounds, labels = np.array([0, model.n_states]), np.zeros(len(sentences.ids), dtype=np.int32)
        # Read-only views give one signature for all callers, so the loops are compiled once.
        model = model.as_read_only()
        counts = HiddenMarkov(*(np.zeros(part.shape) for part in model))
        totals = count_block(
            read_only(sentences.ids),
            read_only(labels),
            read_only(sentences.offsets),
            read_only(state_bounds),
            model,
            read_only(model.transition.T),
            counts,
        )
        # The loops omit the constant factor A[i, j]; applying it here costs k^2 products instead of n k^2.
        return cls(counts._replace(transition=counts.transition * model.transition), *totals)

    def merge(self, *others: Self) -> Self:
        """Return the counts of all sentences."""
        return add_fields(self, *others)


class Likelihood(NamedTuple):
    """Log-likelihood of all sentences, minus infinity if one is impossible, and number of tokens."""

    log_likelihood: float
    n_tokens: int

    @classmethod
    def from_block(cls, sentences: Sentences, *, model: HiddenMarkov) -> Self:
        """Summarize one block of ids by the forward recursion over each sentence."""
        return cls(float(log_likelihoods(sentences, model).sum()), len(sentences.ids))

    def merge(self, *others: Self) -> Self:
        """Return the log-likelihood of all sentences."""
        return add_fields(self, *others)

    @property
    def per_token(self) -> float:
        """Mean log-likelihood per token, 0 without tokens."""
        return self.log_likelihood / max(1, self.n_tokens)


def has_converged(log_likelihoods: Sequence[float], tol: float) -> bool:
    """Return whether the last pass increased the log-likelihood by less than a fraction ``tol`` of it."""
    if len(log_likelihoods) < 2:
        return False
    before, last = log_likelihoods[-2:]
    return last - before < tol * abs(last)


@compiled
def count_block(
    ids: Int32s,
    labels: Int32s,
    offsets: Int64s,
    bounds: Int64s,
    model: HiddenMarkov,
    transposed: Doubles,
    counts: HiddenMarkov,
) -> tuple[float, int, int]:
    """Add the expected counts of each sentence, given its tokens and labels."""
    # Time O(n k^2) for k states of a label; memory O(longest k), as only alpha of one sentence is held.
    max_length, width = max_sentence_length(offsets), np.max(bounds[1:] - bounds[:-1])
    alpha, scale = np.empty((max_length, width)), np.empty(max_length)
    kind, rows = np.empty(max_length, dtype=np.int8), np.empty((3, width))
    log_likelihood, n_sentences, n_impossible = 0.0, 0, 0
    for s in range(len(offsets) - 1):
        words, tags = ids[offsets[s] : offsets[s + 1]], labels[offsets[s] : offsets[s + 1]]
        sentence_log_likelihood = filter_sentence(words, tags, bounds, model, alpha, scale, kind)
        if len(words) == 0:
            continue
        # An impossible sentence has no posterior: it is counted and skipped.
        if sentence_log_likelihood == -np.inf:
            n_impossible += 1
            continue
        log_likelihood += sentence_log_likelihood
        n_sentences += 1
        count_sentence(words, tags, bounds, model, transposed, alpha, scale, rows, counts)
    return log_likelihood, n_sentences, n_impossible


@compiled
def count_sentence(
    words: Int32s,
    tags: Int32s,
    bounds: Int64s,
    model: HiddenMarkov,
    transposed: Doubles,
    alpha: Doubles,
    scale: Doubles,
    rows: Doubles,
    counts: HiddenMarkov,
) -> None:
    """Add the expected counts of a filtered sentence by the backward recursion; ``rows`` as in ``step_backward``."""
    n = len(words)
    init_beta(n, tags, bounds, model, alpha, rows[0])
    # With rows[0] = beta[t]: p(h_t = j | x) = alpha[t, j] beta[t, j], and
    # p(h_t = i, h_{t+1} = j | x) = alpha[t, i] A[i, j] (B[x_{t+1}, j] beta[t+1, j] / scale[t+1]). step_backward writes
    # the bracket to rows[1]; the caller multiplies by A[i, j]. O(n k^2).
    for t in range(n - 1, -1, -1):
        low, high = bounds[tags[t]], bounds[tags[t] + 1]
        if t < n - 1:
            after = bounds[tags[t + 1]]
            step_backward(words[t + 1], tags[t + 1], tags[t], bounds, model, transposed, scale[t + 1], EMITTED, rows)
            for i in range(high - low):
                steps, weight = counts.transition[low + i, after : bounds[tags[t + 1] + 1]], alpha[t, i]
                for j in range(len(steps)):
                    steps[j] += weight * rows[1, j]
            for j in range(high - low):
                rows[0, j] = rows[2, j]
        for j in range(high - low):
            share = alpha[t, j] * rows[0, j]
            counts.emission[words[t], low + j] += share
            if t == 0:
                counts.initial[low + j] += share
            if t == n - 1:
                counts.final[low + j] += share
