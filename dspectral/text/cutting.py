r"""Rules that cut UTF-8 text into words in every script: Unicode's word boundaries (UAX #29), without the lock.

A word is a run of letters, digits and underscores with the marks, joiners and apostrophes within it. Characters that
Unicode calls format characters, such as soft hyphens and byte order marks, are left out and cut nothing.
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
    are,
    case_table,
    checked_offsets,
    decode,
    encode,
    not_utf8,
    prepare_in_python,
)
from dspectral.types import Documents, Int

Cut: TypeAlias = Literal["blanks", "words", "language", "characters"]
CODE = "\u241a"
"""Token that stands for a string that is no language."""
_LONG = re.compile(rb"[!-~]{40,}")
_SIGNS = bytes.maketrans(
    bytes(range(256)),
    bytes(1 + char.isdigit() + 2 * char.islower() + 3 * char.isupper() for char in map(chr, range(256))),
)
"""Whether a byte is a digit, a small or a capital letter, or something else."""
SMALL_LETTER = 3
UNSPACED = (
    r"[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u3005-\u3007\u3041-\u309f\u3400-\u9fff"
    r"\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\U00011700-\U0001174f\U00016fe0-\U00018d8f\U0001b000-\U0001b16f"
    r"\U00020000-\U0003ffff]"
)
"""Scripts without blanks: Thai, Lao, Burmese, Khmer, Tai, hiragana and Chinese characters. Katakana runs are words."""
BLANKS = "\u200b\u0f0b\u0f0c\u1361"
"""Signs that part words as a blank does: the zero width space, Tibetan's tsheg, Ethiopic's wordspace."""
HIRAGANA = r"[\u3041-\u309f\U0001b000-\U0001b16f]"
LEADING, FOLLOWING = "[\u0e40-\u0e44\u0ec0-\u0ec4]", "[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]"
"""Vowels of Thai and Lao that are written before and behind their consonant, and are letters by themselves."""
STACKERS = "\u1039\u17d2\u1a60"
"""Marks of Burmese, Khmer and Tai Tham that put the next consonant under the one before."""
MAX_LETTERS = 4
"""Mean letters of words in Japanese, Chinese or Thai, which have two or three."""
SAMPLE_BYTES, LEAST_LETTERS = 1 << 15, 500
"""Bytes at the beginning of a block by which its scripts are known, and letters that are enough."""
MIDDLES = "'\u2019\u00b7\u2027\u05f4"
"""Signs that belong to a word between two of its letters: apostrophes, Catalan's middle dot, Hebrew's gershayim."""
EXTENDERS = "\u200c\u30fc\uff70\uff9e\uff9f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""What extends a character beside marks: the non-joiner, kana's length and voicing marks, tones of skin."""
NUMBER_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Format characters that can be seen."""
BLANK, LETTER, ALONE, MIDDLE, MARK, JOINER, IGNORED, FLAG, SOLID, KANA, LEAD, FOLLOW, STACK = range(13)
PAIRED, OPEN, PAIR, OPEN_PAIR = range(13, 17)
"""Kinds of code points, those after ALONE rare. Letters of scripts without blanks are SOLID, or PAIRED and KANA.

