"""Classify the intent of sentences, with representations learned from unlabelled text by matrix sketching.

The unlabelled text and the training sentences (without their labels) are counted into a store and sketched
in one pass; the test side is never looked at. Methods: `none` is a Crammer-Singer SVM on hashed n-grams,
`vectors` adds averaged word vectors, `sent` the sketched representation (equation 2 of the paper), `sent+`
also the first two words and the scores of a supervised model. Every choice (C, weights) is cross-validated on
the training side.
"""

import argparse
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import dask.array as da
import joblib
import numpy as np
from numpy.typing import NDArray

import dspectral
from dspectral import (
    IntentClassifier,
    SentenceRepresentation,
    WordVectorRepresentation,
    build_store,
    read_word2vec,
)
from dspectral.store import CountStore

from ._form import form
from ._form.plots import new_plot
from ._form.tsv import read_tsv
from ._parts.labelled_documents import name_of


class Labelled(NamedTuple):
    """Sentences and their intents."""

    texts: list[str]
    intents: NDArray[Any]


def main(argv: list[str] | None = None) -> None:
    """Learn, classify, report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        train, test = read_labelled(arguments.train), read_labelled(arguments.test)
        with TemporaryDirectory(prefix="dspectral-") as scratch:
            with run.measure("count the unlabelled text"):
                store = unlabelled_store(arguments, f"{scratch}/unlabelled.zarr")
            classify(run, Task(name_of(arguments.train), train, test, store))


def options() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = form.parser("intent_classification", __doc__)
    add = parser.add_argument
    add("--train", required=True, metavar="TSV", help="labelled sentences: a header with text and intent")
    add("--test", required=True, metavar="TSV", help="the same, to be classified")
    add(
        "--unlabeled",
        nargs="*",
        default=[],
        metavar="FILE",
        help="text, one sentence a line; also .gz, URLs (default: none)",
    )
    add(
        "--vectors",
        metavar="W2V",
        help="word vectors in word2vec's text or binary format (default: learned here)",
    )
    add_choices(parser)
    return parser


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the options that do not say where the text is."""
    add = parser.add_argument
    add("--shares", nargs="+", type=form.share, default=[1.0], metavar="S", help="of the unlabelled text")
    add("--labelled", type=form.positive, metavar="N", help="labelled sentences an intent (default: all)")
    add("--draws", type=form.positive, default=1, metavar="R", help="random draws of the N")
    add("--n-components", type=form.positive, default=200, metavar="K", help="length of a word's vector")
    add("--columns-bits", type=form.bits, default=18, metavar="B", help="hash to 2^B columns")


class Task(NamedTuple):
    """What is to be classified, and the store that may help."""

    name: str
    train: Labelled
    test: Labelled
    store: CountStore


def classify(run: form.Run, task: Task) -> SentenceRepresentation:
    """Fit and score every method, for every share of the unlabelled text and every draw of labels.

    Returns the representation learned from all of the text.
    """
    arguments = run.arguments
    shares = sorted({*arguments.shares, 1.0})
    representations = {}
    for part in shares:
        with run.measure(f"sketch {part:.0%} of the unlabelled text"):
            representations[part] = sketched(arguments, task, part)
            run.passes += representations[part].n_passes_
    full = representations[1.0]
    run.note(
        f"{task.name}: {len(task.train.texts)} training and {len(task.test.texts)} test sentences, "
        f"{task.store.n_rows} sentences of text, {len(full.words_)} words with a vector; the sketch's "
        f"certificate is {full.certificate_.relative:.2e} of the energy"
    )
    scores = Scores(run, task)
    for draw in range(arguments.draws if arguments.labelled else 1):
        train = drawn(task.train, arguments.labelled, arguments.seed + draw)
        scores.fit("none", train, IntentClassifier(C=(0.3, 1.0, 3.0, 10.0)), shares)
        if arguments.vectors:
            words, table = read_word2vec(arguments.vectors, errors="replace")
            vectors = WordVectorRepresentation(words, table, n_features=full.n_features)
            scores.fit("vectors", train, IntentClassifier(vectors), shares)
        for method, plus in (("sent", False), ("sent+", True)):
            model = scores.fit(method, train, IntentClassifier(full, plus=plus), [1.0])
            for part in shares[:-1]:  # with what was chosen on all of the text
                chosen = IntentClassifier(
                    representations[part], plus=plus, C=[model.choice_.C], weights=[model.choice_.weight]
                )
                scores.fit(method, train, chosen, [part])
            if plus:
                run.save(lambda path, model=model: dspectral.save(model, path))
    scores.report()
    return full


def sketched(arguments: argparse.Namespace, task: Task, part: float) -> SentenceRepresentation:
    """Learn a representation from a share of the unlabelled text, and all training sentences."""
    representation = SentenceRepresentation(
        arguments.n_components, n_features=task.store.n_columns, random_state=arguments.seed
    )
    return representation.fit(
        task.store if part == 1.0 else first_rows(task.store, len(task.train.texts), part)
    )


