"""What is left of a sentence: against a transcription, node by node, over texts, arrays, cuts and empty sentences."""

import dask.array as da
import numpy as np
import pytest

from dspectral import TreePCA
from dspectral.methods.tmpca import nodes
from tests.methods.tmpca.test_tree_pca import padded

WORDS = ["a", "b", "c", "d", "e", "f"]


def vectors(d=3, seed=0):
    return WORDS, np.random.default_rng(seed).standard_normal((len(WORDS), d))


def texts(n=30, most=11, seed=1):
    rng = np.random.default_rng(seed)
    return [[], *([WORDS[i] for i in rng.integers(0, 6, size=rng.integers(0, most))] for _ in range(n)), []]


def levels_of(tree, leaves, n_leaves, step=None):
    """Nodes of each level of one sentence, as the paper says it, and how many are not padding alone.

    Nodes of a level begin ``step`` nodes of the level below apart, by default as many as they join.
    """
    found, now, used = [], np.asarray(leaves, dtype=float), n_leaves
    apart, step = 1, step or tree.arity
    for axes, variances in zip(tree.components_, tree.explained_variance_, strict=True):
        scale = np.sqrt(variances) if tree.whiten else np.ones(len(axes))
        beyond = np.vstack([now, np.zeros((apart * tree.arity, now.shape[1]))])
        joined = [np.concatenate(beyond[i : i + apart * tree.arity : apart]) for i in range(0, len(now), step)]
        now = np.array([[row @ one / s for row, s in zip(axes, scale, strict=True)] for one in joined])
        apart, used = apart * tree.arity // step, -(-used // step)
        found.append((now, used))
    return found


def expected(tree, leaves, n_leaves):
    found = levels_of(tree, leaves, n_leaves, step=1 if tree.output == "sliding" else None)
    if tree.output == "root":
        return found[-1][0][0]
    if tree.output == "levels":
        return np.concatenate([node for level, _ in found for node in level])
    parts = []
    for level, used in [(np.asarray(leaves, dtype=float), n_leaves), *found]:
        some = level[:used] if used else np.zeros((1, level.shape[1]))
        parts += [some[0], some.mean(axis=0), some.min(axis=0), some.max(axis=0)]
    return np.concatenate(parts)


@pytest.mark.parametrize("output", ["root", "levels", "pooled", "sliding"])
@pytest.mark.parametrize(
    ("arity", "length", "k", "whiten"),
    [(2, 8, None, False), (2, 8, 2, True), (3, 9, 5, False), (4, 4, 3, True)],
)
def test_texts_give_what_the_transcription_gives_node_by_node(output, arity, length, k, whiten):
    pair, sentences = vectors(), texts()
    tree = TreePCA(k, length=length, arity=arity, vectors=pair, whiten=whiten, output=output).fit(sentences)
    actual = tree.transform(sentences)
    for row, sentence in zip(actual, sentences, strict=True):
        reference = expected(tree, padded([sentence], length, pair)[0], min(len(sentence), length))
        np.testing.assert_allclose(row, reference, atol=1e-9)
    assert not actual[[not sentence for sentence in sentences]].any()
    assert actual.shape[1] == len(tree.get_feature_names_out())


@pytest.mark.parametrize("output", ["levels", "pooled", "sliding"])
def test_arrays_in_memory_and_lazily_give_what_the_transcription_gives(output, monkeypatch):
    X = np.random.default_rng(2).standard_normal((25, 8, 3)).cumsum(axis=1)
    tree = TreePCA(length=8, output=output).fit(X)
    reference = np.array([expected(tree, one, 8) for one in X])
    np.testing.assert_allclose(tree.transform(X), reference, atol=1e-9)
    lazy = da.from_array(X, chunks=(7, -1, -1))
    got = tree.transform(lazy)
    assert got.shape == reference.shape
    np.testing.assert_allclose(got.compute(), reference, atol=1e-9)
    monkeypatch.setattr(nodes, "PANEL_NUMBERS", 48)  # two sentences at a time
    np.testing.assert_allclose(tree.transform(X), reference, atol=1e-9)
    assert tree.transform(X[:0]).shape == (0, reference.shape[1])
