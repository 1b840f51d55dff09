"""Hashing a few short texts in Python, with the bits of the compiled loops, so that these need not be compiled first.

Compiling the loops of :mod:`dspectral.text.hashing` takes seconds, and loading them from disk still a tenth of one. The
first texts of a process are therefore hashed here, as long as they are few: a small file is then in its store before
the loops would be ready. The budget is of the process and not of a call, so that a program which hashes one sentence
after the other soon has the fast loops.
"""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from dspectral.text.tokens import not_utf8
from dspectral.types import Documents

BUDGET = 1 << 14
"""Bytes of text that a process hashes in Python."""
DOCUMENT_BYTES = 64
"""Bytes that a document counts for at least, as each has a cost of its own."""
WORD = re.compile(r"(?u)\b\w\w+\b")
BITS_32 = 0xFFFFFFFF
_spent = [0]


def is_affordable(documents: Documents) -> bool:
    """Report whether texts are within what is left of the budget, and take their bytes from it."""
    n_bytes = len(documents.data) + DOCUMENT_BYTES * documents.n_documents
    # Capped at one above the budget: it says that the loops have taken over, for good. Threads that race here may
    # overspend by some texts, which costs milliseconds and no bit of the result.
    _spent[0] = min(_spent[0] + n_bytes, BUDGET + 1)
    return _spent[0] <= BUDGET


def hash_few(
    documents: Documents, n_features: int, ngram_range: tuple[int, int], *, lowercase: bool, signed: bool
) -> sparse.csr_array:
    """Count the n-grams of each document, hashed to columns.

    Shapes: returns (n, n_features).

    >>> hash_few(Documents.of(["be be"]), 8, (1, 1), lowercase=True, signed=True).toarray()
    array([[ 0.,  0.,  0.,  0.,  0.,  0., -2.,  0.]], dtype=float32)
    """
    indptr, columns, sums = [0], [], []
    for i in range(documents.n_documents):
        row: Counter[int] = Counter()
        for ngram in _ngrams(_words(documents.text(i), i, lowercase=lowercase), *ngram_range):
            code = murmur(ngram.encode())
            negative = code >> 31
            # The absolute value of a signed number: 2**31 of -2**31.
            row[(((code ^ BITS_32) + 1) if negative else code) & (n_features - 1)] += 1 - 2 * (
                signed and negative
            )
        # Signs may cancel: such an entry is left out, as the compiled loops leave it out.
        cells = sorted((column, total) for column, total in row.items() if total)
        columns += [column for column, _ in cells]
        sums += [total for _, total in cells]
        indptr.append(len(columns))
    arrays = np.array(sums, np.float32), np.array(columns, np.int32), np.array(indptr, np.int32)
    rows = sparse.csr_array(arrays, shape=(documents.n_documents, n_features))
    rows.has_canonical_format = True
    return rows


def murmur(text: bytes) -> int:
    """Return MurmurHash3 (x86, 32 bits, seed 0).

    >>> murmur(b"word"), murmur(b"")
    (3326792864, 0)
    """
    state = 0
    n_whole = len(text) & ~3
    # Python's integers have no width: every product and rotation is cut to 32 bits, as the registers of the compiled
    # loop cut it.
    for i in range(0, n_whole, 4):
        state = _rotated(state ^ _scrambled(int.from_bytes(text[i : i + 4], "little")), 13)
        state = (state * 5 + 0xE6546B64) & BITS_32
    state ^= _scrambled(int.from_bytes(text[n_whole:], "little")) ^ len(text)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & BITS_32
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & BITS_32
    return state ^ (state >> 16)


def _scrambled(word: int) -> int:
    return (_rotated((word * 0xCC9E2D51) & BITS_32, 15) * 0x1B873593) & BITS_32


def _rotated(x: int, n_bits: int) -> int:
    return ((x << n_bits) | (x >> (32 - n_bits))) & BITS_32


def _words(text: bytes, document: int, *, lowercase: bool) -> list[str]:
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(text, document, error.start)) from error
    return WORD.findall(decoded.lower() if lowercase else decoded)


def _ngrams(words: list[str], low: int, high: int) -> Iterator[str]:
    for length in range(low, high + 1):
        for first in range(len(words) - length + 1):
            yield " ".join(words[first : first + length])
