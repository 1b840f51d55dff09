"""Moments of labelled sequences: the past, the future and the token itself, for each label."""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dspectral._compiled import read_only
from dspectral.engine.summary import add_fields
from dspectral.methods.hmm.chain import check_ids, check_labels
from dspectral.methods.hmm.refinement.recursions import add_products, write_views
from dspectral.types import LabelledSentences

PIECE = 1 << 12
"""Number of tokens whose views are held at once; a longer sentence is a piece of its own."""


class Views(NamedTuple):
    """How the past and the future of a token become numbers: sums over its side that decay with distance.

    `vectors` (n_types, k): vector of each type of token; `memory`: decay rates of sums of vectors, of labels
    and of ones over the whole side of the sentence; `run_memory`: decay rates of sums of vectors and of ones
    that restart where the label changes; `n_labels`: number of labels.
    """

    vectors: NDArray[np.float64]
    memory: NDArray[np.float64]
    run_memory: NDArray[np.float64]
    n_labels: int

    @property
    def width(self) -> int:
        """Number of entries of one view."""
        k = int(self.vectors.shape[1])
        return len(self.memory) * (k + self.n_labels + 1) + len(self.run_memory) * (k + 1)

    def of(self, block: LabelledSentences) -> NDArray[np.float64]:
        """Return ``[past, future, 1]`` of all tokens, shape (n_tokens, 2 width + 1)."""
        width = self.width
        rows = np.empty((len(block.ids), 2 * width + 1))
        rows[:, -1] = 1.0
        vectors, memory, run_memory = (read_only(part) for part in self[:3])
        for step, out in ((1, rows[:, :width]), (-1, rows[:, width : 2 * width])):
            write_views(block, vectors, memory, run_memory, self.n_labels, step, out)
        return rows


class ViewMoments(NamedTuple):
    """First and second moments of past and future, for each label.

    `gram` (n_labels, 2 width + 1, 2 width + 1): sum over the tokens of a label of ``row' row`` with ``row =
    [past, future, 1]``.

    >>> views = Views(np.eye(2), np.array([0.0]), np.array([]), 1)
    >>> one = np.zeros(3, dtype=np.int32)
    >>> block = LabelledSentences(np.array([0, 1, 1], dtype=np.int32), one, np.array([0, 3]))
    >>> ViewMoments.of(block, views=views).gram[0, -1]
    array([1., 1., 2., 2., 0., 2., 2., 2., 3.])
    """

    gram: NDArray[np.float64]

    @classmethod
    def of(cls, block: LabelledSentences, *, views: Views) -> Self:
        """Summarize one block."""
        check_block(block, len(views.vectors), views.n_labels)
        # The views of a piece are held, not those of the block: 8 PIECE (2 width + 1) bytes. Time is O(n width^2).
        width = 2 * views.width + 1
        gram = np.zeros((views.n_labels, width, width))
        for piece in cut_block(block):
            rows = views.of(piece)
            # Grouped by label, the moments are matrix products rather than a loop over tokens.
            for label in np.unique(piece.labels):
                own = rows[piece.labels == label]
                gram[label] += own.T @ own
        return cls(gram)

    def merge(self, *others: Self) -> Self:
        """Return the moments of all sentences."""
        return add_fields(self, *others)


class OperatorMoments(NamedTuple):
    """Second and third moments of projected past, token and projected future.

    The first coordinate of each projected view is 1.

    `joint` (n_labels, n_types, m, m): sum of ``future past'`` at each token, by its label and type; `steps`
    (n_labels, n_labels, m, m): sum of the next token's future times the token's past, by the token's label
    and the next one's; `first` (n_labels, m): sum of the future of first tokens, by label; `last` (n_labels,
    m): sum of the past of last tokens, by label.

    ``8 n_labels (n_types + n_labels) m^2`` bytes.
    """

    joint: NDArray[np.float64]
    steps: NDArray[np.float64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        block: LabelledSentences,
        *,
        views: Views,
        past: NDArray[np.float64],
        future: NDArray[np.float64],
    ) -> Self:
        """Summarize one block.

        Shapes: `past, future` (n_labels, width + 1, m).
        """
        n_types, n_labels, m = len(views.vectors), views.n_labels, past.shape[2]
        check_block(block, n_types, n_labels)
        out = cls(
            np.zeros((n_labels, n_types, m, m)),
            np.zeros((n_labels, n_labels, m, m)),
            np.zeros((n_labels, m)),
            np.zeros((n_labels, m)),
        )
        # Past and future in one product of 2 width + 1 by 2 m, which costs O(n width m); the sums add O(n m^2).
        both = join_projections(past, future)
        for piece in cut_block(block):
            rows = project(views.of(piece), piece.labels, both)
            add_products(piece, rows[:, :m], rows[:, m:], *out)
        return out

    def merge(self, *others: Self) -> Self:
        """Return the moments of all sentences."""
        return add_fields(self, *others)


def join_projections(past: NDArray[np.float64], future: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one projection of ``[past, future, 1]`` to both, shape (n_labels, 2 width + 1, 2 m)."""
    # Block-diagonal, but for the last row, which both share: that of the constant, where means are taken off.
    n_labels, width, m = past.shape[0], past.shape[1] - 1, past.shape[2]
    both = np.zeros((n_labels, 2 * width + 1, 2 * m))
    both[:, :width, :m], both[:, width:-1, m:] = past[:, :-1], future[:, :-1]
    both[:, -1, :m], both[:, -1, m:] = past[:, -1], future[:, -1]
    return both


def project(
    rows: NDArray[np.float64], labels: NDArray[np.int32], projections: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Project each row by its label's projection, shape (n_tokens, 2 m)."""
    out = np.empty((len(rows), projections.shape[2]))
    for label in np.unique(labels):
        # One product for each label, as each has a projection of its own.
        own = labels == label
        out[own] = rows[own] @ projections[label]
    return out


def check_block(block: LabelledSentences, n_types: int, n_labels: int) -> None:
    """Raise a ValueError if an id or a label is out of range."""
    check_ids(block.ids, n_types)
    check_labels(block.labels, n_labels)


def cut_block(block: LabelledSentences) -> Iterator[LabelledSentences]:
    """Yield pieces of whole sentences with about ``PIECE`` tokens each."""
    # Sums restart at sentences, so only whole ones may be cut off; a search in the offsets finds where.
    start, n = 0, len(block.offsets) - 1
    while start < n:
        stop = int(np.searchsorted(block.offsets, block.offsets[start] + PIECE, side="right")) - 1
        stop = min(n, max(start + 1, stop))
        low, high = block.offsets[start], block.offsets[stop]
        yield LabelledSentences(
            read_only(block.ids[low:high]),
            read_only(block.labels[low:high]),
            read_only(block.offsets[start : stop + 1] - low),
        )
        start = stop
