"""Races over words: hashed n-grams, exact vocabularies and vectors.

Text is that of files, or what the Python standard library says of itself; sentences are drawn from a Brown model.
"""

import itertools
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import fsspec
import numpy as np

import dspectral

from ..._parts.drawn_sequences import brown_model_sentences
from .racing import Contender, Found, Race, Settings


def documents(settings: Settings) -> list[str]:
    """Return the documents of a size: a line of the files each, or a docstring or run of comments."""
    if settings["text"]:
        found = list(itertools.islice(_lines(settings["text"]), settings["documents"]))
    else:
        found = _docstrings()[: settings["documents"]]
    if not found:
        raise ValueError(f"no line of {' '.join(settings['text'])} holds any text")
    return found


@cache
def _docstrings() -> list[str]:
    return dspectral.datasets.standard_library_documents().texts


def _lines(patterns: list[str]) -> Iterator[str]:
    files = fsspec.open_files(patterns, mode="rb", compression="infer")
    if not files:
        raise FileNotFoundError(f"no file matches {' or '.join(patterns)}")
    for opened in files:
        with opened as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode().strip()
                except UnicodeDecodeError as error:
                    raise ValueError(f"{opened.path}, line {number}, is not UTF-8: {error.reason}") from error
                if text:
                    yield text


COLUMNS = 1 << 18
NGRAMS = (1, 3)
TEXT_SIZES: dict[str, dict[str, Any]] = {
    size: {"documents": n} for size, n in {"toy": 200, "small": 5_000, "middle": None, "full": None}.items()
}


def make_documents(folder: Path, s: Settings) -> str:
    """Write the documents as JSON, and the sums of the columns."""
    texts = documents(s)
    (folder / "documents.json").write_text(json.dumps(texts), encoding="utf-8")
    rows = dspectral.NgramHashing(COLUMNS, ngram_range=NGRAMS).transform(texts)
    np.savez(folder / "truth.npz", **sums(rows))
    return f"{len(texts):,} documents, {sum(map(len, texts)):,} characters, {rows.nnz:,} entries"


