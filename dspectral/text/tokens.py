r"""Cutting UTF-8 text into words as ``re.findall(r"(?u)\b\w\w+\b", text.lower())`` does, without the lock."""

import re
from functools import cache
from numbers import Integral
from typing import NamedTuple
from unicodedata import category, is_normalized
from unicodedata import normalize as normalized

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.types import Documents, Int, format_value

N_CODE_POINTS = 0x110000
NEEDS_PYTHON = np.uint32(0xFFFFFFFF)
CAPITAL_SIGMA = 0x3A3
BLOCK = 256  # code points; one in twenty of such blocks has a capital letter
CODES = (*range(0x20000), *range(0x2F800, 0x2FA20), *range(0xE0000, 0xE0200))
"""Code points among which all marks, format characters and those that NFC replaces are."""


def lower_case() -> NDArray[np.uint32]:
    """Return the lower case of each code point as `str.lower` has it. Shapes: returns (N_CODE_POINTS,)."""
    # Each first run of each process waits for this: a call of Python for each code point would take half a second.
    table = np.arange(N_CODE_POINTS, dtype=np.uint32)
    for codes in table.reshape(-1, BLOCK):
        text = _text_of(codes)
        if text.lower() != text:
            lowered = [character.lower() for character in text]
            codes[:] = [ord(lower) if len(lower) == 1 else NEEDS_PYTHON for lower in lowered]
    table[CAPITAL_SIGMA] = NEEDS_PYTHON
    return table


@cache
def case_table(lowercase: bool, normalize: bool) -> NDArray[np.uint32]:
    """Return the lower case (or itself) of each code point, or `NEEDS_PYTHON`. Shapes: returns (N_CODE_POINTS,)."""
    table = lower_case() if lowercase else np.arange(N_CODE_POINTS, dtype=np.uint32)
    if normalize:
        changed = [c for c in CODES if category(chr(c))[0] == "M" or not is_normalized("NFC", chr(c))]
        # Marks may compose or change places; of Hangul's single letters vowels and final ones compose.
        table[[*changed, *range(0x1160, 0x1200)]] = NEEDS_PYTHON
    return read_only(table)


def are(pattern: str) -> NDArray[np.bool_]:
    r"""Return which code points are of a class. Shapes: returns (N_CODE_POINTS,)."""
    found = "".join(re.findall(f"(?:{pattern})+", _text_of(np.arange(N_CODE_POINTS, dtype=np.uint32))))
    table = np.zeros(N_CODE_POINTS, dtype=np.bool_)
    table[np.frombuffer(found.encode("utf-32-le", "surrogatepass"), dtype="<u4")] = True
    return table


def _text_of(codes: NDArray[np.uint32]) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


PADDING = 32  # bytes after the last word, so that so many can be read from any place in a word
SPACE = np.uint8(32)


class Tokens(NamedTuple):
    """The words of a block of documents, one after the other, each followed by one space.

    Words ``t, ..., t + n - 1`` of a document are ``text[starts[t] : starts[t + n] - 1]``; `text` ends in `PADDING`
    zeros. Shapes: `starts` (n_tokens + 1,), `bounds` (n_documents + 1,): first word of each document.
    """

    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, text: NDArray[np.uint8], starts: NDArray[np.int64], bounds: NDArray[np.int64]) -> "Tokens":
        """Return words in read-only arrays, as terms are, so that loops which take both are compiled once."""
        return cls(read_only(text), read_only(starts), read_only(bounds))


