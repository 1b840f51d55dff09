"""Labeled texts as tab-separated files, cut into words, and their n-gram forms."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple
from unicodedata import category, normalize

import fsspec
import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.model_selection import StratifiedKFold

from dspectral.io import read_labeled_records

_PARTED = re.compile(r"\s+(n't|'(?:s|re|ve|ll|d|m))\b")
_MARKS = "\u200c\u200d" + "".join(chr(c) for c in range(0x20000) if category(chr(c))[0] == "M")
_WORD = re.compile(rf"\w[\w{_MARKS}]*(?:['\u2019]\w[\w{_MARKS}]*)*|[^\w\s{_MARKS}]")
_DIGIT = re.compile(r"\d")
QUESTION_WORDS = frozenset(("how", "what", "when", "where", "which", "who", "whom", "whose", "why"))
"""Stop words that say what a question asks for."""
KEPT = frozenset((
    "against", "although", "but", "cannot", "enough", "few", "however", "least", "less", "more", "most", "much",
    "never", "no", "none", "nor", "not", "nothing", "only", "too", "very", "well", "without", "yet",
))  # fmt: skip
"""Stop words that turn or weigh what is said."""


class Texts(NamedTuple):
    """Texts, each a list of words, with their labels, and the fold of each where the file says so."""

    words: list[list[str]]
    labels: NDArray[Any]
    folds: NDArray[Any] | None = None

    def at(self, rows: NDArray[np.int64]) -> "Texts":
        """Return the texts at these places."""
        return Texts([self.words[row] for row in rows], self.labels[rows])


class Split(NamedTuple):
    """Texts to learn from, and texts to classify."""

    train: Texts
    test: Texts


def words_of(text: str, *, zero_digits: bool = False) -> list[str]:
    """Cut a text into lower-case words and signs; what a tokeniser parted (``do n't``) is joined.

    With ``zero_digits`` each digit is read as 0, so that all numbers of one form are one word.

    >>> words_of("It 's no Trouble, is n't it?")
    ["it's", 'no', 'trouble', ',', "isn't", 'it', '?']
    """
    text = _PARTED.sub(r"\1", normalize("NFC", text.lower()))
    return _WORD.findall(_DIGIT.sub("0", text) if zero_digits else text)


def read_tsv(path: str, columns: Collection[str]) -> list[dict[str, str]]:
    r"""Read the rows of a TSV whose header has at least these columns; also .gz and the like, URLs.

    >>> with fsspec.open("memory://drinks.tsv", "w") as file:
    ...     _ = file.write("text\tlabel\nhot tea\tdrink\n")
    >>> read_tsv("memory://drinks.tsv", {"text", "label"})
    [{'text': 'hot tea', 'label': 'drink'}]
    """
    rows = []
    with fsspec.open(path, "rt", encoding="utf-8", compression="infer", newline="\n") as file:
        header = next(iter(file), "").rstrip("\r\n").split("\t")
        missing = set(columns) - set(header)
        if missing:
            raise ValueError(f"{path} has no column {' and '.join(sorted(missing))}, but {', '.join(header)}")
        for number, line in enumerate(file, start=2):
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) != len(header):
                raise ValueError(f"{path}, line {number} has {len(fields)} columns, but the header {len(header)}")
            rows.append(dict(zip(header, fields, strict=True)))
    return rows


def read_one_label(path: str, labels: Sequence[str]) -> tuple[list[str], list[str | None]]:
    """Read texts, and the label of each from the first of some fields that the file has, None where it is missing."""
    try:
        records = list(read_labeled_records(path, label=labels[0]))
    except ValueError:
        if len(labels) == 1:
            raise
        with suppress(ValueError):  # what the first field lacks is the sentence
            return read_one_label(path, labels[1:])
        raise
    for number, record in enumerate(records):
        if len(record.labels) > 1:
            raise ValueError(f"record {number} of {path} has several labels in {labels[0]!r}, but must have one")
    return [text for text, _ in records], [own[0] if own else None for _, own in records]


def read_texts(path: str, *, label: str = "label", zero_digits: bool = False) -> Texts:
    """Read texts with a label each, perhaps also cv_fold; those without a label are left out."""
    texts, labels = read_one_label(path, [label])
    given = [row for row, own in enumerate(labels) if own is not None]
    if not given:
        raise ValueError(f"{path} has a header, but no text with a label")
    folds = None
    with suppress(ValueError):  # the file has no folds
        folds = np.array(read_one_label(path, ["cv_fold"])[1], dtype=str)[given]
    words = [words_of(texts[row], zero_digits=zero_digits) for row in given]
    return Texts(words, np.array([labels[row] for row in given]), folds)


def splits(texts: Texts, n_folds: int, seed: int) -> Iterator[Split]:
    """Yield the parts of a cross-validation: by the file's folds, or stratified ones drawn with a seed."""
    if texts.folds is not None:
        numbers = [np.flatnonzero(texts.folds == fold) for fold in np.unique(texts.folds)]
    else:
        drawn = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        numbers = [test for _, test in drawn.split(np.zeros(len(texts.words)), texts.labels)]
    everything = np.arange(len(texts.words))
    for test in numbers:
        yield Split(texts.at(np.setdiff1d(everything, test)), texts.at(test))


StopWords = Literal["none", "english", "weak"]


def content(sentences: Sequence[Sequence[str]], stop_words: StopWords) -> list[list[str]]:
    """Leave out signs and stop words.

    They are scikit-learn's English ones, or (``"weak"``) those that neither turn or weigh what is said (KEPT) nor
    ask for something (QUESTION_WORDS).

    >>> content([["this", "is", "not", "good", "!"]], "weak")
    [['not', 'good']]
    >>> content([["who", "was", "the", "first", "one", "?"]], "weak")
    [['who']]
    """
    if stop_words == "none":
        return [list(words) for words in sentences]
    stopped = ENGLISH_STOP_WORDS - KEPT - QUESTION_WORDS if stop_words == "weak" else ENGLISH_STOP_WORDS
    return [[word for word in words if word not in stopped and word[0].isalnum()] for words in sentences]


def gram_form(words: Sequence[str], n: int) -> list[str]:
    """Return all runs of n words, one after the other: 1 2 3 4 becomes, with n = 2, 1 2 2 3 3 4.

    >>> gram_form(["1", "2", "3", "4"], 2)
    ['1', '2', '2', '3', '3', '4']
    >>> gram_form(["1"], 2)
    ['1']
    """
    if len(words) <= n:
        return list(words)
    return [word for i in range(len(words) - n + 1) for word in words[i : i + n]]
