"""Peers of the moments: low-rank linear models, one-vs-rest, ridge regression, and trees of labels.

None belongs to the library. The first is in the manner of LEML (Yu, Jain, Kar and Dhillon 2014, "Large-scale
multi-label learning with missing labels") with squared loss: labels are near ``X W H``, W and H in turn by least
squares, W by a few steps of conjugate gradients. It reads the same store by the same summaries, and counts its
passes: one for H, and one for each gradient.
"""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from dspectral.engine import add_fields, summarize
from dspectral.linalg import times, transpose_times
from dspectral.methods.multilabel import word_rows
from dspectral.store import CountStore
from dspectral.types import FloatArray, Rows


class LabelProducts(NamedTuple):
    """``F'F`` and ``Y'F`` for ``F = X W``."""

    gram: NDArray[np.float64]
    labels: FloatArray

    @classmethod
    def from_block(cls, rows: Rows, labels: Rows, *, W: FloatArray) -> Self:
        """Summarise one block."""
        F = times(word_rows(rows, keep_counts=False, dtype=W.dtype), W)
        Y, wide = word_rows(labels, keep_counts=False, dtype=np.float32), F.astype(np.float64)
        return cls(wide.T @ wide, transpose_times(Y, F))

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        return add_fields(self, *others)


class Gradient(NamedTuple):
    """``X' (Y H' - X W G)``, or without H ``X' X W G``."""

    product: FloatArray

    @classmethod
    def from_block(cls, rows: Rows, labels: Rows, *, W: FloatArray, G: FloatArray, H: FloatArray | None = None) -> Self:
        """Summarise one block."""
        words = word_rows(rows, keep_counts=False, dtype=W.dtype)
        F = times(words, W) @ G
        if H is not None:
            F = times(word_rows(labels, keep_counts=False, dtype=np.float32), H) - F
        return cls(transpose_times(words, F))

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        return add_fields(self, *others)


class LowRank:
    """Labels near ``X W H'`` with ridge penalties."""

    def __init__(
        self, n_states: int, *, iterations: int = 10, steps: int = 5, penalty: float = 10.0, seed: int = 0
    ) -> None:
        self.n_states, self.iterations, self.steps, self.penalty = n_states, iterations, steps, penalty
        self.seed, self.n_passes = seed, 0

    def fit(self, store: CountStore) -> Self:
        """Learn from a store with labels."""
        generator, shape = np.random.default_rng(self.seed), (store.n_columns, self.n_states)
        self.W = 0.1 * generator.standard_normal(shape, dtype=np.float32)
        for turn in range(self.iterations):
            self.H = self._labels(store)
            self._words(store)
            if turn == self.iterations - 1:
                self.H = self._labels(store)
        return self

    def decision_function(self, rows: Rows) -> FloatArray:
        """Score every label of a block."""
        words = word_rows(rows, keep_counts=False, dtype=np.float32)
        return np.asarray(times(words, self.W) @ self.H.T)

    def _labels(self, store: CountStore) -> FloatArray:
        found = self._pass(store, partial(LabelProducts.from_block, W=self.W), "labels")
        ridge = found.gram + self.penalty * np.eye(self.n_states)
        return np.asarray(np.linalg.solve(ridge, found.labels.T).T, dtype=np.float32)

    def _words(self, store: CountStore) -> None:
        """Conjugate gradients on ``X'X W G + penalty W = X' Y H``, with ``G = H'H``."""
        G = self.H.T @ self.H
        of = partial(Gradient.from_block, W=self.W, G=G, H=self.H)
        residual = self._pass(store, of, "gradient").product - self.penalty * self.W
        direction, size = residual.copy(), _inner(residual, residual)
        for _ in range(self.steps):
            if size == 0:
                return
            product = self._pass(store, partial(Gradient.from_block, W=direction, G=G), "gradient").product
            product += self.penalty * direction
            step = np.float32(size / _inner(direction, product))
            self.W += step * direction
            residual -= step * product
            before, size = size, _inner(residual, residual)
            direction = residual + np.float32(size / before) * direction

    def _pass(self, store: CountStore, of: Any, name: str) -> Any:
        self.n_passes += 1
        return summarize(store, store.labels, summarize_block=of, name=name)


