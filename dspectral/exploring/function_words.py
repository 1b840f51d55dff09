"""Function words of a text, by lists of stop words of its languages."""

import re

import numpy as np
from numpy.typing import NDArray

from dspectral.exploring.frequent_words import FrequentWords
from dspectral.text.stop_words import get_stop_words, list_languages

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


def find_function_words(words: FrequentWords) -> tuple[NDArray[np.bool_], str]:
    """Return which words are in lists of stop words, shape (n_words,), and the languages, joined by "and".

    The list that adds the largest share of the tokens is added first, until no list adds MIN_LISTED.
    """
    share = words.counts / words.n_tokens
    pairs = [(word, re.split("n?['\u2019]", word)[0]) for word in words.words]
    is_listed: dict[str, NDArray[np.bool_]] = {}
    for language in list_languages():
        stop_words = frozenset(get_stop_words(language)) | set(WEEKDAYS.get(language, "").split())
        is_listed[language] = np.array([not stop_words.isdisjoint(pair) for pair in pairs])
    counted = np.where([len(word) > 2 or word > "\u024f" for word in words.words], share, 0.0)
    languages: list[str] = []
    is_function = np.zeros(len(share), dtype=bool)
    while True:
        added = {language: float(counted[listed & ~is_function].sum()) for language, listed in is_listed.items()}
        best = max(added, key=added.__getitem__)
        if added[best] < MIN_LISTED:
            return is_function, " and ".join(languages)
        languages.append(best)
        is_function |= is_listed[best]
