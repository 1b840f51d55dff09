"""Exact n-grams: tables of how often each occurs, which merge."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.cutting import MAX_LETTERS, count_unspaced
from dspectral.text.ngrams import distinct_ngrams
from dspectral.text.term_bytes import compare, copy_bytes, gather, hash_terms, read_only_terms, take
from dspectral.text.tokenizers import TokenizerLike, words_of
from dspectral.text.tokens import check_ngram_range
from dspectral.types import Documents, Int

MOST_PARTITIONS = 2**16


class TermTable(NamedTuple):
    """How often each n-gram occurs, in the order of bytes, and in how many documents; it merges exactly."""

    terms: Documents
    document_frequency: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        documents: Documents,
        ngram_range: tuple[int, int] = (1, 1),
        lowercase: bool = True,
        tokenizer: TokenizerLike | None = None,
        normalize: str | None = None,
    ) -> "TermTable":
        """Count the n-grams of a block of documents; holds 56 bytes for each word of the block beside the table.

        >>> table = TermTable.of(Documents.of(["to be or not to be", "to do"]))
        >>> [(table.term(i), int(table.counts[i])) for i in range(len(table.counts))]
        [('be', 2), ('do', 1), ('not', 1), ('or', 1), ('to', 3)]
        """
        check_ngram_range(ngram_range)
        low, high = ngram_range
        tokens = words_of(documents, lowercase, tokenizer, normalize)
        tables = []
        for length, distinct in enumerate(distinct_ngrams(tokens, high), start=1):
            if length >= low:
                begins, ends = tokens.starts.take(distinct.first), tokens.starts.take(distinct.first + length)
                terms = gather(tokens.text, begins, ends - 1)
                tables.append(cls(terms, distinct.document_frequency, distinct.counts))
        return tables[0].merge(*tables[1:])

    def merge(self, *others: "TermTable") -> "TermTable":
        """Return the counts of all documents together."""
        tables = [self, *others]
        while len(tables) > 1:
            # Two by two and not one after the other: each term is then copied log2(n) times instead of up to n times.
            # The last of an odd number of tables waits for the next round.
            pairs = zip(tables[::2], tables[1::2], strict=False)
            tables = [_merged(a, b) for a, b in pairs] + tables[len(tables) & ~1 :]
        return tables[0]

    def filter(self, mask: NDArray[np.bool_]) -> "TermTable":
        """Return the table of the terms where ``mask``, shape (n,), is true."""
        if len(mask) != len(self.counts):
            raise ValueError(
                f"The mask has {len(mask)} entries, but must have one for each of the "
                f"{len(self.counts)} terms."
            )
        return _rows(self, np.flatnonzero(mask))

    def partition(self, n_partitions: int) -> list["TermTable"]:
        """Split the table by a hash of the terms, in the same way for every table: partitions merge to the table."""
        if not 1 <= n_partitions <= MOST_PARTITIONS:
            raise ValueError(f"n_partitions is {n_partitions!r}, but must be from 1 to {MOST_PARTITIONS}.")
        codes = hash_terms(self.terms).astype(np.uint64)
        # The high bits of the hash choose the part, for any number of parts. The stable sort keeps the terms of a part
        # in the order of their bytes, which a merge relies on.
        partition = ((codes * np.uint64(n_partitions)) >> np.uint64(32)).astype(np.uint16)
        order = np.argsort(partition, kind="stable")
        ends = np.cumsum(np.bincount(partition, minlength=n_partitions))
        return [_rows(self, which) for which in np.split(order, ends[:-1])]

    def term(self, i: int) -> str:
        """Return term ``i`` as a string."""
        return self.terms.text(i).decode()


def count_letters(table: TermTable) -> tuple[int, int]:
    """Return the letters of words in scripts without blanks, and the number of these words, each as often as it occurs.

    >>> count_letters(TermTable.of(Documents.of(["東京都 東京都 Tokyo"]), tokenizer="words"))
    (6, 2)
    """
    data, offsets = table.terms
    n_letters = n_words = 0
    # Most words begin with a letter of at most two bytes, and are not looked at.
    for i in np.flatnonzero(data[offsets[:-1]] >= 0xE0).tolist() if len(data) else ():
        if letters := count_unspaced(table.term(i)):
            count = int(table.counts[i])
            n_letters, n_words = n_letters + letters * count, n_words + count
    return n_letters, n_words


def are_clauses(counted: Iterable[tuple[int, int]]) -> bool:
    """Report whether words in scripts without blanks are whole clauses, by the results of :func:`count_letters`."""
    n_letters, n_words = map(sum, zip(*counted, strict=True))
    return n_letters > MAX_LETTERS * n_words


def _rows(table: TermTable, which: NDArray[np.int64]) -> TermTable:
    return TermTable(take(table.terms, which), table.document_frequency.take(which), table.counts.take(which))


def _merged(a: TermTable, b: TermTable) -> TermTable:
    data, offsets, document_frequency, counts = _merge_tables(_read_only(a), _read_only(b))
    return TermTable(Documents(data, offsets), document_frequency, counts)


def _read_only(table: TermTable) -> TermTable:
    return TermTable(
        read_only_terms(table.terms), read_only(table.document_frequency), read_only(table.counts)
    )


@compiled
def _merge_tables(
    a: TermTable, b: TermTable
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Merge two sorted lists of distinct terms into one, and add up what is counted of them.

    Invariant of the loop: the first ``n`` terms written are those of ``a[:i]`` and ``b[:j]``, each once and in the
    order of bytes; a term in both takes one step on each side. Cost: one comparison and one copy for each term.
    """
    # Arrays by themselves: one that is reached through a table is counted as in use at every visit.
    (a_data, a_offsets), a_frequency, a_counts = a
    (b_data, b_offsets), b_frequency, b_counts = b
    n_a, n_b = a_counts.size, b_counts.size
    data = np.empty(a_data.size + b_data.size, dtype=np.uint8)
    offsets = np.zeros(n_a + n_b + 1, dtype=np.int64)
    frequency, counts = np.zeros(n_a + n_b, dtype=np.int64), np.zeros(n_a + n_b, dtype=np.int64)
    i = j = n = 0
    while i < n_a or j < n_b:
        order: Int = -1 if j == n_b else 1
        if i < n_a and j < n_b:
            order = compare(a_data, a_offsets[i], a_offsets[i + 1], b_data, b_offsets[j], b_offsets[j + 1])
        if order <= 0:
            offsets[n + 1] = copy_bytes(a_data, a_offsets[i], a_offsets[i + 1], data, offsets[n])
            frequency[n] += a_frequency[i]
            counts[n] += a_counts[i]
            i += 1
        if order >= 0:
            offsets[n + 1] = copy_bytes(b_data, b_offsets[j], b_offsets[j + 1], data, offsets[n])
            frequency[n] += b_frequency[j]
            counts[n] += b_counts[j]
            j += 1
        n += 1
    # Copies, so that the room for terms that turned out to be common is given back.
    return data[: offsets[n]].copy(), offsets[: n + 1].copy(), frequency[:n].copy(), counts[:n].copy()
