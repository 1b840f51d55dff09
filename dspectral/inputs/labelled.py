"""What estimators of labelled sequences take: lists of tokens and labels, or numbered blocks of any number."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import Blocks
from dspectral.types import LabelledSentences, Sentences

UNSEEN = "<?>"
"""Type 0: tokens that were not there when the model was fitted."""
BLOCK_TOKENS = 1 << 18
"""Tokens of an in-memory block."""


class LabelledCorpus(NamedTuple):
    """Numbered tokens and labels, in blocks.

    Attributes
    ----------
    words : list
        The types; type 0 is ``"<?>"``.
    labels : list
        The labels, by number.
    sentences : Blocks
        Of :class:`~dspectral.types.LabelledSentences`.
    """

    words: list[Any]
    labels: list[Any]
    sentences: Blocks


def as_labelled(X: Any, y: Any = None) -> LabelledCorpus:
    """Give tokens and labels numbers in the order of their first appearance.

    Parameters
    ----------
    X : list of sequences of hashable tokens, or an object with ``words``, ``labels`` and ``sentences``
        Such an object is returned as it is: its blocks may be any number, read when they are needed.
    y : list of sequences of hashable labels
        As many as there are tokens.

    Raises
    ------
    ValueError
        If there is no token, a sequence and its labels have different lengths, or labels are missing.
    TypeError
        If a token or label is not hashable, frames of numbers for instance.

    Examples
    --------
    >>> corpus = as_labelled([["a", "b"], ["b"]], [["N", "V"], ["V"]])
    >>> corpus.words, corpus.labels
    (['<?>', 'a', 'b'], ['N', 'V'])
    """
    if all(hasattr(X, name) for name in ("words", "labels", "sentences")):
        return LabelledCorpus(list(X.words), list(X.labels), X.sentences)
    if y is None:
        raise ValueError("y is None, but labels are needed: a sequence of labels for each sequence of tokens")
    if len(X) != len(y):
        raise ValueError(f"there are {len(X)} sequences of tokens, but {len(y)} of labels")
    words: dict[Any, int] = {UNSEEN: 0}
    labels: dict[Any, int] = {}
    for i, (tokens, tags) in enumerate(zip(X, y, strict=True)):
        if len(tokens) != len(tags):
            raise ValueError(f"sequence {i} has {len(tokens)} tokens, but {len(tags)} labels")
        numbered(tokens, words, "token", i)
        numbered(tags, labels, "label", i)
    if not labels:
        raise ValueError("there is no token in any sequence")
    blocks = [encoded(tokens, tags, words, labels) for tokens, tags in zip(cut(X), cut(y), strict=True)]
    return LabelledCorpus(list(words), list(labels), Blocks(itself, blocks, in_memory=True))


def numbered(values: Any, numbers: dict[Any, int], kind: str, sequence: int) -> None:
    """Give each new value the next number."""
    try:
        for value in dict.fromkeys(plain(values)):
            numbers.setdefault(value, len(numbers))
    except TypeError:
        raise TypeError(
            f"sequence {sequence} has a {kind} that is not hashable: VectorQuantizer turns frames of numbers into "
            "tokens"
        ) from None


def plain(values: Any) -> Any:
    """Return Python's own numbers and strings for an array of them."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def cut(sequences: Sequence[Any]) -> list[list[Any]]:
    """Cut a list of sequences into lists of some ``BLOCK_TOKENS`` tokens each; cuts depend on lengths alone."""
    parts: list[list[Any]] = [[]]
    n_tokens = 0
    for sequence in sequences:
        if n_tokens >= BLOCK_TOKENS:
            parts.append([])
            n_tokens = 0
        parts[-1].append(sequence)
        n_tokens += len(sequence)
    return parts


def encoded(
    tokens: list[Any], tags: list[Any], words: dict[Any, int], labels: dict[Any, int]
) -> LabelledSentences:
    """Return a block of numbers."""
    ids, offsets = joined(tokens, words)
    return LabelledSentences(ids, joined(tags, labels)[0], offsets)


def itself(block: LabelledSentences) -> LabelledSentences:
    """Return a block that is in memory already."""
    return block


def joined(sequences: Sequence[Any], numbers: dict[Any, int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the numbers of all values, 0 for unknown ones, and where each sequence begins."""
    offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
    values = (numbers.get(value, 0) for sequence in sequences for value in plain(sequence))
    return np.fromiter(values, np.int32, int(offsets[-1])), offsets


def as_sentences(X: Sequence[Any], words: Sequence[Any]) -> Sentences:
    """Return the numbers of tokens; those that are not among ``words`` are type 0."""
    return Sentences(*joined(X, {word: i for i, word in enumerate(words)}))
