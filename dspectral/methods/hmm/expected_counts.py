"""What is expected to have happened behind the tokens of sentences: the first half of an EM step, out of core."""

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import read_only
from dspectral.methods.hmm.inference import HiddenMarkov, checked_ids, compact, one_label
from dspectral.methods.hmm.recursions import expected_block
from dspectral.types import LabelledSentences, Sentences


class ExpectedCounts(NamedTuple):
    """Expected counts of starts, steps, emissions and ends (Baum-Welch), and the log-likelihood.

    Attributes
    ----------
    counts : HiddenMarkov
        Counts in place of probabilities; :func:`~dspectral.methods.hmm.inference.maximized` makes the next model.
    log_likelihood : float
        Of the sentences that are possible.
    n_sentences : int
        How many these are; those without tokens are not counted.
    n_impossible : int
        Sentences without probability under the model; they add nothing.

    References
    ----------
    Baum, Petrie, Soules and Weiss 1970, "A maximization technique".

    Examples
    --------
    >>> model = HiddenMarkov.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]])
    >>> whole = ExpectedCounts.of(Sentences.of([[0, 0, 1], [1]]), model=model)
    >>> whole.counts.emission.sum(axis=1).round(12)
    array([2., 2.])
    """

    counts: HiddenMarkov
    log_likelihood: float
    n_sentences: int
    n_impossible: int

    @classmethod
    def of(
        cls,
        sentences: Sentences | LabelledSentences,
        *,
        model: HiddenMarkov,
        bounds: NDArray[np.int64] | None = None,
    ) -> Self:
        """Summarise one block: forward and backward over each sentence.

        Parameters
        ----------
        sentences : Sentences or LabelledSentences
        model : HiddenMarkov
        bounds : ndarray of int64, shape (n_labels + 1,), optional
            Label ``a`` owns the states ``bounds[a]``, ..., ``bounds[a + 1] - 1``, and tokens with that label are in
            one of them. If not given, labels are not looked at.

        Raises
        ------
        ValueError
            If an id is not below ``model.n_types``, or a label owns no state.

        Notes
        -----
        Memory beside the block: the counts, ``8 n_types n_states`` bytes, and a few numbers a token of the longest
        sentence.
        """
        checked_ids(Sentences(sentences.ids, sentences.offsets), model.n_types)
        open_bounds, labels = one_label(model, len(sentences.ids))
        if bounds is not None and isinstance(sentences, LabelledSentences):
            checked_labels(sentences.labels, len(bounds) - 1)
            open_bounds, labels = (
                read_only(np.asarray(bounds, dtype=np.int64)),
                read_only(sentences.labels),
            )
        model = compact(model)
        counts = HiddenMarkov(*(np.zeros(part.shape) for part in model))
        found = expected_block(
            read_only(sentences.ids),
            labels,
            read_only(sentences.offsets),
            open_bounds,
            model,
            read_only(model.transition.T),
            counts,
        )
        return cls(counts._replace(transition=counts.transition * model.transition), *found)

    def merge(self, *others: Self) -> Self:
        """Return the counts of all sentences."""
        parts = (self, *others)
        return type(self)(
            HiddenMarkov(*(np.add.reduce(fields) for fields in zip(*(p.counts for p in parts), strict=True))),
            math.fsum(part.log_likelihood for part in parts),
            sum(part.n_sentences for part in parts),
            sum(part.n_impossible for part in parts),
        )


def checked_labels(labels: NDArray[np.int32], n_labels: int) -> None:
    """Raise a ValueError if a label is not below ``n_labels``."""
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < n_labels:
        bad = int(np.flatnonzero((labels < 0) | (labels >= n_labels))[0])
        raise ValueError(f"token {bad} has label {labels[bad]}, but labels go from 0 to {n_labels - 1}")
