"""What estimators of words take: a corpus in a store, or lists of tokens, as one kind of thing."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import Blocks
from dspectral.store.arrays import Location
from dspectral.types import Sentences

RARE = "<?>"
"""Type 0: words that occur too seldom for a type of their own, and words that were never seen."""
BLOCK_TOKENS = 1 << 20
"""Tokens of an in-memory block."""


class TokenCorpus(NamedTuple):
    """Sentences of token ids and the words behind them.

    Attributes
    ----------
    words : list of str
        The types in order of falling count, equal ones in alphabetical order of their UTF-8; type 0 is
        ``"<?>"``.
    counts : ndarray of int64, shape (n_types,)
        Tokens of each type.
    sentences : Blocks
        Of :class:`~dspectral.types.Sentences`.
    where : Location, optional
        The store that holds the sentences, for what grows too large for memory; None if they are in memory.
    """

    words: list[str]
    counts: NDArray[np.int64]
    sentences: Blocks
    where: Location | None = None


def as_corpus(X: Any, *, min_count: int = 1) -> Any:
    """Return what X holds as words, counts and blocks of sentences.

    Parameters
    ----------
    X : Corpus, or list of token lists
        A corpus is anything with ``words``, ``counts`` and ``sentences`` as :class:`TokenCorpus` has them; what
        :func:`dspectral.build_corpus` makes, for instance.
    min_count : int
        Words that occur less often become type 0, ``"<?>"``; in a corpus those that are still there.

    Returns
    -------
    object with ``words``, ``counts`` and ``sentences``
        X itself, if it is a corpus and nothing is too rare.

    Raises
    ------
    ValueError
        If there is no token, a sentence is not a list of strings, or ``min_count`` is below 1.

    Examples
    --------
    >>> corpus = as_corpus([["the", "cat", "sat"], ["the", "dog"]], min_count=2)
    >>> corpus.words, corpus.counts
    (['<?>', 'the'], array([3, 2]))
    """
    if min_count < 1:
        raise ValueError(f"min_count is {min_count}, but it must be 1 or more")
    if not all(hasattr(X, name) for name in ("words", "counts", "sentences")):
        return _from_lists(X, min_count)
    if not int(X.counts.sum()):
        raise ValueError("there is no word in the corpus")
    n_kept = 1 + int(np.sum(X.counts[1:] >= min_count))
    return X if n_kept == len(X.words) else _cut(X, n_kept)


def encode(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> Sentences:
    """Return sentences as ids: the places of their words in ``words``, 0 where they are not there.

    Examples
    --------
    >>> encode([["the", "cat"]], ["<?>", "the"]).ids
    array([1, 0], dtype=int32)
    """
    return _encode(sentences, _numbers(words))


def check_lists(sentences: Sequence[Any]) -> None:
    """Refuse a sentence that is not a list of strings.

    Raises
    ------
    ValueError
        The first one that is not is named.
    """
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str | bytes) or not all(isinstance(word, str) for word in sentence):
            raise ValueError(f"sentence {number} is {sentence!r:.60}, but it must be a list of strings")


def _numbers(words: Sequence[str]) -> dict[str, int]:
    return {word: i for i, word in enumerate(words)}


def _encode(sentences: Sequence[Sequence[str]], numbers: dict[str, int]) -> Sentences:
    return Sentences.of([[numbers.get(word, 0) for word in sentence] for sentence in sentences])


def _from_lists(X: Any, min_count: int) -> TokenCorpus:
    sentences = list(X)
    counted: Counter[str] = Counter()
    check_lists(sentences)
    for sentence in sentences:
        counted.update(sentence)
    if not counted:
        raise ValueError(f"there is no word in the {len(sentences)} sentence(s)")
    kept = [word for word, count in counted.items() if count >= min_count and word != RARE]
    kept.sort(key=lambda word: (-counted[word], word.encode()))
    counts = [counted[word] for word in kept]
    words = [RARE, *kept]
    numbers = _numbers(words)
    blocks = [_encode(part, numbers) for part in _parts(sentences)]
    return TokenCorpus(
        words,
        np.array([counted.total() - sum(counts), *counts], dtype=np.int64),
        Blocks(_itself, blocks, in_memory=True),
    )


def _parts(sentences: list[Sequence[str]]) -> list[list[Sequence[str]]]:
    parts: list[list[Sequence[str]]] = [[]]
    n_tokens = 0
    for sentence in sentences:
        if n_tokens >= BLOCK_TOKENS:
            parts.append([])
            n_tokens = 0
        parts[-1].append(sentence)
        n_tokens += len(sentence)
    return parts


def _itself(block: Sentences) -> Sentences:
    return block


def _cut(X: Any, n_types: int) -> TokenCorpus:
    """Make the types from ``n_types`` on type 0: they are the rarest, as types are in order of falling count."""
    counts = np.array(X.counts[:n_types], dtype=np.int64)
    counts[0] += int(X.counts[n_types:].sum())
    read = partial(_read_cut, read=X.sentences.read, n_types=n_types)
    where = getattr(X, "where", None)
    return TokenCorpus(list(X.words[:n_types]), counts, X.sentences._replace(read=read), where)


def _read_cut(item: Any, *, read: Any, n_types: int) -> Sentences:
    ids, offsets = read(item)
    return Sentences(np.where(ids < n_types, ids, np.int32(0)), offsets)
