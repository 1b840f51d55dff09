"""Mergeable tables of exact n-gram counts."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.ngrams import count_distinct_ngrams
from dspectral.text.term_bytes import compare_slices, copy_bytes, gather_slices, hash_terms, read_only_terms, take_terms
from dspectral.text.token_rules import MAX_MEAN_LETTERS, count_unspaced
from dspectral.text.tokenizers import TokenizerLike, tokenize_documents
from dspectral.text.tokens import check_ngram_range
from dspectral.types import Bools, Documents, Int, Int64s

MAX_PARTITIONS = 2**16


class TermTable(NamedTuple):
    """Exact counts and document frequencies of n-grams, in byte order."""

    terms: Documents
    document_frequency: Int64s
    counts: Int64s

    @classmethod
    def from_block(
        cls,
        documents: Documents,
        ngram_range: tuple[int, int] = (1, 1),
        lowercase: bool = True,
        tokenizer: TokenizerLike | None = None,
        normalize: str | None = None,
    ) -> "TermTable":
        """Count the n-grams of a block of documents. Memory: 56 bytes per word, besides the table."""
        check_ngram_range(ngram_range)
        low, high = ngram_range
        tokens = tokenize_documents(documents, lowercase, tokenizer, normalize)
        tables = []
        for length, distinct in enumerate(count_distinct_ngrams(tokens, high), start=1):
            if length >= low:
                begins, ends = tokens.starts.take(distinct.first), tokens.starts.take(distinct.first + length)
                terms = gather_slices(tokens.text, begins, ends - 1)
                tables.append(cls(terms, distinct.document_frequency, distinct.counts))
        return tables[0].merge(*tables[1:])

    def merge(self, *others: "TermTable") -> "TermTable":
        """Return the sum of this table and others."""
        tables = [self, *others]
        while len(tables) > 1:
            # Pairwise merging copies each term log2(n) times instead of up to n times.
            pairs = zip(tables[::2], tables[1::2], strict=False)
            tables = [_merge_pair(a, b) for a, b in pairs] + tables[len(tables) & ~1 :]
        return tables[0]

    def filter(self, mask: Bools) -> "TermTable":
        """Return the terms where ``mask``, shape (n,), is true."""
        return _take_rows(self, np.flatnonzero(mask))

    def partition(self, n_partitions: int) -> list["TermTable"]:
        """Split the table by a hash of the terms; equal partitions of different tables can be merged."""
        if not 1 <= n_partitions <= MAX_PARTITIONS:
            raise ValueError(f"n_partitions={n_partitions!r} must be from 1 to {MAX_PARTITIONS}")
        codes = hash_terms(self.terms).astype(np.uint64)
        # The high bits of the hash choose the partition. The stable sort keeps the byte order that a merge requires.
        partition = ((codes * np.uint64(n_partitions)) >> np.uint64(32)).astype(np.uint16)
        order = np.argsort(partition, kind="stable")
        ends = np.cumsum(np.bincount(partition, minlength=n_partitions))
        return [_take_rows(self, row_numbers) for row_numbers in np.split(order, ends[:-1])]

    def term(self, i: int) -> str:
        """Return term ``i`` as a string."""
        return self.terms.text(i).decode()


def count_unspaced_letters(table: TermTable) -> tuple[int, int]:
    """Return the total number of letters and of words, counting only words of scripts without spaces.

    >>> count_unspaced_letters(TermTable.from_block(Documents.from_strings(["東京都 東京都 Tokyo"]), tokenizer="words"))
    (6, 2)
    """
    data, offsets = table.terms
    n_letters = n_words = 0
    # Words that start with a letter of one or two bytes are skipped.
    for i in np.flatnonzero(data[offsets[:-1]] >= 0xE0).tolist() if len(data) else ():
        if letters := count_unspaced(table.term(i)):
            count = int(table.counts[i])
            n_letters, n_words = n_letters + letters * count, n_words + count
    return n_letters, n_words


def is_unsegmented(letter_counts: Iterable[tuple[int, int]]) -> bool:
    """Return whether words in scripts without spaces are whole clauses, given :func:`count_unspaced_letters`."""
    n_letters, n_words = map(sum, zip(*letter_counts, strict=True))
    return n_letters > MAX_MEAN_LETTERS * n_words


def _take_rows(table: TermTable, row_numbers: Int64s) -> TermTable:
    frequency, counts = table.document_frequency.take(row_numbers), table.counts.take(row_numbers)
    return TermTable(take_terms(table.terms, row_numbers), frequency, counts)


def _merge_pair(a: TermTable, b: TermTable) -> TermTable:
    data, offsets, document_frequency, counts = _merge_tables(_as_read_only(a), _as_read_only(b))
    return TermTable(Documents(data, offsets), document_frequency, counts)


def _as_read_only(table: TermTable) -> TermTable:
    return TermTable(read_only_terms(table.terms), read_only(table.document_frequency), read_only(table.counts))


@compiled
def _merge_tables(a: TermTable, b: TermTable) -> tuple[NDArray[np.uint8], Int64s, Int64s, Int64s]:
    """Merge two sorted tables of distinct terms, and add their counts.

    Invariant: the first ``n`` terms written are the distinct terms of ``a[:i]`` and ``b[:j]`` in byte order; a common
    term advances both sides. Cost: one comparison and one copy per term.
    """
    # Local variables avoid the reference counting of arrays that are read from a tuple.
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
            order = compare_slices(a_data, a_offsets[i], a_offsets[i + 1], b_data, b_offsets[j], b_offsets[j + 1])
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
    # The buffers are sized for two tables without common terms; copying frees the unused end.
    return data[: offsets[n]].copy(), offsets[: n + 1].copy(), frequency[:n].copy(), counts[:n].copy()
