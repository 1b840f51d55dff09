"""Wrap scikit-learn's analyzers as named tokenizers for stores and saved models; character n-grams are compiled."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from dspectral._compiled import compiled
from dspectral.parameters import check_flag, check_option
from dspectral.text.stop_words import StopWords, check_stop_words
from dspectral.text.token_rules import tokenize_by_rule
from dspectral.text.tokenizers import Tokenizer, TokenizerLike, as_tokenizer
from dspectral.text.tokens import PADDING, SPACE, Tokens
from dspectral.types import Documents, Int, Int64s

TOKEN_PATTERN = r"(?u)\b\w\w+\b"  # noqa: S105  of words, not a secret
"""Default ``token_pattern`` of scikit-learn, implemented by the built-in tokenizer."""
Accents: TypeAlias = Literal["ascii", "unicode"] | Callable[[str], str] | None
Unit: TypeAlias = Literal["word", "char", "char_wb"] | Callable[[str], Sequence[str]]


class Analysis(NamedTuple):
    """Arguments of scikit-learn's ``CountVectorizer`` that define the n-grams of a text."""

    analyzer: Unit
    ngram_range: tuple[int, int]
    lowercase: bool
    tokenizer: TokenizerLike | None
    token_pattern: str
    stop_words: StopWords
    strip_accents: Accents
    preprocessor: Callable[[str], str] | None

    @property
    def is_plain(self) -> bool:
        """Whether the built-in tokenizers support these arguments."""
        options = self.analyzer, self.token_pattern, self.stop_words, self.strip_accents, self.preprocessor
        return options == ("word", TOKEN_PATTERN, None, None, None)

    def as_tokenizer(self) -> Tokenizer:
        """Return the analyzer as a tokenizer named by its arguments."""
        options = {name: value for name, value in self._asdict().items() if value != _DEFAULTS[name]}
        self._check_options(options)
        options["ngram_range"] = tuple(map(int, self.ngram_range))
        for name in ("analyzer", "tokenizer", "strip_accents", "preprocessor"):
            value: Any = options.get(name)
            if callable(value) or (name == "tokenizer" and value is not None):
                options[name] = as_tokenizer(value, name)
        if isinstance(self.stop_words, tuple):
            options["stop_words"] = tuple(sorted(self.stop_words))
        name = f"scikit-learn {json.dumps(options, default=str, sort_keys=True, ensure_ascii=False)}"
        return Tokenizer(name, Analyzer(tuple(sorted(options.items()))))

    def _check_options(self, options: dict[str, Any]) -> None:
        """Raise an error for invalid arguments, and for those that scikit-learn would ignore."""
        low, high = self.ngram_range
        if not (isinstance(low, Integral) and isinstance(high, Integral) and 1 <= low <= high):
            raise ValueError(f"ngram_range={self.ngram_range!r} must be two integers, 1 <= low <= high")
        check_flag("lowercase", self.lowercase)
        if not isinstance(self.token_pattern, str):
            raise TypeError(f"token_pattern={self.token_pattern!r:.60} must be a regular expression")
        if not callable(self.strip_accents):
            check_option("strip_accents", self.strip_accents, (None, "ascii", "unicode"))
        unit: Any = "a function" if callable(self.analyzer) else self.analyzer
        if unit != "a function":
            check_option("analyzer", unit, ("word", "char", "char_wb"))
        unused = {"word": (), "a function": tuple(options)}.get(unit, ("tokenizer", "token_pattern", "stop_words"))
        if self.tokenizer is not None and unit == "word":
            unused = ("token_pattern",)
        if wrong := [name for name in unused if name in options and name != "analyzer"]:
            other = "tokenizer" if unit == "word" else f"analyzer={unit!r}"
            raise ValueError(f"{wrong[0]}={options[wrong[0]]!r:.60} has no effect with {other}: remove one of them")
        check_stop_words(self.stop_words)


_DEFAULTS = Analysis("word", (1, 1), True, None, TOKEN_PATTERN, None, None, None)._asdict()


@dataclass(frozen=True)
class Analyzer:
    """Callable from a text to its n-grams, which are hashed unchanged, including spaces."""

    arguments: tuple[tuple[str, Any], ...]
    gives_ngrams: ClassVar[bool] = True

    @property
    def cut_block(self) -> Callable[[Documents], Tokens] | None:
        """Compiled function for a block of documents: there is one for character n-grams within words."""
        options = dict(self.arguments)
        if options.get("analyzer") != "char_wb" or options.keys() - {"analyzer", "ngram_range", "lowercase"}:
            return None
        lowercase = bool(options.get("lowercase", True))
        return partial(cut_character_ngrams, ngram_range=options["ngram_range"], lowercase=lowercase)

    def __call__(self, text: str) -> Sequence[str]:
        """Return the n-grams of a text."""
        return _build_analyzer(self.arguments)(text)


