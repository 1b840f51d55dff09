"""Detection of function words in a text of any language, by the diversity of their neighbors."""

import re
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.engine import summarize
from dspectral.exploring.frequent_words import FrequentWords
from dspectral.text.stop_words import get_stop_words, list_languages
from dspectral.types import Sentences

N_BUCKETS = 4096
"""Neighbors are distinguished by their word id modulo this number."""
MAX_WORDS, MIN_COUNT, MIN_TYPES = 4000, 10, 1000
"""Number of most frequent words that are scored, their minimum count, and that of the types of the text."""
LEFT, RIGHT, LOG_SHARE, INTERCEPT = 5.04, 3.32, 1.65, 5.24
"""Logistic regression of function words against nouns and adjectives in six treebanks of Universal Dependencies."""
MIN_SCORE = 1.5
"""Score above which a word is a function word; 97 % or more of them are, in seven treebanks."""
RARE_SCORE = -5.0
"""Score of words that are too rare."""
MIN_LISTED = 0.015
"""Share of the tokens that the list of stop words of a language adds to other lists if the text has this language.

Latin words of one and two letters do not count: they are in the lists of many languages, and in abbreviations."""
WEEKDAYS = {
    "dutch": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
    "english": "monday tuesday wednesday thursday friday saturday sunday",
    "french": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "german": "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "italian": "luned\xec marted\xec mercoled\xec gioved\xec venerd\xec sabato domenica",
    "portuguese": "segunda ter\xe7a quarta quinta sexta feira s\xe1bado domingo",
    "spanish": "lunes martes mi\xe9rcoles jueves viernes s\xe1bado domingo",
}
"""Names of days, which unite documents of one day and not of one subject."""


class NeighborSets(NamedTuple):
    """Sets of left and right neighbors of words, as bits (n_words, N_BUCKETS / 8), and numbers of pairs (n_words,)."""

    left: NDArray[np.uint8]
    right: NDArray[np.uint8]
    n_left: NDArray[np.int64]
    n_right: NDArray[np.int64]

    @classmethod
    def from_block(cls, sentences: Sentences, *, n_words: int) -> Self:
        """Summarize one block of sentences."""
        ids, offsets = sentences
        is_inside = np.ones(max(0, len(ids) - 1), dtype=bool)
        is_inside[offsets[(offsets > 0) & (offsets < len(ids))] - 1] = False
        first, second = ids[:-1][is_inside], ids[1:][is_inside]
        left, n_left = _collect_neighbors(second, first, n_words)
        right, n_right = _collect_neighbors(first, second, n_words)
        return cls(left, right, n_left, n_right)

    def merge(self, *others: Self) -> Self:
        """Return the sets of all sentences."""
        summaries = (self, *others)
        left, right = (np.bitwise_or.reduce([getattr(part, name) for part in summaries]) for name in ("left", "right"))
        n_left, n_right = (
            np.sum([getattr(part, name) for part in summaries], axis=0) for name in ("n_left", "n_right")
        )
        return type(self)(left, right, n_left, n_right)


def _collect_neighbors(
    words: NDArray[np.int32], neighbors: NDArray[np.int32], n_words: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    is_tested = words < n_words
    is_neighbor = np.zeros((n_words, N_BUCKETS), dtype=bool)
    is_neighbor[words[is_tested], neighbors[is_tested] % N_BUCKETS] = True
    return np.packbits(is_neighbor, axis=1), np.bincount(words[is_tested], minlength=n_words)


def score_function_words(words: FrequentWords) -> tuple[NDArray[np.float64], str]:
    """Return a score of each word, above MIN_SCORE for function words, and the language of the text.

    Shapes: returns (n_words,). The language is empty if there is no list of its stop words. With lists, their words are
    the function words; without, one pass scores words by their neighbors.

    Neighbors of a function word are almost as diverse as random words of the text, while a content word has few
    neighbors. The score is a linear function of the number of distinct left and right neighbors, relative to the
    expected number for random neighbors, and of the logarithm of the share of the word.
    """
    share = words.counts / words.n_tokens
    scores = np.full(len(share), RARE_SCORE)
    language, is_listed = _find_language(words.words, share)
    if language:
        scores[is_listed] = MIN_SCORE + 1
        return scores, language
    n_words = 1 + int(np.sum(words.counts[1 : MAX_WORDS + 1] >= MIN_COUNT))
    if n_words > 1 and words.n_types >= MIN_TYPES:
        summarize_block = partial(NeighborSets.from_block, n_words=n_words)
        sets = summarize(words.get_sentences().sentences, summarize_block=summarize_block, name="neighbors")
        buckets = np.zeros(N_BUCKETS)
        np.add.at(buckets, np.arange(len(share)) % N_BUCKETS, share)
        left = _compute_diversity(sets.left, sets.n_left, buckets)
        right = _compute_diversity(sets.right, sets.n_right, buckets)
        log_share = np.log(np.maximum(share[:n_words], np.finfo(np.float64).tiny))
        scores[:n_words] = LEFT * left + RIGHT * right + LOG_SHARE * log_share + INTERCEPT
    scores[0] = RARE_SCORE
    return scores, ""


def _find_language(words: list[str], share: NDArray[np.float64]) -> tuple[str, NDArray[np.bool_]]:
    """Return the languages of a text, joined by "and", and which words are in their lists of stop words.

    The list that adds the largest share of the tokens is added first, until no list adds MIN_LISTED.
    """
    pairs = [(word, re.split("n?['\u2019]", word)[0]) for word in words]
    is_listed: dict[str, NDArray[np.bool_]] = {}
    for language in list_languages():
        stop_words = frozenset(get_stop_words(language)) | set(WEEKDAYS.get(language, "").split())
        is_listed[language] = np.array([not stop_words.isdisjoint(pair) for pair in pairs])
    counted = np.where([len(word) > 2 or word > "\u024f" for word in words], share, 0.0)
    languages: list[str] = []
    is_known = np.zeros(len(words), dtype=bool)
    while True:
        added = {language: float(counted[listed & ~is_known].sum()) for language, listed in is_listed.items()}
        best = max(added, key=added.__getitem__)
        if added[best] < MIN_LISTED:
            return " and ".join(languages), is_known
        languages.append(best)
        is_known |= is_listed[best]


def _compute_diversity(
    bits: NDArray[np.uint8], n_pairs: NDArray[np.int64], buckets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the number of distinct neighbors of each word over the expected number, shape (n_words,)."""
    n_distinct = np.unpackbits(bits, axis=1).sum(axis=1)
    log_absent = np.log1p(-np.minimum(buckets, 1 - 1e-12))
    expected = np.array([-np.expm1(n * log_absent).sum() for n in n_pairs.tolist()])
    return np.asarray(n_distinct / np.maximum(expected, 1.0))
