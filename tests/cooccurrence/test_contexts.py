"""Co-occurrence counts against a plain dictionary, and sums of packed counts against SciPy's."""

from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral.cooccurrence.contexts import WEIGHT_UNIT, ContextCounts, RowSums, make_window
from dspectral.cooccurrence.packed_counts import pack_rows, sum_packed_rows
from dspectral.cooccurrence.scaling import ContextScaling
from dspectral.types import Sentences

N_TYPES = 7
SENTENCES = st.lists(st.lists(st.integers(0, N_TYPES - 1), max_size=12), max_size=20)
SETTINGS = st.fixed_dictionaries(
    {
        "window": st.integers(1, 14),
        "context": st.sampled_from(["bag", "list", "zones"]),
        "sides": st.sampled_from(["both", "left", "right"]),
        "distance_weighting": st.booleans(),
    }
)


def counted(sentences, *, window, context="bag", sides="both", distance_weighting=False):
    """Counts as a dictionary from (word, context), word by word."""
    steps = [d for d in range(-window, window + 1) if d]
    steps = [d for d in steps if sides == "both" or (d < 0) == (sides == "left")]
    counts = Counter()
    for sentence in sentences:
        for i, word in enumerate(sentence):
            for position, step in enumerate(steps):
                if 0 <= i + step < len(sentence):
                    group = {"bag": 0, "list": position, "zones": int(abs(step) > 2)}[context]
                    column = sentence[i + step] + group * N_TYPES
                    counts[word, column] += 1 / abs(step) if distance_weighting else 1
    return counts


def as_dictionary(counts):
    rows, columns = counts.tocoo().coords
    return dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), counts.data.tolist(), strict=True))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sentences=SENTENCES, how=SETTINGS)
def test_counts_are_those_of_a_dictionary(sentences, how):
    actual = ContextCounts.from_block(Sentences.from_ids(sentences), n_types=N_TYPES, **how)
    expected = counted(sentences, **how)
    assert as_dictionary(actual.counts) == pytest.approx(dict(expected), rel=1e-4)
    assert actual.n_tokens == sum(map(len, sentences))
    if not how["distance_weighting"]:
        assert as_dictionary(actual.counts) == expected


@settings(max_examples=40, deadline=None, derandomize=True)
@given(sentences=SENTENCES, how=SETTINGS, n_contexts=st.integers(1, 9))
def test_hashing_adds_up_equal_columns(sentences, how, n_contexts):
    of = partial(ContextCounts.from_block, Sentences.from_ids(sentences), n_types=N_TYPES, **how)
    table = make_window(N_TYPES, n_contexts=n_contexts, **how).columns
    expected = np.zeros((N_TYPES, n_contexts))
    np.add.at(expected.T, table, of().counts.toarray().T)
    np.testing.assert_array_equal(of(n_contexts=n_contexts).counts.toarray(), expected)


def test_long_rows_are_sorted():
    ids = np.random.default_rng(0).integers(3000, size=20_000)
    counts = ContextCounts.from_block(Sentences.from_ids([ids]), n_types=3000, window=20).counts
    assert all(np.all(np.diff(counts.indices[a:b]) > 0) for a, b in pairwise(counts.indptr))
    assert counts.sum() == 2 * sum(len(ids) - d for d in range(1, 21))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": 0}, "window.*0"),
        ({"window": 2, "context": "set"}, "context.*'set'"),
        ({"window": 2, "n_contexts": 0}, "n_contexts.*0"),
        ({"window": 2, "n_types": 3}, r"word type 4.*0 to 2"),
        ({"window": 2**30, "context": "list"}, "number"),
    ],
)
def test_invalid_parameters_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        ContextCounts.from_block(Sentences.from_ids([[0, 4]]), **{"n_types": 5, **wrong})


WEIGHTS = st.sampled_from([np.ones(2), np.rint(WEIGHT_UNIT / np.arange(1, 11)) / WEIGHT_UNIT, np.array([0.5, 1.0])])


def random_rows(draws, n_rows, n_columns, weights, density):
    """Sums of a few weights, columns ascending in each row."""
    counts = sparse.random_array((n_rows, n_columns), density=density, format="csr", rng=draws)
    counts.sort_indices()
    counts.data = draws.choice(weights, (counts.nnz, 4)).sum(axis=1)
    return counts


def parts(counts):
    return counts.data, counts.indices, counts.indptr.astype(np.int64)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1 << 30),
    shape=st.tuples(st.integers(1, 6), st.sampled_from([1, 5, 63, 64, 65, 500, 9000])),
    weights=WEIGHTS,
    n_pieces=st.integers(1, 9),
    group=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
)
def test_sum_of_packed_rows_is_bit_identical_to_sums_in_turn(seed, shape, weights, n_pieces, group, density):
    draws = np.random.default_rng(seed)
    pieces = [random_rows(draws, *shape, weights, density) for _ in range(n_pieces)]
    expected, row = sum(pieces, sparse.csr_array(shape, dtype=np.float64)), RowSums.allocate(shape[1])
    total = parts(sparse.csr_array(shape, dtype=np.float64))
    for first in range(0, n_pieces, group):
        packed = [pack_rows(parts(piece)) for piece in pieces[first : first + group]]
        total = sum_packed_rows(total, np.concatenate(packed), np.cumsum([0, *map(len, packed[:-1])]), row)
    assert not any(part.any() for part in row)
    for actual, part in zip(total, parts(expected), strict=True):
        np.testing.assert_array_equal(actual, part)


@pytest.mark.parametrize("smoothing", [-0.001, 1.001, float("nan")])
def test_smoothing_is_a_power_from_0_to_1(smoothing):
    for end in (0, 1):
        ContextScaling.from_column_sums(np.array([3.0, 0.0, 1.0]), smoothing=end)
    with pytest.raises(ValueError, match=f"context_smoothing.*{smoothing}"):
        ContextScaling.from_column_sums(np.array([3.0, 0.0, 1.0]), smoothing=smoothing)
