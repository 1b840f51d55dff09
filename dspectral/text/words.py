"""Words of sentences: every token, cut at blanks or around punctuation, counted and numbered."""

import re
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import compiled, read_only
from dspectral.text.ngrams import name_words, sorted_words
from dspectral.text.term_bytes import gather, hash_terms, read_only_terms
from dspectral.text.term_index import TermIndex, look_up
from dspectral.text.terms import TermTable
from dspectral.text.tokenizers import Tokenizer
from dspectral.text.tokens import (
    N_CODE_POINTS,
    NEEDS_PYTHON,
    PADDING,
    SPACE,
    Tokens,
    are,
    checked_offsets,
    decode,
    encode,
    lower_case,
    lowered,
    not_utf8,
)
from dspectral.types import Documents, Int, Sentences

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
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3041-\u30fa\u30fc-\u30ff\u3400-\u9fff"
    r"\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Letters of languages that are written without blanks: Thai, Lao, Burmese, Khmer, kana and Chinese characters."""
_RUNS = re.compile(rf"([{_UNSPACED}]+)|[^\W{_UNSPACED}]+|[^\w\s]")
BLANK, LETTER, ALONE, APOSTROPHE = 0, 1, 2, 3


def cut_words(documents: Documents, cut: Cut | Tokenizer = "blanks", *, lowercase: bool = False) -> Tokens:
    r"""Cut sentences into tokens.

    ``"blanks"`` cuts as ``text.split()``; ``"words"`` as ``re.findall(r"\w+(?:['\u2019]\w+)*|[^\w\s]", text)``, and
    ``"language"`` so too, but for strings that :func:`without_codes` replaces; ``"characters"`` into
    :func:`character_bigrams`; a tokenizer as its function. Holds at most four times the bytes of the text and 8 bytes
    for each token.

    >>> cut_words(Documents.of(["don't  go, 'Al'"]), "words").text[:-PADDING].tobytes()
    b"don't go , ' Al ' "
    """
    if isinstance(cut, Tokenizer):
        return cut.cut(documents, lowercase=lowercase)
    if cut not in get_args(Cut):
        raise ValueError(f"tokens is {cut!r}, but it must be one of {', '.join(map(repr, get_args(Cut)))}")
    documents = checked_offsets(documents)
    if cut == "characters":
        return Tokenizer(cut, character_bigrams).cut(documents, lowercase=lowercase)
    if cut == "language":
        documents, cut = without_codes(documents), "words"
    tokens, odd, (document, byte) = _cut(documents, _letters(lowercase), _kinds(cut))
    if document >= 0:
        raise ValueError(not_utf8(documents.text(document), document, byte))
    return cut_words(lowered(documents, odd), cut, lowercase=lowercase) if odd.any() else Tokens.of(*tokens)


def is_unspaced(token: str) -> bool:
    """Report whether a token begins with a letter of a language that is written without blanks."""
    return (match := _RUNS.match(token)) is not None and match[1] is not None


def character_bigrams(text: str) -> list[str]:
    """Cut a text into pairs of neighboring letters where it is written without blanks, else into words.

    >>> character_bigrams("東京都へ行く。 I use Linux系")
    ['東京', '京都', '都へ', 'へ行', '行く', '。', 'I', 'use', 'Linux', '系']
    """
    found = []
    for match in _RUNS.finditer(text):
        run = match[0]
        found += [run[i : i + 2] for i in range(max(1, len(run) - 1))] if match[1] else [run]
    return found


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


def count_words(tokens: Tokens) -> TermTable:
    """Count the distinct tokens, in the order of their bytes."""
    first, counts, frequency = _count_words(tokens)
    return TermTable(
        gather(tokens.text, tokens.starts[first], tokens.starts[first + 1] - 1), frequency, counts
    )


def number_words(tokens: Tokens, index: TermIndex) -> Sentences:
    """Replace each token by its number in a vocabulary, 0 where it is not in it."""
    words = gather(tokens.text, tokens.starts[:-1], tokens.starts[1:] - 1)
    index = TermIndex(read_only_terms(index.terms), read_only(index.slots))
    return Sentences(_number(read_only_terms(words), hash_terms(words), index), tokens.bounds)


