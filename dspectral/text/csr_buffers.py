"""Sum hashed n-grams of documents into the rows of a CSR matrix.

Each n-gram is a 32-bit key: the index of its document in a group, its column, and one bit for the sign. One sort
orders the keys of a whole group, so short documents share its fixed cost.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled
from dspectral.linalg.radix_sort import N_VALUES, sort_keys
from dspectral.text.term_bytes import finish_hash, load_uint32, update_hash
from dspectral.text.tokens import PADDING, Tokens
from dspectral.types import Floats, Int, Int32s, Int64s

GROUP_NGRAMS = 4096  # maximum n-grams and documents of a group; its keys fit the L1 cache
N_SHARED_WORDS = PADDING // 4 - 1  # 4-byte words hashed once per token and shared by its n-grams


class RowBuffers(NamedTuple):
    """Buffers for the rows of one block, reused by its groups.

    `codes, tails, keys, spare` (n_cells,): hash, last bytes and key of each n-gram of a group, and scratch space;
    `ngrams` (n_documents + 1,): cumulative number of n-grams; `data, indices` (n_ngrams,) and `indptr`
    (n_documents + 1,): the CSR rows.
    """

    codes: NDArray[np.uint32]
    tails: NDArray[np.uint32]
    keys: NDArray[np.uint32]
    spare: NDArray[np.uint32]
    digit_counts: Int64s
    ngrams: Int64s
    data: Floats
    indices: Int32s
    indptr: Int64s


def to_csr(buffers: RowBuffers, n_columns: int) -> sparse.csr_array:
    """Return the rows as a canonical float32 CSR array, without stored zeros."""
    nnz = int(buffers.indptr[-1])
    indptr = buffers.indptr.astype(np.int32) if nnz <= np.iinfo(np.int32).max else buffers.indptr
    shape = (len(indptr) - 1, n_columns)
    rows = sparse.csr_array((buffers.data[:nnz], buffers.indices[:nnz], indptr), shape=shape)
    # The sort leaves columns ascending and distinct: setting the flag saves SciPy a scan.
    rows.has_canonical_format = True
    return rows


def allocate_buffers(bounds: Int64s, ngram_range: tuple[int, int]) -> RowBuffers:
    """Allocate buffers for the n-grams of documents; ``bounds`` is that of `Tokens`."""
    low, high = ngram_range
    n_words, ngrams = np.diff(bounds), np.zeros(len(bounds), dtype=np.int64)
    counts = np.sum([np.maximum(n_words - length + 1, 0) for length in range(low, high + 1)], axis=0)
    np.cumsum(counts, out=ngrams[1:])
    # Sized for the largest group: a document longer than a group forms a group of its own.
    n_cells = max(counts.max(initial=0), min(GROUP_NGRAMS, ngrams[-1]))
    codes, tails, keys, spare = np.empty((4, n_cells), dtype=np.uint32)
    # Allocated by NumPy rather than in compiled code: NumPy requests huge pages, which are cheaper to map.
    return RowBuffers(
        *(codes, tails, keys, spare),
        np.empty((4, N_VALUES), dtype=np.int64),
        ngrams,
        np.empty(ngrams[-1], dtype=np.float32),
        np.empty(ngrams[-1], dtype=np.int32),
        np.zeros(len(bounds), dtype=np.int64),
    )


@compiled
def find_group_end(buffers: RowBuffers, n_bits: Int, first: Int) -> Int:
    """Return the end (exclusive) of the group of documents that starts at ``first``."""
    last = first + 1
    # A key has 31 - n_bits bits for the document.
    max_end = min(buffers.ngrams.size - 1, first + min(GROUP_NGRAMS, 1 << (31 - n_bits)))
    while last < max_end and buffers.ngrams[last + 1] - buffers.ngrams[first] <= GROUP_NGRAMS:
        last += 1
    return last


@compiled
def hash_group(tokens: Tokens, ngram_range: tuple[int, int], buffers: RowBuffers, first: Int, last: Int) -> None:
    """Hash the n-grams of documents first, ..., last - 1 into ``buffers.codes``, by document, first word and length."""
    (text, starts, bounds), (low, high) = tokens, ngram_range
    codes, tails = buffers.codes, buffers.tails
    # Invariant: `states[i]` is the hash state after the first i 4-byte words from `begin`, and `state` after all 4-byte
    # words of text[begin:position]. All n-grams that start at a token share these states. A fixed number of words is
    # hashed without branches, since a mispredicted branch costs as much as five words. Cost: `N_SHARED_WORDS` words
    # per token, and one vectorized sweep over the codes.
    states = np.zeros(N_SHARED_WORDS + 1, dtype=np.uint32)
    n = np.uint64(0)
    for document in range(first, last):
        for word in range(bounds[document], bounds[document + 1]):
            begin = starts[np.uint64(word)]
            for i in range(N_SHARED_WORDS):
                states[np.uint64(i + 1)] = update_hash(states[np.uint64(i)], load_uint32(text, begin + 4 * i))
            state, position = states[N_SHARED_WORDS], begin + 4 * N_SHARED_WORDS
            for length in range(1, min(high, bounds[document + 1] - word) + 1):
                size = starts[np.uint64(word + length)] - 1 - begin
                while position + 4 <= begin + size:
                    state = update_hash(state, load_uint32(text, position))
                    position += 4
                if length >= low:
                    # The mask removes bytes after the end of the n-gram; the padding of the text keeps reads in bounds.
                    whole = size >> 2
                    tail = load_uint32(text, begin + 4 * whole) & np.uint32((1 << 8 * (size & 3)) - 1)
                    codes[n] = (states[np.uint64(whole)] if whole <= N_SHARED_WORDS else state) ^ np.uint32(size)
                    tails[n] = tail
                    n += np.uint64(1)
    for i in range(n):
        codes[i] = finish_hash(codes[i], tails[i])


@compiled
def sum_group(buffers: RowBuffers, first: Int, last: Int, n_cells: int, n_bits: Int) -> None:
    """Sum the signs of equal keys, and write the CSR rows of documents first, ..., last - 1.

    The first ``n_cells`` keys are ``((document - first) << n_bits | column) << 1 | negative``. A radix sort makes keys
    of the same cell adjacent; each run becomes one entry, or none if its signs cancel. Rows before ``first`` are
    complete. Cost: linear in the number of keys.

    >>> buffers = allocate_buffers(np.array([0, 3]), (1, 1))
    >>> buffers.keys[:] = 5 << 1, 2 << 1 | 1, 5 << 1
    >>> sum_group(buffers, 0, 1, 3, 4)
    >>> buffers.indices[:2], buffers.data[:2], buffers.indptr
    (array([2, 5], dtype=int32), array([-1.,  2.], dtype=float32), array([0, 2]))
    """
    # Local variables avoid the reference counting of arrays that are read from a tuple.
    indices, data, indptr = buffers.indices, buffers.data, buffers.indptr
    document_bits = 0
    while last - first > 1 << document_bits:
        document_bits += 1
    one, mask, shift = np.uint64(1), np.uint64((1 << n_bits) - 1), np.uint64(n_bits)
    # The sort starts at bit 1, since the order of signs within a cell is irrelevant. Columns are sorted first: in the
    # second sort adjacent keys then belong to different documents, and their memory accesses are independent.
    digit_counts, low = buffers.digit_counts, int(1 + n_bits)
    keys, spare = sort_keys(buffers.keys, buffers.spare, digit_counts, n_cells, 1, low)
    keys, _ = sort_keys(keys, spare, digit_counts, n_cells, low, int(low + document_bits))
    # Invariant: entries before `end_entry` are the sums of the complete cells of `keys[:i]`. The current cell is
    # written at `end_entry`, and is overwritten if its sum is 0. The loop has no branches, since equal keys are
    # unpredictable.
    indptr[first + 1 : last + 1] = 0
    end_entry, previous, total = np.uint64(indptr[first]), np.uint64(0), np.int64(0)
    for i in range(n_cells):
        key = np.uint64(keys[np.uint64(i)])
        cell = key >> one
        is_new_cell = cell != previous
        end_entry += np.uint64(is_new_cell & (total != 0))
        total = (0 if is_new_cell else total) + 1 - 2 * np.int64(key & one)
        indices[end_entry], data[end_entry], previous = cell & mask, total, cell
        indptr[np.uint64(first + 1) + (cell >> shift)] = end_entry + np.uint64(total != 0)
    for document in range(first, last):
        indptr[document + 1] = max(indptr[document], indptr[document + 1])