class OneVsRest:
    """A logistic regression for each label, or a linear support vector machine, all in memory."""

    n_passes = 1

    def __init__(self, C: float = 10.0, *, machine: bool = False) -> None:
        self.C, self.machine = C, machine

    def fit(self, store: CountStore) -> Self:
        """Learn from a store with labels: from its words at unit length."""
        return self.learn(_unit_rows(store.counts.compute()), store.labels.compute())

    def learn(self, X: Any, labels: Any) -> Self:
        """Learn from weights of words. Shapes: `X` (n, d), `labels` (n, L): CSR."""
        Y, of = labels.tocsc(), LinearSVC if self.machine else partial(LogisticRegression, solver="liblinear")
        self.coefficients = np.zeros((Y.shape[1], X.shape[1] + 1))
        for label in range(Y.shape[1]):
            y = np.zeros(X.shape[0])
            y[Y.indices[Y.indptr[label] : Y.indptr[label + 1]]] = 1
            if y.min() == y.max():  # a label that none has, or all
                self.coefficients[label, -1] = 30.0 * (2 * y[0] - 1)
                continue
            model = of(C=self.C).fit(X, y)
            self.coefficients[label] = np.append(model.coef_[0], model.intercept_[0])
        return self

    def decision_function(self, rows: Rows) -> FloatArray:
        """Score every label of a block."""
        return self.scores(_unit_rows(rows))

    def scores(self, X: Any) -> FloatArray:
        """Score every label. Shapes: `X` (n, d): weights of words; returns (n, L)."""
        return np.asarray(X @ self.coefficients[:, :-1].T + self.coefficients[:, -1])


class Ridge:
    """One solution of ``(X'X + I) B = X'Y`` for all labels."""

    def learn(self, X: Any, Y: Any) -> Self:
        """Solve it."""
        gram = (X.T @ X).toarray()
        gram[np.diag_indices_from(gram)] += 1
        self.B = scipy.linalg.solve(gram, (X.T @ Y).toarray(), assume_a="pos", overwrite_a=True)
        return self

    def scores(self, X: Any) -> FloatArray:
        """Score every label."""
        return np.asarray(X @ self.B)


class NapkinTrees:
    """Probabilistic label trees of napkinXC (``napkinxc.models``), whose exact search scores all labels."""

    def __init__(self, library: ModuleType) -> None:
        self.folder = TemporaryDirectory()
        self.model = library.PLT(self.folder.name, threads=1, seed=0)

    def learn(self, X: Any, Y: Any) -> Self:
        """Learn, and write the trees to a folder."""
        self.n_labels = Y.shape[1]
        self.model.fit(X, [row.tolist() for row in np.split(Y.indices, Y.indptr[1:-1])])
        return self

    def scores(self, X: Any) -> FloatArray:
        """Read the trees, and score every label."""
        self.model.load()
        return _filled(self.model.predict_proba(X, top_k=self.n_labels), self.n_labels, 0.0)


class OmikujiTrees:
    """Three trees of Omikuji, whose beam is as wide as there are labels, so that all are scored."""

    def __init__(self, library: ModuleType) -> None:
        self.library = library

    def learn(self, X: Any, Y: Any) -> Self:
        """Write rows to a file, as Omikuji reads them, and learn."""
        self.n_labels = Y.shape[1]
        labels = [",".join(map(str, row)) for row in np.split(Y.indices, Y.indptr[1:-1])]
        words = [" ".join(f"{word}:{weight:.6g}" for word, weight in row) for row in _pairs(X)]
        with TemporaryDirectory() as folder:
            path = Path(folder, "rows.txt")
            lines = [
                f"{X.shape[0]} {X.shape[1]} {self.n_labels}",
                *map(" ".join, zip(labels, words, strict=True)),
            ]
            path.write_text("\n".join([*lines, ""]), encoding="utf-8")
            self.model = self.library.Model.train_on_data(str(path), None, 1)
        return self

    def scores(self, X: Any) -> FloatArray:
        """Score every label."""
        n = self.n_labels
        return _filled([self.model.predict(row, beam_size=n, top_k=n) for row in _pairs(X)], n, -np.inf)


def _pairs(X: Any) -> list[list[tuple[int, float]]]:
    """Return columns and weights of each row; a row without any gets a weight of 1e-6, for Omikuji refuses it."""
    rows = [slice(*X.indptr[i : i + 2]) for i in range(X.shape[0])]
    found = [list(zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)) for row in rows]
    return [row or [(0, 1e-6)] for row in found]


def _filled(found: list[list[tuple[int, float]]], n_labels: int, rest: float) -> FloatArray:
    """Return lists of labels and scores as a matrix, whose other entries are the rest."""
    out = np.full((len(found), n_labels), rest)
    for row, pairs in zip(out, found, strict=True):
        for label, score in pairs:
            row[label] = score
    return out


def _unit_rows(rows: Rows) -> Any:
    return normalize(word_rows(rows, keep_counts=False, dtype=np.float64))


def _inner(a: FloatArray, b: FloatArray) -> float:
    return float(np.einsum("ij,ij->", a, b, dtype=np.float64))