@cache
def _letters(lowercase: bool) -> NDArray[np.uint32]:
    """Return the lower case (or itself) of each code point, or `NEEDS_PYTHON`."""
    return read_only(lower_case() if lowercase else np.arange(N_CODE_POINTS, dtype=np.uint32))


@cache
def _kinds(cut: str) -> NDArray[np.uint8]:
    """Return what each code point is: a blank, a letter, by itself, or an apostrophe."""
    table = np.full(N_CODE_POINTS, LETTER if cut == "blanks" else ALONE, dtype=np.uint8)
    table[are(r"[^\W_]")] = LETTER
    table[are(r"\s")] = BLANK
    # The class \w of the module `re` is what is alphanumeric, and the underscore.
    if cut == "words":
        table[ord("_")] = LETTER
        table[[ord("'"), ord("\u2019")]] = APOSTROPHE
    return read_only(table)


@compiled
def _cut(documents: Documents, letters: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> Any:
    """Return the tokens, which sentences need Python, and the sentence and byte that is not UTF-8 or -1."""
    data, offsets = documents
    n_documents = offsets.size - 1
    n_bytes = offsets[n_documents] - offsets[0]
    # Lower case has at most twice the bytes of a character, and each token one more.
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
    # Invariant: text[:starts[n]] holds whole tokens, each followed by a space, and text[starts[n]:out] the token that
    # is being read. Cost: one look-up of the kind and one of the lower case a character.
    while i < end:
        code = np.uint32(data[i])
        size = 1
        if code >= 0x80:
            code, size = decode(data, i, end)
            if size == 0:
                return n, odd, i
        inside = out > starts[n]
        kind = kinds[code]
        # An apostrophe is a letter inside a word where a letter follows it, and stands by itself elsewhere.
        if kind == APOSTROPHE:
            kind = LETTER if inside and _letter_at(data, i + size, end, kinds) else ALONE
        i += size
        if inside and kind != LETTER:
            text[out] = SPACE
            out += 1
            n += 1
            starts[n] = out
        if kind == BLANK:
            continue
        # A character whose lower case the table cannot say marks the sentence, which Python then lowers as a whole.
        letter = letters[code]
        odd |= letter == NEEDS_PYTHON
        out += _write(letter, text, out)
        if kind == ALONE:
            text[out] = SPACE
            out += 1
            n += 1
            starts[n] = out
    if out > starts[n]:
        text[out] = SPACE
        n += 1
        starts[n] = out + 1
    return n, odd, -1


@compiled
def _letter_at(data: NDArray[np.uint8], i: Int, end: Int, kinds: NDArray[np.uint8]) -> bool:
    """Report whether a letter starts at byte i."""
    if i >= end:
        return False
    code = np.uint32(data[i])
    if code >= 0x80:
        code, size = decode(data, i, end)
        if size == 0:
            return False
    return bool(kinds[code] == LETTER)


@compiled
def _write(letter: np.uint32, text: NDArray[np.uint8], out: Int) -> int:
    if letter < 0x80:
        text[out] = np.uint8(letter)
        return 1
    if letter == NEEDS_PYTHON:  # whatever is written: the sentence will be cut again
        return 0
    return encode(letter, text, out)


@compiled
def _count_words(tokens: Tokens) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where each distinct token stands first, how often it occurs, and in how many sentences."""
    names, first = name_words(tokens)
    counts, frequency = np.zeros(first.size, dtype=np.int64), np.zeros(first.size, dtype=np.int64)
    # last[name] is the last sentence counted for a word: twice in one sentence adds one to the word's frequency.
    last = np.full(first.size, -1, dtype=np.int64)
    for i in range(tokens.bounds.size - 1):
        for token in range(tokens.bounds[i], tokens.bounds[i + 1]):
            name = names[token]
            counts[name] += 1
            frequency[name] += last[name] != i
            last[name] = i
    order = sorted_words(tokens.text, tokens.starts, first)
    return first[order], counts[order], frequency[order]


@compiled
def _number(words: Documents, codes: NDArray[np.uint32], index: TermIndex) -> NDArray[np.int32]:
    text, offsets = words
    (data, terms), slots = index
    ids = np.empty(codes.size, dtype=np.int32)
    # A word that is not found is -1 there; 0 is the number of "<?>".
    for i in range(codes.size):
        ids[i] = max(0, look_up(data, terms, slots, codes[i], text, offsets[i], offsets[i + 1]))
    return ids
