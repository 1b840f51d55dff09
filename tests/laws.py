"""The laws that every summary promises, over random rows and cuts."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral.decomposition.frequent_directions import FrequentDirections
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.decomposition.random_range import RandomRange
from dspectral.methods.lsi.squared_hinge import Relevancy, SquaredHinge
from tests.strategies import cuts, matrices, split


def product_with_ones(rows):
    return GramProduct.of(rows, factor=np.ones((rows.shape[1], 2)))


def hinge(rows):
    d = rows.shape[1]
    members = np.asarray(abs(rows).sum(axis=1))[:, None] > [1.0, 2.0]
    weights = Relevancy(np.full((d, 2), 0.1), np.array([0.2, -0.2]), 1.5, 0.1)
    return SquaredHinge.of(rows, members, axes=np.full((d, 2), 1e-3), offsets=np.zeros(2), relevancy=weights)


EXACT = [Moments.of, product_with_ones, partial(RandomRange.of, size=5), hinge]
ALL = [*EXACT, partial(FrequentDirections.of, size=5), partial(FrequentDirections.of, size=5, center=True)]


def arrays(summary):
    return [np.asarray(field, dtype=float) for field in summary if not isinstance(field, str)]


@pytest.mark.parametrize("of", EXACT, ids=["Moments", "GramProduct", "RandomRange", "SquaredHinge"])
@settings(max_examples=50, deadline=None, derandomize=True)
@given(data=st.data())
def test_merging_the_parts_gives_the_whole_however_it_is_cut(of, data):
    X = data.draw(matrices())
    first, *others = [of(block) for block in split(X, data.draw(cuts(len(X))))]
    scale = float(np.sum(X**2)) + 1.0
    for ours, whole in zip(arrays(first.merge(*others)), arrays(of(X)), strict=True):
        np.testing.assert_allclose(ours, whole, rtol=1e-10, atol=1e-12 * scale)


@pytest.mark.parametrize("of", ALL)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(X=matrices())
def test_an_empty_block_changes_nothing(of, X):
    whole, nothing = of(X), of(X[:0])
    for other in (whole.merge(nothing), nothing.merge(whole)):
        for ours, expected in zip(arrays(other), arrays(whole), strict=True):
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("of", ALL)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_inputs_are_not_written_to_and_the_same_bits_come_back(of, kind):
    X = kind(np.random.default_rng(0).standard_normal((30, 6)))
    for array in [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]:
        array.flags.writeable = False
    a, b = of(X[:10] if kind is np.asarray else X), of(X)
    for array in arrays(a) + arrays(b):
        array.flags.writeable = False
    for one, two in zip(arrays(a.merge(b)), arrays(a.merge(b)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("of", ALL)
def test_sparse_and_dense_rows_leave_the_same_summary(of):
    X = np.random.default_rng(1).poisson(0.4, size=(40, 9)).astype(float)
    dense, csr = of(X), of(sparse.csr_array(X))
    for pair in zip(arrays(dense), arrays(csr), strict=True):
        is_sketch = pair[0].ndim == 2 and pair[0].shape[1] == 9 and len(pair[0]) != 9
        ours, theirs = (rows.T @ rows for rows in pair) if is_sketch else pair  # rows of a sketch: up to sign
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
