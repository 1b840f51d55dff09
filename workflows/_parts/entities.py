"""Named entities by a linear-chain CRF, with and without the bit strings of words as features."""

from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fsspec
import numpy as np
from numpy.typing import NDArray

PREFIXES = (4, 6, 10, 20)
"""Bits of a word's string that are a feature each."""
FORMS = 2
"""Distance of the words beside a word whose form alone is a feature; of nearer ones all spelling is."""


class Tagged(NamedTuple):
    """A sentence: its words and their tags in IOB2."""

    words: list[str]
    tags: list[str]


def read_tagged(path: str) -> list[Tagged]:
    """Read a word and a tag a line, sentences with an empty line between them."""
    sentences, words, tags = [], [], []
    with fsspec.open(path, "rt", encoding="utf-8", newline="\n", compression="infer") as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) == 1 and not fields[0].strip():
                if words:
                    sentences.append(Tagged(words, tags))
                words, tags = [], []
            elif len(fields) == 2 and (fields[1] == "O" or fields[1][:2] in ("B-", "I-")):
                words.append(fields[0])
                tags.append(fields[1])
            else:
                raise ValueError(f"{path}, line {number} is {line!r:.60}, but must be a word and a tag (O, B-, I-)")
    if words:
        sentences.append(Tagged(words, tags))
    if not sentences:
        raise ValueError(f"{path} holds no sentence")
    return sentences


class Known(NamedTuple):
    """Bit strings and vectors of words in lower case, the prefixes that are features, and words on each side."""

    codes: Mapping[str, str] = {}
    vectors: Mapping[str, Sequence[float]] = {}
    prefixes: tuple[int, ...] = PREFIXES
    window: int = 2

    def of(self, word: str) -> dict[str, float]:
        """Return the features of one word; none if it is not known.

        >>> Known({"st": "0110"}, {"st.": [0.5]}, prefixes=(2, 4)).of("St.")
        {'p2=01': 1.0, 'p4=0110': 1.0, 'v0': 0.5}
        """
        low = word.lower()
        bare = low.rstrip(".")
        code = self.codes.get(low) or self.codes.get(bare) or ""
        vector = self.vectors.get(low, self.vectors.get(bare, ()))
        named = {f"p{n}={code[:n]}": 1.0 for n in self.prefixes} if code else {}
        return named | {f"v{i}": float(value) for i, value in enumerate(vector)}


NOTHING = Known()
"""A tagger that knows the labeled sentences alone."""


def features(words: Sequence[str], known: Known = NOTHING) -> list[dict[str, float]]:
    """Return the features of each word: its form, those of words beside it, and what is known of them.

    >>> list(features(["Rome"], Known({"rome": "0110"}))[0])[-1]
    '0:p20=0110'
    """
    forms, learned = [_of_form(word) for word in words], [known.of(word) for word in words]
    found = []
    for i in range(len(words)):
        here = {"bias": 1.0}
        for offset in sorted(range(-max(FORMS, known.window), max(FORMS, known.window) + 1), key=abs, reverse=True):
            j, far = i + offset, abs(offset)
            if not 0 <= j < len(words):
                here[f"{offset}:none"] = 1.0
                continue
            near = forms[j] if far < FORMS else forms[j][:1] if far == FORMS else []
            here |= {f"{offset}:{name}": 1.0 for name in near}
            if far <= known.window:
                here |= {f"{offset}:{name}": value for name, value in learned[j].items()}
        found.append(here)
    return found


def _of_form(word: str) -> list[str]:
    low = word.lower()
    shape = "".join("X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word)
    names = [f"w={low}", f"shape={shape[:8]}", f"title={word.istitle()}", f"upper={word.isupper()}"]
    return [*names, *(f"begin{n}={low[:n]}" for n in (2, 3)), *(f"end{n}={low[-n:]}" for n in (1, 2, 3))]


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return the entities of a sentence: type, first word, word after the last.

    >>> sorted(entities(["B-per", "I-per", "O", "B-loc", "B-loc"]))
    [('loc', 3, 4), ('loc', 4, 5), ('per', 0, 2)]
    """
    found, start, kind = set(), 0, ""
    for i, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            found.add((kind, start, i))
            kind = ""
        if tag[:2] == "B-" or (tag[:2] == "I-" and not kind):
            start, kind = i, tag[2:]
    return found


def entity_counts(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return twice the entities that are right, and those that are there or were found, shape (n_sentences, 2).

    >>> entity_counts([["B-per", "O"], ["B-loc"]], [["B-per", "O"], ["O"]])
    array([[2, 2],
           [0, 1]])
    """
    pairs = [(entities(a), entities(b)) for a, b in zip(true, found, strict=True)]
    return np.array([(2 * len(a & b), len(a) + len(b)) for a, b in pairs], dtype=np.int64).reshape(-1, 2)


def _ratio(counts: NDArray[np.int64]) -> float:
    right, total = counts.sum(axis=0)
    return float(right / total) if total else 0.0


class Scored(NamedTuple):
    """How well entities were found on either side, at the L2 penalty chosen; `counts` as in `entity_counts`."""

    f1: float
    penalty: float
    f1_dev: float
    counts: NDArray[np.int64]


def score(
    train: list[Tagged],
    dev: list[Tagged],
    test: list[Tagged],
    known: Known,
    penalties: Sequence[float] = (0.1, 1.0),
) -> Scored:
    """Train with each L2 penalty, choose by the development side."""
    trainer = crf().Trainer(verbose=False)
    for sentence in train:
        trainer.append(features(sentence.words, known), sentence.tags)
    best = (-1.0, 0.0)
    with TemporaryDirectory(prefix="dspectral-") as scratch:
        for penalty in penalties:
            trainer.set_params({"c1": 0.05, "c2": penalty, "max_iterations": 60})
            trainer.train(f"{scratch}/{penalty}")
            best = max(best, (_ratio(_counts(f"{scratch}/{penalty}", dev, known)), penalty), key=lambda one: one[0])
        counts = _counts(f"{scratch}/{best[1]}", test, known)
    return Scored(_ratio(counts), best[1], best[0], counts)


def crf() -> Any:
    """Import the tagger, an optional extra."""
    try:
        import pycrfsuite  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ImportError("named entities need python-crfsuite: pip install 'dspectral[entities]'") from error
    return pycrfsuite


def _counts(path: str, side: list[Tagged], known: Known) -> NDArray[np.int64]:
    tagger = crf().Tagger()
    tagger.open(path)
    try:
        found = [tagger.tag(features(sentence.words, known)) for sentence in side]
    finally:
        tagger.close()
    return entity_counts([sentence.tags for sentence in side], found)