As states PAIRED and PAIR are the first and the second unit of a pair, OPEN where the next letter belongs to it."""
ASAT, DOT_BELOW = 0x103A, 0x1037
"""Burmese marks: the one that ends a syllable with its consonant, and a tone that may stand before it."""


def cut_by_rule(
    documents: Documents, rule: Cut, *, lowercase: bool = False, normalize: bool = False, signs: bool = True
) -> Tokens:
    r"""Cut documents into tokens: words, and where ``signs`` each other character by itself.

    ``"blanks"`` cuts as ``text.split()``; ``"words"`` at the boundaries of UAX #29, with contractions whole;
    ``"language"`` so too, but for strings that :func:`without_codes` replaces; ``"characters"`` so too, but for scripts
    without blanks: runs of hiragana and of katakana are tokens, and other letters become pairs of neighboring units,
    which are a letter with its marks, and with the vowels and final consonants that show that they belong to it.
    ``normalize`` brings text to the form NFC first. Holds at most four times the bytes of the text and 8 bytes for each
    token.
    """
    documents = checked_offsets(documents)
    if rule == "language":
        documents, rule = without_codes(documents), "words"
    tokens, odd, (document, byte) = _cut(documents, case_table(lowercase, normalize), _kinds(rule, signs))
    if document >= 0:
        raise ValueError(not_utf8(documents.text(document), document, byte))
    if not odd.any():
        return Tokens.of(*tokens)
    documents = prepare_in_python(documents, odd, lowercase=lowercase, normalize=normalize)
    return cut_by_rule(documents, rule, lowercase=lowercase, signs=signs)


def count_unspaced(token: str) -> int:
    """Return how many letters of a token are of scripts that are written without blanks.

    >>> count_unspaced("東京タワー"), count_unspaced("Tokyo")
    (2, 0)
    """
    kinds = _kinds("words", True)
    return sum(int(kinds[ord(character)] == SOLID) for character in token)


def find_fault(documents: Documents, rule: Cut | None) -> str:
    """Return how a rule, or scikit-learn's ``token_pattern``, cuts a text at wrong places, by its first bytes."""
    start = int(documents.offsets[0])
    sample = documents.data[start : start + SAMPLE_BYTES]
    if not np.any(sample >= 0xCC):  # no character above those of Latin
        return ""
    text = sample.tobytes().decode("utf-8", "ignore")
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    kinds = np.concatenate([[BLANK], _kinds("words", True)[codes]])
    solid = kinds == SOLID
    n_letters = int((solid | (kinds == LETTER)).sum())
    marks = (kinds[1:] == MARK) & ~np.isin(codes, list(map(ord, EXTENDERS)))
    n_marked = int((marks & (solid | (kinds == LETTER))[:-1]).sum())
    n_solid, n_runs = int(solid.sum()), int((solid[1:] & ~(solid | (kinds == MARK))[:-1]).sum())
    if n_letters < LEAST_LETTERS:
        return ""
    if rule is None and 20 * n_marked > n_letters:
        return (
            f"{n_marked / n_letters:.0%} of the letters have combining marks, at which scikit-learn's token_pattern "
            "cuts words: tokenizer='words' keeps them whole"
        )
    if rule != "characters" and 10 * n_solid > n_letters and n_solid > MAX_LETTERS * n_runs:
        return (
            f"words are whole clauses, {n_solid / n_runs:.0f} letters each where scripts have no blanks: "
            "tokenizer='characters' makes pairs of letters, and a tokenizer of the language cuts words"
        )
    return ""


def without_codes(documents: Documents) -> Documents:
    r"""Put U+241A in the place of each string of 40 or more characters that is no language.

    Lines of uuencode and base64, keys and long hashes change between small and capital letters, digits and signs at
    more than half of the characters, or a quarter where no letter is small; words, paths, addresses and rulers do not.

    >>> line = "M86QU92!O9B!A(&QO;F<@;&EN92!O9B!T97AT('1H870@:7,@96YC;V1E9"
    >>> kept = without_codes(Documents.of([f"see {line} there", "a" * 60]))
    >>> [" ".join(kept.text(i).decode().split()) for i in range(2)] == ["see \u241a there", "a" * 60]
    True
    """
    text, offsets = documents.data.tobytes(), documents.offsets
    known = bytearray(text)
    for match in _LONG.finditer(text):
        start, stop = match.span()
        # Documents lie side by side without a blank: a string ends where its document does.
        inner = offsets[np.searchsorted(offsets, start, "right") : np.searchsorted(offsets, stop)]
        for begin, end in pairwise([start, *inner.tolist(), stop]):
            signs = text[begin:end].translate(_SIGNS)
            if end - begin < 40:
                continue
            # Uuencode has no small letters, and may repeat a few signs.
            least = 0.5 if SMALL_LETTER in signs else 0.25
            if sum(a != b for a, b in pairwise(signs)) > least * len(signs):
                known[begin:end] = CODE.encode().ljust(end - begin)
    return Documents(np.frombuffer(known, dtype=np.uint8), offsets)


