"""From the cells that the n-grams of documents fall into, to the rows of a CSR matrix.

A cell is a 64-bit key: the place of the document in its group, then the column, then one bit for the sign. So
one sort puts the cells of a group of documents in order, and short documents share its fixed cost.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled
from dspectral.linalg.radix_sort import sort_keys
from dspectral.text.term_bytes import absorb, finish, load
from dspectral.text.tokens import Tokens
from dspectral.types import Int

GROUP = 4096  # n-grams, and at most as many documents: its keys fit the second cache


class RowBuffers(NamedTuple):
    """Buffers that the rows of a block are gathered in, reused from group to group.

    `codes, begins, ends`: hash and place of each n-gram of a group; `keys, spare`: its cells; `ngrams` (n_documents +
    1,): n-grams of the documents before each; `data, indices` (n_ngrams,), `indptr` (n_documents + 1,): the rows.
    """

    codes: NDArray[np.uint32]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]
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


@compiled
def new_buffers(bounds: NDArray[np.int64], ngram_range: tuple[int, int]) -> RowBuffers:
    """Return buffers with room for the n-grams of documents, whose words ``bounds`` delimits as in `Tokens`."""
    low, high = ngram_range
    n_documents = bounds.size - 1
    ngrams = np.zeros(n_documents + 1, dtype=np.int64)
    most = 0
    for i in range(n_documents):
        count = 0
        for length in range(low, high + 1):
            count += max(0, bounds[i + 1] - bounds[i] - length + 1)
        ngrams[i + 1] = ngrams[i] + count
        most = max(most, count)
    # Room for the largest group: one document that is longer than a group is a group of its own.
    n_cells = max(most, min(GROUP, ngrams[n_documents]))
    return RowBuffers(
        np.empty(n_cells, dtype=np.uint32),
        np.empty(n_cells, dtype=np.int64),
        np.empty(n_cells, dtype=np.int64),
        np.empty(n_cells, dtype=np.uint64),
        np.empty(n_cells, dtype=np.uint64),
        ngrams,
        np.empty(ngrams[n_documents], dtype=np.float32),
        np.empty(ngrams[n_documents], dtype=np.int32),
        np.zeros(n_documents + 1, dtype=np.int64),
    )


@compiled
def end_of_group(buffers: RowBuffers, first: Int) -> Int:
    """Return the document before which the group that begins with document ``first`` ends."""
    last = first + 1
    furthest = min(buffers.ngrams.size - 1, first + GROUP)
    while last < furthest and buffers.ngrams[last + 1] - buffers.ngrams[first] <= GROUP:
        last += 1
    return last


@compiled
def hash_group(
    tokens: Tokens, ngram_range: tuple[int, int], buffers: RowBuffers, first: Int, last: Int
) -> None:
    """Hash the n-grams of documents first, ..., last - 1, and write their codes, begins and ends into the buffers.

    The order is document by document, then by first word, then the shorter n-gram first.

    >>> from dspectral.text.tokens import tokenize
    >>> from dspectral.types import Documents
    >>> tokens = tokenize(Documents.of(["a word"]))
    >>> buffers = new_buffers(tokens.bounds, (1, 1))
    >>> hash_group(tokens, (1, 1), buffers, 0, 1)
    >>> buffers.codes, buffers.begins, buffers.ends
    (array([3326792864], dtype=uint32), array([0]), array([4]))
    """
    text, starts, (low, high) = tokens.text, tokens.starts, ngram_range
    codes, begins, ends = buffers.codes, buffers.begins, buffers.ends
    # Invariant: `state` is the hash of all whole words of four bytes of text[begin:position]. The n-grams that begin at
    # a word share its bytes, so one more word costs its own bytes alone: `high` times the text is hashed, and not
    # high (high + 1) / 2 times.
    n = np.uint64(0)
    for document in range(first, last):
        end_of_document = tokens.bounds[document + 1]
        for word in range(tokens.bounds[document], end_of_document):
            begin = position = starts[word]
            state = np.uint32(0)
            for length in range(1, min(high, end_of_document - word) + 1):
                end = starts[word + length] - 1
                while position + 4 <= end:
                    state = absorb(state, load(text, position))
                    position += 4
                if length >= low:
                    # The four bytes may go beyond the n-gram: `finish` masks them, and the padding behind the last
                    # word keeps the read inside the text.
                    codes[n] = finish(state, load(text, position), end - begin)
                    begins[n], ends[n] = begin, end
                    n += np.uint64(1)


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
    document_bits = 0
    while last - first > 1 << document_bits:
        document_bits += 1
    one, mask = np.uint64(1), np.uint64((1 << n_bits) - 1)
    # Sorted from bit 1 on: the sign in bit 0 does not matter for the order of a cell's own n-grams.
    keys = sort_keys(buffers.keys, buffers.spare, n_cells, 1, int(1 + n_bits + document_bits))
    # Invariant: the cells of `keys[:i]` are summed, and their entries stand before `out`; each row begins where the
    # one before it ends, so that no entry is ever moved.
    i, out = 0, buffers.indptr[first]
    for document in range(first, last):
        end = np.uint64((document - first + 1) << (n_bits + 1))
        while i < n_cells and keys[i] < end:
            cell = keys[i] >> one
            total = np.int64(0)
            while i < n_cells and keys[i] >> one == cell:
                total += 1 - 2 * np.int64(keys[i] & one)
                i += 1
            if total != 0:
                buffers.indices[out], buffers.data[out] = cell & mask, total
                out += 1
        buffers.indptr[document + 1] = out
