r"""Tokenize UTF-8 text of any script by Unicode word boundaries (UAX #29), without holding the GIL.

A word is a sequence of letters, digits and underscores with the marks, joiners and apostrophes within it. Unicode
format characters, such as soft hyphens and byte order marks, are removed and do not separate words.
"""

import re
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeAlias
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.tokens import (
    CODES,
    N_CODE_POINTS,
    NEEDS_PYTHON,
    PADDING,
    SPACE,
    Tokens,
    check_offsets,
    decode,
    encode,
    get_case_table,
    match_code_points,
    prepare_in_python,
    utf8_error_message,
)
from dspectral.types import Bools, Documents, Int, Int64s

TokenRule: TypeAlias = Literal["blanks", "words", "language", "characters"]
CODE = "\u241a"
"""Token that replaces a string of encoded data."""
_LONG_RUN = re.compile(rb"[!-~]{40,}")
_BYTE_CLASSES = bytes.maketrans(
    bytes(range(256)),
    bytes(1 + char.isdigit() + 2 * char.islower() + 3 * char.isupper() for char in map(chr, range(256))),
)
"""Class of each byte: other, digit, lowercase or uppercase letter."""
SMALL_LETTER = 3
UNSPACED = (
    r"[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u3005-\u3007\u3041-\u309f\u3400-\u9fff"
    r"\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\U00011700-\U0001174f\U00016fe0-\U00018d8f\U0001b000-\U0001b16f"
    r"\U00020000-\U0003ffff]"
)
"""Scripts without spaces: Thai, Lao, Burmese, Khmer, Tai, hiragana and Chinese. Katakana sequences are words."""
SPACE_LIKE = "\u200b\u0f0b\u0f0c\u1361"
"""Characters that separate words like a space: zero width space, Tibetan tsheg, Ethiopic wordspace."""
HIRAGANA = r"[\u3041-\u309f\U0001b000-\U0001b16f]"
LEADING_VOWELS = "[\u0e40-\u0e44\u0ec0-\u0ec4]"
FOLLOWING_VOWELS = "[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]"
"""Vowels of Thai and Lao before and after their consonant that are separate letters."""
STACKERS = "\u1039\u17d2\u1a60"
"""Marks of Burmese, Khmer and Tai Tham that stack the next consonant under the previous one."""
MAX_MEAN_LETTERS = 4
"""Maximum mean length of words in scripts without spaces; segmented Japanese, Chinese or Thai has two or three."""
SAMPLE_BYTES, MIN_LETTERS = 1 << 15, 500
"""Bytes of a block that are checked for its scripts, and the minimum number of letters in them."""
DOTLESS, DOTTED = "\u0131".encode(), "\u0130".encode()
"""Lowercase of I and uppercase of i in Turkish and other Turkic languages."""
MIDWORD_SIGNS = "'\u2019\u00b7\u2027\u05f4"
"""Characters that do not end a word between two letters: apostrophes, Catalan middle dot, Hebrew gershayim."""
EXTENDERS = "\u200c\u30fc\uff70\uff9e\uff9f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""Characters that extend the previous one, besides marks: non-joiner, kana length and voicing marks, skin tones."""
NUMBER_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Visible format characters."""
BLANK, LETTER, ALONE, MIDDLE, MARK, JOINER, IGNORED, FLAG, SOLID, KANA, LEAD, FOLLOW, STACK = range(13)
PAIRED, OPEN, PAIR, OPEN_PAIR = range(13, 17)
"""Kinds of code points; those after ALONE are rare. Letters of scripts without spaces are SOLID, or PAIRED and KANA.

