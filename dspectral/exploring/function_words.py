"""Function words of a text of any language: words of lists, and words whose documents are of no subject."""

import re

import numpy as np
from scipy import sparse

from dspectral.text.stop_words import get_stop_words, list_languages
from dspectral.text.weighting import Weighting, inverse_document_frequency, select_columns
from dspectral.types import Bools, CSRRows, Doubles, Int64s

MAX_WORDS, PANEL_WORDS = 4000, 256
"""Number of most frequent words whose documents are compared, and of those that are compared at a time."""
N_COLLOCATES, MIN_COINCIDENCES = 3, 50
"""Number of words that are ignored because they are often beside a word, and of coincidences below which nothing is
known about a word."""
MIN_LIKENESS = 1.25
"""Similarity of the documents of a content word, relative to shuffled documents of the same lengths."""
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


def find_language(words: list[str], counts: Int64s) -> tuple[str, Bools]:
    """Return the languages of a text, joined by "and", and which words are in their lists of stop words.

    The list that adds the largest share of the tokens is added first, until no list adds MIN_LISTED.
    """
    pairs = [(word, re.split("n?['\u2019]", word)[0]) for word in words]
    is_listed: dict[str, Bools] = {}
    for language in list_languages():
        stop_words = frozenset(get_stop_words(language)) | set(WEEKDAYS.get(language, "").split())
        is_listed[language] = np.array([not stop_words.isdisjoint(pair) for pair in pairs])
    counted = np.where([len(word) > 2 or word > "\u024f" for word in words], counts, 0) / counts.sum()
    languages: list[str] = []
    is_known = np.zeros(len(words), dtype=bool)
    while True:
        added = {language: float(counted[listed & ~is_known].sum()) for language, listed in is_listed.items()}
        best = max(added, key=added.__getitem__)
        if added[best] < MIN_LISTED:
            return " and ".join(languages), is_known
        languages.append(best)
        is_known |= is_listed[best]


def shuffle_words(rows: CSRRows) -> CSRRows:
    """Return documents (n, d) of about the same lengths and words, with words at random."""
    indices = np.random.default_rng(0).permutation(rows.indices)
    shuffled = sparse.csr_array((rows.data, indices, rows.indptr.copy()), shape=rows.shape)
    shuffled.sum_duplicates()
    return shuffled


def find_spread_words(rows: CSRRows, max_documents: float) -> Bools:
    """Return which words occur in documents that are hardly more alike than shuffled ones, shape (d,).

    Documents are compared by their words in at most `max_documents`, without those that are often beside the word.
    Words with too few documents are not spread. Shapes: `rows` (n, d).
    """
    frequency = np.bincount(rows.indices, minlength=rows.shape[1])
    words = np.argsort(-frequency, kind="stable")[: min(MAX_WORDS, int((frequency > 1).sum()))]
    used = words[frequency[words] <= max_documents]
    idf = inverse_document_frequency(frequency[used], rows.shape[0])
    weighting = Weighting("sublinear", idf, used, "l2")
    weighted, shuffled = weighting.apply(rows), weighting.apply(shuffle_words(rows))
    present = sparse.csr_array(select_columns(rows, words).T).sign()
    is_spread = np.zeros(rows.shape[1], dtype=bool)
    for start in range(0, len(words), PANEL_WORDS):
        panel = present[start : start + PANEL_WORDS]
        own = words[start : start + PANEL_WORDS, None] == used
        likeness, _ = _sum_similarities(panel, weighted, own)
        expected, n_coincidences = _sum_similarities(panel, shuffled, own)
        is_known = n_coincidences >= MIN_COINCIDENCES
        is_spread[words[start : start + PANEL_WORDS]] = is_known & (likeness < MIN_LIKENESS * expected)
    return is_spread


def _sum_similarities(panel: CSRRows, weighted: CSRRows, own: Bools) -> tuple[Doubles, Doubles]:
    """Return sums of products of pairs of documents of each word, and numbers of coincidences, both (m,).

    Shapes: `panel` (m, n): documents of words; `weighted` (n, d); `own` (m, d): the words themselves.
    """
    is_present = sparse.csr_array((np.ones_like(weighted.data), weighted.indices, weighted.indptr), weighted.shape)
    sums, counts = (panel @ weighted).toarray(), (panel @ is_present).toarray()
    products = np.where(own, 0.0, sums**2 - (panel @ weighted.power(2)).toarray())
    coincidences = np.where(own, 0.0, counts * (counts - 1) / 2)
    first = np.argpartition(products, -N_COLLOCATES, axis=1)[:, -N_COLLOCATES:] if own.shape[1] > N_COLLOCATES else None
    totals = []
    for values in (products, coincidences):
        beside = 0.0 if first is None else np.take_along_axis(values, first, axis=1).sum(axis=1)
        totals.append(np.asarray(values.sum(axis=1) - beside, dtype=np.float64))
    return totals[0], totals[1]
