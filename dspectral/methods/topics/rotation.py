"""Rotation of singular vectors to topics, and sums over the documents near each topic."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.engine.summary import BlockSize, MemoryEstimate
from dspectral.linalg import sparse_products
from dspectral.types import CSRRows, FloatArray

MIN_GAIN = 1e-6
"""The iteration stops when a step raises the criterion by a smaller share."""
MAX_STEPS = 200


def find_varimax_rotation(scores: FloatArray) -> NDArray[np.float64]:
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
    singular_values: NDArray[np.float64]
    rotation: NDArray[np.float64]

    def cosines(self, coordinates: FloatArray) -> NDArray[np.float64]:
        """Return the cosines (n, k) of projected rows with topics; zeros for rows without a projection."""
        points = np.asarray(coordinates, dtype=np.float64)
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(np.divide(points, lengths, out=np.zeros_like(points), where=lengths > 0) @ self.rotation)

    def coordinates(self, rows: CSRRows) -> FloatArray:
        """Return the coordinates of weighted rows (n, d) along the singular vectors, shape (n, k)."""
        return sparse_products.times(rows, np.ascontiguousarray(self.components.T))


class CoordinateSample(NamedTuple):
    """Coordinates of every i-th row, shape (n_sampled, k)."""

    coordinates: NDArray[np.float64]

    @classmethod
    def from_block(cls, rows: CSRRows, numbers: NDArray[np.int64], *, axes: TopicAxes, step: int) -> Self:
        """Summarize one block: the rows whose number is a multiple of the step."""
        selected = np.flatnonzero(numbers[:, 0] % step == 0)
        return cls(np.asarray(axes.coordinates(rows[selected]), dtype=np.float64))

    def merge(self, *others: Self) -> Self:
        """Return the sample of all rows."""
        return type(self)(np.concatenate([part.coordinates for part in (self, *others)]))


class TopicSums(NamedTuple):
    """Sums over the documents near each topic, and the nearest documents.

    Shapes: `words` (k, d), `share` (k,), `cosines` and `nearest` (k, m): descending, and row numbers or -1.
    """

    words: NDArray[np.float64]
    share: NDArray[np.float64]
    cosines: NDArray[np.float64]
    nearest: NDArray[np.int64]

    @classmethod
    def from_block(cls, rows: CSRRows, numbers: NDArray[np.int64], *, axes: TopicAxes, n_nearest: int) -> Self:
        """Summarize one block of weighted rows and their row numbers."""
        coordinates = np.asarray(axes.coordinates(rows), dtype=np.float64)
        cosines = axes.cosines(coordinates)
        # Squares of rotated left singular vectors: documents with no other topic determine the words of a topic.
        typicality = np.maximum(coordinates / axes.singular_values @ axes.rotation, 0.0) ** 2
        words = np.asarray(rows.T @ typicality).T
        # Cosines below rounding errors do not count.
        is_near = np.finfo(np.float32).eps < cosines.T
        nearest = np.where(is_near, numbers[:, 0], -1)
        summary = cls(words, compute_shares(cosines).sum(axis=0), np.where(is_near, cosines.T, -2.0), nearest)
        return summary.keep_nearest(n_nearest)

    @classmethod
    def estimate_block_memory(cls, block: BlockSize, *, axes: TopicAxes, n_nearest: int) -> MemoryEstimate:
        """Return the memory estimate of a summary."""
        k, d = axes.components.shape
        size = 8 * k * (d + 2 * n_nearest)
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
        summaries = (self, *others)
        words = sum((part.words for part in others), self.words)
        share = sum((part.share for part in others), self.share)
        documents = (
            np.concatenate([getattr(part, name) for part in summaries], axis=1) for name in ("cosines", "nearest")
        )
        return type(self)(words, share, *documents).keep_nearest(self.nearest.shape[1])


def compute_shares(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares (n, k) of topics in documents: normalized squares of positive cosines."""
    squares = np.maximum(cosines, 0.0) ** 2
    totals = squares.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(squares, totals, out=np.zeros_like(squares), where=totals > 0))