As states, PAIRED and PAIR are the first and second unit of a pair; the OPEN states also take the next letter."""
ASAT, DOT_BELOW = 0x103A, 0x1037
"""Burmese marks: the syllable-final mark, and a tone mark that may precede it."""


def tokenize_by_rule(
    documents: Documents,
    rule: TokenRule,
    *,
    lowercase: bool = False,
    normalize: bool = False,
    keep_signs: bool = True,
) -> Tokens:
    r"""Tokenize documents by a named rule; with ``keep_signs`` other characters become single-character tokens.

    ``"blanks"`` splits like ``text.split()``. ``"words"`` splits at the word boundaries of UAX #29 and keeps
    contractions. ``"language"`` also replaces strings by :func:`mask_codes`. ``"characters"`` follows ``"words"``
    except in scripts without spaces: sequences of hiragana and of katakana are tokens, and other text becomes pairs of
    adjacent units. A unit is a letter with its marks, dependent vowels and final consonants. ``normalize`` applies NFC
    first. Memory: at most four times the bytes of the text, and 8 bytes per token.
    """
    documents = check_offsets(documents)
    if lowercase and rule != "blanks":  # which are the words of scikit-learn's char_wb
        documents = _lower_dotted_i(documents)
    if rule == "language":
        documents, rule = mask_codes(documents), "words"
    tokens, needs_python, (document, byte) = _split_documents(
        documents, get_case_table(lowercase, normalize), _make_kind_table(rule, keep_signs)
    )
    if document >= 0:
        raise ValueError(utf8_error_message(documents.text(document), document, byte))
    if not needs_python.any():
        return Tokens.from_arrays(*tokens)
    documents = prepare_in_python(documents, needs_python, lowercase=lowercase, normalize=normalize)
    return tokenize_by_rule(documents, rule, lowercase=lowercase, keep_signs=keep_signs)


def _lower_dotted_i(documents: Documents) -> Documents:
    """Return documents with the letters I and \u0130 in lowercase, in Turkish text as \u0131 and i."""
    text = documents.data.tobytes()
    if DOTLESS not in text and DOTTED not in text:
        return documents
    texts = []
    for i in range(documents.n_documents):
        content = documents.text(i)
        # In Turkish text there are two dotless i for three dotted ones; names in other text are fewer.
        is_turkish = 3 * content.count(DOTLESS) > content.count(b"i")
        texts.append((content.replace(b"I", DOTLESS) if is_turkish else content).replace(DOTTED, b"i"))
    return Documents.from_strings(texts)


def count_unspaced(token: str) -> int:
    """Count the letters of a token that belong to scripts without spaces."""
    kinds = _make_kind_table("words", True)
    return sum(int(kinds[ord(character)] == SOLID) for character in token)


def has_unspaced_script(documents: Documents) -> Bools:
    """Return which documents have at least a tenth of their characters in scripts without spaces, shape (n,)."""
    # Letters of these scripts start with these bytes; 0xE2 is punctuation such as typographic quotes.
    is_candidate = (documents.data >= 0xE0) & (documents.data != 0xE2)
    counts = np.add.reduceat(np.append(is_candidate, 0), documents.offsets[:-1]) * (np.diff(documents.offsets) > 0)
    is_unspaced = np.zeros(documents.n_documents, dtype=np.bool_)
    for i in np.flatnonzero(counts).tolist():
        text = documents.text(i).decode("utf-8", "ignore")
        is_unspaced[i] = 10 * len(re.findall(UNSPACED, text)) > len(text)
    return is_unspaced


def find_tokenizer_problem(documents: Documents, rule: TokenRule | None) -> str:
    """Return a warning if a rule, or scikit-learn's ``token_pattern`` (None), does not suit the script of a text."""
    start = int(documents.offsets[0])
    starts = documents.offsets[1 : np.searchsorted(documents.offsets, start + SAMPLE_BYTES)]
    sample = np.insert(documents.data[start : start + SAMPLE_BYTES], starts - start, ord("\n"))
    if not np.any(sample >= 0xCC):  # Latin script only
        return ""
    text = sample.tobytes().decode("utf-8", "ignore")
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    kinds = np.concatenate([[BLANK], _make_kind_table("words", True)[codes]])
    solid = kinds == SOLID
    n_letters = int((solid | (kinds == LETTER)).sum())
    marks = (kinds[1:] == MARK) & ~np.isin(codes, list(map(ord, EXTENDERS)))
    n_marked = int((marks & (solid | (kinds == LETTER))[:-1]).sum())
    n_solid, n_runs = int(solid.sum()), int((solid[1:] & ~(solid | (kinds == MARK))[:-1]).sum())
    if n_letters < MIN_LETTERS:
        return ""
    if rule is None and 20 * n_marked > n_letters:
        return (
            f"{n_marked / n_letters:.0%} of the letters have combining marks, where scikit-learn's token_pattern "
            "splits words: use tokenizer='words' to keep them whole"
        )
    if rule != "characters" and 10 * n_solid > n_letters and n_solid > MAX_MEAN_LETTERS * n_runs:
        return (
            f"words have {n_solid / n_runs:.0f} letters on average, so they are whole clauses of a script without "
            "spaces: use tokenizer='characters' for pairs of letters, or a tokenizer for the language"
        )
    return ""


