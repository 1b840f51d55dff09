"""Hidden Markov chains over token ids: filtering, smoothing, the best path, expected counts, all pure."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import read_only
from dspectral.methods.hmm import recursions as sequences
from dspectral.registry import saved
from dspectral.types import Sentences


@saved
class HiddenMarkov(NamedTuple):
    """A hidden Markov model, or the counts that one is made from.

    Attributes
    ----------
    initial : ndarray of float64, shape (n_states,)
        ``p(h_1 = h)``.
    transition : ndarray of float64, shape (n_states, n_states)
        ``p(h' | h)`` in row h, column h'.
    emission : ndarray of float64, shape (n_types, n_states)
        ``p(x | h)`` in row x, column h: columns sum to 1.
    final : ndarray of float64, shape (n_states,)
        ``p(stop | h)``; a row of transitions and this sum to 1. Ones where lengths are not modelled.
    """

    initial: NDArray[np.float64]
    transition: NDArray[np.float64]
    emission: NDArray[np.float64]
    final: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        initial: NDArray[np.float64],
        transition: NDArray[np.float64],
        emission: NDArray[np.float64],
        final: NDArray[np.float64] | None = None,
    ) -> "HiddenMarkov":
        """Check shapes and signs, and fill in ``final`` where lengths are not modelled.

        Raises
        ------
        ValueError
            If shapes disagree, or an entry is negative or not finite.

        Examples
        --------
        >>> HiddenMarkov.of(np.ones(1), np.ones((1, 1)), np.full((4, 1), 0.25)).n_states
        1
        """
        n = len(initial)
        model = cls(initial, transition, emission, np.ones(n) if final is None else final)
        model = cls(*(read_only(np.asarray(part, dtype=np.float64)) for part in model))
        for name, part, shape in zip(
            cls._fields, model, [(n,), (n, n), (len(model.emission), n), (n,)], strict=True
        ):
            if part.shape != shape:
                raise ValueError(f"{name} has shape {part.shape}, but {n} states ask for {shape}")
            if not np.all(np.isfinite(part)) or np.any(part < 0):
                raise ValueError(f"{name} has an entry that is negative or not finite")
        return model

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return len(self.initial)

    @property
    def n_types(self) -> int:
        """Number of token types."""
        return len(self.emission)


class Smoothed(NamedTuple):
    """What sentences say about their hidden states.

    Attributes
    ----------
    posterior : ndarray of float64, shape (n_tokens, n_states)
        ``p(h_i = h | sentence)``; rows sum to 1.
    log_likelihood : ndarray of float64, shape (n_sentences,)
        ``log p(sentence)``, minus infinity where it is impossible; 0 for a sentence without tokens.
    """

    posterior: NDArray[np.float64]
    log_likelihood: NDArray[np.float64]


class Path(NamedTuple):
    """The best path through each sentence.

    Attributes
    ----------
    states : ndarray of int32, shape (n_tokens,)
    log_joint : ndarray of float64, shape (n_sentences,)
        ``log p(sentence, path)``, minus infinity where the sentence is impossible.
    """

    states: NDArray[np.int32]
    log_joint: NDArray[np.float64]


class Filtered(NamedTuple):
    """What the beginning of a sentence says about the state reached, and how likely each token was.

    Attributes
    ----------
    alpha : ndarray of float64, shape (n_tokens, n_states)
        ``p(h_i = h | x_1 .. x_i)``; rows sum to 1.
    scale : ndarray of float64, shape (n_tokens,)
        ``p(x_i | x_1 .. x_{i-1})``.
    kind : ndarray of int8, shape (n_tokens,)
        0, or 1 where a token said nothing because no reachable state emits it, or 2 where no state was reachable.
    log_likelihood : ndarray of float64, shape (n_sentences,)
    """

    alpha: NDArray[np.float64]
    scale: NDArray[np.float64]
    kind: NDArray[np.int8]
    log_likelihood: NDArray[np.float64]


def forward(sentences: Sentences, model: HiddenMarkov) -> Filtered:
    """Filter: the forward recursion, scaled to sum 1 at each token.

    Parameters
    ----------
    sentences : Sentences
        Ids below ``model.n_types``.
    model : HiddenMarkov

    Returns
    -------
    Filtered

    Raises
    ------
    ValueError
        If an id is out of range.

    Notes
    -----
    ``O(n_tokens n_states^2)`` time. Impossible sentences: see :mod:`dspectral.methods.hmm.recursions`.

    Examples
    --------
    >>> model = HiddenMarkov.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[1.0, 0.0], [0.0, 1.0]])
    >>> np.exp(forward(Sentences.of([[0, 1]]), model).log_likelihood).round(3)
    array([0.05])
    """
    checked_ids(sentences, model.n_types)
    ids, n = read_only(sentences.ids), len(sentences.ids)
    out = Filtered(
        np.empty((n, model.n_states)), np.empty(n), np.empty(n, np.int8), np.empty(sentences.n_sentences)
    )
    bounds, labels = one_label(model, n)
    for s in range(sentences.n_sentences):
        part = slice(sentences.offsets[s], sentences.offsets[s + 1])
        out.log_likelihood[s] = sequences.forward_sentence(
            ids[part],
            read_only(labels[part]),
            bounds,
            compact(model),
            out.alpha[part],
            out.scale[part],
            out.kind[part],
        )
    return out


def backward(sentences: Sentences, model: HiddenMarkov, filtered: Filtered) -> NDArray[np.float64]:
    """Run the backward recursion, scaled like the forward one: ``alpha * beta`` is the posterior.

    Parameters
    ----------
    sentences : Sentences
    model : HiddenMarkov
    filtered : Filtered
        Of :func:`forward` on the same.

    Returns
    -------
    ndarray of float64, shape (n_tokens, n_states)
        ``p(x_{i+1} .. x_n, stop | h_i = h) / p(x_{i+1} .. x_n, stop | x_1 .. x_i)``.

    Examples
    --------
    >>> model = HiddenMarkov.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[1.0, 0.5], [0.0, 0.5]])
    >>> sentences = Sentences.of([[0, 1]])
    >>> filtered = forward(sentences, model)
    >>> (filtered.alpha * backward(sentences, model, filtered)).sum(axis=1).round(12)
    array([1., 1.])
    """
    beta = np.ones((len(sentences.ids), model.n_states))
    bounds, labels = one_label(model, len(sentences.ids))
    compacted, transposed = compact(model), read_only(model.transition.T)
    rows = np.empty((3, model.n_states))
    for s in range(sentences.n_sentences):
        first, last = int(sentences.offsets[s]), int(sentences.offsets[s + 1])
        if last > first:
            part = slice(first, last)
            sequences.backward_start(
                last - first, labels[part], bounds, compacted, filtered.alpha[part], beta[last - 1]
            )
        for t in range(last - 2, first - 1, -1):
            rows[0] = beta[t + 1]
            scale, kind = filtered.scale[t + 1], filtered.kind[t + 1]
            sequences.backward_step(
                sentences.ids[t + 1], 0, 0, bounds, compacted, transposed, scale, kind, rows
            )
            beta[t] = rows[2]
    return beta


def smooth(sentences: Sentences, model: HiddenMarkov) -> Smoothed:
    """Return the posterior of each token's state, and each sentence's log-likelihood.

    Parameters
    ----------
    sentences : Sentences
        Ids below ``model.n_types``.
    model : HiddenMarkov

    Returns
    -------
    Smoothed

    Raises
    ------
    ValueError
        If an id is out of range.

    Notes
    -----
    Forward and backward recursions, scaled at each token: no logarithm of a sum, no underflow. Memory: the
    posterior itself. Sentences that are impossible: see :mod:`dspectral.methods.hmm.recursions`.

    References
    ----------
    Rabiner 1989, "A tutorial on hidden Markov models", section V A.

    Examples
    --------
    >>> model = HiddenMarkov.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]])
    >>> smooth(Sentences.of([[0, 0, 1, 1]]), model).posterior.argmax(axis=1)
    array([0, 0, 1, 1])
    """
    checked_ids(sentences, model.n_types)
    out = Smoothed(np.empty((len(sentences.ids), model.n_states)), np.empty(sentences.n_sentences))
    sequences.posterior_block(
        read_only(sentences.ids),
        read_only(sentences.offsets),
        compact(model),
        read_only(model.transition.T),
        out.posterior,
        out.log_likelihood,
    )
    return out


def viterbi(sentences: Sentences, model: HiddenMarkov) -> Path:
    """Return the most probable sequence of states of each sentence; of equals, the first states.

    Parameters
    ----------
    sentences : Sentences
        Ids below ``model.n_types``.
    model : HiddenMarkov

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If an id is out of range.

    Notes
    -----
    In logarithms. Memory: one pointer a token and state of the longest sentence.

    Examples
    --------
    >>> model = HiddenMarkov.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]])
    >>> viterbi(Sentences.of([[0, 1, 0], [1]]), model).states
    array([0, 0, 0, 1], dtype=int32)
    """
    checked_ids(sentences, model.n_types)
    with np.errstate(divide="ignore"):
        logs = HiddenMarkov(
            *(
                read_only(np.log(part))
                for part in (model.initial, model.transition.T, model.emission, model.final)
            )
        )
    out = Path(np.zeros(len(sentences.ids), dtype=np.int32), np.empty(sentences.n_sentences))
    sequences.viterbi_block(
        read_only(sentences.ids), read_only(sentences.offsets), logs, out.states, out.log_joint
    )
    return out


def maximized(counts: HiddenMarkov, *, smoothing: float = 0.0, lengths: bool = True) -> HiddenMarkov:
    """Turn counts into probabilities: the second half of an EM step, or supervised training.

    Parameters
    ----------
    counts : HiddenMarkov
        Expected or observed.
    smoothing : float
        Added to every count of an emission.
    lengths : bool
        Whether sentences end with a probability; if not, transitions alone sum to 1 and ``final`` is ones.

    Returns
    -------
    HiddenMarkov
        A state that nothing was counted in emits, and is followed by, everything alike.

    Examples
    --------
    >>> counts = HiddenMarkov.of([4.0], [[6.0]], [[7.0], [3.0]], [4.0])
    >>> maximized(counts)
    HiddenMarkov(initial=array([1.]), transition=array([[0.6]]), emission=array([[0.7],
           [0.3]]), final=array([0.4]))
    """
    emission = counts.emission + smoothing
    steps = np.column_stack([counts.transition, counts.final]) if lengths else counts.transition
    steps = shares(steps, axis=1)
    n = len(counts.initial)
    final = np.ascontiguousarray(steps[:, n]) if lengths else np.ones(n)
    return HiddenMarkov(
        shares(counts.initial, axis=0), np.ascontiguousarray(steps[:, :n]), shares(emission, axis=0), final
    )


def shares(counts: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Divide by the sums along an axis; where a sum is 0, all are alike."""
    totals = counts.sum(axis=axis, keepdims=True)
    return np.asarray(
        np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / counts.shape[axis])
    )


def checked_ids(sentences: Sentences, n_types: int) -> None:
    """Raise a ValueError if an id is not below ``n_types``: compiled loops do not check."""
    ids = sentences.ids
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < n_types:
        bad = int(np.flatnonzero((ids < 0) | (ids >= n_types))[0])
        raise ValueError(
            f"token {bad} has the id {ids[bad]}, but the model knows ids from 0 to {n_types - 1}"
        )


def one_label(model: HiddenMarkov, n_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the bounds and the labels that leave every state open to every token."""
    return read_only(np.array([0, model.n_states])), read_only(np.zeros(n_tokens, dtype=np.int32))


def compact(model: HiddenMarkov) -> HiddenMarkov:
    """Return the model as the compiled loops take it: double precision, contiguous, read-only."""
    return HiddenMarkov(*(read_only(np.asarray(part, dtype=np.float64)) for part in model))
