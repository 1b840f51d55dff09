"""From the cells that the n-grams of documents fall into, to the rows of a CSR matrix.

A cell is a 32-bit key: the place of the document in its group, then the column, then one bit for the sign. So
one sort puts the cells of a group of documents in order, and short documents share its fixed cost.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled
from dspectral.linalg.radix_sort import N_VALUES, sort_keys
from dspectral.text.term_bytes import absorb, finish, load
from dspectral.text.tokens import PADDING, Tokens
from dspectral.types import Int

GROUP = 4096  # n-grams, and at most as many documents: its keys fit the first cache
WORDS = PADDING // 4 - 1  # of four bytes, hashed for every n-gram, whether it has so many or not


class RowBuffers(NamedTuple):
    """Buffers that the rows of a block are gathered in, reused from group to group.

    `codes, tails, keys, spare` (n_cells,): hash of each n-gram of a group, its last bytes, its cell; `ngrams`
    (n_documents + 1,): n-grams of the documents before each; `data, indices` (n_ngrams,), `indptr` (n_documents + 1,):
    the rows.
    """

    codes: NDArray[np.uint32]
    tails: NDArray[np.uint32]
    keys: NDArray[np.uint32]
    spare: NDArray[np.uint32]
    places: NDArray[np.int64]
    ngrams: NDArray[np.int64]
    data: NDArray[np.float32]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]


def as_rows(buffers: RowBuffers, n_columns: int) -> sparse.csr_array:
    """Return the finished rows as CSR of float32 with sorted indices and neither duplicates nor stored zeros."""
    nnz = int(buffers.indptr[-1])
    indptr = buffers.indptr.astype(np.int32) if nnz <= np.iinfo(np.int32).max else buffers.indptr
    shape = (len(indptr) - 1, n_columns)
    rows = sparse.csr_array((buffers.data[:nnz], buffers.indices[:nnz], indptr), shape=shape)
    # The sort leaves columns ascending and distinct; SciPy would look through all of them to find that out.
    rows.has_canonical_format = True
    return rows


def new_buffers(bounds: NDArray[np.int64], ngram_range: tuple[int, int]) -> RowBuffers:
    """Return buffers with room for the n-grams of documents, whose words ``bounds`` delimits as in `Tokens`."""
    low, high = ngram_range
    n_words, ngrams = np.diff(bounds), np.zeros(len(bounds), dtype=np.int64)
    counts = np.sum([np.maximum(n_words - length + 1, 0) for length in range(low, high + 1)], axis=0)
    np.cumsum(counts, out=ngrams[1:])
    # Room for the largest group: one document that is longer than a group is a group of its own.
    n_cells = max(counts.max(initial=0), min(GROUP, ngrams[-1]))
    codes, tails, keys, spare = np.empty((4, n_cells), dtype=np.uint32)
    # Made here and not in a loop: NumPy asks for huge pages, which the system maps at a fraction of the cost.
    return RowBuffers(
        *(codes, tails, keys, spare),
        np.empty((4, N_VALUES), dtype=np.int64),
        ngrams,
        np.empty(ngrams[-1], dtype=np.float32),
        np.empty(ngrams[-1], dtype=np.int32),
        np.zeros(len(bounds), dtype=np.int64),
    )


@compiled
def end_of_group(buffers: RowBuffers, n_bits: Int, first: Int) -> Int:
    """Return the document before which the group that begins with document ``first`` ends."""
    last = first + 1
    # As many documents as a key can tell beside columns of so many bits.
    furthest = min(buffers.ngrams.size - 1, first + min(GROUP, 1 << (31 - n_bits)))
    while last < furthest and buffers.ngrams[last + 1] - buffers.ngrams[first] <= GROUP:
        last += 1
    return last


@compiled
def hash_group(
    tokens: Tokens, ngram_range: tuple[int, int], buffers: RowBuffers, first: Int, last: Int
) -> None:
    """Hash the n-grams of documents first, ..., last - 1, and write their codes into the buffers.

    The order is document by document, then by first word, then the shorter n-gram first.

    >>> from dspectral.text.tokens import tokenize
    >>> from dspectral.types import Documents
    >>> tokens = tokenize(Documents.of(["a word"]))
    >>> buffers = new_buffers(tokens.bounds, (1, 1))
    >>> hash_group(tokens, (1, 1), buffers, 0, 1)
    >>> buffers.codes
    array([3326792864], dtype=uint32)
    """
    (text, starts, bounds), (low, high) = tokens, ngram_range
    codes, tails = buffers.codes, buffers.tails
    # Invariant: `states[i]` is the hash of the first i words of four bytes from `begin` on, and `state` that of all
    # whole ones of text[begin:position]. The n-grams that begin at a word share them, and so many words are hashed at
    # once that few n-grams have more: a jump that depends on lengths of words costs as much as five words. Cost:
    # `WORDS` words for each word of the text, and no jump, then one sweep over the codes that runs on whole registers.
    states = np.zeros(WORDS + 1, dtype=np.uint32)
    n = np.uint64(0)
    for document in range(first, last):
        for word in range(bounds[document], bounds[document + 1]):
            begin = starts[np.uint64(word)]
            for i in range(WORDS):
                states[np.uint64(i + 1)] = absorb(states[np.uint64(i)], load(text, begin + 4 * i))
            state, position = states[WORDS], begin + 4 * WORDS
            for length in range(1, min(high, bounds[document + 1] - word) + 1):
                size = starts[np.uint64(word + length)] - 1 - begin
                while position + 4 <= begin + size:
                    state = absorb(state, load(text, position))
                    position += 4
                if length >= low:
                    # The four bytes may go beyond the n-gram, hence the mask; the padding behind the last word keeps
                    # each read inside the text.
                    whole = size >> 2
                    tail = load(text, begin + 4 * whole) & np.uint32((1 << 8 * (size & 3)) - 1)
                    codes[n] = (states[np.uint64(whole)] if whole <= WORDS else state) ^ np.uint32(size)
                    tails[n] = tail
                    n += np.uint64(1)
    for i in range(n):
        codes[i] = finish(codes[i], tails[i])


@compiled
def sum_group(buffers: RowBuffers, first: Int, last: Int, n_cells: int, n_bits: Int) -> None:
    """Add up the signs of equal cells, and write the rows of documents first, ..., last - 1.

    The first ``n_cells`` keys are ``((document - first) << n_bits | column) << 1 | negative``. One radix sort puts
    them in order, so equal cells stand together: a run of them becomes one entry, unless its signs cancel. The
    documents before ``first`` are written already. Cost: linear in the cells.

    >>> buffers = new_buffers(np.array([0, 3]), (1, 1))
    >>> buffers.keys[:] = 5 << 1, 2 << 1 | 1, 5 << 1
    >>> sum_group(buffers, 0, 1, 3, 4)
    >>> buffers.indices[:2], buffers.data[:2], buffers.indptr
    (array([2, 5], dtype=int32), array([-1.,  2.], dtype=float32), array([0, 2]))
    """
    # Arrays by themselves: one that is reached through a tuple is counted as in use at every visit.
    indices, data, indptr = buffers.indices, buffers.data, buffers.indptr
    document_bits = 0
    while last - first > 1 << document_bits:
        document_bits += 1
    one, mask, shift = np.uint64(1), np.uint64((1 << n_bits) - 1), np.uint64(n_bits)
    # Sorted from bit 1 on: the sign in bit 0 does not matter for the order of a cell's own n-grams. Columns by
    # themselves: afterwards neighbors are of different documents, whose places do not wait for one another.
    places, low = buffers.places, int(1 + n_bits)
    keys, spare = sort_keys(buffers.keys, buffers.spare, places, n_cells, 1, low)
    keys, _ = sort_keys(keys, spare, places, n_cells, low, int(low + document_bits))
    # Invariant: the cells of `keys[:i]` before the last are summed, and their entries stand before `out`; that of the
    # last stands at `out`, where the next cell replaces it if its signs cancel. Each row begins where the one before
    # it ends, so that no entry is ever moved. No jumps: a processor cannot foresee which cells are equal.
    indptr[first + 1 : last + 1] = 0
    out, previous, total = np.uint64(indptr[first]), np.uint64(0), np.int64(0)
    for i in range(n_cells):
        key = np.uint64(keys[np.uint64(i)])
        cell = key >> one
        ended = cell != previous
        out += np.uint64(ended & (total != 0))
        total = (0 if ended else total) + 1 - 2 * np.int64(key & one)
        indices[out], data[out], previous = cell & mask, total, cell
        indptr[np.uint64(first + 1) + (cell >> shift)] = out + np.uint64(total != 0)
    for document in range(first, last):
        indptr[document + 1] = max(indptr[document], indptr[document + 1])
