"""Race words and n-grams in front of an SVD and of a linear model against scikit-learn's, by accuracy of classes.

Each pipeline reads the same texts, and a `LinearSVC` is trained on what it returns. Documents of no label or of several
are left out. Without `--test` a third of the documents, drawn at random, is classified.
"""

import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD as ArpackSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from dspectral import NgramHashing, TfidfWeighting, TruncatedSVD

from .._form import form
from .._parts.labeled_documents import name_of, read
from .._parts.text_options import LABELED_FILES


def main(argv: list[str] | None = None) -> None:
    """Run the race."""
    parser = form.parser("benchmarks.classifiers", __doc__, fits=False)
    add = parser.add_argument
    add("--train", required=True, metavar="FILE", help=LABELED_FILES)
    add("--test", metavar="FILE", help="the same, to be classified (default: a third of the first)")
    add("--text", nargs="+", default=["text"], metavar="FIELD", help="with the text")
    add("--label", default="label", metavar="FIELD", help="with the label")
    add("--n-components", type=form.positive, default=100, metavar="K", help="of the SVD")
    with form.run(parser.parse_args(argv)) as run:
        race(run, run.arguments)


def race(run: form.Run, arguments: Any) -> None:
    """Report accuracy, its standard error, and CPU seconds of each pipeline's fit."""
    train, labels = documents(arguments, "train")
    if arguments.test:
        test, expected = documents(arguments, "test")
    else:
        order = np.random.default_rng(arguments.seed).permutation(len(train))
        first, last = np.split(order, [2 * len(order) // 3])
        test, expected = [train[i] for i in last], labels[last]
        train, labels = [train[i] for i in first], labels[first]
    for name, steps in pipelines(arguments.n_components, len(set(labels))).items():
        model = make_pipeline(*steps)
        before = time.process_time()
        rows = model.fit_transform(train, labels)
        seconds = time.process_time() - before
        right = LinearSVC().fit(rows, labels).predict(model.transform(test)) == expected
        error = float(right.std() / len(right) ** 0.5)
        values = {"accuracy": float(right.mean()), "accuracy_error": error, "cpu_seconds": seconds}
        run.rows(values, data=name_of(arguments.train), method=name, n=len(right))


def documents(arguments: Any, side: str) -> tuple[list[str], Any]:
    """Return the texts of one label each, and their labels."""
    found = [(one.text, one.labels[0]) for one in read(arguments, side) if len(one.labels) == 1]
    return [text for text, _ in found], np.array([label for _, label in found])


class LogCountRatios(TransformerMixin, BaseEstimator):
    """Weigh each column by the logarithm of its share of one class over that of the other (Wang and Manning 2012)."""

    def fit(self, X: Any, y: Any) -> "LogCountRatios":
        """Add up the rows of each of two classes."""
        one, other = (np.asarray(X[y == c].sum(axis=0)).ravel() + 1.0 for c in np.unique(y))
        self.ratios_ = np.log(one / one.sum()) - np.log(other / other.sum())
        return self

    def transform(self, X: Any) -> Any:
        """Weigh the columns."""
        return X.multiply(self.ratios_).tocsr()


def pipelines(k: int, n_classes: int) -> dict[str, tuple[Any, ...]]:
    """Return the steps of each pipeline, before its classifier."""
    words, ngrams = NgramHashing(), NgramHashing(2**18, (1, 3))
    pairs = CountVectorizer(binary=True, ngram_range=(1, 2), token_pattern=r"\S+")  # noqa: S106
    bayes = {"naive Bayes weights of word pairs": (pairs, LogCountRatios())} if n_classes == 2 else {}
    return bayes | {
        "scikit-learn: words, SVD": (TfidfVectorizer(), ArpackSVD(k, random_state=0)),
        "words, SVD": (words, TfidfWeighting(), TruncatedSVD(k)),
        "n-grams, SVD": (ngrams, TfidfWeighting(), TruncatedSVD(k)),
        "scikit-learn: words": (TfidfVectorizer(),),
        "words": (words, TfidfWeighting()),
        "scikit-learn: n-grams": (TfidfVectorizer(ngram_range=(1, 3)),),
        "n-grams": (ngrams, TfidfWeighting()),
    }


if __name__ == "__main__":
    main()
