"""Named entities by a linear-chain CRF, with and without the bit strings of words as features."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fsspec

PREFIXES = (4, 6, 10, 20)
"""Bits of a word's string that are a feature each."""


class Tagged(NamedTuple):
    """A sentence: its words and their tags in IOB2."""

    words: list[str]
    tags: list[str]


def read_tagged(path: str) -> list[Tagged]:
    """Read a word and a tag a line, sentences with an empty line between them.

    Raises
    ------
    ValueError
        If a line is not a word and a tag; the file and line are named.
    """
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
                raise ValueError(
                    f"{path}, line {number} is {line!r:.60}, but must be a word and a tag (O, B-, I-)"
                )
    if words:
        sentences.append(Tagged(words, tags))
    if not sentences:
        raise ValueError(f"{path} holds no sentence")
    return sentences


def features(words: Sequence[str], codes: Mapping[str, str]) -> list[list[str]]:
    """Return the features of each word: its form, its neighbours', and bits of their strings if known.

    Examples
    --------
    >>> features(["Rome"], {"rome": "0110"})[0][-1]
    '0:p20=0110'
    """
    own = [_of_word(word, codes) for word in words]
    found = []
    for i in range(len(words)):
        here = ["bias", *(f"0:{name}" for name in own[i])]
        for offset in (-2, -1, 1, 2):
            j = i + offset
            beside = own[j] if 0 <= j < len(words) else ["none"]
            kept = beside if abs(offset) == 1 else [name for name in beside if name[0] in "wpn"]
            here[:0] = [f"{offset}:{name}" for name in kept]
        found.append(here)
    return found


def _of_word(word: str, codes: Mapping[str, str]) -> list[str]:
    low = word.lower()
    shape = "".join("X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word)
    names = [f"w={low}", f"shape={shape[:8]}", f"title={word.istitle()}", f"upper={word.isupper()}"]
    names += [f"begin{n}={low[:n]}" for n in (2, 3)] + [f"end{n}={low[-n:]}" for n in (1, 2, 3)]
    code = codes.get(low)
    return names if code is None else [*names, *(f"p{n}={code[:n]}" for n in PREFIXES)]


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return the entities of a sentence: type, first word, word after the last.

    Examples
    --------
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


def f1(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """Return F1 by entity: type and both ends must be right.

    Examples
    --------
    >>> f1([["B-per", "O"], ["B-loc"]], [["B-per", "O"], ["O"]])
    0.6666666666666666
    """
    pairs = [(entities(a), entities(b)) for a, b in zip(true, found, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    total = sum(len(a) + len(b) for a, b in pairs)
    return 2.0 * right / total if total else 0.0


def score(
    train: list[Tagged],
    dev: list[Tagged],
    test: list[Tagged],
    codes: Mapping[str, str],
    penalties: Sequence[float] = (0.1, 1.0),
) -> tuple[float, float]:
    """Train with each L2 penalty, choose by the development side.

    Returns
    -------
    tuple of float
        F1 of the test side, and the penalty chosen.
    """
    best = (-1.0, 0.0, 0.0)
    for penalty in penalties:
        with TemporaryDirectory(prefix="dspectral-") as scratch:
            tagger = _trained(train, codes, penalty, Path(scratch) / "crf")
            of_dev, of_test = (_f1_of(tagger, side, codes) for side in (dev, test))
            tagger.close()
        if of_dev > best[0]:
            best = (of_dev, of_test, penalty)
    return best[1], best[2]


def crf() -> Any:
    """Import the tagger, an optional extra."""
    try:
        import pycrfsuite  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ImportError("named entities need python-crfsuite: pip install 'dspectral[entities]'") from error
    return pycrfsuite


def _trained(train: list[Tagged], codes: Mapping[str, str], penalty: float, path: Path) -> Any:
    trainer = crf().Trainer(verbose=False)
    trainer.set_params({"c1": 0.05, "c2": penalty, "max_iterations": 60})
    for sentence in train:
        trainer.append(features(sentence.words, codes), sentence.tags)
    trainer.train(str(path))
    tagger = crf().Tagger()
    tagger.open(str(path))
    return tagger


def _f1_of(tagger: Any, side: list[Tagged], codes: Mapping[str, str]) -> float:
    found = [tagger.tag(features(sentence.words, codes)) for sentence in side]
    return f1([sentence.tags for sentence in side], found)
