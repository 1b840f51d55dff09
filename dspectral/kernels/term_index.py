"""Looking up the columns of n-grams in a vocabulary, and counting those of documents."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral.kernels.compiled import compiled, read_only
from dspectral.kernels.murmur import absorb, finish, load
from dspectral.kernels.rows import as_rows, end_of_group, new_buffers, sum_group
from dspectral.kernels.term_bytes import equal, hash_terms
from dspectral.kernels.tokens import check_ngram_range, tokenize
from dspectral.types import Documents

MOST_TERMS = 2**30
HALF, LOW_HALF = np.uint64(32), np.uint64(2**32 - 1)


class TermIndex(NamedTuple):
    """From the bytes of a term to its column; arrays alone, so that it travels to other processes.

    Attributes
    ----------
    terms : Documents
        The n terms, in the order of columns.
    slots : ndarray of uint64
        A hash table, at least twice as long as there are terms and a power of two: the hash of a term above its
        column plus one, or 0.
    """

    terms: Documents
    slots: NDArray[np.uint64]

    @classmethod
    def of(cls, terms: Documents) -> Self:
        """Index terms: term ``i`` is column ``i``.

        Parameters
        ----------
        terms : Documents
            Distinct n-grams of lowered (or not) words, joined by single spaces.

        Returns
        -------
        TermIndex

        Raises
        ------
        ValueError
            If a term occurs twice, or there are more than 2**30.

        Examples
        --------
        >>> TermIndex.of(Documents.of(["yes", "no"])).slots.shape
        (4,)
        """
        n = terms.n_documents
        if n > MOST_TERMS:
            raise ValueError(f"There are {n} terms, but an index holds at most {MOST_TERMS}.")
        terms = Documents(read_only(terms.data), read_only(terms.offsets))
        slots = np.zeros(max(2, 1 << (2 * n - 1).bit_length()), dtype=np.uint64)
        a, b = _fill_slots(*terms, hash_terms(terms), slots)
        if a >= 0:
            raise ValueError(f"Term {b} is {terms.text(b).decode()!r} as term {a} is, but terms must be distinct.")
        return cls(terms, slots)


def encode_documents(
    documents: Documents, index: TermIndex, ngram_range: tuple[int, int] = (1, 1), *, lowercase: bool = True
) -> sparse.csr_array:
    """Count the n-grams of each document that are in a vocabulary.

    Equal to scikit-learn's ``CountVectorizer`` with that vocabulary and its own token pattern.

    Parameters
    ----------
    documents : Documents
        UTF-8 text of n documents.
    index : TermIndex
        Of d terms.
    ngram_range : tuple of int
        Fewest and most words of an n-gram, from 1 to 3.
    lowercase : bool
        Whether the case of the text is lowered first.

    Returns
    -------
    csr_array of float32, shape (n, d)
        Indices are int32 and sorted, without duplicates; zeros are not stored.

    Raises
    ------
    ValueError
        If `ngram_range` is out of range, or a document is not UTF-8.

    Notes
    -----
    One pass, without the interpreter lock. Beside the result it holds `Tokens`, and 16 bytes for each n-gram of the
    longest document. Counts up to 2**24 are exact.

    Examples
    --------
    >>> index = TermIndex.of(Documents.of(["be", "to be"]))
    >>> encode_documents(Documents.of(["to be or not to be"]), index, (1, 2)).toarray()
    array([[2., 2.]], dtype=float32)
    """
    check_ngram_range(ngram_range)
    low, high = ngram_range
    tokens = tokenize(documents, lowercase=lowercase)
    n_columns = index.terms.n_documents
    read = TermIndex(Documents(*map(read_only, index.terms)), read_only(index.slots))
    buffers = _encode(tokens, read, int(low), int(high), max(1, (n_columns - 1).bit_length()))
    return as_rows(buffers, n_columns)


@compiled
def _fill_slots(data: Any, offsets: Any, codes: Any, slots: Any) -> Any:
    """Write the slots; return two numbers of one term, or -1 twice."""
    for i in range(codes.size):
        code = np.uint64(codes[i])
        place = code & np.uint64(slots.size - 1)
        while slots[place] != 0:
            j = np.int64(slots[place] & LOW_HALF) - 1
            same = slots[place] >> HALF == code
            if same and equal(data, offsets[i], offsets[i + 1], data, offsets[j], offsets[j + 1]):
                return j, i
            place = (place + np.uint64(1)) & np.uint64(slots.size - 1)
        slots[place] = (code << HALF) | np.uint64(i + 1)
    return -1, -1


@compiled
def _look_up(index: Any, code: Any, text: Any, begin: Any, end: Any) -> Any:
    """Return the column of a term, or -1."""
    (data, offsets), slots = index.terms, index.slots
    mask = np.uint64(slots.size - 1)
    place = np.uint64(code) & mask
    while slots[place] != 0:
        if slots[place] >> HALF == code:
            column = np.int64(slots[place] & LOW_HALF) - 1
            if equal(text, begin, end, data, offsets[column], offsets[column + 1]):
                return column
        place = (place + np.uint64(1)) & mask
    return -1


@compiled
def _encode(tokens: Any, index: Any, low: Any, high: Any, n_bits: Any) -> Any:
    buffers = new_buffers(tokens.bounds, low, high)
    n_documents = tokens.bounds.size - 1
    first = 0
    while first < n_documents:
        last = end_of_group(buffers, first)
        n_cells = 0
        for i in range(first, last):
            words = (tokens.bounds[i], tokens.bounds[i + 1])
            n_cells = _write_cells(tokens, words, low, high, index, (i - first) << n_bits, buffers.keys, n_cells)
        sum_group(buffers, first, last, n_cells, n_bits)
        first = last
    return buffers


@compiled
def _write_cells(tokens: Any, words: Any, low: Any, high: Any, index: Any, row: Any, keys: Any, n: Any) -> Any:
    text, starts, (first, last) = tokens.text, tokens.starts, words
    for word in range(first, last):
        begin = position = starts[word]
        state = np.uint32(0)
        for length in range(1, min(high, last - word) + 1):
            end = starts[word + length] - 1
            while position + 4 <= end:
                state = absorb(state, load(text, position))
                position += 4
            if length >= low:
                code = finish(state, load(text, position), end - begin)
                column = _look_up(index, code, text, begin, end)
                if column >= 0:
                    keys[n] = (row | column) << 1
                    n += 1
    return n