@cache
def _kinds(rule: str, signs: bool) -> NDArray[np.uint8]:
    """Return the kind of each code point. Shapes: returns (N_CODE_POINTS,)."""
    blanks = are(r"\s")
    if rule == "blanks":
        return read_only(np.where(blanks, BLANK, LETTER).astype(np.uint8))
    alone = ALONE if signs else BLANK
    table = np.full(N_CODE_POINTS, alone, dtype=np.uint8)
    # The class \w of the module `re` is what is alphanumeric, and the underscore.
    letters, digits = are(r"\w"), are(r"\d")
    table[letters] = LETTER
    unspaced = letters & ~digits & are(UNSPACED)
    table[unspaced] = SOLID
    kinds = {"M": MARK, "C": IGNORED}
    for code in CODES:
        of = category(chr(code))
        if of[0] == "M" or of == "Cf":
            table[code] = kinds[of[0]]
    table[0x1F1E6:0x1F200] = FLAG if signs else BLANK
    if rule == "characters":
        table[unspaced] = PAIRED
        for pattern, kind in ((HIRAGANA, KANA), (LEADING, LEAD), (FOLLOWING, FOLLOW)):
            table[unspaced & are(pattern)] = kind
        table[list(map(ord, STACKERS))] = STACK
    for characters, kind in ((MIDDLES, MIDDLE), (EXTENDERS, MARK), ("\u200d", JOINER), (NUMBER_SIGNS, alone)):
        table[list(map(ord, characters))] = kind
    table[list(map(ord, BLANKS))] = BLANK
    table[blanks] = BLANK
    return read_only(table)


@cache
def word_pattern() -> re.Pattern[str]:
    """Return a pattern of words in text that was normalized, where their places matter."""
    kinds = _kinds("words", True)
    marks = "".join(map(chr, np.flatnonzero((kinds == MARK) | (kinds == JOINER)).tolist()))
    return re.compile(rf"\w[\w{marks}]*(?:['\u2019]\w[\w{marks}]*)*")


