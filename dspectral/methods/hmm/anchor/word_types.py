"""Words as types: frequent ones by themselves, rare and unseen ones together with those that are spelled alike."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.engine import Blocks
from dspectral.methods.hmm.anchor.spelling import (
    class_of,
    mark_table,
    name_spelling,
    spelling,
    spelling_classes,
)
from dspectral.types import Sentences


class WordTypes(NamedTuple):
    """What words are counted as.

    Attributes
    ----------
    words : list of str
        Types of their own; the first is ``"<?>"``, for all that is in no class.
    classes : list of str
        The types after them: rare words by their spelling.
    """

    words: list[str]
    classes: list[str]

    @classmethod
    def of(
        cls, words: Sequence[str], counts: NDArray[np.int64], min_count: int, *, spelled: bool
    ) -> "WordTypes":
        """Keep frequent words, and make classes of the others if they are to be spelled.

        Parameters
        ----------
        words : sequence of str
            Of a corpus: ``"<?>"``, then words in order of falling count.
        counts : ndarray of int64
        min_count : int
        spelled : bool

        Examples
        --------
        >>> WordTypes.of(["<?>", "the", "cat", "1989"], np.array([0, 5, 1, 1]), 2, spelled=True)
        WordTypes(words=['<?>', 'the'], classes=['<0>', '<a>'])
        """
        n_own = 1 + int(np.sum(np.asarray(counts[1:]) >= min_count))
        classes = spelling_classes(words[n_own:], counts[n_own:].tolist()) if spelled else []
        return cls(list(words[:n_own]), sorted(set(classes)))

    @property
    def n_types(self) -> int:
        """Words and classes."""
        return len(self.words) + len(self.classes)

    def name(self, number: int) -> str:
        """Return the name of a type."""
        return (self.words + self.classes)[number]

    def own(self, word: str) -> int:
        """Return the number of a word that is a type of its own.

        Raises
        ------
        ValueError
            If it is none.
        """
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

    def counts(self, corpus: Any) -> NDArray[np.int64]:
        """Return how many tokens of a corpus each type has."""
        tokens = np.zeros(self.n_types, dtype=np.int64)
        np.add.at(tokens, self.numbers(corpus.words), np.asarray(corpus.counts))
        return tokens

    def blocks(self, corpus: Any) -> Blocks:
        """Return the sentences of a corpus as types, each block when it is read."""
        sentences: Blocks = corpus.sentences
        numbers = self.numbers(corpus.words)
        return sentences._replace(read=partial(_read_types, read=sentences.read, numbers=numbers))

    def encode(self, sentences: Sequence[Sequence[str]]) -> Sentences:
        """Return lists of tokens as types."""
        offsets = np.zeros(len(sentences) + 1, dtype=np.int64)
        np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
        return Sentences(self.numbers([word for sentence in sentences for word in sentence]), offsets)

    def marks(self) -> sparse.csr_array:
        """Return the spelling of each type as marks; ``"<?>"`` has none."""
        return mark_table(
            [None, *(spelling(word) for word in self.words[1:]), *(name_spelling(c) for c in self.classes)]
        )


def _number(word: str, known: dict[str, int], classes: dict[str, int]) -> int:
    found = known.get(word)
    if found is None:
        found = classes.get(class_of(*spelling(word), classes), 0) if classes and word else 0
    return found


def _read_types(item: Any, *, read: Any, numbers: NDArray[np.int32]) -> Sentences:
    ids, offsets = read(item)
    return Sentences(numbers[ids], offsets)
