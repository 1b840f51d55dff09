"""Looking up the columns of n-grams in a vocabulary, and counting those of documents."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled, read_only
from dspectral.text.csr_buffers import RowBuffers, as_rows, end_of_group, hash_group, new_buffers, sum_group
from dspectral.text.term_bytes import equal, hash_terms, read_only_terms
from dspectral.text.tokenizers import TokenizerLike, words_of
from dspectral.text.tokens import Tokens, check_ngram_range
from dspectral.types import Documents, Int

MOST_TERMS = 2**30
HALF, LOW_HALF = np.uint64(32), np.uint64(2**32 - 1)


class TermIndex(NamedTuple):
    """An index from the bytes of a term to its column, made of arrays alone so that it travels to other processes.

    `slots`: a hash table at least twice as long as the terms are many, of the hash and the column plus one, or 0.
    """

    terms: Documents
    slots: NDArray[np.uint64]

    @classmethod
    def of(cls, terms: Documents) -> "TermIndex":
        """Index distinct terms: term ``i`` is column ``i``."""
        n = terms.n_documents
        if n > MOST_TERMS:
            raise ValueError(f"There are {n} terms, but an index holds at most {MOST_TERMS}.")
        terms = read_only_terms(terms)
        slots = np.zeros(max(2, 1 << (2 * n - 1).bit_length()), dtype=np.uint64)
        i, j = _fill_slots(terms, hash_terms(terms), slots)
        if j >= 0:
            raise ValueError(f"Terms {i} and {j} are both {terms.text(i)!r}, but must be distinct.")
        return cls(terms, slots)


def encode_documents(
    documents: Documents,
    index: TermIndex,
    ngram_range: tuple[int, int] = (1, 1),
    lowercase: bool = True,
    tokenizer: TokenizerLike | None = None,
    normalize: str | None = None,
) -> sparse.csr_array:
    """Count the n-grams of each document that are in a vocabulary, as scikit-learn's ``CountVectorizer`` does.

    Shapes: returns (n_documents, n_terms), float32 with sorted indices and neither duplicates nor stored zeros.
    """
    check_ngram_range(ngram_range)
    low, high = ngram_range
    tokens = words_of(documents, lowercase, tokenizer, normalize)
    n_columns = index.terms.n_documents
    index = TermIndex(read_only_terms(index.terms), read_only(index.slots))
    buffers = new_buffers(tokens.bounds, ngram_range)
    _encode(tokens, (int(low), int(high)), index, n_columns.bit_length(), buffers)
    return as_rows(buffers, n_columns)


@compiled
def _fill_slots(terms: Documents, codes: NDArray[np.uint32], slots: NDArray[np.uint64]) -> tuple[int, int]:
    """Write the slots of a hash table with linear probing; return two numbers of one term, or -1 twice."""
    data, offsets = terms
    # Invariant: the slots hold the terms before i. At least half of them are empty, so that each probe ends, after
    # about two slots on average; bytes are compared only where all 32 bits of the hash agree.
    mask = np.uint64(slots.size - 1)
    for i in range(codes.size):
        code = np.uint64(codes[i])
        place = code & mask
        while slots[place] != 0:
            j = int(slots[place] & LOW_HALF) - 1
            same = slots[place] >> HALF == code
            if same and equal(data, offsets[i], offsets[i + 1], data, offsets[j], offsets[j + 1]):
                return j, i
            place = (place + np.uint64(1)) & mask
        slots[place] = (code << HALF) | np.uint64(i + 1)
    return -1, -1


@compiled
def _encode(
    tokens: Tokens, ngram_range: tuple[int, int], index: TermIndex, n_bits: Int, buffers: RowBuffers
) -> None:
    first: Int = np.int64(0)  # not a literal, for which each function below would be compiled a second time
    while first < tokens.bounds.size - 1:
        last = end_of_group(buffers, n_bits, first)
        hash_group(tokens, ngram_range, buffers, first, last)
        _read_ahead(index, buffers, buffers.ngrams[last] - buffers.ngrams[first])
        n_cells = _write_cells(tokens, ngram_range, index, n_bits, buffers, first, last)
        sum_group(buffers, first, last, n_cells, n_bits)
        first = last


@compiled
def _read_ahead(index: TermIndex, buffers: RowBuffers, n: Int) -> None:
    """Read the first slot of each n-gram, the offset of the term there, and a byte of that term."""
    # Three far reads for each n-gram, step by step and without jumps, so that a core has many of them under way at
    # once and does not wait for each; what is looked up afterwards is near. The steps are written to `spare`, which
    # nothing else needs before the sort.
    (data, offsets), slots = index
    codes, found = buffers.codes, buffers.spare
    mask, last = np.uint64(slots.size - 1), np.uint64(data.size - 1)
    if data.size == 0:
        return
    for i in range(n):
        found[i] = slots[np.uint64(codes[i]) & mask] & LOW_HALF
    for i in range(n):
        # A slot holds the column plus one, so this is where the term ends, next to its bytes. For the last term it is
        # outside the data, hence the minimum below.
        found[i] = offsets[found[i]]
    for i in range(n):
        found[i] = data[min(found[i], last)]


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
    """Write the cells of the n-grams of a group that are terms; return how many there are."""
    (data, offsets), slots = index
    (text, starts, bounds), (low, high) = tokens, ngram_range
    codes, keys = buffers.codes, buffers.keys
    # A cell is the document in the group and the column in one number, as `sum_group` sorts them; its last bit, the
    # sign of hashed features, is 0 for counts. N-grams outside the vocabulary leave no cell.
    i = n = 0
    for document in range(first, last):
        row, end = (document - first) << n_bits, bounds[document + 1]
        for word in range(bounds[document], end):
            for length in range(low, min(high, end - word) + 1):
                column = look_up(
                    data, offsets, slots, codes[i], text, starts[word], starts[word + length] - 1
                )
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
    # The probe of `_fill_slots`: a term lies before the first empty slot after its own, or nowhere. A slot holds the
    # whole hash, so that the bytes of a far term are read for the answer, and hardly ever for another term.
    mask = np.uint64(slots.size - 1)
    place = np.uint64(code) & mask
    while slots[place] != 0:
        if slots[place] >> HALF == np.uint64(code):
            column = np.int64(slots[place] & LOW_HALF) - 1
            if equal(text, begin, end, data, offsets[column], offsets[column + 1]):
                return column
        place = (place + np.uint64(1)) & mask
    return -1
