"""Word vectors: the estimator by its name alone, tuned for each list, as published, and beside skip-gram.

The data sets are halves of lists: of all pairs of words (of all questions) in alphabetical order every other one, from
the first on, is in a first half, whichever lists it stands in.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from dspectral import EmbeddingRecipe, WordEmbedding, build_corpus
from dspectral.metrics import analogy_accuracy, word_similarity
from dspectral.store import Corpus
from dspectral.types import FloatArray

from ..._form import form
from ..._parts.word_lists import WordList, name_of, read_lists
from .family import Family, Found
from .halves import designed_on

TEXT = "corpus/mix6m.txt.gz"
"""Text that words are learned from."""
MIN_COUNT = 11
SIMILARITY = ("mturk287", "rg65", "rw_stanford", "simlex999", "ws353", "yp130")
ANALOGIES = ("google", "msr")
ZONES = EmbeddingRecipe(context="zones", context_smoothing=1.0)
"""What brings words of like use nearest, such as near-synonyms."""
GRID: dict[str, tuple[Any, ...]] = {"window": (2, 10), "power": (0.3, 0.7)}
"""What a person would try with two zones."""
PEER: dict[str, Any] = {"vector_size": 100, "epochs": 5, "sg": 1}
"""Skip-gram of gensim, which gains little from more numbers on as little text."""
NARROW = 2
"""Words on each side that are contexts of what is said to suit verbs and words of the same kind."""
WAYS = ("default", "as published", "two zones", "two zones, narrow", "skip-gram")
"""Ways that are reported; the others are the grid."""
HALVES = ("first", "second")


class Vectors(NamedTuple):
    """Vectors of words, and what they took.

    `words`: the words; `vectors` (n_words, k): A row for each; `cpu_seconds`: of the fit.
    """

    words: list[str]
    vectors: FloatArray
    cpu_seconds: float


def found(run: form.Run, data: Path, name: str, scratch: str) -> Iterator[Found]:
    """Score each way on one half of a list."""
    halves = _halves(data)
    first, asked = halves[f"{name.rpartition('-')[0]}-first"], halves[name]
    learned = _learned(run, data, scratch)
    for method in WAYS:
        if method in learned:
            yield Found(method, "", learned[method].cpu_seconds, _score(learned[method], asked))
    tried = {method: vectors for method, vectors in learned.items() if method not in WAYS}
    best = max(tried, key=lambda method: sum(_score(tried[method], first).values()))
    yield Found("tuned", best, tried[best].cpu_seconds, _score(tried[best], asked))


_KEPT: dict[tuple[Path, int], dict[str, Vectors]] = {}
"""Vectors that all lists share, by their text and seed."""


def _learned(run: form.Run, data: Path, scratch: str) -> dict[str, Vectors]:
    """Learn in each way once, and keep the vectors for the other lists."""
    seed = run.arguments.seed
    if (data, seed) in _KEPT:
        return _KEPT[data, seed]
    with run.measure("read the text"):
        corpus = build_corpus(str(data / TEXT), f"{scratch}/corpus.zarr", min_count=MIN_COUNT)
    models = {
        "default": WordEmbedding(random_state=seed),
        "as published": WordEmbedding.as_published(random_state=seed),
        "two zones": WordEmbedding(power=0.5, random_state=seed, recipe=ZONES),
        "two zones, narrow": WordEmbedding(window=NARROW, power=0.5, random_state=seed, recipe=ZONES),
    }
    for values in product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        title = ", ".join(f"{what} {value}" for what, value in settings.items())
        models[title] = WordEmbedding(random_state=seed, recipe=ZONES, **settings)
    learned = {method: _fitted(run, method, model, corpus) for method, model in models.items()}
    if (peer := _skip_gram(run, data, seed)) is not None:
        learned["skip-gram"] = peer
    _KEPT[data, seed] = learned
    return learned


def _fitted(run: form.Run, method: str, model: WordEmbedding, corpus: Corpus) -> Vectors:
    with run.measure(method) as used:
        model.fit(corpus)
    run.passes += model.n_passes_
    # The type of rare words is no word.
    return Vectors(model.words_[1:], model.vectors_[1:], used.cpu_seconds)


def _skip_gram(run: form.Run, data: Path, seed: int) -> Vectors | None:
    try:
        peer = import_module("gensim.models.word2vec")
    except ImportError:
        run.note("gensim is not installed, so that there is no peer.")
        return None
    with run.measure("skip-gram") as used:
        lines = peer.LineSentence(str(data / TEXT))
        model = peer.Word2Vec(lines, min_count=MIN_COUNT, workers=1, seed=seed, **PEER)
    unit = model.wv.get_normed_vectors()
    return Vectors(list(model.wv.index_to_key), unit, used.cpu_seconds)


def _halves(data: Path) -> dict[str, WordList]:
    """Return both halves of all lists by their names."""
    similarity = [str(data / "wordsim" / f"{name}.tsv") for name in SIMILARITY]
    analogies = [str(data / "analogy" / f"{name}.tsv.gz") for name in ANALOGIES]
    lists = read_lists(similarity, analogies, ["all"], seed=0)
    first = designed_on({_entry(one) for of in lists for one in of.pairs or []})
    first |= designed_on({_entry(one) for of in lists for one in of.questions or []})

    def part(of: WordList, *, is_first: bool) -> WordList:
        kept: Callable[[Any], bool] = lambda one: (_entry(one) in first) == is_first  # noqa: E731
        pairs = None if of.pairs is None else list(filter(kept, of.pairs))
        return WordList(
            of.name, of.part, pairs, None if of.questions is None else list(filter(kept, of.questions))
        )

    return {
        f"{name_of(of.name)}-{half}": part(of, is_first=half == "first") for of in lists for half in HALVES
    }


def _entry(one: tuple[Any, ...]) -> str:
    """Return a pair, whichever word stands first, or a question as text that can be put in order."""
    words = [word for word in one if isinstance(word, str)]
    return " ".join(words if len(words) == len(one) else sorted(words))


def _score(of: Vectors, entries: WordList) -> dict[str, float]:
    if entries.pairs is not None:
        return {"spearman": word_similarity(of.words, of.vectors, entries.pairs).spearman}
    return {"accuracy_3cosadd": analogy_accuracy(of.words, of.vectors, entries.questions or []).accuracy}


FAMILY = Family(tuple(f"{name}-{half}" for name in (*ANALOGIES, *SIMILARITY) for half in HALVES), found)
"""What the table asks for."""