def mask_codes(documents: Documents) -> Documents:
    r"""Replace strings of 40 or more characters that look like encoded data by U+241A.

    In uuencode, base64, keys and hashes, more than half of the adjacent characters differ in class (lowercase,
    uppercase, digit, other), or a quarter if there is no lowercase letter. Words, paths and URLs have fewer changes.

    >>> line = "M86QU92!O9B!A(&QO;F<@;&EN92!O9B!T97AT('1H870@:7,@96YC;V1E9"
    >>> kept = mask_codes(Documents.from_strings([f"see {line} there", "a" * 60]))
    >>> [" ".join(kept.text(i).decode().split()) for i in range(2)] == ["see \u241a there", "a" * 60]
    True
    """
    text, offsets = documents.data.tobytes(), documents.offsets
    masked = bytearray(text)
    for match in _LONG_RUN.finditer(text):
        start, stop = match.span()
        # Documents are concatenated without a separator: a match is split at their boundaries.
        inner = offsets[np.searchsorted(offsets, start, "right") : np.searchsorted(offsets, stop)]
        for begin, end in pairwise([start, *inner.tolist(), stop]):
            keep_signs = text[begin:end].translate(_BYTE_CLASSES)
            if end - begin < 40:
                continue
            # Uuencode has no lowercase letters, and repeats some characters.
            min_share = 0.5 if SMALL_LETTER in keep_signs else 0.25
            if sum(a != b for a, b in pairwise(keep_signs)) > min_share * len(keep_signs):
                masked[begin:end] = CODE.encode().ljust(end - begin)
    return Documents(np.frombuffer(masked, dtype=np.uint8), offsets)


@cache
def _make_kind_table(rule: str, keep_signs: bool) -> NDArray[np.uint8]:
    """Return the kind of each code point. Shapes: returns (N_CODE_POINTS,)."""
    blanks = match_code_points(r"\s")
    if rule == "blanks":
        return read_only(np.where(blanks, BLANK, LETTER).astype(np.uint8))
    alone = ALONE if keep_signs else BLANK
    table = np.full(N_CODE_POINTS, alone, dtype=np.uint8)
    # \w of the module `re` matches alphanumeric characters and the underscore.
    letters, digits = match_code_points(r"\w"), match_code_points(r"\d")
    table[letters] = LETTER
    unspaced = letters & ~digits & match_code_points(UNSPACED)
    table[unspaced] = SOLID
    kinds = {"M": MARK, "C": IGNORED}
    for code in CODES:
        category_code = category(chr(code))
        if category_code[0] == "M" or category_code == "Cf":
            table[code] = kinds[category_code[0]]
    table[0x1F1E6:0x1F200] = FLAG if keep_signs else BLANK
    if rule == "characters":
        table[unspaced] = PAIRED
        for pattern, kind in ((HIRAGANA, KANA), (LEADING_VOWELS, LEAD), (FOLLOWING_VOWELS, FOLLOW)):
            table[unspaced & match_code_points(pattern)] = kind
        table[list(map(ord, STACKERS))] = STACK
    for characters, kind in ((MIDWORD_SIGNS, MIDDLE), (EXTENDERS, MARK), ("\u200d", JOINER), (NUMBER_SIGNS, alone)):
        table[list(map(ord, characters))] = kind
    table[list(map(ord, SPACE_LIKE))] = BLANK
    table[blanks] = BLANK
    return read_only(table)


