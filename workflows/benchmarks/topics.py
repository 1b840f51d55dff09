"""Race ``Topics`` against NMF, LDA, LSI, varimax, anchor words and BERTopic on texts with known groups.

Each reads the same texts in a process of its own and counts words its own way. Coherence is NPMI of a topic's ten words
over documents of the same texts, or of others. A group is found if some topic's ten most typical documents hold seven
of it. NMI compares each document's largest topic with its group.
"""

import argparse
import gzip
import json
import re
import resource
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, LatentDirichletAllocation, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import normalized_mutual_info_score

from dspectral import Topics, embedder

from .._form import form

LIMITS = {"max_df": 0.1, "min_df": 5}
N_FIRST = 10


class Model(NamedTuple):
    """Words of each topic, its ten most typical documents, and the largest topic of each document."""

    words: list[list[str]]
    typical: list[list[int]]
    largest: NDArray[np.int64]


class Ran(NamedTuple):
    """What a method found, its CPU seconds and the most memory of its process in MB."""

    model: Model
    seconds: float
    memory: float


def ours(texts: list[str], k: int) -> Model:
    """Our topics with their defaults."""
    model = Topics(k, n_top_documents=N_FIRST).fit(texts)
    typical = [[document.row for document in topic] for topic in model.top_documents(N_FIRST)]
    return Model(model.top_words(N_FIRST), typical, model.predict(texts))


def of_vectors(texts: list[str], k: int, *, encode: Callable[[list[str]], NDArray[np.float32]]) -> Model:
    """Our topics of vectors, with the words of the texts."""
    model = Topics(k, n_top_documents=N_FIRST).fit(texts, vectors=encode(texts))
    typical = [[document.row for document in topic] for topic in model.top_documents(N_FIRST)]
    return Model(model.top_words(N_FIRST), typical, model.predict(texts))


def encode_by_embedder(texts: list[str]) -> NDArray[np.float32]:
    """Return the vectors of our embedder, fitted to the texts."""
    return np.asarray(embedder().encode(texts))


def encode_by_wordllama(texts: list[str]) -> NDArray[np.float32]:
    """Return the vectors of WordLlama, whose weights are in its package; `load` looks for its tokens elsewhere."""
    wordllama = import_module("wordllama")
    with TemporaryDirectory(prefix="dspectral-") as folder:
        copytree(Path(wordllama.__file__).parent / "tokenizers", f"{folder}/tokenizers")
        encoder = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    # Texts of one call are padded to one length.
    return np.concatenate([encoder.embed([text.strip() or "-"]) for text in texts])


def nmf(texts: list[str], k: int) -> Model:
    """scikit-learn's NMF on tf-idf, documents of unit length so that long ones are not first."""
    counter = TfidfVectorizer(sublinear_tf=True, **LIMITS)
    model = NMF(k, init="nndsvd", random_state=0)
    documents = model.fit_transform(counter.fit_transform(texts))
    lengths = np.maximum(np.linalg.norm(documents, axis=1, keepdims=True), 1e-12)
    return ranked(model.components_, counter, documents / lengths)


def lda(texts: list[str], k: int) -> Model:
    """scikit-learn's LDA on counts, online, its defaults."""
    counter = CountVectorizer(**LIMITS)
    model = LatentDirichletAllocation(k, learning_method="online", random_state=0)
    documents = model.fit_transform(counter.fit_transform(texts))
    return ranked(model.components_, counter, documents)


def of_gensim(texts: list[str], k: int, *, name: str, counter: Any, **seed: int) -> Model:
    """LDA of gensim on counts, or its LSI on tf-idf."""
    matutils, models = import_module("gensim.matutils"), import_module("gensim.models")
    corpus = matutils.Sparse2Corpus(counter.fit_transform(texts), documents_columns=False)
    words = dict(enumerate(counter.get_feature_names_out().tolist()))
    model = getattr(models, name)(corpus, id2word=words, num_topics=k, **seed)
    documents = np.abs(matutils.corpus2dense(model[corpus], num_terms=k).T)
    return ranked(np.abs(model.get_topics()), counter, documents)