@compiled
def _cut(documents: Documents, letters: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> Any:
    """Return the tokens, which sentences need Python, and the sentence and byte that is not UTF-8 or -1."""
    data, offsets = documents
    n_documents = offsets.size - 1
    n_bytes = offsets[n_documents] - offsets[0]
    # Lower case has at most twice the bytes of a character, and each token one more; of a script without blanks each
    # letter, of three bytes, is in two tokens.
    text = np.empty(3 * n_bytes + PADDING, dtype=np.uint8)
    starts = np.empty(n_bytes + 1, dtype=np.int64)
    bounds = np.zeros(n_documents + 1, dtype=np.int64)
    odd = np.zeros(n_documents, dtype=np.bool_)
    starts[0] = 0
    n: Int = np.int64(0)  # not a literal, for which the function below would be compiled a second time
    for i in range(n_documents):
        n, odd[i], bad = _cut_one(data, offsets[i], offsets[i + 1], letters, kinds, text, starts, n)
        bounds[i + 1] = n
        if bad >= 0:
            return (text, starts, bounds), odd, (i, bad - offsets[i])
    text[starts[n] : starts[n] + PADDING] = 0
    return (text[: starts[n] + PADDING].copy(), starts[: n + 1].copy(), bounds), odd, (-1, -1)


@compiled
def _cut_one(
    data: NDArray[np.uint8],
    i: Int,
    end: Int,
    letters: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    n: Int,
) -> tuple[Int, bool, Int]:
    """Write the tokens of ``data[i:end]``; return how many there are now, `odd`, and the bad byte or -1."""
    out = starts[n]
    odd = False
    state: Int = np.int64(BLANK)
    second = out
    # Invariant: text[:starts[n]] holds whole tokens, each followed by a space, and text[starts[n]:out] the token that
    # is being read, whose last character but for marks is of kind `state`, BLANK where there is none, and PAIR for the
    # second unit of a pair, which begins at `second`. Cost: one look-up of the kind and one of the lower case a
    # character.
    while i < end:
        code = np.uint32(data[i])
        size = 1
        if code >= 0x80:
            code, size = decode(data, i, end)
            if size == 0:
                return n, odd, i
        i += size
        kind: Int = np.int64(kinds[code])
        joined = kind == LETTER and state == LETTER
        if kind > ALONE:
            kind, joined = _resolve(kind, state, data, i, end, kinds)
            if kind < 0:
                continue
            if kind >= PAIR and state == PAIRED:
                second = out
        if not (joined or (state == JOINER and kind == ALONE)):
            out, n = _close(text, starts, out, n, state)
            if kind >= PAIR:
                second = out = _repeat(text, second, out)
        state = kind
        if kind == BLANK:
            continue
        # A character whose lower case the table cannot say marks the sentence, which Python then lowers as a whole.
        letter = letters[code]
        odd |= letter == NEEDS_PYTHON
        out += _write(letter, text, out)
    _, n = _close(text, starts, out, n, state)
    return n, odd, -1


@compiled
def _close(
    text: NDArray[np.uint8], starts: NDArray[np.int64], out: Int, n: Int, state: Int
) -> tuple[Int, Int]:
    """End the token that is being read, if there is one; return where the next one begins, and its number."""
    if state == BLANK:
        return out, n
    text[out] = SPACE
    starts[n + 1] = out + 1
    return out + 1, n + 1


@compiled
def _repeat(text: NDArray[np.uint8], second: Int, out: Int) -> Int:
    """Begin a pair with the second unit of the one before; return where it goes on."""
    for i in range(second, out - 1):  # but for the space
        text[out + i - second] = text[i]
    return out + out - 1 - second


@compiled
def _resolve(
    kind: Int, state: Int, data: NDArray[np.uint8], i: Int, end: Int, kinds: NDArray[np.uint8]
) -> tuple[Int, bool]:
    """Return the state that a rare kind leads to, -1 where it is left out, and whether it continues a token."""
    if kind >= KANA and (kind != STACK or state in (PAIRED, PAIR)):
        return _pair(kind, state, data, i, end)
    if kind in (MARK, JOINER, STACK) and state != BLANK:
        return np.int64(JOINER if kind == JOINER and state == ALONE else state), True
    if kind in (MARK, JOINER, STACK, IGNORED):  # a mark without a character before it belongs to a blank
        return np.int64(-1), False
    if kind == MIDDLE:
        # A letter inside a word where a letter follows it; elsewhere what other signs are.
        joined = state == LETTER and _letter_at(data, i, end, kinds)
        return np.int64(LETTER if joined else kinds[ord("!")]), joined
    if kind == SOLID:
        return np.int64(LETTER), state == LETTER
    # Two letters of a region are one flag.
    return np.int64(ALONE if state == FLAG else FLAG), state == FLAG


@compiled
def _pair(kind: Int, state: Int, data: NDArray[np.uint8], i: Int, end: Int) -> tuple[Int, bool]:
    """Return the state that a letter of a script without blanks leads to, and whether it continues a token."""
    if kind == KANA:
        return kind, state == KANA
    # OPEN and OPEN_PAIR are the numbers behind PAIRED and PAIR.
    if kind == STACK:
        return state + 1, True
    if state in (OPEN, OPEN_PAIR):
        return state - np.int64(kind != LEAD), True
    second = state in (PAIRED, PAIR)
    if second and (kind == FOLLOW or _ends_syllable(data, i, end)):
        return state, True
    return np.int64((PAIR if second else PAIRED) + (kind == LEAD)), state == PAIRED


@compiled
def _ends_syllable(data: NDArray[np.uint8], i: Int, end: Int) -> bool:
    """Report whether the letter before byte i is a final consonant of Burmese."""
    while i < end:
        code, size = decode(data, i, end)
        if code != DOT_BELOW:
            return bool(code == ASAT)
        i += size
    return False


@compiled
def _letter_at(data: NDArray[np.uint8], i: Int, end: Int, kinds: NDArray[np.uint8]) -> bool:
    """Report whether a letter starts at byte i, or behind marks there."""
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
def _write(letter: np.uint32, text: NDArray[np.uint8], out: Int) -> int:
    if letter < 0x80:
        text[out] = np.uint8(letter)
        return 1
    if letter == NEEDS_PYTHON:  # whatever is written: the sentence will be cut again
        return 0
    return encode(letter, text, out)
