"""Rotation of singular vectors to topics, and sums over the documents near each topic."""

from typing import NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import softmax

from dspectral.engine.summary import BlockSize, MemoryEstimate
from dspectral.linalg import sparse_products
from dspectral.types import CSRRows, Doubles, FloatArray, Int64s

MIN_GAIN = 1e-6
"""The iteration stops when a step raises the criterion by a smaller share."""
MAX_STEPS = 200
N_EM_STEPS, TOPIC_WEIGHT = 20, 0.4
"""Steps of EM for the mixture, and weight of a topic's own words against those of all text."""


def find_varimax_rotation(scores: FloatArray) -> Doubles:
    """Return the varimax rotation of scores, with signs that make the skewness of columns positive.

    Kaiser 1958; Rohe and Zeng 2023 prove that it estimates topic models. Shapes: `scores` (n, k); returns (k, k).
    """
    scores = np.asarray(scores, dtype=np.float64)
    n, k = scores.shape
    rotation, criterion = np.eye(k), 0.0
    # Each step maximizes the trace of R' A'(L^3 - L diag(mean of L^2)) over rotations R by a polar decomposition, where
    # L = A R is from the last step. The criterion never decreases. O(n k^2) a step.
    for _ in range(MAX_STEPS):
        rotated = scores @ rotation
        squares = rotated**2
        left, values, right = np.linalg.svd(scores.T @ (rotated * (squares - squares.sum(axis=0) / max(n, 1))))
        rotation = left @ right
        if values.sum() <= criterion * (1 + MIN_GAIN):
            break
        criterion = values.sum()
    skew = ((scores @ rotation) ** 3).sum(axis=0)
    return np.asarray(rotation * np.where(skew < 0, -1.0, 1.0))


class TopicAxes(NamedTuple):
    """Singular vectors (k, d) and values (k,) of the weighted rows, and the rotation (k, k) to topics."""

    components: FloatArray
    singular_values: Doubles
    rotation: Doubles

    def cosines(self, coordinates: FloatArray) -> Doubles:
        """Return the cosines (n, k) of projected rows with topics; zeros for rows without a projection."""
        points = np.asarray(coordinates, dtype=np.float64)
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(np.divide(points, lengths, out=np.zeros_like(points), where=lengths > 0) @ self.rotation)

    def coordinates(self, rows: CSRRows) -> FloatArray:
        """Return the coordinates of weighted rows (n, d) along the singular vectors, shape (n, k)."""
        return sparse_products.times(rows, np.ascontiguousarray(self.components.T))


class CoordinateSample(NamedTuple):
    """Coordinates of every i-th row (n_sampled, k), and every j-th row, sparse."""

    coordinates: Doubles
    rows: CSRRows

    @classmethod
    def from_block(
        cls,
        rows: CSRRows,
        numbers: Int64s,
        points: FloatArray | None = None,
        *,
        axes: TopicAxes,
        step: int,
        row_step: int,
    ) -> Self:
        """Summarize one block: the rows whose number is a multiple of the steps; `points`: coordinates of vectors."""
        selected, kept = (np.flatnonzero(numbers[:, 0] % each == 0) for each in (step, row_step))
        coordinates = axes.coordinates(rows[selected]) if points is None else points[selected]
        return cls(np.asarray(coordinates, dtype=np.float64), rows[kept])

    def merge(self, *others: Self) -> Self:
        """Return the sample of all rows."""
        coordinates, rows = zip(self, *others, strict=True)
        return type(self)(np.concatenate(coordinates), sparse.csr_array(sparse.vstack(rows, format="csr")))