@cache
def _build_analyzer(arguments: tuple[tuple[str, Any], ...]) -> Callable[[str], Sequence[str]]:
    options: dict[str, Any] = dict(arguments)
    for name, value in arguments:
        if isinstance(value, Tokenizer):
            options[name] = partial(_tokenize_text, value) if name == "tokenizer" else _as_function(value)
    if options.get("stop_words", "english") != "english":
        options["stop_words"] = list(check_stop_words(options["stop_words"]))
    if "tokenizer" in options:
        options["token_pattern"] = None
    analyzer: Callable[[str], Sequence[str]] = CountVectorizer(**options).build_analyzer()
    return analyzer


def _as_function(tokenizer: Tokenizer) -> Callable[[str], Any]:
    """Return the function of a named analyzer or preprocessor."""
    function: Any = tokenizer.resolve().function
    make = getattr(function, "make_doc", None)
    return function if make is None else lambda text: [token.text for token in make(text)]


def _tokenize_text(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the tokens that `NgramHashing` hashes without scikit-learn: not empty, and without spaces."""
    tokens = tokenizer.tokenize(Documents.from_strings([text]), lowercase=False)
    starts = tokens.starts.tolist()
    return [tokens.text[i : j - 1].tobytes().decode() for i, j in pairwise(starts)]


def cut_character_ngrams(documents: Documents, ngram_range: tuple[int, int], *, lowercase: bool) -> Tokens:
    r"""Return the character n-grams of each word with a space before and after it, as tokens.

    Words are separated by whitespace. A word that is shorter than an n-gram is one token. The result holds about
    ``(n + 9)`` bytes per character for each n of the range.

    >>> cut_character_ngrams(Documents.from_strings(["a cat"]), (2, 3), lowercase=True).text[:-PADDING].tobytes()
    b' a a   a   c ca at t   ca cat at  '
    """
    words = tokenize_by_rule(documents, "blanks", lowercase=lowercase)
    longest = int(np.diff(words.starts).max(initial=0)) + 2
    word, edges = np.empty(longest, dtype=np.uint8), np.empty(longest + 1, dtype=np.int64)
    bounds = np.zeros(len(words.bounds), dtype=np.int64)
    nothing = np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64)
    n_tokens, n_bytes = _write_ngrams(words, *ngram_range, word, edges, *nothing, bounds)
    text, starts = np.zeros(n_bytes + PADDING, dtype=np.uint8), np.zeros(n_tokens + 1, dtype=np.int64)
    _write_ngrams(words, *ngram_range, word, edges, text, starts, bounds)
    return Tokens.from_arrays(text, starts, bounds)


@compiled
def _write_ngrams(
    words: Tokens,
    low: Int,
    high: Int,
    word: NDArray[np.uint8],
    edges: Int64s,
    text: NDArray[np.uint8],
    starts: Int64s,
    bounds: Int64s,
) -> tuple[int, int]:
    """Write the n-grams, each followed by a space, or only count them if `text` is empty; return tokens and bytes."""
    # Invariant: the first n tokens take the first `out` bytes. `word` is the current word between two spaces, and
    # `edges` holds the first byte of each of its characters. Cost: the bytes of the n-grams.
    n, out = 0, 0
    for document in range(words.bounds.size - 1):
        for number in range(words.bounds[document], words.bounds[document + 1]):
            word[0], edges[0] = SPACE, 0
            n_characters, size = 1, 1
            for i in range(words.starts[number], words.starts[number + 1]):
                if words.text[i] & 0xC0 != 0x80:
                    edges[n_characters] = size
                    n_characters += 1
                word[size] = words.text[i]
                size += 1
            edges[n_characters] = size
            for length in range(low, high + 1):
                for first in range(max(n_characters - length, 0) + 1):
                    begin, end = edges[first], edges[min(first + length, n_characters)]
                    if text.size:
                        for i in range(begin, end):
                            text[out + i - begin] = word[i]
                        text[out + end - begin] = SPACE
                        starts[n + 1] = out + end - begin + 1
                    out += end - begin + 1
                    n += 1
                if n_characters <= length:
                    break
        bounds[document + 1] = n
    return n, out
