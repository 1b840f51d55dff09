"""Hash n-grams to columns and signs, with the results of scikit-learn's HashingVectorizer."""

from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dspectral._compiled import compiled
from dspectral.registry import register_class
from dspectral.text.csr_buffers import RowBuffers, allocate_buffers, find_group_end, hash_group, sum_group, to_csr
from dspectral.text.term_bytes import hash_terms
from dspectral.text.tokenizers import (
    TokenizerLike,
    as_tokenizer,
    check_normalize,
    tokenize_documents,
    tokenizer_to_record,
)
from dspectral.text.tokens import Tokens, check_ngram_range
from dspectral.types import Documents, Int, format_value

MAX_FEATURES = 2**30  # largest power of two for int32 columns


class HashingSettings(NamedTuple):
    """Settings of feature hashing, as stores and saved models record them."""

    n_features: int = 2**17
    ngram_range: tuple[int, int] = (1, 1)
    lowercase: bool = True
    alternate_sign: bool = True
    tokenizer: TokenizerLike | None = None
    normalize: str | None = None

    def validate(self) -> "HashingSettings":
        """Return validated settings with Python numbers and a named tokenizer."""
        n = self.n_features
        is_integer = isinstance(n, Integral)
        if not is_integer or not 2 <= n <= MAX_FEATURES or n != 1 << (int(n).bit_length() - 1):
            raise ValueError(f"n_features={format_value(n)} must be a power of two from 2 to {MAX_FEATURES}")
        check_ngram_range(self.ngram_range)
        low, high = self.ngram_range
        for name in ("lowercase", "alternate_sign"):
            if not isinstance(value := getattr(self, name), bool | np.bool_ | Integral):
                raise TypeError(f"{name}={value!r:.60} must be True or False")
        check_normalize(self.normalize)
        flags = bool(self.lowercase), bool(self.alternate_sign)
        return HashingSettings(int(n), (int(low), int(high)), *flags, as_tokenizer(self.tokenizer), self.normalize)

    def record(self) -> dict[str, Any]:
        """Return the settings as a dictionary that can be written as JSON."""
        return replace_tokenizer_by_name(self._asdict())


def replace_tokenizer_by_name(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the name of the tokenizer instead of the function, without unset options."""
    record = {key: value for key, value in settings.items() if key != "tokenizer"}
    if record.get("normalize") is None:
        del record["normalize"]
    tokenizer = as_tokenizer(settings["tokenizer"])
    return record if tokenizer is None else {**record, "tokenizer": tokenizer_to_record(tokenizer)}


register_class()(HashingSettings)


class HasSettings(Protocol):
    """An object with hashing settings, such as :class:`dspectral.NgramHashing`."""

    @property
    def settings(self) -> HashingSettings:
        """Settings of the hashing."""
        ...


def as_settings(hashing: HashingSettings | HasSettings | None) -> HashingSettings:
    """Return the validated settings of an object, or the defaults for None."""
    if hashing is None:
        return HashingSettings()
    settings = hashing if isinstance(hashing, HashingSettings) else getattr(hashing, "settings", None)
    if not isinstance(settings, HashingSettings):
        raise TypeError(f"hashing={hashing!r:.60} must be a dspectral.NgramHashing or None")
    return settings.validate()


def hash_documents(documents: Documents, settings: HashingSettings | HasSettings) -> sparse.csr_array:
    """Count the n-grams of each document, hashed to columns.

    Equal to scikit-learn's ``HashingVectorizer(norm=None)`` with the default token pattern: with h the signed 32-bit
    MurmurHash3 of the n-gram in UTF-8, the column is ``abs(h) % n_features`` and the sign is that of h.

    Parameters
    ----------
    documents : Documents
        UTF-8 text of n documents.
    settings : HashingSettings or NgramHashing
        Settings of the hashing.

    Returns
    -------
    csr_array of float32, shape (n, n_features)
        Sums of signs, with sorted indices; zeros are not stored.

    Raises
    ------
    ValueError
        If a setting is invalid, or a document is not UTF-8 (the message names the document and the byte).

    Notes
    -----
    One pass. Memory besides the result: `Tokens`, and 36 bytes per n-gram of the longest document.

    Examples
    --------
    >>> rows = hash_documents(Documents.from_strings(["to be or not to be", "be"]), HashingSettings(n_features=8))
    >>> rows.toarray()
    array([[ 0.,  0.,  0.,  2.,  1.,  0., -2.,  1.],
           [ 0.,  0.,  0.,  0.,  0.,  0., -1.,  0.]], dtype=float32)
    """
    params = as_settings(settings)
    tokens = tokenize_documents(documents, params.lowercase, params.tokenizer, params.normalize)
    # Without functions all settings have one type, for which the kernel is compiled once.
    buffers = allocate_buffers(tokens.bounds, params.ngram_range)
    _hash(tokens, params._replace(tokenizer=None, normalize=None), params.n_features.bit_length() - 1, buffers)
    return to_csr(buffers, params.n_features)


def hash_columns(terms: Documents, n_features: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the column of each term and whether its sign is negative, both of shape (n_terms,)."""
    codes = hash_terms(terms).view(np.int32).astype(np.int64)
    return np.abs(codes) % n_features, codes < 0


@compiled
def _hash(tokens: Tokens, settings: HashingSettings, n_bits: int, buffers: RowBuffers) -> None:
    # Documents are hashed in groups that fit the buffers, so one sort covers many short documents.
    first: Int = np.int64(0)  # a literal would compile the functions below a second time
    while first < tokens.bounds.size - 1:
        last = find_group_end(buffers, n_bits, first)
        hash_group(tokens, settings.ngram_range, buffers, first, last)
        n_cells = _write_cells(settings, n_bits, buffers, first, last)
        sum_group(buffers, first, last, n_cells, n_bits)
        first = last


@compiled
def _write_cells(settings: HashingSettings, n_bits: int, buffers: RowBuffers, first: Int, last: Int) -> int:
    """Write the keys of a group's n-grams, ``(row << n_bits | column) << 1 | negative``; return their number."""
    mask, signed = np.uint32(settings.n_features - 1), np.uint32(settings.alternate_sign)
    codes, keys, ngrams = buffers.codes, buffers.keys, buffers.ngrams
    for document in range(first, last):
        row = np.uint32((document - first) << n_bits)
        for i in range(ngrams[document] - ngrams[first], ngrams[document + 1] - ngrams[first]):
            # Branch-free absolute value of a two's complement integer; that of -2**31 is 2**31.
            negative = codes[i] >> np.uint32(31)
            column = ((codes[i] ^ (np.uint32(0) - negative)) + negative) & mask
            keys[i] = ((row | column) << np.uint32(1)) | (negative & signed)
    n_cells: int = ngrams[last] - ngrams[first]
    return n_cells
