from functools import partial
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dspectral import summarize, write_counts
from dspectral.datasets import labelled_counts
from dspectral.decomposition.moments import Moments
from dspectral.decomposition.random_range import RandomRange
from dspectral.engine import listening
from dspectral.engine.events import PassBegan
from dspectral.engine.summary import BlockSize, need_of
from dspectral.linalg.tensors import unfolded_symmetric
from dspectral.methods.multilabel.moments import FirstMoments, ThirdMoment
from dspectral.methods.multilabel.state_statistics import StateStatistics
from tests.strategies import cuts, split


def documents(rng, n, d=7, n_labels=4):
    return rng.poisson(0.7, size=(n, d)).astype(float), (rng.random((n, n_labels)) < 0.4).astype(float)


def brute_force(X, W):
    """Moments over ordered pairs and triples of distinct positions, one word at a time."""
    k = W.shape[1]
    second, third = np.zeros((k, k)), np.zeros((k, k, k))
    for row in X.astype(int):
        words = np.repeat(np.arange(len(row)), row)
        for i, j in permutations(range(len(words)), 2):
            second += np.outer(W[words[i]], W[words[j]])
        for triple in combinations(range(len(words)), 3):
            for i, j, m in permutations(triple):
                third += np.einsum("a,b,c->abc", W[words[i]], W[words[j]], W[words[m]])
    return second, third


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_unbiased_moments_are_sums_over_distinct_positions(kind):
    rng = np.random.default_rng(0)
    X, _ = documents(rng, 12)
    W = rng.standard_normal((7, 3))
    found = ThirdMoment.of(kind(X), whitening=W, counts=True, distinct=True)
    second, third = brute_force(X, W)
    np.testing.assert_allclose(found.second, second, atol=1e-9)
    np.testing.assert_allclose(unfolded_symmetric(found.third), third, atol=1e-9)
    n = X.sum(axis=1)
    assert found.pairs == (n * (n - 1)).sum()
    assert found.triples == (n * (n - 1) * (n - 2)).sum()


def test_the_printed_moments_pair_each_word_with_itself():
    rng = np.random.default_rng(1)
    X, _ = documents(rng, 20)
    W, A = rng.standard_normal((7, 3)), (X > 0).astype(float)
    found = ThirdMoment.of(X, whitening=W, counts=False, distinct=False)
    np.testing.assert_allclose(found.second, W.T @ A.T @ A @ W)
    Y = A @ W
    np.testing.assert_allclose(unfolded_symmetric(found.third), np.einsum("na,nb,nc->abc", Y, Y, Y))
    assert found.triples == (A.sum(axis=1) ** 3).sum()


def summaries(rng):
    log_words = np.log(rng.dirichlet(np.ones(7), size=3).T)
    state = partial(
        StateStatistics.of,
        log_words=log_words,
        log_weights=np.log(np.ones(3) / 3),
        directions=np.eye(7)[:, :2],
        column_weights=np.arange(1.0, 8.0),
        counts=True,
    )
    first = partial(FirstMoments.of, sketch=Moments.of, counts=False, distinct=True, rank=2)
    return [state, partial(state, squares=log_words, distinct=True), first]


def flat(summary):
    out = []
    for field in summary:
        plain = field.toarray() if sparse.issparse(field) else field
        out += flat(field) if isinstance(field, tuple) else [np.asarray(plain, dtype=float)]
    return out


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_merging_the_parts_gives_the_whole_however_it_is_cut(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    X, Y = documents(rng, data.draw(st.integers(1, 30)))
    borders = data.draw(cuts(len(X)))
    for of in summaries(rng):
        first, *others = [of(x, y) for x, y in zip(split(X, borders), split(Y, borders), strict=True)]
        for ours, whole in zip(flat(first.merge(*others)), flat(of(X, Y)), strict=True):
            np.testing.assert_allclose(ours, whole, rtol=1e-4, atol=1e-4)  # label sums are in float32


def test_inputs_are_not_written_to_and_sparse_is_as_dense():
    rng = np.random.default_rng(2)
    X, Y = (sparse.csr_array(part) for part in documents(rng, 15))
    for of in summaries(rng):
        dense = flat(of(X.toarray(), Y.toarray()))
        for matrix in (X, Y):
            for array in (matrix.data, matrix.indices, matrix.indptr):
                array.flags.writeable = False
        for ours, expected in zip(flat(of(X, Y)), dense, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_labels_of_other_documents_and_negative_counts_are_errors():
    of = summaries(np.random.default_rng(0))[2]
    with pytest.raises(ValueError, match="2 rows of labels for 3 rows of words"):
        of(np.ones((3, 7)), np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"row 1, column 2 is -1.0, but a word occurs 0 times or more"):
        of(np.array([[1.0, 0, 0], [0, 0, -1.0]]), np.ones((2, 4)))


def test_the_first_pass_joins_small_blocks_and_finds_the_same(tmp_path):
    words, labels = labelled_counts(600, 3000, 400, 5, block_rows=60, seed=3)
    store = write_counts(words, str(tmp_path / "store"), labels=labels)
    of = partial(FirstMoments.of, sketch=partial(RandomRange.of, size=12), counts=True, distinct=True, rank=8)
    need = need_of(of, BlockSize(60, 3000, 4, True))
    alone = of(store.counts.blocks[0].compute(), store.labels.blocks[0].compute())
    assert need == (0, 0, 2 * (alone.sketch.product.nbytes + alone.label_range.nbytes))
    heard = []
    with listening(lambda event: heard.append(event) if isinstance(event, PassBegan) else None):
        joined = summarize(store, store.labels, of=of)
        each = summarize(store.counts.blocks[:], store.labels.blocks[:], of=of)
    (few, _) = heard
    assert 1 < few.n_blocks < few.n_joined == 10
    assert joined.pairs == each.pairs
    assert np.array_equal(joined.document_frequency, each.document_frequency)
    assert np.allclose(joined.label_range, each.label_range, rtol=1e-5, atol=1e-5)
