"""Packed counts and their sums against SciPy's, over random rows, weights and numbers of pieces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral.cooccurrence.contexts import UNIT
from dspectral.cooccurrence.packed_counts import Coding, packed_rows, sum_of_packed
from dspectral.cooccurrence.windows import RowSums

WEIGHTS = st.sampled_from([np.ones(2), np.rint(UNIT / np.arange(1, 11)) / UNIT, np.array([0.5, 1.0, 0.0])])


def random_rows(draws, n_rows, n_columns, weights, density):
    """Sums of a few weights, here and there a large or an odd one or a zero, columns ascending in each row."""
    kinds = [
        lambda n: draws.choice(weights, n),
        lambda n: draws.choice(weights, (n, 4)).sum(axis=1),
        lambda n: draws.integers(0, 1 << 50, n) / UNIT,
    ]
    counts = sparse.random_array((n_rows, n_columns), density=density, format="csr", rng=draws)
    counts.sort_indices()
    counts.data = np.stack([kind(counts.nnz) for kind in kinds])[
        draws.choice(3, counts.nnz, p=[0.6, 0.3, 0.1]), range(counts.nnz)
    ]
    return counts


def parts(counts):
    return counts.data, counts.indices, counts.indptr.astype(np.int64)


def added_slowly(pieces):
    """One matrix after the other, as the linear sum must have the bits of."""
    total = sparse.csr_array(pieces[0].shape, dtype=np.float64)
    for piece in pieces:
        total = total + piece
    return total


def added(pieces, weights, *, group, room):
    """Pieces packed, and summed a group at a time."""
    n_rows, n_columns = pieces[0].shape
    coding, row = Coding.of(weights), RowSums.of(n_columns)
    total = np.empty(0), np.empty(0, np.int32), np.zeros(n_rows + 1, np.int64)
    for first in range(0, len(pieces), group):
        packed = [packed_rows(parts(one), coding).view(np.int64) for one in pieces[first : first + group]]
        starts = np.cumsum([0, *map(len, packed[:-1])])
        total = sum_of_packed(total, np.concatenate(packed), starts, coding, room, row)
    assert not any(part.any() for part in row)
    return total


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1 << 30),
    shape=st.tuples(st.integers(1, 6), st.sampled_from([1, 5, 63, 64, 65, 500, 9000])),
    weights=WEIGHTS,
    n_pieces=st.integers(1, 9),
    group=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    room=st.sampled_from([0, 3, 100_000]),
)
def test_the_sum_of_packed_pieces_has_the_bits_of_one_sum_after_the_other(
    seed, shape, weights, n_pieces, group, density, room
):
    draws = np.random.default_rng(seed)
    pieces = [random_rows(draws, *shape, weights, density) for _ in range(n_pieces)]
    expected = added_slowly(pieces)
    for found, part in zip(added(pieces, weights, group=group, room=room), parts(expected), strict=True):
        np.testing.assert_array_equal(found, part)


def test_most_counts_take_three_bytes_or_fewer():
    counts = sparse.random_array((20, 94_000), density=0.004, format="csr", rng=np.random.default_rng(0))
    counts.sort_indices()
    for weights in (np.ones(20), np.rint(UNIT / np.arange(1, 11)) / UNIT):
        counts.data = np.random.default_rng(1).choice(weights, (counts.nnz, 2)).sum(axis=1)
        assert len(packed_rows(parts(counts), Coding.of(weights))) < 3 * counts.nnz


@pytest.mark.parametrize("weights", [np.zeros(0), np.zeros(3), np.ones(1), 1 / 2.0 ** np.arange(20)])
def test_a_code_stands_for_one_value(weights):
    coding = Coding.of(weights)
    known = np.flatnonzero(coding.codes)
    np.testing.assert_array_equal(coding.values[coding.codes[known]], known * coding.quantum)
    assert len(known) == (255 if weights.any() else 0)
