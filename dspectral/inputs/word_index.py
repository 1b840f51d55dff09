"""Place of each word in the vocabulary of a fitted model."""

from typing import Protocol
from weakref import WeakKeyDictionary


class HoldsWords(Protocol):
    """A fitted model with a vocabulary."""

    words_: list[str]


_INDEXES: WeakKeyDictionary[HoldsWords, tuple[list[str], dict[str, int]]] = WeakKeyDictionary()
"""Index of each model that was asked, beside it: in it, the index would be saved and pickled with the vocabulary."""


def word_numbers(model: HoldsWords) -> dict[str, int]:
    """Return the place of each word in ``words_``.

    >>> class Model:
    ...     words_ = ["<?>", "cat"]
    >>> word_numbers(Model())
    {'<?>': 0, 'cat': 1}
    """
    words, numbers = _INDEXES.get(model, (None, {}))
    # A fit assigns a new list, so that identity tells an index of an earlier fit, without comparing all words.
    if words is not model.words_:
        numbers = {word: i for i, word in enumerate(model.words_)}
        _INDEXES[model] = model.words_, numbers
    return numbers
