"""Words as types: frequent ones by themselves, rare and unseen ones together with those that are spelled alike."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.inputs.sequences import HoldsSentences
from dspectral.methods.hmm.anchor.spelling import (
    class_of,
    feature_table,
    name_spelling,
    spelling,
    spelling_classes,
)
from dspectral.types import CSRRows


class WordTypes(NamedTuple):
    """Types that words are counted as.

    `words`: words with a type of their own; `classes`: names of the types after them.
    """

    words: list[str]
    classes: list[str]

    @classmethod
    def of(
        cls, words: Sequence[str], counts: NDArray[np.int64], min_count: int, *, spelled: bool
    ) -> "WordTypes":
        """Keep frequent words, and put the others into classes by spelling if that is asked for.

        Shapes: `counts` (len(words),).

        >>> WordTypes.of(["<?>", "the", "cat", "1989"], np.array([0, 5, 1, 1]), 2, spelled=True)
        WordTypes(words=['<?>', 'the'], classes=['<0>', '<a>'])
        """
        # Words are in order of falling count: those with a type of their own are the first.
        # Type 0 is "<?>", which keeps its place however few tokens it has.
        n_own = 1 + int(np.sum(np.asarray(counts[1:]) >= min_count))
        classes = spelling_classes(words[n_own:], counts[n_own:].tolist()) if spelled else []
        return cls(list(words[:n_own]), sorted(set(classes)))

    @property
    def n_types(self) -> int:
        """Number of words and classes."""
        return len(self.words) + len(self.classes)

    def name(self, number: int) -> str:
        """Return the name of a type."""
        return (self.words + self.classes)[number]

    def own(self, word: str) -> int:
        """Return the number of a word that is a type of its own."""
        if word not in self.words[1:]:
            raise ValueError(
                f"the anchor {word!r} is no word type: it does not occur in the corpus, or less than min_count times"
            )
        return self.words.index(word, 1)

    def numbers(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return the type of each word."""
        known = {word: i for i, word in enumerate(self.words)}
        classes = {name: len(self.words) + i for i, name in enumerate(self.classes)}
        return np.array([_number(word, known, classes) for word in words], dtype=np.int32)

    def counts(self, corpus: HoldsSentences) -> NDArray[np.int64]:
        """Return the number of tokens that each type has in a corpus, shape (n_types,)."""
        # Several words may be of one class: add.at adds them all, where fancy indexing would keep the last.
        tokens = np.zeros(self.n_types, dtype=np.int64)
        np.add.at(tokens, self.numbers(corpus.words), np.asarray(corpus.counts))
        return tokens

    def by_frequency(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the types that have tokens: words in order of falling count, then classes and ``"<?>"``."""
        # Words come first, as an anchor should be a word that can be read; classes serve where words are few.
        rest = np.concatenate([np.arange(len(self.words), self.n_types), [0]])
        order = np.concatenate(
            [np.arange(1, len(self.words)), rest[np.argsort(-counts[rest], kind="stable")]]
        )
        return np.asarray(order[counts[order] > 0])

    def features(self) -> CSRRows:
        """Return the spelling features of each type, shape (n_types, n_features); ``"<?>"`` has none."""
        return feature_table(
            [None, *(spelling(word) for word in self.words[1:]), *(name_spelling(c) for c in self.classes)]
        )


def _number(word: str, known: dict[str, int], classes: dict[str, int]) -> int:
    # Spelling is looked at only where a word is unknown, which is what makes this fast on running text.
    found = known.get(word)
    if found is None:
        found = classes.get(class_of(*spelling(word), classes), 0) if classes and word else 0
    return found