def tokenize(documents: Documents, lowercase: bool = True, normalize: bool = False) -> Tokens:
    """Cut documents into words: the longest runs of at least two word characters.

    Parameters
    ----------
    documents : Documents
        UTF-8 text.
    lowercase : bool
        Lower the case first, as `str.lower` does.
    normalize : bool
        Bring the text to Unicode's form NFC first.

    Returns
    -------
    Tokens
        The words of all documents, in lower case where asked for.

    Raises
    ------
    ValueError
        If a document is not UTF-8, or the offsets of the documents do not fit their data.

    Notes
    -----
    Holds at most twice the bytes of the text, and 8 bytes for each word.

    Examples
    --------
    >>> tokenize(Documents.of(["It was a dark night."])).text[:-PADDING].tobytes()
    b'it was dark night '
    """
    documents = checked_offsets(documents)
    n_documents, n_bytes = documents.n_documents, int(documents.offsets[-1] - documents.offsets[0])
    # Lower case has at most twice the bytes, for ASCII stays ASCII; a word has two and one that ends it. Made here and
    # not in a loop: NumPy asks for huge pages, which the system maps at a fraction of the cost.
    text = np.empty(2 * n_bytes + n_documents + PADDING, dtype=np.uint8)
    starts = np.empty((n_bytes + n_documents) // 3 + 2, dtype=np.int64)
    starts[0] = 0
    bounds, odd = np.zeros(n_documents + 1, dtype=np.int64), np.zeros(n_documents, dtype=np.bool_)
    document, byte = _tokenize(documents, _word_characters(lowercase, normalize), text, starts, bounds, odd)
    if document >= 0:
        raise ValueError(not_utf8(documents.text(document), document, byte))
    # Text that Python has lowered holds no such character any more: the second call is the last.
    if odd.any():
        documents = prepare_in_python(documents, odd, lowercase=lowercase, normalize=normalize)
        return tokenize(documents, lowercase)
    starts = starts[: bounds[-1] + 1]
    return Tokens.of(text[: starts[-1] + PADDING], starts, bounds)


def check_ngram_range(ngram_range: tuple[int, int]) -> None:
    """Raise a ValueError unless the range is 1 <= low <= high <= 3."""
    pair = ngram_range if isinstance(ngram_range, tuple | list) and len(ngram_range) == 2 else (0, 0)
    whole = all(isinstance(length, Integral) for length in pair)
    if not whole or not 1 <= pair[0] <= pair[1] <= 3:
        raise ValueError(
            f"ngram_range is {format_value(ngram_range)}, but must be (low, high) with 1 <= low <= high <= 3."
        )


@cache
def _word_characters(lowercase: bool, normalize: bool) -> NDArray[np.uint32]:
    """Return the lower case (or itself) of each code point, 0 if it is not of words, or `NEEDS_PYTHON`."""
    letters = case_table(lowercase, normalize).copy()
    is_one = letters != NEEDS_PYTHON
    is_word = is_one.copy()
    is_word[is_one] = are(r"\w")[letters[is_one]]
    letters[is_one & ~is_word] = 0
    return read_only(letters)


def checked_offsets(documents: Documents) -> Documents:
    """Return the documents as the loop takes them, which trusts their offsets."""
    data, offsets = read_only(documents.data), read_only(np.asarray(documents.offsets, dtype=np.int64))
    inside = len(offsets) > 0 and offsets[0] >= 0 and offsets[-1] <= len(data)
    if not inside or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError(
            f"The {len(offsets)} offsets of the documents do not fit their {len(data)} bytes: "
            "they must rise from 0 or more to at most that."
        )
    return Documents(data, offsets)


def prepare_in_python(
    documents: Documents, odd: NDArray[np.bool_], *, lowercase: bool, normalize: bool
) -> Documents:
    """Return the documents, those marked as odd with their case lowered and normalized by Python."""
    texts = [documents.text(i) for i in range(documents.n_documents)]
    for i in np.flatnonzero(odd):
        texts[i] = prepare_text(texts[i].decode(), lowercase=lowercase, normalize=normalize).encode()
    return Documents.of(texts)


def prepare_text(text: str, *, lowercase: bool, normalize: bool) -> str:
    """Lower the case of a text, and bring it to the form NFC."""
    # In this order, for some small letters with a mark are one character, but their capitals are two.
    text = text.lower() if lowercase else text
    return normalized("NFC", text) if normalize else text


def not_utf8(text: bytes, document: int, byte: int) -> str:
    """Return the sentence that says where a document is not UTF-8."""
    return (
        f"Document {document} of the block is not UTF-8 at byte {byte} of {len(text)} "
        f"({text[byte : byte + 4]!r}): convert it from its own encoding, or replace such bytes, first."
    )


@compiled
def _tokenize(
    documents: Documents,
    table: NDArray[np.uint32],
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    bounds: NDArray[np.int64],
    odd: NDArray[np.bool_],
) -> tuple[int, int]:
    """Write the words, and which documents need Python; return the document and byte that is not UTF-8 or -1."""
    data, offsets = documents
    n: Int = np.int64(0)  # not a literal, for which the function below would be compiled a second time
    for i in range(odd.size):
        n, odd[i], bad = _tokenize_one(data, offsets[i], offsets[i + 1], table, text, starts, n)
        bounds[i + 1] = n
        if bad >= 0:
            return i, int(bad - offsets[i])
    text[starts[n] : starts[n] + PADDING] = 0
    return -1, -1


@compiled
def _tokenize_one(
    data: NDArray[np.uint8],
    i: Int,
    end: Int,
    table: NDArray[np.uint32],
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    n_words: Int,
) -> tuple[Int, bool, Int]:
    """Write the words of ``data[i:end]``; return how many there are now, `odd`, and the bad byte or -1."""
    # Invariant: text[:start] holds whole words, each followed by a space, and text[start:out] the `n_characters`
    # characters of the word that is being read. A word of fewer than two characters is overwritten. Cost: one table
    # look-up a character.
    start = out = starts[n_words]
    n_characters = 0
    odd = False
    while i < end:
        code = np.uint32(data[np.uint64(i)])
        if code < 0x80:
            i += 1
        else:
            code, size = decode(data, i, end)
            if size == 0:
                return n_words, odd, i
            i += size
        character = table[np.uint64(code)]
        if character >= 0x80:
            odd |= character == NEEDS_PYTHON
            out += encode(character, text, out)
            n_characters += 1
            continue
        # What follows has no jumps: a processor cannot foresee where words end.
        separates = character == 0
        ends = separates & (n_characters >= 2)
        text[np.uint64(out)] = np.uint8(character) | (SPACE * separates)
        n_characters = 0 if separates else n_characters + 1
        out += 1
        out = start if separates & (not ends) else out
        start = out if ends else start
        n_words += ends
        starts[np.uint64(n_words)] = start
    if n_characters >= 2:
        text[out] = SPACE
        n_words += 1
        starts[n_words] = out + 1
    return n_words, odd, -1


@compiled
def decode(data: NDArray[np.uint8], i: Int, end: Int) -> tuple[np.uint32, int]:
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
    # Surrogates, and code points in more bytes than they need, are no UTF-8, although their bits would decode.
    if code < least or code >= N_CODE_POINTS or 0xD800 <= code <= 0xDFFF:
        return np.uint32(0), 0
    return code, size


@compiled
def encode(code: np.uint32, text: NDArray[np.uint8], out: Int) -> int:
    """Write a code point beyond ASCII as UTF-8; return its size in bytes."""
    size = 2 if code < 0x800 else (3 if code < 0x10000 else 4)
    for j in range(size - 1, 0, -1):
        text[out + j] = np.uint8(0x80 | (code & np.uint32(0x3F)))
        code >>= np.uint32(6)
    # The first byte begins with as many ones as there are bytes: 0xC0, 0xE0 or 0xF0.
    text[out] = np.uint8((0xF00 >> size) & 0xFF) | np.uint8(code)
    return size
