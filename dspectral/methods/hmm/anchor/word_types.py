"""Words as types: frequent ones by themselves, rare and unseen ones together with those that are spelled alike."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.inputs.sequences import HoldsSentences
from dspectral.types import CSRRows

LONGEST_ENDING = 3
"""Largest number of letters of an ending."""


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


def spelling(word: str) -> tuple[str, str]:
    """Return the shape of a word and its ending.

    >>> [spelling(word) for word in ("sat", "Semi-colons", "IBM", "1990s", "...")]
    [('a', 'at'), ('A-', 'ons'), ('AA', 'bm'), ('0', ''), ('.', '')]
    """
    if any(letter.isdigit() for letter in word):
        return "0", ""
    if not any(letter.isalpha() for letter in word):
        return ".", ""
    capitals = word.isupper() and len(word) > 1
    shape = "AA" if capitals else "A" if word[0].isupper() else "a"
    # The first letter is no part of the ending, so that short words share it with longer ones.
    ending = word.lower()[max(1, len(word) - LONGEST_ENDING) :]
    return shape + ("-" if "-" in word[1:-1] else ""), ending


def spelling_features(shape: str, ending: str) -> list[str]:
    """Return the names of the features of a spelling: one or two for its shape, and one for each length of its ending.

    >>> spelling_features("A-", "ons")
    ['A', '-', '*s', '*ns', '*ons']
    """
    features = ["A", "AA"] if shape.startswith("AA") else [shape[0]]
    features += ["-"] if shape.endswith("-") else []
    return features + ["*" + ending[-n:] for n in range(1, len(ending) + 1)]


def class_name(shape: str, ending: str) -> str:
    """Name a class of words: ``<a*ing>`` are those in lower case that end so.

    >>> class_name("a", "ing"), class_name("0", "")
    ('<a*ing>', '<0>')
    """
    return f"<{shape}*{ending}>" if ending else f"<{shape}>"


def name_spelling(name: str) -> tuple[str, str]:
    """Return the shape and the ending that a class is named by.

    >>> name_spelling("<A-*ing>"), name_spelling("<0>")
    (('A-', 'ing'), ('0', ''))
    """
    shape, _, ending = name[1:-1].partition("*")
    return shape, ending


def spelling_classes(words: Sequence[str], counts: Iterable[int], *, least: int = 20) -> list[str]:
    """Return the class of each word: that of its longest ending with enough tokens, or else of its shape.

    >>> spelling_classes(["going", "sing", "thing", "1989", "odd"], [4, 3, 3, 1, 1], least=7)
    ['<a*ing>', '<a*ing>', '<a*ing>', '<0>', '<a>']
    """
    spelled = [spelling(word) for word in words]
    tokens: Counter[tuple[str, str]] = Counter()
    for (shape, ending), count in zip(spelled, counts, strict=True):
        for n in range(1, len(ending) + 1):
            tokens[shape, ending[-n:]] += count
    # An ending is a class of its own only if it has the tokens that its contexts need to be estimated from.
    enough = {class_name(*key): 0 for key, count in tokens.items() if count >= least}
    return [class_of(shape, ending, enough) or class_name(shape, "") for shape, ending in spelled]


def class_of(shape: str, ending: str, known: Mapping[str, int]) -> str:
    """Return the known class of the longest ending, or that of the shape, or nothing.

    >>> class_of("a", "ing", {"<a*g>": 0, "<a>": 1}), class_of("A", "ing", {"<a>": 1})
    ('<a*g>', '')
    """
    # The longest known ending says most; the bare shape, at n = 0, comes last.
    for n in range(len(ending), -1, -1):
        name = class_name(shape, ending[len(ending) - n :])
        if name in known:
            return name
    return ""


def feature_table(spellings: Sequence[tuple[str, str] | None]) -> CSRRows:
    """Return the features of each spelling as ones in a matrix, shape (n_types, n_features); None has no feature.

    >>> feature_table([None, ("a", "t"), ("a", "s")]).toarray()
    array([[0., 0., 0.],
           [1., 1., 0.],
           [1., 0., 1.]])
    """
    numbers: dict[str, int] = {}
    starts, columns = np.zeros(len(spellings) + 1, dtype=np.int64), []
    for i, spelled in enumerate(spellings):
        features = spelling_features(*spelled) if spelled is not None else []
        columns += sorted(numbers.setdefault(feature, len(numbers)) for feature in features)
        starts[i + 1] = len(columns)
    indices: NDArray[np.int32] = np.array(columns, dtype=np.int32)
    return sparse.csr_array(
        (np.ones(len(indices)), indices, starts), shape=(len(spellings), max(len(numbers), 1))
    )
