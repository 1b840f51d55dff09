"""Corpora and arrays in blocks: the same trees, few reads, the same bits."""

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

from dspectral import TreePCA, build_corpus
from tests.methods.tmpca.sentences import WORDS, Counted, arrays, bits, texts, vectors
from tests.schedulers import scheduled


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("\n".join(" ".join(words) for words in texts(300)) + "\n")
    return build_corpus(str(folder / "text.txt"), str(folder / "corpus.zarr"), block_bytes=500)


def test_a_corpus_is_read_by_blocks_and_gives_what_lists_give(corpus):
    tree = TreePCA(length=8, vectors=vectors()).fit(corpus)
    lists = clone(tree).fit(texts(300))
    assert corpus.n_blocks > 5
    for ours, theirs in zip(tree.components_, lists.components_, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    lazy = tree.transform(corpus)
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (300, 4)
    assert len(lazy.chunks[0]) == corpus.n_blocks
    np.testing.assert_allclose(lazy.compute(), lists.transform(texts(300)), atol=1e-9)


LEVEL_2 = 8 * 4 * (100 + 600 // 4)
"""Bytes that the second level takes of 100 texts of 6 tokens, 4 components and length 16, at most."""


@pytest.mark.parametrize(
    ("length", "limit", "n_passes"),
    [(2, 0, 1), (16, 0, 4), (16, LEVEL_2 - 1, 4), (16, LEVEL_2, 3), (16, 1 << 20, 2), (4, 1 << 20, 2)],
)
@pytest.mark.parametrize("whiten", [False, True])
def test_each_block_is_read_once_for_each_level_that_is_not_kept(length, limit, n_passes, whiten):
    counted = Counted([sentence[:6] for sentence in texts(300, seed=3) if len(sentence) >= 6][:100], 5)
    assert len(counted.counts) == len(WORDS)
    how = {"length": length, "vectors": vectors(), "whiten": whiten}
    with dask.config.set({"scheduler": "sync", "dspectral.memory-limit": limit}):
        tree = TreePCA(**how).fit(counted)
    assert counted.reads == [n_passes] * 5
    assert tree.n_passes_ == n_passes
    with dask.config.set({"dspectral.memory-limit": 0}):
        other = TreePCA(**how).fit(counted)
    for ours, theirs in zip(tree.components_, other.components_, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_the_same_blocks_give_the_same_bits_under_every_scheduler(corpus):
    X = da.from_array(arrays(200, 8, 3), chunks=(30, -1, -1))
    found = []
    for kind in ("sync", "threads", "distributed"):
        with scheduled(kind):
            found.append(of_both(X, corpus))
    assert found[0] == found[1] == found[2]


def of_both(X, corpus):
    """Bits of an array that is read for each level, and of texts whose nodes are kept."""
    kept = TreePCA(length=8, vectors=vectors(), whiten=True)
    with dask.config.set({"dspectral.memory-limit": 0}):
        frugal = TreePCA(length=8).fit(X)
    return bits(frugal, X), bits(kept.fit(corpus), corpus)


def test_frames_are_made_in_memory_and_lazy_results_stay_lazy(corpus):
    tree = TreePCA(length=4, vectors=vectors()).set_output(transform="pandas").fit(corpus)
    assert list(tree.transform(texts()).columns) == [f"treepca{i}" for i in range(4)]
    assert isinstance(tree.transform(corpus), da.Array)
    assert isinstance(tree.fit_transform(corpus), da.Array)
    lazy = da.from_array(arrays(length=4), chunks=(20, -1, -1))
    assert isinstance(TreePCA(length=4).set_output(transform="pandas").fit_transform(lazy), da.Array)