@cache
def word_pattern() -> re.Pattern[str]:
    """Return a regular expression that finds the positions of words in NFC text."""
    kinds = _make_kind_table("words", True)
    marks = "".join(map(chr, np.flatnonzero((kinds == MARK) | (kinds == JOINER)).tolist()))
    return re.compile(rf"\w[\w{marks}]*(?:['\u2019]\w[\w{marks}]*)*")


@compiled
def _split_documents(documents: Documents, letters: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> Any:
    """Return the tokens, a mask of documents that need Python, and the document and byte of invalid UTF-8 or -1."""
    data, offsets = documents
    n_documents = offsets.size - 1
    n_bytes = offsets[n_documents] - offsets[0]
    # Lowercase takes at most twice the bytes of a character, and each token one more. In scripts without spaces each
    # letter, of three bytes, is in two tokens.
    text = np.empty(3 * n_bytes + PADDING, dtype=np.uint8)
    starts = np.empty(n_bytes + 1, dtype=np.int64)
    bounds = np.zeros(n_documents + 1, dtype=np.int64)
    needs_python = np.zeros(n_documents, dtype=np.bool_)
    starts[0] = 0
    n: Int = np.int64(0)  # a literal would compile the function below a second time
    for i in range(n_documents):
        n, needs_python[i], bad_byte = _split_document(
            data, offsets[i], offsets[i + 1], letters, kinds, text, starts, n
        )
        bounds[i + 1] = n
        if bad_byte >= 0:
            return (text, starts, bounds), needs_python, (i, bad_byte - offsets[i])
    text[starts[n] : starts[n] + PADDING] = 0
    return (text[: starts[n] + PADDING].copy(), starts[: n + 1].copy(), bounds), needs_python, (-1, -1)


@compiled
def _split_document(
    data: NDArray[np.uint8],
    i: Int,
    end: Int,
    letters: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    text: NDArray[np.uint8],
    starts: Int64s,
    n: Int,
) -> tuple[Int, bool, Int]:
    """Write the tokens of ``data[i:end]``; return the total count, `needs_python`, and the invalid byte or -1."""
    write_at = starts[n]
    needs_python = False
    state: Int = np.int64(BLANK)
    second_start = write_at
    # Invariant: text[:starts[n]] holds complete tokens, each followed by a space, and text[starts[n]:write_at] the
    # current token. `state` is the kind of its last character without marks, BLANK if it is empty, or PAIR for the
    # second unit of a pair, which starts at `second_start`. Cost: two table look-ups per character.
    while i < end:
        code = np.uint32(data[i])
        size = 1
        if code >= 0x80:
            code, size = decode(data, i, end)
            if size == 0:
                return n, needs_python, i
        i += size
        kind: Int = np.int64(kinds[code])
        continues = kind == LETTER and state == LETTER
        if kind > ALONE:
            kind, continues = _next_state(kind, state, data, i, end, kinds)
            if kind < 0:
                continue
            if kind >= PAIR and state == PAIRED:
                second_start = write_at
        if not (continues or (state == JOINER and kind == ALONE)):
            write_at, n = _end_token(text, starts, write_at, n, state)
            if kind >= PAIR:
                second_start = write_at = _start_pair(text, second_start, write_at)
        state = kind
        if kind == BLANK:
            continue
        # Characters that are not in the table mark the document, which Python then lowercases.
        letter = letters[code]
        needs_python |= letter == NEEDS_PYTHON
        write_at += _write_letter(letter, text, write_at)
    _, n = _end_token(text, starts, write_at, n, state)
    return n, needs_python, -1


@compiled
def _end_token(text: NDArray[np.uint8], starts: Int64s, write_at: Int, n: Int, state: Int) -> tuple[Int, Int]:
    """End the current token, if any; return the start and index of the next one."""
    if state == BLANK:
        return write_at, n
    text[write_at] = SPACE
    starts[n + 1] = write_at + 1
    return write_at + 1, n + 1


@compiled
def _start_pair(text: NDArray[np.uint8], second_start: Int, write_at: Int) -> Int:
    """Start a pair with the second unit of the previous pair; return the write position."""
    for i in range(second_start, write_at - 1):  # without the space
        text[write_at + i - second_start] = text[i]
    return write_at + write_at - 1 - second_start


@compiled
def _next_state(
    kind: Int, state: Int, data: NDArray[np.uint8], i: Int, end: Int, kinds: NDArray[np.uint8]
) -> tuple[Int, bool]:
    """Return the state after a rare kind, -1 if the character is removed, and whether it continues the token."""
    if kind >= KANA and (kind != STACK or state in (PAIRED, PAIR)):
        return _next_pair_state(kind, state, data, i, end)
    if kind in (MARK, JOINER, STACK) and state != BLANK:
        return np.int64(JOINER if kind == JOINER and state == ALONE else state), True
    if kind in (MARK, JOINER, STACK, IGNORED):  # a mark after a space is removed
        return np.int64(-1), False
    if kind == MIDDLE:
        # Such a character is part of a word between two letters, and punctuation elsewhere.
        continues = state == LETTER and _has_letter_at(data, i, end, kinds)
        return np.int64(LETTER if continues else kinds[ord("!")]), continues
    if kind == SOLID:
        return np.int64(LETTER), state == LETTER
    # Two regional indicators form one flag.
    return np.int64(ALONE if state == FLAG else FLAG), state == FLAG


@compiled
def _next_pair_state(kind: Int, state: Int, data: NDArray[np.uint8], i: Int, end: Int) -> tuple[Int, bool]:
    """Return the state after a letter of a script without spaces, and whether it continues the token."""
    if kind == KANA:
        return kind, state == KANA
    # OPEN == PAIRED + 1 and OPEN_PAIR == PAIR + 1.
    if kind == STACK:
        return state + 1, True
    if state in (OPEN, OPEN_PAIR):
        return state - np.int64(kind != LEAD), True
    is_second = state in (PAIRED, PAIR)
    if is_second and (kind == FOLLOW or _ends_syllable(data, i, end)):
        return state, True
    return np.int64((PAIR if is_second else PAIRED) + (kind == LEAD)), state == PAIRED


@compiled
def _ends_syllable(data: NDArray[np.uint8], i: Int, end: Int) -> bool:
    """Return whether the letter before byte i is a syllable-final consonant of Burmese."""
    while i < end:
        code, size = decode(data, i, end)
        if code != DOT_BELOW:
            return bool(code == ASAT)
        i += size
    return False


@compiled
def _has_letter_at(data: NDArray[np.uint8], i: Int, end: Int, kinds: NDArray[np.uint8]) -> bool:
    """Return whether the next character at byte i, after any marks, is a letter."""
    while i < end:
        code, size = np.uint32(data[i]), 1
        if code >= 0x80:
            code, size = decode(data, i, end)
            if size == 0:
                return False
        kind = kinds[code]
        if kind not in (MARK, JOINER, IGNORED):
            return bool(kind in (LETTER, SOLID))
        i += size
    return False


@compiled
def _write_letter(letter: np.uint32, text: NDArray[np.uint8], write_at: Int) -> int:
    if letter < 0x80:
        text[write_at] = np.uint8(letter)
        return 1
    if letter == NEEDS_PYTHON:  # the document will be tokenized again
        return 0
    return encode(letter, text, write_at)
