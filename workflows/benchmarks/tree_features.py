"""Compare what is left of sentences as trees: the paper's root, what the paper leaves out, plain PCA, means, words.

The data are nine sets of labelled sentences, as they lie in `--data`, split in two halves by name, in alphabetical
order, every other one, before anything was run. `--choose` compares on the first half (atis, clinc150, sms_spam, sst2,
trec), and there on a held-out part of the training texts (the official development texts where a set has them);
without it the test texts of all sets are classified. Where a set has no official test, a stratified fifth is it. Each
method has the words' vectors of `--vectors` and a classifier whose penalty is chosen by cross-validation of the
training texts: least squares, which takes thousands of features and a hundred labels in seconds (`-kernel`: with
products of two features too), and for plain words a linear support vector machine.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from .._form import form
from .._parts.labelled_texts import Split, Texts, content, read_texts
from .._parts.least_squares import DEGREE, LeastSquares
from .._parts.text_classifiers import (
    Average,
    Classifier,
    Concatenated,
    Settings,
    SupportVectors,
    Tree,
    Words,
    concatenated,
)
from .._parts.tmpca_report import Outcome, difference, error_rate
from ..tmpca_classification import known_words, mean_vector, read_pair


class DataSet(NamedTuple):
    """Where a set lies, and which of its columns tells the label; None for sides that have no file."""

    folder: str
    label: str
    train: str
    dev: str | None
    test: str | None


SETS = {
    "atis": DataSet("intent/atis", "intent", "train.tsv.gz", "dev.tsv", "test.tsv"),
    "banking77": DataSet("intent/banking77", "intent", "train.tsv.gz", None, "test.tsv.gz"),
    "clinc150": DataSet("intent/clinc150", "intent", "train.tsv.gz", "val.tsv", "test.tsv.gz"),
    "mr": DataSet("sentiment/mr", "label", "all.tsv.gz", None, None),
    "sms_spam": DataSet("sms_spam", "label", "all.tsv.gz", None, None),
    "snips": DataSet("intent/snips", "intent", "train.tsv.gz", None, "test.tsv"),
    "sst2": DataSet("sentiment/sst2", "label", "train.tsv.gz", "dev.tsv", "test.tsv"),
    "sst5": DataSet("sentiment/sst5", "label", "train.tsv.gz", "dev.tsv", "test.tsv.gz"),
    "trec": DataSet("sentences/trec", "coarse", "train.tsv.gz", None, "test.tsv"),
}
"""Every set of single-label sentences in the data folder; sets of documents are left out, which a tree cuts."""
CHOSEN_ON = tuple(SETS)[0::2]
REPORTED_ON = tuple(SETS)[1::2]
METHODS: dict[str, dict[str, Any]] = {
    "words": {},
    "mean": {},
    "pca": {},
    "root": {},
    "root-not-centered": {"center": False},
    "root-whitened": {"whiten": True},
    "root-arity-3": {"arity": 3},
    "root-arity-4": {"arity": 4},
    "levels": {},
    "levels-whitened": {"whiten": True},
    "pooled": {},
    "pooled-whitened": {"whiten": True},
    "sliding": {},
    "mean-kernel": {},
    "pca-kernel": {},
    "root-kernel": {},
    "sliding-kernel": {},
}
"""What a method changes in the settings."""


def main(argv: list[str] | None = None) -> None:
    """Learn, classify, report."""
    parser = form.parser("benchmarks.tree_features", __doc__)
    add = parser.add_argument
    add("--data", required=True, metavar="FOLDER", help="that the sets lie in")
    add("--vectors", required=True, metavar="W2V", help="word vectors in word2vec's text or binary format")
    add("--sets", nargs="+", choices=list(SETS), metavar="SET", help="to compare on (default: all)")
    add("--choose", action="store_true", help="compare on held-out training texts of the first half")
    add(
        "--methods",
        nargs="+",
        choices=list(METHODS),
        default=list(METHODS),
        metavar="METHOD",
        help="to compare",
    )
    add("--dimensions", type=form.positive, metavar="D", help="of a vector, the first ones (default: all)")
    add("--n-components", type=form.positive, metavar="K", help="of PCA and trees (default: as many)")
    add(
        "--length",
        type=form.positive,
        default=32,
        metavar="N",
        help="words of a sentence, a power of 2; trees of arity 3 and 4 take their next power",
    )
    add("--stop-words", choices=["none", "english", "weak"], default="none", help="left out of texts")
    add("--most", type=form.positive, default=6000, metavar="M", help="training texts that are learned from")
    with form.run(parser.parse_args(argv)) as run:
        compare(run)


def compare(run: form.Run) -> None:
    """Learn and score each method on each set."""
    arguments = run.arguments
    words, matrix = known_words(read_pair(arguments.vectors))
    matrix = matrix[:, : arguments.dimensions]
    for name in arguments.sets or (CHOSEN_ON if arguments.choose else SETS):
        split = sides(Path(arguments.data), SETS[name], choose=arguments.choose, seed=arguments.seed)
        train = some_of(split.train, arguments.most, arguments.seed)
        centered = matrix - mean_vector(words, matrix, content(train.words, arguments.stop_words))
        k = arguments.n_components or matrix.shape[1]
        settings = Settings((words, centered), k, arguments.length, arguments.stop_words, arguments.seed)
        found = dict(outcomes(run, name, Split(train, split.test), settings))
        rows(run, name, found)


def sides(folder: Path, data: DataSet, *, choose: bool, seed: int) -> Split:
    """Return the training and the test side of a set, or (``choose``) the training side in two parts."""
    at = folder / data.folder

    def side(file: str) -> Texts:
        return read_texts(str(at / file), label=data.label)

    train = side(data.train)
    test = None
    if data.test is None:
        train, test = fifth(train, seed)
    if choose:
        return Split(train, side(data.dev)) if data.dev else fifth(train, seed + 1)
    return Split(train, test or side(str(data.test)))


def fifth(texts: Texts, seed: int) -> Split:
    """Hold a stratified fifth out."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    rest, held = next(folds.split(np.zeros(len(texts.words)), texts.labels))
    return Split(texts.at(rest), texts.at(held))


