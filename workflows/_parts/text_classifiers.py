"""Features of texts, words, averages or principal components, and linear classifiers on them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler, normalize
from sklearn.svm import LinearSVC

from dspectral import SketchedPCA, TreePCA
from dspectral.methods.tmpca import make_token_table

from .labeled_texts import StopWords, Texts, content, gram_form

SPARSE_C = (0.1, 0.3, 1.0, 3.0)
DENSE_C = (0.0003, 0.001, 0.003, 0.01)
"""Inverse penalties that are tried."""
PENALTIES = (0.00001, 0.00005, 0.0002, 0.001, 0.004, 0.02)
"""Penalties that are tried, each a share of the trace of the Gram matrix."""
INNER_FOLDS = 3
DEGREE = 2
"""Degree of the kernel that programs offer."""
LEAST_SCALE = 1e-6
"""Deviation of a feature of unit rows below which it is constant but for rounding, and left out."""

Vectors = tuple[list[str], NDArray[np.float32]]
Output = Literal["root", "levels", "pooled", "sliding"]
"""Which nodes of a tree are features."""


class Settings(NamedTuple):
    """What all methods share, and (from ``arity`` on) what trees do."""

    vectors: Vectors
    n_components: int
    length: int
    stop_words: StopWords
    seed: int
    arity: int = 2
    whiten: bool = False
    center: bool = True


class Words:
    """Words and pairs of neighbours, weighted by TF-IDF."""

    n_passes = 1

    def __init__(self) -> None:
        self.model = TfidfVectorizer(analyzer=_words_and_pairs, sublinear_tf=True)

    def fit(self, sentences: Sequence[Sequence[str]]) -> "Words":
        """Learn the vocabulary."""
        self.model.fit(sentences)
        return self

    def transform(self, sentences: Sequence[Sequence[str]]) -> Any:
        """Return a CSR matrix."""
        return self.model.transform(sentences)


class Average:
    """The mean of the vectors of a text's words: what an order of words is worth is seen against it."""

    n_passes = 0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, sentences: Sequence[Sequence[str]]) -> "Average":  # noqa: ARG002  all have one form
        """Do nothing."""
        return self

    def transform(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return an array of shape (n, dimensions of a vector)."""
        texts = content(sentences, self.settings.stop_words)
        ids, table = _numbered(texts, self.settings.vectors)
        sizes = np.array([len(text) for text in texts])
        shares = np.repeat(1.0 / np.maximum(sizes, 1), sizes).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return sparse.csr_array((shares, ids, offsets), shape=(len(texts), len(table))) @ table


class Concatenated:
    """Principal components of the vectors of a text's first words, one after the other."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, sentences: Sequence[Sequence[str]]) -> "Concatenated":
        """Find the components."""
        k, seed = self.settings.n_components, self.settings.seed
        self.model = SketchedPCA(k, solver="krylov", n_passes=4, random_state=seed)
        self.model.fit(concatenated(sentences, self.settings))
        self.n_passes = self.model.n_passes_
        return self

    def transform(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return an array of shape (n, n_components)."""
        return self.model.transform(concatenated(sentences, self.settings))


class Tree:
    """TMPCA of the n-gram forms of texts; a form of n has n times the length, so that as many words fit."""

    def __init__(
        self, settings: Settings, forms: Sequence[int], *, plain_test: bool = False, output: Output = "root"
    ) -> None:
        self.settings, self.forms, self.plain_test = settings, tuple(forms), plain_test
        self.output = output

    def fit(self, sentences: Sequence[Sequence[str]]) -> "Tree":
        """Find the components of each level of each tree."""
        s, texts = self.settings, content(sentences, self.settings.stop_words)
        self.models = [
            TreePCA(
                s.n_components,
                length=n * s.length,
                arity=s.arity,
                vectors=s.vectors,
                whiten=s.whiten,
                center=s.center,
                output=self.output,
            ).fit(_in_form(texts, n))
            for n in self.forms
        ]
        self.n_passes = sum(model.n_passes_ for model in self.models)
        return self

    def transform(self, sentences: Sequence[Sequence[str]], *, test: bool = False) -> NDArray[np.float64]:
        """Return an array of shape (n, n_components times the forms)."""
        texts = content(sentences, self.settings.stop_words)
        plain = test and self.plain_test
        parts = [
            model.transform(texts if plain else _in_form(texts, n))
            for model, n in zip(self.models, self.forms, strict=True)
        ]
        return np.hstack(parts)


class SupportVectors:
    """A linear support vector machine, its penalty chosen by cross-validation.

    Its time grows with the number of dense features times the number of labels: a few hundred features are seconds.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, rows: Any, labels: NDArray[Any]) -> "SupportVectors":
        """Learn from labeled rows, sparse or dense."""
        is_sparse = sparse.issparse(rows)
        machine = LinearSVC(dual="auto", random_state=self.seed, max_iter=10_000)
        model = make_pipeline(machine) if is_sparse else make_pipeline(Normalizer(), StandardScaler(), machine)
        inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=self.seed)
        grid = {"linearsvc__C": SPARSE_C if is_sparse else DENSE_C}
        self.model = GridSearchCV(model, grid, cv=inner).fit(rows, labels)
        self.inner_error = float(1.0 - self.model.best_score_)
        return self

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the label of each row."""
        return np.asarray(self.model.predict(rows))


class LeastSquares:
    """Ridge regression on each label, 1 for its own rows and else -1, its penalty chosen by cross-validation.

    Rows are scaled to unit length, then features to unit variance. A fold and a penalty cost one Cholesky
    factorization of the smaller Gram matrix, whatever the number of labels.
    """

    def __init__(self, seed: int, degree: int = 1) -> None:
        self.seed, self.degree = seed, degree

    def fit(self, rows: NDArray[Any], labels: NDArray[Any]) -> "LeastSquares":
        """Learn from labeled rows."""
        X = _unit(rows)
        deviation = X.std(axis=0)
        self.mean, self.scale = (
            X.mean(axis=0),
            np.where(deviation > LEAST_SCALE, deviation, np.float32(np.inf)),
        )
        A = self._standardized(X)
        self.labels, y = np.unique(labels, return_inverse=True)
        Y = np.where(y[:, None] == np.arange(len(self.labels)), 1.0, -1.0).astype(np.float32)
        tried = np.zeros(len(PENALTIES))
        folds = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=self.seed)
        for rest, held in folds.split(A, y):
            products = self._products(A[held], A[rest])
            shift = Y[rest].mean(axis=0)
            for i, weights in enumerate(self._solutions(A[rest], Y[rest] - shift, PENALTIES)):
                tried[i] += np.count_nonzero((products @ weights + shift).argmax(axis=1) != y[held])
        self.inner_error = float(tried.min() / len(y))
        self.penalty = PENALTIES[int(tried.argmin())]
        self.shift = Y.mean(axis=0)
        (self.weights,) = self._solutions(A, Y - self.shift, [self.penalty])
        self.known = A if self.degree > 1 else None
        return self

    def predict(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the label of each row."""
        products = self._products(self._standardized(_unit(rows)), self.known)
        return np.asarray(self.labels[(products @ self.weights + self.shift).argmax(axis=1)])

    def _standardized(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        X -= self.mean
        X /= self.scale
        return X

    def _products(self, B: NDArray[np.float32], A: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """Return what weights are of: features themselves, or the kernel with each row that was learned from."""
        return B if A is None or self.degree == 1 else kernel(B, A, self.degree)

    def _solutions(
        self, A: NDArray[np.float32], Y: NDArray[np.float32], penalties: Sequence[float]
    ) -> Iterator[NDArray[np.float32]]:
        if self.degree > 1:
            yield from solutions(kernel(A, A, self.degree), Y, penalties)
        elif A.shape[1] <= len(A):  # the smaller of the two Gram matrices is factorized
            yield from solutions(A.T @ A, A.T @ Y, penalties)
        else:
            yield from (A.T @ weights for weights in solutions(A @ A.T, Y, penalties))


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows of unit length, which the caller may write to."""
    return normalize(np.array(rows, dtype=np.float32), copy=False)


def kernel(B: NDArray[np.float32], A: NDArray[np.float32], degree: int) -> NDArray[np.float32]:
    """Return ``(1 + b @ a / d) ** degree`` for each row b of B and a of A."""
    products = B @ A.T
    products /= A.shape[1]
    products += 1.0
    products **= degree
    return products


def solutions(
    gram: NDArray[np.float32], right: NDArray[np.float32], penalties: Sequence[float]
) -> Iterator[NDArray[np.float32]]:
    """Yield the solution of the normal equations for each penalty, a share of the trace; overwrite the diagonal."""
    diagonal = gram.diagonal().copy()
    trace = diagonal.sum(dtype=np.float64)
    for penalty in penalties:
        np.fill_diagonal(gram, diagonal + np.float32(penalty * trace))
        yield cho_solve(cho_factor(gram, check_finite=False), right, check_finite=False)


class Classifier:
    """Features of texts and the machine on them, which has chosen its penalty on the training texts."""

    def __init__(self, features: Any, machine: SupportVectors | LeastSquares) -> None:
        self.features, self.machine = features, machine

    def fit(self, train: Texts) -> "Classifier":
        """Learn from labeled texts."""
        self.machine.fit(self.features.fit(train.words).transform(train.words), train.labels)
        return self

    @property
    def inner_error(self) -> float:
        """Error rate in the cross-validation of the training texts, at the penalty chosen."""
        return self.machine.inner_error

    def wrong(self, test: Texts) -> NDArray[np.bool_]:
        """Say which texts are classified wrongly."""
        is_tree = isinstance(self.features, Tree)
        rows = self.features.transform(test.words, **({"test": True} if is_tree else {}))
        return np.asarray(self.machine.predict(rows) != test.labels)


def concatenated(sentences: Sequence[Sequence[str]], settings: Settings) -> NDArray[np.float32]:
    """Return the vectors of the first words of each text, zeros behind them, shape (n, length * dimensions)."""
    texts = [text[: settings.length] for text in content(sentences, settings.stop_words)]
    ids, table = _numbered(texts, settings.vectors)
    sizes = np.array([len(text) for text in texts])
    rows = np.zeros((len(texts), settings.length, table.shape[1]), dtype=np.float32)
    rows[np.arange(settings.length) < sizes[:, None]] = table[ids]
    return rows.reshape(len(texts), -1)


def _words_and_pairs(words: Sequence[str]) -> list[str]:
    return [*words, *(f"{a} {b}" for a, b in pairwise(words))]


def _in_form(texts: list[list[str]], n: int) -> list[list[str]]:
    return texts if n == 1 else [gram_form(text, n) for text in texts]


def _numbered(texts: list[list[str]], vectors: Vectors) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the number of each word, text after text, and the vector of each number."""
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(word, len(numbers)) for text in texts for word in text]
    return np.array(ids, dtype=np.int64), make_token_table(vectors, list(numbers), vectors[1].shape[1])
