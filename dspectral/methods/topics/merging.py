"""Topics of two texts as one model: matched by their words, and summed."""

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dspectral.linalg.dense import normalize_rows
from dspectral.methods.topics.rotation import TopicAxes, TopicSums
from dspectral.types import Doubles, FloatArray, IntArray


class PlacedTopics(NamedTuple):
    """Topics in the columns of two models, shape (k, d).

    `sums`: words and shares times the number of documents; `directions` (k, d): axes of topics, times the same;
    `factor` (r, d): singular vectors times singular values; `document_frequency` (d,), `n_documents` (d,): 0 for
    columns that the model does not use.
    """

    sums: TopicSums
    directions: FloatArray
    factor: FloatArray
    document_frequency: Doubles
    n_documents: Doubles

    @classmethod
    def from_arrays(
        cls, sums: TopicSums, axes: TopicAxes, idf: FloatArray, n_rows: int, columns: IntArray, n_columns: int
    ) -> Self:
        """Scatter columns to their positions, shape (d,), and invert the inverse document frequencies."""

        def scatter(values: FloatArray) -> Doubles:
            out = np.zeros((*values.shape[:-1], n_columns))
            out[..., columns] = values
            return out

        mass = sums.share[:, None]
        return cls(
            sums._replace(words=scatter(mass * sums.words)),
            scatter(mass * (axes.rotation.T @ axes.components)),
            scatter(axes.singular_values[:, None] * axes.components),
            scatter((1 + n_rows) * np.exp(1 - idf) - 1),
            scatter(np.full(len(columns), float(n_rows))),
        )

    def renumber(self, numbers: IntArray, n_topics: int) -> Self:
        """Return the topics under other numbers, with empty ones in between."""

        def scatter(values: Any, empty: float = 0.0) -> Any:
            out = np.full((n_topics, *values.shape[1:]), empty, dtype=values.dtype)
            out[numbers] = values
            return out

        words, share, cosines, nearest = self.sums
        sums = TopicSums(scatter(words), scatter(share), scatter(cosines, -2.0), scatter(nearest, -1))
        return self._replace(sums=sums, directions=scatter(self.directions))


def match_topics(first: FloatArray, second: FloatArray, min_cosine: float) -> NDArray[np.int64]:
    """Return the number of each topic of the second model (m,) in the first one; topics without a match get new ones.

    The assignment has the largest sum of cosines; pairs below ``min_cosine`` do not match. Shapes: (k, d), (m, d).
    """
    cosines = normalize_rows(first) @ normalize_rows(second).T
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    is_match = cosines[rows, columns] >= min_cosine
    numbers = np.full(len(second), -1)
    numbers[columns[is_match]] = rows[is_match]
    is_new = numbers < 0
    numbers[is_new] = len(first) + np.arange(is_new.sum())
    return numbers


def merge_topics(
    first: PlacedTopics, second: PlacedTopics, n_rows: int, n_nearest: int, min_cosine: float
) -> tuple[TopicSums, TopicAxes, Doubles]:
    """Return sums, axes and inverse document frequencies of the topics of two models with `n_rows` documents."""
    numbers = match_topics(first.sums.words, second.sums.words, min_cosine)
    k = max(len(first.directions), int(numbers.max()) + 1)
    first, second = first.renumber(np.arange(len(first.directions)), k), second.renumber(numbers, k)
    sums = first.sums.keep_nearest(n_nearest).merge(second.sums)
    # The polar factor of the directions is the nearest set of orthonormal axes.
    left, values, right = scipy.linalg.svd(normalize_rows(first.directions + second.directions), full_matrices=False)
    rank = int(np.sum(values > np.finfo(np.float32).eps * values[0]))
    components = right[:rank]
    energy = sum(np.square(part.factor @ components.T).sum(axis=0) for part in (first, second))
    axes = TopicAxes(components, np.sqrt(energy), left[:, :rank].T)
    # A column that one model does not use has the same share of documents in its text.
    seen = first.n_documents + second.n_documents
    frequency = (first.document_frequency + second.document_frequency) * (n_rows / seen)
    return sums, axes, np.log((1 + n_rows) / (1 + frequency)) + 1
