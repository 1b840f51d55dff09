"""Most frequent terms, which name hashed columns."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.text.hashing import HashingSettings, hash_columns
from dspectral.text.terms import TermTable
from dspectral.types import Documents

_FAN_IN = 16
"""Number of samples per merge; it affects which terms are dropped."""


class TermSample(NamedTuple):
    """Mergeable summary of bounded size: the most frequent terms of a text.

    `error` bounds the undercount of any term: each time terms are dropped, it grows by their largest count. Ties are
    resolved in byte order.
    """

    table: TermTable
    size: int
    error: int

    @classmethod
    def from_block(cls, documents: Documents, settings: HashingSettings, size: int) -> Self:
        """Return the sample of one block of text, with terms as defined by the settings."""
        rule = settings.ngram_range, settings.lowercase, settings.tokenizer, settings.normalize
        table = TermTable.from_block(documents, *rule)
        return cls(*_select_most_frequent(table, size, 0))

    def merge(self, *others: Self) -> Self:
        """Return the sample of the combined text, in the given order."""
        table = self.table.merge(*(other.table for other in others))
        error = self.error + sum(other.error for other in others)
        return type(self)(*_select_most_frequent(table, self.size, error))


class KeptTerms(NamedTuple):
    """Names of hashed columns: the most frequent terms with their columns and signs.

    Attributes
    ----------
    table : TermTable
        Terms in byte order, with lower bounds of their counts.
    columns : ndarray of int64, shape (n_terms,)
        Hashed column of each term.
    signs : ndarray of int8, shape (n_terms,)
        Sign of each term.
    n_columns : int
        Total number of columns.
    error : int
        Maximum undercount of a term, and maximum count of terms that are not in the table.

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
    def from_sample(cls, sample: TermSample, settings: HashingSettings) -> Self:
        """Return the terms of a sample with their hashed columns."""
        columns, negative = hash_columns(sample.table.terms, settings.n_features)
        signs = np.where(negative & settings.alternate_sign, -1, 1).astype(np.int8)
        return cls(sample.table, columns, signs, settings.n_features, sample.error)

    def __repr__(self) -> str:
        n_terms, n_named = len(self.columns), len(np.unique(self.columns))
        return f"KeptTerms({n_terms} terms in {n_named} of {self.n_columns} columns)"

    def names(self) -> dict[int, str]:
        """Return the names of the columns that have terms.

        Returns
        -------
        dict of int to str
            Terms of each column, most frequent first, joined by ``/``; ``-`` marks terms of the opposite sign.
        """
        names: dict[int, str] = {}
        first_signs = self.column_signs()
        for i in np.argsort(-self.table.counts, kind="stable").tolist():
            column, term = int(self.columns[i]), self.table.term(i)
            sign = "" if self.signs[i] == first_signs[column] else "-"
            names[column] = f"{names[column]}/{sign}{term}" if column in names else term
        return names

    def column_signs(self) -> dict[int, int]:
        """Return the sign of the most frequent term of each named column.

        Returns
        -------
        dict of int to int
            Sign of each column, 1 or -1.
        """
        signs: dict[int, int] = {}
        for i in np.argsort(-self.table.counts, kind="stable").tolist():
            signs.setdefault(int(self.columns[i]), int(self.signs[i]))
        return signs


def merge_samples(samples: Iterable[TermSample]) -> TermSample:
    """Merge samples in order, a fixed number at a time."""
    remaining: Iterator[TermSample] = iter(samples)
    merged = next(remaining)
    # Memory is that of one merge, independent of the number of blocks.
    while group := list(islice(remaining, _FAN_IN)):
        merged = merged.merge(*group)
    return merged


def _select_most_frequent(table: TermTable, size: int, error: int) -> tuple[TermTable, int, int]:
    """Return the ``size`` most frequent terms, and the error increased by the largest dropped count."""
    if len(table.counts) <= size:
        return table, size, error
    # Terms are in byte order and the sort is stable, so ties are resolved in byte order.
    order = np.argsort(-table.counts, kind="stable")
    mask = np.zeros(len(table.counts), dtype=bool)
    mask[order[:size]] = True
    # counts[order[size]] is the largest dropped count.
    return table.filter(mask), size, error + int(table.counts[order[size]])
