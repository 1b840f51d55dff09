"""Look up the columns of n-grams in a vocabulary, and count the n-grams of documents."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.text.csr_buffers import RowBuffers, allocate_buffers, find_group_end, hash_group, sum_group, to_csr
from dspectral.text.term_bytes import hash_terms, is_equal, read_only_terms
from dspectral.text.tokenizers import TokenizerLike, tokenize_documents
from dspectral.text.tokens import Tokens, check_ngram_range
from dspectral.types import Documents, Int

MAX_TERMS = 2**30
HASH_SHIFT, COLUMN_MASK = np.uint64(32), np.uint64(2**32 - 1)


class TermIndex(NamedTuple):
    """Hash table from the bytes of terms to their columns, made of arrays so that it can be pickled.

    `slots`, at least twice as many as terms, hold the hash and the column plus one, or 0 if empty.
    """

    terms: Documents
    slots: NDArray[np.uint64]

    @classmethod
    def from_terms(cls, terms: Documents) -> "TermIndex":
        """Build an index of distinct terms: term ``i`` has column ``i``."""
        n = terms.n_documents
        if n > MAX_TERMS:
            raise ValueError(f"n_terms={n} must be at most {MAX_TERMS}: use a smaller vocabulary")
        terms = read_only_terms(terms)
        slots = np.zeros(max(2, 1 << (2 * n - 1).bit_length()), dtype=np.uint64)
        i, j = _fill_slots(terms, hash_terms(terms), slots)
        if j >= 0:
            raise ValueError(f"terms {i} and {j} are both {terms.text(i)!r}, but must be distinct: remove one")
        return cls(terms, slots)


def encode_documents(
    documents: Documents,
    index: TermIndex,
    ngram_range: tuple[int, int] = (1, 1),
    lowercase: bool = True,
    tokenizer: TokenizerLike | None = None,
    normalize: str | None = None,
) -> sparse.csr_array:
    """Count the n-grams of documents that are in a vocabulary, as CSR rows (n_documents, n_terms) of float32."""
    check_ngram_range(ngram_range)
    low, high = ngram_range
    tokens = tokenize_documents(documents, lowercase, tokenizer, normalize)
    n_columns = index.terms.n_documents
    index = TermIndex(read_only_terms(index.terms), read_only(index.slots))
    buffers = allocate_buffers(tokens.bounds, ngram_range)
    _encode(tokens, (int(low), int(high)), index, n_columns.bit_length(), buffers)
    return to_csr(buffers, n_columns)


@compiled
def _fill_slots(terms: Documents, codes: NDArray[np.uint32], slots: NDArray[np.uint64]) -> tuple[int, int]:
    """Fill a hash table with linear probing; return the indices of two equal terms, or -1 twice."""
    data, offsets = terms
    # Invariant: the slots hold the terms before i. At least half of the slots are empty, so a probe ends after about
    # two slots on average. Bytes are compared only if all 32 bits of the hash agree.
    mask = np.uint64(slots.size - 1)
    for i in range(codes.size):
        code = np.uint64(codes[i])
        slot = code & mask
        while slots[slot] != 0:
            j = int(slots[slot] & COLUMN_MASK) - 1
            same = slots[slot] >> HASH_SHIFT == code
            if same and is_equal(data, offsets[i], offsets[i + 1], data, offsets[j], offsets[j + 1]):
                return j, i
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (code << HASH_SHIFT) | np.uint64(i + 1)
    return -1, -1


@compiled
def _encode(tokens: Tokens, ngram_range: tuple[int, int], index: TermIndex, n_bits: Int, buffers: RowBuffers) -> None:
    first: Int = np.int64(0)  # a literal would compile the functions below a second time
    while first < tokens.bounds.size - 1:
        last = find_group_end(buffers, n_bits, first)
        hash_group(tokens, ngram_range, buffers, first, last)
        _prefetch_terms(index, buffers, buffers.ngrams[last] - buffers.ngrams[first])
        n_cells = _write_cells(tokens, ngram_range, index, n_bits, buffers, first, last)
        sum_group(buffers, first, last, n_cells, n_bits)
        first = last


@compiled
def _prefetch_terms(index: TermIndex, buffers: RowBuffers, n: Int) -> None:
    """Load the first slot of each n-gram, the offset of its term and a byte of the term into the cache."""
    # Each n-gram needs three random memory accesses. Separate loops without branches let the processor overlap them.
    # Results are written to `spare`, which is unused before the sort.
    (data, offsets), slots = index
    codes, prefetched = buffers.codes, buffers.spare
    mask, last = np.uint64(slots.size - 1), np.uint64(data.size - 1)
    if data.size == 0:
        return
    for i in range(n):
        prefetched[i] = slots[np.uint64(codes[i]) & mask] & COLUMN_MASK
    for i in range(n):
        # A slot holds the column plus one, so this is the end of the term. The minimum below keeps it inside the data.
        prefetched[i] = offsets[prefetched[i]]
    for i in range(n):
        prefetched[i] = data[min(prefetched[i], last)]


@compiled
def _write_cells(
    tokens: Tokens,
    ngram_range: tuple[int, int],
    index: TermIndex,
    n_bits: Int,
    buffers: RowBuffers,
    first: Int,
    last: Int,
) -> int:
    """Write the keys of a group's n-grams that are in the vocabulary; return their number."""
    (data, offsets), slots = index
    (text, starts, bounds), (low, high) = tokens, ngram_range
    codes, keys = buffers.codes, buffers.keys
    # A key is the document in the group and the column, as `sum_group` expects; its sign bit is 0 for counts.
    i = n = 0
    for document in range(first, last):
        row, end = (document - first) << n_bits, bounds[document + 1]
        for word in range(bounds[document], end):
            for length in range(low, min(high, end - word) + 1):
                column = look_up(data, offsets, slots, codes[i], text, starts[word], starts[word + length] - 1)
                i += 1
                if column >= 0:
                    keys[n] = (row | column) << 1
                    n += 1
    return n


@compiled
def look_up(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    slots: NDArray[np.uint64],
    code: np.uint32,
    text: NDArray[np.uint8],
    begin: Int,
    end: Int,
) -> Int:
    """Return the column of the term ``text[begin:end]`` whose hash is ``code``, or -1."""
    # Linear probing as in `_fill_slots`. A slot holds the whole hash, so bytes of other terms are rarely read.
    mask = np.uint64(slots.size - 1)
    slot = np.uint64(code) & mask
    while slots[slot] != 0:
        if slots[slot] >> HASH_SHIFT == np.uint64(code):
            column = np.int64(slots[slot] & COLUMN_MASK) - 1
            if is_equal(text, begin, end, data, offsets[column], offsets[column + 1]):
                return column
        slot = (slot + np.uint64(1)) & mask
    return -1
