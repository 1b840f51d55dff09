r"""Cutting UTF-8 text into words, as ``re.findall(r"(?u)\b\w\w+\b", text.lower())`` does, without the lock."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dspectral.kernels.compiled import compiled, read_only
from dspectral.types import Documents, IntArray

N_CODE_POINTS = 0x110000
PADDING = 8  # bytes after the last word, so that four bytes can be read from any place in a word
NEEDS_PYTHON = np.uint32(0xFFFFFFFF)
CAPITAL_SIGMA = 0x3A3
SPACE = np.uint8(32)


class Tokens(NamedTuple):
    """The words of a block of documents, one after the other, each followed by one space.

    Words ``t, ..., t + n - 1`` of one document, joined by spaces, are thus the slice
    ``text[starts[t] : starts[t + n] - 1]``.

    Attributes
    ----------
    text : ndarray of uint8
        The words in UTF-8, with `PADDING` bytes at the end that may be read and mean nothing.
    starts : ndarray of int64, shape (n_tokens + 1,)
        Where each word starts.
    bounds : ndarray of int64, shape (n_documents + 1,)
        Document ``i`` has the words ``bounds[i], ..., bounds[i + 1] - 1``.
    """

    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    bounds: NDArray[np.int64]


def tokenize(documents: Documents, *, lowercase: bool = True) -> Tokens:
    r"""Cut documents into words: the longest runs of at least two word characters.

    Parameters
    ----------
    documents : Documents
        UTF-8 text.
    lowercase : bool
        Lower the case first, as `str.lower` does. Documents with a character whose lower case depends on its
        neighbours (capital sigma) or is more than one character are lowered by Python, the others by a table.

    Returns
    -------
    Tokens

    Raises
    ------
    ValueError
        If a document is not UTF-8.

    Notes
    -----
    One pass over the text, two if a document needs Python. Holds at most twice the bytes of the text and 8 bytes
    for each word.

    Examples
    --------
    >>> tokenize(Documents.of(["It was a dark night."])).text[:-PADDING].tobytes()
    b'it was dark night '
    """
    data, offsets = read_only(documents.data), read_only(documents.offsets)
    text, starts, bounds, odd, (bad_document, bad_byte) = _tokenize(data, offsets, _word_characters(lowercase))
    if bad_document >= 0:
        raise ValueError(_not_utf8(documents.text(bad_document), bad_document, bad_byte))
    if odd.any():
        return tokenize(_lowered(documents, odd), lowercase=lowercase)
    return Tokens(text, starts, bounds)


def check_ngram_range(ngram_range: tuple[int, int]) -> None:
    """Raise a ValueError unless the range is 1 <= low <= high <= 3.

    Parameters
    ----------
    ngram_range : tuple of int
        Fewest and most words of an n-gram.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> check_ngram_range((1, 3))
    """
    low, high = ngram_range
    if not 1 <= low <= high <= 3:
        message = f"ngram_range is {ngram_range!r}, but must be (low, high) with 1 <= low <= high <= 3."
        raise ValueError(message)


@cache
def _word_characters(lowercase: bool) -> NDArray[np.uint32]:
    """For each code point: itself (or its lower case) if it belongs to words, 0 if not, or `NEEDS_PYTHON`."""
    table = np.zeros(N_CODE_POINTS, dtype=np.uint32)
    for code in range(N_CODE_POINTS):
        character = chr(code).lower() if lowercase else chr(code)
        if len(character) > 1:
            table[code] = NEEDS_PYTHON
        elif character.isalnum() or character == "_":  # the word characters of the module `re`
            table[code] = ord(character)
    if lowercase:
        table[CAPITAL_SIGMA] = NEEDS_PYTHON
    return read_only(table)


def _lowered(documents: Documents, odd: NDArray[np.bool_]) -> Documents:
    texts = [documents.text(i) for i in range(documents.n_documents)]
    return Documents.of([text.decode().lower().encode() if o else text for text, o in zip(texts, odd, strict=True)])


def _not_utf8(text: bytes, document: int, byte: int) -> str:
    return (
        f"Document {document} is not UTF-8 at byte {byte} of its {len(text)} "
        f"({text[byte : byte + 4]!r}): decode it with its own encoding, or with errors='replace', first."
    )


@compiled
def _tokenize(data: Any, offsets: Any, table: Any) -> Any:
    n_documents = offsets.size - 1
    n_bytes = offsets[n_documents] - offsets[0]
    # Lower case has at most twice the bytes (ASCII stays ASCII); a word has two bytes and one that ends it.
    text = np.empty(2 * n_bytes + n_documents + PADDING, dtype=np.uint8)
    starts = np.empty((n_bytes + n_documents) // 3 + 2, dtype=np.int64)
    bounds = np.zeros(n_documents + 1, dtype=np.int64)
    odd = np.zeros(n_documents, dtype=np.bool_)
    n_tokens = 0
    starts[0] = 0
    for document in range(n_documents):
        n_tokens, bad = _tokenize_one(
            data, offsets[document], offsets[document + 1], table, text, starts, n_tokens, odd, document
        )
        if bad >= 0:
            return text, starts, bounds, odd, (document, bad - offsets[document])
        bounds[document + 1] = n_tokens
    end = starts[n_tokens]
    text[end : end + PADDING] = 0
    return text[: end + PADDING], starts[: n_tokens + 1], bounds, odd, (-1, -1)


@compiled
def _tokenize_one(
    data: Any, i: Any, end: Any, table: Any, text: Any, starts: Any, n_tokens: Any, odd: Any, document: Any
) -> Any:
    """Write the words of one document; return how many words there are now, and the bad byte or -1."""
    start = out = starts[n_tokens]
    n_characters = 0
    while i < end:
        code = np.uint32(data[np.uint64(i)])
        size = 1
        if code >= 0x80:
            code, size = _decode(data, i, end)
            if size == 0:
                return n_tokens, i
        i += size
        character = table[np.uint64(code)]
        if character >= 0x80:
            if character == NEEDS_PYTHON:
                odd[document] = True
                character = code
            out += _encode(character, text, out)
            n_characters += 1
            continue
        # The rest has no branches: where a word ends is what a processor cannot foresee.
        separates = character == 0
        ends = separates & (n_characters >= 2)
        text[np.uint64(out)] = np.uint8(character) | (SPACE * separates)
        n_characters = (n_characters + 1) * (not separates)
        out = start if separates and not ends else out + 1
        start = out if ends else start
        n_tokens += ends
        starts[np.uint64(n_tokens)] = start
    if n_characters >= 2:
        text[out] = SPACE
        n_tokens += 1
        starts[n_tokens] = out + 1
    return n_tokens, -1


@compiled
def _decode(data: Any, i: Any, end: Any) -> Any:
    """Return the code point that starts at byte i and its size in bytes, which is 0 if it is not UTF-8."""
    first = np.uint32(data[i])
    if 0xC2 <= first <= 0xDF:
        size, code, least = 2, first & np.uint32(0x1F), 0x80
    elif 0xE0 <= first <= 0xEF:
        size, code, least = 3, first & np.uint32(0x0F), 0x800
    elif 0xF0 <= first <= 0xF4:
        size, code, least = 4, first & np.uint32(0x07), 0x10000
    else:
        return np.uint32(0), 0
    if i + size > end:
        return np.uint32(0), 0
    for j in range(i + 1, i + size):
        byte = np.uint32(data[j])
        if byte & np.uint32(0xC0) != 0x80:
            return np.uint32(0), 0
        code = (code << np.uint32(6)) | (byte & np.uint32(0x3F))
    if code < least or code >= N_CODE_POINTS or 0xD800 <= code <= 0xDFFF:
        return np.uint32(0), 0
    return code, size


@compiled
def _encode(code: Any, text: Any, out: Any) -> Any:
    """Write a code point as UTF-8; return its size in bytes."""
    if code < 0x80:
        text[out] = code
        return 1
    size = 2 if code < 0x800 else (3 if code < 0x10000 else 4)
    for j in range(size - 1, 0, -1):
        text[out + j] = np.uint8(0x80 | (code & np.uint32(0x3F)))
        code >>= np.uint32(6)
    text[out] = np.uint8((0xF00 >> size) & 0xFF) | np.uint8(code)
    return size
