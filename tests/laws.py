"""The laws that every summary promises, over random blocks and cuts; a class with ``merge`` that has no case fails."""

from functools import partial
from importlib import import_module
from itertools import pairwise
from pkgutil import walk_packages

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dspectral
from dspectral.decomposition.moments import GramProduct, Moments
from dspectral.methods.lsi.local_regions import LocalSpaces
from dspectral.methods.tmpca.levels import CollectedNodes
from tests.law_cases import CASES, SKETCHES, SLACK
from tests.strategies import cuts, matrices, split

by_name = pytest.mark.parametrize("law", CASES, ids=[one.name for one in CASES])


def arrays(summary):
    """All numbers in a summary, however nested, as arrays in one order."""
    if isinstance(summary, str) or summary is None:
        return []
    if sparse.issparse(summary):
        return [summary.toarray()]
    if isinstance(summary, np.ndarray | float | int | np.generic):
        return [np.asarray(summary)]
    parts = [array for field in summary for array in arrays(field)]
    if isinstance(summary, CollectedNodes):  # one entry a block: the nodes of all of them are what counts
        return [np.concatenate(parts[0::2]), np.concatenate(parts[1::2])]
    return parts


def buffers(value):
    """All arrays behind a block or a summary."""
    if isinstance(value, np.ndarray):
        return [value]
    if sparse.issparse(value):
        return [value.data, value.indices, value.indptr]
    return [array for part in value for array in buffers(part)] if isinstance(value, tuple) else []


def lock(*values):
    for value in values:
        for array in buffers(value):
            array.flags.writeable = False


def drawn(law, n, seed=3):
    return [stream(np.random.default_rng(seed + i), n) for i, stream in enumerate(law.streams)]


def summaries(law, streams, borders):
    pairs = list(pairwise(borders))
    return [law.of(*(stream.part(a, b) for stream in streams)) for a, b in pairs]


def test_every_class_with_a_merge_has_a_case():
    for module in walk_packages(dspectral.__path__, "dspectral."):
        import_module(module.name)
    inside = [kind for kind in tuple.__subclasses__() if kind.__module__.startswith("dspectral.")]
    with_merge = {kind for kind in inside if "merge" in vars(kind)}
    assert {kind.__name__ for kind in with_merge - {law.kind for law in CASES}} == set()


@by_name
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_where_blocks_are_cut_does_not_matter(law, data):
    n = data.draw(st.integers(1, 30))
    streams = drawn(law, n, data.draw(st.integers(0, 99)))
    first, *others = summaries(law, streams, data.draw(cuts(n)))
    (whole,) = summaries(law, streams, [0, n])
    if law.kind in SKETCHES:
        return  # tests/decomposition holds the bound; spaces of classes are only listed
    for actual, expected in zip(arrays(first.merge(*others)), arrays(whole), strict=True):
        rounding = 1e-6 if expected.dtype == np.float32 else 1e-9
        limit = rounding * (1.0 + np.abs(expected).max(initial=0))
        np.testing.assert_allclose(actual, expected, rtol=rounding, atol=limit)


@by_name
@settings(max_examples=10, deadline=None, derandomize=True)
@given(n=st.integers(1, 20), seed=st.integers(0, 99))
def test_an_empty_block_changes_nothing(law, n, seed):
    if law.kind is LocalSpaces:
        return  # a list of spaces: a class without rows is a space without directions, and stays in the list
    streams = drawn(law, n, seed)
    whole, nothing = summaries(law, streams, [0, n, n])
    for other in (whole.merge(nothing), nothing.merge(whole)):
        for actual, expected in zip(arrays(other), arrays(whole), strict=True):
            np.testing.assert_array_equal(actual, expected)


@by_name
def test_inputs_stay_as_they_are_and_the_same_order_gives_the_same_bits(law):
    streams = drawn(law, 24)
    blocks = [[stream.part(a, b) for stream in streams] for a, b in ((0, 10), (10, 24))]
    lock(*(block for pair in blocks for block in pair))
    a, b = (law.of(*block) for block in blocks)
    lock(a, b)
    for one, two in zip(arrays(a.merge(b)), arrays(a.merge(b)), strict=True):
        np.testing.assert_array_equal(one, two)


@by_name
def test_summary_takes_at_most_the_bytes_that_its_class_states(law):
    n = 400
    parts = summaries(law, drawn(law, n), [0, 100, 250, 399, n])
    for summary in (*parts, parts[0].merge(*parts[1:])):
        assert sum(array.nbytes for array in buffers(summary)) <= law.most_bytes(n) + SLACK


@pytest.mark.parametrize("size", [3, 5])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_sparse_and_dense_rows_have_the_same_summary(size, data):
    X = data.draw(matrices())
    borders = data.draw(cuts(len(X)))
    factor = np.random.default_rng(0).standard_normal((X.shape[1], size))
    for of in (Moments.from_block, partial(GramProduct.from_block, factor=factor)):
        first, *others = [of(block) for block in split(X, borders)]
        actual, reference = first.merge(*others), of(sparse.csr_array(X))
        scale = float(np.sum(X**2)) + 1.0
        for one, other in zip(arrays(actual), arrays(reference), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11 * scale)
