r"""Tokenize UTF-8 text like ``re.findall(r"(?u)\b\w\w+\b", text.lower())``, without holding the GIL."""

import re
from functools import cache
from numbers import Integral
from typing import NamedTuple
from unicodedata import category, is_normalized
from unicodedata import normalize as normalize_unicode

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.types import Bools, Documents, Int, Int64s, format_value

N_CODE_POINTS = 0x110000
NEEDS_PYTHON = np.uint32(0xFFFFFFFF)
CAPITAL_SIGMA = 0x3A3
CODES_PER_BLOCK = 256  # code points; one in twenty blocks has uppercase letters
CODES = (*range(0x20000), *range(0x2F800, 0x2FA20), *range(0xE0000, 0xE0200))
"""Code points that include all marks, all format characters and all characters that NFC changes."""


def build_lowercase_table() -> NDArray[np.uint32]:
    """Return the lowercase of each code point as by `str.lower`, shape (N_CODE_POINTS,)."""
    # Blocks without uppercase letters are skipped: one call of str.lower per code point takes half a second.
    table = np.arange(N_CODE_POINTS, dtype=np.uint32)
    for codes in table.reshape(-1, CODES_PER_BLOCK):
        text = _decode_code_points(codes)
        if text.lower() != text:
            lowered = [character.lower() for character in text]
            codes[:] = [ord(lower) if len(lower) == 1 else NEEDS_PYTHON for lower in lowered]
    table[CAPITAL_SIGMA] = NEEDS_PYTHON
    return table


@cache
def get_case_table(lowercase: bool, normalize: bool) -> NDArray[np.uint32]:
    """Return the (lowercased) code point or `NEEDS_PYTHON` for each code point, shape (N_CODE_POINTS,)."""
    table = build_lowercase_table() if lowercase else np.arange(N_CODE_POINTS, dtype=np.uint32)
    if normalize:
        changed = [c for c in CODES if category(chr(c))[0] == "M" or not is_normalized("NFC", chr(c))]
        # Marks may compose or be reordered; Hangul vowels and final consonants compose.
        table[[*changed, *range(0x1160, 0x1200)]] = NEEDS_PYTHON
    return read_only(table)


def match_code_points(pattern: str) -> Bools:
    r"""Return a mask of the code points that match a pattern, shape (N_CODE_POINTS,)."""
    matches = "".join(re.findall(f"(?:{pattern})+", _decode_code_points(np.arange(N_CODE_POINTS, dtype=np.uint32))))
    table = np.zeros(N_CODE_POINTS, dtype=np.bool_)
    table[np.frombuffer(matches.encode("utf-32-le", "surrogatepass"), dtype="<u4")] = True
    return table


def _decode_code_points(codes: NDArray[np.uint32]) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


PADDING = 32  # bytes after the last word, so that reads of this size stay in bounds
SPACE = np.uint8(32)


class Tokens(NamedTuple):
    """Concatenated tokens of a block of documents, each followed by one space.

    Tokens ``t, ..., t + n - 1`` of a document are ``text[starts[t] : starts[t + n] - 1]``; `text` ends with `PADDING`
    zeros. Shapes: `starts` (n_tokens + 1,); `bounds` (n_documents + 1,), the first token of each document.
    """

    text: NDArray[np.uint8]
    starts: Int64s
    bounds: Int64s

    @classmethod
    def from_arrays(cls, text: NDArray[np.uint8], starts: Int64s, bounds: Int64s) -> "Tokens":
        """Return tokens with read-only arrays, so that kernels are compiled for one type only."""
        return cls(read_only(text), read_only(starts), read_only(bounds))


