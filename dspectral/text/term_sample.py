"""The terms behind hashed columns: those that occur most, kept while text is hashed."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.text.hashing import HashingSettings, hash_columns
from dspectral.text.terms import TermTable
from dspectral.types import Documents

_AT_ONCE = 16
"""Samples that are merged at once: a part of the rule, because what is dropped depends on it."""


class TermSample(NamedTuple):
    """The most frequent terms of some text: a summary of bounded size, which merges.

    Whoever drops terms adds the largest count among them to `error`, the most that a count falls short of the truth;
    terms of equal count are kept in the order of their bytes.
    """

    table: TermTable
    size: int
    error: int

    @classmethod
    def of(cls, documents: Documents, settings: HashingSettings, size: int) -> Self:
        """Sample one block of text; the settings say what a term is."""
        rule = settings.ngram_range, settings.lowercase, settings.tokenizer, settings.normalize
        table = TermTable.of(documents, *rule)
        return cls(*_most_frequent(table, size, 0))

    def merge(self, *others: Self) -> Self:
        """Return the sample of the text of this sample and all others together, in their order."""
        table = self.table.merge(*(other.table for other in others))
        error = self.error + sum(other.error for other in others)
        return type(self)(*_most_frequent(table, self.size, error))


class KeptTerms(NamedTuple):
    """Names of hashed columns: the most frequent terms, and the column and sign of each.

    Attributes
    ----------
    table : TermTable
        The terms, in the order of their bytes, with counts that are at most the true ones.
    columns : ndarray of int64, shape (n_terms,)
        The column that each term is hashed to.
    signs : ndarray of int8, shape (n_terms,)
        The sign that each term counts with.
    n_columns : int
        Number of columns in all.
    error : int
        Most that a count falls short of the truth: no other term occurs more often than this.

    Examples
    --------
    >>> from dspectral import NgramHashing
    >>> kept = NgramHashing(4, (1, 1)).kept_terms(["to be or not to be"])
    >>> kept.names()
    {2: 'be', 3: 'to/or', 0: 'not'}
    """

    table: TermTable
    columns: NDArray[np.int64]
    signs: NDArray[np.int8]
    n_columns: int
    error: int

    @classmethod
    def of(cls, sample: TermSample, settings: HashingSettings) -> Self:
        """Hash the terms of a sample to their columns."""
        columns, negative = hash_columns(sample.table.terms, settings.n_features)
        signs = np.where(negative & settings.alternate_sign, -1, 1).astype(np.int8)
        return cls(sample.table, columns, signs, settings.n_features, sample.error)

    def __repr__(self) -> str:
        n_terms, n_named = len(self.columns), len(np.unique(self.columns))
        return f"KeptTerms({n_terms} terms in {n_named} of {self.n_columns} columns)"

    def names(self) -> dict[int, str]:
        """Return the name of each column that has one.

        Returns
        -------
        dict of int to str
            Column to its terms, the most frequent first, joined by ``/``, with ``-`` before those of the other sign.
        """
        named: dict[int, str] = {}
        first: dict[int, int] = {}
        for i in np.argsort(-self.table.counts, kind="stable").tolist():
            column, sign, term = int(self.columns[i]), int(self.signs[i]), self.table.term(i)
            if column not in named:
                named[column], first[column] = term, sign
            else:
                named[column] += f"/{'' if sign == first[column] else '-'}{term}"
        return named

    def column_signs(self) -> dict[int, int]:
        """Return the sign that the first term of each named column counts with.

        Returns
        -------
        dict of int to int
            Column to 1 or -1.
        """
        signs: dict[int, int] = {}
        for i in np.argsort(-self.table.counts, kind="stable").tolist():
            signs.setdefault(int(self.columns[i]), int(self.signs[i]))
        return signs


def merged_samples(samples: Iterable[TermSample]) -> TermSample:
    """Merge samples in their order, some at a time."""
    every: Iterator[TermSample] = iter(samples)
    merged = next(every)
    # `merged` holds all samples so far and at most `size` terms; memory is that of one merge, however many blocks there
    # are.
    while more := list(islice(every, _AT_ONCE)):
        merged = merged.merge(*more)
    return merged


def _most_frequent(table: TermTable, size: int, error: int) -> tuple[TermTable, int, int]:
    """Return at most ``size`` terms, and the error with what the others count."""
    if len(table.counts) <= size:
        return table, size, error
    # Terms lie in the order of their bytes, and the sort is stable: the smaller term wins a tie, on every machine.
    order = np.argsort(-table.counts, kind="stable")
    mask = np.zeros(len(table.counts), dtype=bool)
    mask[order[:size]] = True
    # The largest count that is dropped: no term can have lost more than this here.
    return table.filter(mask), size, error + int(table.counts[order[size]])
