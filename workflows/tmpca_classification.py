"""Classify texts by tree-structured PCA (TMPCA) of their words' vectors, beside PCA and plain words.

Methods, each with a linear SVM whose penalty is cross-validated on the training texts: `svm` takes words and pairs
of words by TF-IDF, `mean+svm` the average of the words' vectors, `pca+svm` principal components of the first N
vectors one after the other, `tmpca+svm` the one vector that a tree leaves of them, for each n-gram form asked for
and for all of them side by side. `tmpca-levels` takes the nodes of all levels of that tree, `tmpca-pooled` the first
node, the mean, the least and the largest of each level, `tmpca-sliding` the same of nodes that begin at every word.
These are thousands of features, and what learns from them stands behind: `+ridge`, least squares with a
cross-validated penalty, takes seconds; `+kernel`, least squares with products of two features too, goes with the cube
of the texts, a minute for ten thousand; `+svm` takes minutes for five thousand. Without `--vectors`, vectors are
learned from the training texts, without their labels, and from the lines of `--corpus`. Without `--test` the training
file is cross-validated, by its column cv_fold or in ten stratified folds. `--scaling` measures time and memory
against N instead.
"""

import argparse
from collections.abc import Iterator
from functools import partial

from ._form import form

OUTPUTS = {"tmpca-levels": "levels", "tmpca-pooled": "pooled", "tmpca-sliding": "sliding"}
"""What trees leave of a text besides the root: thousands of features."""
MACHINES = ("svm", "ridge", "kernel")
"""What learns from them."""
USUAL = ("svm", "mean+svm", "pca+svm", "tmpca+svm", "tmpca-sliding+ridge")
"""None that takes minutes: no SVM on thousands of dense features, no kernel of all texts with all."""
METHODS = (*USUAL, *(f"{tree}+{how}" for tree in OUTPUTS for how in MACHINES if f"{tree}+{how}" not in USUAL))


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("tmpca_classification", __doc__)
    add = parser.add_argument
    add(
        "--train",
        required=True,
        metavar="FILE",
        help="fields text and label, perhaps cv_fold; jsonl, CSV, TSV or Parquet",
    )
    add(
        "--test",
        metavar="FILE",
        help="the same, to be classified (default: cross-validate the training file)",
    )
    add("--label", default="label", metavar="COLUMN", help="of what a text is classified as")
    add("--folds", type=form.positive, default=10, metavar="F", help="where the file names none")
    _add_options_of_vectors(parser)
    _add_options_of_trees(parser)
    add("--stop-words", choices=["none", "english", "weak"], default="none", help="left out of vectors' texts")
    add("--zero-digits", action="store_true", help="read each digit as 0")
    add("--methods", nargs="+", choices=METHODS, default=list(USUAL), metavar="METHOD", help="to compare")
    add("--scaling", action="store_true", help="time and memory against N, of the training texts")
    add("--lengths", nargs="+", type=form.positive, default=[8, 16, 32, 64, 128], help="N of --scaling")
    add("--sentences", type=form.positive, default=10_000, metavar="M", help="of --scaling")
    return parser