def tokenize(documents: Documents, lowercase: bool = True, normalize: bool = False) -> Tokens:
    """Tokenize documents into maximal sequences of at least two word characters.

    Parameters
    ----------
    documents : Documents
        UTF-8 text.
    lowercase : bool
        Whether to lowercase first, as by `str.lower`.
    normalize : bool
        Whether to apply Unicode normalization form NFC first.

    Returns
    -------
    Tokens
        Words of all documents.

    Raises
    ------
    ValueError
        If a document is not UTF-8, or the offsets do not match the data.

    Notes
    -----
    Memory: at most twice the bytes of the text, and 8 bytes per word.

    Examples
    --------
    >>> tokenize(Documents.from_strings(["It was a dark night."])).text[:-PADDING].tobytes()
    b'it was dark night '
    """
    documents = check_offsets(documents)
    n_documents, n_bytes = documents.n_documents, int(documents.offsets[-1] - documents.offsets[0])
    # Lowercase takes at most twice the bytes; a word has at least two bytes and a separator. Allocated by NumPy rather
    # than in compiled code: NumPy requests huge pages, which are cheaper to map.
    text = np.empty(2 * n_bytes + n_documents + PADDING, dtype=np.uint8)
    starts = np.empty((n_bytes + n_documents) // 3 + 2, dtype=np.int64)
    starts[0] = 0
    bounds, needs_python = np.zeros(n_documents + 1, dtype=np.int64), np.zeros(n_documents, dtype=np.bool_)
    document, byte = _tokenize(documents, _word_characters(lowercase, normalize), text, starts, bounds, needs_python)
    if document >= 0:
        raise ValueError(utf8_error_message(documents.text(document), document, byte))
    # Text lowercased by Python has no such characters, so the recursion ends here.
    if needs_python.any():
        documents = prepare_in_python(documents, needs_python, lowercase=lowercase, normalize=normalize)
        return tokenize(documents, lowercase)
    starts = starts[: bounds[-1] + 1]
    return Tokens.from_arrays(text[: starts[-1] + PADDING], starts, bounds)


def check_ngram_range(ngram_range: tuple[int, int]) -> None:
    """Raise a ValueError unless the range is 1 <= low <= high <= 3."""
    pair = ngram_range if isinstance(ngram_range, tuple | list) and len(ngram_range) == 2 else (0, 0)
    whole = all(isinstance(length, Integral) for length in pair)
    if not whole or not 1 <= pair[0] <= pair[1] <= 3:
        raise ValueError(f"ngram_range={format_value(ngram_range)} must be (low, high) with 1 <= low <= high <= 3")


@cache
def _word_characters(lowercase: bool, normalize: bool) -> NDArray[np.uint32]:
    """Return the (lowercased) code point of word characters, 0 for others, or `NEEDS_PYTHON`."""
    letters = get_case_table(lowercase, normalize).copy()
    has_entry = letters != NEEDS_PYTHON
    is_word = has_entry.copy()
    is_word[has_entry] = match_code_points(r"\w")[letters[has_entry]]
    letters[has_entry & ~is_word] = 0
    return read_only(letters)


def check_offsets(documents: Documents) -> Documents:
    """Return documents with read-only arrays and valid offsets, which kernels do not check."""
    data, offsets = read_only(documents.data), read_only(np.asarray(documents.offsets, dtype=np.int64))
    fits = len(offsets) > 0 and offsets[0] >= 0 and offsets[-1] <= len(data)
    if not fits or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError(
            f"the {len(offsets)} offsets of the documents must ascend from at least 0 to at most {len(data)}, the "
            "number of bytes"
        )
    return Documents(data, offsets)


def prepare_in_python(documents: Documents, needs_python: Bools, *, lowercase: bool, normalize: bool) -> Documents:
    """Return the documents, with the marked ones lowercased and normalized by Python."""
    texts = [documents.text(i) for i in range(documents.n_documents)]
    for i in np.flatnonzero(needs_python):
        texts[i] = prepare_text(texts[i].decode(), lowercase=lowercase, normalize=normalize).encode()
    return Documents.from_strings(texts)


def prepare_text(text: str, *, lowercase: bool, normalize: bool) -> str:
    """Lowercase a text, then normalize it to NFC."""
    # Lowercase before normalizing: some lowercase letters with a mark are one character, but their uppercase is two.
    text = text.lower() if lowercase else text
    return normalize_unicode("NFC", text) if normalize else text


def utf8_error_message(text: bytes, document: int, byte: int) -> str:
    """Return the error message for a document that is not UTF-8."""
    return (
        f"document {document} of the block is not UTF-8 at byte {byte} of {len(text)} "
        f"({text[byte : byte + 4]!r}): convert it from its encoding, or replace invalid bytes"
    )


@compiled
def _tokenize(
    documents: Documents,
    table: NDArray[np.uint32],
    text: NDArray[np.uint8],
    starts: Int64s,
    bounds: Int64s,
    needs_python: Bools,
) -> tuple[int, int]:
    """Write the words and a mask of documents that need Python; return the document and byte of invalid UTF-8 or -1."""
    data, offsets = documents
    n: Int = np.int64(0)  # a literal would compile the function below a second time
    for i in range(needs_python.size):
        n, needs_python[i], bad_byte = _tokenize_one(data, offsets[i], offsets[i + 1], table, text, starts, n)
        bounds[i + 1] = n
        if bad_byte >= 0:
            return i, int(bad_byte - offsets[i])
    text[starts[n] : starts[n] + PADDING] = 0
    return -1, -1


@compiled
def _tokenize_one(
    data: NDArray[np.uint8],
    i: Int,
    end: Int,
    table: NDArray[np.uint32],
    text: NDArray[np.uint8],
    starts: Int64s,
    n_words: Int,
) -> tuple[Int, bool, Int]:
    """Write the words of ``data[i:end]``; return the total count, `needs_python`, and the invalid byte or -1."""
    # Invariant: text[:start] holds complete words, each followed by a space, and text[start:write_at] the
    # `n_characters` characters of the current word. A word of one character is overwritten. Cost: one table look-up per
    # character.
    start = write_at = starts[n_words]
    n_characters = 0
    needs_python = False
    while i < end:
        code = np.uint32(data[np.uint64(i)])
        if code < 0x80:
            i += 1
        else:
            code, size = decode(data, i, end)
            if size == 0:
                return n_words, needs_python, i
            i += size
        character = table[np.uint64(code)]
        if character >= 0x80:
            needs_python |= character == NEEDS_PYTHON
            write_at += encode(character, text, write_at)
            n_characters += 1
            continue
        # Branch-free, since the ends of words are unpredictable.
        separates = character == 0
        ends = separates & (n_characters >= 2)
        text[np.uint64(write_at)] = np.uint8(character) | (SPACE * separates)
        n_characters = 0 if separates else n_characters + 1
        write_at += 1
        write_at = start if separates & (not ends) else write_at
        start = write_at if ends else start
        n_words += ends
        starts[np.uint64(n_words)] = start
    if n_characters >= 2:
        text[write_at] = SPACE
        n_words += 1
        starts[n_words] = write_at + 1
    return n_words, needs_python, -1


@compiled
def decode(data: NDArray[np.uint8], i: Int, end: Int) -> tuple[np.uint32, int]:
    """Return the code point at byte i and its size in bytes, 0 if it is not UTF-8."""
    first = np.uint32(data[i])
    if 0xC2 <= first <= 0xDF:
        size, code, min_code = 2, first & np.uint32(0x1F), 0x80
    elif 0xE0 <= first <= 0xEF:
        size, code, min_code = 3, first & np.uint32(0x0F), 0x800
    elif 0xF0 <= first <= 0xF4:
        size, code, min_code = 4, first & np.uint32(0x07), 0x10000
    else:
        return np.uint32(0), 0
    if i + size > end:
        return np.uint32(0), 0
    for j in range(i + 1, i + size):
        byte = np.uint32(data[j])
        if byte & np.uint32(0xC0) != 0x80:
            return np.uint32(0), 0
        code = (code << np.uint32(6)) | (byte & np.uint32(0x3F))
    # Surrogates and overlong encodings are not valid UTF-8.
    if code < min_code or code >= N_CODE_POINTS or 0xD800 <= code <= 0xDFFF:
        return np.uint32(0), 0
    return code, size


@compiled
def encode(code: np.uint32, text: NDArray[np.uint8], write_at: Int) -> int:
    """Write a non-ASCII code point as UTF-8; return its size in bytes."""
    size = 2 if code < 0x800 else (3 if code < 0x10000 else 4)
    for j in range(size - 1, 0, -1):
        text[write_at + j] = np.uint8(0x80 | (code & np.uint32(0x3F)))
        code >>= np.uint32(6)
    # The leading bits of the first byte encode the size: 0xC0, 0xE0 or 0xF0.
    text[write_at] = np.uint8((0xF00 >> size) & 0xFF) | np.uint8(code)
    return size