class TopicMixture(NamedTuple):
    """Mixture in which each document has one topic.

    Shapes: `words` (k, d): sums of the weighted rows of each topic; `sizes` (k,): numbers of documents.
    """

    words: Doubles
    sizes: Doubles

    @classmethod
    def from_posteriors(cls, rows: CSRRows, posteriors: Doubles) -> Self:
        """Return the M step. Shapes: `rows` (n, d), `posteriors` (n, k)."""
        return cls(np.asarray(abs(rows).T @ posteriors).T, posteriors.sum(axis=0))

    @classmethod
    def fit(cls, rows: CSRRows, posteriors: Doubles) -> Self:
        """Return the mixture after EM from posteriors (n, k)."""
        mixture = cls.from_posteriors(rows, posteriors)
        for _ in range(N_EM_STEPS):
            mixture = cls.from_posteriors(rows, mixture.posteriors(rows))
        return mixture

    def posteriors(self, rows: CSRRows) -> Doubles:
        """Return the probabilities (n, k) of topics given the distinct words of rows; zeros for empty rows."""
        tiny, mean = np.finfo(np.float64).tiny, self.words.sum(axis=0)
        mean = (1 - TOPIC_WEIGHT) * mean / max(mean.sum(), tiny) + tiny
        topics = TOPIC_WEIGHT * self.words / np.maximum(self.words.sum(axis=1, keepdims=True), tiny)
        # Without the share of a word that all text explains, topics would be smoothed again in each step, and collapse.
        own = self.words * (topics / (topics + mean))
        log_words = np.log(TOPIC_WEIGHT * own / np.maximum(own.sum(axis=1, keepdims=True), tiny) + mean)
        present = sparse.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
        scores = sparse_products.times(present, np.ascontiguousarray(log_words.T)) + np.log(self.sizes + tiny)
        return np.asarray(softmax(scores, axis=1) * (np.diff(rows.indptr) > 0)[:, None])

    def predict(self, rows: CSRRows) -> Int64s:
        """Return the most probable topic of rows (n, d), -1 for empty ones; shape (n, 1)."""
        posteriors = self.posteriors(rows)
        return np.where(posteriors.any(axis=1), posteriors.argmax(axis=1), -1)[:, None]


class TopicSums(NamedTuple):
    """Sums over the documents near each topic, and the nearest documents.

    Shapes: `words` (k, d), `share` (k,), `cosines` and `nearest` (k, m): descending, and row numbers or -1;
    `group_words` (k, d), `group_sizes` (k,): those of the mixture.
    """

    words: Doubles
    share: Doubles
    cosines: Doubles
    nearest: Int64s
    group_words: Doubles
    group_sizes: Doubles

    @classmethod
    def from_block(
        cls,
        rows: CSRRows,
        numbers: Int64s,
        points: FloatArray | None = None,
        *,
        axes: TopicAxes,
        mixture: TopicMixture,
        n_nearest: int,
    ) -> Self:
        """Summarize one block of weighted rows, their row numbers, and the coordinates of their vectors if any."""
        coordinates = np.asarray(axes.coordinates(rows) if points is None else points, dtype=np.float64)
        cosines = axes.cosines(coordinates)
        # Squares of rotated left singular vectors: documents with no other topic determine the words of a topic.
        typicality = np.maximum(coordinates / axes.singular_values @ axes.rotation, 0.0) ** 2
        words = np.asarray(rows.T @ typicality).T
        # Cosines below rounding errors do not count.
        is_near = np.finfo(np.float32).eps < cosines.T
        nearest = np.where(is_near, numbers[:, 0], -1)
        groups = mixture.from_posteriors(rows, mixture.posteriors(rows))
        share = compute_shares(cosines).sum(axis=0)
        summary = cls(words, share, np.where(is_near, cosines.T, -2.0), nearest, *groups)
        return summary.keep_nearest(n_nearest)

    @classmethod
    def estimate_block_memory(
        cls, block: BlockSize, *, axes: TopicAxes, mixture: TopicMixture, n_nearest: int
    ) -> MemoryEstimate:
        """Return the memory estimate of a summary."""
        (k, _), d = axes.rotation.T.shape, mixture.words.shape[1]
        size = 16 * k * (d + n_nearest + 1)
        return MemoryEstimate(size, 2 * size + 24 * k * block.n_rows, block=size)

    def keep_nearest(self, n: int) -> Self:
        """Return the summary with n documents per topic; ties are broken by row number."""
        k = len(self.share)
        best = np.lexsort((self.nearest, -self.cosines), axis=1)[:, :n]
        cosines, nearest = np.full((k, n), -2.0), np.full((k, n), -1)
        cosines[:, : best.shape[1]] = np.take_along_axis(self.cosines, best, axis=1)
        nearest[:, : best.shape[1]] = np.take_along_axis(self.nearest, best, axis=1)
        return self._replace(cosines=cosines, nearest=nearest)

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        parts = tuple(zip(self, *others, strict=True))
        words, share, group_words, group_sizes = (sum(parts[i][1:], parts[i][0]) for i in (0, 1, 4, 5))
        cosines, nearest = (np.concatenate(parts[i], axis=1) for i in (2, 3))
        merged = type(self)(words, share, cosines, nearest, group_words, group_sizes)
        return merged.keep_nearest(self.nearest.shape[1])


def compute_shares(cosines: Doubles) -> Doubles:
    """Return the shares (n, k) of topics in documents: normalized squares of positive cosines."""
    squares = np.maximum(cosines, 0.0) ** 2
    totals = squares.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(squares, totals, out=np.zeros_like(squares), where=totals > 0))
