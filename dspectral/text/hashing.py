"""Hash n-grams to columns and signs, equal to what scikit-learn's HashingVectorizer gives."""

from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled
from dspectral.registry import saved
from dspectral.text.csr_buffers import (
    RowBuffers,
    as_rows,
    end_of_group,
    hash_group,
    new_buffers,
    sum_group,
)
from dspectral.text.term_bytes import hash_terms
from dspectral.text.tokenizers import (
    TokenizerLike,
    as_tokenizer,
    check_normalize,
    record_tokenizer,
    words_of,
)
from dspectral.text.tokens import Tokens, check_ngram_range
from dspectral.types import Documents, Int, format_value

MOST_FEATURES = 2**30  # the largest power of two that 32-bit columns can number


class HashingSettings(NamedTuple):
    """How n-grams become columns: the record that stores and saved models keep."""

    n_features: int = 2**17
    ngram_range: tuple[int, int] = (1, 1)
    lowercase: bool = True
    alternate_sign: bool = True
    tokenizer: TokenizerLike | None = None
    normalize: str | None = None

    def checked(self) -> "HashingSettings":
        """Return the same settings as plain numbers, and the tokenizer with its name."""
        n = self.n_features
        whole = isinstance(n, Integral)
        if not whole or not 2 <= n <= MOST_FEATURES or n != 1 << (int(n).bit_length() - 1):
            raise ValueError(
                f"n_features is {format_value(n)}, but must be a power of two from 2 to {MOST_FEATURES}."
            )
        check_ngram_range(self.ngram_range)
        low, high = self.ngram_range
        for name in ("lowercase", "alternate_sign"):
            if not isinstance(value := getattr(self, name), bool | np.bool_ | Integral):
                raise TypeError(f"{name} is {value!r:.60}, but it must be True or False")
        check_normalize(self.normalize)
        flags = bool(self.lowercase), bool(self.alternate_sign)
        return HashingSettings(
            int(n), (int(low), int(high)), *flags, as_tokenizer(self.tokenizer), self.normalize
        )

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON takes them."""
        return with_tokenizer_name(self._asdict())


def with_tokenizer_name(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the name in place of the tokenizer; what is not asked for is left out."""
    others = {key: value for key, value in settings.items() if key != "tokenizer"}
    if others.get("normalize") is None:
        del others["normalize"]
    tokenizer = as_tokenizer(settings["tokenizer"])
    return others if tokenizer is None else {**others, "tokenizer": record_tokenizer(tokenizer)}


saved(HashingSettings, "NgramHashing")  # the name in the files of saved models


class HasSettings(Protocol):
    """An object that knows its settings, such as :class:`dspectral.NgramHashing`."""

    @property
    def settings(self) -> HashingSettings:
        """How n-grams become columns."""
        ...


def as_settings(hashing: HashingSettings | HasSettings | None) -> HashingSettings:
    """Return checked settings, whoever holds them."""
    if hashing is None:
        return HashingSettings()
    settings = hashing if isinstance(hashing, HashingSettings) else getattr(hashing, "settings", None)
    if not isinstance(settings, HashingSettings):
        raise TypeError(f"hashing is {hashing!r:.60}, but it must be a dspectral.NgramHashing or None")
    return settings.checked()


def hash_documents(documents: Documents, settings: HashingSettings | HasSettings) -> sparse.csr_array:
    """Count the n-grams of each document, hashed to columns.

    Column and sign are those of scikit-learn's ``HashingVectorizer(norm=None)`` with its own token pattern: the
    MurmurHash3 of the n-gram in UTF-8 gives the sign, and by its absolute value modulo `n_features` the column.

    Parameters
    ----------
    documents : Documents
        UTF-8 text of n documents.
    settings : HashingSettings or NgramHashing
        How n-grams become columns.

    Returns
    -------
    csr_array of float32, shape (n, n_features)
        Sums of signs. Indices are int32 and sorted, without duplicates; sums of zero are not stored.

    Raises
    ------
    ValueError
        If the settings are not possible, or a document is not UTF-8: the message names it and the byte.

    Notes
    -----
    One pass. Beside the result it holds `Tokens`, and 36 bytes for each n-gram of the longest document.

    Examples
    --------
    >>> rows = hash_documents(Documents.of(["to be or not to be", "be"]), HashingSettings(n_features=8))
    >>> rows.toarray()
    array([[ 0.,  0.,  0.,  2.,  1.,  0., -2.,  1.],
           [ 0.,  0.,  0.,  0.,  0.,  0., -1.,  0.]], dtype=float32)
    """
    known = as_settings(settings)
    tokens = words_of(documents, known.lowercase, known.tokenizer, known.normalize)
    # One compiled loop for all settings: a record that holds a function would be another type.
    buffers = new_buffers(tokens.bounds, known.ngram_range)
    _hash(tokens, known._replace(tokenizer=None, normalize=None), known.n_features.bit_length() - 1, buffers)
    return as_rows(buffers, known.n_features)


def hash_columns(terms: Documents, n_features: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the column of each term, and whether its sign is negative. Shapes: returns (n_terms,) twice."""
    # As hashing does: the hash is a signed number, whose absolute value gives the column.
    codes = hash_terms(terms).view(np.int32).astype(np.int64)
    return np.abs(codes) % n_features, codes < 0


@compiled
def _hash(tokens: Tokens, settings: HashingSettings, n_bits: int, buffers: RowBuffers) -> None:
    # Documents are hashed in groups whose n-grams fit in the buffers: one sort then sums many short documents.
    first: Int = np.int64(0)  # not a literal, for which each function below would be compiled a second time
    while first < tokens.bounds.size - 1:
        last = end_of_group(buffers, n_bits, first)
        hash_group(tokens, settings.ngram_range, buffers, first, last)
        n_cells = _write_cells(settings, n_bits, buffers, first, last)
        sum_group(buffers, first, last, n_cells, n_bits)
        first = last


@compiled
def _write_cells(settings: HashingSettings, n_bits: int, buffers: RowBuffers, first: Int, last: Int) -> int:
    """Write the cells of a group's n-grams, ``(row << n_bits | column) << 1 | negative``; return how many."""
    # As scikit-learn reads a hash: a signed number, whose magnitude modulo n_features is the column, and whose sign is
    # that of the entry. One key for each n-gram, so there are as many cells as n-grams.
    mask, signed = np.uint32(settings.n_features - 1), np.uint32(settings.alternate_sign)
    codes, keys, ngrams = buffers.codes, buffers.keys, buffers.ngrams
    for document in range(first, last):
        row = np.uint32((document - first) << n_bits)
        for i in range(ngrams[document] - ngrams[first], ngrams[document + 1] - ngrams[first]):
            # Two's complement without a branch: the absolute value, 2**31 of -2**31.
            negative = codes[i] >> np.uint32(31)
            column = ((codes[i] ^ (np.uint32(0) - negative)) + negative) & mask
            keys[i] = ((row | column) << np.uint32(1)) | (negative & signed)
    n_cells: int = ngrams[last] - ngrams[first]
    return n_cells