def some_of(texts: Texts, most: int, seed: int) -> Texts:
    """Return at most so many texts, of each label the same share."""
    if len(texts.words) <= most:
        return texts
    at = np.arange(len(texts.words))
    return texts.at(train_test_split(at, train_size=most, random_state=seed, stratify=texts.labels)[0])


def outcomes(
    run: form.Run, name: str, split: Split, settings: Settings
) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield each method with what it did."""
    for method in run.arguments.methods:
        features = features_of(method, settings)
        classifier = Classifier(features, machine_of(method, run.arguments.seed))
        with run.measure(f"{name}, {method}") as used:
            classifier.fit(split.train)
        run.passes += features.n_passes
        wrong = classifier.wrong(split.test)
        yield (
            method,
            [Outcome(wrong, classifier.inner_error, used.cpu_seconds, used.peak_memory_bytes)],
        )
        if method in ("pca", "root"):
            share = retained(features, split.train, settings)
            run.row(data=name, method=method, metric="retained_share", value=round(share, 4))


def features_of(method: str, settings: Settings) -> Any:
    """Return what texts are turned into."""
    changed = settings._replace(**METHODS[method])
    kind: Any = method.partition("-")[0]
    if kind == "words":
        return Words()
    if kind == "mean":
        return Average(changed)
    if kind == "pca":
        return Concatenated(changed)
    return Tree(changed._replace(length=length_of(settings.length, changed.arity)), [1], output=kind)


def machine_of(method: str, seed: int) -> SupportVectors | LeastSquares:
    """Return what learns from the features."""
    if method == "words":
        return SupportVectors(seed)
    return LeastSquares(seed, DEGREE if method.endswith("-kernel") else 1)


def length_of(length: int, arity: int) -> int:
    """Return the least power of the arity that is not shorter.

    >>> length_of(32, 2), length_of(32, 3), length_of(32, 4)
    (32, 81, 64)
    """
    reached = arity
    while reached < length:
        reached *= arity
    return reached


def retained(features: Any, texts: Texts, settings: Settings) -> float:
    """Return the share of the variance of the concatenated vectors that the features keep.

    A tree joins orthonormal rows, so that its root is an orthogonal projection of the concatenated vectors, as that of
    PCA is, and the variances of both are shares of the same sum; no projection to as many numbers keeps more than PCA.
    """
    whole = concatenated(texts.words, settings)
    left = features.transform(texts.words)
    return float(np.var(left, axis=0, dtype=np.float64).sum() / np.var(whole, axis=0, dtype=np.float64).sum())


def rows(run: form.Run, name: str, found: dict[str, list[Outcome]]) -> None:
    """Add a row for each method, with its difference from PCA where that was compared."""
    half = "chosen on" if name in CHOSEN_ON else "reported on"
    for method, outcome in found.items():
        rate, error = error_rate(outcome)
        more: dict[str, Any] = {"standard_error": round(error, 4), "n": len(outcome[0].wrong), "half": half}
        if "pca" in found:
            over, over_error = difference(outcome, found["pca"])
            more |= {"over_pca": round(over, 4), "over_pca_error": round(over_error, 4)}
        run.row(data=name, method=method, metric="error_rate", value=round(rate, 4), **more)
        inner = float(np.mean([one.inner_error for one in outcome]))
        run.row(data=name, method=method, metric="inner_error_rate", value=round(inner, 4))
        run.row(data=name, method=method, metric="cpu_seconds", value=round(outcome[0].cpu_seconds, 2))


if __name__ == "__main__":
    main()