def varimax(texts: list[str], k: int) -> Model:
    """SVD of tf-idf, turned by varimax; the larger half of each axis is a topic."""
    counter = TfidfVectorizer(sublinear_tf=True, **LIMITS)
    svd = TruncatedSVD(k, random_state=0)
    documents = svd.fit_transform(counter.fit_transform(texts))
    rotation = np.eye(k)
    for _ in range(100):
        turned = documents @ rotation
        left, _, right = np.linalg.svd(documents.T @ (turned**3 - turned * np.mean(turned**2, axis=0)))
        rotation = left @ right
    rotation = rotation * np.sign(np.sum((documents @ rotation) ** 3, axis=0))
    return ranked(rotation.T @ svd.components_, counter, documents @ rotation)


def anchors(texts: list[str], k: int) -> Model:
    """Anchor words of anchortopics on counts; a document has the mean posterior of its words."""
    counter = CountVectorizer(**LIMITS)
    counts = counter.fit_transform(texts)
    model = import_module("anchortopics").OTFR(k).fit(counts)
    return ranked(model.components_, counter, counts @ model.topic_posterior_.T)


def bertopic(texts: list[str], k: int, *, with_kmeans: bool = False) -> Model:
    """BERTopic with our embedder and the words of NMF: at most k topics by HDBSCAN, or k topics by k-means."""
    bertopic, umap = import_module("bertopic"), import_module("umap")
    words = TfidfVectorizer(**LIMITS).fit(texts).vocabulary_
    encoder = embedder()
    vectors = encoder.encode(texts)
    clusters = {"hdbscan_model": KMeans(k, random_state=0)} if with_kmeans else {"nr_topics": k + 1}
    model = bertopic.BERTopic(
        embedding_model=encoder,
        umap_model=umap.UMAP(15, n_components=5, min_dist=0.0, metric="cosine", random_state=0),
        vectorizer_model=CountVectorizer(vocabulary=words),
        **clusters,
    )
    largest = np.array(model.fit_transform(texts, vectors)[0])
    topics = sorted(set(largest.tolist()) - {-1})  # -1 are documents outside of all topics
    means = np.array([vectors[largest == topic].mean(axis=0) for topic in topics])
    typical = np.argsort(-(means @ vectors.T), axis=1, kind="stable")[:, :N_FIRST].tolist()
    own = [[word for word, _ in model.get_topic(topic) if word] for topic in topics]
    return Model(own, typical, largest)


def ranked(weights: NDArray[np.float64], counter: Any, documents: NDArray[np.float64]) -> Model:
    """Return the words of largest weight and the documents of largest score."""
    names = counter.get_feature_names_out()
    words = [names[np.argsort(-row, kind="stable")[:N_FIRST]].tolist() for row in weights]
    typical = np.argsort(-documents, axis=0, kind="stable")[:N_FIRST].T.tolist()
    return Model(words, typical, documents.argmax(axis=1))


METHODS: dict[str, Callable[[list[str], int], Model]] = {
    "Topics": ours,
    "Topics of embedder": partial(of_vectors, encode=encode_by_embedder),
    "WordLlama, Topics": partial(of_vectors, encode=encode_by_wordllama),
    "scikit-learn NMF": nmf,
    "scikit-learn LDA": lda,
    "gensim LDA": partial(of_gensim, name="LdaModel", counter=CountVectorizer(**LIMITS), random_state=0),
    "gensim LSI": partial(of_gensim, name="LsiModel", counter=TfidfVectorizer(**LIMITS), random_seed=0),
    "SVD, varimax": varimax,
    "anchor words": anchors,
    "BERTopic": bertopic,
    "BERTopic, k-means": partial(bertopic, with_kmeans=True),
}


def list_methods(names: Iterable[str]) -> list[str]:
    """Return the methods whose package is installed."""
    packages = (
        (name, "anchortopics" if name == "anchor words" else name.split()[0].strip(",").lower()) for name in names
    )
    optional = ("gensim", "bertopic", "anchortopics", "wordllama")
    return [name for name, package in packages if package not in optional or find_spec(package)]