def first_rows(store: CountStore, n_training: int, part: float) -> da.Array:
    """Return the training rows, and the first share of the rows of every later block."""
    pieces, before = [], 0
    for block, size in enumerate(store.counts.chunks[0]):
        keep = size if before < n_training else math.ceil(part * size)
        pieces.append(store.counts.blocks[block][:keep])
        before += size
    return da.concatenate([piece for piece in pieces if piece.shape[0]])


def unlabelled_store(arguments: argparse.Namespace, path: str) -> CountStore:
    """Count the words of the training sentences, then of the unlabelled text."""
    hashing = SentenceRepresentation(n_features=1 << arguments.columns_bits).word_hashing
    store = build_store(arguments.train, path, unit="field", field="text", hashing=hashing)
    if arguments.unlabeled:
        store = build_store(arguments.unlabeled, path, unit="line", hashing=hashing, append=True)
    return store


def read_labelled(path: str) -> Labelled:
    """Read a TSV with a header that has the columns text and intent.

    Raises
    ------
    ValueError
        If a column is missing, or a line has too few; the file and line are named.
    """
    rows = read_tsv(path, ("text", "intent"))
    return Labelled([row["text"] for row in rows], np.asarray([row["intent"] for row in rows]))


def drawn(labelled: Labelled, n: int | None, seed: int) -> Labelled:
    """Draw n sentences of each intent, or all where there are fewer."""
    if n is None:
        return labelled
    order = np.random.default_rng(seed).permutation(len(labelled.texts))
    rows = np.concatenate(
        [order[labelled.intents[order] == intent][:n] for intent in np.unique(labelled.intents)]
    )
    return Labelled([labelled.texts[row] for row in rows], labelled.intents[rows])


class Scores:
    """Which test sentences each method got right, over draws and shares."""

    def __init__(self, run: form.Run, task: Task) -> None:
        self.run, self.task = run, task
        self.right: dict[tuple[str, float], list[NDArray[np.bool_]]] = {}

    def fit(
        self, method: str, train: Labelled, classifier: IntentClassifier, shares: list[float]
    ) -> IntentClassifier:
        """Fit one classifier and keep what it got right, under each of the shares."""
        with self.run.measure(f"{method} at {', '.join(f'{part:.0%}' for part in shares)}"), spread(self.run):
            classifier.set_params(random_state=self.run.arguments.seed).fit(*train)
            right = classifier.predict(self.task.test.texts) == self.task.test.intents
        for part in shares:
            self.right.setdefault((method, part), []).append(right)
        return classifier

    def report(self) -> None:
        """Add rows: accuracy and its margin over `none`, then each intent's recall with all of the text."""
        labelled = self.run.arguments.labelled or "all"
        for (method, part), draws in sorted(self.right.items(), key=lambda entry: entry[0][1]):
            accuracies = [float(right.mean()) for right in draws]
            margin, error = margins(draws, self.right["none", part])
            self.run.row(
                data=self.task.name,
                method=method,
                metric="accuracy",
                value=float(np.mean(accuracies)),
                unlabeled=part,
                labelled=labelled,
                over_none=margin,
                standard_error=error,
                draws=len(draws),
            )
        for (method, part), draws in self.right.items():
            if part == 1.0:
                self._report_intents(method, np.mean(draws, axis=0))
        self._plot()

    def _report_intents(self, method: str, right: NDArray[np.float64]) -> None:
        intents = self.task.test.intents
        for intent in np.unique(intents):
            value = float(right[intents == intent].mean())
            self.run.detail(
                data=self.task.name,
                method=method,
                metric="recall",
                value=value,
                unlabeled=1.0,
                intent=str(intent),
            )

    def _plot(self) -> None:
        figure, axes = new_plot(self.task.name, x="share of the unlabelled text", y="accuracy")
        for method in dict.fromkeys(method for method, _ in self.right):
            points = sorted((part, np.mean(draws)) for (m, part), draws in self.right.items() if m == method)
            axes.plot(*zip(*points, strict=True), marker="o", label=method)
        axes.legend(frameon=False)
        self.run.plot(
            "accuracy", figure, "Accuracy on the test sentences against the share of unlabelled text."
        )


def margins(ours: list[NDArray[np.bool_]], theirs: list[NDArray[np.bool_]]) -> tuple[float, float]:
    """Return the mean margin and its standard error, over draws or (for one) over sentences."""
    paired = [a.astype(float) - b for a, b in zip(ours, theirs, strict=True)]
    values = np.array([pair.mean() for pair in paired]) if len(paired) > 1 else paired[0]
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


@contextmanager
def spread(run: form.Run) -> Iterator[None]:
    """Let cross-validation run on the cluster, if there is one."""
    if run.client is None:
        yield
        return
    with joblib.parallel_config("dask"), warnings.catch_warnings():
        # The features of a few thousand labelled sentences travel with each batch of fits: tens of megabytes.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        yield


if __name__ == "__main__":
    main()