def differing(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return in how many columns the sums differ from the others'."""
    with np.load(folder / "truth.npz") as truth:
        return {"differing_columns": float(np.sum(truth["sums"] != found["sums"]))}


def sums(rows: Any) -> Found:
    """Return the sums of the columns: whole numbers, so no order of adding matters."""
    return {"sums": np.asarray(rows.sum(axis=0)).ravel()}


def held(folder: Path) -> list[str]:
    """Return the documents as strings."""
    found: list[str] = json.loads((folder / "documents.json").read_text(encoding="utf-8"))
    return found


def our_hashing(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Hash strings in memory."""
    texts, hashing = held(folder), library.NgramHashing(COLUMNS, ngram_range=NGRAMS)
    return lambda: hashing.transform(texts)


def their_hashing(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Hash strings in memory to the same columns, with the same signs."""
    texts = held(folder)
    hashing = library.HashingVectorizer(n_features=COLUMNS, ngram_range=NGRAMS, norm=None, dtype=np.float32)
    return lambda: hashing.transform(texts)


HASHING = Race(
    "Count hashed n-grams of one to three words of documents in memory.",
    TEXT_SIZES,
    make_documents,
    {
        "dspectral": Contender("dspectral", our_hashing, sums),
        "scikit-learn HashingVectorizer": Contender("sklearn.feature_extraction.text", their_hashing, sums),
    },
    differing,
)

TERMS = (1, 2)
LEAST_DOCUMENTS = 2
VOCABULARY_SETTINGS = dspectral.VocabularySettings(TERMS, min_df=LEAST_DOCUMENTS)


def make_terms(folder: Path, s: Settings) -> str:
    """Write the documents as JSON and as lines, and how often each term occurs."""
    data = make_documents(folder, s)
    lines = [" ".join(text.split()) for text in held(folder)]
    (folder / "documents.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    store = dspectral.build_store(
        str(folder / "documents.txt"), str(folder / "truth.zarr"), vocabulary=VOCABULARY_SETTINGS
    )
    np.savez(folder / "truth.npz", **ordered(store.counts.compute()))
    documents_and_characters = data.rpartition(", ")[0]
    return f"{documents_and_characters}, {store.n_columns:,} terms"


def ordered(rows: Any) -> Found:
    """Return how often each term occurs, in order of size: columns may be numbered in any order."""
    return {"sums": np.sort(sums(rows)["sums"])}


def differing_terms(folder: Path, _s: Settings, found: Found) -> dict[str, float]:
    """Return how many terms are missing or counted otherwise."""
    with np.load(folder / "truth.npz") as truth:
        here, there = truth["sums"], found["sums"]
    n = min(len(here), len(there))
    differing = np.sum(here[-n:] != there[-n:]) + abs(len(here) - len(there))
    return {"differing_columns": float(differing)}


def our_vocabulary(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Read the file twice, and write a store to disk."""
    place = Path(tempfile.mkdtemp(dir=folder), "counts.zarr")
    return lambda: library.build_store(str(folder / "documents.txt"), str(place), vocabulary=VOCABULARY_SETTINGS)


def their_vocabulary(library: ModuleType, folder: Path, _s: Settings) -> Callable[[], Any]:
    """Count strings that are in memory, and leave the rows there."""
    texts = held(folder)
    counting = library.CountVectorizer(ngram_range=TERMS, min_df=LEAST_DOCUMENTS, dtype=np.float32)
    return lambda: counting.fit_transform(texts)


VOCABULARY = Race(
    "Find all words and pairs of words that are in two documents or more, and count them in each document.",
    TEXT_SIZES,
    make_terms,
    {
        "dspectral, file to store": Contender(
            "dspectral", our_vocabulary, lambda store: ordered(store.counts.compute())
        ),
        "scikit-learn CountVectorizer, in memory": Contender(
            "sklearn.feature_extraction.text", their_vocabulary, ordered
        ),
    },
    differing_terms,
)


def make_sentences(folder: Path, s: Settings) -> str:
    """Write sentences, each a line."""
    sample = brown_model_sentences(s["sentences"], n_classes=s["classes"], n_words=s["words"], seed=s["seed"])
    lines = [" ".join(sentence) for sentence in sample.sentences]
    (folder / "sentences.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokens = sum(map(len, sample.sentences))
    return f"{tokens:,} tokens of at most {s['words']:,} words in {s['classes']} classes"


def sentences(folder: Path) -> list[list[str]]:
    """Return the words of each sentence."""
    return [line.split() for line in (folder / "sentences.txt").read_text(encoding="utf-8").splitlines()]


def word_class(word: str, n_classes: int) -> int:
    """Return the class of a word in the model, which its name says."""
    return int(word.removeprefix("w")) % n_classes


WINDOW = 2
LEAST_COUNT = 5
"""Of a word that is scored."""


def same_class(folder: Path, s: Settings, found: Found) -> dict[str, float]:
    """Return the share of words whose nearest neighbor is of their class; chance is one over the classes."""
    words, counts = np.unique([word for line in sentences(folder) for word in line], return_counts=True)
    common = np.isin(found["words"], words[counts >= LEAST_COUNT])
    vectors = found["vectors"][common].astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    classes = np.array([word_class(word, s["classes"]) for word in found["words"][common]])
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -np.inf)
    return {"same_class_nearest": float(np.mean(classes[alike.argmax(axis=1)] == classes))}


def our_embedding(library: ModuleType, folder: Path, s: Settings) -> Callable[[], Any]:
    """Read the text, write the corpus to disk, count and decompose."""
    place = str(Path(tempfile.mkdtemp(dir=folder), "corpus.zarr"))
    model = library.WordEmbedding(s["length"], window=WINDOW)
    return lambda: model.fit(library.build_corpus(str(folder / "sentences.txt"), place, tokens="blanks"))


def our_vectors(model: Any) -> Found:
    """Return words and vectors."""
    return {"words": np.array(model.words_), "vectors": model.vectors_}


def word2vec(library: ModuleType, folder: Path, s: Settings, *, skip_gram: bool, epochs: int) -> Callable[[], Any]:
    """Read the text, and learn from it as often as there are epochs."""
    settings = {"vector_size": s["length"], "window": WINDOW, "min_count": 1, "workers": 1, "seed": 0}
    file = str(folder / "sentences.txt")
    return lambda: library.Word2Vec(corpus_file=file, sg=int(skip_gram), epochs=epochs, **settings)


def their_vectors(model: Any) -> Found:
    """Return words and vectors."""
    return {"words": np.array(model.wv.index_to_key), "vectors": model.wv.vectors}


def _peer(*, skip_gram: bool, epochs: int) -> Contender:
    prepare = partial(word2vec, skip_gram=skip_gram, epochs=epochs)
    return Contender("gensim.models", prepare, their_vectors)


EMBEDDINGS = Race(
    "Learn a vector for each word, from a file of text.",
    {
        "toy": {"sentences": 300, "classes": 4, "words": 60, "length": 8},
        "small": {"sentences": 10_000, "classes": 20, "words": 2_000, "length": 50},
        "middle": {"sentences": 20_000, "classes": 40, "words": 4_000, "length": 100},
        "full": {"sentences": 350_000, "classes": 100, "words": 50_000, "length": 300},
    },
    make_sentences,
    {
        "dspectral": Contender("dspectral", our_embedding, our_vectors),
        "gensim skip-gram, 5 epochs": _peer(skip_gram=True, epochs=5),
        "gensim skip-gram, 20 epochs": _peer(skip_gram=True, epochs=20),
        "gensim CBOW, 20 epochs": _peer(skip_gram=False, epochs=20),
    },
    same_class,
)