def run_one(name: str, texts: list[str], k: int) -> Ran:
    """Run one method in this process; loops that are compiled once are loaded before."""
    if "Topics" in name:
        Topics(2, min_df=1, max_df=1.0).fit(["one two three", "one two four"] * 3)
    before = time.process_time()
    model = METHODS[name](texts, k)
    seconds = time.process_time() - before
    return Ran(model, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def coherence(texts: list[str], topics: list[list[str]]) -> NDArray[np.float64]:
    """Return the mean NPMI of pairs of each topic's words over documents; 0 for a topic of one word."""
    names = {word: column for column, word in enumerate(sorted({word for words in topics for word in words}))}
    # Both kinds of words: scikit-learn cuts at apostrophes, we do not.
    counter = CountVectorizer(
        binary=True,
        vocabulary=names,
        dtype=np.float32,
        analyzer=lambda text: re.findall(r"\w+", text.lower()) + re.findall(r"\w+(?:['\u2019]\w+)+", text.lower()),
    )
    counts = counter.transform(texts).tocsc()
    found = []
    for words in topics:
        columns = [names[word] for word in words]
        of_words = counts[:, columns]
        joint = (of_words.T @ of_words).toarray() / counts.shape[0]
        single = np.diag(joint)
        i, j = np.triu_indices(len(columns), 1)
        both, apart = joint[i, j], single[i] * single[j]
        seen = both > 0
        npmi = np.full(len(both), -1.0)
        npmi[seen] = np.log(both[seen] / apart[seen]) / np.maximum(-np.log(both[seen]), 1e-12)
        found.append(npmi.mean() if len(npmi) else 0.0)
    return np.array(found)


def groups_found(typical: list[list[int]], labels: NDArray[Any]) -> int:
    """Return for how many groups some topic's ten most typical documents hold seven."""
    found = set()
    for documents in typical:
        groups, n = np.unique(labels[documents], return_counts=True)
        found |= {groups[n.argmax()]} if n.max() >= 7 else set()
    return len(found)


def read(path: Path, text: str, label: str) -> tuple[list[str], NDArray[Any]]:
    """Read texts and groups of JSON lines; a list of groups must hold one."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    labels = [one[label] if isinstance(one[label], list) else [one[label]] for one in records]
    kept = [i for i, of in enumerate(labels) if len(of) == 1]
    return [records[i][text] for i in kept], np.array([labels[i][0] for i in kept])


def main(argv: list[str] | None = None) -> None:
    """Run the race."""
    parser = form.parser("benchmarks.topics", __doc__, fits=False)
    parser.add_argument("file", type=form.local_path, help="JSON lines of texts and their groups, also .gz")
    parser.add_argument("--text-field", default="text", help="field of the text")
    parser.add_argument("--label-field", default="label", help="field of the group; records of several are left out")
    other = "JSON lines of other texts, by which coherence is counted (default: the same)"
    parser.add_argument("--other", type=form.local_path, metavar="FILE", help=other)
    parser.add_argument("--topics", type=form.positive, nargs="+", default=[20, 50], help="numbers of topics")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="who runs")
    with form.run(parser.parse_args(argv)) as run:
        race(run, run.arguments)


def race(run: Any, arguments: argparse.Namespace) -> None:
    """Run each method for each number of topics, and report what each found."""
    texts, labels = read(arguments.file, arguments.text_field, arguments.label_field)
    other = read(arguments.other, arguments.text_field, arguments.label_field)[0] if arguments.other else texts
    for k in arguments.topics:
        for name in list_methods(arguments.methods):
            with (
                run.measure(f"{name}, {k} topics"),
                ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
            ):
                found = pool.submit(run_one, name, texts, k).result()
            model = found.model
            figures = {
                "groups_found": groups_found(model.typical, labels),
                "npmi": np.mean(coherence(other, model.words)),
                "nmi": normalized_mutual_info_score(labels, model.largest),
                "cpu_seconds": found.seconds,
                "memory_mb": found.memory,
            }
            values = {metric: float(value) for metric, value in figures.items()}
            run.rows(values, data=arguments.file.name, method=name, topics=k)


if __name__ == "__main__":
    main()
