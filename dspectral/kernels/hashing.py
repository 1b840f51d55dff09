"""n-grams hashed to columns and signs, equal to what scikit-learn's HashingVectorizer gives."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dspectral.kernels.compiled import compiled
from dspectral.kernels.murmur import absorb, finish, load
from dspectral.kernels.rows import as_rows, end_of_group, new_buffers, sum_group
from dspectral.kernels.tokens import check_ngram_range, tokenize
from dspectral.types import Documents

MOST_FEATURES = 2**30  # the largest power of two whose columns scikit-learn can number as well


class NgramHashing(NamedTuple):
    """How n-grams become columns.

    Attributes
    ----------
    n_features : int
        Number of columns, a power of two from 2 to 2**30.
    ngram_range : tuple of int
        Fewest and most words of an n-gram, from 1 to 3.
    lowercase : bool
        Whether the case of the text is lowered first.
    alternate_sign : bool
        Whether the hash of an n-gram also decides the sign that it counts with, so that n-grams which share a column
        cancel each other in the mean.
    """

    n_features: int = 2**18
    ngram_range: tuple[int, int] = (1, 3)
    lowercase: bool = True
    alternate_sign: bool = True

    def check(self) -> None:
        """Raise a ValueError if the settings are not possible.

        Raises
        ------
        ValueError
            If `n_features` or `ngram_range` is out of range.

        Examples
        --------
        >>> NgramHashing(n_features=1000).check()
        Traceback (most recent call last):
            ...
        ValueError: n_features is 1000, but must be a power of two from 2 to 1073741824.
        """
        n = self.n_features
        if not 2 <= n <= MOST_FEATURES or n != 1 << (int(n).bit_length() - 1):
            raise ValueError(f"n_features is {n!r}, but must be a power of two from 2 to {MOST_FEATURES}.")
        check_ngram_range(self.ngram_range)


def hash_documents(documents: Documents, settings: NgramHashing) -> sparse.csr_array:
    r"""Count the n-grams of each document, hashed to columns.

    Column and sign are those of scikit-learn's ``HashingVectorizer(norm=None)`` with the same settings and its own
    token pattern: MurmurHash3 of the n-gram in UTF-8; the column is its absolute value modulo `n_features`.

    Parameters
    ----------
    documents : Documents
        UTF-8 text of n documents.
    settings : NgramHashing

    Returns
    -------
    csr_array of float32, shape (n, n_features)
        Sums of signs. Indices are int32 and sorted, without duplicates; sums of zero are not stored.

    Raises
    ------
    ValueError
        If the settings are not possible, or a document is not UTF-8 (the message names it and the byte).

    Notes
    -----
    One pass. The interpreter lock is released but for documents that `tokenize` leaves to Python. Beside the result
    it holds `Tokens`, and 16 bytes for each n-gram of the longest document. Counts up to 2**24 are exact.

    Examples
    --------
    >>> rows = hash_documents(Documents.of(["to be or not to be", "be"]), NgramHashing(n_features=16))
    >>> rows.toarray().astype(int)
    array([[ 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0],
           [ 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0]])
    """
    settings.check()
    low, high = settings.ngram_range
    n_bits = int(settings.n_features).bit_length() - 1
    tokens = tokenize(documents, lowercase=bool(settings.lowercase))
    buffers = _hash(tokens, int(low), int(high), n_bits, bool(settings.alternate_sign))
    return as_rows(buffers, int(settings.n_features))


@compiled
def _hash(tokens: Any, low: Any, high: Any, n_bits: Any, alternate_sign: Any) -> Any:
    buffers = new_buffers(tokens.bounds, low, high)
    n_documents = tokens.bounds.size - 1
    first = 0
    while first < n_documents:
        last = end_of_group(buffers, first)
        n_cells = 0
        for i in range(first, last):
            words = (tokens.bounds[i], tokens.bounds[i + 1])
            row = np.uint64((i - first) << n_bits)
            n_cells = _write_cells(tokens, words, low, high, n_bits, alternate_sign, row, buffers.keys, n_cells)
        sum_group(buffers, first, last, n_cells, n_bits)
        first = last
    return buffers


@compiled
def _write_cells(
    tokens: Any, words: Any, low: Any, high: Any, n_bits: Any, alternate_sign: Any, row: Any, keys: Any, n: Any
) -> Any:
    text, starts, (first, last) = tokens.text, tokens.starts, words
    mask, signed = np.uint32((1 << n_bits) - 1), np.uint64(alternate_sign)
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
                negative = code >> np.uint32(31)
                column = np.uint64(((code ^ (np.uint32(0) - negative)) + negative) & mask)
                keys[np.uint64(n)] = ((row | column) << np.uint64(1)) | (np.uint64(negative) & signed)
                n += 1
    return n
