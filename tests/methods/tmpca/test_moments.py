"""Moments of joined vectors and counts of pairs: cuts do not matter, padding is counted, both ways agree."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspectral.decomposition.moments import Moments
from dspectral.methods.tmpca.levels import TokenPairCounts, level_moments
from dspectral.methods.tmpca.nodes import Trees
from dspectral.types import Sentences

N_TYPES, D = 7, 3


@st.composite
def texts(draw):
    """Sentences of ids, some empty, some longer than any tree, and where to cut them into blocks."""
    sentences = draw(st.lists(st.lists(st.integers(0, N_TYPES - 1), max_size=12), max_size=12))
    borders = sorted(draw(st.lists(st.integers(0, len(sentences)), max_size=3)))
    edges = [0, *borders, len(sentences)]
    return sentences, [sentences[a:b] for a, b in pairwise(edges)]


def padded(sentences, length, table):
    """An array of shape (n, length, d), token by token."""
    out = np.zeros((len(sentences), length, table.shape[1]))
    for i, sentence in enumerate(sentences):
        for j, token in enumerate(sentence[:length]):
            out[i, j] = table[token]
    return out


def table_of(seed=0):
    return np.random.default_rng(seed).standard_normal((N_TYPES, D))


def bases(n_levels, arity, seed=1):
    rng = np.random.default_rng(seed)
    widths = [D] + [2] * n_levels
    return [rng.standard_normal((2, arity * width)) for width in widths[:n_levels]]


def climbed_by_hand(rows, axes, arity):
    for level in axes:
        n, length, width = rows.shape
        rows = rows.reshape(n, length // arity, arity * width) @ level.T
    return rows


@pytest.mark.parametrize(("arity", "length"), [(2, 8), (3, 9)])
@pytest.mark.parametrize("below", [0, 1])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(cut=texts())
def test_moments_of_any_cut_are_those_of_the_padded_array(arity, length, below, cut):
    sentences, blocks = cut
    table, axes = table_of(), bases(below, arity)
    of = partial(level_moments, trees=Trees(length, arity, D, table), axes=axes)
    first, *others = [of(Sentences.from_ids(block)) for block in blocks]
    merged = first.merge(*others)
    rows = climbed_by_hand(padded(sentences, length, table), axes, arity)
    rows = rows.reshape(-1, arity * rows.shape[2])
    expected = Moments.from_block(rows)
    assert merged.n_rows == expected.n_rows == len(sentences) * length // arity ** (below + 1)
    np.testing.assert_allclose(merged.total, expected.total, atol=1e-9)
    np.testing.assert_allclose(merged.gram, expected.gram, atol=1e-8)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cut=texts())
def test_counts_of_pairs_are_the_first_level(cut):
    block, table = Sentences.from_ids(cut[0]), table_of()
    actual = TokenPairCounts.from_block(block, n_types=N_TYPES, length=8).moments(table)
    reference = level_moments(block, trees=Trees(8, 2, D, table), axes=())
    assert actual.n_rows == reference.n_rows
    np.testing.assert_allclose(actual.total, reference.total, atol=1e-10)
    np.testing.assert_allclose(actual.gram, reference.gram, atol=1e-10)


@pytest.mark.parametrize(("wrong", "named"), [(7, 7), (-1, -1)])
def test_a_word_type_out_of_range_is_named(wrong, named):
    block = Sentences.from_ids([[0], [1, wrong]])
    with pytest.raises(ValueError, match=f"word type {named}.*6"):
        level_moments(block, trees=Trees(4, 2, D, table_of()), axes=())
    with pytest.raises(ValueError, match=f"word type {named}.*6"):
        TokenPairCounts.from_block(block, n_types=N_TYPES, length=4)