def _add_options_of_vectors(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    about = "word vectors in word2vec's text or binary format (default: learned here)"
    add("--vectors", metavar="W2V", help=about)
    about = "more text to learn vectors from; .gz, URLs (default: none)"
    add("--corpus", nargs="*", default=[], metavar="FILE", help=about)
    add("--window", type=form.positive, default=20, help="words on each side that vectors are learned by")
    about = "take the first D numbers of each vector (default: all)"
    add("--dimensions", type=form.positive, metavar="D", help=about)


def _add_options_of_trees(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    about = "of PCA and TMPCA (default: as many as dimensions)"
    add("--n-components", type=form.positive, metavar="K", help=about)
    add("--length", type=form.positive, default=64, metavar="N", help="words of a text, a power of 2")
    about = "neighbours that a tree joins, N a power of it"
    add("--arity", type=form.positive, default=2, metavar="P", help=about)
    add("--whiten", action="store_true", help="scale the components of each level of a tree to unit variance")
    add("--forms", nargs="+", type=form.positive, default=[1], metavar="n", help="n-gram forms")
    add("--plain-test", action="store_true", help="n-gram forms of the training texts alone, as the paper's")


form.check_options(__name__, options)

import math
from collections import Counter
from typing import Any, NamedTuple

import fsspec
import numpy as np
from numpy.typing import NDArray

import dspectral
from dspectral import EmbeddingRecipe, WordEmbedding, read_word2vec

from ._form.plots import new_bars
from ._parts.labeled_documents import name_of, not_learned, note_not_learned
from ._parts.labeled_texts import Split, Texts, content, read_texts, splits, words_of
from ._parts.text_classifiers import (
    DEGREE,
    Average,
    Classifier,
    Concatenated,
    LeastSquares,
    Settings,
    SupportVectors,
    Tree,
    Vectors,
    Words,
)
from .tmpca_scaling import measure_scaling

RARE = "<?>"
LITTLE = 1_000_000
"""Tokens below which word vectors are poor."""
TREE = "tmpca"
"""How the names of methods that take a tree begin."""


def main(argv: list[str] | None = None) -> None:
    """Learn, classify, report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        zero = {"zero_digits": arguments.zero_digits, "label": arguments.label}
        texts = read_texts(arguments.train, **zero)
        if arguments.scaling:
            source = Vectorizer(run)
            measure_scaling(run, texts, source.settings(texts))
            return
        test = read_texts(arguments.test, **zero) if arguments.test else None
        parts = [Split(texts, test)] if test else splits(texts, arguments.folds, arguments.seed)
        if test:
            note_not_learned(run, not_learned(([label] for label in test.labels.tolist()), texts.labels.tolist()))
        classify(run, parts, cross_validated=test is None)


class Vectorizer:
    """Gives the vectors that texts are turned into: the file's, or learned from the training texts."""

    def __init__(self, run: form.Run) -> None:
        self.run, self.arguments = run, run.arguments
        self.given = read_pair(self.arguments.vectors) if self.arguments.vectors else None
        zero = self.arguments.zero_digits
        lines = (line for path in self.arguments.corpus for line in lines_of(path))
        self.said = False
        self.more = [words_of(line, zero_digits=zero) for line in lines]

    def settings(self, train: Texts) -> Settings:
        """Return what all methods share, vectors included."""
        arguments = self.arguments
        words, matrix = known_words(self.given or self._learn(train))
        matrix = matrix[:, : arguments.dimensions]
        cut = content(train.words, arguments.stop_words)
        return Settings(
            (words, matrix - mean_vector(words, matrix, cut)),
            arguments.n_components or matrix.shape[1],
            arguments.length,
            arguments.stop_words,
            arguments.seed,
            arguments.arity,
            arguments.whiten,
        )

    def _learn(self, train: Texts) -> Vectors:
        text = content([*train.words, *self.more], self.arguments.stop_words)
        self._say_what_is_read(text)
        embedding = WordEmbedding(
            self.arguments.dimensions or 100,
            window=self.arguments.window,
            min_count=2,
            random_state=self.arguments.seed,
            recipe=EmbeddingRecipe(distance_weighting=False),
        )
        self.run.fit("learn word vectors", embedding, text)
        return embedding.words_, embedding.vectors_

    def _say_what_is_read(self, text: list[list[str]]) -> None:
        """Note, for the first split, how much text the vectors are learned from, and whether that is little."""
        if self.said:
            return
        self.said = True
        n_tokens, n_types = sum(map(len, text)), len({word for words in text for word in words})
        where = "the training texts and --corpus" if self.more else "the training texts alone"
        self.run.note(f"Word vectors are learned from {where}: {n_tokens:,} tokens of {n_types:,} word types.")
        if n_tokens < LITTLE:
            self.run.note(
                f"Warning: fewer than {LITTLE:,} tokens are little, and vectors learned from them say less of a text "
                "than its words do; more text of the same kind helps (--corpus MORE), and so do vectors that were "
                "learned elsewhere (--vectors)."
            )


def known_words(vectors: Vectors) -> Vectors:
    """Leave the vector of rare words out: an unknown word says nothing, and has zeros."""
    words, matrix = vectors
    known = [i for i, word in enumerate(words) if word != RARE]
    return [words[i] for i in known], matrix[known]


def mean_vector(words: list[str], matrix: NDArray[np.float32], texts: list[list[str]]) -> NDArray[np.float32]:
    """Return the mean over all tokens that have a vector: less it, a place without a word is an average one."""
    how_often = Counter(word for text in texts for word in text)
    weights = np.array([how_often[word] for word in words], dtype=np.float32)
    return weights @ matrix / max(1.0, float(weights.sum()))


def read_pair(path: str) -> Vectors:
    """Read word vectors, whatever bytes their words are."""
    return read_word2vec(path, errors="replace")


def lines_of(path: str) -> Iterator[str]:
    """Read a text line by line."""
    with fsspec.open(path, "rt", encoding="utf-8", errors="replace", compression="infer") as file:
        yield from file


def classify(run: form.Run, parts: Any, *, cross_validated: bool) -> None:
    """Learn and score every method on every split."""
    vectorizer = Vectorizer(run)
    found: dict[tuple[str, str], list[Outcome]] = {}
    for number, split in enumerate(parts):
        settings = vectorizer.settings(split.train)
        if not number:
            note_task(run, split, settings, cross_validated=cross_validated)
        for method, shown, features in candidates(run.arguments, settings):
            name, seed = method.rpartition("+")[2], run.arguments.seed
            machine = SupportVectors(seed) if name == "svm" else LeastSquares(seed, DEGREE if name == "kernel" else 1)
            classifier = Classifier(features, machine)
            with run.measure(f"{method} {shown}, split {number + 1}") as used:
                classifier.fit(split.train)
            run.passes += features.n_passes
            outcome = Outcome(
                classifier.wrong(split.test), classifier.inner_error, used.cpu_seconds, used.peak_memory_bytes
            )
            found.setdefault((method, shown), []).append(outcome)
            if method == "tmpca+svm":
                run.save(partial(dspectral.save, features.models[0]))
    report(run, found)


def candidates(arguments: argparse.Namespace, settings: Settings) -> Iterator[tuple[str, str, Any]]:
    """Yield each method with the form that it is shown under, and its features."""
    tree = partial(Tree, settings, plain_test=arguments.plain_test)
    for method in arguments.methods:
        if method == "svm":
            yield method, "words", Words()
        elif method == "mean+svm":
            yield method, "1", Average(settings)
        elif method == "pca+svm":
            yield method, "1", Concatenated(settings)
        elif method != "tmpca+svm":
            yield method, "1", tree([1], output=OUTPUTS[method.partition("+")[0]])
        else:
            yield from ((method, str(n), tree([n])) for n in arguments.forms)
            if len(arguments.forms) > 1:
                yield method, "+".join(map(str, arguments.forms)), tree(arguments.forms)


def note_task(run: form.Run, split: Split, settings: Settings, *, cross_validated: bool) -> None:
    """Say what is learned from."""
    cut = content(split.train.words, settings.stop_words)
    known = set(settings.vectors[0])
    n_words = sum(map(len, cut))
    less = "" if settings.stop_words == "none" else " without stop words"
    covered = sum(word in known for words in cut for word in words) / max(1, n_words)
    run.note(
        f"{name_of(run.arguments.train)}: {len(split.train.words)} training and {len(split.test.words)} test "
        f"texts{' in the first split' if cross_validated else ''}, {n_words / len(cut):.1f} words each{less}, "
        f"{covered:.1%} of them with a vector of {settings.vectors[1].shape[1]} numbers"
    )


class Outcome(NamedTuple):
    """What a method did in one split."""

    wrong: NDArray[np.bool_]
    inner_error: float
    cpu_seconds: float
    peak_memory_bytes: int


def report(run: form.Run, found: dict[tuple[str, str], list[Outcome]]) -> None:
    """Add a row for each method and form; of all trees the one with the least error in training is chosen."""
    trees = [outcomes for (method, _), outcomes in found.items() if method.startswith(TREE)]
    if len(trees) > 1:
        found["tmpca+svm", "chosen"] = [
            min(split, key=lambda one: one.inner_error) for split in zip(*trees, strict=True)
        ]
    data = name_of(run.arguments.train)
    words = found.get(("svm", "words"))
    for (method, shown), outcomes in found.items():
        rate, error = error_rate(outcomes)
        values = {
            "error_rate": rate,
            "inner_error_rate": float(np.mean([outcome.inner_error for outcome in outcomes])),
            "cpu_seconds": float(np.mean([outcome.cpu_seconds for outcome in outcomes])),
            "peak_memory_bytes": max(outcome.peak_memory_bytes for outcome in outcomes),
        }
        more: dict[str, Any] = {"standard_error": round(error, 4), "n": len(wrong_of(outcomes))}
        if words is not None:
            over, over_error = difference(outcomes, words)
            more |= {"over_words": over, "over_words_error": over_error}
        for metric, value in values.items():
            fields = more if metric == "error_rate" else {}
            run.row(data=data, method=method, metric=metric, value=value, form=shown, **fields)
    plot(run, found)
    answer(run, found)


def wrong_of(outcomes: list[Outcome]) -> NDArray[np.bool_]:
    """Return which test texts of all splits were classified wrongly."""
    return np.concatenate([outcome.wrong for outcome in outcomes])


def error_rate(outcomes: list[Outcome]) -> tuple[float, float]:
    """Return the error rate over all splits, and its standard error."""
    wrong = wrong_of(outcomes)
    rate = float(wrong.mean())
    return rate, math.sqrt(rate * (1 - rate) / len(wrong))


def difference(ours: list[Outcome], theirs: list[Outcome]) -> tuple[float, float]:
    """Return how much more often we are wrong than they, and its standard error, paired over texts."""
    paired = wrong_of(ours).astype(float) - wrong_of(theirs)
    return float(paired.mean()), float(paired.std() / math.sqrt(len(paired)))


def answer(run: form.Run, found: dict[tuple[str, str], list[Outcome]]) -> None:
    """Say which method errs least, and whether a tree is worth its while against words alone."""
    rates = {key: error_rate(outcomes)[0] for key, outcomes in found.items()}
    best = min(rates, key=lambda key: rates[key])
    trees = [key for key in found if key[0].startswith(TREE)]
    chosen, words = ("tmpca+svm", "chosen"), ("svm", "words")
    tree = chosen if chosen in found else (trees or list(found))[0]
    sentence = f"`{best[0]}` errs least, on {rates[best]:.1%} of the test texts"
    if trees and words in found:
        over, error = difference(found[tree], found[words])
        sentence = (
            f"`{tree[0]}` errs on {rates[tree]:.1%} of the test texts, an SVM on words alone on {rates[words]:.1%}: "
            f"{100 * over:+.1f} ± {100 * error:.1f} points"
        )
        if over > 2 * error:
            run.note(f"Warning: on these texts words alone are better than vectors, take `svm`; {sentence}.")
    run.answer(f"{sentence}.")


def plot(run: form.Run, found: dict[tuple[str, str], list[Outcome]]) -> None:
    """Draw the error of each method."""
    rates, errors = {}, {}
    for (method, shown), outcomes in found.items():
        name = method if shown in ("words", "1") else f"{method} ({shown})"
        rates[name], errors[name] = error_rate(outcomes)
    figure, _ = new_bars(name_of(run.arguments.train), x="error rate", values=rates, errors=errors)
    caption = "Share of the test texts that each method (n-gram form) gets wrong, with its standard error."
    run.plot("error_rate", figure, caption)


if __name__ == "__main__":
    main()
