"""Rotate singular vectors to topics, and sum up what the documents near each topic hold."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral.engine.summary import BlockSize, Need
from dspectral.linalg import sparse_products
from dspectral.types import CSRRows, FloatArray

LEAST_GAIN = 1e-6
"""The rotation is found where a step raises the criterion by a smaller share than this."""
MOST_STEPS = 200


def varimax(scores: FloatArray) -> NDArray[np.float64]:
    """Return the rotation under which each row of scores has few large entries, and columns are skewed upward.

    Kaiser 1958; Rohe and Zeng 2023 show that it finds the topics of a topic model. Shapes: `scores` (n, k); returns
    (k, k).
    """
    known = np.asarray(scores, dtype=np.float64)
    n, k = known.shape
    rotation, reached = np.eye(k), 0.0
    # Each step maximizes the trace of R' A'(L^3 - L diag(mean of L^2)) over rotations R, L = A R being the scores of
    # the last step, by a polar decomposition: the criterion never falls. O(n k^2) a step.
    for _ in range(MOST_STEPS):
        turned = known @ rotation
        squares = turned**2
        left, sizes, right = np.linalg.svd(known.T @ (turned * (squares - squares.sum(axis=0) / max(n, 1))))
        rotation = left @ right
        if sizes.sum() <= reached * (1 + LEAST_GAIN):
            break
        reached = sizes.sum()
    skew = ((known @ rotation) ** 3).sum(axis=0)
    return np.asarray(rotation * np.where(skew < 0, -1.0, 1.0))


class Axes(NamedTuple):
    """Singular vectors (k, d) of the weighted rows and values (k,), and the rotation (k, k) once known."""

    components: FloatArray
    sizes: NDArray[np.float64]
    rotation: NDArray[np.float64]

    def cosines(self, coordinates: FloatArray) -> NDArray[np.float64]:
        """Return the cosines (n, k) of each row's projection with each topic; zeros where nothing is left."""
        known = np.asarray(coordinates, dtype=np.float64)
        lengths = np.linalg.norm(known, axis=1, keepdims=True)
        return np.asarray(
            np.divide(known, lengths, out=np.zeros_like(known), where=lengths > 0) @ self.rotation
        )

    def coordinates(self, rows: CSRRows) -> FloatArray:
        """Return the coordinates of weighted rows along the singular vectors. Shapes: `rows` (n, d); returns (n, k)."""
        return sparse_products.times(rows, np.ascontiguousarray(self.components.T))


class Sample(NamedTuple):
    """Coordinates of every n-th row, shape (n, k)."""

    coordinates: NDArray[np.float64]

    @classmethod
    def of(cls, rows: CSRRows, numbers: NDArray[np.int64], *, axes: Axes, step: int) -> Self:
        """Take the rows of one block whose number is a multiple of the step."""
        taken = np.flatnonzero(numbers[:, 0] % step == 0)
        return cls(np.asarray(axes.coordinates(rows[taken]), dtype=np.float64))

    def merge(self, *others: Self) -> Self:
        """Return the sample of all rows."""
        return type(self)(np.concatenate([part.coordinates for part in (self, *others)]))


class TopicSums(NamedTuple):
    """Sums over the documents near each topic, and which are nearest.

    Shapes: `words` (k, d), `share` (k,), `cosines, nearest` (k, m): the largest, falling, and the numbers of their
    rows, or -1.
    """

    words: NDArray[np.float64]
    share: NDArray[np.float64]
    cosines: NDArray[np.float64]
    nearest: NDArray[np.int64]

    @classmethod
    def of(cls, rows: CSRRows, numbers: NDArray[np.int64], *, axes: Axes, n_nearest: int) -> Self:
        """Sum up one block of weighted rows and its row numbers."""
        coordinates = np.asarray(axes.coordinates(rows), dtype=np.float64)
        cosines = axes.cosines(coordinates)
        # Squares of rotated left singular vectors: few documents that are about nothing else tell a topic's words.
        typical = np.maximum(coordinates / axes.sizes @ axes.rotation, 0.0) ** 2
        words = np.asarray(rows.T @ typical).T
        # Documents without known words, or with nothing of the topic but rounding, are not typical of it.
        near = np.finfo(np.float32).eps < cosines.T
        nearest = np.where(near, numbers[:, 0], -1)
        part = cls(words, shares(cosines).sum(axis=0), np.where(near, cosines.T, -2.0), nearest)
        return part.first(n_nearest)

    @classmethod
    def needs(cls, block: BlockSize, *, axes: Axes, n_nearest: int) -> Need:
        """Return the bytes of a summary."""
        k, d = axes.components.shape
        size = 8 * k * (d + 2 * n_nearest)
        return Need(size, 2 * size + 24 * k * block.n_rows, block=size)

    def first(self, n: int) -> Self:
        """Keep the nearest documents, earlier rows first among equals."""
        k = len(self.share)
        best = np.lexsort((self.nearest, -self.cosines), axis=1)[:, :n]
        cosines, nearest = np.full((k, n), -2.0), np.full((k, n), -1)
        cosines[:, : best.shape[1]] = np.take_along_axis(self.cosines, best, axis=1)
        nearest[:, : best.shape[1]] = np.take_along_axis(self.nearest, best, axis=1)
        return self._replace(cosines=cosines, nearest=nearest)

    def merge(self, *others: Self) -> Self:
        """Return the sums of all rows."""
        parts = (self, *others)
        words = sum((part.words for part in others), self.words)
        share = sum((part.share for part in others), self.share)
        joined = (
            np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("cosines", "nearest")
        )
        return type(self)(words, share, *joined).first(self.nearest.shape[1])


def shares(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share (n, k) of topics in documents by squared cosines; zeros where no cosine is positive."""
    squares = np.maximum(cosines, 0.0) ** 2
    totals = squares.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(squares, totals, out=np.zeros_like(squares), where=totals > 0))
